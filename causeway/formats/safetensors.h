// safetensors files (format: huggingface/safetensors): a little-endian u64 header length, a JSON header padded with
// spaces, then the tensors' bytes, row-major and little-endian, one after another without holes.
//
// Reading is strict to the byte and never copies: the file is memory-mapped. Writing puts the header first, which
// follows from the shapes alone, and takes the data in any order and in any pieces, so nothing is gathered in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/base/file.h"
#include "causeway/base/positioned_file.h"
#include "causeway/graph/dtype.h"

namespace causeway::formats {

struct NamedTensorSpec {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
};

// The format's name of a dtype, e.g. "F32", "BF16", "F8_E4M3"; and back (nothing for types this program cannot hold).
std::string_view safetensors_dtype_name(DType dtype);
std::optional<DType> parse_safetensors_dtype(std::string_view name);

struct SafetensorsEntry {
  std::string dtype_name;      // as in the file; valid in the format, but perhaps not a DType ("F64", "I16", ...)
  std::optional<DType> dtype;  // absent when dtype_name is not a DType
  std::vector<int64_t> shape;
  uint64_t begin = 0;  // byte range in the file's data part
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::map<std::string, SafetensorsEntry> tensors;
  std::map<std::string, std::string> metadata;
  uint64_t data_begin = 0;  // where the data part starts in the file
};

// Checks a whole file's bytes against the format. Throws Error(kCorrupt) naming `path` and the tensor.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, const std::filesystem::path& path);

// One file, memory-mapped. Spans stay valid as long as the object lives (moving it keeps them valid). The file must
// not be shortened meanwhile.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const SafetensorsHeader& header() const { return header_; }
  std::vector<std::string> names() const;
  bool contains(std::string_view name) const;
  // Throws Error(kNotFound) with the nearest name.
  const SafetensorsEntry& entry(const std::string& name) const;
  // The tensor's dtype; throws Error(kUnsupported) when this program cannot hold it.
  DType dtype(const std::string& name) const;
  std::span<const std::byte> data(const std::string& name) const;

 private:
  std::filesystem::path path_;
  MappedFile file_;
  SafetensorsHeader header_;
};

// A model in one file or in several with an index (model.safetensors.index.json): of the latter all tensors that the
// files hold which it names.
class SafetensorsModel {
 public:
  // `path` is a .safetensors file, an index file, or a directory: with model.safetensors, or else with an index, as
  // transformers chooses. An index may name files in folders of its directory, and none outside of it. Throws Error
  // naming what does not hold together.
  explicit SafetensorsModel(const std::filesystem::path& path);

  std::vector<std::string> names() const;
  bool contains(std::string_view name) const;
  // Tensors that the index names and no file holds, as of tied weights stored once. Asked for, each is an
  // Error(kCorrupt).
  std::vector<std::string> names_without_data() const;
  const SafetensorsEntry& entry(const std::string& name) const;
  DType dtype(const std::string& name) const;
  std::span<const std::byte> data(const std::string& name) const;

 private:
  void open_index();
  void add_file(const std::filesystem::path& path);
  const SafetensorsFile& file_of(const std::string& name) const;

  std::filesystem::path path_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, size_t, std::less<>> file_index_;
  std::map<std::string, std::string> without_data_;  // to the files that the index names
};

using SafetensorsMetadata = std::map<std::string, std::string>;

// Writes one file. The header is written on construction and the space claimed; finish() checks that every byte of
// every tensor was given and flushes to disk. Without finish() the file is incomplete. The data part starts at a
// multiple of 8; tensors lie by falling element size (then in the order given), so each is aligned to its elements.
class SafetensorsWriter {
 public:
  SafetensorsWriter(const std::filesystem::path& path, const std::vector<NamedTensorSpec>& tensors,
                    const SafetensorsMetadata& metadata = {{"format", "pt"}});

  // A piece of the tensor's row-major bytes, starting `byte_offset` bytes in. Each byte must be given exactly once.
  void write(const std::string& name, uint64_t byte_offset, std::span<const std::byte> bytes);
  void finish();

  // Length and JSON text of the header with its padding; where the tensor's data starts in the file; the file's size.
  std::span<const std::byte> header() const { return header_; }
  uint64_t data_offset(const std::string& name) const;
  uint64_t file_bytes() const { return file_bytes_; }

 private:
  struct Slot {
    uint64_t begin = 0;  // in the file
    uint64_t bytes = 0;
    uint64_t written = 0;
  };
  Slot& slot(const std::string& name);

  std::vector<std::byte> header_;
  std::map<std::string, Slot> slots_;
  uint64_t file_bytes_ = 0;
  PositionedFile file_;
};

// Groups tensors, in order, into files whose data stays within `max_file_bytes` (a larger tensor has a file of its
// own). At least one group is returned.
std::vector<std::vector<NamedTensorSpec>> group_into_files(const std::vector<NamedTensorSpec>& tensors,
                                                           uint64_t max_file_bytes);

// Writes a model as Hugging Face lays it out: model.safetensors, or model-00001-of-0000N.safetensors with
// model.safetensors.index.json when it exceeds `max_file_bytes`. The directory is created; one that already holds a
// model is refused, because an old index would hide the new files.
class SafetensorsModelWriter {
 public:
  SafetensorsModelWriter(const std::filesystem::path& directory, const std::vector<NamedTensorSpec>& tensors,
                         uint64_t max_file_bytes = uint64_t{5} << 30,
                         const SafetensorsMetadata& metadata = {{"format", "pt"}});

  void write(const std::string& name, uint64_t byte_offset, std::span<const std::byte> bytes);
  // Completes every file, then writes the index.
  void finish();

 private:
  std::filesystem::path directory_;
  std::vector<std::string> file_names_;
  std::vector<std::unique_ptr<SafetensorsWriter>> writers_;
  std::map<std::string, size_t> file_index_;
  uint64_t total_bytes_ = 0;
};

}  // namespace causeway::formats
