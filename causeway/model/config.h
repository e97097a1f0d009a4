// What shape a model has. Names and meanings follow Hugging Face's config.json of the four families.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "causeway/namespaces.h"

namespace causeway::model {

// gpt2: learned positions, LayerNorm with bias, GELU (tanh), biases, tied embeddings.
// llama: rotary positions, RMSNorm, SwiGLU, grouped queries, no biases. mistral: llama with a sliding window.
// mpt: ALiBi, LayerNorm without bias, GELU (erf), no biases, tied embeddings.
enum class ModelFamily { kGpt2, kLlama, kMistral, kMpt };

std::string_view model_family_name(ModelFamily family);
// Throws Error(kInvalidArgument) with the nearest name.
ModelFamily parse_model_family(std::string_view name);

struct ModelConfig {
  ModelFamily family = ModelFamily::kLlama;
  int64_t vocabulary_size = 256;
  int64_t layers = 4;
  int64_t width = 256;
  int64_t heads = 4;
  int64_t kv_heads = 0;   // 0: as many as heads; llama and mistral only
  int64_t head_dim = 0;   // 0: width / heads
  int64_t ffn_width = 0;  // 0: 4 x width (gpt2, mpt), 8/3 x width rounded up to a multiple of 64 (llama, mistral)
  int64_t max_sequence_length = 1024;
  double norm_epsilon = 1e-5;
  double rope_theta = 10000.0;      // llama, mistral
  int64_t sliding_window = 0;       // mistral: a query sees this many positions, itself included; 0: all
  double alibi_bias_max = 8.0;      // mpt
  bool tie_embeddings = false;      // the output layer shares the embedding; always so for gpt2 and mpt
  double dropout = 0.0;             // on embeddings, attention output and feed-forward output
  double initializer_range = 0.02;  // standard deviation of initial weights

  // Fills in the fields given as 0 and checks everything. Throws Error(kInvalidArgument) naming the field as it stands
  // in a recipe ("model.heads") and what would be possible. Every size has an upper bound, far above any model's, so
  // that the numbers of parameters, their bytes and those of a step's activations fit into 64 bits.
  ModelConfig resolved() const;

  int64_t group_size() const { return heads / kv_heads; }

  bool operator==(const ModelConfig&) const = default;
};

// Hugging Face's config.json of a resolved configuration, and back. Reading throws Error(kUnsupported) for a model type
// or an option that this program does not implement, naming it.
nlohmann::json to_hugging_face(const ModelConfig& config);
ModelConfig from_hugging_face(const nlohmann::json& json);

// Parameters of a resolved configuration; tied embeddings count once.
int64_t parameter_count(const ModelConfig& config);

}  // namespace causeway::model
