// OLMoE (Muennighoff et al., arXiv 2409.02060): Llama with many small experts, whose weights are probabilities as they
// are, and norms of all queries and of all keys together.
#include <nlohmann/json.hpp>

#include "causeway/formats/hugging_face_config.h"
#include "causeway/model/families.h"
#include "causeway/model/llama.h"

namespace causeway::model {
namespace {

void list_olmoe_entries(HuggingFaceConfig& file, ModelConfig& c) {
  file.fixed("attention_bias", false);
  file.expected("clip_qkv", nullptr);
  list_llama_entries(
      file, c,
      {.width = 2048, .ffn_width = 2048, .layers = 16, .heads = 16, .max_sequence_length = 4096, .norm_epsilon = 1e-5});
  list_experts(file, c, {.experts = 64, .per_token = 8, .balance_loss = 0.01});
  bool normalized = c.own_truth(kNormalizedWeights);
  file.optional("norm_topk_prob", normalized, false);
  c.own[kNormalizedWeights] = normalized;
  list_full_attention(file, c);
}

}  // namespace

ModelFamily olmoe_family() {
  ModelFamily family = llama_family_with_experts();
  family.name = "olmoe";
  family.keys.push_back(normalized_weights_key());
  family.build = [](const ModelConfig& config, const ModelPart& part,
                    const NewWeights& weights) -> std::unique_ptr<LanguageModel> {
    return std::make_unique<Llama>(config, part, LlamaVariant{.query_key_norm = QueryKeyNorm::kProjection}, weights);
  };
  family.parameter_count = [plain = family.parameter_count](const ModelConfig& c) {
    return plain(c) + c.layers * (c.heads + c.kv_heads) * c.head_dim;
  };
  family.hugging_face.model_type = "olmoe";
  family.hugging_face.architecture = "OlmoeForCausalLM";
  family.hugging_face.entries = list_olmoe_entries;
  family.hugging_face.usual_vocabulary = 50304;
  return family;
}

}  // namespace causeway::model
