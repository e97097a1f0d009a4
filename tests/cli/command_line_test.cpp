// Help, suggestions and machine-readable output of every command.
#include <fmt/format.h>

#include <regex>
#include <sstream>

#include "tests/cli/program_under_test.h"

namespace causeway::cli {
namespace {

using CommandLineTest = CliTest;

// The names under "Subcommands:" of a help text.
std::vector<std::string> commands_in(const std::string& help) {
  std::vector<std::string> names;
  const size_t section = help.find("Subcommands:\n");
  if (section == std::string::npos) return names;
  std::istringstream lines(help.substr(section + std::string("Subcommands:\n").size()));
  for (std::string line; std::getline(lines, line) && line.starts_with("  ");)
    names.push_back(line.substr(2, line.find(' ', 2) - 2));
  return names;
}

TEST_F(CommandLineTest, HelpOfEveryCommandShowsAnExample) {
  const Outcome top = run({"--help"});
  EXPECT_EQ(top.status, 0);
  const std::vector<std::string> commands = commands_in(top.out);
  EXPECT_EQ(commands, (std::vector<std::string>{"train", "launch", "generate", "evaluate", "import", "export",
                                                "adapters", "data", "tokenizer", "checkpoint", "doctor", "cache",
                                                "explain", "plan", "bench", "recipe", "completion", "help"}));
  for (const std::string& command : commands) {
    const std::string help = run({command, "--help"}).out;
    const std::vector<std::string> inner = commands_in(help);
    if (inner.empty()) EXPECT_NE(help.find("causeway " + command), std::string::npos) << help;
    if (inner.empty()) EXPECT_NE(help.find("Example: "), std::string::npos) << help;
    for (const std::string& name : inner) {
      const std::string inner_help = run({command, name, "--help"}).out;
      EXPECT_NE(inner_help.find("Example: causeway " + command + " " + name), std::string::npos) << inner_help;
    }
  }
}

TEST_F(CommandLineTest, UnknownNamesAreAnsweredWithTheNearest) {
  expect_failure({"trian", "tiny.yaml"}, 2, {"'trian' is not a command of causeway. Did you mean train?"});
  expect_failure({"data", "prepre"}, 2, {"'prepre' is not a command of causeway data. Did you mean prepare?"});
  expect_failure({"train", "tiny.yaml", "--resme", "auto"}, 2,
                 {"causeway train has no option --resme. Did you mean --resume?", "See causeway train --help."});
  expect_failure({"--versio"}, 2, {"causeway has no option --versio. Did you mean --version?"});
  expect_failure({}, 2, {"A subcommand is required", "causeway --help"});
  expect_failure({"train"}, 2, {"recipe is required", "causeway train --help"});
  expect_failure({"generate", "run", "--tokens", "-3"}, 2, {"--tokens", "must not be negative"});
  expect_failure({"generate", "run", "--seed", "-1"}, 2, {"--seed", "must not be negative"});
  expect_failure({"generate", "run", "--temperature", "-1"}, 2, {"--temperature", "must not be negative"});
  for (const char* value : {"nan", "NAN", "inf", "1e999"})
    expect_failure({"generate", "run", "--temperature", value}, 2, {"--temperature", "must be a finite number"});
  expect_failure({"train", "tiny.yaml", "--resume", "always"}, 1, {"'always' is not a way to resume", "--resume auto"});
}

TEST_F(CommandLineTest, Version) {
  const Outcome outcome = run({"--version"});
  EXPECT_EQ(outcome.status, 0);
  const std::string build = read_text_file(CAUSEWAY_SOURCE_DIR "/CMakeLists.txt");
  std::smatch version;
  ASSERT_TRUE(std::regex_search(build, version, std::regex(R"(project\(causeway VERSION (\d+\.\d+\.\d+) )")));
  EXPECT_EQ(outcome.out, version[1].str() + "\n");
}

TEST_F(CommandLineTest, DoctorFindsAUsableCpu) {
  const nlohmann::json json = run_json({"doctor", "--json"});
  ASSERT_GE(json["devices"].size(), 3u);  // the processor, and for each vendor its GPUs or why there are none
  EXPECT_EQ(json["devices"][0]["name"], "cpu");
  EXPECT_EQ(json["devices"][0]["usable"], true) << json["devices"][0]["problem"];
  EXPECT_EQ(json["kernel_cache"]["problem"], "");
  const Outcome text = run({"doctor"});
  EXPECT_EQ(text.status, 0);
  EXPECT_NE(text.out.find("cpu           usable"), std::string::npos) << text.out;
}

TEST_F(CommandLineTest, ExplainGivesMemoryAndFlops) {
  const nlohmann::json json = run_json({"explain", "tiny.yaml", "--json"});
  // Embedding and output 256 x 32 each; per layer 4 x 32 x 32 + 3 x 32 x 64 and two norms; one last norm.
  const int64_t parameters = 2 * 256 * 32 + 2 * (4 * 32 * 32 + 3 * 32 * 64 + 2 * 32) + 32;
  EXPECT_EQ(json["parameters"], parameters);
  EXPECT_EQ(json["parameter_bytes"], 4 * parameters);
  EXPECT_EQ(json["optimizer_bytes"], 8 * parameters);
  int64_t beside = 0;
  for (const char* part : {"arena_bytes", "scratch_bytes", "batch_bytes"}) beside += json[part].get<int64_t>();
  EXPECT_EQ(json["peak_bytes"].get<int64_t>(), 12 * parameters + beside);
  // Forward: 2 per weight of a product (the embedding is read, not multiplied), and attention's two products over the
  // causal half: 2 layers x 2 products x 2 x width x 33 / 2 pairs of a query.
  const double products = 2.0 * (parameters - 256 * 32 - 5 * 32), attention = 2 * 2 * 2 * 32 * 33 / 2.0;
  EXPECT_DOUBLE_EQ(json["forward_flops_per_token"].get<double>(), products + attention);
  EXPECT_GT(json["passes"].size(), 5u);
  const Outcome text = run({"explain", "tiny.yaml", "--program", "--kernels"});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_NE(text.out.find("extern \"C\" void"), std::string::npos);
  EXPECT_NE(text.out.find("attention_gradient"), std::string::npos);
  EXPECT_EQ(text.out.find(fmt::format("parameters: {} (", parameters)), 0u) << text.out;
  EXPECT_NE(text.out.find("\nrecomputation: none, chosen by auto\n"), std::string::npos) << text.out;
  EXPECT_EQ(json["recompute"], "none");
  const nlohmann::json first =
      run_json({"explain", "tiny.yaml", "train.recompute=block", "train.recompute_layers=1", "--json"});
  EXPECT_EQ(first["recompute"], "block");
  EXPECT_EQ(first["recompute_layers"], 1);
  EXPECT_NE(text.out.find(" 0.5156 of all pairs)"), std::string::npos) << text.out;
}

// A stricter mask is never more work, though only the data can tell how much less it is.
TEST_F(CommandLineTest, ExplainOfDocumentsCountsAtMostTheCausalWork) {
  const nlohmann::json causal = run_json({"explain", "tiny.yaml", "--json"});
  const nlohmann::json documents = run_json({"explain", "tiny.yaml", "data.document_mask=true", "--json"});
  EXPECT_EQ(documents["flops_per_token"], causal["flops_per_token"]);
  EXPECT_EQ(causal["attention_density"], 33.0 / 64);
  EXPECT_EQ(causal["attention_density_is_at_most"], false);
  EXPECT_EQ(documents["attention_density"], 33.0 / 64);
  EXPECT_EQ(documents["attention_density_is_at_most"], true);
  const std::string text = run({"explain", "tiny.yaml", "data.document_mask=true"}).out;
  EXPECT_NE(text.find("FLOPs per token: at most "), std::string::npos) << text;
  EXPECT_NE(text.find("at most 0.5156 of all pairs (data decides)"), std::string::npos) << text;
  const std::vector<std::string> windowed = {
      "explain", "tiny.yaml", "model.family=mistral", "model.sliding_window=8", "data.document_mask=true", "--json"};
  // 8 keys at each query but the first 7.
  EXPECT_EQ(run_json(windowed)["attention_density"], (36 + 24 * 8) / 1024.0);
}

TEST_F(CommandLineTest, CompletionIsValidShell) {
  const Outcome outcome = run({"completion", "bash"});
  EXPECT_EQ(outcome.status, 0);
  write("completion.sh", outcome.out);
  write("mine.yaml", "");
  EXPECT_EQ(run_shell("bash -n completion.sh").status, 0);
  const auto completed = [&](const std::string& words) {
    const std::string line = "source ./completion.sh; COMP_WORDS=(" + words +
                             "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _causeway; echo \"${COMPREPLY[*]}\"";
    const Outcome answer = run_shell(line);
    EXPECT_EQ(answer.status, 0) << answer.err;
    EXPECT_EQ(answer.err, "");
    return answer.out;
  };
  EXPECT_EQ(completed("causeway data pre"), "prepare\n");
  EXPECT_EQ(completed("causeway train --res"), "--resume\n");
  EXPECT_EQ(completed("causeway train shake"), "shakespeare\n");
  EXPECT_EQ(completed("causeway train min"), "mine.yaml\n");
  EXPECT_EQ(completed("causeway train mine.yaml optimizer.l"), "optimizer.learning_rate=\n");
  EXPECT_EQ(completed("causeway explain shakespeare model.h"), "model.heads= model.head_dim=\n");
  // As bash splits words, and as zsh does not.
  EXPECT_EQ(completed("causeway train mine.yaml model.family = ll"), "llama\n");
  EXPECT_EQ(completed("causeway train mine.yaml model.family ="),
            "gemma2 gpt2 llama mistral mixtral mpt olmo2 olmoe qwen2 qwen2_moe qwen3 qwen3_moe\n");
  EXPECT_EQ(completed("causeway train mine.yaml train.precision=b"), "train.precision=bf16\n");
  EXPECT_EQ(completed("causeway train mine.yaml log.tensorboard = t"), "true\n");
  expect_failure({"completion", "fish"}, 1, {"no completion for 'fish'", "Use bash or zsh."});
}

TEST_F(CommandLineTest, TheExampleOfTheHelpWorksWhereTheUserStands) {
  write("book.txt", sample_text(20'000));
  std::istringstream help(run({"--help"}).out);
  std::vector<std::string> commands;
  for (std::string line; std::getline(help, line);)
    if (line.starts_with("  causeway ")) commands.push_back("$" + line.substr(2));
  ASSERT_EQ(commands.size(), 3u);
  for (std::string& command : commands) {
    // The same recipe, smaller.
    if (command.find(" train ") != std::string::npos)
      command +=
          " train.steps=2 schedule.warmup_steps=0 train.batch_size=2 model.layers=1 model.width=32 "
          "model.ffn_width=64 data.sequence_length=32 evaluation.sequences=4 train.precision=f32 --quiet";
    if (command.find(" generate ") != std::string::npos) command += " --tokens 3";
    const Outcome outcome = run_shell(command);
    EXPECT_EQ(outcome.status, 0) << command << "\n" << outcome.err;
  }
}

TEST_F(CommandLineTest, AnOutputThatCannotBeWrittenIsAnError) {
  prepare_data();
  ASSERT_EQ(run({"train", "tiny.yaml", "train.steps=2", "--quiet"}).status, 0);
  for (const char* command :
       {"--help", "--version", "doctor", "doctor --json", "explain tiny.yaml", "explain tiny.yaml --kernels",
        "explain tiny.yaml --json", "data inspect data", "completion bash", "checkpoint inspect runs/tiny --json",
        "checkpoint verify runs/tiny", "generate runs/tiny --tokens 2", "bench list --store store.db",
        "train tiny.yaml train.steps=2 --resume auto --json --quiet"}) {
    const Outcome full = run_shell("$causeway " + std::string(command) + " > /dev/full");
    EXPECT_EQ(full.status, 1) << command << "\n" << full.err;
    EXPECT_NE(full.err.find("standard output: the output could not be written: No space left"), std::string::npos)
        << command << "\n"
        << full.err;
    const Outcome closed = run_shell("$causeway " + std::string(command) + " >&-");
    EXPECT_EQ(closed.status, 1) << command << "\n" << closed.err;
    EXPECT_NE(closed.err.find("the output could not be written: Bad file"), std::string::npos) << command;
  }
  const Outcome pipe = run_shell("(sleep 0.3; $causeway completion bash; echo $? > status) | true; cat status");
  EXPECT_EQ(pipe.out, "1\n");
  EXPECT_NE(pipe.err.find("the output could not be written: Broken pipe"), std::string::npos) << pipe.err;
}

// What is said while training is not what the user trains for.
TEST_F(CommandLineTest, TrainingGoesOnWhenNobodyListens) {
  prepare_data();
  int run_number = 0;
  for (const char* redirection : {"2> /dev/full", "2>&-", "2> >(true)", "2>&- >&- <&-"}) {
    const std::string name = "run" + std::to_string(++run_number);
    const Outcome outcome = run_shell("$causeway train tiny.yaml train.steps=12 name=" + name + " " + redirection +
                                      "; $causeway checkpoint verify runs/" + name);
    EXPECT_EQ(outcome.status, 0) << redirection << "\n" << outcome.err;
    EXPECT_NE(outcome.out.find("step-00000012: intact"), std::string::npos) << redirection << "\n" << outcome.out;
    EXPECT_NE(read_text_file(path("runs/" + name + "/recipe.yaml")).find("\nname:"), std::string::npos);
  }
}

TEST_F(CommandLineTest, ErrorsAreJsonWhereJsonIsAskedFor) {
  const auto error_of = [&](const std::vector<std::string>& arguments, int status) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, status);
    EXPECT_NE(outcome.err, "");
    const nlohmann::json json = nlohmann::json::parse(outcome.out, nullptr, false);
    EXPECT_TRUE(json.is_object()) << outcome.out;
    EXPECT_EQ(json["error"]["status"], status);
    return json["error"];
  };
  const nlohmann::json key = error_of({"train", "tiny.yaml", "train.stesp=3", "--json"}, 1);
  EXPECT_EQ(key["kind"], "invalid argument");
  EXPECT_EQ(key["message"], "unknown key");
  EXPECT_EQ(key["where"], "command line: train.stesp");
  EXPECT_EQ(key["hint"], "Did you mean train.steps?");
  EXPECT_EQ(error_of({"explain", "--json", "absent.yaml"}, 1)["kind"], "not found");
  EXPECT_EQ(error_of({"explain", "--json"}, 2)["kind"], "usage");
  EXPECT_EQ(error_of({"data", "prepare", "\xff", "-o", "x", "--json"}, 1)["kind"], "not found");
}

TEST_F(CommandLineTest, NothingThatATerminalObeysIsPrinted) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"train", "\x1b[31m.yaml"},
                                             {"train", "tiny.yaml", "name=\x1b]0;x\x07"},
                                             {"data", "prepare",
                                              "\xc2\x9b"
                                              "31m",
                                              "-o", "d"},
                                             {"\x1b[2J"},
                                             {"train", "tiny.yaml", "--\x1b[2J"},
                                             {"generate", "a\rb"}}) {
    const Outcome outcome = run(arguments);
    EXPECT_NE(outcome.status, 0);
    for (const char c : outcome.err) EXPECT_TRUE(c == '\n' || (c >= 0x20 && c < 0x7F)) << outcome.err;
  }
  // Results that others exported.
  write("results.json", R"({"format": "causeway-benchmarks", "version": 1, "runs": [{"started": "2026-01-01T00:00:00Z",
    "command": "bench \u001b[31m", "commit": "\u001b[2J", "device": "\u009b0m\r", "architecture": "x", "device_count": 1,
    "environment": {}, "telemetry": [], "measurements": []}]})");
  const Outcome imported = run({"bench", "import", "results.json", "--store", "store.db"});
  EXPECT_EQ(imported.status, 0) << imported.err;
  const Outcome list = run({"bench", "list", "--store", "store.db"});
  EXPECT_EQ(list.status, 0);
  EXPECT_NE(list.out.find("bench \\x1b[31m"), std::string::npos) << list.out;
  for (const char c : list.out) EXPECT_TRUE(c == '\n' || (c >= 0x20 && c < 0x7F)) << list.out;
}

TEST_F(CommandLineTest, DataIsPreparedAndInspected) {
  write("text.txt", sample_text(10'000));
  const nlohmann::json prepared =
      run_json({"data", "prepare", "text.txt", "--output", "data", "--validation-fraction", "0.1", "--json"});
  EXPECT_EQ(prepared["text_bytes"], 10'000);
  const nlohmann::json inspected = run_json({"data", "inspect", "data", "--json"});
  EXPECT_EQ(inspected["tokenizer"]["name"], "bytes");
  int64_t tokens = 0;
  for (const char* split : {"train", "validation"}) {
    EXPECT_EQ(inspected["splits"][split]["tokens"], prepared["splits"][split]["tokens"]);
    EXPECT_EQ(inspected["splits"][split]["shards"][0]["hash_checked"], true);
    tokens += inspected["splits"][split]["tokens"].get<int64_t>();
  }
  EXPECT_EQ(tokens, 10'000);
}

}  // namespace
}  // namespace causeway::cli
