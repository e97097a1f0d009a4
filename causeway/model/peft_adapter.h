// Adapters as PEFT keeps them: a directory with adapter_config.json and adapter_model.safetensors.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "causeway/model/adapter.h"
#include "causeway/model/language_model.h"

namespace causeway::model {

inline constexpr char kPeftConfigName[] = "adapter_config.json";
inline constexpr char kPeftWeightsName[] = "adapter_model.safetensors";

struct PeftAdapter {
  AdapterConfig adapter;
  std::string base;  // base_model_name_or_path: a directory, or a name on Hugging Face's hub; may be empty
  // What the base was, where this program wrote the file (base_identity()); empty otherwise.
  std::string base_identity;
  // How its matrices lay, likewise. Not in `adapter`: who goes on with the adapter says it anew.
  BaseWeights base_weights = BaseWeights::kUnquantized;
};

// adapter_config.json, without which matrices have an adapter: of one that PEFT saved, and back. Reading throws
// Error(kUnsupported) naming an option that would change what is computed and is not implemented.
AdapterConfig from_peft(const nlohmann::json& json);
nlohmann::json to_peft(const AdapterConfig& adapter);

// Reads the configuration and the names of the weights. Throws Error(kNotFound) where the directory holds no adapter,
// and Error(kUnsupported) naming an option that would change what is computed and is not implemented.
PeftAdapter read_peft_config(const std::filesystem::path& directory);

// Overwrites the model's adapters, or what this rank holds of them. Throws Error(kInvalidArgument) naming a tensor that
// is missing, of another shape, or of a matrix that has no adapter.
void load_peft_weights(LanguageModel& model, const std::filesystem::path& directory);

// Writes both files, the weights in f32, bf16 or f16, of a whole model. `base`: where the model's own weights are.
void save_peft_adapter(const LanguageModel& model, const std::filesystem::path& directory, DType dtype,
                       const std::string& base, const std::string& base_identity);

}  // namespace causeway::model
