#include <algorithm>

#include "tests/tensor/op_check.h"

namespace causeway::tensor {
namespace {

using List = std::vector<double>;
using In = const std::vector<Tensor>&;

double log_probability(const HostTensor& logits, size_t row, size_t target) {
  const auto classes = static_cast<size_t>(logits.shape.back());
  double total = 0;
  for (size_t c = 0; c < classes; ++c) total += std::exp(logits.values[row * classes + c]);
  return logits.values[row * classes + target] - std::log(total);
}

TEST(LossOps, CrossEntropy) {
  const HostTensor logits = random_host({2, 2, 5}, 1), targets = host({2, 2}, {4, 0, -100, 2}, DType::kI64);
  const auto nll = [&](size_t row) { return -log_probability(logits, row, static_cast<size_t>(targets.values[row])); };
  const double total = nll(0) + nll(1) + nll(3);
  expect_op([](In x) { return cross_entropy(x[0], x[1]); }, {logits, targets}, {}, {total / 3});
  expect_op([](In x) { return cross_entropy(x[0], x[1], {.reduction = Reduction::kSum}); }, {logits, targets}, {},
            {total});
  expect_op([](In x) { return cross_entropy(x[0], x[1], {.reduction = Reduction::kNone}); }, {logits, targets}, {2, 2},
            {nll(0), nll(1), 0, nll(3)});
  // Smoothed: (1 - e) nll + e times the mean over classes of -log p.
  double smooth = 0;
  for (const size_t row : {0, 1, 3}) {
    smooth += 0.9 * nll(row);
    for (size_t c = 0; c < 5; ++c) smooth -= 0.1 / 5 * log_probability(logits, row, c);
  }
  expect_op([](In x) { return cross_entropy(x[0], x[1], {.label_smoothing = 0.1}); }, {logits, targets}, {},
            {smooth / 3});
  expect_op([](In x) { return nll_loss(log_softmax(x[0]), x[1]); }, {logits, targets}, {}, {total / 3});
  expect_op([](In x) { return cross_entropy(x[0], x[1], {.ignore_index = 4}); },
            {random_host({1, 5}, 2), host({1}, {4}, DType::kI32)}, {}, {kNan}, {0, 0, false});
  EXPECT_EQ(cross_entropy(zeros({1, 2}, DType::kBF16), zeros({1}, DType::kI32)).dtype(), DType::kF32);
}

TEST(LossOps, LinearCrossEntropyIsCrossEntropyOfLinear) {
  const HostTensor x = random_host({2, 3, 4}, 3), weight = random_host({7, 4}, 4);
  const HostTensor targets = host({2, 3}, {6, 0, -100, 2, 3, -100}, DType::kI32);
  const HostTensor token_weights = host({2, 3}, {1, 2, 3, 0.5, 0, 1});
  const List expected =
      interpret_op([](In in) { return cross_entropy(linear(in[0], in[1]), in[2]); }, {x, weight, targets}).values;
  expect_op([](In in) { return linear_cross_entropy(in[0], in[1], in[2]); }, {x, weight, targets}, {}, expected);
  // Another index to ignore, given a sum.
  const List sum_expected =
      interpret_op(
          [](In in) {
            return cross_entropy(linear(in[0], in[1]), in[2], {.ignore_index = 2, .reduction = Reduction::kSum});
          },
          {x, weight, host({2, 3}, {6, 0, 2, 2, 3, 2}, DType::kI32)})
          .values;
  expect_op(
      [](In in) {
        return linear_cross_entropy(in[0], in[1], in[2], {.ignore_index = 2, .reduction = Reduction::kSum});
      },
      {x, weight, host({2, 3}, {6, 0, 2, 2, 3, 2}, DType::kI32)}, {}, sum_expected);
  // Weighted: the sum of weight times loss over the sum of the weights of what counts.
  const List each =
      interpret_op([](In in) { return cross_entropy(linear(in[0], in[1]), in[2], {.reduction = Reduction::kNone}); },
                   {x, weight, targets})
          .values;
  double weighted = 0;
  for (size_t i = 0; i < 6; ++i) weighted += each[i] * token_weights.values[i];
  expect_op(
      [&](In in) { return linear_cross_entropy(in[0], in[1], in[2], {.token_weights = to_tensor(token_weights)}); },
      {x, weight, targets}, {}, {weighted / 3.5});
  expect_op([](In in) { return linear_cross_entropy(in[0], in[1], in[2], {.reduction = Reduction::kNone}); },
            {x, weight, targets}, {2, 3}, each);
}

TEST(LossOps, LinearCrossEntropyCapsItsLogits) {
  const HostTensor x = random_host({3, 4}, 3), weight = random_host({7, 4}, 4);
  const HostTensor targets = host({3}, {6, 0, -100}, DType::kI32);
  const List expected = interpret_op([](In in) { return cross_entropy(softcap(linear(in[0], in[1]), 0.75), in[2]); },
                                     {x, weight, targets})
                            .values;
  expect_op([](In in) { return linear_cross_entropy(in[0], in[1], in[2], {.softcap = 0.75}); }, {x, weight, targets},
            {}, expected);
}

// Against PyTorch in f64: x = 2 sin(1 + 2 i + c), weight = 2 cos(2 v + c); the second of three tokens has no target,
// the others weigh 0.5 and 0.25. z is 0.1 logsumexp(logits)^2, and the gradients are of the sum of both.
TEST(LossOps, ZLossIsThatOfPyTorch) {
  struct Expected {
    double cap, loss, z_loss;
    List dx, dw;
  };
  const Expected all[] = {{0,
                           5.685796351086536,
                           2.2977480672892145,
                           {2.871574921325, 1.266484175519, 0.0, 0.0, -0.911676950432, -0.688438187973},
                           {1.139690601422, 0.853459352494, -0.489660858439, -0.142662522914, -1.13378051891,
                            -0.993687537894, 1.256054608123, 1.357578904438}},
                          {1.5,
                           2.5232312713942577,
                           0.3681942897516189,
                           {0.357294161601, -0.151987213654, 0.0, 0.0, -0.061268485387, -0.020501531989},
                           {0.006799155153, 0.00345621108, -0.034500791601, -0.009938414586, -0.516568187674,
                            -0.510427549769, 0.000621199069, 0.000808464346}}};
  HostTensor x = host({3, 2}, List(6)), weight = host({4, 2}, List(8));
  for (size_t i = 0; i < 6; ++i) x.values[i] = 2 * std::sin(1.0 + 2 * (i / 2) + i % 2);
  for (size_t i = 0; i < 8; ++i) weight.values[i] = 2 * std::cos(2.0 * (i / 2) + i % 2);
  const HostTensor targets = host({3}, {2, -100, 0}, DType::kI32), tokens = host({3}, {0.5, 1, 0.25});
  for (const Expected& one : all) {
    const auto of = [&](In in) {
      return linear_cross_entropy_and_z_loss(
          in[0], in[1], in[2], 0.1, {.reduction = Reduction::kSum, .token_weights = in[3], .softcap = one.cap});
    };
    const std::vector<HostTensor> inputs = {x, weight, targets, tokens};
    expect_op([&](In in) { return of(in).loss; }, inputs, {}, {one.loss}, {1e-6, 1e-6, false});
    expect_op([&](In in) { return of(in).z_loss; }, inputs, {}, {one.z_loss}, {1e-6, 1e-6, false});
    const auto gradient = [&](size_t of_input) {
      return [&, of_input](In in) {
        const LossAndZLoss both = of(in);
        return gradients(both.loss + both.z_loss, std::vector{in[of_input]}).front();
      };
    };
    expect_op(gradient(0), inputs, {3, 2}, one.dx, {3e-6, 3e-6, false});
    expect_op(gradient(1), inputs, {4, 2}, one.dw, {3e-6, 3e-6, false});
  }
  EXPECT_EQ(error_text([] {
              linear_cross_entropy_and_z_loss(zeros({2, 4}), zeros({5, 4}), zeros({2}, DType::kI32), 0.1, {});
            }),
            "linear_cross_entropy_and_z_loss: gives sums; it was given (f32[2, 4], f32[5, 4])");
}

TEST(LossOps, Regression) {
  const HostTensor x = host({4}, {0.5, -1, 3, 2}), y = host({4}, {0, 1, 2.75, 2.25});
  const List d = {0.5, 2, 0.25, 0.25};
  expect_op([](In in) { return mse_loss(in[0], in[1]); }, {x, y}, {}, {(0.25 + 4 + 0.0625 + 0.0625) / 4});
  expect_op([](In in) { return l1_loss(in[0], in[1], Reduction::kSum); }, {x, y}, {}, {3});
  expect_op([](In in) { return smooth_l1_loss(in[0], in[1], Reduction::kNone, 0.4); }, {x, y}, {4},
            {0.3, 1.8, 0.0625 / 0.8, 0.0625 / 0.8}, {1e-7, 1e-6, true});
  expect_op([](In in) { return huber_loss(in[0], in[1], Reduction::kNone, 0.4); }, {x, y}, {4},
            {0.4 * 0.3, 0.4 * 1.8, 0.03125, 0.03125}, {1e-7, 1e-6, true});
  expect_op([](In in) { return mse_loss(in[0], in[1], Reduction::kBatchMean); },
            {host({2, 2}, {1, 2, 3, 4}), host({2, 2}, {0, 0, 0, 0})}, {}, {15});
}

TEST(LossOps, Classification) {
  const HostTensor x = host({3}, {-2, 0.5, 3}), t = host({3}, {0, 1, 0.25});
  List expected;
  for (size_t i = 0; i < 3; ++i) {
    const double p = 1 / (1 + std::exp(-x.values[i]));
    expected.push_back(-(2 * t.values[i] * std::log(p) + (1 - t.values[i]) * std::log(1 - p)));
  }
  expect_op([](In in) { return binary_cross_entropy_with_logits(in[0], in[1], Reduction::kNone, 2.0); }, {x, t}, {3},
            expected);
  expect_tensor(binary_cross_entropy_with_logits(vector_of({100, -100}), vector_of({1, 1}), Reduction::kNone), {2},
                {0, 100});
  const HostTensor q = host({2, 2}, {-0.5, -1, -2, -0.25}), p = host({2, 2}, {0.25, 0.75, 0, 1});
  double divergence = 0;
  for (size_t i = 0; i < 4; ++i)
    if (p.values[i] > 0) divergence += p.values[i] * (std::log(p.values[i]) - q.values[i]);
  expect_op([](In in) { return kl_div(in[0], in[1], Reduction::kBatchMean); }, {q, p}, {}, {divergence / 2},
            {1e-10, 1e-6, false});
  expect_op([&](In in) { return kl_div(in[0], to_tensor(p), Reduction::kSum); }, {q}, {}, {divergence});
  double of_logs = 0;
  for (size_t i = 0; i < 4; ++i) of_logs += std::exp(q.values[i]) * (q.values[i] + 1);
  expect_op([](In in) { return kl_div(in[1], in[0], Reduction::kMean, true); }, {q, host({2, 2}, {-1, -1, -1, -1})}, {},
            {of_logs / 4});
}

TEST(LossOps, Errors) {
  EXPECT_EQ(error_text([] { cross_entropy(zeros({2, 3}), zeros({3}, DType::kI32)); }),
            "cross_entropy: takes scores [..., classes] and i32 or i64 targets [...]; it was given (f32[2, 3], "
            "i32[3])");
  EXPECT_EQ(error_text([] { cross_entropy(zeros({2, 3}), zeros({2}, DType::kI32), {.label_smoothing = 2}); }),
            "cross_entropy: a label smoothing of 2 is not within [0, 1]");
  EXPECT_EQ(error_text([] { mse_loss(zeros({2, 1}), zeros({2})); }),
            "mse_loss: takes a prediction and a target of one shape; it was given (f32[2, 1], f32[2])");
  EXPECT_EQ(
      error_text([] { linear_cross_entropy(zeros({2, 4}), zeros({5, 4}), zeros({2}, DType::kI32), {.softcap = -30}); }),
      "linear_cross_entropy: takes a softcap above 0, or 0 for none, not -30; it was given (f32[2, 4], f32[5, "
      "4])");
  EXPECT_EQ(error_text([] { linear_cross_entropy(zeros({2, 3}), zeros({5, 4}), zeros({2}, DType::kI32)); }),
            "linear_cross_entropy: takes floats x [..., channels] and weight [classes, channels]; it was given (f32[2, "
            "3], f32[5, 4])");
}

TEST(OptimizerOps, AdamWAgainstDouble) {
  List p = {1, -2, 0.5}, m(3), v(3);
  Tensor parameter = vector_of(p), first = zeros({3}), second = zeros({3});
  const AdamWOptions options = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1};
  for (int step = 1; step <= 3; ++step) {
    const HostTensor g = random_host({3}, static_cast<uint64_t>(step));
    const AdamWUpdate update =
        adamw_update(parameter, to_tensor(g), first, second, 0.01, full({}, step, DType::kI64), options);
    parameter = update.parameter, first = update.first_moment, second = update.second_moment;
    for (size_t i = 0; i < 3; ++i) {
      m[i] = 0.9 * m[i] + 0.1 * g.values[i];
      v[i] = 0.999 * v[i] + 0.001 * g.values[i] * g.values[i];
      const double mean = m[i] / (1 - std::pow(0.9, step)), square = v[i] / (1 - std::pow(0.999, step));
      p[i] = p[i] * (1 - 0.01 * 0.1) - 0.01 * mean / (std::sqrt(square) + 1e-8);
    }
    expect_tensor(parameter, {3}, p, 3e-7);
    expect_tensor(first, {3}, m, 3e-7);
    expect_tensor(second, {3}, v, 3e-7);
  }
  const AdamWUpdate narrow =
      adamw_update(zeros({2}, DType::kBF16), zeros({2}), zeros({2}), zeros({2}), full({}, 0.1), full({}, 1));
  EXPECT_EQ(narrow.parameter.dtype(), DType::kBF16);
  EXPECT_EQ(narrow.first_moment.dtype(), DType::kF32);
}

TEST(OptimizerOps, SgdAndClipping) {
  const SgdUpdate update = sgd_update(vector_of({1, 2}), vector_of({0.5, -0.5}), vector_of({1, 1}), 0.1, {0.9, 0.01});
  expect_tensor(update.momentum, {2}, {0.9 + 0.51, 0.9 - 0.48});
  expect_tensor(update.parameter, {2}, {1 - 0.141, 2 - 0.042});
  const std::vector<Tensor> gradients = {vector_of({3, 0}), vector_of({0, 4, 0}), vector_of({12})};
  EXPECT_NEAR(global_norm(gradients).item(), 13, 1e-5);
  const std::vector<Tensor> clipped = clip_by_global_norm(gradients, 1.3);
  EXPECT_NEAR(global_norm(clipped).item(), 1.3, 1e-5);
  expect_tensor(clipped[1], {3}, {0, 0.4, 0});
  expect_tensor(clip_by_global_norm(gradients, 20)[0], {2}, {3, 0});
  // As many tensors as a large model has.
  std::vector<Tensor> many;
  for (int i = 0; i < 400; ++i) many.push_back(vector_of({0.5, -0.5}));
  EXPECT_NEAR(global_norm(many).item(), std::sqrt(200.0), 1e-4);
  EXPECT_EQ(error_text([] { clip_scale(zeros({}), 0); }),
            "clip_scale: takes a positive maximum, not 0; it was given (f32[])");
  EXPECT_EQ(error_text([] { adamw_update(zeros({2}), zeros({3}), zeros({2}), zeros({2}), 0.1, zeros({})); }),
            "adamw_update: takes a parameter, its gradient and its state of one shape; it was given (f32[2], f32[3], "
            "f32[2], f32[2])");
  EXPECT_EQ(error_text([] { adamw_update(zeros({2}), zeros({2}), zeros({2}), zeros({2}), 0.1, zeros({1})); }),
            "adamw_update: takes a scalar step; it was given (f32[1])");
}

}  // namespace
}  // namespace causeway::tensor
