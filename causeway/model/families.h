// The model families. Each takes a resolved configuration of its family, and initial values or none.
#pragma once

#include <memory>

#include "causeway/model/language_model.h"

namespace causeway::model {

std::unique_ptr<LanguageModel> make_gpt2(const ModelConfig& config, InitialValues* values);
std::unique_ptr<LanguageModel> make_llama(const ModelConfig& config, InitialValues* values);  // and mistral
std::unique_ptr<LanguageModel> make_mpt(const ModelConfig& config, InitialValues* values);

}  // namespace causeway::model
