// A shard of an MDS dataset as a file that can be read anywhere.
#pragma once

#include <filesystem>

#include "causeway/base/positioned_file.h"
#include "causeway/formats/mds_index.h"

namespace causeway::data {

// `file`: find_mds_file(). One that is not compressed is opened as it is. Another is decompressed into the directory
// for temporary files (TMPDIR, else /tmp), into a file without a name whose space is free again when it is closed; its
// size and hashes are then checked. Throws Error: kCorrupt naming `file` where it is damaged, kResource or kIo naming
// the directory for temporary files where there is no space or none can be made.
PositionedFile open_mds_shard(const std::filesystem::path& file, const MdsShard& shard);

}  // namespace causeway::data
