// Boxes of a tensor's index space: the logical pieces that a checkpoint stores and that any mesh reads.
// A tensor of rank 0 has one element and the empty box.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::formats {

struct Box {
  std::vector<int64_t> offset;  // first index in each dimension
  std::vector<int64_t> shape;   // extent in each dimension; the same length as offset
  bool operator==(const Box&) const = default;
};

// "[2:4, 0:8]": half-open ranges, as Python would slice them.
std::string describe_box(const Box& box);

// The product of the dimensions times `unit`, or nothing when a dimension is negative or the product exceeds 2^63 - 1.
std::optional<uint64_t> checked_volume(std::span<const int64_t> shape, uint64_t unit = 1);

Box whole_box(std::span<const int64_t> shape);

// Whether `box` has the rank of `shape` and lies inside it, with no negative extents.
bool box_inside(const Box& box, std::span<const int64_t> shape);

// The common part of two boxes of one rank, or nothing when they share no element. The boxes must lie in some shape.
std::optional<Box> intersect_boxes(const Box& a, const Box& b);

// What is wrong when `boxes` do not cover `shape` exactly once, e.g. "boxes [0:2] and [1:4] overlap"; nothing when they
// do. Boxes without elements are ignored.
std::optional<std::string> tiling_problem(std::span<const int64_t> shape, std::span<const Box> boxes);

// Cuts `box` into boxes of at most `max_bytes` each that follow one another in the row-major bytes of `box`. A single
// element larger than `max_bytes` stays whole; a box without elements gives itself.
std::vector<Box> split_box(const Box& box, uint64_t element_bytes, uint64_t max_bytes);

// Where the row-major elements of `inner` start among those of `outer`, when they lie there one after another; nothing
// when they are scattered or `inner` is not inside `outer`.
std::optional<uint64_t> contiguous_position(const Box& outer, const Box& inner);

// Copies the elements common to both boxes. `source` and `target` hold their boxes row-major.
void copy_common_box(std::span<const std::byte> source, const Box& source_box, std::span<std::byte> target,
                     const Box& target_box, uint64_t element_bytes);

}  // namespace causeway::formats
