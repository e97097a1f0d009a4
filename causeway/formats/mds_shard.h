// What is within a shard of an MDS dataset (mds_index.h): where its samples and their columns are, and the arrays of
// token ids that a column may hold.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/formats/mds_index.h"

namespace causeway::formats {

// Of sample `number`, from 1, of the file `where`, for messages.
struct MdsPlace {
  std::string where;
  uint64_t number = 0;
};

// Where each sample begins in the shard, and where the last one ends. `read` gives the next bytes of the shard from its
// beginning on, all that are asked for, and false where the reading was given up: nothing is returned then. Throws
// Error(kCorrupt) naming `where` when it is not the beginning of the shard that the index describes.
std::optional<std::vector<uint32_t>> read_mds_offsets(const MdsShard& shard, const std::string& where,
                                                      const std::function<bool(std::span<char>)>& read);

// Bytes of the sizes that a sample begins with.
uint64_t mds_sizes_bytes(const MdsShard& shard);

struct MdsSpan {
  uint64_t begin = 0;  // in the sample
  uint64_t bytes = 0;
};
// Where each column is in a sample of `size` bytes that begins with `head`, mds_sizes_bytes() of them or all. Throws
// Error(kCorrupt) naming the place when they do not fit.
void find_mds_columns(const MdsShard& shard, std::string_view head, uint64_t size, const MdsPlace& place,
                      std::vector<MdsSpan>& columns);

// How arrays of token ids are encoded: "ndarray[:dtype[:shape]]"; what the encoding does not say is in every value.
struct MdsArrayEncoding {
  std::optional<uint8_t> dtype;  // as a byte has it: bits, and 1 more for signed, 2 more for floating-point numbers
  std::vector<uint64_t> shape;
  bool is_bare = false;  // no more than the numbers: a column of bytes whose width is known otherwise
};
// Whether a column is an ndarray. One of other numbers than integers is for parse_mds_array_encoding() to refuse.
bool is_mds_array(const MdsColumn& column);
// Throws Error(kUnsupported) naming `where` for arrays that hold no integers.
MdsArrayEncoding parse_mds_array_encoding(const MdsColumn& column, const std::string& where);

// How a column holds token ids that are read in place: as arrays, or as bytes, of which `token_bytes` says how wide
// each id is (1, 2, 4 or 8; unsigned). Throws Error(kUnsupported) naming `where` for other columns, kInvalidArgument
// for bytes of no known width and for arrays whose ids have another.
MdsArrayEncoding mds_token_encoding(const MdsColumn& column, int token_bytes, const std::string& where);

// The column of that name, as MdsShard::column() finds it, with what to do about text in its hint.
size_t mds_token_column(const MdsShard& shard, const std::string& name, const std::string& where);

// The numbers of one value.
struct MdsArray {
  uint8_t dtype = 0;
  uint64_t begin = 0;  // in the value, in bytes
  uint64_t count = 0;
  uint64_t width() const { return dtype / 8; }
};
// The most bytes before an array's numbers: its dtype, and its shape of up to 63 dimensions.
constexpr size_t kMdsArrayHeadBytes = 2 + 63 * 8;
// Of a value of `bytes` bytes that begins with `head`, kMdsArrayHeadBytes of them or all. Throws Error naming
// the place: kCorrupt for what is no such array, kInvalidArgument for one of other numbers than integers.
MdsArray find_mds_array(const MdsArrayEncoding& encoding, std::string_view head, uint64_t bytes, const MdsPlace& place);

// The numbers as token ids. Throws Error(kInvalidArgument) naming the place for one that is negative or beyond 2^31
// - 1.
void decode_mds_tokens(uint8_t dtype, std::string_view bytes, std::span<int32_t> ids, const MdsPlace& place);

}  // namespace causeway::formats
