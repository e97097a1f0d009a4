// What a chat template makes of a conversation that a model goes on with, and what ends its answers.
#include "causeway/generate/conversation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "causeway/base/file.h"
#include "causeway/formats/tokenizer/json_tokenizer.h"
#include "tests/fixtures/error_message.h"

namespace causeway::generate {
namespace {

using ::testing::HasSubstr;

const std::string kConversationFixtures = CAUSEWAY_SOURCE_DIR "/tests/fixtures/chat";

const formats::JsonTokenizer& conversation_tokenizer() {
  static const formats::JsonTokenizer tokenizer = formats::JsonTokenizer::load(kConversationFixtures);
  return tokenizer;
}

Conversation conversation_by(const std::string& chat_template, const Tokenizer& tokenizer) {
  return {{"default", chat_template, "own.jinja"}, tokenizer, formats::ChatDate::parse("2026-11-30")};
}

TEST(Conversation, IsRenderedUpToTheAnswer) {
  for (const char* name : {"chat_template.jinja", "plain.jinja"}) {
    Conversation conversation =
        conversation_by(read_text_file(kConversationFixtures + "/" + name), conversation_tokenizer());
    conversation.add("user", "One.");
    EXPECT_EQ(conversation.prompt_text(), "<|im_start|>user\nOne.<|im_end|>\n<|im_start|>assistant\n") << name;
    conversation.add("assistant", "Two.");
    conversation.add("user", "Three.");
    EXPECT_EQ(conversation.prompt_text(),
              "<|im_start|>user\nOne.<|im_end|>\n<|im_start|>assistant\nTwo.<|im_end|>\n<|im_start|>user\nThree."
              "<|im_end|>\n<|im_start|>assistant\n");
    const std::vector<int32_t> ids = conversation.prompt();
    EXPECT_TRUE(conversation_tokenizer().is_special(ids.front()));
    EXPECT_EQ(conversation_tokenizer().decode(ids), conversation.prompt_text());
    // The token that training takes for the end of a turn.
    ASSERT_TRUE(conversation.answer_end().token);
    EXPECT_EQ(conversation_tokenizer().decode(std::vector<int32_t>{*conversation.answer_end().token}), "<|im_end|>");
  }
}

TEST(Conversation, WhatEndsAnAnswerFollowsFromTheTemplate) {
  const ByteTokenizer bytes;
  const auto end_of = [&](const std::string& chat_template) {
    const AnswerEnd end = conversation_by(chat_template, bytes).answer_end();
    EXPECT_FALSE(end.token);
    return end.text;
  };
  // Text that is no special token ends it as text, without white space behind it.
  EXPECT_EQ(end_of("{% for m in messages %}[{{ m.role }}] {{ m.content }}</s>\n{% endfor %}"), "</s>");
  // The tag that begins the next message, where nothing else is written and the template spells it: the one that is
  // trained on. A tag made of the message's role is not.
  EXPECT_EQ(end_of("{% for m in messages %}{% if m.role == 'user' %}<|user|>{% else %}<|assistant|>{% endif %}"
                   "{{ m.content }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"),
            "<|user|>");
  EXPECT_EQ(end_of("{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"
                   "{% if add_generation_prompt %}<|assistant|>{% endif %}"),
            "");
  // A line break alone ends nothing: an answer may have several lines.
  EXPECT_EQ(end_of("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"), "");
  EXPECT_EQ(end_of("{{ raise_exception('no') }}"), "");
}

TEST(Conversation, TextsBecomePartsWhereOnlyThoseAreRead) {
  Conversation conversation = conversation_by(
      "{% for m in messages %}{{ m.role }}{% for p in m.content if p is mapping %}<{{ p.text }}>{% endfor %}{% endfor "
      "%}",
      ByteTokenizer());
  conversation.add("user", "abc");
  EXPECT_EQ(conversation.prompt_text(), "user<abc>");
}

TEST(Conversation, WhatATemplateRefusesOrLeavesOutIsSaid) {
  const ByteTokenizer bytes;
  Conversation strict = conversation_by(
      "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('No system here') }}{% endif %}"
      "{{ m.content }}{% endfor %}",
      bytes);
  strict.add("system", "x");
  EXPECT_THAT(message_of([&] { strict.prompt_text(); }), HasSubstr("No system here"));
  Conversation silent =
      conversation_by("{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}", bytes);
  silent.add("user", "x");
  EXPECT_EQ(silent.prompt_text(), "x");
  silent.add("tool", "y");
  EXPECT_THAT(message_of([&] { silent.prompt_text(); }),
              HasSubstr("the chat template writes nothing of what the last message says"));
}

}  // namespace
}  // namespace causeway::generate
