// Gradients of norms and of the GEMMs that read them, from normalized values in 16 bits.
//
// A norm is (x - mean) r, or x r, with r = 1 / sqrt(variance + eps), times a weight, plus a bias, cast to 16 bits for
// the GEMMs that read it. Its gradient reads x - mean in f32 and the normalized values, and weights' gradients read
// the norm's result. All three are had from the normalized values s rounded to 16 bits: x - mean is s / r, and of a
// GEMM that reads s g + b
//   dW = dy^T (s g + b) = (dy^T s) g + (sum of dy over tokens) b
// so that only s need be kept, where x in f32 and the result were. As x - mean is zero in the mean, the gradient of the
// mean is r times the sum of the normalized values' gradients: it need not wait for the sum that r's gradient is. What
// the forward pass computes does not change; gradients change by a rounding of s, as weights' gradients do by that of
// the result.
#pragma once

#include "causeway/graph/graph.h"

namespace causeway::passes {

// Backward nodes are those marked Node::backward. A norm whose input was cast from 16 bits stays as it is: that input
// is no more bytes than s. So does a GEMM whose bias's part is wanted and whose dy is not summed up before it.
Graph normalized_values(const Graph& graph);

}  // namespace causeway::passes
