// What Muon and NorMuon share: the momentum of a hidden layer's matrix, made nearly orthogonal, is the direction of a
// step. All other parameters (embeddings, the output layer, norms, biases) are AdamW's.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "causeway/optimizer/optimizer.h"
#include "causeway/tensor/tensor.h"

namespace causeway::optimizer {

// A matrix within a layer, or those of its experts [experts, out, in], each of which is one. It is one as the
// checkpoint has it: queries, keys and values that are fused there are orthogonalised together.
bool is_hidden_matrix(const Parameter& parameter);

// Of each matrix of m [..., m, n], which is U S V^T, nearly U V^T: singular values come to lie between 0.68 and 1.13 in
// five iterations, those below a thousandth of the norm less. Keller Jordan, Muon: An optimizer for hidden layers in
// neural networks, 2024: x = m / |m|, and in each iteration x = 3.4445 x - 4.7750 (x x^T) x + 2.0315 (x x^T)^2 x, on
// the side that is shorter. Its GEMMs multiply what the recipe's do, bf16 operands with bf16; they are never 8-bit
// (causeway/passes/fp8_gemms.h).
Tensor orthogonalized(const Tensor& m, int64_t iterations);

// Keys, state and update of such an optimizer. `normalize` is given the direction, which lies as the parameter does,
// and adds to `kept` what is kept beside the momentum.
//
// Over a mesh each rank orthogonalises matrices of its own: as many of one shape as ranks share a matrix are exchanged
// at a time, so that a rank holds one whole matrix and not more of each than one device does. Experts' matrices are
// shared out among the ranks where their number divides; otherwise every rank makes all of them orthogonal.
struct OrthogonalUpdate {
  std::function<std::vector<OptimizerState>(const OptimizerConfig&)> more_state = {};
  std::function<Tensor(const Tensor& direction, const ParameterUpdate& of, const OptimizerConfig& config,
                       std::vector<Tensor>& kept)>
      normalize = {};
};
Optimizer orthogonal_optimizer(std::string name, std::vector<OptimizerKey> more_keys, OrthogonalUpdate update);

}  // namespace causeway::optimizer
