// Models as Hugging Face keeps them: a directory with config.json and safetensors weights.
#pragma once

#include <filesystem>
#include <memory>

#include "causeway/formats/safetensors.h"
#include "causeway/model/language_model.h"

namespace causeway::model {

// The configuration in a directory's config.json. Throws Error as from_hugging_face() does, naming the file.
ModelConfig read_hugging_face_config(const std::filesystem::path& directory);

// Overwrites every parameter, or the rank's part of it, with the tensor of its name; bf16 and f16 are converted. Names
// may lack their beginning where the family says so (ModelFamily::HuggingFace). Throws Error(kInvalidArgument) naming a
// tensor that is missing, has another shape, or that the model does not have; constants that some checkpoints hold are
// passed over.
void load_weights(LanguageModel& model, const SafetensorsModel& weights);

// The model of a directory, with its weights, on the current device.
std::unique_ptr<LanguageModel> load_hugging_face_model(const std::filesystem::path& directory);

// Writes config.json and the weights in f32, in files of at most `max_file_bytes`. The directory must not hold a model.
// Throws Error(kInvalidArgument) where weights are cut over a mesh: a checkpoint of them can be exported.
void save_hugging_face_model(const LanguageModel& model, const std::filesystem::path& directory,
                             uint64_t max_file_bytes = uint64_t{5} << 30);

}  // namespace causeway::model
