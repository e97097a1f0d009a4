// Mistral (Jiang et al., arXiv 2310.06825): Llama with a sliding window.
#include "causeway/formats/hugging_face_config.h"
#include "causeway/model/families.h"
#include "causeway/model/llama.h"

namespace causeway::model {
ModelFamily mistral_family() {
  ModelFamily family = llama_family();
  family.name = "mistral";
  family.keys.push_back(sliding_window_key());
  family.build = [](const ModelConfig& config, const ModelPart& part,
                    const NewWeights& weights) -> std::unique_ptr<LanguageModel> {
    return std::make_unique<Llama>(config, part, LlamaVariant{.window = config.own_integer(kSlidingWindow)}, weights);
  };
  family.hugging_face.model_type = "mistral";
  family.hugging_face.architecture = "MistralForCausalLM";
  family.hugging_face.entries = [llama = family.hugging_face.entries](HuggingFaceConfig& file, ModelConfig& c) {
    llama(file, c);
    int64_t window = c.own_integer(kSlidingWindow);
    file.optional_or_null("sliding_window", window);
    c.own[kSlidingWindow] = window;
  };
  return family;
}

}  // namespace causeway::model
