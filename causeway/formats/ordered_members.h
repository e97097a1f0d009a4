// Members added to an object of nlohmann::ordered_json without looking through those that it has, which would take time
// by the square of their number.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::formats {

// `object` must be an object that has no such key.
inline void append_member(nlohmann::ordered_json& object, std::string key, nlohmann::ordered_json value) {
  using Members = std::vector<std::pair<const std::string, nlohmann::ordered_json>>;
  static_cast<Members&>(object.get_ref<nlohmann::ordered_json::object_t&>())
      .emplace_back(std::move(key), std::move(value));
}

}  // namespace causeway::formats
