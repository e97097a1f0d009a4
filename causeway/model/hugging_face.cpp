#include "causeway/model/hugging_face.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
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
  const std::string &prefix = family.hugging_face.optional_prefix, &former = family.hugging_face.former_mlp;
  std::vector<std::string> names = {name};
  const size_t block = former.empty() ? std::string::npos : name.find("." + former + ".");
  if (block != std::string::npos) names.push_back(std::string(name).replace(block + 1, former.size(), "mlp"));
  if (prefix.empty() || !name.starts_with(prefix)) return names;
  for (size_t i = 0, count = names.size(); i < count; ++i) names.push_back(names[i].substr(prefix.size()));
  return names;
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

constexpr std::string_view kExpertsPart = ".experts.";

// "model.layers.0.mlp.experts.up_proj.weight" of one expert: "model.layers.0.mlp.experts.3.up_proj.weight".
std::string name_of_expert(const std::string& parameter, int64_t expert) {
  const size_t at = parameter.rfind(kExpertsPart) + kExpertsPart.size();
  return fmt::format("{}{}.{}", parameter.substr(0, at), expert, parameter.substr(at));
}

// The same of all experts in one tensor, as transformers 5 keeps them: "model.layers.0.mlp.experts.gate_up_proj".
std::string fused_name(const std::string& parameter, ExpertMatrix which) {
  const std::string before = parameter.substr(0, parameter.rfind(kExpertsPart) + kExpertsPart.size());
  return before + (which == ExpertMatrix::kDown ? "down_proj" : "gate_up_proj");
}

// The first of a tensor's names that the file has; empty where it has none.
std::string found_name(const SafetensorsModel& weights, const ModelFamily& family, const std::string& name) {
  for (const std::string& candidate : names_in_files(family, name))
    if (weights.contains(candidate)) return candidate;
  return {};
}

// Of the other matrices of the layer too: the first tensor of one expert, and the first fused one.
struct ExpertLayouts {
  std::string of_expert, fused;
};
ExpertLayouts layouts_in(const SafetensorsModel& weights, const ModelFamily& family, const std::string& parameter,
                         int64_t experts) {
  ExpertLayouts layouts;
  for (const ExpertMatrix which : {ExpertMatrix::kUp, ExpertMatrix::kDown})
    if (layouts.fused.empty()) layouts.fused = found_name(weights, family, fused_name(parameter, which));
  const size_t part = parameter.rfind(kExpertsPart) + kExpertsPart.size();
  const std::string own = parameter.substr(part);
  for (int64_t expert = 0; expert < experts && layouts.of_expert.empty(); ++expert)
    for (const char* one :
         {own.c_str(), "gate_proj.weight", "up_proj.weight", "down_proj.weight", "w1.weight", "w2.weight", "w3.weight"})
      if (layouts.of_expert.empty())
        layouts.of_expert = found_name(weights, family, name_of_expert(parameter.substr(0, part) + one, expert));
  return layouts;
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

// Experts' matrices, from whichever layout the files have.
StoredWeight find_experts(const ModelConfig& config, const Parameter& parameter, const SafetensorsModel& weights) {
  const ModelFamily& family = model_family(config.family);
  const std::vector<int64_t> shape = sizes_of(parameter);
  const int64_t experts = shape[0];
  const auto of_expert = static_cast<uint64_t>(shape[1] * shape[2]);
  const ExpertLayouts layouts = layouts_in(weights, family, parameter.name, experts);
  if (!layouts.fused.empty() && !layouts.of_expert.empty())
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("is there beside {}: the experts of a layer lie in two layouts", layouts.fused),
                layouts.of_expert, "Save the model again: a tensor for each expert, or all experts in one.");
  StoredWeight found{.name = parameter.name, .stored_name = {}, .stored_type = {}, .shape = shape, .blocks = {}};
  const bool is_fused = !layouts.fused.empty();
  const bool halves = parameter.of_experts != ExpertMatrix::kDown;  // gate and up are one tensor, gate first
  for (int64_t expert = 0; expert < experts; ++expert) {
    const std::string name =
        is_fused ? fused_name(parameter.name, parameter.of_experts) : name_of_expert(parameter.name, expert);
    const std::string stored = found_name(weights, family, name);
    if (stored.empty()) fail_missing(weights, family, name);
    const int64_t rows = is_fused && halves ? 2 * shape[1] : shape[1];
    if (!is_fused)
      check_shape(weights, stored, {shape[1], shape[2]});
    else if (expert == 0)
      check_shape(weights, stored, {experts, rows, shape[2]});
    const std::string type = weight_type(weights, stored);
    if (expert == 0) {
      found.stored_name = stored;
      found.stored_type = type;
      found.dtype = weights.entry(stored).dtype.value_or(DType::kF32);
    } else if (type != found.stored_type) {
      throw Error(ErrorKind::kUnsupported,
                  fmt::format("is {}, and {} is {}", type, found.stored_name, found.stored_type), stored,
                  "Save the experts of a layer in one type.");
    }
    uint64_t first = 0;
    if (is_fused)
      first =
          static_cast<uint64_t>(expert * rows * shape[2]) + (parameter.of_experts == ExpertMatrix::kUp ? of_expert : 0);
    found.blocks.push_back({stored, first, of_expert});
  }
  return found;
}

}  // namespace

std::vector<std::string> StoredWeight::stored_names() const {
  std::vector<std::string> names;
  for (const StoredBlock& block : blocks)
    if (names.empty() || names.back() != block.name) names.push_back(block.name);
  return names;
}

std::vector<WrittenTensor> written_tensors(const Parameter& parameter) {
  const std::vector<int64_t> shape = sizes_of(parameter);
  if (parameter.of_experts == ExpertMatrix::kNone) return {{parameter.name, parameter.name, shape}};
  std::vector<WrittenTensor> tensors;
  for (int64_t expert = 0; expert < shape[0]; ++expert)
    tensors.push_back({parameter.name,
                       name_of_expert(parameter.name, expert),
                       {shape[1], shape[2]},
                       static_cast<uint64_t>(expert * shape[1] * shape[2])});
  return tensors;
}

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

StoredWeight find_weight(const ModelConfig& config, const Parameter& parameter, const SafetensorsModel& weights) {
  if (parameter.of_experts != ExpertMatrix::kNone) return find_experts(config, parameter, weights);
  const std::string stored = stored_name(weights, config, parameter.name);
  if (stored.empty()) fail_missing(weights, model_family(config.family), parameter.name);
  check_shape(weights, stored, sizes_of(parameter));
  const std::string type = weight_type(weights, stored);
  const std::vector<int64_t> shape = sizes_of(parameter);
  return {parameter.name, stored,
          type,           weights.entry(stored).dtype.value_or(DType::kF32),
          shape,          {{stored, 0, checked_volume(shape).value()}}};
}

std::vector<StoredWeight> find_weights(const LanguageModel& model, const SafetensorsModel& weights,
                                       std::string_view without) {
  std::vector<StoredWeight> found;
  for (const Parameter& parameter : model.parameters())
    if (parameter.is_stored() && parameter.name != without)
      found.push_back(find_weight(model.config(), parameter, weights));
  return found;
}

void read_weight(const SafetensorsModel& weights, const StoredWeight& weight, uint64_t first, std::span<float> values) {
  uint64_t begin = 0;  // of the block, in the weight
  for (const StoredBlock& block : weight.blocks) {
    const uint64_t end = begin + block.count;
    if (first < end && !values.empty()) {
      const uint64_t skipped = first - begin, taken = std::min<uint64_t>(block.count - skipped, values.size());
      const SafetensorsEntry& entry = weights.entry(block.name);
      convert(entry.dtype_name, weights.data(block.name).subspan((block.first + skipped) * element_bytes(entry)),
              values.first(taken));
      values = values.subspan(taken);
      first += taken;
    }
    begin = end;
  }
}

void load_values(const Parameter& parameter, std::vector<float> values, std::optional<ThreadPool>& pool) {
  const std::vector<int64_t> shape = sizes_of(parameter);
  if (!parameter.quantized)
    return load_tensor(parameter.tensor, {.dtype_name = "F32", .dtype = DType::kF32, .shape = shape},
                       std::as_bytes(std::span(values)), parameter.name);
  if (parameter.input_first) values = transposed(values, shape[0], shape[1]);
  if (!pool) pool.emplace();
  parameter.quantized->write(values, *pool);
}

void load_weight(const Parameter& parameter, const StoredWeight& weight, const SafetensorsModel& weights,
                 std::optional<ThreadPool>& pool) {
  if (parameter.of_experts != ExpertMatrix::kNone) {
    std::vector<float> values(checked_volume(weight.shape).value());
    read_weight(weights, weight, 0, values);
    return load_values(parameter, std::move(values), pool);
  }
  const SafetensorsEntry& entry = weights.entry(weight.stored_name);
  const std::span<const std::byte> bytes = weights.data(weight.stored_name);
  if (parameter.quantized) return load_values(parameter, as_f32(entry, bytes), pool);
  load_tensor(parameter.tensor, entry, bytes, weight.stored_name);
}

std::vector<StoredWeight> load_parameters(LanguageModel& model, const SafetensorsModel& weights,
                                          std::string_view without) {
  std::vector<StoredWeight> found = find_weights(model, weights, without);
  std::optional<ThreadPool> pool;
  for (const StoredWeight& one : found) load_weight(model.parameter(one.name), one, weights, pool);
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
  for (const StoredWeight& weight : load_parameters(model, weights))
    for (std::string& name : weight.stored_names()) read.push_back(std::move(name));
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
  std::map<std::string, WrittenTensor> by_name;
  for (const Parameter& parameter : model.parameters()) {
    if (parameter.tensor.is_cut())
      throw Error(ErrorKind::kInvalidArgument, "is cut over the mesh, so no rank can write all of it", parameter.name,
                  "Save a checkpoint, and export that.");
    for (WrittenTensor& one : written_tensors(parameter)) {
      tensors.push_back({one.name, DType::kF32, one.shape});
      const std::string name = one.name;
      by_name.emplace(name, std::move(one));
    }
  }
  const auto source = [&](const std::string& name, const Box& box, std::span<float> values) {
    const WrittenTensor& written = by_name.at(name);
    const uint64_t first = written.first + contiguous_position(whole_box(written.shape), box).value();
    model.parameter(written.parameter).tensor.read_bytes_from(first * sizeof(float), std::as_writable_bytes(values));
  };
  write_weights(directory, tensors, source, max_file_bytes);
  write_file_atomically(directory / "config.json", to_hugging_face(model.config()).dump(2) + "\n");
}

}  // namespace causeway::model
