// Which characters of a rendered chat are trained on: the assistant's turns, by where characters came from, never by
// searching for what a message says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "causeway/formats/chat_template/chat_template.h"

namespace causeway::formats {

enum class ChatTurns { kAll, kLast };

struct TargetOptions {
  ChatTurns turns = ChatTurns::kAll;  // kLast: the last message that is the assistant's
  std::string role = "assistant";     // whose turns
};

// Characters that are targets, of one turn.
struct TargetSpan {
  size_t begin = 0, end = 0;  // bytes of RenderedChat::text
  int32_t message = -1;       // whose turn it is

  bool operator==(const TargetSpan&) const = default;
};

// The targets of `chat`, which `chat_template` rendered from `input`; in order, without overlap.
//
// Where the template has {% generation %} they are what stands within it; what is of no message's turn there is of the
// nearest one's in the same block. Otherwise a turn is what was written while
// the template was at work on the message, from the end of its header on. The header is what the generation prompt
// says, as far as the turn begins so, of characters that are not the message's own but for its role; a section that the
// prompt opens and the answer closes (<think>) is the answer's. What another message says within a turn is no target.
// What a template writes after the last message belongs to that one's turn.
//
// A template that writes nothing behind an answer ends it by the tag that begins the next message (GLM's <|user|>):
// that tag is a target, too. Throws Error as render() does.
std::vector<TargetSpan> target_spans(const ChatTemplate& chat_template, const ChatInput& input,
                                     const RenderedChat& chat, const TargetOptions& options = {});

}  // namespace causeway::formats
