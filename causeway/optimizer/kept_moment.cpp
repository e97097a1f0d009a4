#include "causeway/optimizer/kept_moment.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "causeway/optimizer/stochastic_rounding.h"
#include "causeway/tensor/ops.h"

namespace causeway::optimizer {
namespace {

constexpr const char* kMoments = "moments";
constexpr const char* kMomentBlock = "moment_block";
constexpr const char* kMomentRounding = "moment_rounding";
constexpr int kDecades = 7;
constexpr double kSmallestScale = 0x1p-126;  // below it what is kept is 0

// The code has kDecades decades, (10^(d-7), 10^(d-6)] of decade d, each in equal cells whose middles are the values:
// 2^d cells of magnitudes that have a sign, twice as many of others. The bytes of a decade (magnitudes of signed ones)
// follow its number of cells: n, ..., 2n - 1. So the decade is the byte's highest bit, and the cell what is below it.
constexpr double kLowest = 0.1;  // of a decade whose highest is 1
constexpr double kSpan = 1 - kLowest;

// The highest bit of the first decade's bytes.
double first_bit(Average average) { return average == Average::kOfSquares ? 1 : 0; }
// Halfway from the last value to 1.
double least_of_one(Average average) {
  return 1 - kSpan / 4 / std::ldexp(1.0, kDecades - 1 + static_cast<int>(first_bit(average)));
}
// 10^x.
Tensor power_of_ten(const Tensor& x) { return exp2(x * std::log2(10.0)); }

// The byte of 1, which stands for no value of a decade, and would be -0 of the signed ones.
double code_of_one(Average average) { return average == Average::kOfSquares ? 1 : 128; }

Tensor in_blocks(const Tensor& x, const Tensor& scales) {
  Shape shape = x.shape();
  const Dim blocks = scales.shape().back();
  const int64_t size = shape.back().constant() / blocks.constant();
  shape.back() = blocks;
  shape.push_back(Dim(size));
  return reshape(x, shape);
}

bool is_coded(const Parameter& parameter, const OptimizerConfig& config) { return moment_block(parameter, config) > 0; }

}  // namespace

std::vector<OptimizerKey> moment_keys() {
  return {
      OptimizerKey::one_of(kMoments, {"f32", "bf16", "8bit"}, "what its averages are kept in"),
      {kMomentBlock, int64_t{256}, "elements of a row that share a scale, at most, of averages in 8 bits",
       [](const OptimizerValue& value) -> std::string {
         const int64_t size = std::get<int64_t>(value);
         return size >= kSmallestBlock && std::has_single_bit(static_cast<uint64_t>(size))
                    ? ""
                    : fmt::format("must be a power of two and at least {}", kSmallestBlock);
       }},
      OptimizerKey::one_of(kMomentRounding, {"nearest", "stochastic"}, "how averages in bf16 or 8 bits are rounded")};
}

std::string moment_key_without_effect(const OptimizerConfig& config) {
  const auto moments = config.own.find(kMoments);
  if (moments == config.own.end()) return "";
  const auto& form = std::get<std::string>(moments->second);
  for (const OptimizerKey& key : moment_keys()) {
    const bool acts = key.name == kMoments || form == "8bit" || (key.name == kMomentRounding && form == "bf16");
    const auto given = config.own.find(key.name);
    if (!acts && given != config.own.end() && given->second != key.default_value) return key.name;
  }
  return "";
}

int64_t moment_block(const Parameter& parameter, const OptimizerConfig& config) {
  const Shape& shape = parameter.tensor.shape();
  if (shape.size() < 2) return 0;
  const int64_t size = shape.back().constant();
  const int64_t block = std::min(config.own_integer(kMomentBlock), size & -size);
  return block < kSmallestBlock ? 0 : block;
}

std::vector<OptimizerState> moment_states(const std::string& name, const OptimizerConfig& config) {
  const std::string& form = config.own_text(kMoments);
  if (form == "f32") return {{name}};
  if (form == "bf16") return {{name, DType::kBF16}};
  const auto coded = [config](const Parameter& parameter) { return is_coded(parameter, config); };
  const auto plain = [config](const Parameter& parameter) { return !is_coded(parameter, config); };
  const auto block = [config](const Parameter& parameter) {
    std::vector<int64_t> sizes(parameter.tensor.shape().size(), 1);
    sizes.back() = moment_block(parameter, config);
    return sizes;
  };
  return {{name, DType::kF32, plain},
          {name, DType::kU8, coded},
          {name + "_scale", DType::kF32, coded, block, kMomentBlock}};
}

Tensor decode_moment(const Tensor& codes, Average average) {
  const Tensor code = cast(codes, DType::kF32);
  const bool is_signed = average == Average::kOfValues;
  const Tensor negative = gt(code, 128.0);
  // The middle of the cell, from where a decade of no cells would begin.
  const Tensor middle = (is_signed ? where(negative, code - 128.0, code) : code) + 0.5;
  const Tensor bit = floor(log2(middle));
  const Tensor in_decade = middle * exp2(-bit) * kSpan - (kSpan - kLowest);
  Tensor value = in_decade * power_of_ten(bit - (kDecades - 1 + first_bit(average)));
  if (is_signed) value = where(negative, -value, value);
  return where(eq(code, 0.0), 0.0, where(eq(code, code_of_one(average)), 1.0, value));
}

Tensor encode_moment(const Tensor& x, Average average, const Tensor& random) {
  const bool is_signed = average == Average::kOfValues;
  const Tensor magnitude = is_signed ? abs(x) : x;
  const Tensor decade = clamp(floor(log2(magnitude) * std::log10(2.0) + kDecades), 0.0, kDecades - 1.0);
  const Tensor cells = exp2(decade + first_bit(average));
  // Cell k of the decade is from k to k + 1, and its value in the middle.
  const Tensor place = (magnitude * power_of_ten(kDecades - 1.0 - decade) * (1 / kSpan) - kLowest / kSpan) * cells;
  Tensor cell;
  if (random.defined()) {
    cell = floor(maximum(place + (cast(random, DType::kF32) * 0x1p-16 - (0.5 - 0x1p-17)), 0.0));
    // Below the middle of the first decade's first cell there is 0 alone.
    if (is_signed) cell = where(lt(magnitude, 0.275e-6), -1.0, cell);
  } else {
    // The last value of the decade before is at -0.1, so up to 0.2 it is the nearest.
    cell = where(lt(place, 0.2), -1.0, floor(place));
  }
  Tensor code = cells + minimum(cell, cells - 1.0);
  if (is_signed) {
    code = where(logical_and(lt(x, 0.0), gt(code, 0.5)), code + 128.0, code);
  } else {
    // What is not 0 has a value that is not.
    code = where(gt(x, 0.0), maximum(code, 2.0), 0.0);
  }
  return cast(where(gt(x, least_of_one(average)), code_of_one(average), code + 0.5), DType::kU8);
}

Tensor kept_moment(std::span<const Tensor> kept, Average average) {
  if (kept.size() == 1) return cast(kept[0], DType::kF32);
  const Tensor &codes = kept[0], &scales = kept[1];
  const Tensor value = decode_moment(in_blocks(codes, scales), average) * unsqueeze(scales, -1);
  return reshape(average == Average::kOfSquares ? value * value : value, codes.shape());
}

Tensor random_16_bits(const ParameterUpdate& of, const OptimizerConfig& config, Average average) {
  const std::string& form = config.own_text(kMoments);
  const bool rounds = form == "bf16" || (form == "8bit" && is_coded(of.parameter, config));
  if (!rounds || config.own_text(kMomentRounding) == "nearest") return {};
  const Tensor bits = rounding_bits(of, RoundingStream::kMoments);
  return average == Average::kOfSquares ? upper_16_bits(bits) : lower_16_bits(bits);
}

std::vector<Tensor> keep_moment(const Tensor& value, std::span<const Tensor> before, Average average,
                                const Tensor& random) {
  if (before.size() == 1)
    return {cast(random.defined() ? stochastically_rounded_to_bf16(value, random) : value, before[0].dtype())};
  const Tensor &codes = before[0], &scales = before[1];
  const Tensor blocks = in_blocks(average == Average::kOfSquares ? sqrt(value) : value, scales);
  const Tensor scale = amax(abs(blocks), -1, true);
  const Tensor share = blocks / clamp_min(scale, kSmallestScale);
  const Tensor of_blocks = random.defined() ? in_blocks(random, scales) : random;
  return {reshape(encode_moment(share, average, of_blocks), codes.shape()), squeeze(scale, -1)};
}

}  // namespace causeway::optimizer
