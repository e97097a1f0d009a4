#include "causeway/cli/prompts.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/base/json_document.h"
#include "causeway/cli/standard_input.h"
#include "causeway/data/input_stream.h"

namespace causeway::cli {
namespace {

constexpr const char* kLineHint = R"(Each line reads like {"prompt": "Once"} or {"tokens": [15, 3, 27]}.)";

constexpr const char* kChatLineHint =
    R"(Each line reads like {"prompt": "Who?"} or {"messages": [{"role": "user", "content": "Who?"}]}.)";

Prompt parse_line(const std::string& line, const std::string& where) {
  const nlohmann::json object = parse_json(line, {.name = "the line",
                                                  .where = where,
                                                  .hint = kLineHint,
                                                  .kind = ErrorKind::kInvalidArgument,
                                                  .is_one_line = true});
  const auto fail = [&](const std::string& what) { throw Error(ErrorKind::kInvalidArgument, what, where, kLineHint); };
  const bool has_text = object.is_object() && object.contains("prompt");
  const bool has_tokens = object.is_object() && object.contains("tokens");
  if (has_text && has_tokens) fail("a prompt is either a text \"prompt\" or a list \"tokens\", not both");
  Prompt prompt;
  prompt.where = where;
  if (has_text && object["prompt"].is_string()) {
    prompt.text = object["prompt"].get<std::string>();
    return prompt;
  }
  if (!has_tokens || !object["tokens"].is_array())
    fail("the line is no object with a text \"prompt\" or a list \"tokens\"");
  prompt.is_tokens = true;
  for (const nlohmann::json& id : object["tokens"]) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > uint64_t{std::numeric_limits<int32_t>::max()})
      fail("\"tokens\" holds something that is no token id");
    prompt.tokens.push_back(id.get<int32_t>());
  }
  return prompt;
}

// Of a conversation. Objects keep the order of their keys, which templates may show.
Prompt parse_chat_line(const std::string& line, const std::string& where) {
  const nlohmann::ordered_json object = parse_ordered_json(line, {.name = "the line",
                                                                  .where = where,
                                                                  .hint = kChatLineHint,
                                                                  .kind = ErrorKind::kInvalidArgument,
                                                                  .is_one_line = true});
  Prompt prompt;
  prompt.where = where;
  const bool has_text = object.is_object() && object.contains("prompt") && object["prompt"].is_string();
  const bool has_messages =
      object.is_object() && object.contains("messages") && object["messages"].is_array() && !object["messages"].empty();
  if (has_text == has_messages)
    throw Error(ErrorKind::kInvalidArgument, "the line is no object with a text \"prompt\" or a list \"messages\"",
                where, kChatLineHint);
  if (has_text) prompt.text = object["prompt"].get<std::string>();
  if (!has_messages) return prompt;
  prompt.messages = object["messages"];
  for (const nlohmann::ordered_json& message : prompt.messages)
    if (!message.is_object() || !message.contains("role"))
      throw Error(ErrorKind::kInvalidArgument, "\"messages\" holds something that is no message", where, kChatLineHint);
  return prompt;
}

}  // namespace

std::vector<Prompt> read_prompts(const std::string& path, PromptFormat format) {
  const bool is_standard_input = path == data::kStandardInput;
  const std::string name = is_standard_input ? "standard input" : path;
  std::istringstream lines(is_standard_input ? read_standard_input("Give fewer prompts at once.")
                                             : read_text_file(path));
  std::vector<Prompt> prompts;
  size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) continue;
    const std::string where = fmt::format("{}, line {}", name, number);
    if (format == PromptFormat::kChatLines) {
      prompts.push_back(parse_chat_line(line, where));
    } else if (format == PromptFormat::kJsonLines) {
      prompts.push_back(parse_line(line, where));
    } else {
      prompts.push_back({line, {}, false, where});
    }
  }
  if (prompts.empty())
    throw Error(ErrorKind::kInvalidArgument, is_standard_input ? "there are no prompts" : "the file has no prompts",
                name, "Write one prompt on each line.");
  return prompts;
}

Prompt parse_prompt_tokens(const std::string& ids) {
  constexpr std::string_view kBetween = " \t\r\n,";
  constexpr const char* kHint = "Give ids as numbers with commas between them, such as 15,3,27.";
  Prompt prompt;
  prompt.is_tokens = true;
  prompt.where = "--prompt-tokens";
  for (size_t begin = ids.find_first_not_of(kBetween); begin != std::string::npos;) {
    const size_t end = std::min(ids.find_first_of(kBetween, begin), ids.size());
    int32_t id = -1;
    const auto [stop, code] = std::from_chars(ids.data() + begin, ids.data() + end, id);
    if (code != std::errc() || stop != ids.data() + end || id < 0)
      throw Error(ErrorKind::kInvalidArgument, fmt::format("\"{}\" is not a token id", ids.substr(begin, end - begin)),
                  prompt.where, kHint);
    prompt.tokens.push_back(id);
    begin = ids.find_first_not_of(kBetween, end);
  }
  if (prompt.tokens.empty()) throw Error(ErrorKind::kInvalidArgument, "the prompt is empty", prompt.where, kHint);
  return prompt;
}

}  // namespace causeway::cli
