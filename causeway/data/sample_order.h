// Which tokens a training sample is, as a pure function of (seed, sample number): nothing is drawn in sequence, so a
// run resumes from one integer, the number of samples consumed, on any number of ranks or workers.
#pragma once

#include <cstdint>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::data {

// A pseudo-random permutation of [0, size): an eight-round Feistel network over the smallest even number of bits
// that holds `size` (Luby and Rackoff 1988), walked along its cycles until the value is inside (Black and Rogaway
// 2002). O(1) time and memory.
class KeyedPermutation {
 public:
  // `size` must be at least 1. Different (seed, stream) pairs give unrelated permutations.
  KeyedPermutation(uint64_t size, uint64_t seed, uint64_t stream);

  uint64_t size() const { return size_; }
  // The image of `index`, which must be below size().
  uint64_t operator()(uint64_t index) const;

 private:
  static constexpr int kRounds = 8;

  uint64_t size_;
  int half_bits_;
  uint64_t round_keys_[kRounds];
};

// The order in which epochs of equally many samples visit them: each epoch by a permutation of its own, keyed by (seed,
// stream, epoch).
class EpochOrder {
 public:
  EpochOrder(uint64_t samples_per_epoch, uint64_t seed, uint64_t stream);

  uint64_t samples_per_epoch() const { return samples_per_epoch_; }
  struct Visit {
    uint64_t epoch = 0;
    uint64_t number = 0;  // of the epoch's samples, below samples_per_epoch()
    uint64_t key = 0;     // of what else the epoch draws
  };
  // Of sample number `sample` of the run, from 0.
  Visit visit(uint64_t sample) const;

 private:
  uint64_t samples_per_epoch_;
  uint64_t seed_;
};

// Of a sample, or of a part of it: tokens [offset, offset + length), its inputs all but the last and its targets all
// but the first.
struct SampleWindow {
  uint64_t epoch = 0;
  uint64_t offset = 0;
  uint64_t length = 0;
};

// The endless training order. An epoch cuts the tokens into windows of sequence_length + 1 that overlap by one token,
// so that each token is a target once, and visits them in the order of a permutation keyed by (seed, epoch). From 16
// windows on, the cut starts at an offset in [0, sequence_length) that is also keyed by (seed, epoch): an epoch then
// leaves out up to sequence_length tokens at either end, and epochs cut the text differently.
class SampleOrder {
 public:
  // Orders of one seed and different streams are unrelated. Throws Error(kInvalidArgument) when sequence_length is not
  // positive or the tokens do not fill one window.
  SampleOrder(uint64_t token_count, int64_t sequence_length, uint64_t seed, uint64_t stream = 0);

  uint64_t samples_per_epoch() const { return epochs_.samples_per_epoch(); }
  // Sample number `sample` of the run, from 0. Its window has sequence_length + 1 tokens.
  SampleWindow window(uint64_t sample) const;
  std::vector<SampleWindow> windows(uint64_t sample) const { return {window(sample)}; }

 private:
  uint64_t sequence_length_;
  bool shifts_;
  EpochOrder epochs_;
};

// The evaluation order: one pass from the first token to the last, each token but the first a target exactly once. The
// last window is short when the tokens do not divide.
class SequentialOrder {
 public:
  // Of the tokens [first_token, first_token + token_count). Throws Error(kInvalidArgument) when sequence_length is not
  // positive or there are fewer than two tokens.
  SequentialOrder(uint64_t token_count, int64_t sequence_length, uint64_t first_token = 0);

  uint64_t sample_count() const { return sample_count_; }
  // `sample` from 0; past the end the window's length is 0.
  SampleWindow window(uint64_t sample) const;

 private:
  uint64_t first_token_;
  uint64_t token_count_;
  uint64_t sequence_length_;
  uint64_t sample_count_;
};

}  // namespace causeway::data
