// What adapters are, for people and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "causeway/train/stored_adapter.h"

namespace causeway::cli {

// "runs/lora/checkpoints/step-00000006: lora of rank 2 (alpha 4) on 6 matrices, of /models/llama"; a weight that is not
// 1 stands before it.
std::string describe_adapter(const train::StoredAdapter& adapter, double weight = 1);
nlohmann::ordered_json adapter_json(const train::StoredAdapter& adapter, double weight = 1);

}  // namespace causeway::cli
