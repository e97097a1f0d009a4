// A text of JSON that is one list, cut into its elements as it comes: memory does not grow with the list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::data {

// An element of the list in the text of a block, as it stood there.
struct ListedSample {
  size_t begin = 0, end = 0;
  uint64_t number = 0;            // among the elements of the list, from 1
  uint64_t line = 1, column = 1;  // of its first character in the input
};

class JsonListCutter {
 public:
  // `name`: of the input, for messages. No element may be longer than `most_bytes`.
  JsonListCutter(std::string name, size_t most_bytes) : name_(std::move(name)), most_bytes_(most_bytes) {}

  // Moves elements from the front of `buffer` behind `text`, about `bytes` of them; none at the end of the list. `more`
  // appends to the buffer and is false where nothing follows; what is wrong with an element itself is not looked at.
  // Throws Error naming line and column: kCorrupt where the text is no list or goes on behind it, kUnsupported for an
  // element that is too long.
  void cut(std::string& buffer, const std::function<bool()>& more, size_t bytes, std::string& text,
           std::vector<ListedSample>& samples);

 private:
  enum class Expects { kList, kFirst, kElement, kComma, kNothing };

  [[noreturn]] void refuse(const std::string& what) const;
  void take(std::string_view text);
  size_t end_of_element(std::string& buffer, const std::function<bool()>& more, size_t begin) const;

  std::string name_;
  size_t most_bytes_;
  Expects expects_ = Expects::kList;
  uint64_t number_ = 0;
  uint64_t line_ = 1, column_ = 1;  // behind what has been taken
};

}  // namespace causeway::data
