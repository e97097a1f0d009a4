// Runs the built program as a user does: arguments in, status, output and errors out.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "causeway/base/file.h"
#include "causeway/namespaces.h"
#include "tests/fixtures/temporary_directory.h"

namespace causeway::cli {

inline size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

struct Outcome {
  int status = -1;  // as a shell gives it: 128 + the signal that ended it
  std::string out;
  std::string err;
};

// Text of a few letters, the same each time, with enough order in it to be learnt.
inline std::string sample_text(size_t bytes) {
  static const char* const kWords[] = {"the ",  "river ",    "runs ", "under ", "a ",
                                       "long ", "bridge.\n", "and ",  "stones "};
  std::string text;
  for (uint64_t state = 1; text.size() < bytes;) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    text += kWords[(state >> 33) % std::size(kWords)];
  }
  text.resize(bytes);
  return text;
}

// Where an instrumented program adds what it ran (`make coverage`); for any other it says nothing.
inline std::string coverage_variable() {
  const char* file = std::getenv("LLVM_PROFILE_FILE");
  return std::string("LLVM_PROFILE_FILE=") + (file != nullptr ? file : "");
}

// A directory to work in, with a dataset and a recipe that trains in about a second. Compiled kernels are kept between
// tests, in the build directory.
class CliTest : public ::testing::Test {
 protected:
  static constexpr char kRecipe[] = R"(name: tiny
model:
  family: llama
  vocabulary_size: 256
  layers: 2
  width: 32
  heads: 2
  ffn_width: 64
  max_sequence_length: 32
data:
  path: data
  sequence_length: 32
optimizer:
  learning_rate: 5e-3
train:
  steps: 30
  batch_size: 4
evaluation:
  sequences: 8
checkpoint:
  interval: 10
  keep: 2
log:
  interval: 1
)";

  void SetUp() override {
    environment_ = {{"XDG_CACHE_HOME", CAUSEWAY_BINARY_DIR "/test_cache"}};
    write("tiny.yaml", kRecipe);
  }

  std::filesystem::path path(const std::string& name) const { return directory_ / name; }
  void write(const std::string& name, const std::string& text) const { std::ofstream(path(name)) << text; }

  void prepare_data() {
    write("text.txt", sample_text(20'000));
    const Outcome outcome = run({"data", "prepare", "text.txt", "--output", "data", "--validation-fraction", "0.1"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
  }

  // Environment variables beside PATH; nothing else is inherited but where coverage goes to (`make coverage`).
  void set_environment(std::map<std::string, std::string> variables) { environment_ = std::move(variables); }

  // Starts the program in the directory; wait_for() gives its outcome.
  pid_t start(const std::vector<std::string>& arguments) const {
    std::vector<std::string> words = {CAUSEWAY_BINARY_DIR "/causeway"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<std::string> variables;
    if (!environment_.contains("PATH")) variables.emplace_back("PATH=/usr/bin:/bin");
    for (const auto& [name, value] : environment_) variables.push_back(name + "=" + value);
    variables.push_back(coverage_variable());
    std::vector<char*> argument_pointers, variable_pointers;
    for (std::string& word : words) argument_pointers.push_back(word.data());
    for (std::string& variable : variables) variable_pointers.push_back(variable.data());
    argument_pointers.push_back(nullptr);
    variable_pointers.push_back(nullptr);
    const std::string directory = directory_.path().string(), out = path("stdout").string(),
                      err = path("stderr").string();
    const pid_t child = ::fork();
    if (child != 0) return child;
    const auto redirect = [](const char* file, int to) {
      const int descriptor = ::open(file, O_WRONLY | O_CREAT | O_TRUNC, 0644);
      return descriptor >= 0 && ::dup2(descriptor, to) >= 0;
    };
    // A shell's background job, such as a test run may be, ignores them, and so would the program.
    for (const int signal : {SIGINT, SIGHUP, SIGTERM}) ::signal(signal, SIG_DFL);
    if (::chdir(directory.c_str()) == 0 && redirect(out.c_str(), 1) && redirect(err.c_str(), 2))
      ::execve(argument_pointers[0], argument_pointers.data(), variable_pointers.data());
    ::_exit(127);
  }

  Outcome wait_for(pid_t child) const {
    int state = 0;
    EXPECT_EQ(::waitpid(child, &state, 0), child);
    Outcome outcome;
    outcome.status = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    outcome.out = read_text_file(path("stdout"));
    outcome.err = read_text_file(path("stderr"));
    return outcome;
  }

  Outcome run(const std::vector<std::string>& arguments) const { return wait_for(start(arguments)); }

  // A line of bash, in which $causeway is the program.
  Outcome run_shell(const std::string& line) const {
    std::string environment = coverage_variable() + " causeway=" CAUSEWAY_BINARY_DIR "/causeway";
    for (const auto& [name, value] : environment_) environment += " " + name + "='" + value + "'";
    write("line.sh", line + "\n");
    const int state = std::system(("cd '" + directory_.path().string() + "' && env -i PATH=/usr/bin:/bin " +
                                   environment + " bash line.sh > stdout 2> stderr")
                                      .c_str());
    return {WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state), read_text_file(path("stdout")),
            read_text_file(path("stderr"))};
  }

  // The command fails with `status`, says all of `parts` on standard error, and nothing on standard output.
  void expect_failure(const std::vector<std::string>& arguments, int status, const std::vector<std::string>& parts) {
    const Outcome outcome = run(arguments);
    const std::string command = ::testing::PrintToString(arguments);
    EXPECT_EQ(outcome.status, status) << command << "\n" << outcome.err;
    for (const std::string& part : parts) EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.out, "") << command;
  }

  nlohmann::json run_json(const std::vector<std::string>& arguments) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, 0) << ::testing::PrintToString(arguments) << "\n" << outcome.err;
    const nlohmann::json json = nlohmann::json::parse(outcome.out, nullptr, false);
    EXPECT_FALSE(json.is_discarded()) << outcome.out;
    return json;
  }

  // The losses of a run's metrics by step, training and validation apart.
  std::map<std::string, double> losses(const std::string& run_directory) const {
    std::ifstream file(path(run_directory + "/metrics.jsonl"));
    std::map<std::string, double> found;
    for (std::string line; std::getline(file, line);) {
      const nlohmann::json record = nlohmann::json::parse(line);
      for (const char* key : {"loss", "grad_norm", "validation_loss"})
        if (record.contains(key)) found[record["step"].dump() + " " + key] = record[key].get<double>();
    }
    return found;
  }

  // Until a run in progress has written `count` records.
  void wait_for_metrics(const std::string& run_directory, int count) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    while (std::chrono::steady_clock::now() < deadline) {
      std::ifstream metrics(path(run_directory + "/metrics.jsonl"));
      int lines = 0;
      for (std::string line; std::getline(metrics, line);) ++lines;
      if (lines >= count) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    FAIL() << run_directory << " has not written " << count << " records in two minutes";
  }

  // All bytes of the tensor files of a checkpoint, by name.
  std::map<std::string, std::string> tensor_files(const std::string& checkpoint) const {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(path(checkpoint)))
      if (entry.path().extension() == ".safetensors") files[entry.path().filename()] = read_text_file(entry.path());
    return files;
  }

  TemporaryDirectory directory_;
  std::map<std::string, std::string> environment_;
};

}  // namespace causeway::cli
