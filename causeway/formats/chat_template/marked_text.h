// Text whose every byte knows where it came from. The strings of templates are such texts, and so is what is rendered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::formats {

// Where a character came from; see ChatSpan.
struct TextMark {
  int32_t message = -1;
  int32_t field = 0;  // an index into the renderer's names of fields; 0: the template's own text
  int32_t turn = -1;
  bool in_generation = false;
  bool in_generation_prompt = false;

  // Neither a message's nor another variable's.
  bool is_literal() const { return message < 0 && field == 0; }

  bool operator==(const TextMark&) const = default;
};

// UTF-8 with a mark for each run of bytes.
class MarkedText {
 public:
  struct Run {
    size_t end = 0;  // begins where the one before ends
    TextMark mark;

    bool operator==(const Run&) const = default;
  };

  MarkedText() = default;
  MarkedText(std::string bytes, const TextMark& mark);

  const std::string& bytes() const { return bytes_; }
  const std::vector<Run>& runs() const { return runs_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }

  // The mark of the byte at `position`; of an empty text, or past its end, that of the last byte or none.
  TextMark mark_at(size_t position) const;

  void append(std::string_view bytes, const TextMark& mark);
  void append(const MarkedText& text) { append(text, 0, text.size()); }
  void append(const MarkedText& text, size_t begin, size_t end);

  // Bytes [begin, end) of it.
  MarkedText part(size_t begin, size_t end) const;

  // Applies `change(mark)` to the marks of all runs.
  template <typename Change>
  void change_marks(const Change& change) {
    std::vector<Run> runs;
    runs.swap(runs_);
    for (Run& run : runs) {
      change(run.mark);
      add_run(run.end, run.mark);
    }
  }

 private:
  void add_run(size_t end, const TextMark& mark);

  std::string bytes_;
  std::vector<Run> runs_;  // the last one ends where the bytes end; neighbours differ
};

// The number of characters (code points), and the byte at which the character `index` begins; bytes that are not UTF-8
// count as a character each.
size_t character_count(std::string_view text);
size_t character_offset(std::string_view text, size_t index);

}  // namespace causeway::formats
