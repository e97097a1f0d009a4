// Models as Hugging Face keeps them: a directory with config.json and safetensors weights.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/base/thread_pool.h"
#include "causeway/formats/box.h"
#include "causeway/formats/safetensors.h"
#include "causeway/model/language_model.h"

namespace causeway::model {

// The configuration in a directory's config.json. Throws Error as from_hugging_face() does, naming the file.
ModelConfig read_hugging_face_config(const std::filesystem::path& directory);

// What people should know of a config.json, a sentence each; none where all of it is honoured.
std::vector<std::string> notes_on(const OtherEntries& entries);

// So many elements of a tensor in a file, from one on.
struct StoredBlock {
  std::string name;
  uint64_t first = 0, count = 0;
};

// A parameter, and what the files have for it.
struct StoredWeight {
  std::string name;
  // Of the files' tensor, or of its first one. May lack its beginning where the family says so
  // (ModelFamily::HuggingFace); of a tied embedding it may be the output layer's.
  std::string stored_name;
  std::string stored_type;    // "f64", "f32", "bf16" or "f16"
  DType dtype = DType::kF32;  // that holds it, of f64 f32
  std::vector<int64_t> shape;
  // Where its elements are, in their order: all of one tensor, but for the matrices of experts
  // (Parameter::of_experts), of which files have a tensor for each expert, or gate and up of all as one,
  // "mlp.experts.gate_up_proj" [experts, 2 x inner, width], and down, "mlp.experts.down_proj". A file that mixes them
  // in a layer is refused.
  std::vector<StoredBlock> blocks;

  // Of the tensors that it is in, each once.
  std::vector<std::string> stored_names() const;
};

// Of every parameter that the model or its part has, adapters and `without` left out, in their order; no values are
// read. Throws Error(kInvalidArgument) naming a tensor that is missing or has another shape, and Error(kUnsupported)
// for one whose type is not f64, f32, bf16 or f16.
std::vector<StoredWeight> find_weights(const LanguageModel& model, const SafetensorsModel& weights,
                                       std::string_view without = {});
// The same of one of them.
StoredWeight find_weight(const ModelConfig& config, const Parameter& parameter, const SafetensorsModel& weights);

// The elements of a weight from `first` on, as f32: f64 is rounded to nearest even.
void read_weight(const SafetensorsModel& weights, const StoredWeight& weight, uint64_t first, std::span<float> values);

// Overwrites a parameter, or what this rank holds of it, with the weight that find_weight() found; another type is
// converted. A matrix that is quantized is so from the values in the files, by every rank that holds a part of it, on
// the threads of `pool`, which is made where it is needed first.
void load_weight(const Parameter& parameter, const StoredWeight& weight, const SafetensorsModel& weights,
                 std::optional<ThreadPool>& pool);
// The same with the values of all of it, row-major as files have them.
void load_values(const Parameter& parameter, std::vector<float> values, std::optional<ThreadPool>& pool);

// load_weight() of every parameter that the model or its part has but `without`. Reads nothing else. Returns and throws
// as find_weights().
std::vector<StoredWeight> load_parameters(LanguageModel& model, const SafetensorsModel& weights,
                                          std::string_view without = {});

// A tensor that a parameter is written as: all of it, or of experts' matrices one expert's.
struct WrittenTensor {
  std::string parameter;
  std::string name;
  std::vector<int64_t> shape;
  uint64_t first = 0;  // of its elements, in the parameter
};
std::vector<WrittenTensor> written_tensors(const Parameter& parameter);

// Throws Error(kInvalidArgument) naming a tensor that the model does not have. `read`: the names of all of its
// parameters in the files, the embedding first. Constants that some checkpoints hold are passed over, and so is the
// output layer where it is the embedding and equals it, or where the model is a reward model, which has none.
void require_no_other_tensors(const ModelConfig& config, const SafetensorsModel& weights,
                              const std::vector<std::string>& read);

// Overwrites a tensor, or what this rank holds of it, with the values of one in a file, converted to its type: of one
// that is cut over the mesh only this rank's part is touched. Throws Error(kInvalidArgument) for another shape.
void load_tensor(Tensor tensor, const SafetensorsEntry& entry, std::span<const std::byte> bytes,
                 const std::string& stored_name);

// Both, of a whole model.
void load_weights(LanguageModel& model, const SafetensorsModel& weights);

// An error about a tensor of a directory, which says whose it is; one that names the directory stays as it is.
Error naming_directory_of(const Error& error, const std::string& directory);

// The model of a directory, with its weights, on the current device.
std::unique_ptr<LanguageModel> load_hugging_face_model(const std::filesystem::path& directory);

// Fills `values` with the elements of a tensor in `box`, row-major.
using WeightSource = std::function<void(const std::string& name, const Box& box, std::span<float> values)>;

// Throws Error(kInvalidArgument) naming the tensor where a value is not finite, or beyond f16's range where it is to be
// one.
void require_writable_values(const NamedTensorSpec& tensor, std::span<const float> values);

// Writes tensors of f32, bf16 or f16 into a directory that holds no model, rounded to nearest even, in files of at most
// `max_file_bytes`, and flushes them. Throws Error(kInvalidArgument) naming a tensor with a value that is not finite,
// or beyond f16's range where it is to be one.
void write_weights(const std::filesystem::path& directory, const std::vector<NamedTensorSpec>& tensors,
                   const WeightSource& source, uint64_t max_file_bytes);

// Writes config.json and the weights in f32, in files of at most `max_file_bytes`. The directory must not hold a model.
// Throws Error(kInvalidArgument) where weights are cut over a mesh: a checkpoint of them can be exported.
void save_hugging_face_model(const LanguageModel& model, const std::filesystem::path& directory,
                             uint64_t max_file_bytes = uint64_t{5} << 30);

}  // namespace causeway::model
