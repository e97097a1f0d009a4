#include "causeway/train/initial_weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <sstream>

#include "causeway/base/error.h"
#include "causeway/base/hash.h"
#include "causeway/formats/safetensors.h"
#include "causeway/model/hugging_face.h"
#include "causeway/model/peft_adapter.h"

namespace causeway::train {

void require_fitting_vocabulary(const Recipe& recipe, const TokenDataset& dataset) {
  const std::optional<TokenizerIdentity>& tokenizer = dataset.tokenizer_identity();
  if (!tokenizer || tokenizer->vocabulary_size <= recipe.model.vocabulary_size) return;
  throw Error(ErrorKind::kInvalidArgument,
              fmt::format("the dataset's tokenizer ({}) has {} tokens, and the model of {} an embedding of {}",
                          tokenizer->name, tokenizer->vocabulary_size, recipe.model_from, recipe.model.vocabulary_size),
              dataset.path().string(), "Prepare the data with the tokenizer that the model was trained with.");
}

namespace {

// A line for each tensor, with a hash of its first, middle and last bytes: of two models that were trained at all those
// differ, and weights of many gigabytes need not be read by every rank.
std::string samples_of(const SafetensorsModel& weights) {
  constexpr size_t kSample = 4096;
  std::string text;
  for (const std::string& name : weights.names()) {
    const std::span<const std::byte> data = weights.data(name);
    std::vector<std::byte> sample;
    for (const size_t begin : {size_t{0}, data.size() / 2, data.size() - std::min(kSample, data.size())}) {
      const auto piece = data.subspan(begin, std::min(kSample, data.size() - begin));
      sample.insert(sample.end(), piece.begin(), piece.end());
    }
    text += fmt::format("{}: {} bytes, {}\n", name, data.size(), hash_bytes(sample).hex());
  }
  return text;
}

[[noreturn]] void refuse_base(const std::string& what, const std::string& was, const std::string& directory,
                              const std::string& is) {
  throw Error(ErrorKind::kInvalidArgument,
              fmt::format("{} were trained on another base model ({}) than that of {} ({})", what, was, directory, is),
              "model.from", "Name the directory of the model that they were trained on.");
}

}  // namespace

std::string base_identity(const SafetensorsModel& weights) { return hash_text(samples_of(weights)).hex(); }

void load_base_weights(const Recipe& recipe, const std::string& identity, LanguageModel& model) {
  std::error_code code;
  if (!std::filesystem::is_directory(recipe.model_from, code))
    throw Error(ErrorKind::kNotFound,
                fmt::format("the base model of the adapters is not in {} any more", recipe.model_from), "model.from",
                "Checkpoints of such a run hold the adapters alone: put the model back where it was.");
  try {
    const SafetensorsModel weights(recipe.model_from);
    const std::string found = base_identity(weights);
    if (!identity.empty() && found != identity) refuse_base("the adapters", identity, recipe.model_from, found);
    load_parameters(model, weights);
  } catch (const Error& error) {
    throw error.where() == "model.from" ? error : naming_directory_of(error, recipe.model_from);
  }
}

void load_initial_adapters(const Ranks& ranks, const Recipe& recipe, const std::string& identity,
                           LanguageModel& model) {
  ranks.together([&] {
    if (recipe.adapter_from.empty()) return initialize_adapters(model, static_cast<uint64_t>(recipe.train.seed));
    const std::string was = read_peft_config(recipe.adapter_from).base_identity;
    if (!was.empty() && was != identity)
      refuse_base(fmt::format("the adapters of {}", recipe.adapter_from), was, recipe.model_from, identity);
    load_peft_weights(model, recipe.adapter_from);
  });
}

std::string load_initial_weights(const Ranks& ranks, const Recipe& recipe, LanguageModel& model) {
  const auto naming_directory = [&](const std::function<void()>& work) {
    ranks.together([&] {
      try {
        work();
      } catch (const Error& error) {
        throw naming_directory_of(error, recipe.model_from);
      }
    });
  };
  std::optional<SafetensorsModel> weights;
  std::vector<std::string> read;
  std::string samples;
  naming_directory([&] {
    weights.emplace(recipe.model_from);
    samples = samples_of(*weights);
  });
  ranks.require_equal(samples, "other weights in " + recipe.model_from,
                      "Give every machine the same files: put the model where all of them see it.");
  naming_directory([&] {
    // A language model has no score.
    const bool begins_score =
        model.config().score_head && !read_hugging_face_config(recipe.model_from).score_head;
    for (const StoredWeight& weight : load_parameters(model, *weights, begins_score ? kScoreWeight : ""))
      read.push_back(weight.stored_name);
    if (begins_score) model.initialize_score(static_cast<uint64_t>(recipe.train.seed));
  });
  // What one rank has not read is another stage's, or nobody's.
  std::vector<std::string> read_by_all;
  for (const std::string& of_rank : ranks.gather(fmt::format("{}", fmt::join(read, "\n")))) {
    std::istringstream lines(of_rank);
    for (std::string name; std::getline(lines, name);) read_by_all.push_back(name);
  }
  naming_directory([&] { require_no_other_tensors(model.config(), *weights, read_by_all); });
  return hash_text(samples).hex();
}

}  // namespace causeway::train
