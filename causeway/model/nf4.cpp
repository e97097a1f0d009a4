#include "causeway/model/nf4.h"

#include <algorithm>
#include <cmath>

#include "causeway/base/error.h"

namespace causeway::model {
namespace {

constexpr size_t kBlock = kNf4Block, kScalesBlock = kNf4ScalesBlock;

// 1 / scale of a block of zeros, whose elements are 0 whatever it is.
float reciprocal_of_scale(float scale) { return 1.0f / std::max(scale, 1e-38f); }

// The values of one decade of the dynamic code: the middles of `cells` equal cells from 0.1 to 1. The ends of cells are
// counted from the nearer end of the range and rounded once, as PyTorch's linspace has them on processors that fuse
// products and sums. (On others, in PyTorch as here, 42 of the 256 values would be off by a unit in the last place.)
std::vector<float> middles_of_cells(int cells) {
  constexpr float kFirst = 0.1f, kLast = 1.0f;
  const float step = (kLast - kFirst) / static_cast<float>(cells);
  const auto end_of = [&](int i) {
    const bool from_first = i < (cells + 1) / 2;
    return from_first ? std::fma(step, static_cast<float>(i), kFirst)
                      : std::fma(-step, static_cast<float>(cells - i), kLast);
  };
  std::vector<float> middles;
  for (int i = 0; i < cells; ++i) middles.push_back((end_of(i) + end_of(i + 1)) / 2);
  return middles;
}

std::array<float, 256> make_signed_dynamic_values() {
  constexpr int kDecades = 7;
  constexpr float kPowersOfTen[kDecades] = {1e-6f, 1e-5f, 1e-4f, 1e-3f, 1e-2f, 1e-1f, 1};
  std::vector<float> all = {0, 1};
  for (int decade = 0; decade < kDecades; ++decade)
    for (const float middle : middles_of_cells(1 << decade))
      for (const float power : {kPowersOfTen[decade], -kPowersOfTen[decade]}) all.push_back(power * middle);
  std::ranges::sort(all);
  std::array<float, 256> values{};
  CAUSEWAY_CHECK(all.size() == values.size());
  std::ranges::copy(all, values.begin());
  return values;
}

// The values' midpoints: what is above so many of them has that code.
template <size_t kCount>
std::array<float, kCount - 1> midpoints_of(const std::array<float, kCount>& values) {
  std::array<float, kCount - 1> midpoints{};
  for (size_t i = 0; i + 1 < kCount; ++i) midpoints[i] = (values[i] + values[i + 1]) / 2;
  return midpoints;
}

float largest_magnitude(std::span<const float> values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

void code_block(std::span<const float> values, float scale, std::span<uint8_t> codes) {
  static const std::array<float, 15> kMidpoints = midpoints_of(nf4_values());
  const float reciprocal = reciprocal_of_scale(scale);
  uint8_t code[kBlock];
  for (size_t i = 0; i < kBlock; ++i) {
    const float share = std::clamp(values[i] * reciprocal, -1.0f, 1.0f);
    int above = 0;
    for (const float midpoint : kMidpoints) above += share > midpoint ? 1 : 0;
    code[i] = static_cast<uint8_t>(above);
  }
  for (size_t i = 0; i < kBlock / 2; ++i) codes[i] = static_cast<uint8_t>(code[2 * i] << 4 | code[2 * i + 1]);
}

// Codes scales, their mean taken off.
void code_scales(std::span<const float> scales, Nf4Values& coded) {
  static const std::array<float, 255> kMidpoints = midpoints_of(signed_dynamic_values());
  double sum = 0;
  for (const float scale : scales) sum += scale;
  coded.mean = static_cast<float>(sum / static_cast<double>(scales.size()));
  for (size_t first = 0; first < scales.size(); first += kScalesBlock) {
    std::vector<float> rest;
    for (const float scale : scales.subspan(first, std::min(kScalesBlock, scales.size() - first)))
      rest.push_back(scale - coded.mean);
    const float scale = largest_magnitude(rest), reciprocal = reciprocal_of_scale(scale);
    coded.scales_of_scales.push_back(scale);
    for (const float value : rest) {
      const float share = std::clamp(value * reciprocal, -1.0f, 1.0f);
      const auto above = std::ranges::lower_bound(kMidpoints, share) - kMidpoints.begin();
      coded.scale_codes.push_back(static_cast<uint8_t>(above));
    }
  }
}

}  // namespace

const std::array<float, 16>& nf4_values() {
  // Appendix E of the paper.
  static const std::array<float, 16> kValues = {
      -1.0f,
      -0.6961928009986877f,
      -0.5250730514526367f,
      -0.39491748809814453f,
      -0.28444138169288635f,
      -0.18477343022823334f,
      -0.09105003625154495f,
      0.0f,
      0.07958029955625534f,
      0.16093020141124725f,
      0.24611230194568634f,
      0.33791524171829224f,
      0.44070982933044434f,
      0.5626170039176941f,
      0.7229568362236023f,
      1.0f,
  };
  return kValues;
}

const std::array<float, 256>& signed_dynamic_values() {
  static const std::array<float, 256> kValues = make_signed_dynamic_values();
  return kValues;
}

Nf4Values quantize_nf4(std::span<const float> values, ThreadPool& pool) {
  constexpr size_t kBlocksOfTask = 1024;
  CAUSEWAY_CHECK(!values.empty() && values.size() % kBlock == 0);
  const size_t blocks = values.size() / kBlock;
  Nf4Values coded;
  coded.codes.resize(values.size() / 2);
  std::vector<float> scales(blocks);
  const auto tasks = static_cast<int64_t>((blocks + kBlocksOfTask - 1) / kBlocksOfTask);
  pool.run(tasks, [&](int64_t task, int) {
    const size_t first = static_cast<size_t>(task) * kBlocksOfTask;
    for (size_t block = first; block < std::min(blocks, first + kBlocksOfTask); ++block) {
      const std::span<const float> of_block = values.subspan(block * kBlock, kBlock);
      scales[block] = largest_magnitude(of_block);
      code_block(of_block, scales[block], std::span(coded.codes).subspan(block * kBlock / 2, kBlock / 2));
    }
  });
  code_scales(scales, coded);
  return coded;
}

}  // namespace causeway::model
