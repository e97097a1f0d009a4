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
  // Each as name=text.
  std::vector<std::string> found() const {
    std::vector<std::string> files;
    for (const ChatTemplateFile& file : read_chat_template_files(directory_.path().string()))
      files.push_back(file.name + "=" + file.text);
    return files;
  }

  TemporaryDirectory directory_;
};

using Found = std::vector<std::string>;

TEST_F(ChatTemplateFiles, OneTextOfTheTokenizersConfiguration) {
  write("tokenizer_config.json", R"({"chat_template": "a{{ messages | length }}"})");
  EXPECT_EQ(found(), Found{"default=a{{ messages | length }}"});
}

TEST_F(ChatTemplateFiles, NamedTexts) {
  write("tokenizer_config.json", R"({"chat_template": [{"name": "tool_use", "template": "t"},
                                     {"name": "default", "template": "d"}, {"name": "rag", "template": "r"}]})");
  EXPECT_EQ(found(), (Found{"tool_use=t", "default=d", "rag=r"}));
}

TEST_F(ChatTemplateFiles, FilesComeBeforeTheConfiguration) {
  write("chat_template.json", R"({"chat_template": "processor"})");
  EXPECT_EQ(found(), Found{"default=processor"});
  write("tokenizer_config.json", R"({"chat_template": "configuration"})");
  EXPECT_EQ(found(), Found{"default=configuration"});
  write("additional_chat_templates/tool_use.jinja", "tools");
  EXPECT_EQ(found(), Found{"tool_use=tools"}) << "the configuration says nothing where there are files";
  write("chat_template.jinja", "file");
  EXPECT_EQ(found(), (Found{"default=file", "tool_use=tools"}));
}

TEST_F(ChatTemplateFiles, WhatIsNoneOfTheFormatIsNamed) {
  EXPECT_EQ(found(), Found{});
  write("tokenizer_config.json", R"({"chat_template": null})");
  EXPECT_EQ(found(), Found{});
  for (const char* wrong :
       {R"({"chat_template": 1})", R"({"chat_template": [{"name": "a"}]})", R"({"chat_template": ["x"]})"}) {
    write("tokenizer_config.json", wrong);
    const Error error = caught([&] { found(); });
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt) << wrong;
    EXPECT_EQ(error.where(), (directory_.path() / "tokenizer_config.json").string());
  }
}

}  // namespace
}  // namespace causeway::formats
