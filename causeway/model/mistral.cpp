// Mistral (Jiang et al., arXiv 2310.06825): Llama with a sliding window.
#include "causeway/formats/hugging_face_config.h"
#include "causeway/model/families.h"
#include "causeway/model/llama.h"

namespace causeway::model {
namespace {

constexpr char kSlidingWindow[] = "sliding_window";

}  // namespace

ModelFamily mistral_family() {
  ModelFamily family = llama_family();
  family.name = "mistral";
  family.keys.push_back(
      size_key(kSlidingWindow, 0, 0, int64_t{1} << 24, "positions a query sees, itself included; 0: all"));
  family.build = [](const ModelConfig& config, const ModelPart& part, InitialValues* values) {
    return build_llama(config, part, {.window = config.own_integer(kSlidingWindow)}, values);
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
