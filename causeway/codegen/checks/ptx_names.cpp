#include "causeway/codegen/checks/ptx_names.h"

#include <algorithm>
#include <cctype>
#include <iterator>

namespace causeway::codegen {

void PtxNames::open_scope() {
  scopes_.push_back({current_, {}, {}});
  current_ = static_cast<int>(scopes_.size()) - 1;
}

void PtxNames::close_scope() { current_ = scopes_[static_cast<size_t>(current_)].parent; }

int PtxNames::add_register(std::string_view name) {
  register_names_.emplace_back(name);
  return static_cast<int>(register_names_.size()) - 1;
}

void PtxNames::declare_register(std::string_view name) {
  scopes_[static_cast<size_t>(current_)].registers[std::string(name)] = add_register(name);
}

void PtxNames::declare_label(std::string_view name, int instruction) {
  scopes_[static_cast<size_t>(current_)].labels[std::string(name)] = instruction;
}

int PtxNames::find_register(std::string_view name) {
  for (int at = current_; at >= 0; at = scopes_[static_cast<size_t>(at)].parent) {
    const auto& registers = scopes_[static_cast<size_t>(at)].registers;
    if (const auto found = registers.find(name); found != registers.end()) return found->second;
  }
  if (name.size() < 2 || name[0] != '%' || !std::isdigit(static_cast<unsigned char>(name.back()))) return -1;
  // %clock64 and its like are special registers, which have letters of their own.
  const std::string_view letters = name.substr(1, name.find_first_of("0123456789") - 1);
  static constexpr std::string_view kKinds[] = {"r", "rd", "rs", "f", "fd", "p", "h", "hh", "rq"};
  if (std::ranges::find(kKinds, letters) == std::end(kKinds)) return -1;
  const int added = add_register(name);
  scopes_[0].registers[std::string(name)] = added;
  return added;
}

int PtxNames::find_label(int scope, std::string_view label) const {
  for (int at = scope; at >= 0; at = scopes_[static_cast<size_t>(at)].parent) {
    const auto& labels = scopes_[static_cast<size_t>(at)].labels;
    if (const auto found = labels.find(label); found != labels.end()) return found->second;
  }
  return -1;
}

}  // namespace causeway::codegen
