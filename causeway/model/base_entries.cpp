// Keys of config.json that do not belong to one family: those of PretrainedConfig of transformers 4 and 5, what either
// looks for in any configuration, and its kinds of attention.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "causeway/base/error.h"
#include "causeway/base/printable.h"
#include "causeway/formats/hugging_face_config.h"
#include "causeway/model/family.h"

namespace causeway::model {

using Json = nlohmann::json;

namespace {

// One label, whose number is the score. Without a score labels are those of heads for other tasks.
void list_labels(HuggingFaceConfig& file, bool score_head) {
  const Json one = {{"0", "LABEL_0"}}, number = {{"LABEL_0", 0}};
  if (!score_head)
    return file.without_effect({{"id2label", {{"0", "LABEL_0"}, {"1", "LABEL_1"}}},
                                {"label2id", {{"LABEL_0", 0}, {"LABEL_1", 1}}},
                                {"num_labels", 2},
                                {"problem_type", nullptr}});
  if (file.is_reading()) {
    int64_t labels = 2;
    const auto names = file.json().find("id2label"), count = file.json().find("num_labels");
    if (count != file.json().end() && count->is_number_integer()) labels = count->get<int64_t>();
    if (names != file.json().end() && names->is_object()) labels = static_cast<int64_t>(names->size());
    if (labels != 1)
      throw Error(ErrorKind::kUnsupported, fmt::format("num_labels = {}", labels), "config.json",
                  "Of models that classify only those with one label, a score, are implemented.");
    const auto problem = file.json().find("problem_type");
    if (problem != file.json().end() && !problem->is_null() && *problem != "regression")
      throw Error(ErrorKind::kUnsupported, fmt::format("problem_type = {}", problem->dump()), "config.json",
                  "Of models that classify only those with a score are implemented.");
  }
  file.written("id2label", one);
  file.written("label2id", number);
  file.not_carried({"id2label", "label2id", "num_labels", "problem_type"});
}

// Such weights are codes that stand under the names of the weights.
void refuse_quantized_weights(const HuggingFaceConfig& file) {
  if (!file.is_reading()) return;
  const auto entry = file.json().find("quantization_config");
  if (entry == file.json().end() || !entry->is_object()) return;
  const auto method = entry->find("quant_method");
  if (method == entry->end() || !method->is_string()) return;
  throw Error(
      ErrorKind::kUnsupported,
      fmt::format("quantization_config: the weights are quantized already, by {}",
                  printable(method->get<std::string>())),
      "config.json",
      "Give the model's own weights, in bf16 or f32: with lora.base=nf4 they are quantized as they are read, as "
      "bitsandbytes does it. Of a model that is only there quantized, transformers' dequantize() makes such weights.");
}

}  // namespace

void list_base_entries(HuggingFaceConfig& file, bool score_head) {
  // What makes another model of it, or other weights.
  file.expected("is_encoder_decoder", false);
  file.expected("add_cross_attention", false);
  file.expected("is_causal", true);
  file.expected("pruned_heads", Json::object());
  file.expected("per_layer_config", Json::object());
  refuse_quantized_weights(file);
  file.expected("quantization_config", nullptr);
  file.expected("compression_config", nullptr);
  file.expected("attention_chunk_size", nullptr);
  file.expected("kv_sharing_modes", nullptr);
  file.expected("num_kv_shared_layers", 0);
  file.expected("transformers_weights", nullptr);  // another file than model.safetensors
  // What is written anew, holds of the file alone, or names code that is not run.
  file.not_carried({"model_type", "architectures", "torch_dtype", "dtype", "transformers_version", "_name_or_path",
                    "name_or_path", "_commit_hash", "auto_map", "bos_token_id", "eos_token_id", "pad_token_id"});
  // How transformers computes, what it returns, and what heads for other tasks do.
  file.without_effect({{"_attn_implementation", nullptr},
                       {"_attn_implementation_autoset", false},
                       {"_attn_implementation_internal", nullptr},
                       {"_experts_implementation_internal", nullptr},
                       {"attn_implementation", nullptr},
                       {"chunk_size_feed_forward", 0},
                       {"cross_attention_hidden_size", nullptr},
                       {"decoder_start_token_id", nullptr},
                       {"distributed_config", nullptr},
                       {"experts_implementation", nullptr},
                       {"finetuning_task", nullptr},
                       {"fusion_config", nullptr},
                       {"gradient_checkpointing", false},
                       {"is_decoder", false},
                       {"output_attentions", false},
                       {"output_hidden_states", false},
                       {"prefix", nullptr},
                       {"return_dict", true},
                       {"sep_token_id", nullptr},
                       {"task_specific_params", nullptr},
                       {"tf_legacy_loss", false},
                       {"tie_encoder_decoder", false},
                       {"tie_last_hidden_states", nullptr},
                       {"tokenizer_class", nullptr},
                       {"torchscript", false},
                       {"use_bfloat16", false}});
  list_labels(file, score_head);
  // Defaults of generation, which transformers keeps in generation_config.json today.
  file.without_effect({{"bad_words_ids", nullptr},
                       {"begin_suppress_tokens", nullptr},
                       {"cache_implementation", nullptr},
                       {"diversity_penalty", 0.0},
                       {"do_sample", false},
                       {"early_stopping", false},
                       {"encoder_no_repeat_ngram_size", 0},
                       {"exponential_decay_length_penalty", nullptr},
                       {"forced_bos_token_id", nullptr},
                       {"forced_eos_token_id", nullptr},
                       {"length_penalty", 1.0},
                       {"max_length", 20},
                       {"min_length", 0},
                       {"no_repeat_ngram_size", 0},
                       {"num_beam_groups", 1},
                       {"num_beams", 1},
                       {"num_return_sequences", 1},
                       {"output_scores", false},
                       {"remove_invalid_values", false},
                       {"repetition_penalty", 1.0},
                       {"return_dict_in_generate", false},
                       {"suppress_tokens", nullptr},
                       {"temperature", 1.0},
                       {"top_k", 50},
                       {"top_p", 1.0},
                       {"typical_p", 1.0}});
}

std::optional<std::vector<std::string>> list_layer_types(HuggingFaceConfig& file, const ModelConfig& config) {
  const std::optional<std::vector<std::string>> types = file.names("layer_types");
  if (types && static_cast<int64_t>(types->size()) != config.layers)
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("'layer_types' has {} layers, and the model {}", types->size(), config.layers),
                "config.json");
  return types;
}

void list_full_attention(HuggingFaceConfig& file, const ModelConfig& config) {
  if (!file.is_reading()) return;
  file.expected("sliding_window", nullptr);
  const std::optional<std::vector<std::string>> types = list_layer_types(file, config);
  if (!types) return;
  for (const std::string& type : *types)
    if (type != "full_attention")
      throw Error(ErrorKind::kUnsupported, fmt::format("layer_types has {}", Json(type).dump()), "config.json",
                  "Only \"full_attention\" is implemented for this model_type.");
}

}  // namespace causeway::model
