// The samples of one shard of an MDS dataset (mds_index.h), from front to back, with what its index says of it checked:
// size, number of samples, columns and hashes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/data/input_stream.h"
#include "causeway/formats/mds_hashes.h"
#include "causeway/formats/mds_index.h"
#include "causeway/formats/mds_shard.h"

namespace causeway::data {

// The shard's file that is there: as it is, or compressed. Throws Error naming it: kNotFound where neither is there,
// kCorrupt where its size is not what the index says, kUnsupported where it is there compressed by another program than
// zstd or gzip.
std::filesystem::path find_mds_file(const std::filesystem::path& directory, const MdsShard& shard);

class MdsReader {
 public:
  // `file`: find_mds_file(). `column`: what next_text() gives. Throws Error naming the file: kCorrupt where its
  // beginning is not that of the shard that the index describes, kInvalidArgument where it lacks the column,
  // kUnsupported where that is encoded as something that holds no text ("pkl" is never decoded).
  MdsReader(const std::filesystem::path& file, MdsShard shard, const std::string& column, std::stop_token stop = {});
  MdsReader(const MdsReader&) = delete;
  MdsReader& operator=(const MdsReader&) = delete;

  const InputStream& stream() const { return stream_; }
  uint64_t samples_read() const { return next_sample_; }

  // The bytes of each column of the next sample, valid until the next call; nothing at the end, and when `stop` was
  // requested. Throws Error(kCorrupt) naming file and sample; at the end also where a hash is not the index's.
  std::optional<std::span<const std::string_view>> next();
  // Whether the column holds token ids: arrays of integers (ndarray), and no text.
  bool holds_tokens() const { return array_.has_value(); }
  // The text of the next sample's column; nothing at the end. Throws Error(kInvalidArgument) naming file and sample for
  // one that is no text: reading goes on behind it.
  std::optional<std::string> next_text();
  // Appends the ids of the next sample's column; false at the end. Throws Error(kCorrupt) naming file and sample for
  // what is no such array, kInvalidArgument for one of other numbers than ids of up to 31 bits.
  bool next_tokens(std::vector<int32_t>& ids);

  // Whether the index has hashes of the shard, and none of a kind that is computed here (MdsHashes).
  bool is_unverified() const { return hashes_.is_unverified(); }

 private:
  bool read_exactly(std::span<char> bytes);
  void check_end();
  // Of the sample that was read last.
  MdsPlace place() const { return {stream_.name(), next_sample_}; }
  [[noreturn]] void fail(const std::string& what) const;

  MdsShard shard_;
  size_t column_;
  std::optional<MdsArrayEncoding> array_;
  InputStream stream_;
  std::stop_token stop_;
  MdsHashes hashes_;
  uint64_t position_ = 0;  // in the shard as it is uncompressed
  std::vector<uint32_t> offsets_;
  uint64_t next_sample_ = 0;
  std::string sample_;
  std::vector<MdsSpan> spans_;
  std::vector<std::string_view> values_;
};

}  // namespace causeway::data
