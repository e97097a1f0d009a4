// Which split a file or directory is of, by the words of its name: how llm.c, nanoGPT and MDS keep splits apart.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::data {

// The names of the splits of a dataset.
constexpr std::string_view kTrainSplit = "train";
constexpr std::string_view kValidationSplit = "validation";
// Is told apart and never read.
constexpr std::string_view kTestSplit = "test";

// The words that name a split: "train" and "training", "val", "valid" and "validation", "test".
const std::vector<std::string_view>& split_words(std::string_view split);

// The split that the last part of a path names with a whole word, a run of letters in either case:
// "fineweb_val_000.bin" is of "validation", "pretrain_000.bin" of none. Throws Error(kInvalidArgument) naming the path
// where words of several splits are in it.
std::optional<std::string_view> split_of_name(const std::filesystem::path& path);

}  // namespace causeway::data
