#include <numeric>

#include "tests/tensor/op_check.h"

namespace causeway::tensor {
namespace {

using Sizes = std::vector<int64_t>;
using List = std::vector<double>;

// 0, 1, 2, ... in the given shape.
HostTensor counting(Sizes shape) {
  List values(static_cast<size_t>(element_count(shape)));
  std::iota(values.begin(), values.end(), 0);
  return host(std::move(shape), std::move(values));
}

void expect_moved(const std::function<Tensor(const Tensor&)>& function, const HostTensor& x, const Sizes& shape,
                  const List& expected) {
  expect_op([&](const std::vector<Tensor>& in) { return function(in[0]); }, {x}, shape, expected);
}

TEST(ShapeOps, Reshaping) {
  const HostTensor x = counting({2, 6});
  const List same = x.values;
  expect_moved([](const Tensor& t) { return reshape(t, {3, -1}); }, x, {3, 4}, same);
  expect_moved([](const Tensor& t) { return reshape(t, {12}); }, x, {12}, same);
  expect_moved([](const Tensor& t) { return flatten(t); }, x, {12}, same);
  expect_moved([](const Tensor& t) { return unflatten(t, -1, {2, -1}); }, x, {2, 2, 3}, same);
  expect_moved([](const Tensor& t) { return flatten(unflatten(t, 1, {2, 3}), 0, 1); }, x, {4, 3}, same);
  expect_moved([](const Tensor& t) { return unsqueeze(t, 1); }, x, {2, 1, 6}, same);
  expect_moved([](const Tensor& t) { return unsqueeze(t, -1); }, x, {2, 6, 1}, same);
  expect_moved([](const Tensor& t) { return squeeze(unsqueeze(unsqueeze(t, 0), -1)); }, x, {2, 6}, same);
  expect_moved([](const Tensor& t) { return squeeze(unsqueeze(unsqueeze(t, 0), -1), 0); }, x, {2, 6, 1}, same);
  expect_tensor(reshape(Tensor::from_values({4}, {1}), {}), {}, {4});
}

TEST(ShapeOps, Permuting) {
  const HostTensor x = counting({2, 3});
  expect_moved([](const Tensor& t) { return transpose(t); }, x, {3, 2}, {0, 3, 1, 4, 2, 5});
  expect_moved([](const Tensor& t) { return permute(unsqueeze(t, 0), {2, -3, 1}); }, x, {3, 1, 2}, {0, 3, 1, 4, 2, 5});
  expect_moved([](const Tensor& t) { return movedim(unsqueeze(t, 0), -1, 0); }, x, {3, 1, 2}, {0, 3, 1, 4, 2, 5});
}

TEST(ShapeOps, Repeating) {
  const HostTensor x = counting({2, 1});
  expect_moved([](const Tensor& t) { return broadcast_to(t, {2, 2, 3}); }, x, {2, 2, 3},
               {0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1});
  expect_moved([](const Tensor& t) { return expand(t, {-1, 3}); }, x, {2, 3}, {0, 0, 0, 1, 1, 1});
  expect_moved([](const Tensor& t) { return repeat(t, {2, 1, 2}); }, x, {2, 2, 2}, {0, 0, 1, 1, 0, 0, 1, 1});
  expect_moved([](const Tensor& t) { return repeat(t, {2, 1}); }, counting({1, 2}), {2, 2}, {0, 1, 0, 1});
  expect_moved([](const Tensor& t) { return tile(t, {2}); }, counting({2, 2}), {2, 4}, {0, 1, 0, 1, 2, 3, 2, 3});
  expect_moved([](const Tensor& t) { return repeat_interleave(t, 2, -1); }, counting({3}), {6}, {0, 0, 1, 1, 2, 2});
}

TEST(ShapeOps, Slicing) {
  const HostTensor x = counting({2, 5});
  expect_moved([](const Tensor& t) { return slice(t, 1, 1, 4); }, x, {2, 3}, {1, 2, 3, 6, 7, 8});
  expect_moved([](const Tensor& t) { return slice(t, -1, -2); }, x, {2, 2}, {3, 4, 8, 9});
  expect_moved([](const Tensor& t) { return slice(t, 1, 0, -1, 2); }, x, {2, 2}, {0, 2, 5, 7});
  expect_moved([](const Tensor& t) { return narrow(t, 1, -3, 2); }, x, {2, 2}, {2, 3, 7, 8});
  expect_moved([](const Tensor& t) { return select(t, 0, -1); }, x, {5}, {5, 6, 7, 8, 9});
  const std::vector<Tensor> parts = split(to_tensor(x), 2, 1);
  ASSERT_EQ(parts.size(), 3u);
  expect_tensor(parts[2], {2, 1}, {4, 9});
  expect_tensor(split(to_tensor(x), Shape{1, 4}, 1)[1], {2, 4}, {1, 2, 3, 4, 6, 7, 8, 9});
  const std::vector<Tensor> chunks = chunk(to_tensor(x), 3, 1);
  ASSERT_EQ(chunks.size(), 3u);
  expect_tensor(chunks[1], {2, 2}, {2, 3, 7, 8});
}

TEST(ShapeOps, Joining) {
  expect_op([](const std::vector<Tensor>& x) { return cat({x[0], x[1]}, 1); }, {counting({2, 1}), counting({2, 2})},
            {2, 3}, {0, 0, 1, 1, 2, 3});
  expect_op([](const std::vector<Tensor>& x) { return stack({x[0], x[1]}, -1); }, {counting({2}), host({2}, {7, 8})},
            {2, 2}, {0, 7, 1, 8});
  EXPECT_EQ(cat({zeros({1}, DType::kI32), zeros({2})}).dtype(), DType::kF32);
  expect_moved([](const Tensor& t) { return pad(t, {1, 0, 0, 1}, -1); }, counting({1, 2}), {2, 3},
               {-1, 0, 1, -1, -1, -1});
  expect_moved([](const Tensor& t) { return pad(t, {-1, 2}); }, counting({3}), {4}, {1, 2, 0, 0});
  expect_moved([](const Tensor& t) { return pad(t, {2, -1}, 9); }, counting({3}), {4}, {9, 9, 0, 1});
}

TEST(ShapeOps, FlipAndRoll) {
  const HostTensor x = counting({2, 3});
  expect_moved([](const Tensor& t) { return flip(t, 1); }, x, {2, 3}, {2, 1, 0, 5, 4, 3});
  expect_moved([](const Tensor& t) { return flip(t, {0, 1}); }, x, {2, 3}, {5, 4, 3, 2, 1, 0});
  expect_moved([](const Tensor& t) { return roll(t, 1, 1); }, x, {2, 3}, {2, 0, 1, 5, 3, 4});
  expect_moved([](const Tensor& t) { return roll(t, -4, 1); }, x, {2, 3}, {1, 2, 0, 4, 5, 3});
}

TEST(ShapeOps, Creation) {
  expect_tensor(full({2}, 3, DType::kI32), {2}, {3, 3});
  expect_tensor(zeros({2}), {2}, {0, 0});
  expect_tensor(ones({1, 2}, DType::kBF16), {1, 2}, {1, 1});
  const Tensor x = zeros({2}, DType::kI64);
  EXPECT_EQ(full_like(x, 5).type(), x.type());
  expect_tensor(full_like(x, 5), {2}, {5, 5});
  expect_tensor(zeros_like(x), {2}, {0, 0});
  expect_tensor(ones_like(x), {2}, {1, 1});
  expect_tensor(arange(4), {4}, {0, 1, 2, 3});
  expect_tensor(arange(1, 2, 0.25), {4}, {1, 1.25, 1.5, 1.75});
  expect_tensor(arange(5, 0, -2, DType::kI64), {3}, {5, 3, 1});
  expect_tensor(linspace(0, 1, 5), {5}, {0, 0.25, 0.5, 0.75, 1});
  expect_tensor(linspace(3, -1, 2), {2}, {3, -1});
  expect_tensor(linspace(3, -1, 1), {1}, {3});
  expect_tensor(eye(2), {2, 2}, {1, 0, 0, 1});
  expect_tensor(eye(2, 3, DType::kI32), {2, 3}, {1, 0, 0, 0, 1, 0});
  expect_moved([](const Tensor& t) { return tril(t, -1); }, counting({3, 3}), {3, 3}, {0, 0, 0, 3, 0, 0, 6, 7, 0});
  expect_moved([](const Tensor& t) { return triu(t); }, counting({2, 3}), {2, 3}, {0, 1, 2, 0, 4, 5});
  expect_tensor(cast(vector_of({1.7, -1.7, 300}), DType::kU8), {3}, {1, 0, 255});
}

TEST(ShapeOps, SymbolicSizes) {
  Trace trace;
  const TraceScope scope(trace);
  const Dim length = Dim::symbol("shape_test_T", 4), batch = Dim::symbol("shape_test_B");
  const Tensor x = trace.add_argument("x", {DType::kF32, {batch, length, 8}});
  EXPECT_EQ(reshape(x, {-1, 8}).shape(), (Shape{batch * length, 8}));
  EXPECT_EQ(reshape(x, {batch, -1, 32}).shape(), (Shape{batch, *length.divide_exactly(4), 32}));
  EXPECT_EQ(flatten(x).shape(), Shape{batch * length * 8});
  EXPECT_EQ(slice(x, 1, 1).shape(), (Shape{batch, length - 1, 8}));
  EXPECT_EQ(chunk(x, 2, 1)[1].shape()[1], *length.divide_exactly(2));
  EXPECT_EQ((x + zeros({length, 1})).shape(), x.shape());
  EXPECT_EQ(flip(x, 1).shape(), x.shape());
  EXPECT_EQ(pad(x, {0, 0, 1, 0}).shape()[1], length + 1);
  EXPECT_THAT(error_text([&] { reshape(x, {-1, 3}); }), testing::HasSubstr("are no whole number of [-1, 3]"));
  EXPECT_THAT(error_text([&] { x + zeros({5, 8}); }), testing::HasSubstr("axis 2 from the end has sizes"));
  EXPECT_THAT(error_text([&] { split(x, 2, 1); }), testing::HasSubstr("split: pieces of 2 along axis 1 of size"));
}

TEST(ShapeOps, Errors) {
  const Tensor x = zeros({2, 6});
  EXPECT_EQ(error_text([&] { reshape(x, {5, -1}); }),
            "reshape: 12 elements are no whole number of [5, -1]; it was given (f32[2, 6])");
  EXPECT_EQ(error_text([&] { reshape(x, {-1, -1}); }),
            "reshape: [-1, -1] has more than one -1; it was given (f32[2, 6])");
  EXPECT_EQ(error_text([&] { reshape(x, {5, 2}); }),
            "reshape: [5, 2] has 10 elements, not 12; it was given (f32[2, 6])");
  EXPECT_EQ(error_text([&] { transpose(x, 0, 2); }), "transpose: there is no axis 2; it was given (f32[2, 6])");
  EXPECT_EQ(error_text([&] { permute(x, {0, 0}); }),
            "permute: (0, 0) is no order of the axes; it was given (f32[2, 6])");
  EXPECT_EQ(error_text([&] { squeeze(x, 1); }), "squeeze: axis 1 is not of size 1; it was given (f32[2, 6])");
  EXPECT_EQ(error_text([&] { slice(x, 1, 2, 9); }),
            "slice: 2 to 9 does not lie within axis 1; it was given (f32[2, 6])");
  EXPECT_EQ(error_text([&] { select(x, 0, 2); }), "select: index 2 is not on axis 0; it was given (f32[2, 6])");
  EXPECT_EQ(error_text([&] { cat({x, zeros({3, 6})}, 1); }),
            "cat: the shapes differ beside axis 1; it was given (f32[2, 6], f32[3, 6])");
  EXPECT_EQ(error_text([&] { stack({x, zeros({3, 6})}); }),
            "stack: the shapes differ; it was given (f32[2, 6], f32[3, 6])");
  EXPECT_EQ(error_text([&] { broadcast_to(x, {2, 5}); }),
            "broadcast_to: the tensor does not broadcast to [2, 5]; it was given (f32[2, 6])");
  EXPECT_EQ(error_text([&] { split(x, Shape{1, 2}, 1); }),
            "split: pieces of [1, 2] do not add up to axis 1; it was given (f32[2, 6])");
  EXPECT_EQ(error_text([&] { flip(x, {0, 0}); }), "flip: axis 0 was given twice; it was given (f32[2, 6])");
  EXPECT_EQ(error_text([&] { arange(0, 1, 0); }), "arange: there is no range from 0 to 1 in steps of 0");
  EXPECT_EQ(error_text([&] { full({2}, 0.5, DType::kI32); }), "full: 0.5 does not fit in i32");
  EXPECT_EQ(error_text([&] { tril(zeros({3})); }), "tril: takes at least two axes; it was given (f32[3])");
}

// The layer that was being built is part of the error.
TEST(ShapeOps, ErrorsNameTheScope) {
  const Scope outer("layers.3"), inner("mlp");
  try {
    add(zeros({2}), zeros({3}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_EQ(error.where(), "layers.3.mlp");
    EXPECT_EQ(error.hint(), "Sizes must be equal or 1; reshape or unsqueeze one of the tensors.");
  }
}

}  // namespace
}  // namespace causeway::tensor
