// The tests of templates: value is name(arguments).
#pragma once

#include <string>
#include <string_view>

#include "causeway/formats/chat_template/jinja_call.h"
#include "causeway/formats/chat_template/jinja_value.h"

namespace causeway::formats {

// Throws Error for a test that nobody has, unless `is_soft`.
void check_test_name(std::string_view name, bool is_soft, const std::string& where, int line);

bool apply_test(std::string_view name, const JinjaValue& value, const JinjaCallArguments& arguments);

}  // namespace causeway::formats
