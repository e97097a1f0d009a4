// Which variable a name means: Jinja decides that from the text of a template, before it runs.
#pragma once

#include "causeway/formats/chat_template/jinja_syntax.h"

namespace causeway::formats {

// Resolves every name of the program, and refuses filters and tests that are not there where they are reached for
// certain. Throws Error.
void resolve_names(ChatTemplateProgram& program);

}  // namespace causeway::formats
