#include "causeway/data/chat_record.h"

#include "tests/fixtures/data_test_support.h"

namespace causeway::data {
namespace {

ChatRecord read(const std::string& text) {
  return read_chat_record(nlohmann::ordered_json::parse(text), "chats.jsonl, line 3");
}

std::vector<std::string> roles_of(const ChatRecord& record) {
  std::vector<std::string> roles;
  for (const auto& message : record.input.messages)
    roles.push_back(message["role"].get<std::string>() + ":" + message["content"].dump());
  return roles;
}

using Roles = std::vector<std::string>;
using Weights = std::vector<float>;

TEST(ChatRecord, EachFormBecomesMessages) {
  const ChatRecord messages = read(
      R"({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "q"},
                       {"role": "assistant", "content": "a"}], "id": 7})");
  EXPECT_EQ(roles_of(messages), (Roles{"system:\"s\"", "user:\"q\"", "assistant:\"a\""}));
  EXPECT_EQ(messages.weights, (Weights{0, 0, 1}));
  const ChatRecord sharegpt =
      read(R"({"system": "s", "conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]})");
  EXPECT_EQ(roles_of(sharegpt), roles_of(messages));
  EXPECT_EQ(sharegpt.weights, messages.weights);
  const ChatRecord beside =
      read(R"({"system": "s", "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]})");
  EXPECT_EQ(roles_of(beside), roles_of(messages));
  EXPECT_EQ(beside.weights, messages.weights);
  EXPECT_EQ(roles_of(read(R"({"system": "s", "prompt": [{"role": "user", "content": "q"}],
                              "completion": [{"role": "assistant", "content": "a"}]})")),
            roles_of(messages));
  const ChatRecord by_role =
      read(R"({"conversations": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]})");
  EXPECT_EQ(roles_of(by_role), (Roles{"user:\"q\"", "assistant:\"a\""}));
  const ChatRecord alpaca = read(R"({"instruction": "add", "input": "1 and 2", "output": "3"})");
  EXPECT_EQ(roles_of(alpaca), (Roles{"user:\"add\\n1 and 2\"", "assistant:\"3\""}));
  EXPECT_EQ(roles_of(read(R"({"instruction": "add", "input": "", "output": "3"})")),
            (Roles{"user:\"add\"", "assistant:\"3\""}));
  const ChatRecord lists = read(
      R"({"prompt": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "b"}],
          "completion": [{"role": "user", "content": "r"}, {"role": "assistant", "content": "a"}]})");
  EXPECT_EQ(lists.weights, (Weights{0, 0, 0, 1}));
  const ChatRecord texts = read(R"({"prompt": "q", "completion": "a"})");
  EXPECT_FALSE(texts.is_rendered());
  EXPECT_EQ(*texts.prompt + "|" + *texts.completion, "q|a");
}

TEST(ChatRecord, WeightsAreHonouredAndTakenOut) {
  const ChatRecord record = read(
      R"({"messages": [{"role": "user", "content": "q", "weight": 0}, {"role": "assistant", "content": "a", "weight": 0},
                       {"role": "assistant", "content": "b", "weight": 1.0}, {"role": "assistant", "content": "c"},
                       {"role": "assistant", "content": "d", "weight": 0.1}, {"role": "user", "content": "q", "weight": null},
                       {"role": "assistant", "content": "e", "weight": 2}]})");
  EXPECT_EQ(record.weights, (Weights{0, 0, 1, 1, 0.1f, 0, 2}));
  for (const auto& message : record.input.messages) EXPECT_FALSE(message.contains("weight"));
  EXPECT_EQ(read(R"({"conversations": [{"from": "gpt", "value": "a", "weight": 0}]})").weights, Weights{0});
}

TEST(ChatRecord, ToolsAndVariablesStandBeside) {
  const ChatRecord record = read(
      R"({"messages": [{"role": "user", "content": "q"}], "tools": [{"z": 1, "a": 2}],
          "chat_template_kwargs": {"enable_thinking": false}})");
  EXPECT_EQ(record.input.tools.dump(), R"([{"z":1,"a":2}])");
  EXPECT_EQ(record.input.variables.dump(), R"({"enable_thinking":false})");
  EXPECT_TRUE(record.input.documents.is_null());
  EXPECT_EQ(
      read(R"({"messages": [{"role": "user", "content": "q"}], "documents": [{"text": "d"}]})").input.documents.dump(),
      R"([{"text":"d"}])");
  EXPECT_EQ(read(R"({"messages": [{"role": "user", "content": "q"}], "tools": "[{\"z\":1}]"})").input.tools.dump(),
            R"([{"z":1}])");
  EXPECT_TRUE(read(R"({"messages": [{"role": "user", "content": "q"}], "tools": []})").input.tools.is_null());
}

TEST(ChatRecord, WhatIsNoneIsNamed) {
  struct Case {
    const char* record;
    ErrorKind kind;
    const char* message;
  };
  for (const Case& one : {
           Case{R"({"text": "x", "id": 1})", ErrorKind::kInvalidArgument,
                "the record is no conversation of a known form; its fields are \"text\", \"id\""},
           Case{R"({"prompt": "x", "chosen": "a", "rejected": "b"})", ErrorKind::kInvalidArgument,
                "its fields are \"prompt\", \"chosen\", \"rejected\""},
           Case{R"({"messages": []})", ErrorKind::kInvalidArgument, "the conversation has no messages"},
           Case{R"({"messages": "x"})", ErrorKind::kInvalidArgument, "\"messages\" is a JSON string, not a list"},
           Case{R"({"messages": [{"content": "x"}]})", ErrorKind::kInvalidArgument,
                "message 1 of \"messages\" has no \"role\""},
           Case{R"({"messages": [{"role": "user", "content": "x"}, 3]})", ErrorKind::kInvalidArgument,
                "message 2 of \"messages\" is a JSON number, not an object"},
           Case{R"({"messages": [{"role": "assistant", "content": "x", "weight": -0.5}]})", ErrorKind::kUnsupported,
                "message 1 of \"messages\" has the weight -0.5"},
           Case{R"({"messages": [{"role": "assistant", "content": "x", "weight": 1e-9}]})", ErrorKind::kUnsupported,
                "message 1 of \"messages\" has the weight 1e-09"},
           Case{R"({"messages": [{"role": "assistant", "content": "x", "weight": 1e39}]})", ErrorKind::kUnsupported,
                "message 1 of \"messages\" has the weight 1e+39"},
           Case{R"({"messages": [{"role": "assistant", "content": "x", "weight": "1"}]})", ErrorKind::kUnsupported,
                "message 1 of \"messages\" has the weight \"1\""},
           Case{R"({"messages": [{"role": "user", "content": "x", "weight": 0.5}]})", ErrorKind::kUnsupported,
                "message 1 of \"messages\" is the user's and has the weight 0.5"},
           Case{R"({"messages": [{"role": "user", "content": "x", "weight": 1}]})", ErrorKind::kUnsupported,
                "message 1 of \"messages\" is the user's and has the weight 1"},
           Case{R"({"prompt": [{"role": "assistant", "content": "x", "weight": 1}],
                    "completion": [{"role": "assistant", "content": "y"}]})",
                ErrorKind::kUnsupported, "message 1 of \"prompt\" has the weight 1"},
           Case{R"({"system": "s", "messages": [{"role": "system", "content": "x"}]})", ErrorKind::kInvalidArgument,
                "message 1 of \"messages\" is a system one, and \"system\" stands beside it"},
           Case{R"({"system": "s", "conversations": [{"from": "system", "value": "x"}]})", ErrorKind::kInvalidArgument,
                "message 1 of \"conversations\" is a system one, and \"system\" stands beside it"},
           Case{R"({"messages": [{"role": "user", "content": "x"}], "documents": "d"})", ErrorKind::kInvalidArgument,
                "\"documents\" is no list"},
           Case{R"({"prompt": "x", "completion": "y", "documents": [{}]})", ErrorKind::kInvalidArgument,
                "\"documents\" stands beside a prompt and a completion that are texts"},
           Case{R"({"messages": [{"role": "assistant", "content": "x", "train": false}]})", ErrorKind::kUnsupported,
                "message 1 of \"messages\" has the key \"train\""},
           Case{R"({"messages": [{"role": "user", "content": [{"type": "image", "url": "x"}]}]})",
                ErrorKind::kUnsupported, "message 1 of \"messages\" has a part of the type \"image\""},
           Case{R"({"conversations": [{"from": "narrator", "value": "x"}]})", ErrorKind::kUnsupported,
                "message 1 of \"conversations\" is from \"narrator\""},
           Case{R"({"prompt": "x", "completion": []})", ErrorKind::kInvalidArgument,
                "\"prompt\" is a JSON string and \"completion\" a JSON array"},
           Case{R"({"prompt": "x", "completion": "y", "tools": [1]})", ErrorKind::kInvalidArgument,
                "\"tools\" stands beside a prompt and a completion that are texts"},
           Case{R"({"instruction": 3, "output": "y"})", ErrorKind::kInvalidArgument,
                "\"instruction\" is a JSON number, not a text"},
           Case{R"({"messages": [{"role": "user", "content": "x"}], "tools": "[1,"})", ErrorKind::kCorrupt,
                "\"tools\" is not valid JSON"},
       }) {
    const Error error = caught([&] { read(one.record); });
    EXPECT_TRUE(contains(error.message(), one.message)) << error.message();
    EXPECT_EQ(error.kind(), one.kind) << one.record;
    EXPECT_EQ(error.where(), "chats.jsonl, line 3");
    EXPECT_FALSE(error.hint().empty() && one.kind != ErrorKind::kCorrupt) << one.record;
  }
}

}  // namespace
}  // namespace causeway::data
