#include "causeway/codegen/checks/ptx_text.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "causeway/base/error.h"
#include "causeway/codegen/checks/ptx_names.h"

namespace causeway::codegen {
namespace {

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%'; }

std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// Parts between commas that are in no brackets.
std::vector<std::string_view> split_operands(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && (text[i] == '{' || text[i] == '[' || text[i] == '(')) ++depth;
    if (i < text.size() && (text[i] == '}' || text[i] == ']' || text[i] == ')')) --depth;
    if (i == text.size() || (text[i] == ',' && depth == 0)) {
      if (const std::string_view part = trimmed(text.substr(begin, i - begin)); !part.empty()) parts.push_back(part);
      begin = i + 1;
    }
  }
  return parts;
}

std::optional<int64_t> number(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) base = 16, text.remove_prefix(2);
  if (text.ends_with('U')) text.remove_suffix(1);
  uint64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return static_cast<int64_t>(negative ? 0 - value : value);
}

// Instructions that write no register, whatever their first operand is.
constexpr std::string_view kWriteNothing[] = {"st.",
                                              "st",
                                              "red.",
                                              "bar.",
                                              "barrier.",
                                              "bra",
                                              "ret",
                                              "exit",
                                              "trap",
                                              "cp.",
                                              "fence",
                                              "membar",
                                              "prefetch",
                                              "setmaxnreg",
                                              "stmatrix",
                                              "griddepcontrol",
                                              "nanosleep",
                                              "discard",
                                              "wgmma.fence",
                                              "wgmma.commit_group",
                                              "wgmma.wait_group",
                                              "mbarrier.init",
                                              "mbarrier.inval",
                                              "brx",
                                              "pmevent",
                                              "call",
                                              "brkpt"};

void make_blocks(PtxFunction& function, int last_line) {
  std::vector<PtxInstruction>& instructions = function.instructions;
  // A function may end in a branch back; what a label at the end names is there, too.
  PtxInstruction end;
  end.opcode = end.text = "ret";
  end.line = last_line;
  instructions.push_back(end);
  const int count = static_cast<int>(instructions.size());
  std::vector<bool> begins(static_cast<size_t>(count) + 1);
  begins[0] = true;
  for (int i = 0; i < count; ++i) {
    const PtxInstruction& one = instructions[static_cast<size_t>(i)];
    if (one.branches()) begins[static_cast<size_t>(one.target)] = true;
    if (one.ends_block()) begins[static_cast<size_t>(i) + 1] = true;
  }
  std::vector<int> block_of(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    if (begins[static_cast<size_t>(i)]) function.blocks.push_back({i, i, {}});
    block_of[static_cast<size_t>(i)] = static_cast<int>(function.blocks.size()) - 1;
    function.blocks.back().end = i + 1;
  }
  for (PtxBlock& block : function.blocks) {
    const PtxInstruction& last = instructions[static_cast<size_t>(block.end) - 1];
    if (last.branches()) block.successors.push_back(block_of[static_cast<size_t>(last.target)]);
    if (last.falls_through() && block.end < count) block.successors.push_back(block_of[static_cast<size_t>(block.end)]);
  }
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  PtxModule parse() {
    for (;;) {
      skip_space();
      if (at_ == text_.size()) break;
      const std::string_view head = statement_of_module();
      if (head.find(".entry") != std::string_view::npos || head.find(".func") != std::string_view::npos) {
        if (text_[at_] == '{') {
          ++at_;
          function(head);
        } else {
          ++at_;  // a declaration
        }
      } else {
        if (text_[at_ < text_.size() ? at_ : 0] == ';') ++at_;
        shared_symbol(head);
      }
    }
    return std::move(module_);
  }

 private:
  struct Branch {
    size_t instruction;
    int scope;
    std::string label;
  };

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::kCorrupt, "this is no PTX that can be read: " + what, fmt::format("line {}", line_),
                "Compile the kernel again.");
  }

  void skip_space() {
    while (at_ < text_.size()) {
      if (text_[at_] == '\n') ++line_;
      if (std::isspace(static_cast<unsigned char>(text_[at_]))) {
        ++at_;
      } else if (text_.substr(at_).starts_with("//")) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else {
        break;
      }
    }
  }

  // Up to its ';' or to the '{' of a body, not included; without comments.
  std::string_view statement_of_module() {
    buffer_.clear();
    if (text_.substr(at_).starts_with(".version") || text_.substr(at_).starts_with(".target") ||
        text_.substr(at_).starts_with(".address_size") || text_.substr(at_).starts_with(".file")) {
      at_ = std::min(text_.find('\n', at_), text_.size());
      return {};
    }
    int depth = 0;
    bool initializer = false;
    for (; at_ < text_.size(); ++at_) {
      if (text_.substr(at_).starts_with("//")) {
        at_ = std::min(text_.find('\n', at_), text_.size()) - 1;
        continue;
      }
      const char c = text_[at_];
      if (c == '\n') ++line_;
      if (c == '=') initializer = true;
      if (c == '(') ++depth;
      if (c == ')') --depth;
      if (depth == 0 && (c == ';' || (c == '{' && !initializer))) return buffer_;
      buffer_ += c == '\n' || c == '\t' ? ' ' : c;
    }
    if (!trimmed(buffer_).empty()) fail("the text ends within a statement");
    return {};
  }

  void shared_symbol(std::string_view head) {
    if (head.find(".shared") == std::string_view::npos) return;
    const size_t bracket = head.rfind('[');
    std::string_view name = trimmed(head.substr(0, bracket));
    name = name.substr(std::min(name.find_last_of(" \t") + 1, name.size()));
    int64_t size = 8;
    if (bracket != std::string_view::npos)
      size = number(trimmed(head.substr(bracket + 1, head.find(']', bracket) - bracket - 1))).value_or(0);
    module_.shared.emplace_back(name, size);
  }

  void function(std::string_view head) {
    function_ = PtxFunction();
    names_ = PtxNames();
    branches_.clear();
    const size_t kind =
        head.find(".entry") != std::string_view::npos ? head.find(".entry") + 6 : head.find(".func") + 5;
    std::string_view name = trimmed(head.substr(kind));
    if (name.starts_with("(")) name = trimmed(name.substr(name.find(')') + 1));
    size_t length = 0;
    while (length < name.size() && is_name(name[length])) ++length;
    function_.name = name.substr(0, length);
    if (const size_t threads = head.find(".maxntid"); threads != std::string_view::npos) {
      const std::string_view figures = trimmed(head.substr(threads + 8));
      size_t digits = 0;
      while (digits < figures.size() && std::isdigit(static_cast<unsigned char>(figures[digits]))) ++digits;
      function_.threads = static_cast<int>(number(figures.substr(0, digits)).value_or(0));
    }
    for (;;) {
      skip_space();
      if (at_ == text_.size()) fail("the text ends within a function");
      if (text_[at_] == '{') {
        ++at_;
        names_.open_scope();
      } else if (text_[at_] == '}') {
        ++at_;
        if (names_.is_outermost()) break;
        names_.close_scope();
      } else {
        statement();
      }
    }
    for (const Branch& branch : branches_) {
      const int target = names_.find_label(branch.scope, branch.label);
      if (target < 0) fail("there is no label " + branch.label);
      function_.instructions[branch.instruction].target = target;
    }
    make_blocks(function_, line_);
    function_.register_names = names_.register_names();
    function_.registers = static_cast<int>(function_.register_names.size());
    module_.functions.push_back(std::move(function_));
  }

  void statement() {
    const int line = line_;
    buffer_.clear();
    for (;; ++at_) {
      if (at_ == text_.size()) fail("the text ends within a statement");
      if (text_.substr(at_).starts_with("//")) {
        at_ = std::min(text_.find('\n', at_), text_.size()) - 1;
        continue;
      }
      const char c = text_[at_];
      if (c == '\n') ++line_;
      if (c == ';') break;
      if (c == ':' && std::all_of(buffer_.begin(), buffer_.end(), is_name)) {
        names_.declare_label(buffer_, static_cast<int>(function_.instructions.size()));
        ++at_;
        return;
      }
      if (std::isspace(static_cast<unsigned char>(c))) {
        if (!buffer_.empty() && buffer_.back() != ' ') buffer_ += ' ';
      } else {
        buffer_ += c;
      }
    }
    ++at_;
    std::string_view text = trimmed(buffer_);
    if (text.starts_with(".reg")) return declare(text);
    if (text.starts_with(".shared")) return shared_symbol(text);
    if (text.empty() || text.starts_with(".")) return;
    instruction(text, line);
  }

  void declare(std::string_view text) {
    const size_t type = text.find('.', 1);
    const size_t names = type == std::string_view::npos ? type : text.find(' ', type);
    if (names == std::string_view::npos) fail("a declaration names no registers");
    text = trimmed(text.substr(names));
    for (const std::string_view name : split_operands(text)) {
      if (name.ends_with('>')) continue;  // a range: numbered as they are met
      names_.declare_register(name);
    }
  }

  void add_registers(std::string_view list, std::vector<int>& registers) {
    for (const std::string_view name : split_operands(list))
      if (const int found = names_.find_register(name); found >= 0) registers.push_back(found);
  }

  PtxOperand operand(std::string_view text) {
    PtxOperand result;
    if (text == "_") return result;
    if (text.starts_with('{')) {
      result.kind = PtxOperand::Kind::kVector;
      add_registers(text.substr(1, text.size() - 2), result.registers);
    } else if (text.starts_with('[')) {
      result.kind = PtxOperand::Kind::kAddress;
      const std::vector<std::string_view> parts = split_operands(text.substr(1, text.size() - 2));
      if (parts.empty()) fail("an address is empty");
      if (parts.size() > 1) add_registers(trimmed(parts[1].substr(1, parts[1].size() - 2)), result.more);
      const size_t plus = parts[0].find('+');
      const std::string_view base = trimmed(parts[0].substr(0, plus));
      if (plus != std::string_view::npos) result.value = number(trimmed(parts[0].substr(plus + 1))).value_or(0);
      if (const int found = names_.find_register(base); found >= 0) {
        result.registers = {found};
      } else if (const auto immediate = number(base)) {
        result.value += *immediate;
      } else {
        result.symbol = base;
      }
    } else if (const size_t bar = text.find('|'); bar != std::string_view::npos) {
      result.kind = PtxOperand::Kind::kVector;  // two results
      for (const std::string_view name : {text.substr(0, bar), text.substr(bar + 1)})
        if (const int found = names_.find_register(trimmed(name)); found >= 0) result.registers.push_back(found);
    } else if (const int found = names_.find_register(text); found >= 0) {
      result.kind = PtxOperand::Kind::kRegister;
      result.registers = {found};
    } else if (const auto immediate = number(text)) {
      result.kind = PtxOperand::Kind::kImmediate;
      result.value = *immediate;
    } else {
      result.kind = PtxOperand::Kind::kName;
      result.symbol = text;
    }
    return result;
  }

  void instruction(std::string_view text, int line) {
    PtxInstruction result;
    result.line = line;
    result.text = text;
    if (text.starts_with('@')) {
      text.remove_prefix(1);
      result.negated = text.starts_with('!');
      if (result.negated) text.remove_prefix(1);
      const size_t space = text.find(' ');
      result.predicate = names_.find_register(text.substr(0, space));
      if (space == std::string_view::npos || result.predicate < 0) fail("a guard has no predicate");
      text = trimmed(text.substr(space));
    }
    const size_t space = std::min(text.find(' '), text.size());
    result.opcode = text.substr(0, space);
    text = trimmed(text.substr(space));
    if (result.opcode == "bra" || result.opcode == "bra.uni") {
      branches_.push_back({function_.instructions.size(), names_.scope(), std::string(text)});
    } else {
      for (const std::string_view part : split_operands(text)) result.operands.push_back(operand(part));
    }
    result.writes_first =
        std::none_of(std::begin(kWriteNothing), std::end(kWriteNothing), [&](std::string_view prefix) {
          return prefix.ends_with('.') || prefix.size() > 4
                     ? result.opcode.starts_with(prefix)
                     : result.opcode == prefix || result.opcode.starts_with(std::string(prefix) + ".");
        });
    function_.instructions.push_back(std::move(result));
  }

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
  std::string buffer_;
  PtxModule module_;
  PtxFunction function_;
  PtxNames names_;
  std::vector<Branch> branches_;
};

}  // namespace

bool PtxInstruction::ends_block() const {
  return branches() || opcode == "ret" || opcode == "ret.uni" || opcode == "exit" || opcode == "trap" || is("brx");
}

bool PtxInstruction::falls_through() const { return !ends_block() || (predicate >= 0 && !is("brx")); }

bool PtxInstruction::is_shared_access() const {
  return has(".shared") && (is("ld.") || is("st.") || is("ldmatrix") || is("stmatrix") || is("atom.") || is("red."));
}

bool PtxInstruction::is_block_barrier() const {
  return is("bar.red") || is("barrier.red") || is("barrier.cta.red") ||
         ((is("bar.sync") || is("barrier.sync") || is("barrier.cta.sync")) && operands.size() < 2);
}

PtxModule parse_ptx(std::string_view text) { return Parser(text).parse(); }

}  // namespace causeway::codegen
