#include "causeway/data/prepared_directory.h"

#include <fnmatch.h>

#include <string>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/data/token_dataset.h"
#include "causeway/formats/tokenizer/tokenizer_settings.h"

namespace causeway::data {
namespace {

void require_part_of_dataset(const std::filesystem::path& directory, const std::filesystem::path& path,
                             const std::vector<std::string>& patterns) {
  const std::string name = path.filename().string();
  for (const std::string& pattern : patterns) {
    // Also what write_file_atomically leaves of one when it is killed.
    if (::fnmatch(pattern.c_str(), name.c_str(), 0) == 0 ||
        ::fnmatch((pattern + ".tmp-*").c_str(), name.c_str(), 0) == 0)
      return;
  }
  throw Error(ErrorKind::kInvalidArgument,
              fmt::format("the output directory holds something that is no part of a dataset: {}",
                          path.lexically_relative(directory).string()),
              directory.string(), "Choose a directory of its own for the dataset.");
}

}  // namespace

void require_replaceable(const std::filesystem::path& directory, bool overwrite) {
  std::error_code code;
  if (!std::filesystem::is_directory(directory, code)) return;
  bool holds_dataset = false;
  for (const std::filesystem::directory_entry& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().filename() == kTokenizerDirectoryName && entry.is_directory(code)) {
      std::vector<std::string> names = {"vocab.json", "merges.txt", "tokenizer.json"};
      names.insert(names.end(), formats::kTokenizerSettingsNames.begin(), formats::kTokenizerSettingsNames.end());
      for (const std::filesystem::directory_entry& file : std::filesystem::directory_iterator(entry.path()))
        require_part_of_dataset(directory, file.path(), names);
      continue;
    }
    require_part_of_dataset(directory, entry.path(),
                            {std::string(kManifestFileName), fmt::format("{}-*.tokens", kTrainSplit),
                             fmt::format("{}-*.tokens", kValidationSplit)});
    holds_dataset = true;
  }
  if (holds_dataset && !overwrite) {
    throw Error(ErrorKind::kInvalidArgument, "the output directory already holds a dataset", directory.string(),
                "Choose another directory, or say --overwrite to replace it.");
  }
}

}  // namespace causeway::data
