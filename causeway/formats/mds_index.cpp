#include "causeway/formats/mds_index.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/base/json_document.h"
#include "causeway/base/printable.h"

namespace causeway::formats {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMdsVersion = 2;
constexpr const char* kCopyDatasetHint = "Copy the dataset again from its source.";

[[noreturn]] void refuse_index(const std::string& what, const std::string& where) {
  throw Error(ErrorKind::kCorrupt, what, where, kCopyDatasetHint);
}

const Json& at(const Json& json, const char* key, const std::string& where) {
  if (!json.is_object()) refuse_index("what describes a shard is not a JSON object", where);
  const auto found = json.find(key);
  if (found == json.end()) refuse_index(fmt::format("a shard's description has no \"{}\"", key), where);
  return *found;
}

std::string text_at(const Json& json, const char* key, const std::string& where) {
  const Json& value = at(json, key, where);
  if (!value.is_string()) refuse_index(fmt::format("\"{}\" of a shard is not a string", key), where);
  return value.get<std::string>();
}

uint64_t count_of(const Json& value, const char* name, const std::string& where) {
  if (!value.is_number_unsigned()) refuse_index(fmt::format("\"{}\" of a shard is not a whole number", name), where);
  return value.get<uint64_t>();
}

const Json& list_at(const Json& json, const char* key, const std::string& where) {
  const Json& value = at(json, key, where);
  if (!value.is_array()) refuse_index(fmt::format("\"{}\" of a shard is not a list", key), where);
  return value;
}

std::vector<MdsColumn> columns_of(const Json& json, const std::string& where) {
  const Json& names = list_at(json, "column_names", where);
  const Json& encodings = list_at(json, "column_encodings", where);
  const Json& sizes = list_at(json, "column_sizes", where);
  if (names.size() != encodings.size() || names.size() != sizes.size() || names.empty())
    refuse_index("the names, encodings and sizes of a shard's columns are not equally many", where);
  std::vector<MdsColumn> columns;
  for (size_t i = 0; i < names.size(); ++i) {
    if (!names[i].is_string() || !encodings[i].is_string())
      refuse_index("a name or encoding of a shard's columns is not a string", where);
    MdsColumn column{names[i].get<std::string>(), encodings[i].get<std::string>(), std::nullopt};
    // The package takes a size of 0 for none.
    if (!sizes[i].is_null() && sizes[i] != 0) column.size = count_of(sizes[i], "column_sizes", where);
    if (column.size && *column.size > std::numeric_limits<uint32_t>::max())
      refuse_index(fmt::format("a column's size is {} bytes", *column.size), where);
    columns.push_back(std::move(column));
  }
  return columns;
}

MdsFile file_of(const Json& json, const std::string& where) {
  MdsFile file{text_at(json, "basename", where), count_of(at(json, "bytes", where), "bytes", where), {}};
  const std::filesystem::path path(file.basename);
  bool leaves = path.is_absolute() || !path.has_filename() || file.basename.find('\0') != std::string::npos;
  for (const std::filesystem::path& part : path) leaves = leaves || part == "..";
  if (leaves)
    refuse_index(fmt::format("the shard \"{}\" is not a file in the directory", printable(file.basename)), where);
  const Json& hashes = at(json, "hashes", where);
  if (!hashes.is_object()) refuse_index("\"hashes\" of a shard is not a JSON object", where);
  for (const auto& [algorithm, hash] : hashes.items()) {
    if (!hash.is_string())
      refuse_index(fmt::format("the hash \"{}\" of a shard is not a string", printable(algorithm)), where);
    file.hashes[algorithm] = hash.get<std::string>();
  }
  return file;
}

void check_format(const Json& json, const std::string& where) {
  const Json& version = at(json, "version", where);
  if (version != kMdsVersion) {
    throw Error(ErrorKind::kUnsupported,
                fmt::format("a shard has MDS version {}; version {} is read", version.dump(), kMdsVersion), where,
                "Write the dataset again with a current mosaicml-streaming.");
  }
  if (const std::string format = text_at(json, "format", where); format != "mds") {
    throw Error(ErrorKind::kUnsupported, fmt::format("the shards are of the format \"{}\", not mds", printable(format)),
                where, "Of streaming datasets, MDS alone is read; JSON Lines are read without their index.");
  }
}

MdsShard shard_of(const Json& json, const std::string& where) {
  check_format(json, where);
  MdsShard shard;
  shard.columns = columns_of(json, where);
  shard.samples = count_of(at(json, "samples", where), "samples", where);
  shard.raw = file_of(at(json, "raw_data", where), where);
  if (const Json& compressed = at(json, "zip_data", where); !compressed.is_null()) {
    shard.compressed = file_of(compressed, where);
    shard.compression = text_at(json, "compression", where);
  }
  return shard;
}

}  // namespace

size_t MdsShard::column(const std::string& name, const std::string& where) const {
  std::vector<std::string> names;
  std::string text;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].name == name) return i;
    names.push_back(columns[i].name);
    text += fmt::format("{}\"{}\" ({})", text.empty() ? "" : ", ", printable(columns[i].name),
                        printable(columns[i].encoding));
  }
  const std::string nearest = nearest_name(name, names);
  throw Error(ErrorKind::kInvalidArgument, fmt::format("the samples have no column \"{}\"", name), where,
              nearest.empty() ? fmt::format("They have: {}.", text)
                              : fmt::format("Did you mean the column \"{}\"?", printable(nearest)));
}

MdsIndex parse_mds_index(std::string_view text, const std::string& where) {
  const Json json = parse_json(text, {.name = "the index", .where = where, .hint = kCopyDatasetHint});
  if (!json.is_object() || !json.contains("shards") || !json["shards"].is_array())
    refuse_index("the index has no list of shards", where);
  if (json.value("version", Json()) != kMdsVersion) {
    throw Error(
        ErrorKind::kUnsupported,
        fmt::format("the index has version {}; version {} is read", json.value("version", Json()).dump(), kMdsVersion),
        where, "Write the dataset again with a current mosaicml-streaming.");
  }
  MdsIndex index;
  for (const Json& shard : json["shards"]) index.shards.push_back(shard_of(shard, where));
  if (index.shards.empty()) refuse_index("the index names no shard", where);
  return index;
}

MdsIndex read_mds_index(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / kMdsIndexName;
  return parse_mds_index(read_text_file(path, kMostJsonBytes), path.string());
}

bool is_mds_directory(const std::filesystem::path& directory) {
  std::error_code code;
  const std::filesystem::path path = directory / kMdsIndexName;
  if (!std::filesystem::is_regular_file(path, code)) return false;
  try {
    const Json json = read_json_file(path);
    return json.is_object() && json.contains("shards") && json.contains("version");
  } catch (const Error&) {
    return false;  // of another program
  }
}

std::vector<MdsColumn> parse_mds_columns(std::string_view text, const std::string& where) {
  return columns_of(parse_json(text, {.name = "the shard's description", .where = where, .hint = kCopyDatasetHint}),
                    where);
}

}  // namespace causeway::formats
