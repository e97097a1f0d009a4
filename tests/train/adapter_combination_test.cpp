// Several adapters over one base against PEFT's add_weighted_adapter(), by the fixtures of
// tests/fixtures/adapters/llama_combined (tools/make_adapter_combination_fixtures.py).
#include "causeway/train/adapter_combination.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "causeway/model/hugging_face.h"
#include "causeway/train/adapted_model.h"
#include "tests/fixtures/error_message.h"
#include "tests/model/model_test_support.h"

namespace causeway::train {
namespace {

using ::testing::HasSubstr;

const std::string kCombinedFixtures = CAUSEWAY_SOURCE_DIR "/tests/fixtures/adapters/";
const std::string kCombinedBase = CAUSEWAY_SOURCE_DIR "/tests/fixtures/parity/llama";

std::vector<WeightedAdapter> weighted(const std::vector<std::string>& texts) {
  std::vector<WeightedAdapter> adapters;
  for (const std::string& text : texts) adapters.push_back(parse_weighted_adapter(kCombinedFixtures + text));
  return adapters;
}

HostTensor host_tensor(const SafetensorsFile& file, const std::string& name) {
  return from_bytes(file.dtype(name), file.entry(name).shape, file.data(name).data());
}

HostTensor logits_of_first_row(const LanguageModel& model) {
  const SafetensorsFile fixture(kCombinedBase + "/expected.safetensors");
  HostTensor ids = host_tensor(fixture, "input_ids");
  ids.values.resize(static_cast<size_t>(ids.shape[1]));
  const Tensor tokens = Tensor::from_values(ids.values, {1, ids.shape[1]}, DType::kI32);
  const auto function = [&](const std::vector<Tensor>& given) {
    return std::vector<Tensor>{model.logits({.tokens = given[0], .documents = {}, .dropout_key = {}})};
  };
  return model::run_on_cpu(function, {tokens}).front();
}

TEST(AdapterCombination, IsThatOfPeft) {
  const SafetensorsFile expected(kCombinedFixtures + "llama_combined/expected.safetensors");
  for (const AdapterCombination combination : {AdapterCombination::kCat, AdapterCombination::kLinear}) {
    const std::string name(name_of(combination));
    const AdaptedModel adapted =
        load_adapted_model(kCombinedBase, weighted({"llama_lora=0.75", "llama_second=-0.5"}), combination);
    EXPECT_EQ(adapted.recipe.adapter.rank, combination == AdapterCombination::kCat ? 8 : 4);
    EXPECT_EQ(adapted.recipe.adapter.scale(), 1);
    const Comparison comparison = compare(logits_of_first_row(*adapted.model), host_tensor(expected, name),
                                          {.rms = 4e-6, .row = 5e-5, .ulps = 1});
    EXPECT_TRUE(comparison.equal) << name << ": " << comparison.text;
  }
}

// The order of adapters makes no difference to their sum, and one of weight 1 is as it is alone.
TEST(AdapterCombination, OneIsItself) {
  const SafetensorsFile expected(kCombinedFixtures + "llama_dora/expected.safetensors");
  const AdaptedModel dora = load_adapted_model(kCombinedBase, weighted({"llama_dora"}), AdapterCombination::kCat);
  EXPECT_EQ(dora.recipe.adapter.kind, AdapterKind::kDora);
  const Comparison comparison =
      compare(logits_of_first_row(*dora.model), host_tensor(expected, "logits"), {.rms = 4e-6, .row = 5e-5, .ulps = 1});
  EXPECT_TRUE(comparison.equal) << comparison.text;
  // Of weight 0 it adds nothing.
  const AdaptedModel none = load_adapted_model(kCombinedBase, weighted({"llama_lora=0"}), AdapterCombination::kCat);
  const auto base = load_hugging_face_model(kCombinedBase);
  EXPECT_EQ(logits_of_first_row(*none.model).values, logits_of_first_row(*base).values);
}

// An adapter that was trained on a base of that form (lora.base).
class AdapterOnBase final : public StoredAdapter {
 public:
  explicit AdapterOnBase(BaseWeights base) {
    directory_ = std::string(name_of(base));
    config_ = {.rank = 2, .base = base};
  }
  std::string identity() const override { return {}; }
  void load(LanguageModel&) const override {}
  std::vector<std::string> matrices() const override { return {}; }
  std::vector<float> read(const std::string&, const std::vector<int64_t>&) const override { return {}; }
};

TEST(AdapterCombination, TheBaseLiesAsTheyWereTrainedOnIt) {
  const auto combined = [](BaseWeights first, BaseWeights second) {
    const std::vector<WeightedAdapter> both = {{std::make_shared<AdapterOnBase>(first), 1},
                                               {std::make_shared<AdapterOnBase>(second), 1}};
    return combined_adapter(both, AdapterCombination::kCat);
  };
  EXPECT_EQ(combined(BaseWeights::kNf4, BaseWeights::kNf4).base, BaseWeights::kNf4);
  EXPECT_THAT(message_of([&] { combined(BaseWeights::kNf4, BaseWeights::kUnquantized); }),
              HasSubstr("was trained on a base of lora.base=unquantized, and that of nf4 on one of nf4"));
}

TEST(AdapterCombination, WhatDoesNotGoTogetherIsNamed) {
  const auto message = [](const std::vector<std::string>& texts, AdapterCombination combination) {
    return message_of([&] { combined_adapter(weighted(texts), combination); });
  };
  EXPECT_THAT(message({"llama_lora", "llama_dora"}, AdapterCombination::kCat), HasSubstr("DoRA brings the rows"));
  EXPECT_THAT(message({"llama_dora=0.5"}, AdapterCombination::kCat), HasSubstr("DoRA brings the rows"));
  EXPECT_THAT(message({"llama_lora", "qwen2_lora"}, AdapterCombination::kLinear),
              HasSubstr("the adapter has rank 2, and that of"));
  EXPECT_THAT(message_of([] { weighted({"llama_lora=x"}); }), HasSubstr("'x' is no weight of an adapter"));
  EXPECT_THAT(message_of([] { weighted({"llama_lora=inf"}); }), HasSubstr("'inf' is no weight of an adapter"));
  EXPECT_THAT(message_of([] { weighted({"nowhere"}); }),
              HasSubstr("holds neither adapter_config.json nor a checkpoint"));
  // Of another model's sizes and names.
  EXPECT_THAT(message_of([] {
                load_adapted_model(kCombinedBase, weighted({"llama_lora", "gpt2_lora"}), AdapterCombination::kCat);
              }),
              HasSubstr("names no matrix in the layers of llama"));
}

}  // namespace
}  // namespace causeway::train
