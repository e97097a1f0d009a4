// Statements of a kernel under construction. Some of them stand in a loop over the lanes of a thread, whose head is
// only written when it is known whether all lanes take part.
#pragma once

#include <string>
#include <vector>

namespace causeway::codegen {

// The head of an unrolled loop over lanes: "for (int e = 0; e < lanes; ++e) {". Lanes for which `skip` holds are passed
// over.
std::string lane_loop(const std::string& variable, int lanes, const std::string& skip = "");

class Statements {
 public:
  // C++ text, each line ending in a newline.
  void add(const std::string& text);
  // The body of a loop over the lanes.
  void add_for_each_lane(const std::string& body);
  void add(const Statements& more);

  bool empty() const { return parts_.empty(); }
  std::string text(const std::string& lane_variable, int lanes, const std::string& skip = "") const;
  // Of statements without loops over lanes.
  std::string text() const;

 private:
  struct Part {
    std::string text;
    bool for_each_lane = false;
  };
  std::vector<Part> parts_;
};

}  // namespace causeway::codegen
