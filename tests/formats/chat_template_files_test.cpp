// Where chat templates are found in a Hugging Face directory.
#include "causeway/formats/chat_template/template_files.h"
#include "tests/fixtures/data_test_support.h"

namespace causeway::formats {
namespace {

class ChatTemplateFiles : public testing::Test {
 protected:
  void write(const std::string& name, std::string_view text) const {
    std::filesystem::create_directories((directory_.path() / name).parent_path());
    write_file_atomically(directory_.path() / name, text);
  }
  std::string load(std::string_view name = {}, bool has_tools = false) const {
    ChatInput input;
    input.messages = {{{"role", "user"}, {"content", "x"}}};
    return load_chat_template(directory_.path().string(), name, has_tools).render(input).text;
  }
  Error refusal(std::string_view name = {}) const {
    return caught([&] { load(name); });
  }

  TemporaryDirectory directory_;
};

TEST_F(ChatTemplateFiles, OneTextOfTheTokenizersConfiguration) {
  write("tokenizer_config.json", R"({"chat_template": "a{{ messages | length }}"})");
  EXPECT_EQ(load(), "a1");
  EXPECT_EQ(load({}, true), "a1");
  EXPECT_TRUE(contains(refusal("rag").message(), "'rag'"));
  EXPECT_TRUE(contains(refusal("rag").hint(), "default"));
}

TEST_F(ChatTemplateFiles, NamedTextsAndTheOneForTools) {
  write("tokenizer_config.json", R"({"chat_template": [{"name": "tool_use", "template": "t"},
                                     {"name": "default", "template": "d"}, {"name": "rag", "template": "r"}]})");
  EXPECT_EQ(load(), "d");
  EXPECT_EQ(load({}, true), "t");
  EXPECT_EQ(load("rag", true), "r");
  write("tokenizer_config.json",
        R"({"chat_template": [{"name": "a", "template": "t"}, {"name": "b", "template": "d"}]})");
  EXPECT_TRUE(contains(refusal().message(), "none of them is called \"default\""));
  EXPECT_TRUE(contains(refusal().hint(), "a, b"));
}

TEST_F(ChatTemplateFiles, FilesComeBeforeTheConfiguration) {
  write("chat_template.json", R"({"chat_template": "processor"})");
  EXPECT_EQ(load(), "processor");
  write("tokenizer_config.json", R"({"chat_template": "configuration"})");
  EXPECT_EQ(load(), "configuration");
  write("additional_chat_templates/tool_use.jinja", "tools");
  EXPECT_EQ(load("tool_use"), "tools");
  EXPECT_EQ(refusal().kind(), ErrorKind::kNotFound) << "the configuration says nothing where there are files";
  write("chat_template.jinja", "file\r\n");
  EXPECT_EQ(load(), "file");
  EXPECT_EQ(load({}, true), "tools");
}

TEST_F(ChatTemplateFiles, WhatIsMissingIsNamed) {
  const Error none = refusal();
  EXPECT_EQ(none.kind(), ErrorKind::kNotFound);
  for (const char* looked_for :
       {"chat_template.jinja", "additional_chat_templates", "tokenizer_config.json", "chat_template.json"})
    EXPECT_TRUE(contains(none.message(), looked_for)) << none.message();
  EXPECT_EQ(none.where(), directory_.path().string());
  write("tokenizer_config.json", R"({"chat_template": null})");
  EXPECT_EQ(refusal().kind(), ErrorKind::kNotFound);
  for (const char* wrong :
       {R"({"chat_template": 1})", R"({"chat_template": [{"name": "a"}]})", R"({"chat_template": ["x"]})"}) {
    write("tokenizer_config.json", wrong);
    EXPECT_EQ(refusal().kind(), ErrorKind::kCorrupt) << wrong;
  }
}

}  // namespace
}  // namespace causeway::formats
