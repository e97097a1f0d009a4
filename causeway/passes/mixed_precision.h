// Automatic mixed precision over a whole traced step (forward, backward, optimizer), which is written in f32.
//
// What runs in the compute type: the inputs of every dot, attention, attention_gradient and linear_cross_entropy (f32
// ones are cast, weights included; eliminate_common_subexpressions shares the casts), and their results where these are
// activations or activation gradients, that is, where another such op consumes them by way of elementwise and movement
// ops only. Those results are cast back to f32 for their consumers: elementwise math between the templates is f32, and
// lives in registers once fused.
//
// A sum over leading axes (the gradient of a bias) of a value that is cast for a template anyway and also has to be in
// memory in f32 adds up the cast value, in f32: half the bytes to read. So does one of the gradients of queries, keys
// and values side by side (joined_gradients.h), which attention stores in that type.
//
// What stays f32: dot results that reach no other template op (weight gradients on their way to the optimizer; logits
// on their way to a loss), the weight gradient of linear_cross_entropy, other reductions, norms, softmax, losses,
// master weights and optimizer state, and inputs that were not f32 to begin with. Dots accumulate in f32 in any case.
//
// The residual stream is stored in f32 unless `residual` says otherwise. It is found by structure, see
// residual_stream.h. f16 has a narrow range: scaling the loss is up to the traced step.
#pragma once

#include "causeway/graph/graph.h"
#include "causeway/passes/pipeline_options.h"

namespace causeway::passes {

// Throws Error(kInvalidArgument) for other types.
Graph mixed_precision(const Graph& graph, const MixedPrecisionOptions& options);

}  // namespace causeway::passes
