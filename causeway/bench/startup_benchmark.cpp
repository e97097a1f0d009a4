#include "causeway/bench/startup_benchmark.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/train/progress_line.h"

extern char** environ;

namespace causeway {
namespace {

constexpr const char* kRecipe = R"(name: startup
model: {family: llama, vocabulary_size: 256, layers: 4, width: 256, heads: 4, max_sequence_length: 128}
data: {path: data, sequence_length: 128}
train: {steps: 1000000, batch_size: 4}
log: {interval: 1}
evaluation: {interval: 0}
checkpoint: {interval: 0}
)";

class WorkingDirectory {
 public:
  WorkingDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "causeway-startup-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      throw Error(ErrorKind::kIo, "no temporary directory can be made", name, "Look at TMPDIR and at the free space.");
    path = name;
  }
  ~WorkingDirectory() {
    std::error_code error;
    std::filesystem::remove_all(path, error);
  }
  WorkingDirectory(const WorkingDirectory&) = delete;
  WorkingDirectory& operator=(const WorkingDirectory&) = delete;
  std::filesystem::path path;
};

// The program in `directory`, its output in the file "said"; ended when this goes.
class Child {
 public:
  Child(const std::filesystem::path& program, const std::vector<std::string>& words,
        const std::filesystem::path& directory) {
    std::vector<std::string> all = {program.string()};
    all.insert(all.end(), words.begin(), words.end());
    std::vector<char*> arguments;
    for (std::string& word : all) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    std::string cache = "XDG_CACHE_HOME=" + (directory / "cache").string();
    std::vector<char*> environment = {cache.data()};
    for (char** variable = environ; *variable != nullptr; ++variable)
      if (!std::string_view(*variable).starts_with("XDG_CACHE_HOME=")) environment.push_back(*variable);
    environment.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    const std::string said = (directory / "said").string();
    ::posix_spawn_file_actions_addopen(&actions, 1, said.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::posix_spawn_file_actions_adddup2(&actions, 1, 2);
    ::posix_spawn_file_actions_addchdir_np(&actions, directory.c_str());
    const int error =
        ::posix_spawn(&process_, program.c_str(), &actions, nullptr, arguments.data(), environment.data());
    ::posix_spawn_file_actions_destroy(&actions);
    if (error != 0)
      throw Error(ErrorKind::kIo, fmt::format("the program cannot be started (error {})", error), program.string(),
                  "It has to be an executable file.");
  }
  ~Child() {
    if (ended()) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  bool ended() {
    if (!ended_) ended_ = ::waitpid(process_, &status_, WNOHANG) == process_;
    return ended_;
  }
  int wait() {
    if (!ended_) ::waitpid(process_, &status_, 0);
    ended_ = true;
    return status_;
  }

 private:
  pid_t process_ = 0;
  bool ended_ = false;
  int status_ = 0;
};

[[noreturn]] void fail(const std::filesystem::path& directory, const char* what) {
  std::string said;
  if (std::filesystem::exists(directory / "said")) said = read_text_file(directory / "said");
  constexpr size_t kLast = 500;
  throw Error(ErrorKind::kResource, fmt::format("the program that was started {}", what), "bench startup",
              "It said: " + (said.size() > kLast ? said.substr(said.size() - kLast) : said));
}

bool has_a_loss(const std::filesystem::path& metrics) {
  return std::filesystem::exists(metrics) && read_text_file(metrics).find("\"loss\"") != std::string::npos;
}

double seconds_to_first_step(const StartupOptions& options, const std::filesystem::path& directory) {
  const std::filesystem::path run = directory / "run";
  std::filesystem::remove_all(run);
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  Child child(options.program,
              {"train", "startup.yaml", "device=" + options.device, "run_directory=" + run.string(), "--quiet"},
              directory);
  while (!has_a_loss(run / "metrics.jsonl")) {
    if (child.ended()) fail(directory, "ended before its first step");
    if (elapsed() > options.limit_seconds) fail(directory, "had made no step when the time was over");
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return elapsed();
}

}  // namespace

std::vector<Measurement> run_startup(const StartupOptions& options) {
  const WorkingDirectory directory;
  std::mt19937 random(1);
  std::string text(size_t{1} << 18, ' ');
  for (char& letter : text) letter = static_cast<char>('a' + random() % 26);
  write_file_atomically(directory.path / "text.txt", std::string_view(text));
  write_file_atomically(directory.path / "startup.yaml", std::string_view(kRecipe));
  {
    Child prepare(options.program, {"data", "prepare", "text.txt", "--output", "data"}, directory.path);
    if (prepare.wait() != 0) fail(directory.path, "could not prepare its data");
  }
  std::vector<Measurement> measurements;
  for (const bool cold : {true, false}) {
    Measurement& m = measurements.emplace_back();
    m.benchmark = "startup";
    m.group = "process start to the first finished step";
    m.workload = cold ? "first step, cold" : "first step, warm";
    m.provider = "Causeway";
    m.unit = "s";
    m.check = "the step's loss is in the run's metrics";
    m.details["model"] = "Llama, 4 layers of 256, 4 x 128 tokens";
    m.details["kernel cache"] = cold ? "empty" : "full";
    m.details["program"] = format_bytes(std::filesystem::file_size(options.program)) + ", one file";
    m.details["build time"] = "not measured";
    for (int i = 0; i < (cold ? options.cold_samples : options.warm_samples); ++i) {
      if (cold) std::filesystem::remove_all(directory.path / "cache");
      m.rounds.push_back({seconds_to_first_step(options, directory.path)});
    }
  }
  return measurements;
}

}  // namespace causeway
