#include "causeway/model/key_value_cache.h"

#include <cmath>
#include <limits>

#include "causeway/program/context.h"
#include "causeway/tensor/ops.h"

namespace causeway::model {

KeyValueCache::KeyValueCache(const ModelConfig& config, int64_t sequences, int64_t capacity, DType dtype)
    : sequences_(sequences), capacity_(capacity) {
  for (int64_t i = 0; i < config.layers; ++i)
    layers_.push_back(Tensor::zeroed({sequences * capacity, 2 * config.kv_heads * config.head_dim}, dtype));
}

KeyValueCache::Layer KeyValueCache::keep(int64_t layer, const Tensor& k, const Tensor& v,
                                         const Tensor& positions) const {
  const Tensor& kept = layers_[static_cast<size_t>(layer)];
  const Tensor first = index_tensor(DType::kI32, positions.shape(), 0) * capacity_;
  // Beyond the last row, where nothing is added.
  const Tensor nowhere = constant_tensor(DType::kI32, positions.shape(), static_cast<double>(sequences_ * capacity_));
  const Tensor rows =
      reshape(where(positions < 0, nowhere, first + positions), {positions.size(0) * positions.size(1)});
  const Tensor added = cast(cat({k, v}, 2), kept.dtype());
  const Tensor longer = index_add(kept, 0, rows, reshape(added, {rows.size(0), kept.size(1)}));
  Tensor(kept).assign(longer);
  const Dim &heads = k.size(2), &width = k.size(3);
  const std::vector<Tensor> halves =
      split(reshape(longer, {Dim(sequences_), Dim(capacity_), Dim(2) * heads, width}), heads.constant(), 2);
  return {halves[0], halves[1]};
}

void KeyValueCache::clear() {
  for (const Tensor& layer : layers_)
    layer.context()->device().fill_with_zeros(layer.buffer().data(), static_cast<size_t>(layer.local_bytes()));
}

int64_t KeyValueCache::bytes() const {
  int64_t bytes = 0;
  for (const Tensor& layer : layers_) bytes += layer.local_bytes();
  return bytes;
}

namespace {

// A processor's attention kernel copies keys for many queries; for one it is faster to sum products.
Tensor attend_by_sums(const Tensor& q, const Tensor& keys, const Tensor& values, const Tensor& positions,
                      const Tensor& cached_positions, const AttentionForm& form) {
  const Dim &sequences = q.size(0), &heads = q.size(2), &width = q.size(3), &groups = keys.size(2);
  const Dim queries(heads.constant() / groups.constant());
  const auto read = [&](const Tensor& kept) {  // [B, Hk, 1, S, D]
    return unsqueeze(cast(permute(kept, {0, 2, 1, 3}), DType::kF32), 2);
  };
  const Tensor query = reshape(cast(q, DType::kF32), {sequences, groups, queries, Dim(1), width});
  const double scale = form.scale > 0 ? form.scale : 1 / std::sqrt(static_cast<double>(width.constant()));
  Tensor scores = sum(query * read(keys), {-1}) * scale;
  // [B, S]: how many positions back a key is.
  const Tensor back = maximum(positions, 0) - unsqueeze(cached_positions, 0);
  const auto over_heads = [&](const Tensor& of_keys) { return unsqueeze(unsqueeze(of_keys, 1), 1); };
  if (form.softcap > 0) scores = tanh(scores / form.softcap) * form.softcap;
  if (form.slopes.defined())
    scores = scores - reshape(form.slopes, {Dim(1), groups, queries, Dim(1)}) * over_heads(cast(back, DType::kF32));
  Tensor seen = back >= 0;
  if (form.window > 0) seen = logical_and(seen, back < form.window);
  const Tensor masked = where(over_heads(seen), scores, -std::numeric_limits<double>::infinity());
  const Tensor weights = unsqueeze(softmax(masked, -1), -1);
  return reshape(sum(weights * read(values), {3}), {sequences, Dim(1), heads, width});
}

}  // namespace

Tensor attend_to_cache(const Tensor& q, const KeyValueCache::Layer& cached, const Tensor& positions,
                       const Tensor& cached_positions, const AttentionForm& form) {
  const Dim& length = cached_positions.size(0);
  const Tensor keys = slice(cached.keys, 1, 0, length), values = slice(cached.values, 1, 0, length);
  if (!positions.context()->device().target().is_gpu())
    return attend_by_sums(q, keys, values, positions, cached_positions, form);
  AttentionOptions options;
  options.block_map = false;
  if (form.scale > 0) options.scale = form.scale;
  const auto back = [&](const AttentionPosition& at_pair) {  // how many positions a key is behind the query
    return at(positions, {at_pair.batch, at_pair.query}) - at_pair.key;
  };
  options.mask = [&](const AttentionPosition& at_pair) {
    const Tensor behind = back(at_pair);
    return form.window > 0 ? logical_and(behind >= 0, behind < form.window) : behind >= 0;
  };
  if (form.softcap > 0) options.score = softcap_score(form.softcap);
  if (form.slopes.defined())
    options.score = [&](const AttentionPosition& at_pair, const Tensor& score) {
      return score - at(form.slopes, {at_pair.head}) * cast(back(at_pair), DType::kF32);
    };
  return attention(q, keys, values, options);
}

}  // namespace causeway::model
