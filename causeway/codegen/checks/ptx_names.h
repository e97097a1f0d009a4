// The names of a function in PTX: registers and labels, each known within the braces that declare it.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::codegen {

class PtxNames {
 public:
  // A pair of braces within the current one, until its end.
  void open_scope();
  void close_scope();
  bool is_outermost() const { return current_ == 0; }
  int scope() const { return current_; }

  // Numbers registers through, in the order in which they are met.
  void declare_register(std::string_view name);
  void declare_label(std::string_view name, int instruction);

  // By its number. %r7 and its like are numbered as they are met, because declarations give them as ranges. -1 for what
  // is no register.
  int find_register(std::string_view name);
  // The instruction that a label of that scope, or of one around it, stands before; -1 where there is none.
  int find_label(int scope, std::string_view label) const;

  const std::vector<std::string>& register_names() const { return register_names_; }

 private:
  struct Scope {
    int parent = -1;
    std::map<std::string, int, std::less<>> registers;
    std::map<std::string, int, std::less<>> labels;
  };
  int add_register(std::string_view name);

  std::vector<Scope> scopes_ = {Scope()};
  int current_ = 0;
  std::vector<std::string> register_names_;
};

}  // namespace causeway::codegen
