#include "causeway/data/sample_order.h"

#include <algorithm>
#include <bit>

#include "causeway/base/error.h"

namespace causeway::data {
namespace {

constexpr uint64_t kFewestWindowsToShift = 16;
// Keys of what is drawn, so that the permutation and the shift of one epoch are unrelated.
constexpr uint64_t kShiftStream = 0x5348494654;
constexpr uint64_t kPermutationStream = 0x5045524D55;

// SplitMix64's output function (Steele, Lea and Flood 2014): a bijection in which every input bit moves every output
// bit.
uint64_t mix(uint64_t value) {
  value += 0x9E3779B97F4A7C15;
  value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9;
  value = (value ^ value >> 27) * 0x94D049BB133111EB;
  return value ^ value >> 31;
}

// Windows that overlap by one token.
uint64_t windows_of(uint64_t token_count, uint64_t sequence_length) {
  if (token_count <= sequence_length) {
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("{} tokens do not fill one sample of {} (sequence length {} and its last target)",
                            token_count, sequence_length + 1, sequence_length),
                "training data", "Use more text or a shorter sequence length.");
  }
  return (token_count - 1) / sequence_length;
}

uint64_t checked_sequence_length(int64_t sequence_length) {
  if (sequence_length <= 0) {
    throw Error(ErrorKind::kInvalidArgument, fmt::format("the sequence length is {}", sequence_length),
                "sequence length", "It must be at least 1.");
  }
  return static_cast<uint64_t>(sequence_length);
}

}  // namespace

KeyedPermutation::KeyedPermutation(uint64_t size, uint64_t seed, uint64_t stream) : size_(size) {
  CAUSEWAY_CHECK(size >= 1);
  half_bits_ = std::max(3, (static_cast<int>(std::bit_width(size - 1)) + 1) / 2);
  uint64_t key = mix(mix(seed) ^ stream);
  for (uint64_t& round_key : round_keys_) round_key = key = mix(key);
}

uint64_t KeyedPermutation::operator()(uint64_t index) const {
  CAUSEWAY_CHECK(index < size_);
  const uint64_t half_mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t value = index;
  do {
    uint64_t left = value >> half_bits_;
    uint64_t right = value & half_mask;
    for (const uint64_t round_key : round_keys_) {
      const uint64_t next = left ^ (mix(right ^ round_key) & half_mask);
      left = right;
      right = next;
    }
    value = left << half_bits_ | right;
  } while (value >= size_);
  return value;
}

EpochOrder::EpochOrder(uint64_t samples_per_epoch, uint64_t seed, uint64_t stream)
    : samples_per_epoch_(samples_per_epoch), seed_(stream == 0 ? seed : mix(mix(seed) ^ stream)) {
  CAUSEWAY_CHECK(samples_per_epoch >= 1);
}

EpochOrder::Visit EpochOrder::visit(uint64_t sample) const {
  const uint64_t epoch = sample / samples_per_epoch_;
  const uint64_t key = mix(seed_) ^ epoch;
  return {epoch, KeyedPermutation(samples_per_epoch_, key, kPermutationStream)(sample % samples_per_epoch_), key};
}

SampleOrder::SampleOrder(uint64_t token_count, int64_t sequence_length, uint64_t seed, uint64_t stream)
    : sequence_length_(checked_sequence_length(sequence_length)),
      shifts_(windows_of(token_count, sequence_length_) >= kFewestWindowsToShift),
      epochs_(windows_of(token_count, sequence_length_) - (shifts_ ? 1 : 0), seed, stream) {}

SampleWindow SampleOrder::window(uint64_t sample) const {
  const EpochOrder::Visit visit = epochs_.visit(sample);
  const uint64_t shift = shifts_ ? mix(mix(visit.key) ^ kShiftStream) % sequence_length_ : 0;
  return {visit.epoch, shift + visit.number * sequence_length_, sequence_length_ + 1};
}

SequentialOrder::SequentialOrder(uint64_t token_count, int64_t sequence_length, uint64_t first_token)
    : first_token_(first_token), token_count_(token_count), sequence_length_(checked_sequence_length(sequence_length)) {
  if (token_count_ < 2) {
    throw Error(ErrorKind::kInvalidArgument, fmt::format("{} tokens leave nothing to predict", token_count_),
                "evaluation data", "Use more text.");
  }
  sample_count_ = (token_count_ - 2) / sequence_length_ + 1;
}

SampleWindow SequentialOrder::window(uint64_t sample) const {
  if (sample >= sample_count_) return {0, first_token_ + token_count_, 0};
  const uint64_t offset = sample * sequence_length_;
  return {0, first_token_ + offset, std::min(sequence_length_ + 1, token_count_ - offset)};
}

}  // namespace causeway::data
