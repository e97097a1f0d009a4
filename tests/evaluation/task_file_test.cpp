#include "causeway/evaluation/task_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "causeway/evaluation/task_requests.h"
#include "tests/fixtures/error_message.h"
#include "tests/fixtures/temporary_directory.h"

namespace causeway::evaluation {
namespace {

using ::testing::HasSubstr;

constexpr char kDocument[] = R"({"query": "a", "choices": ["b", "c"], "gold": 0})";

TEST(TaskFile, IsFoundByNameOrPath) {
  const TemporaryDirectory directory;
  directory.write("piqa.jsonl", std::string(kDocument) + "\n\n" + kDocument + "\r\n");
  const Task by_name = load_task("piqa", directory.path());
  EXPECT_EQ(by_name.name, "piqa");
  EXPECT_EQ(by_name.documents.size(), 2u);
  EXPECT_THAT(by_name.places[1], HasSubstr("piqa.jsonl, line 3"));
  EXPECT_EQ(load_task((directory / "piqa.jsonl").string(), "nowhere").hash, by_name.hash);
  directory.write("mine.jsonl", kDocument);
  EXPECT_EQ(load_task("mine", directory.path()).format->names.front(), "multiple_choice");
}

// The same bytes asked in another way are another task.
TEST(TaskFile, ItsHashIsOfTheBytesAndOfTheFormat) {
  const TemporaryDirectory directory;
  const auto hash = [&](const char* name, const std::string& text) {
    directory.write(name, text);
    return load_task((directory / name).string(), "").hash;
  };
  const std::string piqa = hash("piqa.jsonl", kDocument);
  EXPECT_EQ(piqa.size(), 32u);
  EXPECT_NE(hash("piqa.jsonl", std::string(kDocument) + "\n"), piqa);
  EXPECT_NE(hash("hellaswag.jsonl", kDocument), piqa);
  EXPECT_EQ(hash("winograd.jsonl", R"({"context_options": ["a", "b"], "continuation": "c", "gold": 0})"),
            hash("wsc273.jsonl", R"({"context_options": ["a", "b"], "continuation": "c", "gold": 0})"));
}

TEST(TaskFile, SaysWhatIsMissing) {
  const TemporaryDirectory directory;
  const auto message = [&](const std::string& name) { return message_of([&] { load_task(name, directory.path()); }); };
  EXPECT_THAT(message("piqa"), HasSubstr("piqa.jsonl: there is no file of the task piqa\n  Put the task's documents "
                                         "there, one JSON object a line (docs/evaluate.md lists the fields), or name "
                                         "the directory that has them with --data."));
  EXPECT_THAT(message("arc_esay"), HasSubstr("there is no task 'arc_esay', and no file of that name\n  Did you mean "
                                             "arc_easy?"));
  EXPECT_THAT(message("nothing like it"), HasSubstr("Name one of the tasks in docs/evaluate.md"));
  EXPECT_THAT(message((directory / "gone.jsonl").string()), HasSubstr("gone.jsonl"));
  directory.write("piqa.jsonl", " \n");
  EXPECT_THAT(message("piqa"), HasSubstr("the task's file holds no documents"));
  directory.write("piqa.jsonl", std::string(kDocument) + "\n{");
  EXPECT_THAT(message("piqa"), HasSubstr("piqa.jsonl, line 2"));
  directory.write("piqa.jsonl", "[]");
  EXPECT_THAT(message("piqa"), HasSubstr("line 1: the line is a JSON array, not an object"));
  directory.write("mine.jsonl", R"({"sentence": "a"})");
  EXPECT_THAT(message("mine"), HasSubstr("mine.jsonl, line 1: the document is not of a form that is known"));
}

TEST(TaskFile, TooFewExamplesAreRefused) {
  const TemporaryDirectory directory;
  directory.write("piqa.jsonl", std::string(kDocument) + "\n" + kDocument);
  const Task task = load_task("piqa", directory.path());
  EXPECT_THAT(message_of([&] { task_requests(task, task, {.shots = 2}); }),
              HasSubstr("2 examples are to be drawn from 2 documents\n  Ask for at most 1 with --shots."));
  // The document itself is no example, nor is one that says the same.
  EXPECT_THAT(message_of([&] { task_requests(task, task, {.shots = 1}); }),
              HasSubstr("piqa.jsonl, line 1: 1 examples are to be drawn, and 0 documents differ from this one"));
  EXPECT_EQ(task_requests(task, task, {.limit = 1}).size(), 1u);
}

// Another file's documents, as random.Random(7).sample(range(9), ...) chooses them: as many as asked for, and of a task
// without a test split one more, which is left out.
TEST(TaskFile, ExamplesOfAnotherFile) {
  const TemporaryDirectory directory;
  for (const char* name : {"arc_easy", "piqa"}) {
    SCOPED_TRACE(name);
    directory.write(std::string(name) + ".jsonl", std::string(kDocument) + "\n" + kDocument);
    std::string others;
    for (char query = '0'; query < '9'; ++query)
      others += std::string(R"({"query": ")") + query + R"(", "choices": ["b", "c"], "gold": 1})" + "\n";
    directory.write(std::string("others/") + name + ".jsonl", others);
    const Task task = load_task(name, directory.path()), examples = load_task(name, directory / "others");
    const auto requests = task_requests(task, examples, {.shots = 2, .seed = 7});
    const auto context = [](char first, char second) {
      return std::string(1, first) + "\nAnswer: c\n\n" + second + "\nAnswer: c\n\na\nAnswer:";
    };
    EXPECT_EQ(requests[0][0].context, std::string(name) == "piqa" ? context('5', '2') : context('5', '2'));
    EXPECT_EQ(requests[1][0].context, std::string(name) == "piqa" ? context('0', '1') : context('6', '0'));
  }
}

}  // namespace
}  // namespace causeway::evaluation
