// The program's own model families, a file each, in the order in which recipes and messages list them.
#pragma once

#include <vector>

#include "causeway/model/family.h"

namespace causeway::model {

ModelFamily gemma2_family();
ModelFamily gpt2_family();
ModelFamily llama_family();
ModelFamily mistral_family();
ModelFamily mixtral_family();
ModelFamily mpt_family();
ModelFamily olmo2_family();
ModelFamily olmoe_family();
ModelFamily qwen2_family();
ModelFamily qwen2_moe_family();
ModelFamily qwen3_family();
ModelFamily qwen3_moe_family();

inline std::vector<ModelFamily> own_families() {
  return {gemma2_family(), gpt2_family(),  llama_family(), mistral_family(),   mixtral_family(), mpt_family(),
          olmo2_family(),  olmoe_family(), qwen2_family(), qwen2_moe_family(), qwen3_family(),   qwen3_moe_family()};
}

}  // namespace causeway::model
