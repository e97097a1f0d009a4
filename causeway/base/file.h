// Files: whole-file reads, memory maps, and writes that are either complete and durable or absent.
// Every function throws Error(kIo or kNotFound) naming the path and the operating system's reason.
//
// What is read is a regular file. A directory, a device, a socket or a FIFO is an Error(kIo) that says which it is;
// nothing waits for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace causeway {

// Opens a regular file for reading and returns its descriptor, which the caller closes.
int open_regular_file(const std::filesystem::path& path);

// The whole content. Throws Error(kResource) for a file of more than `most_bytes`, which is not read; by itself of more
// than any text that people and programs write (recipes, descriptions, vocabularies).
std::string read_text_file(const std::filesystem::path& path);
std::string read_text_file(const std::filesystem::path& path, uint64_t most_bytes);

// Writes to a new file of a random name beside `path`, flushes it to disk, renames it over `path` and flushes the
// directory. A crash at any instant leaves the old content or the new, never a mixture.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

// Flushes a directory's entries (names created, renamed or removed in it) to disk.
void sync_directory(const std::filesystem::path& path);

// A read-only memory map of a whole file. Movable; unmapped on destruction. An empty file maps to an empty span.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::filesystem::path& path);
  // Of a regular file that is open for reading: takes the descriptor over. Messages name `path`.
  MappedFile(const std::filesystem::path& path, int descriptor);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// A file opened for writing in sequence; sync() makes its content durable. Closed on destruction.
class FileWriter {
 public:
  // Empties a file that is there, or with kRefuse fails: a link counts too.
  enum class Existing { kEmpty, kRefuse };
  explicit FileWriter(const std::filesystem::path& path, Existing existing = Existing::kEmpty);
  // Writes to what is open: takes the descriptor over. Messages name `path`.
  FileWriter(std::filesystem::path path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  ~FileWriter();

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void sync();
  size_t position() const { return position_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  size_t position_ = 0;
};

}  // namespace causeway
