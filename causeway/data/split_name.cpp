#include "causeway/data/split_name.h"

#include <algorithm>

#include "causeway/base/error.h"

namespace causeway::data {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

std::vector<std::string> words_of(const std::string& name) {
  std::vector<std::string> words;
  bool in_word = false;
  for (const char c : name) {
    if (is_letter(c)) {
      if (!in_word) words.emplace_back();
      words.back() += static_cast<char>(c | 0x20);
    }
    in_word = is_letter(c);
  }
  return words;
}

}  // namespace

const std::vector<std::string_view>& split_words(std::string_view split) {
  static const std::vector<std::string_view> train = {kTrainSplit, "training"};
  static const std::vector<std::string_view> validation = {"val", kValidationSplit, "valid"};
  static const std::vector<std::string_view> test = {kTestSplit};
  if (split == kTrainSplit) return train;
  if (split == kValidationSplit) return validation;
  CAUSEWAY_CHECK(split == kTestSplit, "{}", split);
  return test;
}

std::optional<std::string_view> split_of_name(const std::filesystem::path& path) {
  std::optional<std::string_view> found;
  std::string found_word;
  for (const std::string& word : words_of(path.filename().string())) {
    for (const std::string_view split : {kTrainSplit, kValidationSplit, kTestSplit}) {
      if (std::ranges::find(split_words(split), word) == split_words(split).end()) continue;
      if (found && *found != split) {
        throw Error(ErrorKind::kInvalidArgument,
                    fmt::format("the name says both \"{}\" and \"{}\": which split the file is of cannot be told",
                                found_word, word),
                    path.string(),
                    "Rename it so that it holds one of the words train, val and test, or name the files to train on "
                    "themselves or by a pattern (data.path=DIRECTORY/PATTERN), which holds nothing out.");
      }
      found = split;
      found_word = word;
    }
  }
  return found;
}

}  // namespace causeway::data
