// Results as JSON, on one line of standard output.
#pragma once

#include <nlohmann/json.hpp>

#include "causeway/base/console.h"
#include "causeway/namespaces.h"

namespace causeway::cli {

// In ASCII: what a terminal would obey is then written as JSON's own escapes, and what the console would escape itself
// cannot occur. Bytes that are not UTF-8 become U+FFFD.
inline void output_json(const nlohmann::ordered_json& json) {
  output("{}\n", json.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace));
}

}  // namespace causeway::cli
