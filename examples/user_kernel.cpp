// A kernel of one's own as an op with a gradient, compared with the same thing composed from library ops.
// docs/user_kernels.md explains every part. Usage: user_kernel [DEVICE], e.g. cpu, cuda or emulator:gfx942.
#include <cmath>
#include <cstdio>

#include "causeway/tensor/ops.h"
#include "causeway/tensor/runtime.h"
#include "causeway/tensor/user_kernel_op.h"

using namespace causeway::tensor;

constexpr int64_t kRows = 64, kColumns = 1000;

UserKernel row_norm() {
  UserKernel kernel;
  kernel.name = "row_norm";
  kernel.source = R"(
void row_norm(const Block& block, const float* x, float* y, float* scale, int64_t columns) {
  const float* row = x + block.task * columns;
  float squares = 0;
  for (int64_t i = block.thread; i < columns; i += block.threads) squares += row[i] * row[i];
  const float factor = 1.0f / __builtin_sqrtf(block.sum(squares) / columns);
  if (block.thread == 0) scale[block.task] = factor;
  for (int64_t i = block.thread; i < columns; i += block.threads) y[block.task * columns + i] = row[i] * factor;
})";
  kernel.outputs = {{DType::kF32, {kRows, kColumns}}, {DType::kF32, {kRows}}};
  kernel.sizes = {kColumns};
  kernel.tasks = kRows;
  kernel.gradient = [](std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                       std::span<const Tensor> output_gradients) {
    const Tensor &y = outputs[0], &dy = output_gradients[0];
    return std::vector<Tensor>{(dy - y * mean(dy * y, {-1}, true)) * unsqueeze(outputs[1], -1)};
  };
  return kernel;
}

double largest_difference(const Tensor& a, const Tensor& b) { return amax(abs(a - b)).item(); }

int main(int argc, char** argv) {
  if (argc > 1) Runtime::use_device(argv[1]);
  const Tensor x = randn({kRows, kColumns}, random_key(1)), weight = randn({kRows, kColumns}, random_key(2));
  const Tensor by_kernel = user_kernel(row_norm(), std::vector{x})[0];
  const Tensor composed = x * rsqrt(mean(square(x), {-1}, true));
  const Tensor kernel_gradient = gradients(sum(by_kernel * weight), std::vector{x})[0];
  const Tensor composed_gradient = gradients(sum(composed * weight), std::vector{x})[0];
  const double values = largest_difference(by_kernel, composed);
  const double gradient = largest_difference(kernel_gradient, composed_gradient);
  std::printf("on %s: values differ by %.2g, gradients by %.2g\n", Runtime::current().device().name().c_str(), values,
              gradient);
  return values < 1e-5 && gradient < 1e-5 ? 0 : 1;
}
