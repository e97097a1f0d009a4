// Mistral (Jiang et al., arXiv 2310.06825): Llama with a sliding window.
#include <nlohmann/json.hpp>

#include "causeway/base/error.h"
#include "causeway/formats/hugging_face_config.h"
#include "causeway/model/families.h"
#include "causeway/model/llama.h"

namespace causeway::model {
namespace {

// transformers computes by the window alone; layers of other kinds belong to other classes of it.
void check_layer_types(HuggingFaceConfig& file, const ModelConfig& c, int64_t window) {
  const std::optional<std::vector<std::string>> types = list_layer_types(file, c);
  if (!types) return;
  const std::string expected = window > 0 ? "sliding_attention" : "full_attention";
  for (const std::string& type : *types)
    if (type != expected)
      throw Error(ErrorKind::kUnsupported, fmt::format("layer_types has {}", nlohmann::json(type).dump()),
                  "config.json",
                  fmt::format("With this sliding_window only \"{}\" in all layers is implemented.", expected));
}

void list_mistral_entries(HuggingFaceConfig& file, ModelConfig& c) {
  list_llama_entries(file, c, {.ffn_width = 14336, .kv_heads = 8, .max_sequence_length = 131072});
  int64_t window = c.own_integer(kSlidingWindow);
  file.optional_or_null(kSlidingWindow, window, 4096);
  c.own[kSlidingWindow] = window;
  if (file.is_reading()) check_layer_types(file, c, window);
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
