#include "causeway/model/hugging_face.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/base/json_document.h"
#include "causeway/model/family.h"
#include "causeway/model/quantized_weight.h"
#include "causeway/program/context.h"

namespace causeway::model {
namespace {

constexpr std::string_view kOutputLayer = "lm_head.weight";
constexpr std::string_view kF64 = "F64";  // as the format has it

std::vector<int64_t> sizes_of(const Parameter& parameter) { return parameter.stored_shape(); }

// The names under which files have a tensor: its own, and that of a base model saved by itself.
std::vector<std::string> names_in_files(const ModelFamily& family, const std::string& name) {
  const std::string& prefix = family.hugging_face.optional_prefix;
  if (prefix.empty() || !name.starts_with(prefix)) return {name};
  return {name, name.substr(prefix.size())};
}

// The name under which the file has a parameter; empty when it has not. A tied embedding may be there as the output
// layer.
std::string stored_name(const SafetensorsModel& weights, const ModelConfig& config, const std::string& name) {
  const ModelFamily& family = model_family(config.family);
  for (const std::string& candidate : names_in_files(family, name))
    if (weights.contains(candidate)) return candidate;
  const bool is_tied = config.tie_embeddings && name == family.hugging_face.embedding;
  return is_tied && weights.contains(kOutputLayer) ? std::string(kOutputLayer) : std::string();
}

[[noreturn]] void fail_missing(const SafetensorsModel& weights, const ModelFamily& family, const std::string& name) {
  const std::vector<std::string> listed = weights.names_without_data();
  for (const std::string& candidate : names_in_files(family, name))
    if (std::ranges::find(listed, candidate) != listed.end()) weights.entry(candidate);  // which throws
  const std::string nearest = nearest_name(name, weights.names());
  throw Error(ErrorKind::kInvalidArgument, "is missing from the weights", name,
              name == kOutputLayer ? "A base model saved by itself has none: save the whole model, or set "
                                     "tie_word_embeddings to true if its output layer is the embedding."
              : nearest.empty()    ? "Check that config.json and the weights belong together."
                                   : fmt::format("There is a tensor {}.", nearest));
}

void check_shape(const SafetensorsModel& weights, const std::string& stored, const std::vector<int64_t>& expected) {
  const std::vector<int64_t>& shape = weights.entry(stored).shape;
  if (shape != expected)
    throw Error(
        ErrorKind::kInvalidArgument,
        fmt::format("has shape [{}], but the model's is [{}]", fmt::join(shape, ", "), fmt::join(expected, ", ")),
        stored, "Check that config.json and the weights belong together.");
}

// As messages have it. Throws for what is no type of weights.
std::string weight_type(const SafetensorsModel& weights, const std::string& stored) {
  const SafetensorsEntry& entry = weights.entry(stored);
  if (entry.dtype_name == kF64) return "f64";
  if (entry.dtype && is_float(*entry.dtype) && size_bytes(*entry.dtype) > 1)
    return std::string(dtype_name(*entry.dtype));
  throw Error(ErrorKind::kUnsupported,
              fmt::format("weights of type {}", entry.dtype ? dtype_name(*entry.dtype) : entry.dtype_name), stored,
              "Weights are read from f64, f32, bf16 and f16.");
}

// `type_name` is the format's.
void convert(const std::string& type_name, std::span<const std::byte> bytes, std::span<float> values) {
  const std::optional<DType> dtype = parse_safetensors_dtype(type_name);
  for (size_t i = 0; i < values.size(); ++i) {
    if (!dtype) {
      double value = 0;
      std::memcpy(&value, bytes.data() + sizeof value * i, sizeof value);
      values[i] = static_cast<float>(value);
    } else if (dtype == DType::kBF16) {  // most weights there are: the upper half of an f32
      uint16_t upper = 0;
      std::memcpy(&upper, bytes.data() + 2 * i, sizeof upper);
      values[i] = std::bit_cast<float>(uint32_t{upper} << 16);
    } else {
      values[i] = static_cast<float>(read_element(*dtype, bytes.data(), i));
    }
  }
}

size_t element_bytes(const SafetensorsEntry& entry) { return entry.dtype ? size_bytes(*entry.dtype) : sizeof(double); }

std::vector<float> as_f32(const SafetensorsEntry& entry, std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / element_bytes(entry));
  convert(entry.dtype_name, bytes, values);
  return values;
}

bool equal_values(const SafetensorsModel& weights, const std::string& a, const std::string& b) {
  if (weights.entry(a).dtype_name == weights.entry(b).dtype_name)
    return std::ranges::equal(weights.data(a), weights.data(b));
  return as_f32(weights.entry(a), weights.data(a)) == as_f32(weights.entry(b), weights.data(b));
}

}  // namespace

void load_tensor(Tensor tensor, const SafetensorsEntry& entry, std::span<const std::byte> bytes,
                 const std::string& stored_name) {
  if (entry.shape != evaluate(tensor.shape(), {}))
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("has shape [{}], but the model's is [{}]", fmt::join(entry.shape, ", "),
                            fmt::join(evaluate(tensor.shape(), {}), ", ")),
                stored_name, "Check that the configuration and the weights belong together.");
  std::vector<std::byte> part;
  if (tensor.is_cut()) {
    part.resize(static_cast<size_t>(tensor.local_bytes()) / size_bytes(tensor.dtype()) * element_bytes(entry));
    copy_common_box(bytes, whole_box(entry.shape), part, {tensor.local_start(), tensor.local_shape()},
                    element_bytes(entry));
    bytes = part;
  }
  if (entry.dtype == tensor.dtype()) return tensor.write_bytes(bytes);
  const std::vector<float> values = as_f32(entry, bytes);
  if (tensor.dtype() == DType::kF32) return tensor.write_bytes(std::as_bytes(std::span(values)));
  std::vector<std::byte> narrow(values.size() * size_bytes(tensor.dtype()));
  for (size_t i = 0; i < values.size(); ++i) write_element(tensor.dtype(), narrow.data(), i, values[i]);
  tensor.write_bytes(narrow);
}

void require_writable_values(const NamedTensorSpec& tensor, std::span<const float> values) {
  constexpr float kBeyondF16 = 65520;  // rounds to infinity
  for (const float value : values) {
    if (!std::isfinite(value))
      throw Error(ErrorKind::kInvalidArgument, fmt::format("holds {}, which is no weight", value), tensor.name,
                  "Fetch the model again, or take a checkpoint from before its training diverged.");
    if (tensor.dtype == DType::kF16 && std::abs(value) >= kBeyondF16)
      throw Error(ErrorKind::kInvalidArgument, fmt::format("holds {}, which is beyond f16's range", value), tensor.name,
                  "Choose bf16 or f32.");
  }
}

Error naming_directory_of(const Error& error, const std::string& directory) {
  const bool is_named = error.where().starts_with(directory);
  return Error(error.kind(), error.message(),
               is_named                ? error.where()
               : error.where().empty() ? directory
                                       : fmt::format("{}: {}", directory, error.where()),
               error.hint());
}

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

std::vector<std::string> notes_on(const OtherEntries& entries) {
  std::vector<std::string> notes;
  if (!entries.unknown.empty())
    notes.push_back(fmt::format("config.json has keys that are not known here and are carried along: {}",
                                fmt::join(entries.unknown, ", ")));
  if (!entries.only_in_training.empty())
    notes.push_back(fmt::format("config.json asks in training for what there is not here: {}",
                                fmt::join(entries.only_in_training, ", ")));
  return notes;
}

std::vector<StoredWeight> find_weights(const LanguageModel& model, const SafetensorsModel& weights,
                                       std::string_view without) {
  std::vector<StoredWeight> found;
  for (const Parameter& parameter : model.parameters()) {
    if (!parameter.is_stored() || parameter.name == without) continue;
    const std::string stored = stored_name(weights, model.config(), parameter.name);
    if (stored.empty()) fail_missing(weights, model_family(model.config().family), parameter.name);
    check_shape(weights, stored, sizes_of(parameter));
    const std::string type = weight_type(weights, stored);
    found.push_back(
        {parameter.name, stored, type, weights.entry(stored).dtype.value_or(DType::kF32), sizes_of(parameter)});
  }
  return found;
}

void read_weight(const SafetensorsModel& weights, const StoredWeight& weight, uint64_t first, std::span<float> values) {
  const SafetensorsEntry& entry = weights.entry(weight.stored_name);
  convert(entry.dtype_name, weights.data(weight.stored_name).subspan(first * element_bytes(entry)), values);
}

std::vector<StoredWeight> load_parameters(LanguageModel& model, const SafetensorsModel& weights,
                                          std::string_view without) {
  std::vector<StoredWeight> found = find_weights(model, weights, without);
  std::optional<ThreadPool> pool;
  for (const StoredWeight& one : found) {
    const Parameter& parameter = model.parameter(one.name);
    const SafetensorsEntry& entry = weights.entry(one.stored_name);
    if (!parameter.quantized) {
      load_tensor(parameter.tensor, entry, weights.data(one.stored_name), one.stored_name);
      continue;
    }
    std::vector<float> values = as_f32(entry, weights.data(one.stored_name));
    if (parameter.input_first) values = transposed(values, one.shape[0], one.shape[1]);
    if (!pool) pool.emplace();
    parameter.quantized->write(values, *pool);
  }
  return found;
}

void require_no_other_tensors(const ModelConfig& config, const SafetensorsModel& weights,
                              const std::vector<std::string>& read) {
  const ModelFamily& family = model_family(config.family);
  const auto is_constant = [&](const std::string& name) {
    return std::ranges::any_of(family.hugging_face.constants,
                               [&](const std::string& end) { return name.ends_with(end); });
  };
  const std::set<std::string> of_parameters(read.begin(), read.end());
  for (const std::string& name : weights.names()) {
    if (of_parameters.contains(name) || is_constant(name)) continue;
    if (name == kOutputLayer && config.score_head) continue;
    if (name != kOutputLayer || !config.tie_embeddings)
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("the {} model of config.json has no such tensor", family.name), name,
                  "Check that config.json and the weights belong together.");
    const std::string& embedding = read.front();
    check_shape(weights, name, weights.entry(embedding).shape);
    weight_type(weights, name);
    if (!equal_values(weights, name, embedding))
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("differs from {}, but config.json says that they are one", embedding), name,
                  "Set tie_word_embeddings to false where the family allows it.");
  }
  std::vector<std::string> tied = names_in_files(family, family.hugging_face.embedding);
  tied.emplace_back(kOutputLayer);
  for (const std::string& name : weights.names_without_data()) {
    const bool is_tied = config.tie_embeddings && std::ranges::find(tied, name) != tied.end();
    if (!is_tied && !is_constant(name) && !(name == kOutputLayer && config.score_head)) weights.entry(name);  // throws
  }
}

void load_weights(LanguageModel& model, const SafetensorsModel& weights) {
  CAUSEWAY_CHECK(model.part().is_whole());
  std::vector<std::string> read;
  for (const StoredWeight& weight : load_parameters(model, weights)) read.push_back(weight.stored_name);
  require_no_other_tensors(model.config(), weights, read);
}

std::unique_ptr<LanguageModel> load_hugging_face_model(const std::filesystem::path& directory) {
  std::unique_ptr<LanguageModel> model = LanguageModel::create(read_hugging_face_config(directory), std::nullopt);
  load_weights(*model, SafetensorsModel(directory));
  return model;
}

void write_weights(const std::filesystem::path& directory, const std::vector<NamedTensorSpec>& tensors,
                   const WeightSource& source, uint64_t max_file_bytes) {
  constexpr uint64_t kPieceBytes = uint64_t{64} << 20;
  SafetensorsModelWriter writer(directory, tensors, max_file_bytes);
  std::vector<float> values;
  std::vector<std::byte> narrow;
  for (const NamedTensorSpec& tensor : tensors) {
    uint64_t offset = 0;
    for (const Box& box : split_box(whole_box(tensor.shape), sizeof(float), kPieceBytes)) {
      values.resize(checked_volume(box.shape).value());
      source(tensor.name, box, values);
      require_writable_values(tensor, values);
      std::span<const std::byte> bytes = std::as_bytes(std::span<const float>(values));
      if (tensor.dtype != DType::kF32) {
        narrow.resize(values.size() * size_bytes(tensor.dtype));
        for (size_t i = 0; i < values.size(); ++i) write_element(tensor.dtype, narrow.data(), i, values[i]);
        bytes = narrow;
      }
      writer.write(tensor.name, offset, bytes);
      offset += bytes.size();
    }
  }
  writer.finish();
}

void save_hugging_face_model(const LanguageModel& model, const std::filesystem::path& directory,
                             uint64_t max_file_bytes) {
  std::vector<NamedTensorSpec> tensors;
  for (const Parameter& parameter : model.parameters()) {
    if (parameter.tensor.is_cut())
      throw Error(ErrorKind::kInvalidArgument, "is cut over the mesh, so no rank can write all of it", parameter.name,
                  "Save a checkpoint, and export that.");
    tensors.push_back({parameter.name, DType::kF32, sizes_of(parameter)});
  }
  const auto source = [&](const std::string& name, const Box& box, std::span<float> values) {
    const Tensor& tensor = model.parameter(name).tensor;
    const uint64_t first = contiguous_position(whole_box(sizes_of(model.parameter(name))), box).value();
    tensor.read_bytes_from(first * sizeof(float), std::as_writable_bytes(values));
  };
  write_weights(directory, tensors, source, max_file_bytes);
  write_file_atomically(directory / "config.json", to_hugging_face(model.config()).dump(2) + "\n");
}

}  // namespace causeway::model
