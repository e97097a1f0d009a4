// A Hugging Face directory, checked, as one that holds what Causeway needs of it and nothing else.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "causeway/graph/dtype.h"
#include "causeway/model/config.h"

namespace causeway::train {

struct ImportOptions {
  std::filesystem::path source;
  std::filesystem::path output;
  bool overwrite = false;                     // replace the model that is there
  std::optional<DType> dtype = std::nullopt;  // f32, bf16 or f16; nothing: each tensor as it is
  uint64_t max_file_bytes = uint64_t{5} << 30;
};

struct ImportResult {
  std::string family;
  int64_t parameters = 0;
  std::map<std::string, int64_t> elements;  // by the types that they have in the source: "f64", "bf16"
  uint64_t bytes = 0;                       // of the tensors that were written
  std::vector<std::string> tokenizer_files;
  std::vector<std::string> left_out;  // tensors that follow from others
  OtherEntries other_entries;         // of config.json
};

// Reads every tensor of a directory that model.from would take, and writes the model by the names that the family has
// today, without what follows from the configuration, with its tokenizer's files. Throws Error as
// read_hugging_face_config() and load_weights() do, naming the directory; for a value that is not finite; and as
// ModelDirectory does. What was there before is then as it was. Needs no device, and of memory what one piece of a
// tensor takes.
ImportResult import_model(const ImportOptions& options);

}  // namespace causeway::train
