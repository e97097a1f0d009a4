// Runs a parsed template.
#pragma once

#include <cstdint>

#include "causeway/formats/chat_template/chat_template.h"
#include "causeway/formats/chat_template/jinja_syntax.h"

namespace causeway::formats {

// Limits of one rendering: far more than any chat takes.
struct RenderingLimits {
  uint64_t steps = 200'000'000;        // nodes of the template that are walked
  uint64_t bytes = uint64_t{1} << 31;  // of all texts that are made
};

// Throws Error with the template's file and line.
RenderedChat run_template(const ChatTemplateProgram& program, const ChatInput& input,
                          const RenderingLimits& limits = {});

}  // namespace causeway::formats
