// Qwen 3 (arXiv 2505.09388), its dense models: Llama with norms of the heads of queries and keys.
#include <nlohmann/json.hpp>

#include "causeway/formats/hugging_face_config.h"
#include "causeway/model/families.h"
#include "causeway/model/llama.h"

namespace causeway::model {
namespace {

void list_qwen3_entries(HuggingFaceConfig& file, ModelConfig& c) {
  file.fixed("attention_bias", false);
  list_llama_entries(file, c, {.ffn_width = 22016, .kv_heads = 32, .head_dim = 128, .max_sequence_length = 32768});
  list_qwen_windows(file, c);
}

}  // namespace

ModelFamily qwen3_family() {
  ModelFamily family = llama_family();
  family.name = "qwen3";
  family.other_names = {"qwen"};
  family.build = [](const ModelConfig& config, const ModelPart& part,
                    const NewWeights& weights) -> std::unique_ptr<LanguageModel> {
    return std::make_unique<Llama>(config, part, LlamaVariant{.query_key_norm = QueryKeyNorm::kHead}, weights);
  };
  family.parameter_count = [llama = family.parameter_count](const ModelConfig& c) {
    return llama(c) + c.layers * 2 * c.head_dim;
  };
  family.hugging_face.model_type = "qwen3";
  family.hugging_face.architecture = "Qwen3ForCausalLM";
  family.hugging_face.entries = list_qwen3_entries;
  family.hugging_face.usual_vocabulary = 151936;
  return family;
}

}  // namespace causeway::model
