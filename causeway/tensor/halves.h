// How f32 tensors lie whose upper halves come before their lower ones (passes/split_weights.h), on the host.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::tensor {

// Elements of f32 as halves: first all upper ones, then all lower ones.
std::vector<std::byte> split_halves(std::span<const std::byte> elements);

// The elements of `halves` from the one at byte `offset` of f32 on, as many as `elements` has room for.
void join_halves(std::span<const std::byte> halves, size_t offset, std::span<std::byte> elements);

}  // namespace causeway::tensor
