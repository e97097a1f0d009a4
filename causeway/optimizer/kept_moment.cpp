#include "causeway/optimizer/kept_moment.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "causeway/tensor/ops.h"

namespace causeway::optimizer {
namespace {

constexpr const char* kMoments = "moments";
constexpr const char* kMomentBlock = "moment_block";
constexpr int kDecades = 7;
constexpr double kSmallestScale = 0x1p-126;  // of which the reciprocal is finite

// One decade of the code, (10^(i-7), 10^(i-6)], in equal cells whose middles are the values: bytes (magnitudes of
// signed ones) `cells` to 2 cells - 1.
struct Decade {
  double cells;
  double low, high;
  double value(double cell) const { return low + (high - low) * (cell + 0.5) / cells; }
  double cells_per_unit() const { return cells / (high - low); }
};

// A bit more for magnitudes where there is no sign.
Decade decade(int index, Average average) {
  const double high = std::pow(10.0, index - kDecades + 1);
  return {std::ldexp(1.0, index + (average == Average::kOfSquares ? 1 : 0)), high / 10, high};
}

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
  return {OptimizerKey::one_of(kMoments, {"f32", "bf16", "8bit"}, "what its averages are kept in"),
          {kMomentBlock, int64_t{256}, "elements of a row that share a scale, at most, of averages in 8 bits",
           [](const OptimizerValue& value) -> std::string {
             const int64_t size = std::get<int64_t>(value);
             return size >= kSmallestBlock && std::has_single_bit(static_cast<uint64_t>(size))
                        ? ""
                        : fmt::format("must be a power of two and at least {}", kSmallestBlock);
           }}};
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
  const Tensor magnitude = is_signed ? where(negative, code - 128.0, code) : code;
  // In each decade a line through the values of its cells.
  Tensor slope = zeros_like(code), offset = zeros_like(code);
  for (int i = 0; i < kDecades; ++i) {
    const Decade of = decade(i, average);
    const Tensor here = ge(magnitude, of.cells);
    slope = where(here, 1 / of.cells_per_unit(), slope);
    offset = where(here, of.value(-of.cells), offset);
  }
  Tensor value = magnitude * slope + offset;
  if (is_signed) value = where(negative, -value, value);
  return where(eq(code, code_of_one(average)), 1.0, value);
}

Tensor encode_moment(const Tensor& x, Average average) {
  const bool is_signed = average == Average::kOfValues;
  const Tensor magnitude = is_signed ? abs(x) : x;
  Tensor slope = zeros_like(x), offset = zeros_like(x), cells = zeros_like(x);
  for (int i = 0; i < kDecades; ++i) {
    const Decade of = decade(i, average);
    // Halfway from the last value of the decade before. Of squares what is not 0 has a value that is not.
    double from = 0;
    if (i > 0) {
      const Decade before = decade(i - 1, average);
      from = (before.value(before.cells - 1) + of.value(0)) / 2;
    } else if (is_signed) {
      from = of.value(0) / 2;
    }
    const Tensor here = gt(magnitude, from);
    slope = where(here, of.cells_per_unit(), slope);
    offset = where(here, of.low * of.cells_per_unit(), offset);
    cells = where(here, of.cells, cells);
  }
  const Tensor cell = maximum(minimum(floor(magnitude * slope - offset), cells - 1.0), 0.0);
  Tensor code = cells + cell;
  const Decade last = decade(kDecades - 1, average);
  const double to_one = (last.value(last.cells - 1) + 1) / 2;
  if (is_signed) code = where(logical_and(lt(x, 0.0), gt(code, 0.0)), code + 128.0, code);
  return cast(where(gt(x, to_one), code_of_one(average), code), DType::kU8);
}

Tensor kept_moment(std::span<const Tensor> kept, Average average) {
  if (kept.size() == 1) return cast(kept[0], DType::kF32);
  const Tensor &codes = kept[0], &scales = kept[1];
  const Tensor value = decode_moment(in_blocks(codes, scales), average) * unsqueeze(scales, -1);
  return reshape(average == Average::kOfSquares ? value * value : value, codes.shape());
}

std::vector<Tensor> keep_moment(const Tensor& value, std::span<const Tensor> before, Average average) {
  if (before.size() == 1) return {cast(value, before[0].dtype())};
  const Tensor &codes = before[0], &scales = before[1];
  const Tensor blocks = in_blocks(average == Average::kOfSquares ? sqrt(value) : value, scales);
  const Tensor scale = amax(abs(blocks), -1, true);
  const Tensor share = blocks * where(gt(scale, kSmallestScale), 1.0 / scale, 0.0);
  return {reshape(encode_moment(share, average), codes.shape()), squeeze(scale, -1)};
}

}  // namespace causeway::optimizer
