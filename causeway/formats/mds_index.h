// MosaicML's streaming datasets (MDS, version 2): index.json of a directory, which says what shards there are and what
// is in a sample. A shard, as the package mosaicml-streaming writes it:
//
//   u32 n; u32 offsets[n + 1] from the shard's start; the columns as JSON; the samples
//
// A sample is the u32 sizes of those of its columns that have no fixed size, then the columns' bytes, in order of name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::formats {

constexpr std::string_view kMdsIndexName = "index.json";

struct MdsColumn {
  std::string name;
  std::string encoding;          // "str", "ndarray:int32", ...
  std::optional<uint64_t> size;  // in bytes, where it is the same in every sample
  bool operator==(const MdsColumn&) const = default;
};

struct MdsFile {
  std::string basename;  // beneath the index's directory
  uint64_t bytes = 0;
  std::map<std::string, std::string> hashes;  // by algorithm: "sha1", "xxh64", ...; hexadecimal
};

struct MdsShard {
  std::vector<MdsColumn> columns;
  uint64_t samples = 0;
  MdsFile raw;
  std::optional<MdsFile> compressed;
  std::string compression;  // of `compressed`: "zstd", "zstd:9", ...

  // Throws Error(kInvalidArgument) naming the columns that there are, the nearest of them first.
  size_t column(const std::string& name, const std::string& where) const;
};

struct MdsIndex {
  std::vector<MdsShard> shards;
};

// Whether the directory has an index.json of that format: told by the keys "version" and "shards".
bool is_mds_directory(const std::filesystem::path& directory);

// Throws Error naming `where`: kCorrupt for what is no such index, kUnsupported for another version or format of it.
MdsIndex parse_mds_index(std::string_view text, const std::string& where);
MdsIndex read_mds_index(const std::filesystem::path& directory);

// The columns that the JSON within a shard describes.
std::vector<MdsColumn> parse_mds_columns(std::string_view text, const std::string& where);

}  // namespace causeway::formats
