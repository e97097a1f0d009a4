// What tells a transformer the order of its tokens.
#pragma once

#include "causeway/tensor/operand.h"

namespace causeway::tensor {

// Llama 3's stretching of long wavelengths (its release notes, 2024).
struct RotaryScaling {
  double factor = 8;
  double low_frequency_factor = 1;
  double high_frequency_factor = 4;
  double original_context = 8192;
};

// Angles per position of the pairs of a rotary embedding (Su et al., 2021): theta^(-2i/dims), i < dims / 2, f32
// [dims / 2], worked out in double. Make them once and share them: in a Step each call is one more input.
Tensor rotary_frequencies(int64_t dims, double theta = 10000, std::optional<RotaryScaling> scaling = std::nullopt);

// Rotates pairs (i, i + R/2) of the first R = 2 size(frequencies) elements of the last axis by position times
// frequency ("rotate half", as Llama and GPT-NeoX; not GPT-J's neighbouring pairs); further elements stay. x [..., T,
// H, D]; positions [T] or [..., T] with x's leading axes, 0, 1, ..., T - 1 when undefined. Computed in f32.
Tensor rotary_embedding(const Tensor& x, const Tensor& frequencies, const Tensor& positions = {});

// One slope per head of ALiBi (Press et al., 2022), f32 [heads]: 2^(-max_bias i / n) for a power of two n; otherwise
// those of the next power of two, every second one first, as the paper's and MPT's code.
Tensor alibi_slopes(int64_t heads, double max_bias = 8);

}  // namespace causeway::tensor
