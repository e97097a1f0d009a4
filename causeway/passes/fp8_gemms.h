// GEMMs of weights and activations in 8-bit floats: after mixed_precision, every dot of two matrices whose sizes are
// multiples of f8_multiple gets operands of 8 bits, laid out along what is summed over, as matrix instructions want
// them; sums are f32. Scales are taken from the largest magnitude at that moment, and are powers of two: they change no
// bit of a result, which can be rounded before it is scaled. Attention, the loss's GEMM with the vocabulary and the
// optimizer's GEMMs stay as they are, and so do GEMMs of groups of rows (grouped_dot): they multiply in bf16.
#pragma once

#include "causeway/graph/graph.h"
#include "causeway/passes/pipeline_options.h"

namespace causeway::device {
struct PreferredSizes;
}

namespace causeway::passes {

Graph fp8_gemms(const Graph& graph, Fp8Scales scales, const PreferredSizes& sizes);

}  // namespace causeway::passes
