// Losses, in f32. The mean of a loss with ignored targets is over the others; without any it is NaN.
#pragma once

#include "causeway/tensor/operand.h"

namespace causeway::tensor {

// kBatchMean: the sum over the size of the first axis.
enum class Reduction { kMean, kSum, kNone, kBatchMean };

struct CrossEntropyOptions {
  int64_t ignore_index = -100;  // targets that do not count; every target must be this or a class
  double label_smoothing = 0;   // the share of the target that is spread evenly over all classes
  Reduction reduction = Reduction::kMean;
};

// logits [..., classes], targets [...] (i32 or i64): -log softmax(logits)[target].
Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options = {});
// The same for log-probabilities, which are not normalised again.
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& targets, const CrossEntropyOptions& options = {});

struct LinearCrossEntropyOptions {
  int64_t ignore_index = -100;
  Reduction reduction = Reduction::kMean;  // kMean, kSum or kNone, of which the gradient computes the logits again
  Tensor token_weights = {};  // f32 [...], a factor for each token's loss; kMean divides by their sum. No gradient.
  double softcap = 0;         // above 0: the logits are softcap(linear(x, weight), this), as in Gemma 2
};

// cross_entropy(linear(x, weight), targets) for x [..., channels] and weight [classes, channels], without storing the
// logits.
Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& targets,
                            const LinearCrossEntropyOptions& options = {});

// The same sum of losses, and the z-loss of the targets that it is of: coefficient x the sum of weight x log(Z)^2,
// where Z is the sum of the exponentials of a token's logits (Chowdhery et al., PaLM, 2022, 2204.02311, section 5). f32
// [] each. The gradient of what adds the two up is computed together with them; that of either alone costs the logits
// once more.
struct LossAndZLoss {
  Tensor loss, z_loss;
};
// `options` asks for a sum; the coefficient is above 0.
LossAndZLoss linear_cross_entropy_and_z_loss(const Tensor& x, const Tensor& weight, const Tensor& targets,
                                             double coefficient, const LinearCrossEntropyOptions& options);

Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::kMean);
Tensor l1_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::kMean);
// d^2 / (2 beta) where d = |x - target| < beta, else d - beta / 2.
Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::kMean, double beta = 1);
// d^2 / 2 where d <= delta, else delta (d - delta / 2).
Tensor huber_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::kMean, double delta = 1);
// -(w t log sigmoid(x) + (1 - t) log(1 - sigmoid(x))) with targets t in [0, 1] and a weight w of the positive class.
Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::kMean,
                                        const Operand& positive_weight = 1.0);
// target (log target - x) for log-probabilities x; 0 where the target is 0. log_target: the target is given as its log.
Tensor kl_div(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::kMean, bool log_target = false);

}  // namespace causeway::tensor
