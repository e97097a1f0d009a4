// Lines, records and samples of inputs that are no document: counted and left out, as long as their files hold
// documents as well. A file of which none is one is of another kind than it was taken for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "causeway/base/error.h"

namespace causeway::data {

class SkippedLines {
 public:
  // So many in the blocks (kTextBlockBytes) before that of a file's first document, and the file is refused.
  static constexpr uint64_t kMostBeforeADocument = 1000;
  // So many are named.
  static constexpr size_t kNamed = 5;

  // The file goes on with a document.
  void add_document() { has_document_ = true; }
  // The file goes on with what `error` says is none. Throws the file's first one where it is refused.
  void add(const Error& error);
  // Throws the file's first one where all of it were none.
  void end_file();

  uint64_t count() const { return count_; }
  // The first ones, each as "PATH, line N: what is wrong".
  const std::vector<std::string>& named() const { return named_; }

 private:
  [[noreturn]] void refuse() const;

  uint64_t count_ = 0;
  std::vector<std::string> named_;
  // Of the file.
  bool has_document_ = false;
  uint64_t in_file_ = 0;
  std::optional<Error> first_;
};

}  // namespace causeway::data
