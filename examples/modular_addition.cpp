// A model of one's own: learns (a + b) mod 17 from all pairs of numbers, and prints the falling loss.
#include <cstdio>

#include "causeway/tensor/ops.h"
#include "causeway/tensor/step.h"

using namespace causeway::tensor;

constexpr int64_t kModulus = 17, kWidth = 64;

struct Parameter {
  Tensor value, moment1, moment2;

  Parameter(const Shape& shape, double deviation, int64_t seed)
      : value(randn(shape, random_key(seed)) * deviation), moment1(zeros(shape)), moment2(zeros(shape)) {
    for (const Tensor& tensor : {value, moment1, moment2}) tensor.evaluate();
  }
};

int main() {
  std::vector<double> a, b, sums;
  for (int64_t i = 0; i < kModulus * kModulus; ++i) {
    a.push_back(static_cast<double>(i / kModulus));
    b.push_back(static_cast<double>(i % kModulus));
    sums.push_back(static_cast<double>((i / kModulus + i % kModulus) % kModulus));
  }
  const std::vector<int64_t> pairs = {kModulus * kModulus};
  const std::vector<Tensor> data = {Tensor::from_values(a, pairs, DType::kI32),
                                    Tensor::from_values(b, pairs, DType::kI32),
                                    Tensor::from_values(sums, pairs, DType::kI32)};

  std::vector<Parameter> parameters = {
      {{kModulus, kWidth}, 1.0, 1}, {{4 * kWidth, 2 * kWidth}, 0.1, 2}, {{kModulus, 4 * kWidth}, 0.05, 3}};

  // Traced once, compiled into one program: forward, loss, gradients and update.
  Step step([&](const std::vector<Tensor>& arguments) {
    const Tensor x =
        cat({embedding(arguments[0], parameters[0].value), embedding(arguments[1], parameters[0].value)}, -1);
    const Tensor logits = linear(gelu(linear(x, parameters[1].value)), parameters[2].value);
    const Tensor loss = cross_entropy(logits, arguments[2]);

    std::vector<Tensor> values;
    for (const Parameter& parameter : parameters) values.push_back(parameter.value);
    const std::vector<Tensor> gradient = gradients(loss, values);
    for (size_t i = 0; i < parameters.size(); ++i) {
      Parameter& p = parameters[i];
      const AdamWUpdate update = adamw_update(p.value, gradient[i], p.moment1, p.moment2, 1e-3, arguments[3]);
      p.value.assign(update.parameter);
      p.moment1.assign(update.first_moment);
      p.moment2.assign(update.second_moment);
    }
    return std::vector<Tensor>{loss, mean(cast(eq(argmax(logits, -1), arguments[2]), DType::kF32))};
  });
  for (int i = 1; i <= 100; ++i) {
    const auto count = Tensor::from_values({static_cast<double>(i)}, {});
    const std::vector<Tensor> results = step({data[0], data[1], data[2], count});
    if (i == 1 || i % 10 == 0)
      std::printf("step %3d  loss %.4f  right %.1f %%\n", i, results[0].item(), 100 * results[1].item());
  }
}
