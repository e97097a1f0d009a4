#include "causeway/train/grpo/reward_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "causeway/base/error.h"

namespace causeway::train {
namespace {

constexpr uint32_t kMostSteps = 10'000'000, kMostKibibytes = 64 << 10;

std::string message_of_pcre2(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

struct RewardPattern::Compiled {
  pcre2_code* code = nullptr;
  pcre2_match_data* data = nullptr;
  pcre2_match_context* context = nullptr;

  Compiled() = default;
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled() {
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
    pcre2_code_free(code);
  }
};

RewardPattern::RewardPattern(const std::string& pattern) : compiled_(std::make_unique<Compiled>()) {
  int code = 0;
  PCRE2_SIZE offset = 0;
  compiled_->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF | PCRE2_NEVER_BACKSLASH_C, &code, &offset, nullptr);
  if (compiled_->code == nullptr)
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("is no regular expression: {} at byte {}", message_of_pcre2(code), offset),
                "grpo.reward_pattern", "Give one of PCRE2's syntax, as Perl has it.");
  compiled_->data = pcre2_match_data_create_from_pattern(compiled_->code, nullptr);
  compiled_->context = pcre2_match_context_create(nullptr);
  if (compiled_->data == nullptr || compiled_->context == nullptr) throw std::bad_alloc();
  pcre2_set_match_limit(compiled_->context, kMostSteps);
  pcre2_set_heap_limit(compiled_->context, kMostKibibytes);
  uint32_t groups = 0;
  pcre2_pattern_info(compiled_->code, PCRE2_INFO_CAPTURECOUNT, &groups);
  has_group_ = groups > 0;
}

RewardPattern::~RewardPattern() = default;

void RewardPattern::require_record(const nlohmann::ordered_json& record, const std::string& name) const {
  if (has_group_) answer_of(record, name);
}

double RewardPattern::judge(const JudgedCompletion& completion) {
  const std::string& text = completion.text;
  std::optional<std::string> last;
  for (size_t position = 0; position <= text.size();) {
    const int result = pcre2_match(compiled_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), position, 0,
                                   compiled_->data, compiled_->context);
    if (result == PCRE2_ERROR_NOMATCH) break;
    if (result < 0)
      throw Error(
          ErrorKind::kResource,
          fmt::format("matching grpo.reward_pattern fails on {}: {}", completion.name, message_of_pcre2(result)),
          "grpo.reward_pattern", "Write it so that there are fewer ways to match.");
    if (!has_group_) return 1;
    const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(compiled_->data);
    const bool is_captured = result > 1 && bounds[2] != PCRE2_UNSET;
    last = is_captured ? text.substr(bounds[2], bounds[3] - bounds[2]) : std::string();
    // A match may be empty, or by \K begin where another ended; bytes of a character stand together.
    size_t next = std::max<size_t>(bounds[1], position + 1);
    while (next < text.size() && (static_cast<unsigned char>(text[next]) & 0xC0) == 0x80) ++next;
    position = bounds[1] > position ? bounds[1] : next;
  }
  if (!last) return 0;
  return without_blanks_around(*last) == without_blanks_around(answer_of(completion.record, completion.name)) ? 1 : 0;
}

}  // namespace causeway::train
