#include "causeway/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/base/file_descriptor.h"
#include "causeway/base/open_file_limit.h"

namespace causeway {
namespace {

[[noreturn]] void fail_io(const std::filesystem::path& path, const char* action) {
  const int code = errno;
  const ErrorKind kind = code == ENOENT ? ErrorKind::kNotFound : ErrorKind::kIo;
  std::string hint;
  if (code == ENOSPC || code == EDQUOT) hint = "The disk is full: free some space or choose another directory.";
  if (code == EACCES || code == EPERM || code == EROFS) hint = "Check the permissions of the file and its directory.";
  if (code == EMFILE) hint = "Raise the limit of open files (ulimit -n), above the number of files of the data.";
  throw Error(kind, fmt::format("cannot {}: {}", action, std::strerror(code)), path.string(), hint);
}

FileDescriptor open_or_fail(const std::filesystem::path& path, int flags, const char* action) {
  const int descriptor = open_despite_signals(path, flags);
  if (descriptor < 0) fail_io(path, action);
  return FileDescriptor(descriptor);
}

const char* kind_of_file(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "not a regular file";
}

uint64_t size_of(int descriptor, const std::filesystem::path& path) {
  struct stat status{};
  if (::fstat(descriptor, &status) != 0) fail_io(path, "read the size of");
  return static_cast<uint64_t>(status.st_size);
}

[[noreturn]] void fail_too_large(const std::filesystem::path& path, uint64_t bytes, uint64_t most_bytes) {
  throw Error(ErrorKind::kResource,
              fmt::format("the file has {} bytes or more, and at most {} are read here", bytes, most_bytes),
              path.string(), "Check that this is the file you mean.");
}

}  // namespace

int open_regular_file(const std::filesystem::path& path) {
  // The operating system would open what the name begins with.
  if (path.native().find('\0') != std::string::npos)
    throw Error(ErrorKind::kNotFound, "there is no file whose name holds a zero byte", path.string());
  int descriptor = -1;
  do {
    // Opening a FIFO would wait for its writer, and a terminal could become this process's own. A dataset may have more
    // files than a shell lets a process open by default.
    descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  } while (descriptor < 0 && (errno == EINTR || (errno == EMFILE && raise_limit_of_open_files())));
  struct stat status{};
  if (descriptor < 0) {
    // What cannot be opened for being a socket or a device is called by its name.
    const int code = errno;
    if (code != ENXIO || ::stat(path.c_str(), &status) != 0) {
      errno = code;
      fail_io(path, "open");
    }
  } else if (::fstat(descriptor, &status) != 0) {
    const int code = errno;
    ::close(descriptor);
    errno = code;
    fail_io(path, "read the kind of");
  }
  if (S_ISREG(status.st_mode)) return descriptor;
  if (descriptor >= 0) ::close(descriptor);
  throw Error(ErrorKind::kIo,
              fmt::format("cannot be read: this is {}, where a file is expected", kind_of_file(status.st_mode)),
              path.string(), "Give the path of a regular file.");
}

std::string read_text_file(const std::filesystem::path& path) {
  constexpr uint64_t kMostTextBytes = uint64_t{1} << 30;
  return read_text_file(path, kMostTextBytes);
}

std::string read_text_file(const std::filesystem::path& path, uint64_t most_bytes) {
  const FileDescriptor file(open_regular_file(path));
  if (const uint64_t bytes = size_of(file.get(), path); bytes > most_bytes) fail_too_large(path, bytes, most_bytes);
  std::string text;
  char buffer[1 << 16];
  while (true) {
    const ssize_t count = ::read(file.get(), buffer, sizeof buffer);
    if (count < 0) {
      if (errno == EINTR) continue;
      fail_io(path, "read");
    }
    if (count == 0) return text;
    text.append(buffer, static_cast<size_t>(count));
    if (text.size() > most_bytes) fail_too_large(path, text.size(), most_bytes);
  }
}

void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  // A name that nobody can foresee, and a file that was not there: in a directory like /tmp another user could put a
  // link in its way.
  std::random_device random;
  const std::filesystem::path temporary = path.string() + fmt::format(".tmp-{:08x}{:08x}", random(), random());
  try {
    FileWriter writer(temporary, FileWriter::Existing::kRefuse);
    writer.write(bytes);
    writer.sync();
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    const int code = errno;
    ::unlink(temporary.c_str());
    errno = code;
    fail_io(path, "write");
  }
  sync_directory(path.has_parent_path() ? path.parent_path() : std::filesystem::path("."));
}

void write_file_atomically(const std::filesystem::path& path, std::string_view text) {
  write_file_atomically(path, std::as_bytes(std::span(text.data(), text.size())));
}

void sync_directory(const std::filesystem::path& path) {
  const FileDescriptor directory = open_or_fail(path, O_RDONLY | O_DIRECTORY, "open directory");
  if (::fsync(directory.get()) != 0 && errno != EINVAL) fail_io(path, "flush directory");
}

MappedFile::MappedFile(const std::filesystem::path& path) : MappedFile(path, open_regular_file(path)) {}

MappedFile::MappedFile(const std::filesystem::path& path, int descriptor) {
  const FileDescriptor file(descriptor);
  size_ = size_of(file.get(), path);
  if (size_ == 0) return;
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.get(), 0);
  if (address == MAP_FAILED) fail_io(path, "map");
  data_ = static_cast<const std::byte*>(address);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

FileWriter::FileWriter(const std::filesystem::path& path, Existing existing) : path_(path) {
  const int how = existing == Existing::kRefuse ? O_EXCL | O_NOFOLLOW : O_TRUNC;
  descriptor_ = open_or_fail(path, O_WRONLY | O_CREAT | how, "create").release();
}

FileWriter::~FileWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void FileWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0) {
      if (errno == EINTR) continue;
      fail_io(path_, "write");
    }
    position_ += static_cast<size_t>(count);
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

void FileWriter::write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }

void FileWriter::sync() {
  if (::fsync(descriptor_) != 0) fail_io(path_, "flush");
}

}  // namespace causeway
