#include "causeway/model/hugging_face.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/base/json_document.h"
#include "causeway/formats/box.h"
#include "causeway/model/family.h"

namespace causeway::model {
namespace {

constexpr std::string_view kOutputLayer = "lm_head.weight";

std::vector<int64_t> sizes_of(const Parameter& parameter) { return evaluate(parameter.tensor.shape(), {}); }

// The name under which the file has a parameter; empty when it has not.
std::string stored_name(const SafetensorsModel& weights, const ModelFamily& family, const std::string& name) {
  if (weights.contains(name)) return name;
  const std::string& prefix = family.hugging_face.optional_prefix;
  if (!prefix.empty() && name.starts_with(prefix) && weights.contains(name.substr(prefix.size())))
    return name.substr(prefix.size());
  return {};
}

void check_shape(const SafetensorsModel& weights, const std::string& stored, const std::vector<int64_t>& expected) {
  const std::vector<int64_t>& shape = weights.entry(stored).shape;
  if (shape != expected)
    throw Error(
        ErrorKind::kInvalidArgument,
        fmt::format("has shape [{}], but the model's is [{}]", fmt::join(shape, ", "), fmt::join(expected, ", ")),
        stored, "Check that config.json and the weights belong together.");
}

std::vector<float> as_f32(const SafetensorsModel& weights, const std::string& stored) {
  const DType dtype = weights.dtype(stored);
  if (dtype != DType::kF32 && dtype != DType::kBF16 && dtype != DType::kF16)
    throw Error(ErrorKind::kUnsupported, fmt::format("weights of type {}", dtype_name(dtype)), stored,
                "Weights are read from f32, bf16 and f16.");
  const std::span<const std::byte> bytes = weights.data(stored);
  std::vector<float> values(bytes.size() / size_bytes(dtype));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(read_element(dtype, bytes.data(), i));
  return values;
}

// Of the whole tensor's bytes, what this rank holds.
void write_own_part(Tensor tensor, std::span<const std::byte> whole) {
  if (!tensor.is_cut()) return tensor.write_bytes(whole);
  const std::vector<int64_t> shape = evaluate(tensor.shape(), {});
  std::vector<std::byte> part(static_cast<size_t>(tensor.local_bytes()));
  copy_common_box(whole, whole_box(shape), part, {tensor.local_start(), tensor.local_shape()}, sizeof(float));
  tensor.write_bytes(part);
}

void load_parameter(const Parameter& parameter, const SafetensorsModel& weights, const std::string& stored) {
  check_shape(weights, stored, sizes_of(parameter));
  if (weights.dtype(stored) == DType::kF32)
    write_own_part(parameter.tensor, weights.data(stored));
  else
    write_own_part(parameter.tensor, std::as_bytes(std::span<const float>(as_f32(weights, stored))));
}

}  // namespace

ModelConfig read_hugging_face_config(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / "config.json";
  const nlohmann::json json = read_json_file(
      path, {.name = "the configuration", .hint = "Fetch config.json again.", .kind = ErrorKind::kInvalidArgument});
  try {
    return from_hugging_face(json);
  } catch (const Error& error) {
    throw Error(error.kind(), error.message(),
                error.where() == "config.json" ? path.string() : fmt::format("{}: {}", path.string(), error.where()),
                error.hint());
  }
}

void load_weights(LanguageModel& model, const SafetensorsModel& weights) {
  const ModelFamily& family = model_family(model.config().family);
  const std::vector<std::string> names = weights.names();
  std::set<std::string> unread(names.begin(), names.end());
  for (const Parameter& parameter : model.parameters()) {
    const std::string stored = stored_name(weights, family, parameter.name);
    if (stored.empty()) {
      const std::string nearest = nearest_name(parameter.name, names);
      throw Error(ErrorKind::kInvalidArgument, "is missing from the weights", parameter.name,
                  nearest.empty() ? "Check that config.json and the weights belong together."
                                  : fmt::format("There is a tensor {}.", nearest));
    }
    load_parameter(parameter, weights, stored);
    unread.erase(stored);
  }
  for (const std::string& name : unread) {
    if (std::ranges::any_of(family.hugging_face.constants, [&](const std::string& end) { return name.ends_with(end); }))
      continue;
    if (name != kOutputLayer || !model.config().tie_embeddings)
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("the {} model of config.json has no such tensor", family.name), name,
                  "Check that config.json and the weights belong together.");
    const std::string embedding = stored_name(weights, family, model.parameters().front().name);
    check_shape(weights, name, sizes_of(model.parameters().front()));
    if (as_f32(weights, name) != as_f32(weights, embedding))
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("differs from {}, but config.json says that they are one", embedding), name,
                  "Set tie_word_embeddings to false where the family allows it.");
  }
}

std::unique_ptr<LanguageModel> load_hugging_face_model(const std::filesystem::path& directory) {
  std::unique_ptr<LanguageModel> model = LanguageModel::create(read_hugging_face_config(directory), std::nullopt);
  load_weights(*model, SafetensorsModel(directory));
  return model;
}

void save_hugging_face_model(const LanguageModel& model, const std::filesystem::path& directory,
                             uint64_t max_file_bytes) {
  std::vector<NamedTensorSpec> specs;
  for (const Parameter& parameter : model.parameters()) {
    if (parameter.tensor.is_cut())
      throw Error(ErrorKind::kInvalidArgument, "is cut over the mesh, so no rank can write all of it", parameter.name,
                  "Save a checkpoint, and export that.");
    specs.push_back({parameter.name, DType::kF32, sizes_of(parameter)});
  }
  SafetensorsModelWriter writer(directory, specs, max_file_bytes);
  for (const Parameter& parameter : model.parameters()) {
    std::vector<std::byte> bytes(static_cast<size_t>(element_count(parameter.tensor.shape()).constant()) *
                                 sizeof(float));
    parameter.tensor.read_bytes(bytes);
    writer.write(parameter.name, 0, bytes);
  }
  writer.finish();
  write_file_atomically(directory / "config.json", to_hugging_face(model.config()).dump(2) + "\n");
}

}  // namespace causeway::model
