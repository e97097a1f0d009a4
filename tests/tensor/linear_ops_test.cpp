// Matrix multiplication, indexing and normalisation against plain loops.
#include "tests/fixtures/op_literal.h"
#include "tests/tensor/op_check.h"

namespace causeway::tensor {
namespace {

using List = std::vector<double>;
using In = const std::vector<Tensor>&;

// [m, k] x [k, n].
List gemm_of(const List& a, const List& b, int64_t m, int64_t k, int64_t n) {
  List result(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t l = 0; l < k; ++l)
        result[static_cast<size_t>(i * n + j)] += a[static_cast<size_t>(i * k + l)] * b[static_cast<size_t>(l * n + j)];
  return result;
}

List piece(const List& x, size_t start, size_t count) {
  return {x.begin() + static_cast<ptrdiff_t>(start), x.begin() + static_cast<ptrdiff_t>(start + count)};
}

size_t count_ops(const OpFunction& function, const std::vector<HostTensor>& inputs, Op op, bool with_gradients) {
  TracedOp traced;
  trace_op(traced, function, inputs);
  Graph& graph = traced.trace.graph;
  if (with_gradients) {
    const Value out = graph.outputs[0], weight = graph.add_input("w", graph.type(out));
    add_gradients(graph, std::span(&out, 1), std::span(&weight, 1), traced.arguments, traced.trace.stopped());
  }
  size_t count = 0;
  for (const Node& node : graph.nodes()) count += node.op == op ? 1 : 0;
  return count;
}

TEST(LinearOps, Matmul) {
  const OpFunction op = [](In x) { return matmul(x[0], x[1]); };
  const HostTensor a = random_host({2, 3, 4}, 1), b = random_host({4, 5}, 2), c = random_host({2, 4, 5}, 3);
  expect_op(op, {a, b}, {2, 3, 5}, gemm_of(a.values, b.values, 6, 4, 5));
  // The weight's gradient is one product of two matrices, as the forward.
  EXPECT_EQ(count_ops(op, {a, b}, "dot"_op, true), 3u);
  EXPECT_EQ(count_ops(op, {a, b}, "reduce_sum"_op, true), 0u);
  List batched = gemm_of(piece(a.values, 0, 12), piece(c.values, 0, 20), 3, 4, 5);
  const List second = gemm_of(piece(a.values, 12, 12), piece(c.values, 20, 20), 3, 4, 5);
  batched.insert(batched.end(), second.begin(), second.end());
  expect_op(op, {a, c}, {2, 3, 5}, batched);
  expect_op([](In x) { return bmm(x[0], x[1]); }, {a, c}, {2, 3, 5}, batched);
  // Leading axes broadcast: [3, 1, 1, 2] x [2, 2, 1].
  const HostTensor d = random_host({3, 1, 1, 2}, 4), e = random_host({2, 2, 1}, 5);
  List expected;
  for (size_t i = 0; i < 3; ++i)
    for (size_t j = 0; j < 2; ++j)
      expected.push_back(d.values[2 * i] * e.values[2 * j] + d.values[2 * i + 1] * e.values[2 * j + 1]);
  expect_op(op, {d, e}, {3, 2, 1, 1}, expected);
}

TEST(LinearOps, Vectors) {
  const OpFunction op = [](In x) { return matmul(x[0], x[1]); };
  const HostTensor m = host({2, 3}, {1, 2, 3, 4, 5, 6}), v = host({3}, {1, 0, -1}), w = host({2}, {2, -1});
  expect_op(op, {m, v}, {2}, {-2, -2});
  expect_op(op, {w, m}, {3}, {-2, -1, 0});
  expect_op(op, {v, v}, {}, {2});
  expect_op([](In x) { return mv(x[0], x[1]); }, {m, v}, {2}, {-2, -2});
  expect_op([](In x) { return dot(x[0], x[1]); }, {v, v}, {}, {2});
  expect_op([](In x) { return outer(x[0], x[1]); }, {w, v}, {2, 3}, {2, 0, -2, -1, 0, 1});
}

TEST(LinearOps, Linear) {
  const HostTensor x = random_host({2, 2, 3}, 6), w = host({2, 3}, {1, 2, 3, -1, 0, 1}), b = host({2}, {10, 20});
  List expected = gemm_of(x.values, {1, -1, 2, 0, 3, 1}, 4, 3, 2);
  expect_op([](In in) { return linear(in[0], in[1]); }, {x, w}, {2, 2, 2}, expected);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += i % 2 == 0 ? 10 : 20;
  expect_op([](In in) { return linear(in[0], in[1], in[2]); }, {x, w, b}, {2, 2, 2}, expected);
  EXPECT_EQ(linear(zeros({2, 3}, DType::kBF16), zeros({4, 3}, DType::kBF16)).dtype(), DType::kBF16);
  EXPECT_EQ(linear(zeros({2, 3}, DType::kBF16), zeros({4, 3})).dtype(), DType::kF32);
}

TEST(LinearOps, GroupedMatmul) {
  const HostTensor x = random_host({1, 4, 3}, 7), w = random_host({2, 2, 3}, 8);
  List expected(8);
  const std::vector<size_t> group = {0, 1, 1};  // of each row; the last row has none
  for (size_t row = 0; row < group.size(); ++row)
    for (size_t j = 0; j < 2; ++j)
      for (size_t l = 0; l < 3; ++l)
        expected[row * 2 + j] += x.values[row * 3 + l] * w.values[(group[row] * 2 + j) * 3 + l];
  expect_op(
      [](In in) {
        return grouped_matmul(in[0], in[1], Tensor::from_values(std::vector<double>{0, 1, 3}, {1, 3}, DType::kI32));
      },
      {x, w}, {1, 4, 2}, expected);
  const Tensor offsets = zeros({1, 3}, DType::kI32);
  EXPECT_EQ(grouped_matmul(zeros({1, 4, 3}, DType::kBF16), zeros({2, 2, 3}, DType::kBF16), offsets).dtype(),
            DType::kBF16);
  EXPECT_THROW(grouped_matmul(zeros({1, 4, 3}), zeros({2, 3, 2}), offsets), Error);
  EXPECT_THROW(grouped_matmul(zeros({1, 4, 3}), zeros({3, 2, 3}), offsets), Error);
  EXPECT_THROW(grouped_matmul(zeros({1, 4, 3}), zeros({2, 2, 3}), zeros({1, 3})), Error);
}

TEST(LinearOps, Einsum) {
  const HostTensor a = random_host({2, 3, 4}, 7), b = random_host({2, 5, 4}, 8);
  List expected;
  for (size_t n = 0; n < 2; ++n)
    for (size_t s = 0; s < 5; ++s)
      for (size_t t = 0; t < 3; ++t) {
        double sum = 0;
        for (size_t d = 0; d < 4; ++d) sum += a.values[n * 12 + t * 4 + d] * b.values[n * 20 + s * 4 + d];
        expected.push_back(sum);
      }
  expect_op([](In x) { return einsum("btd, bsd -> bst", {x[0], x[1]}); }, {a, b}, {2, 5, 3}, expected);
  const HostTensor m = host({2, 3}, {1, 2, 3, 4, 5, 6}), v = host({2}, {1, -1});
  expect_op([](In x) { return einsum("ij->ji", {x[0]}); }, {m}, {3, 2}, {1, 4, 2, 5, 3, 6});
  expect_op([](In x) { return einsum("ij->", {x[0]}); }, {m}, {}, {21});
  expect_op([](In x) { return einsum("ij,i", {x[0], x[1]}); }, {m, v}, {3}, {-3, -3, -3});
  expect_op([](In x) { return einsum("i,j->ij", {x[0], x[1]}); }, {v, v}, {2, 2}, {1, -1, -1, 1});
  expect_op([](In x) { return einsum("ij,k->i", {x[0], x[1]}); }, {m, v}, {2}, {0, 0});
}

TEST(LinearOps, Errors) {
  EXPECT_EQ(error_text([] { matmul(zeros({2, 3}), zeros({4, 5})); }),
            "matmul: contracts axes of sizes 3 and 4; it was given (f32[2, 3], f32[4, 5])");
  EXPECT_EQ(error_text([] { matmul(zeros({2, 2}, DType::kI32), zeros({2, 2}, DType::kI32)); }),
            "matmul: takes floats; it was given (i32[2, 2], i32[2, 2])");
  EXPECT_EQ(error_text([] { matmul(zeros({2, 1, 1}), zeros({3, 1, 1})); }),
            "matmul: the shapes [2] and [3] do not broadcast: axis 1 from the end has sizes 2 and 3");
  EXPECT_EQ(error_text([] { linear(zeros({2, 3}), zeros({3, 4})); }),
            "linear: takes x [..., in] and a weight [out, in]; it was given (f32[2, 3], f32[3, 4])");
  EXPECT_EQ(error_text([] { einsum("ij,jk->ik", {zeros({2, 3}), zeros({4, 2})}); }),
            "einsum: 'ij,jk->ik' gives 'j' the sizes 3 and 4; it was given (f32[2, 3], f32[4, 2])");
  EXPECT_EQ(error_text([] { einsum("ii->i", {zeros({2, 2})}); }),
            "einsum: 'ii->i' has 'i' twice in one operand; it was given (f32[2, 2])");
  EXPECT_EQ(error_text([] { einsum("i->j", {zeros({2})}); }),
            "einsum: 'i->j' has 'j' in the result only; it was given (f32[2])");
  EXPECT_EQ(error_text([] { einsum("i1->i", {zeros({2})}); }),
            "einsum: 'i1->i' has '1', which is no letter; it was given (f32[2])");
  EXPECT_EQ(error_text([] { einsum("ij->i", {zeros({2})}); }),
            "einsum: 'ij->i' names 2 axes of operand 0; it was given (f32[2])");
}

TEST(IndexingOps, Reading) {
  const HostTensor x = host({2, 3}, {1, 2, 3, 4, 5, 6});
  const HostTensor index = host({2, 2}, {2, 0, 1, 1}, DType::kI32);
  expect_op([](In in) { return gather(in[0], 1, in[1]); }, {x, index}, {2, 2}, {3, 1, 5, 5});
  expect_op([](In in) { return gather(in[0], 0, in[1]); }, {x, host({1, 3}, {1, 0, 1}, DType::kI64)}, {1, 3},
            {4, 2, 6});
  expect_op([](In in) { return gather(in[0], 1, in[1]); }, {x, host({1, 1}, {1}, DType::kI32)}, {2, 1}, {2, 5});
  // Outside an axis the nearest element is read, also across rows.
  expect_tensor(gather(to_tensor(x), 1, Tensor::from_values({-7, 9}, {2, 1}, DType::kI32)), {2, 1}, {1, 6});
  expect_op([](In in) { return index_select(in[0], 1, in[1]); }, {x, host({2}, {2, 0}, DType::kI32)}, {2, 2},
            {3, 1, 6, 4});
  expect_op([](In in) { return embedding(in[1], in[0]); }, {x, host({2, 2}, {1, 0, 1, 1}, DType::kI64)}, {2, 2, 3},
            {4, 5, 6, 1, 2, 3, 4, 5, 6, 4, 5, 6});
  expect_op([](In in) { return at(in[0], {in[1], in[1]}); }, {x, host({}, {1}, DType::kI32)}, {}, {5});
  expect_tensor(one_hot(vector_of({2, 0, -1}, DType::kI32), 3), {3, 3}, {0, 0, 1, 1, 0, 0, 0, 0, 0});
  EXPECT_EQ(one_hot(vector_of({2}, DType::kI32), 3, DType::kI64).dtype(), DType::kI64);
}

TEST(IndexingOps, Writing) {
  const HostTensor x = host({2, 3}, {10, 20, 30, 40, 50, 60}), source = host({2, 2}, {1, 2, 3, 4});
  expect_op([](In in) { return scatter_add(in[0], 1, in[1], in[2]); },
            {x, host({2, 2}, {0, 0, 2, 1}, DType::kI32), source}, {2, 3}, {13, 20, 30, 40, 54, 63});
  // Outside an axis nothing is written, not even to the next row.
  expect_tensor(
      scatter_add(to_tensor(x), 1, Tensor::from_values({3, -1, 0, 5}, {2, 2}, DType::kI32), to_tensor(source)), {2, 3},
      {10, 20, 30, 43, 50, 60});
  expect_op([](In in) { return index_add(in[0], 1, in[1], in[2]); }, {x, host({2}, {2, 2}, DType::kI64), source},
            {2, 3}, {10, 20, 33, 40, 50, 67});
  expect_op([](In in) { return index_copy(in[0], 1, in[1], in[2]); }, {x, host({2}, {2, 0}, DType::kI64), source},
            {2, 3}, {2, 20, 1, 4, 50, 3});
  // What has one index adds up; what is outside is not written.
  expect_tensor(index_copy(to_tensor(x), 1, vector_of({2, 2}, DType::kI32), to_tensor(source)), {2, 3},
                {10, 20, 3, 40, 50, 7});
  expect_tensor(index_copy(to_tensor(x), 1, vector_of({3, 1}, DType::kI32), to_tensor(source)), {2, 3},
                {10, 2, 30, 40, 4, 60});
}

TEST(IndexingOps, Errors) {
  EXPECT_EQ(error_text([] { embedding(zeros({2}), zeros({3, 4})); }),
            "embedding: takes i32 or i64 indices; it was given (f32[2])");
  EXPECT_EQ(error_text([] { gather(zeros({2, 3}), 1, zeros({3, 1}, DType::kI32)); }),
            "gather: axis 0 has different sizes; it was given (f32[2, 3], i32[3, 1])");
  EXPECT_EQ(error_text([] { at(zeros({2}), {zeros({1}, DType::kI32)}); }),
            "at: takes scalar indices; it was given (f32[2], i32[1])");
  EXPECT_EQ(error_text([] { scatter_add(zeros({2, 3}), 1, zeros({2, 2}, DType::kI32), zeros({2, 1})); }),
            "scatter_add: takes an index and a source of one shape, the tensor's beside axis 1; it was given (f32[2, "
            "3], i32[2, 2], f32[2, 1])");
}

struct Moments {
  double mean, variance, mean_square;
};

Moments moments_of(const List& x) {
  Moments m{0, 0, 0};
  const auto n = static_cast<double>(x.size());
  for (const double value : x) m.mean += value / n, m.mean_square += value * value / n;
  for (const double value : x) m.variance += (value - m.mean) * (value - m.mean) / n;
  return m;
}

TEST(NormOps, LayerAndRmsNorm) {
  const HostTensor x = random_host({2, 4}, 9), w = random_host({4}, 10), b = random_host({4}, 11);
  List layer, rms, plain;
  for (size_t row = 0; row < 2; ++row) {
    const Moments m = moments_of(piece(x.values, 4 * row, 4));
    for (size_t i = 0; i < 4; ++i) {
      const double value = x.values[4 * row + i], normal = (value - m.mean) / std::sqrt(m.variance + 1e-5);
      plain.push_back(normal);
      layer.push_back(normal * w.values[i] + b.values[i]);
      rms.push_back(value / std::sqrt(m.mean_square + 1e-6) * w.values[i]);
    }
  }
  expect_op([](In in) { return layer_norm(in[0], in[1], in[2]); }, {x, w, b}, {2, 4}, layer);
  expect_op([](In in) { return layer_norm(in[0]); }, {x}, {2, 4}, plain);
  expect_op([](In in) { return rms_norm(in[0], in[1]); }, {x, w}, {2, 4}, rms);
  EXPECT_EQ(rms_norm(zeros({2, 4}, DType::kBF16), ones({4})).dtype(), DType::kBF16);
  // Over two axes at once.
  const Moments all = moments_of(x.values);
  List both;
  for (const double value : x.values) both.push_back((value - all.mean) / std::sqrt(all.variance + 1e-5));
  expect_op([](In in) { return layer_norm(in[0], ones({2, 4})); }, {x}, {2, 4}, both);
}

TEST(NormOps, GroupNorm) {
  const HostTensor x = random_host({2, 4, 3}, 12), w = random_host({4}, 13), b = random_host({4}, 14);
  List expected;
  for (size_t group = 0; group < 4; ++group) {
    const List values = piece(x.values, 6 * group, 6);
    const Moments m = moments_of(values);
    for (size_t i = 0; i < 6; ++i) {
      const size_t channel = (2 * group + i / 3) % 4;
      expected.push_back((values[i] - m.mean) / std::sqrt(m.variance + 1e-5) * w.values[channel] + b.values[channel]);
    }
  }
  expect_op([](In in) { return group_norm(in[0], 2, in[1], in[2]); }, {x, w, b}, {2, 4, 3}, expected);
}

TEST(NormOps, NormalizeAndCosine) {
  const HostTensor x = host({2, 2}, {3, 4, -6, 8}), y = host({2, 2}, {4, 3, 0, 2});
  expect_op([](In in) { return normalize(in[0]); }, {x}, {2, 2}, {0.6, 0.8, -0.6, 0.8});
  expect_op([](In in) { return cosine_similarity(in[0], in[1]); }, {x, y}, {2}, {24.0 / 25, 0.8});
}

TEST(NormOps, Errors) {
  EXPECT_EQ(error_text([] { layer_norm(zeros({2, 4}), ones({3})); }),
            "layer_norm: takes a weight shaped as the last axes of its first argument; it was given (f32[2, 4], "
            "f32[3])");
  EXPECT_EQ(error_text([] { rms_norm(zeros({2, 4}), ones({1, 2, 4})); }),
            "rms_norm: takes a weight shaped as the last axes of its first argument; it was given (f32[2, 4], f32[1, "
            "2, 4])");
  EXPECT_EQ(error_text([] { group_norm(zeros({2, 4}), 3); }),
            "group_norm: takes x [N, C, ...] with C divisible by 3 groups; it was given (f32[2, 4])");
}

}  // namespace
}  // namespace causeway::tensor
