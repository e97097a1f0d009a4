// Qwen 3's mixtures of experts (arXiv 2505.09388): Qwen 3 with experts.
#include <nlohmann/json.hpp>

#include "causeway/formats/hugging_face_config.h"
#include "causeway/model/families.h"
#include "causeway/model/llama.h"

namespace causeway::model {
namespace {

void list_qwen3_moe_entries(HuggingFaceConfig& file, ModelConfig& c) {
  file.fixed("attention_bias", false);
  list_llama_entries(
      file, c,
      {.width = 2048, .ffn_width = 6144, .layers = 24, .heads = 32, .kv_heads = 4, .max_sequence_length = 32768});
  list_qwen_experts(file, c, {.experts = 128, .per_token = 8}, 768);
}

}  // namespace

ModelFamily qwen3_moe_family() {
  ModelFamily family = llama_family_with_experts();
  family.name = "qwen3_moe";
  for (ModelKey& key :
       std::vector{expert_width_key(), normalized_weights_key(), sparse_step_key(), first_dense_layers_key()})
    family.keys.push_back(std::move(key));
  family.build = [](const ModelConfig& config, const ModelPart& part,
                    const NewWeights& weights) -> std::unique_ptr<LanguageModel> {
    return std::make_unique<Llama>(config, part, LlamaVariant{.query_key_norm = QueryKeyNorm::kHead}, weights);
  };
  family.parameter_count = [plain = family.parameter_count](const ModelConfig& c) {
    return plain(c) + c.layers * 2 * c.head_dim;
  };
  family.hugging_face.model_type = "qwen3_moe";
  family.hugging_face.architecture = "Qwen3MoeForCausalLM";
  family.hugging_face.entries = list_qwen3_moe_entries;
  family.hugging_face.usual_vocabulary = 151936;
  return family;
}

}  // namespace causeway::model
