#include "causeway/tensor/routing_ops.h"

#include "causeway/tensor/arithmetic_ops.h"
#include "causeway/tensor/comparison_ops.h"
#include "causeway/tensor/indexing_ops.h"
#include "causeway/tensor/reduction_ops.h"
#include "causeway/tensor/shape_ops.h"

namespace causeway::tensor {
namespace {

// Sums of i32 [P, T, E] over the tokens before each. In two levels, where that makes shorter sequences: a scan goes
// along them one after the other.
Tensor sums_before(const Tensor& x) {
  constexpr int64_t kBlock = 128;
  const auto scan = [](const Tensor& of, int64_t axis) { return cast(cumsum(of, axis), DType::kI32) - of; };
  const Dim& tokens = x.size(1);
  if (!tokens.is_constant() || tokens.constant() % kBlock != 0 || tokens.constant() < 2 * kBlock) return scan(x, 1);
  const Tensor blocks = reshape(x, {x.size(0), tokens.constant() / kBlock, kBlock, x.size(2)});
  const Tensor of_blocks = cast(sum(blocks, {2}), DType::kI32);
  return reshape(scan(blocks, 2) + unsqueeze(scan(of_blocks, 1), 2), x.shape());
}

Shape flat_rows(const Tensor& index, const Dim& width) { return {element_count(index.shape()), width}; }

}  // namespace

ExpertChoice choose_experts(const Tensor& logits, int64_t k, bool normalized) {
  require_argument(logits.rank() == 3 && is_float(logits.dtype()), "choose_experts", "takes floats [P, T, E]",
                   {logits});
  const Dim& experts = logits.size(2);
  require_argument(experts.is_constant() && k >= 1 && k <= experts.constant(), "choose_experts",
                   fmt::format("{} of the experts of each token", k), {logits});
  ExpertChoice choice;
  choice.probabilities = softmax(cast(logits, DType::kF32));
  const TopK best = topk(choice.probabilities, k);
  choice.experts = best.indices;
  choice.weights = normalized ? best.values / sum(best.values, {-1}, true) : best.values;
  return choice;
}

ExpertRows rows_by_expert(const Tensor& experts, int64_t count) {
  require_argument(experts.rank() == 3 && experts.dtype() == DType::kI32 && experts.size(2).is_constant(),
                   "rows_by_expert", "takes i32 [P, T, k]", {experts});
  require_argument(count >= 1, "rows_by_expert", fmt::format("{} experts", count), {experts});
  const Dim &slabs = experts.size(0), &tokens = experts.size(1);
  const int64_t k = experts.size(2).constant();
  const Shape by_choice = {slabs, tokens, k, count};
  const Tensor chosen = eq(unsqueeze(experts, -1), index_tensor(DType::kI32, by_choice, 3));
  const auto ints = [](const Tensor& x) { return cast(x, DType::kI32); };
  const Tensor of_token = ints(sum(ints(chosen), {2}));  // [P, T, E]: 0 or 1, where a token's experts differ
  ExpertRows rows;
  rows.per_token = k;
  rows.counts = ints(sum(of_token, {1}));
  const Tensor ends = ints(cumsum(rows.counts, 1));
  rows.offsets = pad(ends, {1, 0});
  // The first row of each expert that is a token's: behind those of the experts before it and of the tokens before it.
  const Tensor first = unsqueeze(ends - rows.counts, 1) + sums_before(of_token);
  Tensor row = sum(where(chosen, unsqueeze(first, 2), 0), {3});  // [P, T, k]
  // Behind a token's own choices of the same expert: there are none but where logits were not finite.
  const Shape by_pair = {slabs, tokens, k, k};
  const Tensor same = eq(unsqueeze(experts, 3), unsqueeze(experts, 2));
  const Tensor earlier = lt(index_tensor(DType::kI32, by_pair, 3), index_tensor(DType::kI32, by_pair, 2));
  row = ints(row) + ints(sum(ints(logical_and(same, earlier)), {3}));
  const Shape flat = {slabs, tokens * Dim(k)};
  const Tensor start = index_tensor(DType::kI32, flat, 0) * dimension_scalar(flat[1], DType::kI32);
  rows.row_of_slot = start + reshape(row, flat);
  rows.slot_of_row = inverse_permutation(rows.row_of_slot);
  return rows;
}

Tensor permute_rows(const Tensor& x, const ExpertRows& rows) {
  const Dim &slabs = rows.row_of_slot.size(0), &count = rows.row_of_slot.size(1);
  require_argument(x.rank() == 3 && x.size(0) == slabs && x.size(1) * Dim(rows.per_token) == count, "permute_rows",
                   "takes the values [P, T, d] of the tokens that were routed", {x, rows.row_of_slot});
  const Dim& width = x.size(2);
  const Tensor repeated = broadcast_to(unsqueeze(x, 2), {slabs, x.size(1), rows.per_token, width});
  const Tensor flat = reshape(repeated, flat_rows(rows.row_of_slot, width));
  return reshape(gather_permuted(flat, rows.slot_of_row), {slabs, count, width});
}

Tensor combine_rows(const Tensor& y, const Tensor& weights, const ExpertRows& rows) {
  const Dim &slabs = rows.row_of_slot.size(0), &count = rows.row_of_slot.size(1);
  require_argument(y.rank() == 3 && y.size(0) == slabs && y.size(1) == count && weights.rank() == 3 &&
                       weights.size(0) == slabs && weights.size(1) * weights.size(2) == count,
                   "combine_rows", "takes values [P, T k, d] and weights [P, T, k] of the tokens that were routed",
                   {y, weights, rows.row_of_slot});
  const Dim& width = y.size(2);
  const Tensor by_slot = gather_permuted(reshape(y, flat_rows(rows.row_of_slot, width)), rows.row_of_slot);
  const Tensor of_tokens = reshape(by_slot, {slabs, weights.size(1), weights.size(2), width});
  return sum(of_tokens * unsqueeze(weights, 3), {2});
}

Tensor balance_loss(const Tensor& counts, const Tensor& probabilities, double tokens) {
  require_argument(counts.rank() == 1 && counts.shape() == probabilities.shape() && counts.size(0).is_constant(),
                   "balance_loss", "takes counts and probabilities [E]", {counts, probabilities});
  const auto experts = static_cast<double>(counts.size(0).constant());
  return sum(stop_gradient(counts) * probabilities) * (experts / (tokens * tokens));
}

}  // namespace causeway::tensor
