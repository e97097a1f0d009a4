#include "causeway/base/private_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <utility>

#include "causeway/base/file_descriptor.h"

namespace causeway {
namespace {

namespace fs = std::filesystem;

// `path`: what could not be acted on, on the way to `asked`.
[[noreturn]] void fail_on_the_way(int code, const std::string& action, const fs::path& path,
                                  const fs::path& asked = {}) {
  const ErrorKind kind = code == ENOENT                                       ? ErrorKind::kNotFound
                         : code == ENOSPC || code == EDQUOT || code == ENOMEM ? ErrorKind::kResource
                                                                              : ErrorKind::kIo;
  const bool on_the_way = !asked.empty() && asked != path;
  throw Error(kind, fmt::format("cannot {}{}: {}", action, on_the_way ? " " + path.string() : "", std::strerror(code)),
              on_the_way ? asked.string() : path.string());
}

std::string user_name(uid_t user) {
  const passwd* entry = ::getpwuid(user);
  return entry == nullptr ? fmt::format("user {}", user) : fmt::format("user {}", entry->pw_name);
}

struct stat status_of(int descriptor, const fs::path& path) {
  struct stat status{};
  if (::fstat(descriptor, &status) != 0) fail_on_the_way(errno, "look at", path);
  return status;
}

bool has_access_list(int descriptor) {
  // Not fgetxattr(): it refuses descriptors that are open for their path alone.
  const std::string path = fmt::format("/proc/self/fd/{}", descriptor);
  return ::getxattr(path.c_str(), "system.posix_acl_access", nullptr, 0) >= 0 || (errno != ENODATA && errno != ENOTSUP);
}

// The group of a user-private-group scheme, in which only he is.
bool is_own_group(gid_t group, uid_t user) {
  if (user == 0) return false;
  static std::mutex mutex;  // the user database is read through static memory
  const std::lock_guard lock(mutex);
  const passwd* entry = ::getpwuid(user);
  if (entry == nullptr || entry->pw_gid != group) return false;
  const std::string name = entry->pw_name;
  const struct group* members = ::getgrgid(group);
  if (members == nullptr || name != members->gr_name) return false;
  for (char** member = members->gr_mem; *member != nullptr; ++member)
    if (name != *member) return false;
  bool alone = true;
  ::setpwent();
  while (const passwd* other = ::getpwent())
    if (other->pw_gid == group && other->pw_uid != user) alone = false;
  ::endpwent();
  return alone;
}

bool others_may_write(const struct stat& status, int descriptor) {
  if ((status.st_mode & S_IWOTH) != 0) return true;
  if ((status.st_mode & S_IWGRP) == 0) return false;
  return status.st_uid != ::geteuid() || has_access_list(descriptor) || !is_own_group(status.st_gid, status.st_uid);
}

[[noreturn]] void refuse_owner(const struct stat& status, const fs::path& what, const fs::path& asked) {
  throw UntrustedPathError(fmt::format("others could have written it: {} belongs to {}, and this is {}", what.string(),
                                       user_name(status.st_uid), user_name(::geteuid())),
                           asked.string(), "Choose a directory that is your own (with sudo: sudo -H).");
}

[[noreturn]] void refuse_mode(const struct stat& status, const fs::path& what, const fs::path& asked) {
  throw UntrustedPathError(
      fmt::format("others could have written it: {} may be written to by {} (mode {:04o})", what.string(),
                  (status.st_mode & S_IWOTH) != 0 ? "everybody" : fmt::format("group {}", status.st_gid),
                  status.st_mode & 07777),
      asked.string(), fmt::format("Look at what is in it, then `chmod go-w '{}'`, or choose another.", what.string()));
}

void check_above(const struct stat& status, int descriptor, const fs::path& reached, const fs::path& asked) {
  if (status.st_uid != 0 && status.st_uid != ::geteuid()) refuse_owner(status, reached, asked);
  if ((status.st_mode & S_ISVTX) == 0 && others_may_write(status, descriptor)) refuse_mode(status, reached, asked);
}

void check_own(const struct stat& status, int descriptor, const fs::path& reached, const fs::path& asked) {
  if (status.st_uid != ::geteuid()) refuse_owner(status, reached, asked);
  if (others_may_write(status, descriptor)) refuse_mode(status, reached, asked);
}

void put_in_front(std::deque<std::string>& names, const fs::path& path) {
  std::vector<std::string> parts;
  for (const fs::path& part : path.relative_path())
    if (!part.empty() && part != ".") parts.push_back(part.string());
  names.insert(names.begin(), parts.begin(), parts.end());
}

std::string target_of_link(int link, const fs::path& path) {
  char target[PATH_MAX];
  const ssize_t size = ::readlinkat(link, "", target, sizeof target);
  if (size < 0) fail_on_the_way(errno, "read the link", path);
  if (size == 0 || static_cast<size_t>(size) == sizeof target) fail_on_the_way(ENAMETOOLONG, "follow the link", path);
  return {target, static_cast<size_t>(size)};
}

// Down from the root, every directory looked at; the descriptor returned serves as a place, not for reading.
FileDescriptor walk_to(const fs::path& asked, bool create) {
  const auto open_root = [] { return FileDescriptor(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)); };
  const auto open_below = [](const FileDescriptor& above, const std::string& name) {
    return FileDescriptor(::openat(above.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  };
  std::deque<std::string> left;
  put_in_front(left, fs::absolute(asked));
  FileDescriptor at = open_root();
  fs::path reached = "/";
  if (!at) fail_on_the_way(errno, "open", reached);
  check_above(status_of(at.get(), reached), at.get(), reached, asked);
  for (int links = 0; !left.empty();) {
    const std::string name = left.front();
    left.pop_front();
    const fs::path path = reached / name;
    FileDescriptor next = open_below(at, name);
    if (!next && errno == ENOENT && create) {
      // Another program may make it at the same time.
      if (::mkdirat(at.get(), name.c_str(), 0700) != 0 && errno != EEXIST)
        fail_on_the_way(errno, "make the directory", path, asked);
      next = open_below(at, name);
    }
    if (!next) fail_on_the_way(errno, "open", path, asked);
    const struct stat status = status_of(next.get(), path);
    if (S_ISLNK(status.st_mode)) {
      if (status.st_uid != 0 && status.st_uid != ::geteuid()) refuse_owner(status, path, asked);
      if (++links > kMostLinks) fail_on_the_way(ELOOP, "follow the links of", asked);
      const fs::path target = target_of_link(next.get(), path);
      put_in_front(left, target);
      if (target.is_absolute()) {
        at = open_root();
        reached = "/";
      }
      continue;
    }
    if (!S_ISDIR(status.st_mode)) fail_on_the_way(ENOTDIR, "open", path, asked);
    check_above(status, next.get(), path, asked);
    at = std::move(next);
    reached = name == ".." ? reached.parent_path() : path;
  }
  return at;
}

// A descriptor for use of a directory that is the user's own.
int open_own(const fs::path& asked, bool create) {
  const FileDescriptor place = walk_to(asked, create);
  const struct stat status = status_of(place.get(), asked);
  check_own(status, place.get(), asked, asked);
  FileDescriptor directory(::openat(place.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) fail_on_the_way(errno, "open", asked);
  if ((status.st_mode & 077) != 0) ::fchmod(directory.get(), status.st_mode & 0700);
  return directory.release();
}

void check_own_file(const struct stat& status, int descriptor, const fs::path& path) {
  if (!S_ISREG(status.st_mode))
    throw UntrustedPathError("it is no regular file", path.string(), "Move it out of the directory.");
  check_own(status, descriptor, path, path);
}

std::string random_name() {
  std::random_device device;
  return fmt::format(".new-{:08x}{:08x}", device(), device());
}

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

// Calls `visit(name)` for each entry.
template <typename Visit>
void for_each_entry(int directory, const fs::path& path, const Visit& visit) {
  // A descriptor of its own: those that are duplicates share a position.
  const int copy = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, CloseDirectory> entries(copy < 0 ? nullptr : ::fdopendir(copy));
  if (entries == nullptr) {
    const int code = errno;
    if (copy >= 0) ::close(copy);
    fail_on_the_way(code, "read the directory", path);
  }
  while (const dirent* entry = ::readdir(entries.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") visit(name);
  }
}

// Calls `visit(entry, name, path, status)` for everything below, a directory's content before itself. What others
// remove meanwhile is passed over.
template <typename Visit>
void walk_below(int directory, const fs::path& path, const Visit& visit) {
  for_each_entry(directory, path, [&](const std::string& name) {
    const FileDescriptor entry(::openat(directory, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!entry && errno == ENOENT) return;
    if (!entry) fail_on_the_way(errno, "open", path / name);
    const struct stat status = status_of(entry.get(), path / name);
    if (S_ISDIR(status.st_mode)) walk_below(entry.get(), path / name, visit);
    visit(entry.get(), path / name, status);
  });
}

void check_tree(int directory, const fs::path& path) {
  walk_below(directory, path, [](int entry, const fs::path& below, const struct stat& status) {
    if (S_ISDIR(status.st_mode)) return check_own(status, entry, below, below);
    check_own_file(status, entry, below);
  });
}

int64_t tree_bytes(int directory, const fs::path& path) {
  int64_t bytes = 0;
  walk_below(directory, path, [&](int, const fs::path&, const struct stat& status) {
    if (S_ISREG(status.st_mode)) bytes += status.st_size;
  });
  return bytes;
}

void remove_tree(int directory, const fs::path& path) {
  for_each_entry(directory, path, [&](const std::string& name) {
    if (::unlinkat(directory, name.c_str(), 0) == 0 || errno == ENOENT) return;
    if (errno != EISDIR && errno != EPERM) fail_on_the_way(errno, "remove", path / name);
    const FileDescriptor entry(::openat(directory, name.c_str(), O_PATH | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC));
    if (!entry) fail_on_the_way(errno, "open", path / name);
    remove_tree(entry.get(), path / name);
    if (::unlinkat(directory, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT)
      fail_on_the_way(errno, "remove", path / name);
  });
}

}  // namespace

PrivateDirectory PrivateDirectory::create(const fs::path& path) { return {path, open_own(path, true)}; }

PrivateDirectory PrivateDirectory::open(const fs::path& path) { return {path, open_own(path, false)}; }

PrivateDirectory::PrivateDirectory(PrivateDirectory&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

PrivateDirectory& PrivateDirectory::operator=(PrivateDirectory&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

PrivateDirectory::~PrivateDirectory() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::optional<std::string> PrivateDirectory::read_file(const std::string& name) const {
  // Without waiting for a writer of what is a pipe.
  const FileDescriptor file(
      ::openat(descriptor_, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!file && errno == ENOENT) return std::nullopt;
  if (!file && errno == ELOOP)
    throw UntrustedPathError("it is no regular file", (path_ / name).string(), "Move it out of the directory.");
  if (!file) fail_on_the_way(errno, "open", path_ / name);
  const struct stat status = status_of(file.get(), path_ / name);
  check_own_file(status, file.get(), path_ / name);
  std::string content(static_cast<size_t>(status.st_size), '\0');
  size_t size = 0;
  while (size < content.size()) {
    const ssize_t count = ::read(file.get(), content.data() + size, content.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_on_the_way(errno, "read", path_ / name);
    if (count == 0) break;
    size += static_cast<size_t>(count);
  }
  content.resize(size);
  return content;
}

void PrivateDirectory::write_file(const std::string& name, std::string_view content) const {
  const std::string temporary = random_name();
  const auto give_up = [&](int code) {
    ::unlinkat(descriptor_, temporary.c_str(), 0);
    fail_on_the_way(code, "write", path_ / name);
  };
  {
    const FileDescriptor file(
        ::openat(descriptor_, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file) fail_on_the_way(errno, "write", path_ / name);
    while (!content.empty()) {
      const ssize_t count = ::write(file.get(), content.data(), content.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) give_up(errno);
      content.remove_prefix(static_cast<size_t>(count));
    }
  }
  if (::renameat(descriptor_, temporary.c_str(), descriptor_, name.c_str()) != 0) give_up(errno);
}

void PrivateDirectory::create_file(const std::string& name) const {
  const FileDescriptor file(
      ::openat(descriptor_, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file && errno != EEXIST) fail_on_the_way(errno, "create", path_ / name);
}

bool PrivateDirectory::check_file(const std::string& name) const {
  const FileDescriptor file(::openat(descriptor_, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!file && errno == ENOENT) return false;
  if (!file) fail_on_the_way(errno, "look at", path_ / name);
  check_own_file(status_of(file.get(), path_ / name), file.get(), path_ / name);
  return true;
}

void PrivateDirectory::mark_used(const std::string& name) const {
  const timespec times[2] = {{0, UTIME_OMIT}, {0, UTIME_NOW}};
  // On a read-only file system the order of use is not known.
  ::utimensat(descriptor_, name.c_str(), times, AT_SYMLINK_NOFOLLOW);
}

bool PrivateDirectory::remove_file(const std::string& name) const {
  if (::unlinkat(descriptor_, name.c_str(), 0) == 0) return true;
  if (errno != ENOENT) fail_on_the_way(errno, "remove", path_ / name);
  return false;
}

std::vector<PrivateFile> PrivateDirectory::files() const {
  std::vector<PrivateFile> found;
  for_each_entry(descriptor_, path_, [&](const std::string& name) {
    struct stat status{};
    if (::fstatat(descriptor_, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(status.st_mode)) return;
    found.push_back({name, status.st_size, int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec});
  });
  return found;
}

void PrivateDirectory::check_everything_below() const { check_tree(descriptor_, path_); }

int64_t PrivateDirectory::bytes_below() const { return tree_bytes(descriptor_, path_); }

void PrivateDirectory::remove_everything_below() const { remove_tree(descriptor_, path_); }

int64_t PrivateDirectory::file_system_bytes() const {
  struct statvfs status{};
  if (::fstatvfs(descriptor_, &status) != 0) fail_on_the_way(errno, "look at", path_);
  return static_cast<int64_t>(status.f_blocks) * static_cast<int64_t>(status.f_frsize);
}

}  // namespace causeway
