#include "causeway/generate/cached_forward.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "causeway/base/error.h"
#include "causeway/program/context.h"
#include "causeway/tensor/cast_tensors.h"
#include "causeway/tensor/ops.h"

namespace causeway::generate {
namespace {

// Lengths of what is looked at in a cache are multiples of it.
constexpr int64_t kCacheBlock = 64;

int64_t round_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

int64_t capacity_for(const LanguageModel& model, int64_t longest) {
  const int64_t most = round_up(model.config().max_sequence_length, kCacheBlock);
  const auto power = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max(longest, kCacheBlock))));
  // Where every layer has a full ring, a longer text takes no more.
  bool grows = false;
  for (int64_t layer = 0; layer < model.config().layers; ++layer)
    grows = grows || model.window(layer) == 0 || model.window(layer) > power;
  return grows ? std::min(power, most) : most;
}

// What the step of one token is given beside it: positions of layers that keep all, and slots of rings.
std::vector<StepOptions::SymbolicAxis> looked_at_axes(const KeyValueCache& cache) {
  std::vector<StepOptions::SymbolicAxis> axes;
  if (cache.has_whole_layers()) axes.push_back({2, 0, "S", kCacheBlock});
  if (cache.ring() > 0) axes.push_back({2 + axes.size(), 0, "R", kCacheBlock});
  return axes;
}

StepOptions options_of(const PipelineOptions& pipeline, const std::shared_ptr<CastTensors>& casts,
                       std::vector<StepOptions::SymbolicAxis> axes) {
  StepOptions options;
  options.program.pipeline = pipeline;
  options.symbolic = std::move(axes);
  options.casts = casts;
  return options;
}

Tensor integers(const std::vector<int32_t>& values, const std::vector<int64_t>& shape) {
  return Tensor::from_bytes(std::as_bytes(std::span(values)), shape, DType::kI32);
}

// The numbers from 0, in the tensor that is there if it is as long.
const Tensor& count_to(int64_t length, Tensor& numbers) {
  if (!numbers.defined() || numbers.size(0).constant() != length) {
    std::vector<int32_t> values(static_cast<size_t>(length));
    std::iota(values.begin(), values.end(), 0);
    numbers = integers(values, {length});
  }
  return numbers;
}

void write(const Tensor& tensor, std::span<const int32_t> values) {
  tensor.context()->device().copy_to_device(tensor.buffer().data(), values.data(), values.size_bytes());
}

}  // namespace

CachedForward::CachedForward(const LanguageModel& model, const PipelineOptions& pipeline, int64_t sequences,
                             int64_t longest, int64_t vocabulary, const std::shared_ptr<CastTensors>& casts)
    : cache_(model, sequences, capacity_for(model, longest), kCacheBlock, pipeline.mixed_precision.compute),
      vocabulary_(std::min(vocabulary, model.config().vocabulary_size)),
      begin_(
          [this, &model](const std::vector<Tensor>& arguments) -> std::vector<Tensor> {
            ForwardInputs inputs;
            inputs.tokens = arguments[0];
            inputs.positions = arguments[1];
            inputs.cache = &cache_;
            return next_tokens(model.logits_after(inputs, arguments[2]));
          },
          options_of(pipeline, casts, {{0, 1, "T", 1}, {1, 1, "T", 1}})),
      continue_(
          [this, &model](const std::vector<Tensor>& arguments) -> std::vector<Tensor> {
            ForwardInputs inputs;
            inputs.tokens = arguments[0];
            inputs.positions = arguments[1];
            inputs.cache = &cache_;
            if (cache_.has_whole_layers()) inputs.cached_positions = arguments[2];
            if (cache_.ring() > 0) inputs.ring_slots = arguments.back();
            return next_tokens(model.logits_after(inputs, constant_tensor(DType::kI32, {arguments[0].size(0)}, 0)));
          },
          options_of(pipeline, casts, looked_at_axes(cache_))),
      tokens_(Tensor::uninitialized({sequences, 1}, DType::kI32)),
      positions_(Tensor::uninitialized({sequences, 1}, DType::kI32)) {}

std::vector<Tensor> CachedForward::next_tokens(const Tensor& logits) const {
  const Tensor known = slice(logits, 1, 0, vocabulary_);
  const Tensor is_largest = eq(known, unsqueeze(amax(known, {1}), 1));
  // The first is the one with most tokens behind it.
  const Tensor behind = vocabulary_ - 1 - index_tensor(DType::kI32, known.shape(), 1);
  const Tensor most_behind = amax(where(is_largest, behind, -1), {1});
  const Tensor is_finite = amax(where(isfinite(known), zeros_like(behind), 1), {1}) < 1;
  return {logits, where(is_finite, vocabulary_ - 1 - most_behind, -1)};
}

NextTokens CachedForward::begin(std::span<const std::vector<int32_t>> beginnings) {
  CAUSEWAY_CHECK(static_cast<int64_t>(beginnings.size()) == sequences());
  size_t longest = 1;
  for (const std::vector<int32_t>& beginning : beginnings) longest = std::max(longest, beginning.size());
  // Behind its end a row has tokens that nothing before them attends to, and whose keys are not kept.
  std::vector<int32_t> tokens(beginnings.size() * longest), positions(tokens.size(), -1), last(beginnings.size());
  for (size_t i = 0; i < beginnings.size(); ++i) {
    const std::vector<int32_t>& beginning = beginnings[i];
    if (beginning.empty()) continue;
    const auto row = static_cast<ptrdiff_t>(i * longest);
    std::copy(beginning.begin(), beginning.end(), tokens.begin() + row);
    std::iota(positions.begin() + row, positions.begin() + row + static_cast<ptrdiff_t>(beginning.size()), 0);
    last[i] = static_cast<int32_t>(beginning.size()) - 1;
  }
  const auto columns = static_cast<int64_t>(longest);
  const std::vector<Tensor> next = begin_({integers(tokens, {sequences(), columns}),
                                           integers(positions, {sequences(), columns}), integers(last, {sequences()})});
  return {next[0], next[1]};
}

std::vector<Tensor> CachedForward::arguments(int64_t length) {
  const int64_t looked_at = round_up(std::max<int64_t>(length, 1), kCacheBlock);
  std::vector<Tensor> all = {tokens_, positions_};
  if (cache_.has_whole_layers()) all.push_back(count_to(looked_at, cached_positions_));
  if (cache_.ring() > 0) all.push_back(count_to(std::min(looked_at, cache_.ring()), ring_slots_));
  return all;
}

NextTokens CachedForward::go_on(std::span<const int32_t> tokens, std::span<const int32_t> positions) {
  CAUSEWAY_CHECK(static_cast<int64_t>(tokens.size()) == sequences() && positions.size() == tokens.size());
  write(tokens_, tokens);
  write(positions_, positions);
  const std::vector<Tensor>& next = continue_.run(arguments(*std::max_element(positions.begin(), positions.end()) + 1));
  return {next[0], next[1]};
}

Program& CachedForward::program(int64_t length) {
  const std::vector<Tensor> all = arguments(length);
  return continue_.prepare({all.begin(), all.end()});
}

SymbolBindings CachedForward::sizes(int64_t length) {
  const std::vector<Tensor> all = arguments(length);
  return continue_.sizes({all.begin(), all.end()});
}

std::vector<double> CachedForward::kernel_seconds(int64_t length) {
  write(tokens_, std::vector<int32_t>(static_cast<size_t>(sequences())));
  write(positions_, std::vector<int32_t>(static_cast<size_t>(sequences()), static_cast<int32_t>(length) - 1));
  return continue_.run_timed(arguments(length));
}

}  // namespace causeway::generate
