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

}  // namespace

void load_initial_weights(const Ranks& ranks, const Recipe& recipe, LanguageModel& model) {
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
    if (ranks.count() > 1) samples = samples_of(*weights);
  });
  ranks.require_equal(samples, "other weights in " + recipe.model_from,
                      "Give every machine the same files: put the model where all of them see it.");
  naming_directory([&] {
    for (const StoredWeight& weight : load_parameters(model, *weights)) read.push_back(weight.stored_name);
  });
  // What one rank has not read is another stage's, or nobody's.
  std::vector<std::string> read_by_all;
  for (const std::string& of_rank : ranks.gather(fmt::format("{}", fmt::join(read, "\n")))) {
    std::istringstream lines(of_rank);
    for (std::string name; std::getline(lines, name);) read_by_all.push_back(name);
  }
  naming_directory([&] { require_no_other_tensors(model.config(), *weights, read_by_all); });
}

}  // namespace causeway::train
