// What families share that are Llama but for their attention's window.
#pragma once

#include <cstdint>
#include <memory>

#include "causeway/model/language_model.h"

namespace causeway::model {

// A query sees `window` positions, itself included; 0: all.
std::unique_ptr<LanguageModel> build_llama(const ModelConfig& config, const ModelPart& part, int64_t window,
                                           InitialValues* values);

}  // namespace causeway::model
