// The filters of templates: value | name(arguments).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "causeway/formats/chat_template/jinja_call.h"
#include "causeway/formats/chat_template/jinja_value.h"

namespace causeway::formats {

// Throws Error for a filter of Jinja's that is not here (kUnsupported), and, unless `is_soft`, for one that nobody has.
void check_filter_name(std::string_view name, bool is_soft, const std::string& where, int line);
bool is_filter(std::string_view name);

JinjaValue apply_filter(std::string_view name, const JinjaValue& value, const JinjaCallArguments& arguments);

// Those that work on lists (sequence_filters.cpp); none where `name` is not one of them.
std::optional<JinjaValue> apply_sequence_filter(std::string_view name, const JinjaValue& value,
                                                const JinjaCallArguments& arguments);
bool is_sequence_filter(std::string_view name);

}  // namespace causeway::formats
