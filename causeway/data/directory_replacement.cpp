#include "causeway/data/directory_replacement.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/base/host_name.h"
#include "causeway/base/log.h"

namespace causeway::data {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const char* action, int code) {
  throw Error(ErrorKind::kIo, fmt::format("cannot {}: {}", action, std::strerror(code)), path.string(),
              code == ENOSPC || code == EDQUOT ? "The disk is full: free some space or choose another directory."
                                               : "Choose a directory that can be written.");
}

void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) fail(to, "put the new directory there", errno);
  sync_directory(from.parent_path());
  if (to.parent_path() != from.parent_path()) sync_directory(to.parent_path());
}

std::string this_process() { return fmt::format("process {} on {}", ::getpid(), host_name()); }

// The same directory under the name that its parent has for it: no link, no "..".
std::filesystem::path plain_path(const std::filesystem::path& target) {
  std::filesystem::path plain = std::filesystem::weakly_canonical(std::filesystem::absolute(target));
  if (!plain.has_filename()) plain = plain.parent_path();
  return plain;
}

std::filesystem::path work_path(const std::filesystem::path& plain) {
  return plain.parent_path() / fmt::format(".{}.preparing", plain.filename().string());
}

bool is_there(const std::filesystem::path& path) {
  std::error_code code;
  return std::filesystem::exists(std::filesystem::symlink_status(path, code));
}

}  // namespace

DirectoryReplacement::DirectoryReplacement(const std::filesystem::path& target) : target_(plain_path(target)) {
  work_ = work_path(target_);
  new_ = work_ / "new";
  old_ = work_ / "old";
  std::error_code code;
  if (is_there(target_)) {
    struct stat inside{}, outside{};
    if (!std::filesystem::is_directory(target_, code))
      throw Error(ErrorKind::kIo, "the output is a file, not a directory", target.string(),
                  "Choose another directory.");
    if (::stat(target_.c_str(), &inside) != 0 || ::stat(target_.parent_path().c_str(), &outside) != 0)
      fail(target_, "look at the output directory", errno);
    if (inside.st_dev != outside.st_dev || target_ == target_.root_path()) {
      throw Error(ErrorKind::kInvalidArgument, "the output directory is a mount point, which cannot be replaced",
                  target.string(), "Choose a directory in it.");
    }
  }
  std::filesystem::create_directories(target_.parent_path(), code);
  if (code) fail(target_.parent_path(), "create the output directory", code.value());
  lock();
  recover();
  if (::mkdir(new_.c_str(), 0777) != 0) fail(new_, "create the output directory", errno);
  sync_directory(work_);
  sync_directory(work_.parent_path());
}

DirectoryReplacement::~DirectoryReplacement() {
  std::error_code code;
  std::filesystem::remove_all(new_, code);
  // What is left there when a rename failed twice is somebody's data.
  if (is_there(target_)) std::filesystem::remove_all(old_, code);
  for (const std::filesystem::directory_entry& entry : std::filesystem::directory_iterator(work_, code))
    if (entry.path() != old_ && entry.path().filename() != "lock") std::filesystem::remove(entry.path(), code);
  ::unlink((work_ / "lock").c_str());
  ::rmdir(work_.c_str());
}

// The lock goes with the process that holds it, however it ends; the file is removed by whoever holds it.
void DirectoryReplacement::lock() {
  const std::filesystem::path path = work_ / "lock";
  while (true) {
    if (::mkdir(work_.c_str(), 0777) != 0 && errno != EEXIST)
      fail(work_, "create a directory beside the output", errno);
    switch (lock_.acquire(path)) {
      case LockFile::Outcome::kNotOpened:
        if (lock_.problem() == ENOENT) continue;  // its holder has just removed the directory
        fail(path, "create the lock", lock_.problem());
      case LockFile::Outcome::kHeldByAnother: {
        const std::string owner = lock_.text();
        throw Error(ErrorKind::kResource,
                    fmt::format("another process is writing this directory{}{}", owner.empty() ? "" : ": ", owner),
                    target_.string(), "Wait for it to end, or choose another output directory.");
      }
      case LockFile::Outcome::kNoLocks:
        // A file system without locks is no reason to refuse the work.
        log_warning("{} cannot be locked ({}): see to it that no other process writes {}", path.string(),
                    std::strerror(lock_.problem()), target_.string());
        return;
      case LockFile::Outcome::kHeld:
        break;
    }
    if (lock_.is_in_place()) break;  // it may have been removed between opening and locking
  }
  if (!lock_.write(this_process())) log_warning("cannot write {}: {}", path.string(), std::strerror(errno));
}

void DirectoryReplacement::recover() {
  if (is_there(old_) && !is_there(target_)) rename_durably(old_, target_);
  std::error_code code;
  for (const std::filesystem::directory_entry& entry : std::filesystem::directory_iterator(work_))
    if (entry.path().filename() != "lock") std::filesystem::remove_all(entry.path(), code);
}

void DirectoryReplacement::commit(Method method) {
  sync_directory(new_);
  if (!is_there(target_)) {
    rename_durably(new_, target_);
    return;
  }
  if (method == Method::kExchange) {
    if (::renameat2(AT_FDCWD, new_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) == 0) {
      sync_directory(target_.parent_path());
      sync_directory(work_);
      return;
    }
    if (errno != ENOSYS && errno != EINVAL && errno != EOPNOTSUPP) fail(target_, "replace the old directory", errno);
  }
  rename_durably(target_, old_);
  try {
    rename_durably(new_, target_);
  } catch (const Error&) {
    ::rename(old_.c_str(), target_.c_str());
    throw;
  }
}

std::filesystem::path interrupted_replacement(const std::filesystem::path& target) {
  std::error_code code;
  const std::filesystem::path plain = std::filesystem::weakly_canonical(std::filesystem::absolute(target, code), code);
  if (code || !plain.has_filename() || is_there(plain)) return {};
  const std::filesystem::path old = work_path(plain) / "old";
  return is_there(old) ? old : std::filesystem::path();
}

}  // namespace causeway::data
