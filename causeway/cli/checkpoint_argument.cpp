#include "causeway/cli/checkpoint_argument.h"

#include <optional>

#include "causeway/base/error.h"
#include "causeway/train/checkpoint/checkpoint.h"

namespace causeway::cli {

std::filesystem::path find_checkpoint(const std::filesystem::path& path) {
  if (std::filesystem::exists(path / kManifestName)) return path;
  const std::optional<CheckpointEntry> latest = find_latest(path);
  if (!latest)
    throw Error(ErrorKind::kNotFound, "holds no checkpoint", path.string(),
                "Give a run directory (runs/NAME) or a checkpoint in it.");
  return latest->directory;
}

}  // namespace causeway::cli
