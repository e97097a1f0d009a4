// Mistral (Jiang et al., arXiv 2310.06825): Llama with a sliding window.
#include "causeway/formats/hugging_face_config.h"
#include "causeway/model/families.h"
#include "causeway/model/llama.h"

namespace causeway::model {
namespace {

void list_mistral_entries(HuggingFaceConfig& file, ModelConfig& c) {
  list_llama_entries(file, c, {.ffn_width = 14336, .kv_heads = 8, .max_sequence_length = 131072});
  list_one_window(file, c, 4096);
}

}  // namespace

ModelFamily mistral_family() {
  ModelFamily family = llama_family();
  family.name = "mistral";
  family.other_names = {"zephyr"};
  family.keys.push_back(sliding_window_key());
  family.build = [](const ModelConfig& config, const ModelPart& part,
                    const NewWeights& weights) -> std::unique_ptr<LanguageModel> {
    return std::make_unique<Llama>(config, part, LlamaVariant{.window = config.own_integer(kSlidingWindow)}, weights);
  };
  family.hugging_face.model_type = "mistral";
  family.hugging_face.architecture = "MistralForCausalLM";
  family.hugging_face.entries = list_mistral_entries;
  return family;
}

}  // namespace causeway::model
