#include "causeway/model/peft_adapter.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/base/json_document.h"
#include "causeway/formats/safetensors.h"
#include "causeway/model/hugging_face.h"
#include "causeway/passes/recompute.h"

namespace causeway::model {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kPeftPrefix = "base_model.model.";
constexpr char kBaseIdentity[] = "causeway_base", kBaseWeights[] = "causeway_base_weights";  // the file's metadata
constexpr std::string_view kAdapterEnds[] = {".lora_A.weight", ".lora_B.weight", ".lora_magnitude_vector"};

// Keys that change nothing of what adapters that are stored compute.
const std::set<std::string> kWithoutEffect = {"auto_mapping",
                                              "base_model_name_or_path",
                                              "ensure_weight_tying",
                                              "exclude_modules",
                                              "fan_in_fan_out",
                                              "inference_mode",
                                              "layers_pattern",
                                              "layers_to_transform",
                                              "lora_ga_config",
                                              "megatron_core",
                                              "peft_version",
                                              "qalora_group_size",
                                              "revision",
                                              "target_modules",
                                              "task_type"};

[[noreturn]] void refuse_option(const std::string& key, const Json& value) {
  throw Error(ErrorKind::kUnsupported, fmt::format("{} = {}", key, value.dump()), kPeftConfigName,
              "Adapters are read that are LoRA, rsLoRA or DoRA of one rank on matrices, and nothing else.");
}

bool says_nothing(const Json& value) {
  return value.is_null() || value == false || value == 0 || ((value.is_object() || value.is_array()) && value.empty());
}

// Starting values that do not change the base.
bool leaves_base_alone(const Json& start) {
  if (!start.is_string()) return start.is_boolean();
  return start == "gaussian" || start == "eva" || start == "orthogonal";
}

template <class T>
T entry_of(const Json& json, const char* key, T absent) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return absent;
  try {
    return found->get<T>();
  } catch (const Json::exception&) {
    throw Error(ErrorKind::kInvalidArgument, fmt::format("{} = {} is of another kind", key, found->dump()),
                kPeftConfigName, "Fetch the adapter again.");
  }
}

// The matrix that a tensor belongs to, and which part of its adapter it is.
std::pair<std::string, std::string> parts_of(const std::string& stored, const std::filesystem::path& path) {
  std::string name = stored.starts_with(kPeftPrefix) ? stored.substr(kPeftPrefix.size()) : stored;
  for (const std::string_view end : kAdapterEnds)
    if (name.ends_with(end)) return {name.substr(0, name.size() - end.size()), std::string(end)};
  throw Error(ErrorKind::kUnsupported, "is no part of a LoRA adapter of a matrix",
              fmt::format("{}: {}", path.string(), stored),
              "Adapters of embeddings and modules saved beside them are not implemented.");
}

std::set<std::string> matrices_in(const SafetensorsFile& file) {
  std::set<std::string> matrices;
  for (const std::string& name : file.names()) matrices.insert(parts_of(name, file.path()).first);
  return matrices;
}

// PEFT's lists have the meaning that lora.targets has, but one for many families may name what this model lacks: what
// no matrix of the weights is meant by is left out. What says it in another way is told by the weights.
std::string targets_in(const Json& json, const std::set<std::string>& matrices) {
  const auto says = [&](const char* key) { return json.contains(key) && !says_nothing(json[key]); };
  const bool is_list = json.contains("target_modules") && json["target_modules"].is_array() &&
                       !says("layers_to_transform") && !says("exclude_modules");
  if (!is_list) return fmt::format("{}", fmt::join(matrices, ","));
  std::vector<std::string> targets;
  for (const Json& one : json["target_modules"]) {
    if (!one.is_string()) continue;
    const auto pattern = one.get<std::string>();
    if (std::ranges::any_of(matrices, [&](const std::string& name) { return matches_target(pattern, name); }))
      targets.push_back(pattern);
  }
  if (targets.empty())
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("target_modules = {} names no matrix of the weights", json["target_modules"].dump()),
                kPeftConfigName, fmt::format("Check that it and {} belong together.", kPeftWeightsName));
  return fmt::format("{}", fmt::join(targets, ","));
}

// The same of a model's, for PEFT: without what only lora.targets has.
std::set<std::string> peft_targets(const LanguageModel& model) {
  std::set<std::string> found;
  for (const std::string& pattern : target_patterns(model.adapter().targets))
    if (pattern != kAllLinear && pattern.find_first_of("*?") == std::string::npos) {
      found.insert(pattern);
    } else {
      for (const Matrix& matrix : model.matrices())
        if (matches_target(pattern, matrix.name))
          found.insert(pattern == kAllLinear ? matrix.name.substr(passes::block_of_scope(matrix.name).size() + 1)
                                             : matrix.name);
    }
  return found;
}

}  // namespace

AdapterConfig from_peft(const Json& json) {
  if (!json.is_object())
    throw Error(ErrorKind::kInvalidArgument, "is no object", kPeftConfigName, "Fetch the adapter again.");
  const auto kind = entry_of<std::string>(json, "peft_type", "");
  if (kind != "LORA") refuse_option("peft_type", kind);
  AdapterConfig adapter;
  adapter.rank = entry_of<int64_t>(json, "r", 8);
  adapter.alpha = entry_of<double>(json, "lora_alpha", 8);
  adapter.dropout = entry_of<double>(json, "lora_dropout", 0);
  const bool is_dora = entry_of<bool>(json, "use_dora", false), is_rslora = entry_of<bool>(json, "use_rslora", false);
  if (is_dora && is_rslora) refuse_option("use_dora with use_rslora", true);
  adapter.kind = is_dora ? AdapterKind::kDora : is_rslora ? AdapterKind::kRslora : AdapterKind::kLora;
  if (entry_of<std::string>(json, "bias", "none") != "none") refuse_option("bias", json["bias"]);
  if (adapter.rank < 1 || adapter.rank > (1 << 16)) refuse_option("r", adapter.rank);
  if (!(adapter.alpha > 0)) refuse_option("lora_alpha", adapter.alpha);
  if (!(adapter.dropout >= 0 && adapter.dropout < 1)) refuse_option("lora_dropout", adapter.dropout);
  for (const auto& [key, value] : json.items()) {
    const bool is_read = key == "peft_type" || key == "r" || key == "lora_alpha" || key == "lora_dropout" ||
                         key == "use_dora" || key == "use_rslora" || key == "bias";
    if (is_read || kWithoutEffect.contains(key) || says_nothing(value)) continue;
    if (key == "init_lora_weights" && leaves_base_alone(value)) continue;
    refuse_option(key, value);
  }
  return adapter;
}

Json to_peft(const AdapterConfig& adapter) {
  Json alpha = adapter.alpha;
  if (adapter.alpha == std::trunc(adapter.alpha) && adapter.alpha < 1e15) alpha = static_cast<int64_t>(adapter.alpha);
  return {{"peft_type", "LORA"},
          {"task_type", "CAUSAL_LM"},
          {"r", adapter.rank},
          {"lora_alpha", alpha},
          {"lora_dropout", adapter.dropout},
          {"bias", "none"},
          {"use_rslora", adapter.kind == AdapterKind::kRslora},
          {"use_dora", adapter.kind == AdapterKind::kDora},
          {"init_lora_weights", true},
          {"inference_mode", true}};
}

PeftAdapter read_peft_config(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / kPeftConfigName;
  std::error_code code;
  if (!std::filesystem::exists(path, code))
    throw Error(ErrorKind::kNotFound, fmt::format("holds no {}", kPeftConfigName), directory.string(),
                "Give a directory that PEFT saved, or one that causeway export wrote of a run with adapters.");
  const Json json = read_json_file(
      path, {.name = "the configuration", .hint = "Fetch the adapter again.", .kind = ErrorKind::kInvalidArgument});
  try {
    PeftAdapter found{.adapter = from_peft(json),
                      .base = entry_of<std::string>(json, "base_model_name_or_path", ""),
                      .base_identity = {}};
    const SafetensorsFile file(directory / kPeftWeightsName);
    found.adapter.targets = targets_in(json, matrices_in(file));
    const auto identity = file.header().metadata.find(kBaseIdentity);
    if (identity != file.header().metadata.end()) found.base_identity = identity->second;
    const auto base_weights = file.header().metadata.find(kBaseWeights);
    if (base_weights != file.header().metadata.end()) {
      const std::optional<BaseWeights> known = value_named<BaseWeights>(base_weights->second);
      if (!known) refuse_option(kBaseWeights, base_weights->second);
      found.base_weights = *known;
    }
    return found;
  } catch (const Error& error) {
    throw Error(error.kind(), error.message(), error.where() == kPeftConfigName ? path.string() : error.where(),
                error.hint());
  }
}

void load_peft_weights(LanguageModel& model, const std::filesystem::path& directory) {
  const SafetensorsFile file(directory / kPeftWeightsName);
  std::set<std::string> of_model;
  for (const Parameter& parameter : model.parameters()) {
    if (!parameter.is_adapter) continue;
    const std::string stored =
        file.contains(parameter.name) ? parameter.name : std::string(kPeftPrefix) + parameter.name;
    if (!file.contains(stored))
      throw Error(ErrorKind::kInvalidArgument, "is missing from the adapter",
                  fmt::format("{}: {}", file.path().string(), stored),
                  "Check that adapter_config.json and the weights belong together.");
    of_model.insert(stored);
    load_tensor(parameter.tensor, file.entry(stored), file.data(stored), stored);
  }
  // Another stage's are known by their matrix in a layer that is not here.
  for (const std::string& stored : file.names())
    if (!of_model.contains(stored) && model.part().is_whole())
      throw Error(ErrorKind::kInvalidArgument, "belongs to a matrix that has no adapter in this model",
                  fmt::format("{}: {}", file.path().string(), stored), "The adapter is of another model.");
}

void save_peft_adapter(const LanguageModel& model, const std::filesystem::path& directory, DType dtype,
                       const std::string& base, const std::string& base_identity) {
  std::vector<NamedTensorSpec> tensors;
  bool input_first = false;
  for (const Matrix& matrix : model.matrices()) {
    if (matrix.has_adapter()) input_first = input_first || matrix.input_first;
  }
  for (const Parameter& parameter : model.parameters())
    if (parameter.is_adapter)
      tensors.push_back({std::string(kPeftPrefix) + parameter.name, dtype, evaluate(parameter.tensor.shape(), {})});
  SafetensorsMetadata metadata = {{"format", "pt"}};
  if (!base_identity.empty()) metadata[kBaseIdentity] = base_identity;
  if (model.adapter().has_quantized_base()) metadata[kBaseWeights] = name_of(model.adapter().base);
  SafetensorsWriter writer(directory / kPeftWeightsName, tensors, metadata);
  for (const NamedTensorSpec& spec : tensors) {
    const Tensor& tensor = model.parameter(spec.name.substr(kPeftPrefix.size())).tensor;
    std::vector<float> values(static_cast<size_t>(tensor.local_bytes()) / sizeof(float));
    tensor.read_bytes(std::as_writable_bytes(std::span(values)));
    require_writable_values(spec, values);
    std::vector<std::byte> bytes(values.size() * size_bytes(dtype));
    for (size_t i = 0; i < values.size(); ++i) write_element(dtype, bytes.data(), i, values[i]);
    writer.write(spec.name, 0, bytes);
  }
  writer.finish();
  Json json = to_peft(model.adapter());
  json["base_model_name_or_path"] = base;
  json["fan_in_fan_out"] = input_first;
  json["target_modules"] = peft_targets(model);
  write_file_atomically(directory / kPeftConfigName, json.dump(2) + "\n");
}

}  // namespace causeway::model
