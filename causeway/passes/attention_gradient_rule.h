// The derivative of attention: an attention_gradient node whose score derivative is made on the scalar score graph.
#pragma once

#include <memory>
#include <vector>

#include "causeway/passes/gradient_rules.h"

namespace causeway::passes {

// d score / d s of a scalar score graph (AttentionSpec::score), with the same inputs.
std::shared_ptr<const Graph> differentiate_score(const Graph& score);

// The gradients of q, k and v; Error(kUnsupported) naming the tensor when one captured by the score is needed.
std::vector<Value> attention_rule(const GradientRequest& request);

}  // namespace causeway::passes
