// A macro as a value, and the variables of a function while it runs.
#pragma once

#include <string>
#include <vector>

#include "causeway/formats/chat_template/jinja_syntax.h"
#include "causeway/formats/chat_template/jinja_value.h"

namespace causeway::formats {

// The variables of one call of a function. `outer`: of the function around it.
struct JinjaActivation {
  JinjaValues slots;
  JinjaActivation* outer = nullptr;
};

// Refers to the program and to an activation, both of which the interpreter keeps while it runs.
struct JinjaMacro : JinjaObject {
  const JinjaFunctionBody* body = nullptr;
  JinjaActivation* outer = nullptr;
  std::string name;
};

}  // namespace causeway::formats
