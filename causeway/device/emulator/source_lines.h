// Which line of kernel text an instruction of an image came from: the line table of DWARF 4 (section 6.2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::device {

class SourceLines {
 public:
  // An image without debug information, or with a damaged one, knows no lines.
  explicit SourceLines(std::string_view image);

  // "causeway/kernels/gpu/reduce.h:33" of the instruction at that offset from where the image was loaded; empty when
  // it is not known.
  std::string find(uint64_t offset) const;

 private:
  struct Row {
    uint64_t address = 0;
    uint32_t file = 0;  // in files_
    uint32_t line = 0;  // 0: no text
    size_t order = 0;   // of rows at one address, the last counts
  };

  void read_units(std::string_view section);

  std::vector<std::string> files_;
  std::vector<Row> rows_;  // ascending
};

}  // namespace causeway::device
