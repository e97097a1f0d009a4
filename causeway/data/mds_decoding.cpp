#include "causeway/data/mds_decoding.h"

#include <stdlib.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/data/input_stream.h"
#include "causeway/formats/mds_hashes.h"

namespace causeway::data {
namespace {

// A new file, which is deleted in the end.
class TemporaryFile {
 public:
  TemporaryFile() {
    std::error_code code;
    const std::filesystem::path directory = std::filesystem::temp_directory_path(code);
    std::string name = (directory / "causeway-shard-XXXXXX").string();
    const int descriptor = code ? -1 : ::mkstemp(name.data());
    if (descriptor < 0)
      throw Error(ErrorKind::kIo, "no temporary file can be made, which a compressed shard is decompressed into", name,
                  "Say with TMPDIR in which directory there is space for them.");
    ::close(descriptor);
    path_ = name;
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    std::error_code code;
    std::filesystem::remove(path_, code);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace

PositionedFile open_mds_shard(const std::filesystem::path& file, const MdsShard& shard) {
  if (file.filename() == std::filesystem::path(shard.raw.basename).filename())
    return PositionedFile::open(file, PositionedFile::Content::kMustStay);
  const TemporaryFile temporary;
  {
    PositionedFile decoded = PositionedFile::create(temporary.path());
    decoded.reserve(shard.raw.bytes);
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
      throw Error(
          ErrorKind::kCorrupt,
          fmt::format("the shard is {}: decompressed it has {} bytes, and {} by its index",
                      bytes < shard.raw.bytes ? "cut short" : "not the one of the index", bytes, shard.raw.bytes),
          file.string(), "Copy the shard again from its source.");
    }
    hashes.require(file.string());
  }
  return PositionedFile::open(temporary.path(), PositionedFile::Content::kMustStay);
}

}  // namespace causeway::data
