#include "causeway/train/checkpoint/checkpoint_path.h"

#include <system_error>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/train/checkpoint/checkpoint.h"

namespace causeway::train {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool holds_hugging_face_weights(const fs::path& directory) {
  return is_there(directory / "model.safetensors") || is_there(directory / "model.safetensors.index.json");
}

}  // namespace

bool is_checkpoint(const fs::path& directory) {
  return is_there(directory / kManifestName) && !holds_hugging_face_weights(directory);
}

std::optional<fs::path> find_checkpoint(const fs::path& path) {
  if (is_checkpoint(path)) return path;
  if (is_there(path / "config.json")) return std::nullopt;
  const std::vector<CheckpointEntry> entries = list_checkpoints(path);
  if (!entries.empty()) return entries.back().directory;
  if (!is_there(path / "recipe.yaml")) return std::nullopt;
  throw Error(ErrorKind::kNotFound, "the run has no checkpoint yet", path.string(),
              "Wait for its first one (checkpoint.interval, checkpoint.interval_minutes), or name another run.");
}

}  // namespace causeway::train
