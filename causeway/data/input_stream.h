// The bytes of an input, from front to back and once: of a file, a FIFO or standard input, decompressed where they are
// gzip or zstd, which their first bytes tell. Memory is bounded by the window of the compression: 32 KiB of gzip, of
// zstd what it was compressed with (8 MiB and less unless --long was said) and at most 2 GiB, as far as there is text
// to fill it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <stop_token>
#include <string>

#include "causeway/base/hash.h"
#include "causeway/formats/file_format.h"

namespace causeway::data {

// The input that is standard input.
inline const std::filesystem::path kStandardInput = "-";

class InputStream {
 public:
  // As its first bytes tell, or as it is.
  enum class Decompress { kAsNeeded, kNever };
  // Throws Error(kNotFound, kIo) naming the path.
  explicit InputStream(const std::filesystem::path& path, std::stop_token stop = {},
                       Decompress decompress = Decompress::kAsNeeded);
  InputStream(const InputStream&) = delete;
  InputStream& operator=(const InputStream&) = delete;
  ~InputStream();

  // As a message names it: the path, or "standard input".
  const std::string& name() const { return name_; }
  Compression compression() const { return compression_; }
  // Fills `buffer` as far as there are bytes; less than its size only at the end, and when `stop` was requested. Throws
  // Error naming the input: kIo when it cannot be read, kCorrupt when what is compressed is damaged or cut short.
  size_t read(std::span<char> buffer);

  // Of the bytes as they are stored, before decompression: how many have been read, and their hash.
  uint64_t stored_bytes() const { return stored_bytes_; }
  Hash128 stored_hash() const;

  struct Decoder;

 private:
  void fill();

  std::string name_;
  int descriptor_ = -1;
  bool may_wait_ = false;
  bool ended_ = false;
  std::stop_token stop_;
  Compression compression_ = Compression::kNone;
  std::unique_ptr<Decoder> decoder_;
  std::string stored_;
  size_t position_ = 0;
  uint64_t stored_bytes_ = 0;
};

}  // namespace causeway::data
