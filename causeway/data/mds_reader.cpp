#include "causeway/data/mds_reader.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/base/json_document.h"
#include "causeway/base/printable.h"
#include "causeway/data/text_source.h"
#include "causeway/data/utf8_checker.h"

namespace causeway::data {
namespace {

constexpr const char* kCopyHint = "Copy the shard again from its source.";
// The columns as JSON; a shard's offsets have at most 4 GiB.
constexpr uint64_t kMostDescriptionBytes = uint64_t{1} << 20;

// "zstd:9" is zstd.
std::string_view compressor(std::string_view compression) { return compression.substr(0, compression.find(':')); }

bool is_there(const std::filesystem::path& path) {
  std::error_code code;
  return std::filesystem::is_regular_file(path, code);
}

void require_size(const std::filesystem::path& path, uint64_t bytes) {
  if (const uint64_t found = std::filesystem::file_size(path); found != bytes) {
    throw Error(ErrorKind::kCorrupt,
                fmt::format("the shard is {}: it has {} bytes, and {} by its index",
                            found < bytes ? "cut short" : "not the one of the index", found, bytes),
                path.string(), kCopyHint);
  }
}

void require_text_encoding(const MdsColumn& column, const std::string& where) {
  if (column.encoding == "str" || column.encoding == "bytes" || column.encoding == "json") return;
  const std::string encoding = printable(column.encoding);
  if (column.encoding == "pkl") {
    throw Error(ErrorKind::kUnsupported,
                fmt::format("the column \"{}\" is encoded as pkl (Python's pickle), which is not decoded: a pickle is "
                            "a program",
                            printable(column.name)),
                where, "Write the dataset again with the encoding str.");
  }
  throw Error(ErrorKind::kUnsupported,
              fmt::format("the column \"{}\" is encoded as {}, which is neither text nor token ids",
                          printable(column.name), encoding),
              where, "Name a column of text (str, bytes, json) or of token ids (ndarray) with --text-key.");
}

constexpr std::string_view kArray = "ndarray";
constexpr std::pair<std::string_view, uint8_t> kDtypes[] = {
    {"uint8", 8},  {"int8", 9},     {"uint16", 16}, {"int16", 17}, {"float16", 18}, {"uint32", 32},
    {"int32", 33}, {"float32", 34}, {"uint64", 64}, {"int64", 65}, {"float64", 66}};

bool is_integer(uint8_t dtype) {
  return std::ranges::any_of(kDtypes, [&](const auto& known) { return known.second == dtype && dtype % 8 < 2; });
}

template <typename T>
T take(std::string_view& bytes) {
  T value{};
  const std::string_view taken = bytes.substr(0, sizeof value);
  std::memcpy(&value, taken.data(), taken.size());
  bytes.remove_prefix(taken.size());
  return value;
}

// An integer of so many bits, as its two's complement in 64.
int64_t take_integer(std::string_view& bytes, uint8_t dtype) {
  switch (dtype) {
    case 8:
      return take<uint8_t>(bytes);
    case 9:
      return take<int8_t>(bytes);
    case 16:
      return take<uint16_t>(bytes);
    case 17:
      return take<int16_t>(bytes);
    case 32:
      return take<uint32_t>(bytes);
    case 33:
      return take<int32_t>(bytes);
    default:
      return take<int64_t>(bytes);
  }
}

}  // namespace

std::filesystem::path find_mds_file(const std::filesystem::path& directory, const MdsShard& shard) {
  const std::filesystem::path raw = directory / shard.raw.basename;
  if (is_there(raw)) {
    require_size(raw, shard.raw.bytes);
    return raw;
  }
  if (!shard.compressed || !is_there(directory / shard.compressed->basename)) {
    throw Error(ErrorKind::kNotFound, "a shard of the index is missing",
                (shard.compressed ? directory / shard.compressed->basename : raw).string(),
                "Copy the whole dataset: its index names every shard.");
  }
  const std::filesystem::path compressed = directory / shard.compressed->basename;
  if (const std::string_view by = compressor(shard.compression); by != "zstd" && by != "gz") {
    throw Error(ErrorKind::kUnsupported,
                fmt::format("the shard is compressed with {}; zstd and gz are read", printable(by)),
                compressed.string(), fmt::format("Decompress it to {} beside it.", raw.filename().string()));
  }
  require_size(compressed, shard.compressed->bytes);
  return compressed;
}

// Those hashes of the index that are computed here.
struct MdsReader::Hashes {
  explicit Hashes(const std::map<std::string, std::string>& named) {
    for (const auto& [algorithm, hash] : named) {
      if (algorithm == "xxh32" || algorithm == "xxh64" || algorithm == "xxh3_64" || algorithm == "xxh128" ||
          algorithm == "xxh3_128")
        expected[algorithm] = hash;
    }
    XXH32_reset(&xxh32, 0);
    XXH64_reset(&xxh64, 0);
    XXH3_64bits_reset(xxh3_64.get());
    XXH3_128bits_reset(xxh3_128.get());
  }

  void add(std::span<const char> bytes) {
    for (const auto& [algorithm, hash] : expected) {
      if (algorithm == "xxh32") XXH32_update(&xxh32, bytes.data(), bytes.size());
      if (algorithm == "xxh64") XXH64_update(&xxh64, bytes.data(), bytes.size());
      if (algorithm == "xxh3_64") XXH3_64bits_update(xxh3_64.get(), bytes.data(), bytes.size());
      if (algorithm == "xxh128" || algorithm == "xxh3_128")
        XXH3_128bits_update(xxh3_128.get(), bytes.data(), bytes.size());
    }
  }

  std::string found(const std::string& algorithm) const {
    if (algorithm == "xxh32") return fmt::format("{:08x}", XXH32_digest(&xxh32));
    if (algorithm == "xxh64") return fmt::format("{:016x}", XXH64_digest(&xxh64));
    if (algorithm == "xxh3_64") return fmt::format("{:016x}", XXH3_64bits_digest(xxh3_64.get()));
    const XXH128_hash_t hash = XXH3_128bits_digest(xxh3_128.get());
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  }

  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::map<std::string, std::string> expected;
  XXH32_state_t xxh32;
  XXH64_state_t xxh64;
  std::unique_ptr<XXH3_state_t, Free> xxh3_64{XXH3_createState()}, xxh3_128{XXH3_createState()};
};

MdsReader::MdsReader(const std::filesystem::path& file, MdsShard shard, const std::string& column, std::stop_token stop)
    : shard_(std::move(shard)),
      column_(shard_.column(column, file.string())),
      // A shard as it is may begin as a compressed file does: with the number of its samples.
      stream_(file, stop,
              shard_.compressed && file.filename() == std::filesystem::path(shard_.compressed->basename).filename()
                  ? InputStream::Decompress::kAsNeeded
                  : InputStream::Decompress::kNever),
      stop_(std::move(stop)),
      hashes_(std::make_unique<Hashes>(shard_.raw.hashes)) {
  const std::string& encoding = shard_.columns[column_].encoding;
  if (encoding == kArray || encoding.starts_with("ndarray:")) {
    array_ = array_encoding(shard_.columns[column_], stream_.name());
  } else {
    require_text_encoding(shard_.columns[column_], stream_.name());
  }
  read_beginning();
}

MdsReader::~MdsReader() = default;

MdsReader::ArrayEncoding MdsReader::array_encoding(const MdsColumn& column, const std::string& where) {
  const auto fail = [&] {
    throw Error(ErrorKind::kUnsupported,
                fmt::format("the column \"{}\" is encoded as {}, which holds no token ids", printable(column.name),
                            printable(column.encoding)),
                where, "Token ids are arrays of integers: ndarray:int32, for example.");
  };
  ArrayEncoding encoding;
  std::string_view rest = column.encoding;
  rest.remove_prefix(std::min(rest.size(), kArray.size() + 1));
  if (rest.empty()) return encoding;
  const std::string_view name = rest.substr(0, rest.find(':'));
  const auto known = std::ranges::find(kDtypes, name, &std::pair<std::string_view, uint8_t>::first);
  if (known == std::end(kDtypes) || !is_integer(known->second)) fail();
  encoding.dtype = known->second;
  rest.remove_prefix(name.size());
  while (!rest.empty()) {
    rest.remove_prefix(1);
    uint64_t size = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), size);
    if (error != std::errc() || size == 0) fail();
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    if (!rest.empty() && rest.front() != ',') fail();
    encoding.shape.push_back(size);
  }
  return encoding;
}

bool MdsReader::is_unverified() const { return hashes_->expected.empty() && !shard_.raw.hashes.empty(); }

void MdsReader::fail(const std::string& what) const {
  throw Error(ErrorKind::kCorrupt, what, stream_.name(), kCopyHint);
}

// False when `stop` was requested.
bool MdsReader::read_exactly(std::span<char> bytes) {
  const size_t count = stream_.read(bytes);
  if (stop_.stop_requested()) return false;
  if (count < bytes.size()) fail(fmt::format("the shard is cut short: it ends at byte {}", position_ + count));
  position_ += count;
  hashes_->add(bytes);
  return true;
}

void MdsReader::read_beginning() {
  uint32_t samples = 0;
  if (!read_exactly(std::span(reinterpret_cast<char*>(&samples), sizeof samples))) return;
  if (samples != shard_.samples)
    fail(fmt::format("the shard has {} samples, and {} by its index", samples, shard_.samples));
  const uint64_t table_end = sizeof samples + (uint64_t{samples} + 1) * sizeof(uint32_t);
  if (table_end > shard_.raw.bytes) fail("the shard's table of samples is longer than the shard");
  offsets_.resize(size_t{samples} + 1);
  if (!read_exactly(std::span(reinterpret_cast<char*>(offsets_.data()), offsets_.size() * sizeof(uint32_t)))) return;
  uint64_t before = table_end;
  for (const uint32_t offset : offsets_) {
    if (offset < before) fail("the shard's samples overlap by its table");
    before = offset;
  }
  if (before != shard_.raw.bytes)
    fail(fmt::format("the shard's samples end at byte {}, and its index says {}", before, shard_.raw.bytes));
  if (offsets_.front() - table_end > kMostDescriptionBytes) fail("the shard's description is no description");
  std::string description(offsets_.front() - table_end, '\0');
  if (!read_exactly(description)) return;
  if (parse_mds_columns(description, stream_.name()) != shard_.columns)
    fail("the shard has other columns than its index says");
}

std::optional<std::span<const std::string_view>> MdsReader::next() {
  if (stop_.stop_requested()) return std::nullopt;
  if (next_sample_ == shard_.samples) {
    check_end();
    return std::nullopt;
  }
  const uint64_t size = offsets_[next_sample_ + 1] - offsets_[next_sample_];
  ++next_sample_;
  const auto of_sample = [&](std::string_view what) { return fmt::format("{} (sample {})", what, next_sample_); };
  if (size > kMostBytesAtOnce) {
    throw Error(ErrorKind::kUnsupported, of_sample(fmt::format("a sample has {} bytes", size)), stream_.name(),
                fmt::format("At most {} are read: split the documents.", kMostBytesAtOnce));
  }
  sample_.resize(size);
  if (!read_exactly(sample_)) return std::nullopt;
  std::string_view sizes = sample_;
  uint64_t begin = 0;
  for (const MdsColumn& column : shard_.columns) begin += column.size ? 0 : sizeof(uint32_t);
  values_.clear();
  for (const MdsColumn& column : shard_.columns) {
    uint64_t bytes = column.size.value_or(0);
    if (!column.size) {
      uint32_t stored = 0;
      if (sizes.size() < sizeof stored) fail(of_sample("a sample is shorter than the sizes of its columns"));
      std::memcpy(&stored, sizes.data(), sizeof stored);
      sizes.remove_prefix(sizeof stored);
      bytes = stored;
    }
    if (begin > size || bytes > size - begin) fail(of_sample("a sample's columns are longer than the sample"));
    values_.push_back(std::string_view(sample_).substr(begin, bytes));
    begin += bytes;
  }
  if (begin != size) fail(of_sample("a sample is longer than its columns"));
  return values_;
}

void MdsReader::check_end() {
  char more = 0;
  if (stream_.read(std::span(&more, 1)) > 0) fail(fmt::format("the shard goes on after its {} bytes", position_));
  if (stop_.stop_requested()) return;
  for (const auto& [algorithm, expected] : hashes_->expected) {
    if (const std::string found = hashes_->found(algorithm); found != expected)
      fail(fmt::format("the shard is damaged: its {} is {}, and {} by its index", algorithm, found,
                       printable(expected)));
  }
}

bool MdsReader::next_tokens(std::vector<int32_t>& ids) {
  const std::optional<std::span<const std::string_view>> values = next();
  if (!values) return false;
  std::string_view bytes = (*values)[column_];
  const auto damaged = [&] { fail(fmt::format("an array does not fit its bytes (sample {})", next_sample_)); };
  ArrayEncoding encoding = *array_;
  if (!encoding.dtype) {
    if (bytes.empty()) damaged();
    encoding.dtype = take<uint8_t>(bytes);
    if (!is_integer(*encoding.dtype)) {
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("an array holds no integers (its dtype is {})", *encoding.dtype),
                  fmt::format("{}, sample {}", stream_.name(), next_sample_), "Name the column of token ids.");
    }
  }
  const size_t width = *encoding.dtype / 8;
  if (encoding.shape.empty()) {
    if (bytes.empty()) damaged();
    const auto form = take<uint8_t>(bytes);
    const size_t dims = form >> 2, dim_bytes = size_t{1} << (form & 3);
    if (bytes.size() < dims * dim_bytes) damaged();
    for (size_t i = 0; i < dims; ++i)
      encoding.shape.push_back(static_cast<uint64_t>(take_integer(bytes, static_cast<uint8_t>(8 * dim_bytes))));
  }
  uint64_t count = 1;
  for (const uint64_t size : encoding.shape) {
    if (size > bytes.size()) damaged();  // and the product stays small
    count = std::min<uint64_t>(count * size, bytes.size() + 1);
  }
  if (count * width != bytes.size()) damaged();
  while (!bytes.empty()) {
    const int64_t id = take_integer(bytes, *encoding.dtype);
    if (id < 0 || id > std::numeric_limits<int32_t>::max()) {
      throw Error(ErrorKind::kInvalidArgument, fmt::format("{} is no token id", id),
                  fmt::format("{}, sample {}", stream_.name(), next_sample_), "Name the column of token ids.");
    }
    ids.push_back(static_cast<int32_t>(id));
  }
  return true;
}

std::optional<std::string> MdsReader::next_text() {
  const std::optional<std::span<const std::string_view>> values = next();
  if (!values) return std::nullopt;
  const std::string_view bytes = (*values)[column_];
  const std::string where = fmt::format("{}, sample {}", stream_.name(), next_sample_);
  const MdsColumn& column = shard_.columns[column_];
  if (column.encoding == "json") {
    const nlohmann::json json = parse_json(bytes, {.name = "the column", .where = where, .is_one_line = true});
    if (!json.is_string()) {
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("\"{}\" is a JSON {}, not a string", printable(column.name), json.type_name()), where,
                  "Name the column that holds the text.");
    }
    return json.get<std::string>();
  }
  Utf8Checker checker;
  if (checker.add(bytes) < bytes.size() || !checker.is_complete())
    throw Error(ErrorKind::kInvalidArgument, fmt::format("\"{}\" is not UTF-8", printable(column.name)), where,
                "Name the column that holds the text.");
  return std::string(bytes);
}

}  // namespace causeway::data
