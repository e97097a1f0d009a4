#include "causeway/formats/box.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "causeway/base/error.h"

namespace causeway::formats {
namespace {

// The position of `index` (in the coordinates of the whole tensor) among the row-major elements of `box`.
uint64_t position_in(const Box& box, std::span<const int64_t> index) {
  uint64_t position = 0;
  for (size_t d = 0; d < index.size(); ++d)
    position = position * static_cast<uint64_t>(box.shape[d]) + static_cast<uint64_t>(index[d] - box.offset[d]);
  return position;
}

}  // namespace

std::string describe_box(const Box& box) {
  std::string text = "[";
  for (size_t d = 0; d < box.offset.size(); ++d)
    text += fmt::format("{}{}:{}", d == 0 ? "" : ", ", box.offset[d], box.offset[d] + box.shape[d]);
  return text + "]";
}

std::optional<uint64_t> checked_volume(std::span<const int64_t> shape, uint64_t unit) {
  // A zero anywhere makes the volume zero, whatever the others would multiply to.
  if (std::ranges::any_of(shape, [](int64_t n) { return n < 0; })) return std::nullopt;
  if (std::ranges::count(shape, 0) > 0) return 0;
  uint64_t volume = unit;
  for (const int64_t n : shape) {
    if (__builtin_mul_overflow(volume, static_cast<uint64_t>(n), &volume)) return std::nullopt;
  }
  if (volume > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
  return volume;
}

Box whole_box(std::span<const int64_t> shape) {
  return {std::vector<int64_t>(shape.size(), 0), std::vector<int64_t>(shape.begin(), shape.end())};
}

bool box_inside(const Box& box, std::span<const int64_t> shape) {
  if (box.offset.size() != shape.size() || box.shape.size() != shape.size()) return false;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (box.offset[d] < 0 || box.shape[d] < 0 || box.offset[d] > shape[d]) return false;
    if (box.shape[d] > shape[d] - box.offset[d]) return false;
  }
  return true;
}

std::optional<Box> intersect_boxes(const Box& a, const Box& b) {
  CAUSEWAY_CHECK(a.offset.size() == b.offset.size(), "{} and {}", describe_box(a), describe_box(b));
  Box common;
  for (size_t d = 0; d < a.offset.size(); ++d) {
    const int64_t begin = std::max(a.offset[d], b.offset[d]);
    const int64_t end = std::min(a.offset[d] + a.shape[d], b.offset[d] + b.shape[d]);
    if (begin >= end) return std::nullopt;
    common.offset.push_back(begin);
    common.shape.push_back(end - begin);
  }
  return common;
}

std::optional<std::string> tiling_problem(std::span<const int64_t> shape, std::span<const Box> boxes) {
  std::vector<const Box*> filled;
  uint64_t covered = 0;
  for (const Box& box : boxes) {
    if (!box_inside(box, shape)) return fmt::format("box {} lies outside the tensor", describe_box(box));
    const std::optional<uint64_t> volume = checked_volume(box.shape);
    if (!volume || __builtin_add_overflow(covered, *volume, &covered)) return "the boxes are too large to count";
    if (*volume > 0) filled.push_back(&box);
  }
  std::ranges::sort(filled, [](const Box* a, const Box* b) { return a->offset < b->offset; });
  for (size_t i = 0; i < filled.size(); ++i) {
    for (size_t j = i + 1; j < filled.size(); ++j) {
      const bool rows_disjoint = !shape.empty() && filled[j]->offset[0] >= filled[i]->offset[0] + filled[i]->shape[0];
      if (rows_disjoint) break;
      if (intersect_boxes(*filled[i], *filled[j]))
        return fmt::format("boxes {} and {} overlap", describe_box(*filled[i]), describe_box(*filled[j]));
    }
  }
  const std::optional<uint64_t> total = checked_volume(shape);
  if (!total) return "the tensor is too large to count";
  if (covered != *total) return fmt::format("{} of {} elements are covered", covered, *total);
  return std::nullopt;
}

std::vector<Box> split_box(const Box& box, uint64_t element_bytes, uint64_t max_bytes) {
  const uint64_t bytes = checked_volume(box.shape, element_bytes).value();
  if (bytes <= max_bytes || box.shape.empty()) return {box};
  const size_t rank = box.shape.size();
  // The first dimension whose single slices fit; all dimensions before it are cut to extent 1.
  size_t cut = rank - 1;
  uint64_t slice_bytes = element_bytes;
  while (cut > 0 && slice_bytes * static_cast<uint64_t>(box.shape[cut]) <= max_bytes) {
    slice_bytes *= static_cast<uint64_t>(box.shape[cut]);
    --cut;
  }
  const int64_t rows = std::max<int64_t>(1, static_cast<int64_t>(max_bytes / slice_bytes));

  std::vector<Box> parts;
  std::vector<int64_t> index(cut, 0);
  while (true) {
    for (int64_t begin = 0; begin < box.shape[cut]; begin += rows) {
      Box part = box;
      for (size_t d = 0; d < cut; ++d) {
        part.offset[d] += index[d];
        part.shape[d] = 1;
      }
      part.offset[cut] += begin;
      part.shape[cut] = std::min(rows, box.shape[cut] - begin);
      parts.push_back(std::move(part));
    }
    size_t d = cut;
    while (d > 0 && ++index[d - 1] == box.shape[d - 1]) index[--d] = 0;
    if (d == 0) return parts;
  }
}

std::optional<uint64_t> contiguous_position(const Box& outer, const Box& inner) {
  if (intersect_boxes(outer, inner) != inner) return std::nullopt;
  size_t d = 0;
  while (d < inner.shape.size() && inner.shape[d] == 1) ++d;
  for (++d; d < inner.shape.size(); ++d) {
    if (inner.shape[d] != outer.shape[d]) return std::nullopt;
  }
  return position_in(outer, inner.offset);
}

void copy_common_box(std::span<const std::byte> source, const Box& source_box, std::span<std::byte> target,
                     const Box& target_box, uint64_t element_bytes) {
  const std::optional<Box> common = intersect_boxes(source_box, target_box);
  if (!common) return;
  // Trailing dimensions that are whole in both boxes are contiguous in both, and copy as one run with the dimension
  // before them.
  size_t run_dim = common->shape.size();
  uint64_t run_bytes = element_bytes;
  while (run_dim > 0) {
    --run_dim;
    const int64_t n = common->shape[run_dim];
    run_bytes *= static_cast<uint64_t>(n);
    if (n != source_box.shape[run_dim] || n != target_box.shape[run_dim]) break;
  }

  std::vector<int64_t> index = common->offset;
  while (true) {
    const uint64_t from = position_in(source_box, index) * element_bytes;
    const uint64_t to = position_in(target_box, index) * element_bytes;
    CAUSEWAY_CHECK(from + run_bytes <= source.size() && to + run_bytes <= target.size(), "{} into {}",
                   describe_box(source_box), describe_box(target_box));
    std::memcpy(target.data() + to, source.data() + from, run_bytes);
    size_t d = run_dim;
    while (d > 0 && ++index[d - 1] == common->offset[d - 1] + common->shape[d - 1]) {
      index[d - 1] = common->offset[d - 1];
      --d;
    }
    if (d == 0) return;
  }
}

}  // namespace causeway::formats
