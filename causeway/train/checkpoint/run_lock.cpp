#include "causeway/train/checkpoint/run_lock.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/base/host_name.h"
#include "causeway/base/json_document.h"
#include "causeway/base/log.h"

namespace causeway::train {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestText = 4096;

// When a process of this machine was started, in clock ticks since boot; 0 when there is none of that number.
uint64_t start_ticks(int64_t process) {
  try {
    const std::string text = read_text_file(fmt::format("/proc/{}/stat", process));
    // The name, in parentheses, may hold anything; the start is the 20th field after it.
    size_t position = text.rfind(')');
    for (int field = 0; field < 20 && position != std::string::npos; ++field) position = text.find(' ', position + 1);
    return position == std::string::npos ? 0 : std::stoull(text.substr(position + 1));
  } catch (const std::exception&) {
    return 0;
  }
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text;
}

[[noreturn]] void refuse(const fs::path& run_directory, const std::optional<RunOwner>& owner, const std::string& hint) {
  throw Error(ErrorKind::kResource,
              fmt::format("another run owns this run directory{}", owner ? ": " + owner->describe() : ""),
              run_directory.string(), hint);
}

}  // namespace

bool RunOwner::is_on_this_machine() const { return host == host_name(); }

bool RunOwner::is_alive() const {
  if (process <= 0 || process > std::numeric_limits<pid_t>::max()) return false;
  if (::kill(static_cast<pid_t>(process), 0) != 0 && errno == ESRCH) return false;
  return process_started == 0 || start_ticks(process) == process_started;
}

std::string RunOwner::describe() const { return fmt::format("process {} on {}, since {}", process, host, since); }

std::optional<RunOwner> read_run_owner(const fs::path& run_directory) {
  try {
    const nlohmann::json json = read_json_file(run_directory / kRunLockName, {}, kLongestText);
    for (const char* number : {"process", "process_started"})
      if (!json.at(number).is_number_unsigned()) return std::nullopt;
    // A number beyond those of processes would become another one, or that of a group.
    if (json.at("process").get<uint64_t>() > uint64_t{std::numeric_limits<pid_t>::max()}) return std::nullopt;
    return RunOwner{json.at("process").get<int64_t>(), json.at("host").get<std::string>(),
                    json.at("since").get<std::string>(), json.at("process_started").get<uint64_t>()};
  } catch (const Error&) {
    return std::nullopt;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

RunLock::RunLock(fs::path run_directory, LockFile::Lock lock)
    : run_directory_(std::move(run_directory)), lock_(std::move(lock)) {
  file_ = acquire();
}

RunLock::~RunLock() {
  // The file stays: deleting it could take it away from under one who is about to lock it.
  if (file_.is_in_place() && !file_.write("")) log_debug("cannot empty {}", kRunLockName);
}

LockFile RunLock::acquire() const {
  const fs::path path = run_directory_ / kRunLockName;
  LockFile file;
  const LockFile::Outcome outcome = file.acquire(path, lock_);
  if (outcome == LockFile::Outcome::kNotOpened)
    throw Error(ErrorKind::kIo, fmt::format("cannot create: {}", std::strerror(file.problem())), path.string(),
                "Check the permissions and the free space of the run directory, or give another run_directory.");
  if (outcome == LockFile::Outcome::kHeldByAnother) {
    // An owner that has just begun may not have written who it is: the text may be that of one who has ended.
    std::optional<RunOwner> owner = read_run_owner(run_directory_);
    for (int i = 0; i < 25 && (!owner || (owner->is_on_this_machine() && !owner->is_alive())); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      owner = read_run_owner(run_directory_);
    }
    refuse(run_directory_, owner,
           "Stop it first (SIGTERM makes it save), or train under another name or run_directory.");
  }
  if (outcome == LockFile::Outcome::kNoLocks) {
    const std::optional<RunOwner> owner = read_run_owner(run_directory_);
    if (owner && owner->is_on_this_machine() && owner->is_alive() && owner->process != ::getpid())
      refuse(run_directory_, owner,
             "Stop it first (SIGTERM makes it save), or train under another name or run_directory.");
    if (owner && !owner->is_on_this_machine())
      refuse(run_directory_, owner,
             fmt::format("The file system has no locks, so this machine cannot see whether it lives. If it does not, "
                         "delete {} and start again.",
                         path.string()));
    log_warning("{}: the file system has no locks ({}); nothing but this file keeps a second run away", path.string(),
                std::strerror(file.problem()));
  }
  write_owner(file);
  return file;
}

void RunLock::write_owner(const LockFile& file) const {
  const nlohmann::ordered_json json = {{"process", ::getpid()},
                                       {"host", host_name()},
                                       {"since", utc_now()},
                                       {"process_started", start_ticks(::getpid())}};
  const std::string text = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  // The lock holds whatever a full disk does to its text.
  if (!file.write(text))
    log_warning("cannot write the owner of the run to {}: {}", (run_directory_ / kRunLockName).string(),
                std::strerror(errno));
}

void RunLock::renew() {
  if (file_.is_in_place()) return;
  std::error_code code;
  fs::create_directories(run_directory_, code);
  file_ = acquire();
  log_warning("{}: the run directory was deleted or moved while the run was going; it was made again",
              run_directory_.string());
}

}  // namespace causeway::train
