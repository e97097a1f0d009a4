#include "causeway/formats/mds_shard.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/base/printable.h"

namespace causeway::formats {
namespace {

constexpr const char* kCopyShardHint = "Copy the shard again from its source.";
constexpr const char* kPrepareTextHint =
    "Text is prepared first: causeway data prepare DIRECTORY --output DATASET --text-key COLUMN. A column of token ids "
    "(ndarray, bytes) is named with data.column.";
constexpr const char* kColumnHint =
    "Say which column has the token ids: --text-key of causeway data prepare, --column of causeway data inspect, "
    "data.column of a recipe.";
// The columns as JSON; a shard's offsets have at most 4 GiB.
constexpr uint64_t kMostDescriptionBytes = uint64_t{1} << 20;

constexpr std::string_view kArray = "ndarray";
constexpr std::pair<std::string_view, uint8_t> kDtypes[] = {
    {"uint8", 8},  {"int8", 9},     {"uint16", 16}, {"int16", 17}, {"float16", 18}, {"uint32", 32},
    {"int32", 33}, {"float32", 34}, {"uint64", 64}, {"int64", 65}, {"float64", 66}};

bool is_integer(uint8_t dtype) {
  return std::ranges::any_of(kDtypes, [&](const auto& known) { return known.second == dtype && dtype % 8 < 2; });
}

[[noreturn]] void refuse_shard(const std::string& what, const std::string& where) {
  throw Error(ErrorKind::kCorrupt, what, where, kCopyShardHint);
}

[[noreturn]] void refuse_shard(const std::string& what, const MdsPlace& place) {
  refuse_shard(fmt::format("{} (sample {})", what, place.number), place.where);
}

template <typename T>
T value_at(const char* bytes) {
  T value{};
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

// An unsigned integer of 1, 2, 4 or 8 bytes.
uint64_t size_at(std::string_view bytes, size_t position, size_t width) {
  uint64_t value = 0;
  std::memcpy(&value, bytes.data() + position, width);
  return value;
}

template <typename T>
void decode(std::string_view bytes, std::span<int32_t> ids, const MdsPlace& place) {
  for (size_t i = 0; i < ids.size(); ++i) {
    const T id = value_at<T>(bytes.data() + i * sizeof(T));
    if (!std::in_range<int32_t>(id) || id < T{0}) {
      throw Error(ErrorKind::kInvalidArgument, fmt::format("{} is no token id", id),
                  fmt::format("{}, sample {}", place.where, place.number), kColumnHint);
    }
    ids[i] = static_cast<int32_t>(id);
  }
}

}  // namespace

std::optional<std::vector<uint32_t>> read_mds_offsets(const MdsShard& shard, const std::string& where,
                                                      const std::function<bool(std::span<char>)>& read) {
  uint32_t samples = 0;
  if (!read(std::span(reinterpret_cast<char*>(&samples), sizeof samples))) return std::nullopt;
  if (samples != shard.samples)
    refuse_shard(fmt::format("the shard has {} samples, and {} by its index", samples, shard.samples), where);
  const uint64_t table_end = sizeof samples + (uint64_t{samples} + 1) * sizeof(uint32_t);
  if (table_end > shard.raw.bytes) refuse_shard("the shard's table of samples is longer than the shard", where);
  std::vector<uint32_t> offsets(size_t{samples} + 1);
  if (!read(std::span(reinterpret_cast<char*>(offsets.data()), offsets.size() * sizeof(uint32_t)))) return std::nullopt;
  uint64_t before = table_end;
  for (const uint32_t offset : offsets) {
    if (offset < before) refuse_shard("the shard's samples overlap by its table", where);
    before = offset;
  }
  if (before != shard.raw.bytes)
    refuse_shard(fmt::format("the shard's samples end at byte {}, and its index says {}", before, shard.raw.bytes),
                 where);
  if (offsets.front() - table_end > kMostDescriptionBytes)
    refuse_shard("the shard's description is no description", where);
  std::string description(offsets.front() - table_end, '\0');
  if (!read(description)) return std::nullopt;
  if (parse_mds_columns(description, where) != shard.columns)
    refuse_shard("the shard has other columns than its index says", where);
  return offsets;
}

uint64_t mds_sizes_bytes(const MdsShard& shard) {
  return sizeof(uint32_t) * static_cast<uint64_t>(std::ranges::count_if(
                                shard.columns, [](const MdsColumn& column) { return !column.size.has_value(); }));
}

void find_mds_columns(const MdsShard& shard, std::string_view head, uint64_t size, const MdsPlace& place,
                      std::vector<MdsSpan>& columns) {
  uint64_t begin = mds_sizes_bytes(shard);
  if (head.size() < begin) refuse_shard("a sample is shorter than the sizes of its columns", place);
  columns.clear();
  for (const MdsColumn& column : shard.columns) {
    uint64_t bytes = column.size.value_or(0);
    if (!column.size) {
      bytes = value_at<uint32_t>(head.data());
      head.remove_prefix(sizeof(uint32_t));
    }
    if (begin > size || bytes > size - begin) refuse_shard("a sample's columns are longer than the sample", place);
    columns.push_back({begin, bytes});
    begin += bytes;
  }
  if (begin != size) refuse_shard("a sample is longer than its columns", place);
}

bool is_mds_array(const MdsColumn& column) {
  return column.encoding == kArray || column.encoding.starts_with("ndarray:");
}

MdsArrayEncoding parse_mds_array_encoding(const MdsColumn& column, const std::string& where) {
  const auto refuse = [&] {
    throw Error(ErrorKind::kUnsupported,
                fmt::format("the column \"{}\" is encoded as {}, which holds no token ids", printable(column.name),
                            printable(column.encoding)),
                where, "Token ids are arrays of integers: ndarray:int32, for example.");
  };
  MdsArrayEncoding encoding;
  std::string_view rest = column.encoding;
  rest.remove_prefix(std::min(rest.size(), kArray.size() + 1));
  if (rest.empty()) return encoding;
  const std::string_view name = rest.substr(0, rest.find(':'));
  const auto known = std::ranges::find(kDtypes, name, &std::pair<std::string_view, uint8_t>::first);
  if (known == std::end(kDtypes) || !is_integer(known->second)) refuse();
  encoding.dtype = known->second;
  rest.remove_prefix(name.size());
  while (!rest.empty()) {
    rest.remove_prefix(1);
    uint64_t size = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), size);
    if (error != std::errc() || size == 0) refuse();
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    if (!rest.empty() && rest.front() != ',') refuse();
    encoding.shape.push_back(size);
  }
  return encoding;
}

size_t mds_token_column(const MdsShard& shard, const std::string& name, const std::string& where) {
  try {
    return shard.column(name, where);
  } catch (const Error& error) {
    throw Error(error.kind(), error.message(), error.where(), fmt::format("{} {}", error.hint(), kPrepareTextHint));
  }
}

MdsArrayEncoding mds_token_encoding(const MdsColumn& column, int token_bytes, const std::string& where) {
  if (is_mds_array(column)) return parse_mds_array_encoding(column, where);
  const std::string name = printable(column.name), encoding = printable(column.encoding);
  if (column.encoding != "bytes") {
    throw Error(ErrorKind::kUnsupported,
                fmt::format("the column \"{}\" is encoded as {}, which holds no token ids", name, encoding), where,
                kPrepareTextHint);
  }
  if (token_bytes == 0) {
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("the column \"{}\" holds bytes, and nothing says how wide the ids in them are", name),
                where,
                "Say it with data.token_bytes: 8 for what LLM Foundry's older scripts wrote (int64). Or prepare the "
                "dataset, if it is text: causeway data prepare.");
  }
  MdsArrayEncoding bare;
  bare.dtype = static_cast<uint8_t>(8 * token_bytes);
  bare.is_bare = true;
  return bare;
}

MdsArray find_mds_array(const MdsArrayEncoding& encoding, std::string_view head, uint64_t bytes,
                        const MdsPlace& place) {
  const auto damaged = [&] { refuse_shard("an array does not fit its bytes", place); };
  MdsArray array;
  if (encoding.dtype) {
    array.dtype = *encoding.dtype;
  } else {
    if (head.empty()) damaged();
    array.dtype = static_cast<uint8_t>(head[array.begin++]);
    if (!is_integer(array.dtype)) {
      throw Error(ErrorKind::kInvalidArgument, fmt::format("an array holds no integers (its dtype is {})", array.dtype),
                  fmt::format("{}, sample {}", place.where, place.number), kColumnHint);
    }
  }
  if (encoding.is_bare) {
    array.count = bytes / array.width();
    if (bytes % array.width() != 0) damaged();
    return array;
  }
  std::vector<uint64_t> shape = encoding.shape;
  if (shape.empty()) {
    if (head.size() <= array.begin) damaged();
    const auto form = static_cast<uint8_t>(head[array.begin++]);
    const size_t dims = form >> 2, dim_bytes = size_t{1} << (form & 3);
    if (head.size() - array.begin < dims * dim_bytes) damaged();
    for (size_t i = 0; i < dims; ++i, array.begin += dim_bytes) shape.push_back(size_at(head, array.begin, dim_bytes));
  }
  const uint64_t left = bytes - array.begin;
  array.count = 1;
  for (const uint64_t size : shape) {
    if (size > left) damaged();  // and the product stays small
    array.count = std::min<uint64_t>(array.count * size, left + 1);
  }
  if (array.count * array.width() != left) damaged();
  return array;
}

void decode_mds_tokens(uint8_t dtype, std::string_view bytes, std::span<int32_t> ids, const MdsPlace& place) {
  CAUSEWAY_CHECK(bytes.size() == ids.size() * (dtype / 8));
  switch (dtype) {
    case 8:
      return decode<uint8_t>(bytes, ids, place);
    case 9:
      return decode<int8_t>(bytes, ids, place);
    case 16:
      return decode<uint16_t>(bytes, ids, place);
    case 17:
      return decode<int16_t>(bytes, ids, place);
    case 32:
      return decode<uint32_t>(bytes, ids, place);
    case 33:
      return decode<int32_t>(bytes, ids, place);
    case 64:
      return decode<uint64_t>(bytes, ids, place);
    default:
      return decode<int64_t>(bytes, ids, place);
  }
}

}  // namespace causeway::formats
