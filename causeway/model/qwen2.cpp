// Qwen 2 and 2.5 (arXiv 2407.10671, 2412.15115): Llama with biases on queries, keys and values.
#include <nlohmann/json.hpp>

#include "causeway/formats/hugging_face_config.h"
#include "causeway/model/families.h"
#include "causeway/model/llama.h"

namespace causeway::model {

ModelFamily qwen2_family() {
  ModelFamily family = llama_family();
  family.name = "qwen2";
  family.other_names = {"qwen", "qwen2.5", "qwen_2", "qwen2_5", "qwq"};
  family.build = [](const ModelConfig& config, const ModelPart& part,
                    const NewWeights& weights) -> std::unique_ptr<LanguageModel> {
    return std::make_unique<Llama>(config, part, LlamaVariant{.attention_biases = true}, weights);
  };
  family.parameter_count = [llama = family.parameter_count](const ModelConfig& c) {
    return llama(c) + c.layers * (c.heads + 2 * c.kv_heads) * c.head_dim;
  };
  family.hugging_face.model_type = "qwen2";
  family.hugging_face.architecture = "Qwen2ForCausalLM";
  family.hugging_face.entries = [](HuggingFaceConfig& file, ModelConfig& c) {
    list_llama_entries(file, c, {.ffn_width = 22016, .kv_heads = 32, .max_sequence_length = 32768});
    list_qwen_windows(file, c);
  };
  family.hugging_face.usual_vocabulary = 151936;
  return family;
}

}  // namespace causeway::model
