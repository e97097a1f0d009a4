// A trained model judged by tasks and texts.
#include <cmath>

#include "tests/cli/program_under_test.h"

namespace causeway::cli {
namespace {

class EvaluateCommandTest : public CliTest {
 protected:
  // A run of a few steps in f32, which knows bytes and reads 32 of them at once.
  void train_tiny() {
    prepare_data();
    ASSERT_EQ(run({"train", "tiny.yaml", "train.steps=3", "train.precision=f32", "--quiet"}).status, 0);
  }

  void write_tasks() const {
    std::filesystem::create_directories(path("eval"));
    write("eval/piqa.jsonl", R"({"goal": "a", "sol1": "the", "sol2": "xq"  , "label": 0}
{"goal": "b", "sol1": "zz", "sol2": "river", "label": 1}
{"goal": "the river runs under a long bridge", "sol1": "and", "sol2": "&", "label": 0}
)");
    write("eval/lambada.jsonl", R"({"text": "under a long bridge"})");
  }

  std::vector<nlohmann::json> documents(const std::string& name) const {
    std::ifstream file(path(name));
    std::vector<nlohmann::json> found;
    for (std::string line; std::getline(file, line);) found.push_back(nlohmann::json::parse(line));
    return found;
  }
};

TEST_F(EvaluateCommandTest, JudgesByTasks) {
  train_tiny();
  write_tasks();
  const nlohmann::json result = run_json({"evaluate", "runs/tiny", "--tasks", "piqa,eval/lambada.jsonl", "--data",
                                          "eval", "--documents", "documents.jsonl", "--device", "cpu", "--json"});
  EXPECT_EQ(result["precision"], "f32");
  EXPECT_EQ(result["tokenizer"], "bytes");
  EXPECT_EQ(result["max_length"], 32);
  EXPECT_EQ(result["shots"], 0);
  ASSERT_EQ(result["tasks"].size(), 2u);
  const nlohmann::json& piqa = result["tasks"][0];
  EXPECT_EQ(piqa["task"], "piqa");
  EXPECT_EQ(piqa["format"], "piqa 1");
  EXPECT_EQ(piqa["hash"].get<std::string>().size(), 32u);
  EXPECT_EQ(piqa["documents"], 3);
  EXPECT_EQ(piqa["requests"], 6);
  EXPECT_EQ(piqa["truncated"], 2);  // the third one's question takes more than 32 bytes
  const std::vector<nlohmann::json> log = documents("documents.jsonl");
  ASSERT_EQ(log.size(), 4u);
  // acc follows from the log-likelihoods that are written down, and its error from it.
  int right = 0;
  for (int i = 0; i < 3; ++i) {
    const nlohmann::json& requests = log[static_cast<size_t>(i)]["requests"];
    const bool first = requests[0]["log_likelihood"].get<double>() >= requests[1]["log_likelihood"].get<double>();
    EXPECT_LT(requests[0]["log_likelihood"], 0);
    const int gold = log[static_cast<size_t>(i)]["gold"];
    right += (first ? 0 : 1) == gold;
  }
  const double acc = right / 3.0;
  EXPECT_DOUBLE_EQ(piqa["acc"].get<double>(), acc);
  EXPECT_DOUBLE_EQ(piqa["acc_stderr"].get<double>(), std::sqrt(acc * (1 - acc) * 3 / 2 / 3));
  EXPECT_TRUE(piqa.contains("acc_norm_stderr"));
  EXPECT_EQ(log[0]["requests"][1]["context"], "Question: a\nAnswer:");
  EXPECT_EQ(log[0]["requests"][1]["continuation"], " xq");
  const nlohmann::json& lambada = result["tasks"][1];
  EXPECT_FALSE(lambada.contains("acc_norm"));
  EXPECT_TRUE(lambada["acc_stderr"].is_null());  // of one document
  EXPECT_DOUBLE_EQ(lambada["perplexity"].get<double>(),
                   std::exp(-log[3]["requests"][0]["log_likelihood"].get<double>()));
  EXPECT_EQ(log[3]["right"], log[3]["requests"][0]["greedy"]);
}

TEST_F(EvaluateCommandTest, JudgesByTextsAndSaysItInTables) {
  train_tiny();
  write_tasks();
  write("other.txt", sample_text(300) + "é");
  const nlohmann::json result = run_json({"evaluate", "runs/tiny", "--text", "other.txt", "--json"});
  const nlohmann::json& text = result["texts"][0];
  EXPECT_EQ(text["file"], "other.txt");
  EXPECT_EQ(text["bytes"], 301);  // all but the first
  EXPECT_EQ(text["tokens"], 301);
  EXPECT_EQ(text["windows"], 10);
  const double bits = -text["log_likelihood"].get<double>() / 301 / std::log(2.0);
  EXPECT_DOUBLE_EQ(text["bits_per_byte"].get<double>(), bits);
  EXPECT_EQ(text["perplexity"], text["byte_perplexity"]);
  const Outcome outcome = run({"evaluate", "runs/tiny", "--tasks", "piqa", "--data", "eval", "--shots", "1", "--limit",
                               "2", "--text", "other.txt"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  for (const char* part :
       {", f32 on ", ", 1 shots\n", "task", "documents", "acc_norm", "piqa          2", "other.txt    301     301"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << "\n" << outcome.out;
}

TEST_F(EvaluateCommandTest, LeavesOutAnAnswerThatIsLongerThanTheModelReads) {
  train_tiny();
  write_tasks();
  const std::vector<std::string> arguments = {"evaluate", "runs/tiny",    "--tasks", "piqa",        "--data",
                                              "eval",     "--max-length", "4",       "--documents", "documents.jsonl"};
  const Outcome outcome = run(arguments);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("eval/piqa.jsonl, line 2: the answer has 6 tokens, and the model takes 4 at once; the "
                             "document is left out"),
            std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.err.find("piqa: 1 of 3 documents are left out; --strict makes an error of it"), std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.out.find("piqa          2         1"), std::string::npos) << outcome.out;
  const std::vector<nlohmann::json> log = documents("documents.jsonl");
  ASSERT_EQ(log.size(), 3u);
  EXPECT_EQ(log[1]["document"], 2);  // its place in the file
  EXPECT_TRUE(log[1].contains("right"));
  EXPECT_EQ(log[2]["document"], 1);
  EXPECT_TRUE(log[2].contains("left_out"));
}

// The same weights, as a run and as a Hugging Face directory.
TEST_F(EvaluateCommandTest, AnExportIsJudgedAsItsRun) {
  train_tiny();
  write_tasks();
  ASSERT_EQ(run({"export", "runs/tiny", "--output", "out"}).status, 0);
  const std::vector<std::string> rest = {"--tasks", "piqa", "--data", "eval", "--json"};
  const auto judged = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "evaluate");
    arguments.insert(arguments.end(), rest.begin(), rest.end());
    return run_json(arguments);
  };
  const nlohmann::json of_run = judged({"runs/tiny"}), of_export = judged({"out"});
  EXPECT_EQ(of_export["tasks"], of_run["tasks"]);
  EXPECT_EQ(of_export["precision"], "f32");
  // And is written with.
  EXPECT_EQ(run({"generate", "out", "--tokenizer", "bytes", "--prompt", "the", "--tokens", "8"}).out,
            run({"generate", "runs/tiny", "--prompt", "the", "--tokens", "8"}).out);
  // Without its tokenizer it says what is missing, and is judged with one that is named.
  std::filesystem::remove(path("out/tokenizer.json"));
  expect_failure({"evaluate", "out", "--tasks", "piqa", "--data", "eval"}, 1,
                 {"out: holds no tokenizer", "Give one with --tokenizer"});
  EXPECT_EQ(judged({"out", "--tokenizer", "bytes"})["tasks"], of_run["tasks"]);
}

TEST_F(EvaluateCommandTest, SaysWhatIsWrong) {
  expect_failure({"evaluate", "nowhere", "--text", "x"}, 1, {"nowhere: holds no checkpoint"});
  expect_failure({"evaluate", "nowhere"}, 1, {"nothing to judge the model by", "Name tasks with --tasks"});
  expect_failure({"evaluate", "nowhere", "--tasks", "piqa"}, 1,
                 {"data/eval/piqa.jsonl: there is no file of the task piqa", "--data"});
  expect_failure({"evaluate", "nowhere", "--tasks", "hellaswga"}, 1, {"Did you mean hellaswag?"});
  expect_failure({"evaluate", "nowhere", "--task", "piqa"}, 2, {"has no option --task. Did you mean --tasks?"});
  expect_failure({"evaluate", "nowhere", "--text", "x", "--precision", "f23"}, 2, {"--precision"});
  train_tiny();
  write("a.txt", "a");
  expect_failure({"evaluate", "runs/tiny", "--text", "a.txt"}, 1, {"a.txt: the text has no token to be scored"});
  expect_failure({"evaluate", "runs/tiny", "--text", "b.txt"}, 1, {"b.txt", "No such file"});
  expect_failure({"evaluate", "runs/tiny", "--text", "a.txt", "--max-length", "33"}, 1,
                 {"--max-length: the model takes 32 tokens at once"});
  write_tasks();
  expect_failure({"evaluate", "runs/tiny", "--tasks", "piqa", "--data", "eval", "--max-length", "4", "--strict"}, 1,
                 {"eval/piqa.jsonl, line 2: the answer has 6 tokens, and the model takes 4 at once"});
  expect_failure({"evaluate", "runs/tiny", "--tasks", "piqa", "--data", "eval", "--shots", "3"}, 1,
                 {"eval/piqa.jsonl: 3 examples are to be drawn from 3 documents", "at most 2"});
}

}  // namespace
}  // namespace causeway::cli
