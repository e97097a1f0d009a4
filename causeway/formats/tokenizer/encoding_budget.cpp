#include "causeway/formats/tokenizer/encoding_budget.h"

#include <string>

#include "causeway/base/error.h"

namespace causeway::formats {
namespace {

constexpr const char* kBudgetHint =
    "Use a tokenizer whose tokens and expressions do not try so many ways, or shorter texts.";

EncodingBudget& of_thread() {
  thread_local EncodingBudget budget;
  return budget;
}

}  // namespace

EncodingBudget::Scope::Scope(size_t text_bytes) : is_outer_(!of_thread().is_open_) {
  if (!is_outer_) return;
  of_thread().begin(text_bytes);
  of_thread().is_open_ = true;
}

EncodingBudget::Scope::~Scope() {
  if (is_outer_) of_thread().is_open_ = false;
}

EncodingBudget& EncodingBudget::current() {
  EncodingBudget& budget = of_thread();
  if (!budget.is_open_) budget.begin(0);
  return budget;
}

void EncodingBudget::begin(size_t text_bytes) {
  text_bytes_ = text_bytes;
  left_ = kFreeSteps + kStepsPerByte * text_bytes;
}

void EncodingBudget::throw_spent(std::string_view where) const {
  throw Error(
      ErrorKind::kResource,
      fmt::format("a text of {} bytes takes more than {} steps", text_bytes_, kFreeSteps + kStepsPerByte * text_bytes_),
      std::string(where), kBudgetHint);
}

}  // namespace causeway::formats
