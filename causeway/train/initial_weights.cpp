#include "causeway/train/initial_weights.h"

#include <fmt/ranges.h>

#include <functional>
#include <optional>
#include <sstream>

#include "causeway/base/error.h"
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
  naming_directory([&] {
    weights.emplace(recipe.model_from);
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
