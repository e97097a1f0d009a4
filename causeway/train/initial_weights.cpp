#include "causeway/train/initial_weights.h"

#include <fmt/ranges.h>

#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/base/hash.h"
#include "causeway/model/hugging_face.h"
#include "causeway/train/stored_adapter.h"
#include "causeway/train/stored_model.h"

namespace causeway::train {

void require_fitting_vocabulary(const Recipe& recipe, const TokenDataset& dataset) {
  const std::optional<TokenizerIdentity>& tokenizer = dataset.tokenizer_identity();
  if (!tokenizer || tokenizer->vocabulary_size <= recipe.model.vocabulary_size) return;
  throw Error(ErrorKind::kInvalidArgument,
              fmt::format("the dataset's tokenizer ({}) has {} tokens, and the model of {} an embedding of {}",
                          tokenizer->name, tokenizer->vocabulary_size, recipe.model_from, recipe.model.vocabulary_size),
              dataset.path().string(), "Prepare the data with the tokenizer that the model was trained with.");
}

void load_base_weights(const Recipe& recipe, const std::string& identity, LanguageModel& model) {
  try {
    open_base(recipe.model_from, identity)->load(model);
  } catch (const Error& error) {
    throw error.where() == "model.from" ? error : naming_directory_of(error, recipe.model_from);
  }
}

void load_initial_adapters(const Ranks& ranks, const Recipe& recipe, LanguageModel& model) {
  ranks.together([&] {
    if (recipe.adapter_from.empty()) return initialize_adapters(model, static_cast<uint64_t>(recipe.train.seed));
    const std::unique_ptr<StoredAdapter> adapter = StoredAdapter::open(recipe.adapter_from);
    adapter->require_base(*StoredModel::open(recipe.model_from), recipe.model_from);
    adapter->load(model);
  });
}

std::string load_initial_weights(const Ranks& ranks, const Recipe& recipe, LanguageModel& model) {
  const auto naming_directory = [&](const std::function<void()>& work) {
    ranks.together([&] {
      try {
        work();
      } catch (const Error& error) {
        throw error.where() == "model.from" ? error : naming_directory_of(error, recipe.model_from);
      }
    });
  };
  std::unique_ptr<StoredModel> weights;
  std::vector<std::string> read;
  std::string description;
  naming_directory([&] {
    weights = StoredModel::open(recipe.model_from);
    description = weights->description();
  });
  ranks.require_equal(description, "other weights in " + recipe.model_from,
                      "Give every machine the same files: put the model where all of them see it.");
  naming_directory([&] {
    // A language model has no score.
    const bool begins_score = model.config().score_head && !read_hugging_face_config(recipe.model_from).score_head;
    read = weights->load(model, begins_score ? kScoreWeight : "");
    if (begins_score) model.initialize_score(static_cast<uint64_t>(recipe.train.seed));
  });
  // What one rank has not read is another stage's, or nobody's.
  std::vector<std::string> read_by_all;
  for (const std::string& of_rank : ranks.gather(fmt::format("{}", fmt::join(read, "\n")))) {
    std::istringstream lines(of_rank);
    for (std::string name; std::getline(lines, name);) read_by_all.push_back(name);
  }
  naming_directory([&] { weights->require_no_other_tensors(model.config(), read_by_all); });
  return hash_text(description).hex();
}

}  // namespace causeway::train
