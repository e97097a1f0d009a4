// Which documents are in both splits: held-out text that was trained on measures nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "causeway/base/file.h"
#include "causeway/base/hash.h"
#include "causeway/namespaces.h"

namespace causeway::data {

class SharedDocuments {
 public:
  struct Place {
    uint64_t source = 0;
    uint64_t line = 0;  // 0: the whole of it
  };

  // Keeps what it notes of training documents in a file of this name, and of held-out ones in memory: 32 bytes each.
  explicit SharedDocuments(const std::filesystem::path& file) : file_(file), writer_(file) {}

  void add(const Hash128& document, bool is_validation, Place place);

  struct Result {
    uint64_t documents = 0;  // of training that are held out, too
    Place training;          // the first of them
    Place validation;
  };
  // Call once.
  std::optional<Result> find();

 private:
  struct Note {
    Hash128 hash;
    Place place;
  };

  void flush();

  std::filesystem::path file_;
  FileWriter writer_;
  std::vector<Note> training_;
  std::vector<Note> validation_;
};

}  // namespace causeway::data
