#include "causeway/base/enclosed_path.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/base/file_descriptor.h"

namespace causeway {
namespace {

namespace fs = std::filesystem;

// A name in an open directory: what a path leads to once the links before it are resolved. It is no link itself.
struct EnclosedPlace {
  FileDescriptor parent;
  std::string name;  // "." of the enclosing directory itself
};

// The way from the enclosing directory down.
class Walk {
 public:
  enum class Missing { kFails, kIsMade };

  Walk(const fs::path& directory, const fs::path& below)
      : directory_(directory.empty() ? "." : directory), below_(below) {
    FileDescriptor root(::open(directory_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!root) fail(errno, "open");
    open_.push_back(std::move(root));
    put_in_front(below);
  }

  // Directories on the way that are not there are made, or it fails; the last name need not be there.
  EnclosedPlace last_place(Missing missing) {
    while (!left_.empty()) {
      const std::string name = std::move(left_.front());
      left_.pop_front();
      if (name == "..") {
        if (open_.size() == 1) leads_out();
        open_.pop_back();
        continue;
      }
      FileDescriptor next = open_place(name);
      if (!next && errno == ENOENT) {
        if (left_.empty()) return {std::move(open_.back()), name};
        if (missing == Missing::kFails) fail(ENOENT, "open");
        // Another rank may make it at the same time.
        if (::mkdirat(open_.back().get(), name.c_str(), 0777) != 0 && errno != EEXIST) fail(errno, "create");
        next = open_place(name);
      }
      if (!next) fail(errno, "open");
      struct stat status{};
      if (::fstat(next.get(), &status) != 0) fail(errno, "look at");
      if (S_ISLNK(status.st_mode)) {
        follow(next.get());
      } else if (left_.empty()) {
        return {std::move(open_.back()), name};
      } else if (!S_ISDIR(status.st_mode)) {
        fail(ENOTDIR, "open");
      } else {
        open_.push_back(std::move(next));
      }
    }
    return {std::move(open_.back()), "."};
  }

  [[noreturn]] void fail(int code, const char* action) const {
    throw Error(code == ENOENT ? ErrorKind::kNotFound : ErrorKind::kIo,
                fmt::format("cannot {}: {}", action, std::strerror(code)), (directory_ / below_).string());
  }

 private:
  FileDescriptor open_place(const std::string& name) const {
    return FileDescriptor(::openat(open_.back().get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  }

  void put_in_front(const fs::path& path) {
    std::vector<std::string> names;
    for (const fs::path& part : path.relative_path())
      if (!part.empty() && part != ".") names.push_back(part.string());
    left_.insert(left_.begin(), names.begin(), names.end());
  }

  void follow(int link) {
    if (++links_ > kMostLinks) fail(ELOOP, "follow the links of");
    char text[PATH_MAX];
    const ssize_t size = ::readlinkat(link, "", text, sizeof text);
    if (size < 0) fail(errno, "read the link");
    if (size == 0 || static_cast<size_t>(size) == sizeof text) fail(ENAMETOOLONG, "follow the link");
    fs::path target(std::string(text, static_cast<size_t>(size)));
    link_target_ = target;
    if (target.is_absolute()) {
      // It may be written by way of other links than the directory is.
      std::error_code failure;
      target = fs::weakly_canonical(target, failure).lexically_relative(fs::canonical(directory_, failure));
      if (failure || target.empty() || *target.begin() == "..") leads_out();
      open_.erase(open_.begin() + 1, open_.end());
    }
    put_in_front(target);
  }

  [[noreturn]] void leads_out() const {
    const std::string what =
        link_target_ ? fmt::format("a link here leads out of {}, to {}", directory_.string(), link_target_->string())
                     : fmt::format("it is not below {}", directory_.string());
    throw Error(ErrorKind::kIo, what + ": nothing is written or deleted through it", (directory_ / below_).string(),
                fmt::format("Remove the link. To keep files elsewhere, let {} itself be a link.", directory_.string()));
  }

  fs::path directory_, below_;
  std::vector<FileDescriptor> open_;  // the enclosing directory, and those down to where the walk is
  std::deque<std::string> left_;
  std::optional<fs::path> link_target_;  // of the last link
  int links_ = 0;
};

}  // namespace

int open_enclosed(const fs::path& directory, const fs::path& below, int flags) {
  Walk walk(directory, below);
  const EnclosedPlace place = walk.last_place(Walk::Missing::kFails);
  int descriptor = -1;
  do {
    descriptor = ::openat(place.parent.get(), place.name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC, 0644);
  } while (descriptor < 0 && errno == EINTR);
  if (descriptor < 0) walk.fail(errno, (flags & O_CREAT) != 0 ? "create" : "open");
  return descriptor;
}

void create_enclosed_directories(const fs::path& directory, const fs::path& below) {
  Walk walk(directory, below);
  const EnclosedPlace place = walk.last_place(Walk::Missing::kIsMade);
  if (::mkdirat(place.parent.get(), place.name.c_str(), 0777) == 0) return;
  const int code = errno;
  struct stat status{};
  if (code != EEXIST || ::fstatat(place.parent.get(), place.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 ||
      !S_ISDIR(status.st_mode))
    walk.fail(code, "create the directory");
}

void require_enclosed(const fs::path& directory, const fs::path& below) {
  try {
    Walk(directory, below).last_place(Walk::Missing::kFails);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNotFound) throw;
  }
}

}  // namespace causeway
