#include "causeway/formats/chat_template/chat_targets.h"

namespace causeway::formats {

std::vector<TargetSpan> target_spans(const ChatTemplate&, const ChatInput&, const RenderedChat&, const TargetOptions&) {
  return {};
}

}  // namespace causeway::formats
