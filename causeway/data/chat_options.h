// How conversations become samples of a dataset, and what came of them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/base/named_values.h"
#include "causeway/formats/chat_template/chat_targets.h"
#include "causeway/formats/chat_template/chat_template.h"
#include "causeway/formats/chat_template/template_files.h"
#include "causeway/formats/dataset_manifest.h"

namespace causeway::data {

// The side of a sample that is cut where it is too long.
enum class TruncatedSide { kLeft, kRight };
constexpr auto named_values(TruncatedSide) {
  return std::to_array<NamedValue<TruncatedSide>>({{TruncatedSide::kLeft, "left"}, {TruncatedSide::kRight, "right"}});
}

// Of conversations.
struct ChatCounts {
  uint64_t rendered = 0;  // by a chat template
  uint64_t pairs = 0;     // texts of a prompt and a completion
  uint64_t dated = 0;     // rendered texts that the date is in
  uint64_t truncated = 0;
  uint64_t truncated_tokens = 0;
  uint64_t without_target = 0;  // left out; pairs of which one side is so
  uint64_t without_end = 0;     // rendered, and nothing behind the last answer's content is a target
  uint64_t preferences = 0;     // preference pairs, of two samples each
  ChatCounts& operator+=(const ChatCounts& other);
};

struct ChatOptions {
  // The first one renders all conversations, but those with tools where there is one called "tool_use". Empty: no
  // messages can be rendered.
  std::vector<formats::ChatTemplateFile> templates;
  std::optional<formats::ChatDate> date;
  std::string date_text;  // the same as it was written
  formats::ChatTurns turns = formats::ChatTurns::kAll;
  uint64_t max_length = 0;  // tokens of a sample that are kept; 0: all
  TruncatedSide truncated_side = TruncatedSide::kRight;
  // Samples of which nothing is trained on are counted and left out; otherwise they are an error.
  bool skip_without_target = false;
  // Records are prompts to be answered (prompt_record.h), each with its record behind it as the target.
  bool prompts = false;

  // What a dataset records of them.
  TargetsRecord record(const ChatCounts& counts) const;
  // What stands around documents, `around` around pairs; nothing where it is not the same of all.
  std::optional<DocumentTokens> documents_of(const ChatCounts& counts, const DocumentTokens& around) const;
};

// The templates of conversations: those of the tokenizer (a directory, or "bytes", which has none); with `wanted` the
// one of that name, or that of a file. Throws Error(kNotFound) where there is no such one, kInvalidArgument where the
// tokenizer has some and none is the default, and what read_chat_template_files() does.
std::vector<formats::ChatTemplateFile> find_chat_templates(const std::string& tokenizer,
                                                           const std::string& wanted = {});

}  // namespace causeway::data
