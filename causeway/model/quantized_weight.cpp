#include "causeway/model/quantized_weight.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/formats/box.h"
#include "causeway/model/mesh_axis.h"
#include "causeway/model/nf4.h"
#include "causeway/program/context.h"
#include "causeway/tensor/ops.h"

namespace causeway::model {
namespace {

constexpr char kAbsmax[] = "absmax", kNestedAbsmax[] = "nested_absmax", kScale[] = "scale";
constexpr float kLargestF8 = 448;
constexpr int64_t kNf4Codes = 16;
// Above every scale of a weight that is finite. A minimum with it keeps compilers from fusing the product below it with
// the sum above it, which would round once where bitsandbytes rounds twice.
constexpr double kAboveScales = 3e38;

bool cuts(const Sharding& sharding, MeshAxisId axis) {
  return std::ranges::any_of(sharding.dims, [&](const std::vector<std::string>& axes) {
    return std::ranges::find(axes, name_of(axis)) != axes.end();
  });
}

[[noreturn]] void refuse_blocks(const std::string& name, const ParameterDim& out, const ParameterDim& in) {
  throw Error(
      ErrorKind::kUnsupported,
      fmt::format("{}.weight has {} x {} elements, and they are no whole number of blocks of {} (lora.base=nf4)", name,
                  out.size, in.size, kNf4Block),
      "lora.base", "Set lora.base to f8 or unquantized.");
}

// What an axis cuts of the matrix it is to cut of its blocks: otherwise every rank would hold all of it.
void require_same_cut(const std::string& name, const ParameterDim& in, const Sharding& plain, const Sharding& blocks) {
  for (const MeshAxisId axis : {MeshAxisId::kTp, MeshAxisId::kFsdp}) {
    if (!cuts(plain, axis) || cuts(blocks, axis)) continue;
    throw Error(ErrorKind::kUnsupported,
                fmt::format("cuts {}.weight, and nf4's blocks of {} in its rows of {} cannot be dealt out to so many "
                            "ranks",
                            name, kNf4Block, in.size),
                fmt::format("mesh.{}", name_of(axis)), "Give it fewer ranks, or set lora.base to f8 or unquantized.");
  }
}

// As write_element() rounds, of magnitudes up to 448 and what rounding may add; millions of elements a second.
uint8_t code_of_f8(float value) {
  constexpr uint32_t kCutBits = 20, kSmallestExponent = (127 - 7) << 3, kLargest = 0x7e;
  constexpr float kSmallestNormal = 0x1p-6f, kSubnormals = 0x1p9f;
  const uint32_t sign = std::signbit(value) ? 0x80 : 0;
  const float magnitude = std::abs(value);
  if (magnitude < kSmallestNormal) return static_cast<uint8_t>(sign | std::lrint(magnitude * kSubnormals));
  const auto bits = std::bit_cast<uint32_t>(magnitude);
  const uint32_t rounded = (bits + (1u << (kCutBits - 1)) - 1 + (bits >> kCutBits & 1)) >> kCutBits;
  return static_cast<uint8_t>(sign | std::min(rounded - kSmallestExponent, kLargest));
}

Tensor as_index(const Tensor& codes) { return cast(codes, DType::kI32); }

}  // namespace

int64_t least_bytes_of_base(const AdapterConfig& adapter, int64_t elements, DType unquantized) {
  if (!adapter.has_quantized_base()) return elements * static_cast<int64_t>(size_bytes(unquantized));
  return adapter.base == BaseWeights::kNf4 ? elements / 2 + elements / kNf4Block : elements;
}

std::vector<float> transposed(std::span<const float> values, int64_t rows, int64_t columns) {
  std::vector<float> result(values.size());
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      result[static_cast<size_t>(column * rows + row)] = values[static_cast<size_t>(row * columns + column)];
  return result;
}

Tensor make_code_values() {
  std::vector<double> values(nf4_values().begin(), nf4_values().end());
  values.insert(values.end(), signed_dynamic_values().begin(), signed_dynamic_values().end());
  return Tensor::from_values(values, {static_cast<int64_t>(values.size())});
}

QuantizedWeight::QuantizedWeight(const std::string& name, BaseWeights base, ParameterDim out, ParameterDim in,
                                 DType type, Tensor code_values)
    : name_(name),
      base_(base),
      outputs_(out.size),
      inputs_(in.size),
      type_(type),
      code_values_(std::move(code_values)) {
  CAUSEWAY_CHECK(base != BaseWeights::kUnquantized && (type == DType::kF32 || type == DType::kBF16));
  CAUSEWAY_CHECK(base != BaseWeights::kNf4 || code_values_.defined());
  const Mesh& mesh = Context::current()->mesh();
  const auto add = [&](const char* part, const std::vector<int64_t>& shape, DType dtype, const Sharding& lies) {
    parts_.push_back({part, Tensor::uninitialized(shape, dtype, lies)});
  };
  if (base == BaseWeights::kF8) {
    const Sharding lies = weight_sharding({out, in}, mesh);
    add("", {outputs_, inputs_}, DType::kF8E4M3, lies);
    // Along other axes each part would take a gather of its own.
    Sharding of_outputs{.dims = {{}}, .partial = {}};
    for (const std::string& axis : lies.dims[0])
      if (axis == name_of(MeshAxisId::kTp)) of_outputs.dims[0].push_back(axis);
    add(kScale, {outputs_}, DType::kF32, of_outputs);
    return;
  }
  const int64_t elements = outputs_ * inputs_, blocks = elements / kNf4Block;
  if (elements % kNf4Block != 0) refuse_blocks(name, out, in);
  const bool by_rows = inputs_ % kNf4Block == 0;
  Sharding lies;
  if (by_rows) lies = weight_sharding({out, {inputs_ / kNf4Block, in.logical}}, mesh);
  require_same_cut(name, in, weight_sharding({out, in}, mesh), lies);
  const auto shape = [&](int64_t per_block) {
    return by_rows ? std::vector{outputs_, inputs_ / kNf4Block * per_block} : std::vector{blocks * per_block};
  };
  add("", shape(kNf4Block / 2), DType::kU8, lies);
  add(kAbsmax, shape(1), DType::kU8, lies);
  // The mean stands behind the scales' scales.
  add(kNestedAbsmax, {(blocks + kNf4ScalesBlock - 1) / kNf4ScalesBlock + 1}, DType::kF32, {});
}

Tensor QuantizedWeight::part(const std::string& name) const {
  const auto found = std::ranges::find(parts_, name, &QuantizedPart::name);
  CAUSEWAY_CHECK(found != parts_.end());
  return found->tensor;
}

void QuantizedWeight::write_part(const std::string& name, std::span<const std::byte> whole) {
  Tensor tensor = part(name);
  if (!tensor.is_cut()) return tensor.write_bytes(whole);
  std::vector<std::byte> own(static_cast<size_t>(tensor.local_bytes()));
  copy_common_box(whole, whole_box(evaluate(tensor.shape(), {})), own, {tensor.local_start(), tensor.local_shape()},
                  size_bytes(tensor.dtype()));
  tensor.write_bytes(own);
}

void QuantizedWeight::write(std::span<const float> values, ThreadPool& pool) {
  CAUSEWAY_CHECK(values.size() == static_cast<size_t>(outputs_ * inputs_));
  const auto unfit = std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
  if (unfit != values.end())
    throw Error(ErrorKind::kInvalidArgument, fmt::format("holds {}, which is no weight", *unfit), name_ + ".weight",
                "Fetch the model again.");
  if (base_ == BaseWeights::kNf4) {
    Nf4Values coded = quantize_nf4(values, pool);
    coded.scales_of_scales.push_back(coded.mean);
    write_part("", std::as_bytes(std::span(coded.codes)));
    write_part(kAbsmax, std::as_bytes(std::span(coded.scale_codes)));
    write_part(kNestedAbsmax, std::as_bytes(std::span(coded.scales_of_scales)));
    return;
  }
  std::vector<std::byte> codes(values.size());
  std::vector<float> scales(static_cast<size_t>(outputs_));
  pool.run(outputs_, [&](int64_t row, int) {
    const auto first = static_cast<size_t>(row * inputs_), count = static_cast<size_t>(inputs_);
    const std::span<const float> of_row = values.subspan(first, count);
    float largest = 0;
    for (const float value : of_row) largest = std::max(largest, std::abs(value));
    // Of a row of zeros any will do.
    const float scale = largest == 0 ? 1 : std::max(largest / kLargestF8, 0x1p-126f);
    scales[static_cast<size_t>(row)] = scale;
    for (size_t i = 0; i < count; ++i) codes[first + i] = static_cast<std::byte>(code_of_f8(of_row[i] / scale));
  });
  write_part("", codes);
  write_part(kScale, std::as_bytes(std::span(scales)));
}

// Codes are exchanged, not what they stand for.
Tensor QuantizedWeight::gathered(const std::string& name) const {
  const Tensor tensor = part(name);
  const Mesh& mesh = Context::current()->mesh();
  if (mesh.empty() || !tensor.is_cut()) return tensor;
  Sharding lies = tensor.sharding();
  for (std::vector<std::string>& axes : lies.dims)
    std::erase_if(axes, [&](const std::string& axis) { return mesh.axes[mesh.axis(axis)].gathers_weights; });
  return constrain_sharding(tensor, lies);
}

Tensor QuantizedWeight::dequantize_nf4() const {
  const Tensor bytes = as_index(gathered("")), scale_codes = as_index(gathered(kAbsmax));
  const Tensor nested = part(kNestedAbsmax);
  constexpr int kShift = std::countr_zero(static_cast<uint64_t>(kNf4ScalesBlock));
  const Shape& blocks = scale_codes.shape();
  Tensor number = index_tensor(DType::kI32, blocks, scale_codes.rank() - 1);
  if (scale_codes.rank() == 2)
    number = index_tensor(DType::kI32, blocks, 0) * dimension_scalar(blocks[1], DType::kI32) + number;
  const Tensor scale_of_scale = index_select(nested, 0, bitwise_right_shift(number, kShift));
  const Tensor scale_value = index_select(code_values_, 0, scale_codes + kNf4Codes);
  const int64_t last = nested.size(0).constant() - 1;
  const Tensor scale = minimum(scale_value * scale_of_scale, kAboveScales) + narrow(nested, 0, last, 1);
  // The first of two is the upper half.
  const Tensor shift = (1 - index_tensor(DType::kI32, {Dim(2)}, 0)) * 4;
  const Tensor codes = bitwise_and(bitwise_right_shift(unsqueeze(bytes, -1), shift), 15);
  Shape in_blocks = blocks;
  in_blocks.push_back(Dim(kNf4Block));
  return reshape(index_select(code_values_, 0, codes), in_blocks) * unsqueeze(scale, -1);
}

Tensor QuantizedWeight::dequantize() const {
  const Tensor values =
      base_ == BaseWeights::kNf4 ? dequantize_nf4() : cast(gathered(""), DType::kF32) * unsqueeze(gathered(kScale), 1);
  return cast(reshape(values, {Dim(outputs_), Dim(inputs_)}), type_);
}

}  // namespace causeway::model
