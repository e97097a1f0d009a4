#include "causeway/data/mds_reader.h"

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
constexpr const char* kTextColumnHint = "Say with --text-key COLUMN which column holds the text.";

// "zstd:9" is zstd.
std::string_view compressor(std::string_view compression) { return compression.substr(0, compression.find(':')); }

bool is_file_there(const std::filesystem::path& path) {
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

size_t find_column(const MdsShard& shard, const std::string& name, const std::string& where) {
  try {
    return shard.column(name, where);
  } catch (const Error& error) {
    throw Error(error.kind(), error.message(), error.where(), fmt::format("{} {}", error.hint(), kTextColumnHint));
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

}  // namespace

std::filesystem::path find_mds_file(const std::filesystem::path& directory, const MdsShard& shard) {
  const std::filesystem::path raw = directory / shard.raw.basename;
  if (is_file_there(raw)) {
    require_size(raw, shard.raw.bytes);
    return raw;
  }
  if (!shard.compressed || !is_file_there(directory / shard.compressed->basename)) {
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

MdsReader::MdsReader(const std::filesystem::path& file, MdsShard shard, const std::string& column, std::stop_token stop)
    : shard_(std::move(shard)),
      column_(find_column(shard_, column, file.string())),
      // A shard as it is may begin as a compressed file does: with the number of its samples.
      stream_(file, stop,
              shard_.compressed && file.filename() == std::filesystem::path(shard_.compressed->basename).filename()
                  ? InputStream::Decompress::kAsNeeded
                  : InputStream::Decompress::kNever),
      stop_(std::move(stop)),
      hashes_(shard_.raw.hashes) {
  if (is_mds_array(shard_.columns[column_])) {
    array_ = parse_mds_array_encoding(shard_.columns[column_], stream_.name());
  } else {
    require_text_encoding(shard_.columns[column_], stream_.name());
  }
  if (auto offsets =
          read_mds_offsets(shard_, stream_.name(), [this](std::span<char> bytes) { return read_exactly(bytes); }))
    offsets_ = std::move(*offsets);
}

void MdsReader::fail(const std::string& what) const {
  throw Error(ErrorKind::kCorrupt, what, stream_.name(), kCopyHint);
}

// False when `stop` was requested.
bool MdsReader::read_exactly(std::span<char> bytes) {
  const size_t count = stream_.read(bytes);
  if (stop_.stop_requested()) return false;
  if (count < bytes.size()) fail(fmt::format("the shard is cut short: it ends at byte {}", position_ + count));
  position_ += count;
  hashes_.add(bytes);
  return true;
}

std::optional<std::span<const std::string_view>> MdsReader::next() {
  if (stop_.stop_requested()) return std::nullopt;
  if (next_sample_ == shard_.samples) {
    check_end();
    return std::nullopt;
  }
  const uint64_t size = offsets_[next_sample_ + 1] - offsets_[next_sample_];
  ++next_sample_;
  if (size > kMostBytesAtOnce) {
    throw Error(ErrorKind::kUnsupported, fmt::format("a sample has {} bytes (sample {})", size, next_sample_),
                stream_.name(), fmt::format("At most {} are read: split the documents.", kMostBytesAtOnce));
  }
  sample_.resize(size);
  if (!read_exactly(sample_)) return std::nullopt;
  find_mds_columns(shard_, sample_, size, place(), spans_);
  values_.clear();
  for (const MdsSpan& span : spans_) values_.push_back(std::string_view(sample_).substr(span.begin, span.bytes));
  return values_;
}

void MdsReader::check_end() {
  char more = 0;
  if (stream_.read(std::span(&more, 1)) > 0) fail(fmt::format("the shard goes on after its {} bytes", position_));
  if (stop_.stop_requested()) return;
  hashes_.require(stream_.name());
}

bool MdsReader::next_tokens(std::vector<int32_t>& ids) {
  const std::optional<std::span<const std::string_view>> values = next();
  if (!values) return false;
  const std::string_view bytes = (*values)[column_];
  const MdsArray array = find_mds_array(*array_, bytes, bytes.size(), place());
  const size_t before = ids.size();
  ids.resize(before + array.count);
  decode_mds_tokens(array.dtype, bytes.substr(array.begin), std::span(ids).subspan(before), place());
  return true;
}

std::optional<std::string> MdsReader::next_text() {
  const std::optional<std::span<const std::string_view>> values = next();
  if (!values) return std::nullopt;
  const std::string_view bytes = (*values)[column_];
  const std::string where = fmt::format("{}, sample {}", stream_.name(), next_sample_);
  const MdsColumn& column = shard_.columns[column_];
  if (column.encoding == "json") {
    const nlohmann::json json = parse_json(bytes, {.name = "the column",
                                                   .where = where,
                                                   .hint = kTextColumnHint,
                                                   .kind = ErrorKind::kInvalidArgument,
                                                   .is_one_line = true});
    if (!json.is_string()) {
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("\"{}\" is a JSON {}, not a string", printable(column.name), json.type_name()), where,
                  kTextColumnHint);
    }
    return json.get<std::string>();
  }
  Utf8Checker checker;
  if (checker.add(bytes) < bytes.size() || !checker.is_complete())
    throw Error(ErrorKind::kInvalidArgument, fmt::format("\"{}\" is not UTF-8", printable(column.name)), where,
                kTextColumnHint);
  return std::string(bytes);
}

}  // namespace causeway::data
