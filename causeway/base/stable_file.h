// A file that must stay as it is while a run reads from it. It is opened once and read through the descriptor, not
// mapped: a file that is cut short under a map kills the process, here it is an error with the file's name. A file that
// is replaced by another of the same name (rename) goes on being read as it was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <span>

namespace causeway {

class StableFile {
 public:
  StableFile() = default;
  // Opens a regular file. Throws Error(kNotFound, kIo) naming it.
  explicit StableFile(const std::filesystem::path& path);
  StableFile(StableFile&& other) noexcept;
  StableFile& operator=(StableFile&& other) noexcept;
  StableFile(const StableFile&) = delete;
  StableFile& operator=(const StableFile&) = delete;
  ~StableFile();

  const std::filesystem::path& path() const { return path_; }
  // When it was opened.
  uint64_t size() const { return size_; }
  // Reads [offset, offset + bytes.size()), which must lie inside the file as it was opened. Throws Error(kCorrupt) when
  // the file has another size or modification time by now, Error(kIo) when it cannot be read. From any thread.
  void read_at(uint64_t offset, std::span<std::byte> bytes) const;

 private:
  void require_unchanged() const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
  timespec modified_{};
};

}  // namespace causeway
