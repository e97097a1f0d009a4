// Products of weights and activations in 8-bit floats: after mixed_precision, every dot of two matrices whose sizes are
// multiples of 16 gets operands of 8 bits, each with one scale for the whole tensor, taken from its largest magnitude
// at that moment: activations and weights become f8e4m3, gradients of activations f8e5m2 ("FP8 Formats for Deep
// Learning", Micikevicius et al., 2022). Both operands are laid out along what is summed over, as matrix instructions
// want 8-bit operands; sums are f32. Scales are powers of two: they change no bit of a result, which can be rounded
// before it is scaled. Attention and the loss's product with the vocabulary stay as they are.
#pragma once

#include "causeway/graph/graph.h"

namespace causeway::passes {

Graph fp8_products(const Graph& graph);

}  // namespace causeway::passes
