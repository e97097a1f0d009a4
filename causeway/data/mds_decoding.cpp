#include "causeway/data/mds_decoding.h"

#include <string>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/data/input_stream.h"
#include "causeway/formats/mds_hashes.h"

namespace causeway::data {
namespace {

PositionedFile temporary_file(uint64_t bytes) {
  std::error_code code;
  const std::filesystem::path directory = std::filesystem::temp_directory_path(code);
  try {
    if (code) throw Error(ErrorKind::kIo, code.message(), directory.string());
    PositionedFile file = PositionedFile::create_unnamed(directory);
    file.reserve(bytes);
    return file;
  } catch (const Error& error) {
    throw Error(
        error.kind() == ErrorKind::kResource ? error.kind() : ErrorKind::kIo,
        fmt::format("no temporary file of {} bytes can be made, which a compressed shard is decompressed into: {}",
                    bytes, error.message()),
        error.where(), "Say with TMPDIR in which directory there is space for them.");
  }
}

}  // namespace

PositionedFile open_mds_shard(const std::filesystem::path& file, const MdsShard& shard) {
  if (file.filename() == std::filesystem::path(shard.raw.basename).filename())
    return PositionedFile::open(file, PositionedFile::Content::kMustStay);
  PositionedFile decoded = temporary_file(shard.raw.bytes);
  InputStream stream(file);
  MdsHashes hashes(shard.raw.hashes);
  std::vector<char> buffer(size_t{1} << 20);
  uint64_t bytes = 0;
  for (size_t count = buffer.size(); count == buffer.size() && bytes <= shard.raw.bytes;) {
    count = stream.read(buffer);
    const std::span<char> part = std::span(buffer).first(count);
    hashes.add(part);
    decoded.write_at(bytes, std::as_bytes(part));
    bytes += count;
  }
  if (bytes != shard.raw.bytes) {
    throw Error(ErrorKind::kCorrupt,
                fmt::format("the shard is {}: decompressed it has {} bytes, and {} by its index",
                            bytes < shard.raw.bytes ? "cut short" : "not the one of the index", bytes, shard.raw.bytes),
                file.string(), "Copy the shard again from its source.");
  }
  hashes.require(file.string());
  decoded.keep();
  return decoded;
}

}  // namespace causeway::data
