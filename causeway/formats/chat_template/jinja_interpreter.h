// Runs a parsed template.
#pragma once

#include <cstddef>
#include <cstdint>

#include "causeway/formats/chat_template/chat_template.h"
#include "causeway/formats/chat_template/jinja_syntax.h"

namespace causeway::formats {

// Limits of one rendering.
struct RenderingLimits {
  uint64_t steps = 0;  // nodes of the template that are walked
  uint64_t bytes = 0;  // of all texts that are made
};

// Throws Error with the template's file and line.
RenderedChat run_template(const ChatTemplateProgram& program, const ChatInput& input, const RenderingLimits& limits);

// Far more than a chat of so many messages takes, of which a template may compare each with all.
RenderingLimits limits_of(size_t messages);

}  // namespace causeway::formats
