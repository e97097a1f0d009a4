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

#include "causeway/base/byte_size.h"
#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/base/thread_pool.h"
#include "causeway/bench/report/shipped_text.h"

extern char** environ;

namespace causeway::bench {
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
    std::string no_compiler_cache = "CCACHE_DISABLE=1";
    std::vector<char*> environment = {cache.data(), no_compiler_cache.data()};
    for (char** variable = environ; *variable != nullptr; ++variable)
      if (!std::string_view(*variable).starts_with("XDG_CACHE_HOME=") &&
          !std::string_view(*variable).starts_with("CCACHE_DISABLE="))
        environment.push_back(*variable);
    environment.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    const std::string said = (directory / "said").string();
    ::posix_spawn_file_actions_addopen(&actions, 1, said.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::posix_spawn_file_actions_adddup2(&actions, 1, 2);
    ::posix_spawn_file_actions_addchdir_np(&actions, directory.c_str());
    const int error =
        ::posix_spawnp(&process_, program.c_str(), &actions, nullptr, arguments.data(), environment.data());
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

double seconds_to_first_step(const StartupOptions& options, const StartupModel& model,
                             const std::filesystem::path& directory) {
  const std::filesystem::path run = directory / "run";
  std::filesystem::remove_all(run);
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  std::vector<std::string> words = {"train", "startup.yaml", "device=" + options.device,
                                    "run_directory=" + run.string(), "--quiet"};
  words.insert(words.end(), model.overrides.begin(), model.overrides.end());
  Child child(options.program, words, directory);
  while (!has_a_loss(run / "metrics.jsonl")) {
    if (child.ended()) fail(directory, "ended before its first step");
    if (elapsed() > options.limit_seconds) fail(directory, "had made no step when the time was over");
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return elapsed();
}

}  // namespace

StartupModel small_startup_model() { return {"", "Llama, 4 layers of 256, 4 x 128 tokens", kRecipe, {}}; }

StartupModel gpt_startup_model() {
  return {"GPT 1.5B, ",
          "GPT-2 1.5B, 4 x 1,024 tokens",
          std::string(shipped_benchmark_text("recipes/gpt2_1.5b.yaml")),
          {"data.path=data", "train.batch_size=4", "train.micro_batch_size=4", "log.interval=1",
           "evaluation.interval=0", "checkpoint.interval=0"}};
}

std::vector<StartupModel> standard_startup_models(const Device& device) {
  // Weights, moments and gradients are 23 GiB of it.
  constexpr int64_t kForGpt = int64_t{48} << 30;
  std::vector<StartupModel> models = {small_startup_model()};
  if (device.target().is_gpu() && device.memory_limit() >= kForGpt) models.push_back(gpt_startup_model());
  return models;
}

std::string program_size(const std::filesystem::path& program) {
  return format_bytes(std::filesystem::file_size(program)) + ", one file";
}

void check_sources(const std::filesystem::path& sources) {
  if (!std::filesystem::exists(sources / "CMakeLists.txt") || !std::filesystem::exists(sources / "CMakePresets.json"))
    throw Error(ErrorKind::kNotFound, "there are no sources to build", sources.string(),
                "Give the directory of the repository, the one with CMakeLists.txt and CMakePresets.json.");
}

Measurement run_build(const std::filesystem::path& sources) {
  check_sources(sources);
  const std::filesystem::path root = std::filesystem::canonical(sources);
  const WorkingDirectory directory;
  const std::string into = (directory.path / "build").string();
  const auto start = std::chrono::steady_clock::now();
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"-S", root.string(), "-B", into, "--preset", "clang"},
        {"--build", into, "--parallel", std::to_string(available_processors()), "--target", "causeway_program"}}) {
    Child cmake("cmake", words, directory.path);
    if (cmake.wait() != 0) fail(directory.path, "could not build it");
  }
  Measurement m;
  m.benchmark = "startup";
  m.group = "building the program";
  m.workload = "build from nothing";
  m.provider = "Causeway";
  m.unit = "s";
  m.rounds = {{std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()}};
  m.check = "every command ended well";
  m.details["how"] = fmt::format(
      "cmake and ninja, target causeway_program, {} processors, an empty directory, no compiler cache; "
      "measured, once",
      available_processors());
  return m;
}

std::vector<Measurement> run_startup(const StartupOptions& options, const StartupModel& model) {
  const WorkingDirectory directory;
  std::mt19937 random(1);
  std::string text(size_t{1} << 18, ' ');
  for (char& letter : text) letter = static_cast<char>('a' + random() % 26);
  write_file_atomically(directory.path / "text.txt", std::string_view(text));
  write_file_atomically(directory.path / "startup.yaml", std::string_view(model.recipe));
  {
    Child prepare(options.program, {"data", "prepare", "text.txt", "--output", "data"}, directory.path);
    if (prepare.wait() != 0) fail(directory.path, "could not prepare its data");
  }
  std::vector<Measurement> measurements;
  for (const bool cold : {true, false}) {
    Measurement& m = measurements.emplace_back();
    m.benchmark = "startup";
    m.group = "process start to the first finished step";
    m.workload = model.prefix + (cold ? "first step, cold" : "first step, warm");
    m.provider = "Causeway";
    m.unit = "s";
    m.check = "the step's loss is in the run's metrics";
    m.details["model"] = model.description;
    m.details["kernel cache"] = cold ? "empty" : "full";
    m.details["program"] = program_size(options.program);
    for (int i = 0; i < (cold ? options.cold_samples : options.warm_samples); ++i) {
      if (cold) std::filesystem::remove_all(directory.path / "cache");
      m.rounds.push_back({seconds_to_first_step(options, model, directory.path)});
    }
  }
  return measurements;
}

}  // namespace causeway::bench
