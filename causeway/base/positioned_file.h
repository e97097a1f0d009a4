// A file read and written at given offsets, for content whose layout is known before its bytes are (tensor files).
// Every function throws Error: kNotFound for a missing file, kResource when the disk, quota or file-size limit is
// exhausted, kCorrupt when a file ends before the bytes asked for, kIo otherwise; each names the path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace causeway {

class PositionedFile {
 public:
  // Creates the file, or empties the one that exists, for writing.
  static PositionedFile create(const std::filesystem::path& path);
  // Opens an existing regular file for reading.
  static PositionedFile open(const std::filesystem::path& path);

  PositionedFile(PositionedFile&& other) noexcept;
  PositionedFile& operator=(PositionedFile&& other) noexcept;
  PositionedFile(const PositionedFile&) = delete;
  PositionedFile& operator=(const PositionedFile&) = delete;
  ~PositionedFile();

  const std::filesystem::path& path() const { return path_; }
  uint64_t size() const;

  // Makes the file `bytes` long and claims the space for it where the file system can, so that a full disk is
  // reported before any data is written.
  void reserve(uint64_t bytes);
  void write_at(uint64_t offset, std::span<const std::byte> bytes);
  void read_at(uint64_t offset, std::span<std::byte> bytes) const;
  // Returns when the content is on the disk.
  void sync();

 private:
  PositionedFile(std::filesystem::path path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace causeway
