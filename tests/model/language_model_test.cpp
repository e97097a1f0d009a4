#include "causeway/model/language_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "causeway/base/error.h"
#include "causeway/base/hash.h"
#include "causeway/model/experts.h"
#include "causeway/model/family.h"
#include "tests/fixtures/op_literal.h"
#include "tests/model/model_test_support.h"

namespace causeway::model {
namespace {

ModelConfig small_language_model_config(const std::string& family) {
  ModelConfig config;
  config.family = family;
  config.vocabulary_size = 61;
  config.layers = 2;
  config.width = 32;
  config.heads = 4;
  if (model_family(family).grouped_queries) config.kv_heads = 2;
  config.ffn_width = family == "llama" ? 48 : 0;
  config.max_sequence_length = 64;
  config.initializer_range = 0.2;
  return config.resolved();
}

std::vector<int32_t> some_tokens(size_t count, int32_t seed) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>((i * 17 + i * i * 5) % 61 + seed) % 61);
  return tokens;
}

class EveryFamily : public testing::TestWithParam<std::string> {
 protected:
  ModelConfig config() const { return small_language_model_config(GetParam()); }
};

// The logits [B, T, V] as plain values.
HostTensor logits(const LanguageModel& model, const Tensor& tokens, const Tensor& documents = {},
                  bool positions_restart = false, const SequenceOrder& order = {}) {
  const bool has_documents = documents.defined();
  const ModelFunction function = [&](const std::vector<Tensor>& arguments) -> std::vector<Tensor> {
    ForwardInputs inputs;
    inputs.tokens = arguments[0];
    if (has_documents) inputs.documents = arguments[1];
    inputs.positions_restart = positions_restart;
    inputs.order = order;
    return {model.logits(inputs)};
  };
  std::vector<Tensor> arguments = {tokens};
  if (has_documents) arguments.push_back(documents);
  return run_on_interpreter(function, arguments).front();
}

std::vector<double> row(const HostTensor& logits, size_t position) {
  const auto vocabulary = static_cast<ptrdiff_t>(logits.shape.back());
  const auto begin = logits.values.begin() + static_cast<ptrdiff_t>(position) * vocabulary;
  return {begin, begin + vocabulary};
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::fabs(a[i] - b[i]));
  return largest;
}

TEST_P(EveryFamily, HasAsManyParametersAsTheConfigurationSays) {
  const auto model = LanguageModel::create(config(), std::nullopt);
  int64_t count = 0;
  for (const Parameter& parameter : model->parameters()) count += element_count(parameter.tensor.shape()).constant();
  EXPECT_EQ(count, parameter_count(config()));
}

TEST_P(EveryFamily, StartsFromNormalWeightsSmallerIntoTheResidualStream) {
  const auto model = LanguageModel::create(config(), 7);
  int residual = 0;
  for (const Parameter& parameter : model->parameters()) {
    const std::vector<double> values = parameter.tensor.values();
    const double n = static_cast<double>(values.size());
    if (!parameter.decays) {
      EXPECT_EQ(parameter.tensor.rank(), 1) << parameter.name;
      // Norms of gemma2 multiply by 1 + weight.
      const double constant = parameter.name.ends_with("bias") || GetParam() == "gemma2" ? 0 : 1;
      EXPECT_EQ(std::count(values.begin(), values.end(), constant), values.size()) << parameter.name;
      continue;
    }
    EXPECT_EQ(parameter.tensor.rank(), parameter.of_experts == ExpertMatrix::kNone ? 2 : 3) << parameter.name;
    double squares = 0;
    for (const double value : values) squares += value * value;
    const bool into_residual = parameter.name.ends_with("c_proj.weight") || parameter.name.ends_with("o_proj.weight") ||
                               parameter.name.ends_with("out_proj.weight") ||
                               parameter.name.ends_with("down_proj.weight") ||
                               parameter.of_experts == ExpertMatrix::kDown;
    residual += into_residual;
    EXPECT_NEAR(std::sqrt(squares / n), into_residual ? 0.1 : 0.2, 0.2 * 5 / std::sqrt(2 * n)) << parameter.name;
  }
  EXPECT_EQ(residual, GetParam() == "qwen2_moe" ? 6 : 4);  // which has a shared expert
}

TEST_P(EveryFamily, TheSeedDecidesTheWeights) {
  const auto a = LanguageModel::create(config(), 7), b = LanguageModel::create(config(), 7),
             c = LanguageModel::create(config(), 8);
  for (size_t i = 0; i < a->parameters().size(); ++i) {
    EXPECT_EQ(a->parameters()[i].tensor.values(), b->parameters()[i].tensor.values());
    if (a->parameters()[i].decays) {
      EXPECT_NE(a->parameters()[i].tensor.values(), c->parameters()[i].tensor.values());
    }
  }
}

// Golden: a change here changes every training run.
TEST(LanguageModel, InitialWeightsKeepTheirBits) {
  const auto hash_of = [](const std::string& family) {
    ModelConfig config = small_language_model_config(family);
    config.vocabulary_size = 1001;
    config.layers = 3;
    config.width = 120;
    config.head_dim = 30;
    const auto model = LanguageModel::create(config, 0x123456789abcdef);
    std::string hashes;
    for (const Parameter& parameter : model->parameters()) {
      std::vector<std::byte> bytes(static_cast<size_t>(parameter.tensor.local_bytes()));
      parameter.tensor.read_bytes(bytes);
      hashes += parameter.name + " " + hash_bytes(bytes).hex() + "\n";
    }
    return hash_text(hashes).hex();
  };
  EXPECT_EQ(hash_of("gpt2"), "4c2df5ffe90df97c3a72bb3842f55428");
  EXPECT_EQ(hash_of("llama"), "1ab3b44a0705470494cb56f6dc73ba2c");
}

TEST_P(EveryFamily, ATokenInfluencesNothingBeforeIt) {
  const auto model = LanguageModel::create(config(), 7);
  std::vector<int32_t> tokens = some_tokens(12, 0);
  const HostTensor before = logits(*model, integers(tokens, {1, 12}));
  tokens[5] = (tokens[5] + 1) % 61;
  const HostTensor after = logits(*model, integers(tokens, {1, 12}));
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(row(before, i), row(after, i)) << i;
  EXPECT_GT(largest_difference(row(before, 5), row(after, 5)), 1e-3);
  EXPECT_GT(largest_difference(row(before, 8), row(after, 8)), 1e-4);
}

TEST_P(EveryFamily, DocumentsDoNotSeeEachOther) {
  const auto model = LanguageModel::create(config(), 7);
  std::vector<int32_t> tokens = some_tokens(12, 0);
  const Tensor documents = integers({3, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4}, {1, 12});
  const HostTensor before = logits(*model, integers(tokens, {1, 12}), documents);
  for (size_t i = 0; i < 5; ++i) tokens[i] = (tokens[i] + 7) % 61;
  const HostTensor after = logits(*model, integers(tokens, {1, 12}), documents);
  EXPECT_GT(largest_difference(row(before, 4), row(after, 4)), 1e-3);
  for (size_t i = 5; i < 12; ++i) EXPECT_EQ(row(before, i), row(after, i)) << i;
  if (GetParam() == "gpt2") return;
  // Where positions are relative, a document reads as it would alone.
  const HostTensor alone = logits(*model, integers({tokens.begin() + 5, tokens.end()}, {1, 7}));
  for (size_t i = 0; i < 7; ++i) EXPECT_LT(largest_difference(row(alone, i), row(after, 5 + i)), 1e-6) << i;
}

TEST_P(EveryFamily, APackedDocumentReadsAsItWouldAlone) {
  const auto model = LanguageModel::create(config(), 7);
  const std::vector<int32_t> tokens = some_tokens(12, 0);
  const Tensor documents = integers({0, 0, 0, 3, 3, 3, 3, 3, 3, 3, 10, 10}, {1, 12});
  const HostTensor packed = logits(*model, integers(tokens, {1, 12}), documents, true);
  const HostTensor alone = logits(*model, integers({tokens.begin() + 3, tokens.begin() + 10}, {1, 7}));
  for (size_t i = 0; i < 7; ++i) EXPECT_LT(largest_difference(row(alone, i), row(packed, 3 + i)), 1e-6) << i;
}

// As ranks hold a sequence that they share: every token reads as in the plain order.
TEST_P(EveryFamily, TheOrderInABatchMakesNoDifference) {
  ModelConfig windowed = config();
  if (GetParam() == "mistral") windowed.own["sliding_window"] = int64_t{5};
  const auto model = LanguageModel::create(windowed, 7);
  const std::vector<int32_t> tokens = some_tokens(24, 0), documents = {0, 0, 0, 0,  0,  0,  0,  0,  0,  0,  0,  0,
                                                                       0, 0, 0, 15, 15, 15, 15, 15, 15, 15, 22, 22};
  for (const int64_t ranks : {2, 3}) {
    const SequenceOrder order = SequenceOrder::balanced(24, ranks);
    const auto in_order = [&](const std::vector<int32_t>& values) {
      std::vector<int32_t> ordered;
      for (int64_t place = 0; place < 24; ++place)
        ordered.push_back(values[static_cast<size_t>(order.position(place))]);
      return integers(ordered, {1, 24});
    };
    const auto compare = [&](const HostTensor& expected, const HostTensor& found) {
      for (size_t place = 0; place < 24; ++place) {
        const auto position = static_cast<size_t>(order.position(static_cast<int64_t>(place)));
        EXPECT_LT(largest_difference(row(expected, position), row(found, place)), 1e-6) << place;
      }
    };
    compare(logits(*model, integers(tokens, {1, 24})), logits(*model, in_order(tokens), {}, false, order));
    for (const bool restart : {false, true})
      compare(logits(*model, integers(tokens, {1, 24}), integers(documents, {1, 24}), restart),
              logits(*model, in_order(tokens), in_order(documents), restart, order));
  }
}

TEST_P(EveryFamily, TheLossIsTheWeightedCrossEntropyOfTheLogits) {
  const auto model = LanguageModel::create(config(), 7);
  const std::vector<int32_t> targets = {3, -1, 60, 0, -100, 5};
  const std::vector<double> weights = {1, 2, 0.5, 0, 1, 3};
  const ModelFunction function = [&](const std::vector<Tensor>& arguments) -> std::vector<Tensor> {
    const ForwardInputs inputs = {.tokens = arguments[0], .documents = {}, .dropout_key = {}};
    return {model->logits(inputs), model->loss(inputs, arguments[1], arguments[2])};
  };
  const std::vector<HostTensor> results = run_on_interpreter(
      function, {integers(some_tokens(6, 2), {2, 3}), integers(targets, {2, 3}), Tensor::from_values(weights, {2, 3})});
  double loss = 0;
  for (size_t i = 0; i < 6; ++i) {
    if (targets[i] < 0) continue;
    const std::vector<double> scores = row(results[0], i);
    double total = 0;
    for (const double score : scores) total += std::exp(score);
    loss += weights[i] * (std::log(total) - scores[static_cast<size_t>(targets[i])]);
  }
  EXPECT_NEAR(results[1].values.front(), loss, 1e-6 * loss);
}

TEST_P(EveryFamily, DropoutNeedsAKeyAndIsDecidedByIt) {
  ModelConfig dropping = config();
  dropping.dropout = 0.3;
  const auto model = LanguageModel::create(dropping, 7), plain = LanguageModel::create(config(), 7);
  const Tensor tokens = integers(some_tokens(8, 1), {1, 8});
  const ModelFunction with_key = [&](const std::vector<Tensor>& arguments) -> std::vector<Tensor> {
    return {model->hidden_states({.tokens = arguments[0], .documents = {}, .dropout_key = arguments[1]})};
  };
  const ModelFunction without_key = [&](const std::vector<Tensor>& arguments) -> std::vector<Tensor> {
    return {model->hidden_states({.tokens = arguments[0], .documents = {}, .dropout_key = {}})};
  };
  const auto run = [&](int64_t step) {
    return run_on_interpreter(with_key, {tokens, random_key(5, step)}).front().values;
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
  EXPECT_EQ(logits(*model, tokens).values, logits(*plain, tokens).values);
  // On the embedding, and on the attention and feed-forward output of each layer; with numbers of their own.
  std::map<std::string, int> draws;
  std::vector<int64_t> streams;
  const Graph graph = trace_graph(with_key, {tokens, random_key(5, 1)});
  for (const Node& node : graph.nodes()) {
    if (node.op != "random_bits"_op) continue;
    ++draws[node.scope];
    streams.push_back(node.attributes.stream);
  }
  EXPECT_EQ(draws, (std::map<std::string, int>{{"embedding", 1},
                                               {"layers.0.attention", 1},
                                               {"layers.0.mlp", 1},
                                               {"layers.1.attention", 1},
                                               {"layers.1.mlp", 1}}));
  std::sort(streams.begin(), streams.end());
  EXPECT_EQ(std::adjacent_find(streams.begin(), streams.end()), streams.end());
}

TEST_P(EveryFamily, EveryGemmIsOfTwoMatrices) {
  const auto model = LanguageModel::create(config(), std::nullopt);
  const ModelFunction function = [&](const std::vector<Tensor>& arguments) -> std::vector<Tensor> {
    return {model->hidden_states({.tokens = arguments[0], .documents = {}, .dropout_key = {}})};
  };
  int dots = 0;
  const Graph graph = trace_graph(function, {integers(some_tokens(8, 1), {2, 4})});
  for (const Node& node : graph.nodes()) {
    if (node.op != "dot"_op) continue;
    ++dots;
    EXPECT_EQ(node.outputs.front().shape.size(), 2u) << node.scope;
  }
  int expected = 14;
  if (GetParam() == "gpt2" || GetParam() == "mpt") expected = 8;  // queries, keys and values together; and no gate
  if (expert_shape(config())) expected = 10;                      // a router in place of three matrices
  if (GetParam() == "qwen2_moe") expected = 18;                   // beside it a shared expert and its gate
  EXPECT_EQ(dots, expected);
}

TEST_P(EveryFamily, OneProgramServesEveryLength) {
  const auto model = LanguageModel::create(config(), 7);
  StepOptions options;
  options.symbolic = {{0, 1, "T", 1}};
  Step step(
      [&](const std::vector<Tensor>& arguments) -> std::vector<Tensor> {
        return {model->logits({.tokens = arguments[0], .documents = {}, .dropout_key = {}})};
      },
      options);
  for (const int64_t length : {5, 12, 1}) {
    const Tensor tokens = integers(some_tokens(static_cast<size_t>(length), 3), {1, length});
    const HostTensor actual = to_host(step({tokens}).front());
    const Comparison comparison = compare(actual, logits(*model, tokens), {.rms = 4e-6, .row = 5e-5, .ulps = 1});
    EXPECT_TRUE(comparison.equal) << "length " << length << ": " << comparison.text;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, EveryFamily,
                         testing::Values("gemma2", "gpt2", "llama", "mistral", "mixtral", "mpt", "olmo2", "olmoe",
                                         "qwen2", "qwen2_moe", "qwen3", "qwen3_moe"),
                         [](const auto& info) { return info.param; });

TEST(Mistral, SeesOnlyItsWindow) {
  ModelConfig config = small_language_model_config("mistral");
  config.layers = 1;
  config.own["sliding_window"] = int64_t{3};
  const auto model = LanguageModel::create(config, 7);
  std::vector<int32_t> tokens = some_tokens(8, 0);
  const HostTensor before = logits(*model, integers(tokens, {1, 8}));
  tokens[2] = (tokens[2] + 1) % 61;
  const HostTensor after = logits(*model, integers(tokens, {1, 8}));
  for (const size_t i : {0, 1, 5, 6, 7}) EXPECT_EQ(row(before, i), row(after, i)) << i;
  for (const size_t i : {2, 3, 4}) EXPECT_GT(largest_difference(row(before, i), row(after, i)), 1e-4) << i;
}

TEST(Gemma2, SeesOnlyItsWindowInEveryOtherLayer) {
  ModelConfig config = small_language_model_config("gemma2");
  config.own["sliding_window"] = int64_t{3};
  for (const int64_t layers : {1, 2}) {
    config.layers = layers;
    const auto model = LanguageModel::create(config, 7);
    std::vector<int32_t> tokens = some_tokens(8, 0);
    const HostTensor before = logits(*model, integers(tokens, {1, 8}));
    tokens[2] = (tokens[2] + 1) % 61;
    const HostTensor after = logits(*model, integers(tokens, {1, 8}));
    for (const size_t i : {5, 6, 7})
      EXPECT_EQ(row(before, i) == row(after, i), layers == 1) << i << " of " << layers << " layers";
  }
}

TEST(Gemma2, CapsItsLogitsWhereverTheyAreMade) {
  ModelConfig config = small_language_model_config("gemma2");
  config.own["logit_softcap"] = 0.5;
  const auto model = LanguageModel::create(config, 7);
  const ModelFunction function = [&](const std::vector<Tensor>& arguments) -> std::vector<Tensor> {
    const ForwardInputs inputs = {.tokens = arguments[0], .documents = {}, .dropout_key = {}};
    return {model->logits(inputs), model->next_logits(inputs), model->logits_of(model->hidden_states(inputs))};
  };
  const std::vector<HostTensor> all = run_on_interpreter(function, {integers(some_tokens(6, 2), {1, 6})});
  double largest = 0;
  for (const double logit : all[0].values) largest = std::max(largest, std::fabs(logit));
  EXPECT_LT(largest, 0.5);
  EXPECT_GT(largest, 0.45);
  EXPECT_EQ(all[1].values, row(all[0], 5));
  EXPECT_EQ(all[2].values, all[0].values);
}

TEST(LanguageModel, NamesTheNearestParameter) {
  const auto model = LanguageModel::create(small_language_model_config("llama"), std::nullopt);
  EXPECT_EQ(model->parameter("model.layers.1.mlp.up_proj.weight").tensor.shape(), (Shape{48, 32}));
  try {
    model->parameter("model.layers.1.mlp.upproj.weight");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
    EXPECT_EQ(error.message(), "the llama model has no parameter 'model.layers.1.mlp.upproj.weight'");
    EXPECT_EQ(error.hint(), "Did you mean model.layers.1.mlp.up_proj.weight?");
  }
}

TEST(Gpt2, RefusesSequencesLongerThanItsPositionTable) {
  const auto model = LanguageModel::create(small_language_model_config("gpt2"), std::nullopt);
  try {
    trace_graph(
        [&](const std::vector<Tensor>& arguments) -> std::vector<Tensor> {
          return {model->hidden_states({.tokens = arguments[0], .documents = {}, .dropout_key = {}})};
        },
        {integers(some_tokens(65, 1), {1, 65})});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "a sequence of 65 tokens, but the position table has 64 entries");
    EXPECT_EQ(error.where(), "embedding");
  }
}

// Multiplies what makes queries in a layer of GPT-2.
void scale_queries(const LanguageModel& model, int64_t layer, float factor) {
  Tensor weight = model.parameter(fmt::format("transformer.h.{}.attn.c_attn.weight", layer)).tensor;
  const std::vector<double> given = weight.values();
  std::vector<float> values(given.begin(), given.end());
  const auto width = static_cast<size_t>(model.config().width);
  for (size_t i = 0; i < values.size(); ++i)
    if (i % (3 * width) < width) values[i] *= factor;
  weight.write_bytes(std::as_bytes(std::span<const float>(values)));
}

TEST(Gpt2, ScalesAttentionAsItsConfigurationSays) {
  ModelConfig config = small_language_model_config("gpt2");
  config.width = 64;  // heads of 16: their root is a power of 2, so that all factors are exact
  config.head_dim = 0;
  config.ffn_width = 0;
  const auto same = [&](bool scales, bool by_layer, float first, float second) {
    ModelConfig other = config;
    other.own["scale_attention"] = scales;
    other.own["scale_attention_by_layer"] = by_layer;
    const auto plain = LanguageModel::create(config.resolved(), 3), model = LanguageModel::create(other.resolved(), 3);
    scale_queries(*plain, 0, first);
    scale_queries(*plain, 1, second);
    const Tensor tokens = integers(some_tokens(12, 1), {1, 12});
    return logits(*plain, tokens).values == logits(*model, tokens).values;
  };
  EXPECT_TRUE(same(false, false, 4, 4));
  EXPECT_TRUE(same(true, true, 1, 0.5));
  EXPECT_TRUE(same(false, true, 4, 2));
  EXPECT_FALSE(same(false, false, 1, 1));
}

}  // namespace
}  // namespace causeway::model
