// Help, suggestions and machine-readable output of every command.
#include <fmt/format.h>

#include <regex>
#include <sstream>

#include "tests/cli/program_under_test.h"

namespace causeway {
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
  EXPECT_EQ(commands, (std::vector<std::string>{"train", "generate", "data", "checkpoint", "doctor", "explain", "bench",
                                                "completion"}));
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
  EXPECT_EQ(json["peak_bytes"].get<int64_t>(), 12 * parameters + json["arena_bytes"].get<int64_t>());
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
  EXPECT_EQ(std::system(("bash -n " + path("completion.sh").string()).c_str()), 0);
  const std::string ask =
      "bash -c 'source " + path("completion.sh").string() +
      "; COMP_WORDS=(causeway data pre); COMP_CWORD=2; _causeway; [ \"${COMPREPLY[*]}\" = prepare ]'";
  EXPECT_EQ(std::system(ask.c_str()), 0);
  expect_failure({"completion", "fish"}, 1, {"no completion for 'fish'", "Use bash or zsh."});
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
}  // namespace causeway
