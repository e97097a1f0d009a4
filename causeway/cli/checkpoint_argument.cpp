#include "causeway/cli/checkpoint_argument.h"

#include "causeway/train/checkpoint/checkpoint.h"

namespace causeway::cli {

void read_checkpoint(const std::filesystem::path& path,
                     const std::function<void(const std::filesystem::path& checkpoint)>& read) {
  if (std::filesystem::exists(path / kManifestName)) return read(path);
  const bool is_found = read_newest_checkpoint(path, [&](const CheckpointEntry& entry) {
    require_step_of_its_name(CheckpointReader(entry.directory), entry);
    read(entry.directory);
  });
  if (!is_found) throw no_checkpoint_in(path);
}

Error no_checkpoint_in(const std::filesystem::path& path) {
  return Error(ErrorKind::kNotFound, "holds no checkpoint", path.string(),
               "Give a run directory (runs/NAME) or a checkpoint in it.");
}

}  // namespace causeway::cli
