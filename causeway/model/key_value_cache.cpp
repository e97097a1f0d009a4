#include "causeway/model/key_value_cache.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "causeway/base/error.h"
#include "causeway/program/context.h"
#include "causeway/tensor/ops.h"

namespace causeway::model {

KeyValueCache::KeyValueCache(const LanguageModel& model, int64_t sequences, int64_t capacity, int64_t block,
                             DType dtype)
    : sequences_(sequences),
      capacity_(capacity),
      heads_first_(!Context::current()->device().target().has_decode_attention()) {
  const ModelConfig& config = model.config();
  const int64_t heads = 2 * config.kv_heads, width = config.head_dim;
  for (int64_t i = 0; i < config.layers; ++i) {
    const int64_t slots = (model.window(i) + block - 1) / block * block;
    const bool is_ring = slots > 0 && slots < capacity;
    CAUSEWAY_CHECK(!is_ring || ring_ == 0 || ring_ == slots, "no family has windows of two lengths");
    if (is_ring) ring_ = slots;
    const int64_t rows = sequences * (is_ring ? slots : capacity);
    const std::vector<int64_t> shape =
        heads_first_ ? std::vector{heads, rows, width} : std::vector{rows, heads * width};
    layers_.push_back({Tensor::zeroed(shape, dtype), is_ring});
  }
}

KeyValueCache::Layer KeyValueCache::keep(int64_t layer, const Tensor& k, const Tensor& v,
                                         const Tensor& positions) const {
  const auto& [kept, is_ring] = layers_[static_cast<size_t>(layer)];
  const int64_t slots = is_ring ? ring_ : capacity_;
  Tensor is_kept = positions >= 0, slot = positions;
  if (is_ring) {
    slot = fmod(positions, slots);
    // Of more tokens than slots the last ones, so that no two have the same.
    if (!positions.size(1).is_constant(1))
      is_kept = logical_and(is_kept, positions > unsqueeze(amax(positions, {1}), 1) - slots);
  }
  const Tensor first = index_tensor(DType::kI32, positions.shape(), 0) * slots;
  // Beyond the last row, where nothing is written.
  const Tensor nowhere = constant_tensor(DType::kI32, positions.shape(), static_cast<double>(sequences_ * slots));
  const Tensor rows = reshape(where(is_kept, first + slot, nowhere), {positions.size(0) * positions.size(1)});
  const Dim heads = Dim(2) * k.size(2), &width = k.size(3);
  const Tensor both = cast(cat({k, v}, 2), kept.dtype());
  const Tensor added = heads_first_ ? permute(reshape(both, {rows.size(0), heads, width}), {1, 0, 2})
                                    : reshape(both, {rows.size(0), heads * width});
  const Tensor written = index_copy(kept, heads_first_ ? 1 : 0, rows, added);
  Tensor(kept).assign(written);
  const Tensor all = heads_first_ ? permute(reshape(written, {heads, Dim(sequences_), Dim(slots), width}), {1, 2, 0, 3})
                                  : reshape(written, {Dim(sequences_), Dim(slots), heads, width});
  const std::vector<Tensor> halves = split(all, k.size(2).constant(), 2);
  return {halves[0], halves[1], is_ring};
}

bool KeyValueCache::has_whole_layers() const {
  return std::any_of(layers_.begin(), layers_.end(), [](const KeptLayer& layer) { return !layer.is_ring; });
}

void KeyValueCache::clear() {
  for (const auto& [tokens, is_ring] : layers_)
    tokens.context()->device().fill_with_zeros(tokens.buffer().data(), static_cast<size_t>(tokens.local_bytes()));
}

int64_t KeyValueCache::bytes() const {
  int64_t bytes = 0;
  for (const KeptLayer& layer : layers_) bytes += layer.tokens.local_bytes();
  return bytes;
}

namespace {

// Which keys a query sees, of those in a layer's slots.
struct Sight {
  Tensor back;  // how many positions the key is behind the query
  Tensor seen;
};

// Of positions and slots of one shape, or that broadcast. In a ring, what is in a slot is less than a round back, and
// is there if the sequence has got so far.
Sight look_back(const Tensor& position, const Tensor& slot, const KeyValueCache::Layer& cached, int64_t window) {
  Sight sight;
  sight.back = position - slot;
  sight.seen = sight.back >= 0;
  if (cached.is_ring) {
    const int64_t slots = cached.keys.size(1).constant();
    // The quotient depends on no key, and so is had once.
    const Tensor back = fmod(position, slots) - slot;
    sight.back = where(back < 0, back + slots, back);
    sight.seen = sight.back <= position;
  }
  if (window > 0) sight.seen = logical_and(sight.seen, sight.back < window);
  return sight;
}

// Where the attention kernel is made for many queries (Target::has_decode_attention).
Tensor attend_by_sums(const Tensor& q, const KeyValueCache::Layer& cached, const Tensor& positions, const Tensor& slots,
                      const AttentionForm& form) {
  const Dim &sequences = q.size(0), &heads = q.size(2), &width = q.size(3), &groups = cached.keys.size(2);
  const Dim queries(heads.constant() / groups.constant());
  const auto read = [&](const Tensor& kept) {  // [B, Hk, 1, S, D]
    return unsqueeze(cast(permute(slice(kept, 1, 0, slots.size(0)), {0, 2, 1, 3}), DType::kF32), 2);
  };
  const Tensor query = reshape(cast(q, DType::kF32), {sequences, groups, queries, Dim(1), width});
  const double scale = form.scale > 0 ? form.scale : 1 / std::sqrt(static_cast<double>(width.constant()));
  Tensor scores = sum(query * read(cached.keys), {-1}) * scale;
  const auto [back, seen] = look_back(maximum(positions, 0), unsqueeze(slots, 0), cached, form.window);  // [B, S]
  const auto over_heads = [&](const Tensor& of_keys) { return unsqueeze(unsqueeze(of_keys, 1), 1); };
  if (form.softcap > 0) scores = tanh(scores / form.softcap) * form.softcap;
  if (form.slopes.defined())
    scores = scores - reshape(form.slopes, {Dim(1), groups, queries, Dim(1)}) * over_heads(cast(back, DType::kF32));
  const Tensor masked = where(over_heads(seen), scores, -std::numeric_limits<double>::infinity());
  const Tensor weights = unsqueeze(softmax(masked, -1), -1);
  return reshape(sum(weights * read(cached.values), {3}), {sequences, Dim(1), heads, width});
}

}  // namespace

Tensor attend_to_cache(const Tensor& q, const KeyValueCache::Layer& cached, const Tensor& positions,
                       const Tensor& slots, const AttentionForm& form) {
  if (!positions.context()->device().target().has_decode_attention())
    return attend_by_sums(q, cached, positions, slots, form);
  AttentionOptions options;
  options.block_map = false;
  if (form.scale > 0) options.scale = form.scale;
  const auto sight = [&](const AttentionPosition& at_pair) {
    return look_back(at(positions, {at_pair.batch, at_pair.query}), at_pair.key, cached, form.window);
  };
  options.mask = [&](const AttentionPosition& at_pair) { return sight(at_pair).seen; };
  if (form.softcap > 0) options.score = softcap_score(form.softcap);
  if (form.slopes.defined())
    options.score = [&](const AttentionPosition& at_pair, const Tensor& score) {
      return score - at(form.slopes, {at_pair.head}) * cast(sight(at_pair).back, DType::kF32);
    };
  const Dim& length = slots.size(0);
  return attention(q, slice(cached.keys, 1, 0, length), slice(cached.values, 1, 0, length), options);
}

}  // namespace causeway::model
