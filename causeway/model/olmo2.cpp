// OLMo 2 (arXiv 2501.00656): Llama with norms of what attention and the feed-forward layer give in place of what they
// are given, and norms of all queries and of all keys together.
#include <nlohmann/json.hpp>

#include "causeway/formats/hugging_face_config.h"
#include "causeway/model/families.h"
#include "causeway/model/llama.h"

namespace causeway::model {
namespace {

const LlamaVariant kOlmo2Variant = {.query_key_norm = QueryKeyNorm::kProjection,
                                    .norm_before_attention = "",
                                    .norm_after_attention = "post_attention_layernorm",
                                    .norm_before_mlp = "",
                                    .norm_after_mlp = "post_feedforward_layernorm"};

void list_olmo2_entries(HuggingFaceConfig& file, ModelConfig& c) {
  file.fixed("attention_bias", false);
  list_llama_entries(file, c, {.norm_epsilon = 1e-5});
  list_full_attention(file, c);
}

}  // namespace

ModelFamily olmo2_family() {
  ModelFamily family = llama_family();
  family.name = "olmo2";
  family.other_names = {"olmo_2"};
  family.build = [](const ModelConfig& config, const ModelPart& part,
                    const NewWeights& weights) -> std::unique_ptr<LanguageModel> {
    return std::make_unique<Llama>(config, part, kOlmo2Variant, weights);
  };
  family.parameter_count = [llama = family.parameter_count](const ModelConfig& c) {
    return llama(c) + c.layers * (c.heads + c.kv_heads) * c.head_dim;
  };
  family.hugging_face.model_type = "olmo2";
  family.hugging_face.architecture = "Olmo2ForCausalLM";
  family.hugging_face.entries = list_olmo2_entries;
  family.hugging_face.usual_vocabulary = 50304;
  return family;
}

}  // namespace causeway::model
