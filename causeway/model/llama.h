// What families share that are Llama but for something of their attention.
#pragma once

#include <cstdint>
#include <memory>

#include "causeway/model/family.h"
#include "causeway/model/language_model.h"

namespace causeway::model {

struct LlamaVariant {
  int64_t window = 0;             // positions that a query sees, itself included; 0: all
  bool attention_biases = false;  // the projections to queries, keys and values have one each
};

std::unique_ptr<LanguageModel> build_llama(const ModelConfig& config, const ModelPart& part,
                                           const LlamaVariant& variant, InitialValues* values);

// The entries of config.json that all of them have.
void list_llama_entries(HuggingFaceConfig& file, ModelConfig& c);

}  // namespace causeway::model
