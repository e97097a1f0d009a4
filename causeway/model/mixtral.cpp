// Mixtral (Jiang et al., arXiv 2401.04088): Mistral with experts. Weights are those of the likeliest experts, made to
// add up to 1.
#include <nlohmann/json.hpp>

#include "causeway/formats/hugging_face_config.h"
#include "causeway/model/families.h"
#include "causeway/model/llama.h"

namespace causeway::model {
namespace {

void list_mixtral_entries(HuggingFaceConfig& file, ModelConfig& c) {
  list_llama_entries(
      file, c,
      {.ffn_width = 14336, .kv_heads = 8, .max_sequence_length = 131072, .norm_epsilon = 1e-5, .rope_theta = 1e6});
  list_experts(file, c, {.writes_local = true});
  list_one_window(file, c, 0);
  file.training_only({{"router_jitter_noise", 0.0}});
}

}  // namespace

ModelFamily mixtral_family() {
  ModelFamily family = llama_family_with_experts();
  family.name = "mixtral";
  family.keys.push_back(sliding_window_key());
  family.build = [](const ModelConfig& config, const ModelPart& part,
                    const NewWeights& weights) -> std::unique_ptr<LanguageModel> {
    const ExpertNames names = {.block = "block_sparse_moe", .gate = "w1", .up = "w3", .down = "w2"};
    return std::make_unique<Llama>(
        config, part, LlamaVariant{.window = config.own_integer(kSlidingWindow), .experts = names}, weights);
  };
  family.hugging_face.model_type = "mixtral";
  family.hugging_face.architecture = "MixtralForCausalLM";
  family.hugging_face.entries = list_mixtral_entries;
  family.hugging_face.former_mlp = "block_sparse_moe";
  return family;
}

}  // namespace causeway::model
