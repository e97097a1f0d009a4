// Chat templates, compared with what transformers 5.24 renders (tools/make_chat_template_fixtures.py).
#include "causeway/formats/chat_template/chat_template.h"

#include <fmt/format.h>

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>

#include "causeway/formats/chat_template/chat_targets.h"
#include "tests/fixtures/data_test_support.h"

namespace causeway::formats {
namespace {

using Json = nlohmann::ordered_json;

std::string template_fixture(const std::string& name) {
  return read_text_file(fmt::format("{}/tests/fixtures/chat_template/{}", CAUSEWAY_SOURCE_DIR, name));
}

std::vector<std::string> parts_of(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + separator.size();
  }
  return parts;
}

std::vector<Json> lines_of(const std::string& name) {
  std::vector<Json> lines;
  for (const std::string& line : parts_of(template_fixture(name), "\n"))
    if (!line.empty()) lines.push_back(Json::parse(line));
  return lines;
}

ChatInput input_of(const Json& given) {
  ChatInput input;
  input.messages = given.at("messages");
  if (given.contains("tools")) input.tools = given["tools"];
  if (given.contains("variables")) input.variables = given["variables"];
  input.add_generation_prompt = given.value("add_generation_prompt", false);
  if (given.contains("date")) input.date = ChatDate::parse(given["date"].get<std::string>());
  return input;
}

ChatInput chat(Json messages, bool add_generation_prompt = false) {
  ChatInput input;
  input.messages = std::move(messages);
  input.add_generation_prompt = add_generation_prompt;
  return input;
}

Json message(const std::string& role, Json content) { return {{"role", role}, {"content", std::move(content)}}; }

ChatTemplate parse(const std::string& text) { return ChatTemplate::parse(text, "chat_template.jinja"); }

RenderedChat rendered(const std::string& text, const ChatInput& input = chat({message("user", "Hi")})) {
  return parse(text).render(input);
}

Error refusal(const std::string& text, const ChatInput& input = chat({message("user", "Hi")})) {
  return caught([&] { rendered(text, input); });
}

// The text with each run as {field of a message}, <other variable> or itself.
std::string origins(const RenderedChat& chat) {
  std::string result;
  size_t covered = 0;
  for (const ChatSpan& span : chat.spans) {
    EXPECT_EQ(span.begin, covered);
    EXPECT_LT(span.begin, span.end);
    covered = span.end;
    const std::string text = chat.text.substr(span.begin, span.end - span.begin);
    result += span.message >= 0    ? fmt::format("{{{}{}:{}}}", span.message, span.field, text)
              : span.field.empty() ? text
                                   : fmt::format("<{}:{}>", span.field, text);
  }
  EXPECT_EQ(covered, chat.text.size());
  return result;
}

std::string marked(const RenderedChat& chat, const std::vector<TargetSpan>& targets) {
  std::string result;
  size_t at = 0;
  for (const TargetSpan& span : targets) {
    EXPECT_LE(at, span.begin);
    result += fmt::format("{}[{}:{}]", chat.text.substr(at, span.begin - at), span.message,
                          chat.text.substr(span.begin, span.end - span.begin));
    at = span.end;
  }
  return result + chat.text.substr(at);
}

std::string targets(const std::string& text, const ChatInput& input, const TargetOptions& options = {}) {
  const ChatTemplate chat_template = parse(text);
  const RenderedChat chat = chat_template.render(input);
  return marked(chat, target_spans(chat_template, input, chat, options));
}

// Characters (code points) that are targets.
std::vector<bool> target_characters(const std::string& text, const std::vector<TargetSpan>& targets) {
  std::vector<bool> result;
  for (size_t at = 0; at < text.size(); ++at) {
    if ((static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) continue;
    result.push_back(
        std::ranges::any_of(targets, [&](const TargetSpan& span) { return span.begin <= at && at < span.end; }));
  }
  return result;
}

TEST(ChatTemplates, ConstructsGiveWhatTransformersGives) {
  const ChatInput input = input_of(Json::parse(template_fixture("language_input.json")));
  const std::vector<std::string> templates = parts_of(template_fixture("language.txt"), "\n=====\n");
  const std::vector<Json> expected = lines_of("language.jsonl");
  ASSERT_EQ(templates.size(), expected.size());
  ASSERT_GE(templates.size(), 90U);
  size_t texts = 0;
  for (size_t i = 0; i < templates.size(); ++i) {
    SCOPED_TRACE(templates[i]);
    if (expected[i].contains("error")) {
      EXPECT_NE(refusal(templates[i], input).message(), "");
      continue;
    }
    ++texts;
    EXPECT_EQ(rendered(templates[i], input).text, expected[i]["text"].get<std::string>());
  }
  EXPECT_GE(texts, 45U);
}

TEST(ChatTemplates, ChatsOfSeveralStylesGiveTransformersTextsAndMarks) {
  std::map<std::string, ChatTemplate> templates;
  const auto of = [&](const std::string& name) -> const ChatTemplate& {
    const std::string path = fmt::format("styles/{}.jinja", name);
    return templates.try_emplace(name, ChatTemplate::parse(template_fixture(path), path)).first->second;
  };
  size_t compared = 0;
  for (const Json& line : lines_of("chats.jsonl")) {
    SCOPED_TRACE(line.dump());
    const ChatInput input = input_of(line["input"]);
    const auto style = line["style"].get<std::string>();
    for (const ChatTemplate* chat_template : {&of(style), &of(style + ".marked")}) {
      if (line.contains("error")) {
        EXPECT_EQ(caught([&] { chat_template->render(input); }).message(), line["error"].get<std::string>());
        continue;
      }
      const RenderedChat chat = chat_template->render(input);
      ASSERT_EQ(chat.text, line["text"].get<std::string>());
      if (!line.contains("targets")) continue;
      // Where characters came from says what the marks say.
      std::vector<bool> expected(target_characters(chat.text, {}).size());
      for (const Json& range : line["targets"])
        for (size_t i = range[0]; i < range[1].get<size_t>(); ++i) expected[i] = true;
      EXPECT_EQ(target_characters(chat.text, target_spans(*chat_template, input, chat)), expected);
      ++compared;
    }
  }
  EXPECT_GE(compared, 120U);
}

TEST(ChatTemplates, CharactersKeepTheirOriginThroughFiltersAndMethods) {
  const auto origin = [](const std::string& text) {
    ChatInput input = chat({message("user", " A,b<c "), message("assistant", Json::array({"x", {{"k", 1.5}}}))});
    input.variables["bos_token"] = "<s>";
    return origins(rendered(text, input));
  };
  EXPECT_EQ(origin("{{ bos_token }}{{ '|' + messages[0].content | trim + '|' }}"), "<bos_token:<s>>|{0content:A,b<c}|");
  EXPECT_EQ(origin("{% set a = messages[0].content.strip() %}{{ a[2:] ~ 'z' ~ a[0] }}"), "{0content:b<c}z{0content:A}");
  EXPECT_EQ(origin("{{ messages[0].content.split(',') | join('; ') | upper }}"), "{0content: A}; {0content:B<C }");
  EXPECT_EQ(origin("{{ messages[0].content.replace(',', ' and ') }}"), "{0content: A} and {0content:b<c }");
  EXPECT_EQ(origin("{{ messages[0].content | e | replace('A', bos_token) }}"),
            "{0content: }<bos_token:<s>>{0content:,b&lt;c }");
  EXPECT_EQ(origin("{{ messages[1].content | tojson }}"), "{1content:[\"x\", {\"k\": 1.5}]}");
  EXPECT_EQ(origin("{{ {'said': messages[1].content[0]} | tojson }}"), "{\"said\": {1content:\"x\"}}");
  EXPECT_EQ(origin("{{ messages[1].content[1].k * 2 }}"), "{1content:3.0}") << "numbers come from messages, too";
  EXPECT_EQ(
      origin(
          "{% macro m(t) %}<{{ t | trim }}>{% endmacro %}{% set s %}{{ m(messages[0].content) }}.{% endset %}{{ s }}"),
      "<{0content:A,b<c}>.");
  EXPECT_EQ(origin("{% filter lower %}A{{ messages[0].role }}{% endfilter %}"), "a{0role:user}");
  EXPECT_EQ(origin("{{ '%s: %s' % (messages[0].role, 'x') }}{{ '{}'.format(messages[1].role) }}"),
            "{0role:user}: x{1role:assistant}");
  EXPECT_EQ(origin("{{ messages[0].content | indent(2, true) }}"), "  {0content: A,b<c }");
}

TEST(ChatTemplates, SpansNameTheTurnTheMarksAndThePrompt) {
  const ChatInput input = chat({message("user", "q"), message("assistant", "a")}, true);
  const RenderedChat chat = rendered(
      "<{% for m in messages %}{{ m.role[0] ~ ':' }}{% generation %}{{ m.content }};{% endgeneration %}{% endfor %}>"
      "{% if add_generation_prompt and true %}a:{% endif %}{{ 'x' if not add_generation_prompt else 'y' }}",
      input);
  EXPECT_EQ(chat.text, "<u:q;a:a;>a:y");
  const std::vector<ChatSpan> expected = {
      {0, 1, -1, "", -1, false, false},     {1, 2, 0, "role", 0, false, false},   {2, 3, -1, "", 0, false, false},
      {3, 4, 0, "content", 0, true, false}, {4, 5, -1, "", 0, true, false},       {5, 6, 1, "role", 1, false, false},
      {6, 7, -1, "", 1, false, false},      {7, 8, 1, "content", 1, true, false}, {8, 9, -1, "", 1, true, false},
      {9, 10, -1, "", -1, false, false},    {10, 13, -1, "", -1, false, true}};
  EXPECT_EQ(chat.spans, expected);
  EXPECT_TRUE(parse("{% generation %}{% endgeneration %}").has_generation_marks());
  EXPECT_FALSE(parse("generation").has_generation_marks());
}

TEST(ChatTemplates, DatesAreTheCallers) {
  ChatInput input = chat({message("user", "Hi")});
  const std::string today = "a{{ strftime_now('%d %b %Y') }}";
  const Error missing = refusal("\n" + today, input);
  EXPECT_EQ(missing.where(), "chat_template.jinja:2");
  EXPECT_TRUE(contains(missing.message(), "no date is given")) << missing.message();
  input.date = ChatDate::parse("2026-02-28");
  EXPECT_EQ(rendered(today, input).text, "a28 Feb 2026");
  EXPECT_TRUE(rendered(today, input).used_date);
  EXPECT_FALSE(rendered("{{ 'x' if false else strftime_now is defined }}", input).used_date);
  for (const char* wrong : {"2026-02-30", "2026-2-28", "yesterday", "2026-02-28 25:00:00", "2026-02-28T10:00:00", ""})
    EXPECT_EQ(caught([&] { ChatDate::parse(wrong); }).kind(), ErrorKind::kInvalidArgument) << wrong;
}

TEST(ChatTemplates, WhatIsNotHereIsRefusedByItsNameAndLine) {
  const auto unsupported = [](const std::string& text, const std::string& name) {
    const Error error = refusal(text);
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported) << text;
    EXPECT_TRUE(contains(error.message(), name)) << error.message();
    EXPECT_EQ(error.where(), "chat_template.jinja:2") << text;
  };
  unsupported("\n{% include 'x' %}", "{% include %}");
  unsupported("\n{% block x %}{% endblock %}", "{% block %}");
  unsupported("\n{% for a in b recursive %}{% endfor %}", "a recursive loop");
  unsupported("\n{{ 'x' | wordwrap(3) }}", "the filter 'wordwrap'");
  unsupported("\n{{ 'x'.encode() }}", "str.encode()");
  unsupported("\n{{ joiner() }}", "joiner()");
  unsupported("\n{{ 2 ** 64 }}", "64 bits");
  unsupported("\n{{ '{:{}}'.format(1, 2) }}", "formats by");
}

TEST(ChatTemplates, MistakesSayWhereTheyAre) {
  const auto says = [](const std::string& text, const std::string& message, const std::string& where) {
    const Error error = refusal(text);
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << text;
    EXPECT_EQ(error.message(), message);
    EXPECT_EQ(error.where(), "chat_template.jinja:" + where) << text;
  };
  says("a\n{% if x %}b", "the chat template is not valid: the template ends where {% endif %} is missing", "2");
  says("{% for x in y %}\n\n{% endif %}",
       "the chat template is not valid: unknown tag 'endif' where {% endfor %} was looked for", "3");
  says("\n\n{{ messages[0].name + 'x' }}", "the chat template fails: 'dict object' has no attribute 'name'", "3");
  says("{{ raise_exception('Only ' ~ messages | length ~ ' message') }}", "Only 1 message", "1");
  says("{{ messages.append(1) }}", "the chat template fails: access to attribute 'append' of 'list' object is unsafe.",
       "1");
  const ChatTemplate chat_template = parse("x");
  EXPECT_TRUE(contains(caught([&] { chat_template.render(chat(Json::array())); }).message(), "at least one"));
  EXPECT_TRUE(
      contains(caught([&] { chat_template.render(chat({message("user", "x"), "y"})); }).message(), "message 1"));
  ChatInput taken = chat({message("user", "x")});
  taken.variables["tools"] = 1;
  EXPECT_TRUE(contains(caught([&] { chat_template.render(taken); }).message(), "'tools'"));
}

TEST(ChatTemplates, TemplatesThatDoNotEndAreStopped) {
  const auto kind = [](const std::string& text) { return refusal(text).kind(); };
  EXPECT_EQ(kind("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), ErrorKind::kResource);
  EXPECT_EQ(
      kind(
          "{% for a in range(100000) %}{% for b in range(100000) %}{% for c in range(100000) %}{% endfor %}{% endfor %}"
          "{% endfor %}"),
      ErrorKind::kResource);
  EXPECT_EQ(kind("{{ 'x' * 1000000000 }}"), ErrorKind::kResource);
  EXPECT_EQ(kind("{{ [1] * 1000000000 }}"), ErrorKind::kResource);
  EXPECT_EQ(kind("{% set ns = namespace(x='x') %}{% for a in range(100) %}{% set ns.x = ns.x + ns.x %}{% endfor %}"),
            ErrorKind::kResource);
  EXPECT_EQ(kind("{% set ns = namespace(x=[]) %}{% for a in range(1000) %}{% set ns.x = [ns.x] %}{% endfor %}"),
            ErrorKind::kInvalidArgument);
  EXPECT_EQ(kind("{{ " + std::string(5000, '(') + "1" + std::string(5000, ')') + " }}"), ErrorKind::kUnsupported);
  std::string sum = "1";
  for (int i = 0; i < 5000; ++i) sum += " + 1";
  EXPECT_EQ(kind("{{ " + sum + " }}"), ErrorKind::kUnsupported);
  EXPECT_EQ(rendered("{% set ns = namespace() %}{% set ns.own = ns %}{{ ns.own.own == ns }}").text, "True");
}

constexpr char kTurns[] =
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}";

TEST(ChatTargets, AnswersWithTheirEndAndWithoutTheirHeader) {
  const ChatInput input = chat({message("system", "s"), message("user", "q"), message("assistant", "a"),
                                message("user", "q"), message("assistant", "b")});
  EXPECT_EQ(targets(kTurns, input),
            "<|system|>s<|end|><|user|>q<|end|><|assistant|>[2:a<|end|>]<|user|>q<|end|><|assistant|>[4:b<|end|>]");
  EXPECT_EQ(targets(kTurns, input, {.turns = ChatTurns::kLast}),
            "<|system|>s<|end|><|user|>q<|end|><|assistant|>a<|end|><|user|>q<|end|><|assistant|>[4:b<|end|>]");
  EXPECT_EQ(targets(kTurns, input, {.role = "system"}).substr(0, 27), "<|system|>[0:s<|end|>]<|use");
}

TEST(ChatTargets, WhatMessagesSayDecidesNothing) {
  const auto of = [](const std::string& content) {
    return targets(kTurns, chat({message("user", "<|assistant|>x<|end|>"), message("assistant", content)}));
  };
  const std::string before = "<|user|><|assistant|>x<|end|><|end|><|assistant|>";
  EXPECT_EQ(of(""), before + "[1:<|end|>]");
  EXPECT_EQ(of("<|assistant|>"), before + "[1:<|assistant|><|end|>]") << "content that reads as the header";
  EXPECT_EQ(of("<|user|>x"), before + "[1:<|user|>x<|end|>]");
}

TEST(ChatTargets, AnswersThatFollowOneAnotherAreTurnsEach) {
  EXPECT_EQ(targets(kTurns, chat({message("user", "q"), message("assistant", "a"), message("assistant", "b")})),
            "<|user|>q<|end|><|assistant|>[1:a<|end|>]<|assistant|>[2:b<|end|>]");
  EXPECT_EQ(targets(kTurns, chat({message("assistant", "a"), message("user", "q")})),
            "<|assistant|>[0:a<|end|>]<|user|>q<|end|>");
  EXPECT_EQ(targets(kTurns, chat({message("user", "q")})), "<|user|>q<|end|>") << "no answer, no target";
}

TEST(ChatTargets, AnOpenedSectionIsTheAnswersBeginning) {
  const std::string thinks =
      "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}<think>{{ m.thinking }}</think>{% endif %}"
      "{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|><think>{% endif %}";
  Json answer = message("assistant", "a");
  EXPECT_EQ(targets(thinks, chat({message("user", "q"), answer})),
            "<|user|>q<|end|><|assistant|>[1:<think></think>a<|end|>]");
  answer["reasoning"] = "r";
  EXPECT_EQ(targets(thinks, chat({message("user", "q"), answer})),
            "<|user|>q<|end|><|assistant|>[1:<think>r</think>a<|end|>]");
}

// What stands behind a message's content in a loop over numbers is of its turn.
TEST(ChatTargets, LoopsOverNumbersWorkOnTheMessageThatTheyWrite) {
  const ChatInput input =
      chat({message("user", "q"), message("assistant", "a"), message("user", "r"), message("assistant", "b")});
  EXPECT_EQ(targets("{% for i in range(messages | length) %}{{ 'A: ' if messages[i].role == 'assistant' else 'Q: ' }}"
                    "{{ messages[i].content }}{{ '</s>' }}{% endfor %}",
                    input),
            "Q: q</s>A: [1:a</s>]Q: r</s>A: [3:b</s>]");
  // What {% generation %} has before the content, too.
  const std::string marks =
      "{% for i in range(messages | length) %}{% if messages[i].role == 'assistant' %}A: {% generation %}<a>"
      "{{ messages[i].content }}</s>{% endgeneration %}{% else %}{{ messages[i].content }};{% endif %}{% endfor %}";
  EXPECT_EQ(targets(marks, input), "q;A: [1:<a>a</s>]r;A: [3:<a>b</s>]");
  EXPECT_EQ(targets(marks, input, {.turns = ChatTurns::kLast}), "q;A: <a>a</s>r;A: [3:<a>b</s>]");
  EXPECT_EQ(targets("{{ messages[0].content }};A: {% generation %}<a>{{ messages[1].content }}</s>{% endgeneration %}",
                    input),
            "q;A: [1:<a>a</s>]")
      << "without any loop";
}

TEST(ChatTargets, OtherMessagesWithinATurnAreNone) {
  // A tool's answer names the tool by the call before it.
  const std::string text =
      "{% for m in messages %}{% if m.role == 'tool' %}<|{{ messages[loop.index0 - 1].tool }}|>{% else %}<|{{ m.role "
      "}}|>"
      "{% endif %}{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";
  Json call = message("assistant", "a");
  call["tool"] = "find";
  EXPECT_EQ(targets(text, chat({message("user", "q"), call, message("tool", "t"), message("assistant", "b")})),
            "<|user|>q<|end|><|assistant|>[1:a<|end|>]<|find|>t<|end|><|assistant|>[3:b<|end|>]");
  // A message that is kept and written later.
  const std::string kept =
      "{% set ns = namespace(kept='') %}{% for m in messages %}{% if m.role == 'assistant' %}{% set ns.kept = "
      "m.content %}"
      "{% else %}{{ ns.kept }}[{{ m.content }}]{% set ns.kept = '' %}{% endif %}{% endfor %}{{ ns.kept }}";
  EXPECT_EQ(targets(kept, chat({message("user", "q"), message("assistant", "a"), message("user", "r"),
                                message("assistant", "b")})),
            "[q][1:a][r][3:b]");
}

TEST(ChatTargets, HeadersThatDifferFromThePromptEndBeforeTheTagThatDiffers) {
  const std::string text =
      "{% for m in messages %}<|turn|>{{ m.role }}<|text|>{{ m.content }}<|end|>{% endfor %}"
      "{% if add_generation_prompt %}<|turn|>assistant<|thought|>{% endif %}";
  EXPECT_EQ(targets(text, chat({message("user", "q"), message("assistant", "a")})),
            "<|turn|>user<|text|>q<|end|><|turn|>assistant[1:<|text|>a<|end|>]");
  // A prompt that is written without being asked for; what closes the tools' answers before an answer.
  const std::string always =
      "{% for m in messages %}{% if m.role == 'tool' %}<o>{{ m.content }}{% if loop.last %}</o>{% endif %}{% else %}"
      "{{ '</o>' if loop.index0 > 0 and loop.previtem.role == 'tool' else '<' + m.role + '>' }}{{ m.content }}<end>{% "
      "endif %}"
      "{% if loop.last and m.role != 'tool' %}<assistant>{% endif %}{% endfor %}";
  EXPECT_EQ(targets(always, chat({message("user", "q"), message("assistant", "c"), message("tool", "t"),
                                  message("assistant", "a")})),
            "<user>q<end><assistant>[1:c<end>]<o>t</o>[3:a<end><assistant>]");
  EXPECT_EQ(targets(always, chat({message("user", "q"), message("assistant", "a")})),
            "<user>q<end><assistant>[1:a<end>]<assistant>");
}

TEST(ChatTargets, TheNextTagEndsATurnThatTheTemplateLeavesOpen) {
  const std::string open =
      "{% for m in messages %}{% if m.role == 'user' %}<user>{% elif m.role == 'tool' %}<tool>{% else %}<assistant>{% "
      "endif %}"
      " {{ m.content }}{% if m.call %}<call>{{ m.call }}</call>{% endif %}{% endfor %}"
      "{% if add_generation_prompt %}<assistant> {% endif %}";
  Json call = message("assistant", "");
  call["call"] = "f";
  const auto next = [&](const std::string& role) {
    return targets(open, chat({message("user", "q"), call, message(role, "x"), message("assistant", "a")}));
  };
  EXPECT_EQ(next("user"), "<user> q<assistant> [1:<call>f</call><user>] x<assistant> [3:a]");
  EXPECT_EQ(next("tool"), "<user> q<assistant> [1:<call>f</call><tool>] x<assistant> [3:a]");
  EXPECT_EQ(next("assistant"), "<user> q<assistant> [1:<call>f</call>]<assistant> [2:x]<assistant> [3:a]")
      << "an answer does not end by another one";
}

TEST(ChatTargets, TemplatesWithoutAPromptHaveTheirRoleAsHeader) {
  const std::string plain = "{% for m in messages %}{{ m.role | upper }}: {{ m.content }}\n{% endfor %}";
  EXPECT_EQ(targets(plain, chat({message("user", "q"), message("assistant", "a")})), "USER: q\nASSISTANT: [1:a\n]");
  EXPECT_EQ(targets("{% for m in messages %}{{ m.content }};{% endfor %}",
                    chat({message("user", "q"), message("assistant", "a")})),
            "q;[1:a;]");
}

}  // namespace
}  // namespace causeway::formats
