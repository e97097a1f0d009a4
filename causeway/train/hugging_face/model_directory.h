// A model's directory as Hugging Face's software reads it, written beside the place where it is to be and put there
// when it is whole. What export and import have in common.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "causeway/data/directory_replacement.h"
#include "causeway/formats/safetensors.h"
#include "causeway/formats/tokenizer/tokenizer.h"
#include "causeway/model/config.h"

namespace causeway::train {

// What a directory says beside the model itself.
struct ModelCompanions {
  // "bos_token_id", "eos_token_id" and "pad_token_id" as config.json has them: numbers, lists of them, or null.
  nlohmann::json token_ids = nlohmann::json::object();
  // What is absent among them is read as the family's usual token, so null is written for it, unless that is meant.
  bool others_are_usual = false;
  std::map<std::string, std::string> tokenizer_files;  // content by name
};

// Of a tokenizer of our own: its files, with what tells transformers how to read them, and the tokens that begin and
// end its texts. Of bytes the tokenizer.json that stands for them.
ModelCompanions companions_of(const Tokenizer& tokenizer, const ModelConfig& config);
// What stands in a Hugging Face directory, byte for byte.
ModelCompanions companions_in(const std::filesystem::path& directory);

// "bos_token_id" and so on as a Hugging Face directory says them, null where that is all that is said: those of
// generation_config.json over those of config.json, as transformers generates.
nlohmann::json token_ids_in(const std::filesystem::path& directory);

// The tokens any of which ends a text: of a Hugging Face directory what it says as eos_token_id, one or several, or
// else what the tokenizer says. Throws Error(kInvalidArgument) for what is no id.
std::vector<int32_t> end_tokens_in(const std::filesystem::path& directory, const Tokenizer& tokenizer);
std::vector<int32_t> end_tokens_of_tokenizer(const Tokenizer& tokenizer);

class ModelDirectory {
 public:
  // Throws Error(kInvalidArgument) where `output` holds anything, unless it is to be overwritten and holds a model and
  // nothing else; and as DirectoryReplacement does.
  ModelDirectory(const std::filesystem::path& output, bool overwrite);

  // Where it is written.
  const std::filesystem::path& directory() const { return replacement_.directory(); }
  // config.json, generation_config.json where there is an end of text, and the tokenizer's files. `dtype` is that of
  // most weights.
  void write(const ModelConfig& config, DType dtype, const ModelCompanions& companions) const;
  // Puts it in its place. Throws as the constructor does for what is there by now.
  void commit();

 private:
  void require_replaceable() const;

  std::filesystem::path output_;
  bool overwrite_;
  data::DirectoryReplacement replacement_;
};

// The file that holds a probe of an export (model_probe.h).
constexpr char kProbeName[] = "causeway_probe.json";

}  // namespace causeway::train
