#include "causeway/train/hugging_face/model_directory.h"

#include <fnmatch.h>

#include <algorithm>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/base/json_document.h"
#include "causeway/formats/tokenizer/byte_level_json.h"
#include "causeway/formats/tokenizer/json_tokenizer.h"
#include "causeway/formats/tokenizer/tokenizer_settings.h"

namespace causeway::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const std::vector<std::string> kTokenizerFiles = [] {
  std::vector<std::string> names = {"tokenizer.json", "tokenizer.model", "vocab.json", "merges.txt",
                                    "chat_template.jinja"};
  names.insert(names.end(), formats::kTokenizerSettingsNames.begin(), formats::kTokenizerSettingsNames.end());
  return names;
}();
const std::vector<std::string> kModelFiles = {"config.json", "generation_config.json", "model.safetensors",
                                              "model-*-of-*.safetensors", "model.safetensors.index.json"};
constexpr const char* kTokenIds[] = {"bos_token_id", "eos_token_id", "pad_token_id"};

bool matches(const std::string& name, const std::vector<std::string>& patterns) {
  return std::ranges::any_of(
      patterns, [&](const std::string& pattern) { return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0; });
}

// As PyTorch calls them.
const char* torch_name(DType dtype) {
  return dtype == DType::kBF16 ? "bfloat16" : dtype == DType::kF16 ? "float16" : "float32";
}

// Without it readers choose a class by the model's family, which may split text in another way.
nlohmann::ordered_json tokenizer_configuration(const Tokenizer& tokenizer, const ModelConfig& config) {
  const bool is_gpt2 = tokenizer.name() == "gpt2";
  nlohmann::ordered_json settings = {{"tokenizer_class", is_gpt2 ? "GPT2Tokenizer" : "PreTrainedTokenizerFast"},
                                     {"model_max_length", config.max_sequence_length}};
  if (is_gpt2) settings["add_prefix_space"] = false;
  if (const std::optional<int32_t> end = tokenizer.end_of_text()) {
    const std::string text = tokenizer.decode(std::vector<int32_t>{*end});
    settings["eos_token"] = text;
    if (is_gpt2) {
      const std::optional<int32_t> begin = tokenizer.begin_of_text();
      settings["bos_token"] = begin ? tokenizer.decode(std::vector<int32_t>{*begin}) : text;
      settings["unk_token"] = text;
    }
  }
  return settings;
}

}  // namespace

ModelCompanions companions_of(const Tokenizer& tokenizer, const ModelConfig& config) {
  ModelCompanions companions;
  companions.tokenizer_files = tokenizer.files();
  // Bytes need no files here; other software does.
  if (companions.tokenizer_files.empty())
    companions.tokenizer_files[std::string(kTokenizerJsonName)] = byte_tokenizer_json();
  if (const std::optional<int32_t> begin = tokenizer.begin_of_text()) companions.token_ids["bos_token_id"] = *begin;
  if (const std::optional<int32_t> end = tokenizer.end_of_text()) companions.token_ids["eos_token_id"] = *end;
  // One that came with its configuration keeps it.
  std::string& settings = companions.tokenizer_files["tokenizer_config.json"];
  if (settings.empty()) settings = tokenizer_configuration(tokenizer, config).dump(2) + "\n";
  return companions;
}

nlohmann::json token_ids_in(const fs::path& directory) {
  Json ids = Json::object();
  // The second says more, where it is there: all the tokens that end a text.
  for (const char* file : {"config.json", "generation_config.json"}) {
    if (!fs::exists(directory / file)) continue;
    const Json json = read_json_file(
        directory / file,
        {.name = "the configuration", .hint = "Fetch the directory again.", .kind = ErrorKind::kInvalidArgument});
    for (const char* key : kTokenIds)
      if (json.is_object() && json.contains(key) && (!json[key].is_null() || !ids.contains(key))) ids[key] = json[key];
  }
  return ids;
}

ModelCompanions companions_in(const fs::path& directory) {
  ModelCompanions companions;
  companions.others_are_usual = fs::exists(directory / "config.json");
  for (const std::string& name : kTokenizerFiles)
    if (fs::exists(directory / name)) companions.tokenizer_files[name] = read_text_file(directory / name);
  companions.token_ids = token_ids_in(directory);
  return companions;
}

std::vector<int32_t> end_tokens_of_tokenizer(const Tokenizer& tokenizer) {
  if (const std::optional<int32_t> end = tokenizer.end_of_text()) return {*end};
  return {};
}

std::vector<int32_t> end_tokens_in(const std::filesystem::path& directory, const Tokenizer& tokenizer) {
  const nlohmann::json ids = token_ids_in(directory);
  if (!ids.contains("eos_token_id") || ids["eos_token_id"].is_null()) return end_tokens_of_tokenizer(tokenizer);
  const nlohmann::json& said = ids["eos_token_id"];
  const nlohmann::json list = said.is_array() ? said : nlohmann::json::array({said});
  std::vector<int32_t> tokens;
  for (const nlohmann::json& id : list) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > static_cast<uint64_t>(INT32_MAX))
      throw Error(ErrorKind::kInvalidArgument, "eos_token_id is neither the id of a token nor a list of ids",
                  directory.string(), "Correct it in generation_config.json, or in config.json.");
    tokens.push_back(id.get<int32_t>());
  }
  return tokens;
}

ModelDirectory::ModelDirectory(const fs::path& output, bool overwrite)
    : output_(output), overwrite_(overwrite), replacement_(output) {
  require_replaceable();
}

void ModelDirectory::require_replaceable() const {
  std::error_code code;
  if (!fs::is_directory(output_, code)) return;
  bool is_empty = true, holds_model = false;
  for (const fs::directory_entry& entry : fs::directory_iterator(output_)) {
    const std::string name = entry.path().filename().string();
    is_empty = false;
    holds_model = holds_model || name == "config.json";
    if (matches(name, kModelFiles) || matches(name, kTokenizerFiles) || name == kProbeName) continue;
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("the output directory holds something that is no part of a model: {}", name),
                output_.string(), "Choose another directory.");
  }
  if (!is_empty && !holds_model)
    throw Error(ErrorKind::kInvalidArgument, "the output directory holds files of a tokenizer and no model",
                output_.string(), "Choose another directory.");
  if (is_empty || overwrite_) return;
  throw Error(ErrorKind::kInvalidArgument, "the output directory already holds a model", output_.string(),
              "Choose another directory, or say --overwrite to replace it.");
}

void ModelDirectory::write(const ModelConfig& config, DType dtype, const ModelCompanions& companions) const {
  Json json = to_hugging_face(config), generation = Json::object();
  // Under its old name and its new one: transformers 5 writes the second.
  for (const char* key : {"torch_dtype", "dtype"}) json[key] = torch_name(dtype);
  for (const char* key : kTokenIds) {
    if (companions.others_are_usual && !companions.token_ids.contains(key)) continue;
    json[key] = companions.token_ids.value(key, Json());
    if (!json[key].is_null()) generation[key] = json[key];
  }
  // A model's own configuration has one end at most in older readers' eyes; the others are for generation.
  if (const auto ends = json.find("eos_token_id"); ends != json.end() && ends->is_array() && !ends->empty())
    *ends = Json(ends->front());
  write_file_atomically(directory() / "config.json", json.dump(2) + "\n");
  if (generation.contains("eos_token_id"))
    write_file_atomically(directory() / "generation_config.json", generation.dump(2) + "\n");
  for (const auto& [name, content] : companions.tokenizer_files) write_file_atomically(directory() / name, content);
}

void ModelDirectory::commit() {
  // Somebody may have put files there in the meantime.
  require_replaceable();
  replacement_.commit();
}

}  // namespace causeway::train
