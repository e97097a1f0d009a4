#include "causeway/model/sequence_order.h"

#include <fmt/format.h>

#include <utility>

#include "causeway/base/error.h"
#include "causeway/tensor/ops.h"

namespace causeway::model {

SequenceOrder SequenceOrder::balanced(int64_t length, int64_t ranks) {
  SequenceOrder order;
  if (ranks == 1) return order;
  if (length % (2 * ranks) != 0)
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("{} positions are not divisible into two chunks for each of {} ranks", length, ranks),
                "sequence order", "Take a length that is.");
  order.ranks_ = ranks;
  order.chunk_ = length / (2 * ranks);
  return order;
}

int64_t SequenceOrder::position(int64_t place) const {
  if (is_plain()) return place;
  const int64_t rank = place / (2 * chunk_), within = place % (2 * chunk_);
  return within < chunk_ ? rank * chunk_ + within : (2 * ranks_ - 2 - rank) * chunk_ + within;
}

Tensor SequenceOrder::position(const Tensor& place) const {
  if (is_plain()) return place;
  const Tensor before = floor_divide(place, 2 * chunk_) * chunk_, within = fmod(place, 2 * chunk_);
  return where(lt(within, chunk_), before, 2 * (ranks_ - 1) * chunk_ - before) + within;
}

MaskFunction SequenceOrder::of_places(MaskFunction mask) const {
  if (is_plain() || !mask) return mask;
  return [order = *this, mask = std::move(mask)](const AttentionPosition& at) {
    return mask({at.batch, at.head, order.position(at.query), order.position(at.key)});
  };
}

ScoreFunction SequenceOrder::of_places(ScoreFunction score) const {
  if (is_plain() || !score) return score;
  return [order = *this, score = std::move(score)](const AttentionPosition& at, const Tensor& value) {
    return score({at.batch, at.head, order.position(at.query), order.position(at.key)}, value);
  };
}

}  // namespace causeway::model
