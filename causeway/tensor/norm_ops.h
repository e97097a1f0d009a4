// Normalisation layers. Statistics are made in f32 and the result is rounded once to the dtype of x. Weights and biases
// may be undefined.
#pragma once

#include "causeway/tensor/operand.h"

namespace causeway::tensor {

// Over the last axes, as many as the weight has (one without a weight): (x - mean) / sqrt(var + eps) weight + bias.
// Ba et al., 2016.
Tensor layer_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5);
// x / sqrt(mean(x^2) + eps) weight over the same axes. Zhang and Sennrich, 2019.
Tensor rms_norm(const Tensor& x, const Tensor& weight = {}, double eps = 1e-6);
// x [N, C, ...]: normalised over each group of C / groups channels and all further axes; weight and bias [C].
// Wu and He, 2018.
Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5);
// x / max(norm(x, p, axis), eps).
Tensor normalize(const Tensor& x, double p = 2, int64_t axis = -1, double eps = 1e-12);
// a . b / (|a| |b|) along an axis, each length at least eps.
Tensor cosine_similarity(const Tensor& a, const Tensor& b, int64_t axis = -1, double eps = 1e-8);

}  // namespace causeway::tensor
