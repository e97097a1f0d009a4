// A file read and written at given offsets, for content whose layout is known before its bytes are (tensors, tokens).
// Every function throws Error: kNotFound for a missing file, kResource when the disk, quota or file-size limit is
// exhausted, kCorrupt when a file ends before the bytes asked for, kIo otherwise; each names the path.
//
// It is read through the descriptor, not mapped: a file that is cut short under a map kills the process, here it is an
// error. A file that is replaced by another of the same name (rename) goes on being read as it was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>

namespace causeway {

class PositionedFile {
 public:
  // Creates the file, or empties the one that exists, for writing.
  static PositionedFile create(const std::filesystem::path& path);
  // A new file without a name in a directory, for writing and reading: its space is free again when it is closed, also
  // by the end of the process, however it comes. Its path is that of the directory.
  static PositionedFile create_unnamed(const std::filesystem::path& directory);
  // Whether a file may be written by others while it is read from here. What must stay is looked at after every read:
  // read_at() throws Error(kCorrupt) once size or time of modification are not those at its opening.
  enum class Content { kMayChange, kMustStay };
  // Opens an existing regular file for reading.
  static PositionedFile open(const std::filesystem::path& path, Content content = Content::kMayChange);

  PositionedFile() = default;
  PositionedFile(PositionedFile&& other) noexcept;
  PositionedFile& operator=(PositionedFile&& other) noexcept;
  PositionedFile(const PositionedFile&) = delete;
  PositionedFile& operator=(const PositionedFile&) = delete;
  ~PositionedFile();

  const std::filesystem::path& path() const { return path_; }
  // Of a file whose content must stay, when it was opened.
  uint64_t size() const;

  // Makes the file `bytes` long and claims the space for it where the file system can, so that a full disk is
  // reported before any data is written.
  void reserve(uint64_t bytes);
  void write_at(uint64_t offset, std::span<const std::byte> bytes);
  // From any thread.
  void read_at(uint64_t offset, std::span<std::byte> bytes) const;
  // The content must stay from now on.
  void keep() { opened_ = state(); }
  // Returns when the content is on the disk.
  void sync();

 private:
  // What tells that a file was written to.
  struct State {
    uint64_t size = 0;
    timespec modified{};
  };

  PositionedFile(std::filesystem::path path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  State state() const;
  void require_unchanged() const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::optional<State> opened_;  // of a file whose content must stay
};

}  // namespace causeway
