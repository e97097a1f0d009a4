#include "causeway/formats/tokenizer/regular_expression.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <cstdint>

#include "causeway/base/error.h"
#include "causeway/base/utf8.h"
#include "causeway/formats/tokenizer/encoding_budget.h"

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
    // Steps are counted otherwise.
    pcre2_set_match_limit(context_, UINT32_MAX);
    pcre2_set_depth_limit(context_, UINT32_MAX);
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

// Bytes of one try to match without counting; most words and runs of spaces have fewer.
constexpr size_t kFirstBytes = 64;

// The end of so many bytes from `position` on, between two characters.
size_t window_end(std::string_view text, size_t position, size_t bytes) {
  if (bytes >= text.size() - position) return text.size();
  size_t end = position + bytes;
  for (int i = 0; i < 3 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80; ++i) --end;
  return end;
}

std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

struct RegularExpression::Compiled {
  Compiled() = default;
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled() {
    pcre2_code_free(fast);
    pcre2_code_free(counted);
  }
  pcre2_code* fast = nullptr;     // as machine code, whose steps nobody counts; null where they may be many
  pcre2_code* counted = nullptr;  // says before each part of the expression where it is
};

namespace {

pcre2_code* compile(std::string_view translated, std::string_view pattern, const std::string& where, uint32_t options) {
  pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
  if (context == nullptr) throw std::bad_alloc();
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  int code = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* compiled =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                    PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_NEVER_BACKSLASH_C | options, &code, &offset, context);
  pcre2_compile_context_free(context);
  if (compiled == nullptr) {
    throw Error(ErrorKind::kUnsupported,
                fmt::format("the regular expression \"{}\" cannot be used: {}", pattern, pcre2_message(code)), where,
                "docs/tokenizers.md lists which expressions are interpreted.");
  }
  return compiled;
}

// Where the machine allows no new code, it is interpreted instead.
pcre2_code* compile_fast(std::string_view translated, std::string_view pattern, const std::string& where) {
  pcre2_code* code = compile(translated, pattern, where, 0);
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
  return code;
}

// Steps of one match: parts of the expression that were tried, and bytes between the places where.
struct CountedSteps {
  uint64_t most = 0;
  uint64_t taken = 0;
  size_t position = 0;

  static int count(pcre2_callout_block* at, void* data) {
    auto& steps = *static_cast<CountedSteps*>(data);
    const size_t position = at->current_position;
    steps.taken += 1 + (position > steps.position ? position - steps.position : steps.position - position);
    steps.position = position;
    return steps.taken > steps.most ? PCRE2_ERROR_CALLOUT : 0;
  }
};

}  // namespace

RegularExpression::RegularExpression(std::string_view pattern, std::string where) : where_(std::move(where)) {
  if (pattern.size() > kMostBytes) {
    throw Error(ErrorKind::kCorrupt,
                fmt::format("a regular expression of {} bytes; at most {} are read", pattern.size(), kMostBytes),
                where_, "Fetch the tokenizer again.");
  }
  const TranslatedExpression translated = translate_expression(pattern, where_);
  compiled_ = std::make_unique<Compiled>();
  compiled_->counted = compile(translated.written, pattern, where_, PCRE2_AUTO_CALLOUT);
  if (translated.has_few_ways) compiled_->fast = compile_fast(translated.written, pattern, where_);
  uint32_t may_be_empty = 0;
  pcre2_pattern_info(compiled_->counted, PCRE2_INFO_MATCHEMPTY, &may_be_empty);
  if (may_be_empty != 0) {
    throw Error(ErrorKind::kUnsupported,
                fmt::format("the regular expression \"{}\" matches where there is no character", pattern), where_,
                "Only expressions that take at least one character are interpreted.");
  }
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
  auto compiled = std::make_unique<Compiled>();
  compiled->counted = compile(escaped, text, where, PCRE2_AUTO_CALLOUT);
  compiled->fast = compile_fast(escaped, text, where);
  return RegularExpression(std::move(compiled), std::move(where));
}

void RegularExpression::for_each_match(std::string_view text, const std::function<void(size_t, size_t)>& take) const {
  thread_local const MatchMemory memory;
  EncodingBudget& budget = EncodingBudget::current();
  for (size_t position = 0; position < text.size();) {
    // With little text first, and again with more where its end was reached: then no match of a long text looks through
    // all of it, and without counting nothing takes long.
    size_t bytes = kFirstBytes, window = 0;
    int result = PCRE2_ERROR_PARTIAL;
    for (bool is_fast = compiled_->fast != nullptr; result == PCRE2_ERROR_PARTIAL; is_fast = false) {
      window = window_end(text, position, bytes);
      const auto match = [&](const pcre2_code* code) {
        return pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), window, position,
                           window < text.size() ? PCRE2_PARTIAL_HARD : 0, memory.data(), memory.context());
      };
      if (is_fast) {
        result = match(compiled_->fast);
      } else {
        CountedSteps steps{.most = budget.left(), .taken = 0, .position = position};
        pcre2_set_callout(memory.context(), &CountedSteps::count, &steps);
        result = match(compiled_->counted);
        pcre2_set_callout(memory.context(), nullptr, nullptr);
        budget.spend(steps.taken + (result == PCRE2_ERROR_PARTIAL ? window - position : 0), where_);
      }
      bytes *= 4;
    }
    if (result == PCRE2_ERROR_NOMATCH) {
      position = window;
      continue;
    }
    if (result < 0) {
      throw Error(ErrorKind::kResource,
                  fmt::format("the regular expression takes too much at byte {} of a text of {} bytes: {}", position,
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
