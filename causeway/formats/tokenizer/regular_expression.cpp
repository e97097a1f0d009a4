#include "causeway/formats/tokenizer/regular_expression.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>

#include "causeway/base/error.h"
#include "causeway/base/utf8.h"

namespace causeway::formats {
namespace {

constexpr size_t kSmallestStack = size_t{64} << 10, kLargestStack = size_t{16} << 20;
constexpr uint32_t kMostHeapKibibytes = 64 << 10;

// What a thread needs to match, whichever the expression.
class MatchMemory {
 public:
  MatchMemory()
      : data_(pcre2_match_data_create(1, nullptr)),
        context_(pcre2_match_context_create(nullptr)),
        stack_(pcre2_jit_stack_create(kSmallestStack, kLargestStack, nullptr)) {
    if (data_ == nullptr || context_ == nullptr) throw std::bad_alloc();
    pcre2_set_match_limit(context_, RegularExpression::kMostSteps);
    pcre2_set_depth_limit(context_, RegularExpression::kMostSteps);
    pcre2_set_heap_limit(context_, kMostHeapKibibytes);
    if (stack_ != nullptr) pcre2_jit_stack_assign(context_, nullptr, stack_);
  }
  MatchMemory(const MatchMemory&) = delete;
  MatchMemory& operator=(const MatchMemory&) = delete;
  ~MatchMemory() {
    pcre2_jit_stack_free(stack_);
    pcre2_match_context_free(context_);
    pcre2_match_data_free(data_);
  }
  pcre2_match_data* data() const { return data_; }
  pcre2_match_context* context() const { return context_; }

 private:
  pcre2_match_data* data_;
  pcre2_match_context* context_;
  pcre2_jit_stack* stack_;
};

std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

struct RegularExpression::Compiled {
  explicit Compiled(pcre2_code* compiled_code) : code(compiled_code) {}
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled() { pcre2_code_free(code); }
  pcre2_code* code;
};

namespace {

pcre2_code* compile(std::string_view translated, std::string_view pattern, const std::string& where) {
  pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
  if (context == nullptr) throw std::bad_alloc();
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  int code = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* compiled =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                    PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_NEVER_BACKSLASH_C, &code, &offset, context);
  pcre2_compile_context_free(context);
  if (compiled == nullptr) {
    throw Error(ErrorKind::kUnsupported,
                fmt::format("the regular expression \"{}\" cannot be used: {}", pattern, pcre2_message(code)), where,
                "docs/tokenizers.md lists which expressions are interpreted.");
  }
  return compiled;
}

}  // namespace

RegularExpression::RegularExpression(std::string_view pattern, std::string where) : where_(std::move(where)) {
  if (pattern.size() > kMostBytes) {
    throw Error(ErrorKind::kCorrupt,
                fmt::format("a regular expression of {} bytes; at most {} are read", pattern.size(), kMostBytes),
                where_, "Fetch the tokenizer again.");
  }
  const std::string translated = translate_expression(pattern, where_);
  compiled_ = std::make_unique<Compiled>(compile(translated, pattern, where_));
  uint32_t may_be_empty = 0;
  pcre2_pattern_info(compiled_->code, PCRE2_INFO_MATCHEMPTY, &may_be_empty);
  if (may_be_empty != 0) {
    throw Error(ErrorKind::kUnsupported,
                fmt::format("the regular expression \"{}\" matches where there is no character", pattern), where_,
                "Only expressions that take at least one character are interpreted.");
  }
  // Where the machine allows no new code, the expression is interpreted instead.
  pcre2_jit_compile(compiled_->code, PCRE2_JIT_COMPLETE);
}

RegularExpression::RegularExpression(std::unique_ptr<Compiled> compiled, std::string where)
    : compiled_(std::move(compiled)), where_(std::move(where)) {}
RegularExpression::RegularExpression(RegularExpression&&) noexcept = default;
RegularExpression& RegularExpression::operator=(RegularExpression&&) noexcept = default;
RegularExpression::~RegularExpression() = default;

RegularExpression RegularExpression::literal(std::string_view text, std::string where) {
  std::string escaped;
  for (size_t position = 0; position < text.size();) {
    const Utf8Character character = decode_utf8(text, position);
    CAUSEWAY_CHECK(character.code_point != kInvalidCodePoint);
    escaped += fmt::format("\\x{{{:x}}}", character.code_point);
    position += character.size;
  }
  CAUSEWAY_CHECK(!escaped.empty());
  pcre2_code* code = compile(escaped, text, where);
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  return RegularExpression(std::make_unique<Compiled>(code), std::move(where));
}

void RegularExpression::for_each_match(std::string_view text, const std::function<void(size_t, size_t)>& take) const {
  thread_local const MatchMemory memory;
  for (size_t position = 0; position < text.size();) {
    const int result = pcre2_match(compiled_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), position, 0,
                                   memory.data(), memory.context());
    if (result == PCRE2_ERROR_NOMATCH) return;
    if (result < 0) {
      throw Error(ErrorKind::kResource,
                  fmt::format("the regular expression takes too long at byte {} of a text of {} bytes: {}", position,
                              text.size(), pcre2_message(result)),
                  where_, "Use a tokenizer whose expression does not try so many ways, or shorter texts.");
    }
    const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(memory.data());
    const size_t begin = bounds[0], end = bounds[1];
    CAUSEWAY_CHECK(end > begin);
    take(begin, end);
    position = end;
  }
}

}  // namespace causeway::formats
