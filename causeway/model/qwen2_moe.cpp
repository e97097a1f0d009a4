// Qwen 1.5 MoE and Qwen 2 57B-A14B (arXiv 2407.10671): Qwen 2 with experts, and one that all tokens go through, which
// is weighed by a sigmoid.
#include <nlohmann/json.hpp>

#include "causeway/formats/hugging_face_config.h"
#include "causeway/model/families.h"
#include "causeway/model/llama.h"

namespace causeway::model {
namespace {

void list_qwen2_moe_entries(HuggingFaceConfig& file, ModelConfig& c) {
  file.fixed("qkv_bias", true);
  list_llama_entries(
      file, c,
      {.width = 2048, .ffn_width = 5632, .layers = 24, .heads = 16, .kv_heads = 16, .max_sequence_length = 32768});
  list_qwen_experts(file, c, {.experts = 60, .per_token = 4}, 1408);
  int64_t shared = c.own_integer(kSharedExpertWidth);
  file.optional("shared_expert_intermediate_size", shared, 5632);
  c.own[kSharedExpertWidth] = shared;
}

}  // namespace

ModelFamily qwen2_moe_family() {
  ModelFamily family = llama_family_with_experts();
  family.name = "qwen2_moe";
  family.other_names = {"qwen1.5_moe"};
  for (ModelKey& key : std::vector{expert_width_key(), shared_expert_width_key(), normalized_weights_key(),
                                   sparse_step_key(), first_dense_layers_key()})
    family.keys.push_back(std::move(key));
  family.build = [](const ModelConfig& config, const ModelPart& part,
                    const NewWeights& weights) -> std::unique_ptr<LanguageModel> {
    return std::make_unique<Llama>(config, part, LlamaVariant{.attention_biases = true}, weights);
  };
  family.parameter_count = [plain = family.parameter_count](const ModelConfig& c) {
    return plain(c) + c.layers * (c.heads + 2 * c.kv_heads) * c.head_dim;
  };
  family.hugging_face.model_type = "qwen2_moe";
  family.hugging_face.architecture = "Qwen2MoeForCausalLM";
  family.hugging_face.entries = list_qwen2_moe_entries;
  family.hugging_face.usual_vocabulary = 151936;
  return family;
}

}  // namespace causeway::model
