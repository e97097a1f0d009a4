// The primitives at the edges of their dtypes against the reference interpreter: zeros of both signs, infinities, NaN,
// subnormals, halves, the largest and the smallest of each type, overflowing integers, strides of one element and of a
// page. On the processor and on the emulator as an NVIDIA and as an AMD GPU, or on the device that the environment
// variable CAUSEWAY_TEST_DEVICE names. docs/numerics.md says what is promised.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>

#include "causeway/base/error.h"
#include "causeway/graph/interpreter.h"
#include "causeway/graph/op.h"
#include "causeway/graph/parser.h"
#include "tests/comparison/bounds.h"
#include "tests/comparison/comparison.h"
#include "tests/device/device_under_test.h"
#include "tests/program/edge_values.h"
#include "tests/program/program_runner.h"

namespace causeway::program {
namespace {

std::vector<std::string> edge_devices() { return devices_under_test({"cpu", "emulator:sm_90a", "emulator:gfx942"}); }

// What a result may be away from the exact one, in units of the last place of an f32: 0 where it is rounded correctly.
double allowed_ulps(Op op) {
  switch (op) {
    case Op::kExp2:
    case Op::kLog2:
    case Op::kSin:
    case Op::kCos:
    case Op::kTanh:
    case Op::kErf:
    case Op::kPow:
      return 2;  // causeway/kernels/math.h
    case Op::kRsqrt:
      return 1;
    default:
      return 0;
  }
}

bool same_number(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// `exact` is the reference before it is rounded. A narrow float is computed in f32 and rounded once more. NVIDIA's own
// instructions for powers and reciprocals are not quite exact and give 0 below 2^-126 (docs/numerics.md).
bool is_right(Op op, DType dtype, const std::vector<double>& x, double exact, double actual, bool on_nvidia) {
  const double reference = round_to_dtype(dtype, exact);
  const bool is_approximate = on_nvidia && (op == Op::kExp2 || op == Op::kRecip);
  if (is_approximate && std::abs(exact) < 0x1p-126 && actual == 0) return true;
  const double ulps = is_approximate ? 2 : allowed_ulps(op);
  if (!is_float(dtype)) return actual == reference;
  // The GEMM may be rounded before the sum is: f32 overflows there, the reference does not.
  if (op == Op::kFma && same_number(actual, round_to_dtype(dtype, static_cast<float>(x[0] * x[1]) + x[2]))) return true;
  if (op == Op::kRem && std::isfinite(x[0] / x[1]) && std::abs(x[0] / x[1]) >= 0x1p29)  // beyond what fmod_f32 promises
    return std::signbit(actual) == std::signbit(x[0]) && std::abs(actual) < std::abs(x[1]);
  if ((op == Op::kSin || op == Op::kCos) && std::isfinite(x[0]) && std::abs(x[0]) > 1e5) return std::abs(actual) <= 1;
  if (!std::isfinite(actual) || !std::isfinite(reference)) {
    if (same_number(actual, reference)) return true;
    // Within the error, the largest number and infinity are neighbours.
    return std::isinf(actual) != std::isinf(reference) && ulps > 0 &&
           std::abs(std::isinf(actual) ? reference : actual) >= 0.99 * float_edges(dtype).largest;
  }
  if (actual == 0 && reference == 0) {
    if (op == Op::kMax || op == Op::kMin) return true;
    return std::signbit(actual) == std::signbit(reference);
  }
  const double narrow = dtype == DType::kF32 ? 0 : unit_in_last_place(dtype, exact);
  return actual == reference ||
         std::abs(actual - exact) <= (ulps + 0.5) * unit_in_last_place(DType::kF32, exact) + 0.501 * narrow;
}

class EdgesOnDevice : public testing::TestWithParam<std::string> {
 protected:
  static ProgramRunner& runner() {
    static std::map<std::string, std::unique_ptr<ProgramRunner>> runners;
    std::unique_ptr<ProgramRunner>& runner = runners[GetParam()];
    if (runner == nullptr) runner = std::make_unique<ProgramRunner>(open_device_under_test(GetParam()));
    return *runner;
  }

  // Every op that takes `arity` operands of one dtype, of every combination of edges.
  static void expect_elementwise(int arity) {
    for (const DType dtype : kAllDTypes) {
      std::vector<double> values = edge_values(dtype);
      if (arity == 3)
        while (values.size() > 16) values.erase(values.begin() + static_cast<ptrdiff_t>(values.size() * 7 / 13));
      Graph graph;
      const std::vector<HostTensor> inputs = combinations(dtype, values, arity);
      std::vector<Value> operands;
      for (const HostTensor& input : inputs) operands.push_back(graph.add_input("x", {dtype, {Dim(input.shape[0])}}));
      std::vector<Op> ops;
      for (const OpInfo& info : all_ops()) {
        if (!is_elementwise(info.op) || info.arity != arity || info.op == Op::kCast || info.op == Op::kBitcast ||
            info.op == Op::kSelect)
          continue;
        try {
          graph.outputs.push_back(graph.add(info.op, operands));
          ops.push_back(info.op);
        } catch (const Error&) {
          // not a dtype of this op
        }
      }
      if (ops.empty()) continue;
      const std::vector<HostTensor> exact = interpret(graph, inputs);
      const std::vector<HostTensor> actual = runner().run(graph, inputs);
      const bool on_nvidia = GetParam().starts_with("cuda");
      for (size_t o = 0; o < ops.size(); ++o) {
        int wrong = 0;
        for (size_t i = 0; i < exact[o].values.size(); ++i) {
          std::vector<double> x;
          for (const HostTensor& input : inputs) x.push_back(input.values[i]);
          if (is_right(ops[o], exact[o].dtype, x, exact[o].values[i], actual[o].values[i], on_nvidia)) continue;
          if (++wrong <= 5)
            ADD_FAILURE() << op_name(ops[o]) << " of " << dtype_name(dtype) << " ("
                          << fmt::format("{:a}", fmt::join(x, ", ")) << "): got "
                          << fmt::format("{:a}", actual[o].values[i]) << ", expected "
                          << fmt::format("{:a}", exact[o].values[i]);
        }
        EXPECT_EQ(wrong, 0) << op_name(ops[o]) << " of " << dtype_name(dtype) << ", of " << exact[o].values.size();
      }
    }
  }

  // Bit for bit, but for the payload of a NaN; the signs of zeros too where `signs`.
  static void expect_equal(const Graph& graph, const std::vector<HostTensor>& inputs, bool signs = true) {
    const std::vector<HostTensor> reference = interpret(graph, inputs, {}, Rounding::kRounded);
    const std::vector<HostTensor> actual = runner().run(graph, inputs);
    ASSERT_EQ(actual.size(), reference.size());
    for (size_t o = 0; o < actual.size(); ++o) {
      ASSERT_EQ(actual[o].values.size(), reference[o].values.size());
      int wrong = 0;
      for (size_t i = 0; i < actual[o].values.size(); ++i) {
        const double got = actual[o].values[i], expected = reference[o].values[i];
        const bool right =
            same_number(got, expected) && (!signs || expected != 0 || std::signbit(got) == std::signbit(expected));
        if (!right && ++wrong <= 5)
          ADD_FAILURE() << "result " << o << ", " << reference[o].type_text() << ", element " << i << ": got "
                        << fmt::format("{:a}", got) << ", expected " << fmt::format("{:a}", expected);
      }
      EXPECT_EQ(wrong, 0) << "result " << o << " of " << actual[o].values.size();
    }
  }

  static void expect_equal(const std::string& text, const std::vector<HostTensor>& inputs, bool signs = true) {
    expect_equal(parse_graph(text), inputs, signs);
  }
};

INSTANTIATE_TEST_SUITE_P(Devices, EdgesOnDevice, testing::ValuesIn(edge_devices()), named_by_device);

TEST_P(EdgesOnDevice, OneOperand) { expect_elementwise(1); }
TEST_P(EdgesOnDevice, PairsOfOperands) { expect_elementwise(2); }
TEST_P(EdgesOnDevice, ThreeOperands) { expect_elementwise(3); }

// From every dtype to every dtype; from f32 also ties and what saturates.
TEST_P(EdgesOnDevice, Conversions) {
  for (const DType from : kAllDTypes) {
    std::vector<double> values = edge_values(from);
    if (from == DType::kF32)
      for (const double value : conversion_edges()) values.push_back(value);
    // Integers become narrow floats by way of f32.
    if (from == DType::kI32 || from == DType::kI64)
      for (double& value : values) value = round_to_dtype(from, static_cast<float>(value));
    Graph graph;
    const Value x = graph.add_input("x", {from, {Dim(static_cast<int64_t>(values.size()))}});
    for (const DType to : kAllDTypes) {
      Attributes attributes;
      attributes.dtype = to;
      graph.outputs.push_back(graph.add(Op::kCast, {x}, attributes));
    }
    SCOPED_TRACE(dtype_name(from));
    expect_equal(graph, {make_host_tensor(from, {static_cast<int64_t>(values.size())}, values)});
  }
}

// All codes of the small floats, read and written back, but for e5m2's infinities: whether an op that does not compute
// keeps them is not promised.
TEST_P(EdgesOnDevice, EveryCodeOfEightBits) {
  HostTensor codes = fill_host_tensor(DType::kU8, {256}, 0);
  for (size_t i = 0; i < 256; ++i) codes.values[i] = static_cast<double>(i);
  HostTensor finite = codes;
  finite.values[0x7c] = finite.values[0xfc] = 0;
  expect_equal(R"(%0 = input "codes" : u8[256]
%1 = bitcast(%0) : f8e4m3[256]
%2 = cast(%1) : f32[256]
%3 = cast(%1) : f16[256]
%4 = input "finite" : u8[256]
%5 = bitcast(%4) : f8e5m2[256]
%6 = cast(%5) : bf16[256]
%7 = cast(%5) : f8e4m3[256]
%8 = cast(%1) : f8e5m2[256]
return %2, %3, %6, %7, %8
)",
               {codes, finite});
}

// What a compiler may assume never happens to signed integers, across ops of one kernel.
TEST_P(EdgesOnDevice, IntegersWrapAcrossOps) {
  for (const char* type : {"i32", "i64"}) {
    const DType dtype = *parse_dtype(type);
    const std::vector<double> values = edge_values(dtype);
    const HostTensor x = make_host_tensor(dtype, {static_cast<int64_t>(values.size())}, values);
    const std::string shape = fmt::format("[{}]", values.size()), full = type + shape;
    expect_equal(fmt::format(R"(%0 = input "x" : {0}
%1 = constant 1 : {0}
%2 = add(%0, %1) : {0}
%3 = lt(%2, %0) : bool{1}
%4 = abs(%0) : {0}
%5 = constant 0 : {0}
%6 = lt(%4, %5) : bool{1}
%7 = neg(%0) : {0}
%8 = le(%7, %0) : bool{1}
%9 = constant 2 : {0}
%10 = mul(%0, %9) : {0}
%11 = div(%10, %9) : {0}
%12 = eq(%11, %0) : bool{1}
%13 = sub(%0, %1) : {0}
%14 = lt(%0, %13) : bool{1}
return %3, %6, %8, %12, %14
)",
                             full, shape),
                 {x});
  }
}

// Sums that overflow wrap; maxima and sums of infinities, NaN, zeros and subnormals.
TEST_P(EdgesOnDevice, Reductions) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  for (const DType dtype : kAllDTypes) {
    if (dtype == DType::kBool) continue;
    std::vector<std::vector<double>> rows;
    if (is_float(dtype)) {
      const FloatEdges edges = float_edges(dtype);
      rows = {{inf, 1},
              {inf, -inf},
              {-inf, -1},
              {nan, inf},
              {-0.0, -0.0},
              {-0.0, 0.0},
              {edges.smallest, edges.smallest},
              {edges.smallest_normal, -edges.smallest},
              {edges.largest, -edges.largest},
              {1, nan},
              {-inf, -inf},
              {edges.largest, 0}};
    } else if (dtype == DType::kU8) {
      rows = {{255, 255}, {255, 1}, {0, 0}};
    } else {
      const double low = dtype == DType::kI32 ? -0x1p31 : -0x1p63;
      const double high = dtype == DType::kI32 ? 0x1p31 - 1 : 0x1p62;
      rows = {{high, high}, {low, low}, {low, -1}, {low, high}, {high, 1}};
    }
    // In rows, in columns, and long enough for a block of threads.
    for (const int64_t length : {int64_t{2}, int64_t{65}, int64_t{1500}}) {
      const auto count = static_cast<int64_t>(rows.size());
      HostTensor x = fill_host_tensor(dtype, {count, length}, 0);
      for (size_t r = 0; r < rows.size(); ++r) {
        const auto at = [&](int64_t column) -> double& {
          return x.values[r * static_cast<size_t>(length) + static_cast<size_t>(column)];
        };
        // Sums of fewer elements than a block has, so that their order cannot matter; the rest is neutral.
        if (is_float(dtype) && std::isinf(rows[r][0]) && rows[r][0] < 0)
          for (int64_t c = 0; c < length; ++c) at(c) = rows[r][0];
        at(length / 3) = round_to_dtype(dtype, rows[r][0]);
        at(length - 1) = round_to_dtype(dtype, rows[r][1]);
      }
      HostTensor turned = fill_host_tensor(dtype, {length, count}, 0);
      for (size_t r = 0; r < rows.size(); ++r)
        for (size_t c = 0; c < static_cast<size_t>(length); ++c)
          turned.values[c * rows.size() + r] = x.values[r * static_cast<size_t>(length) + c];
      const std::string name(dtype_name(dtype));
      SCOPED_TRACE(name + " " + std::to_string(length));
      expect_equal(fmt::format(R"(%0 = input "x" : {0}[{1}, {2}]
%1 = reduce_sum(%0) {{axes=[1]}} : {0}[{1}]
%2 = reduce_max(%0) {{axes=[1]}} : {0}[{1}]
%3 = argmax(%0) {{axes=[1]}} : i32[{1}]
%4 = cumsum(%0) {{axes=[1]}} : {0}[{1}, {2}]
%5 = input "turned" : {0}[{2}, {1}]
%6 = reduce_sum(%5) {{axes=[0]}} : {0}[{1}]
%7 = reduce_max(%5) {{axes=[0]}} : {0}[{1}]
%8 = argmax(%5) {{axes=[0]}} : i32[{1}]
%9 = cumsum(%5) {{axes=[0]}} : {0}[{2}, {1}]
%10:2 = topk(%0) {{count=2}} : {0}[{1}, 2], i32[{1}, 2]
return %1, %2, %3, %4, %6, %7, %8, %9, %10.0, %10.1
)",
                               name, count, length),
                   {x, turned}, false);
    }
  }
}

// Indices far outside, whose low bits would be inside.
TEST_P(EdgesOnDevice, IndicesFarOutside) {
  const std::vector<double> far = {
      0,      3,      4,       -1, 2147483647., -2147483648., 2147483648., 4294967296., 4294967297., -4294967295.,
      0x1p62, 0x1p63, -0x1p63, 1};
  const auto count = static_cast<int64_t>(far.size());
  const HostTensor table = random_host_tensor(DType::kF32, {4, 24}, 1);
  const HostTensor updates = random_host_tensor(DType::kI32, {count, 24}, 2, -5, 9);
  const HostTensor base = random_host_tensor(DType::kI32, {4, 24}, 3, -5, 9);
  for (const DType dtype : {DType::kI64, DType::kI32}) {
    HostTensor indices = make_host_tensor(dtype, {count}, far);
    for (double& index : indices.values) index = round_to_dtype(dtype, index);
    expect_equal(fmt::format(R"(%0 = input "table" : f32[4, 24]
%1 = input "indices" : {0}[{1}]
%2 = gather(%0, %1) {{axes=[0]}} : f32[{1}, 24]
%3 = input "updates" : i32[{1}, 24]
%4 = input "base" : i32[4, 24]
%5 = scatter_add(%4, %1, %3) {{axes=[0]}} : i32[4, 24]
return %2, %5
)",
                             dtype_name(dtype), count),
                 {table, indices, updates, base});
  }
}

// Rows of a page and one element more and less; columns one element wide; steps of a page.
TEST_P(EdgesOnDevice, StridesOfOneElementAndOfAPage) {
  for (const char* type : {"f32", "bf16", "u8"}) {
    const DType dtype = *parse_dtype(type);
    const auto page = static_cast<int64_t>(4096 / size_bytes(dtype));
    for (const int64_t width : {page - 1, page, page + 1, int64_t{1}}) {
      SCOPED_TRACE(fmt::format("{} {}", type, width));
      const HostTensor x = random_host_tensor(dtype, {5, width}, 1, 0, 9);
      const HostTensor y = random_host_tensor(dtype, {width}, 2, 0, 9);
      expect_equal(fmt::format(R"(%0 = input "x" : {0}[5, {1}]
%1 = permute(%0) {{axes=[1, 0]}} : {0}[{1}, 5]
%2 = reduce_max(%0) {{axes=[0]}} : {0}[{1}]
%3 = reduce_max(%0) {{axes=[1]}} : {0}[5]
%4 = input "y" : {0}[{1}]
%5 = broadcast(%4) {{axes=[1]}} : {0}[5, {1}]
%6 = max(%0, %5) : {0}[5, {1}]
%7 = permute(%6) {{axes=[1, 0]}} : {0}[{1}, 5]
%8 = slice(%1) {{start=[0, 2], limit=[{1}, 3], strides=[1, 1]}} : {0}[{1}, 1]
%9 = reshape(%8) : {0}[{1}]
%10 = argmax(%0) {{axes=[0]}} : i32[{1}]
return %1, %2, %3, %7, %9, %10
)",
                               type, width),
                   {x, y});
      if (width < page - 1) continue;
      const HostTensor flat = random_host_tensor(dtype, {5 * width}, 3, 0, 9);
      expect_equal(fmt::format(R"(%0 = input "x" : {0}[{2}]
%1 = slice(%0) {{start=[0], limit=[{2}], strides=[{1}]}} : {0}[5]
%2 = slice(%0) {{start=[1], limit=[{2}], strides=[1]}} : {0}[{3}]
%3 = concat(%2, %1) {{axes=[0]}} : {0}[{4}]
return %1, %2, %3
)",
                               type, width, 5 * width, 5 * width - 1, 5 * width + 4),
                   {flat});
    }
  }
}

// A NaN or an infinity in an operand of a GEMM stays in its row and column, whatever the tiles; zeros times infinity
// are NaN. docs/numerics.md says what becomes of subnormal operands.
TEST_P(EdgesOnDevice, GemmsOfNaNAndInfinities) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const char* type : {"f32", "bf16", "f16"}) {
    const DType dtype = *parse_dtype(type);
    for (const auto& [m, n, k] : {std::array<int64_t, 3>{40, 72, 56}, {1, 33, 80}, {131, 67, 45}}) {
      HostTensor a = random_host_tensor(dtype, {m, k}, 1, 1, 4), b = random_host_tensor(dtype, {k, n}, 2, 1, 4);
      const auto row = static_cast<size_t>(m / 2), column = static_cast<size_t>(n / 2);
      if (m > 4) {
        a.values[row * static_cast<size_t>(k) + 3] = std::nan("");
        a.values[(row + 1) * static_cast<size_t>(k) + static_cast<size_t>(k) - 1] = inf;
        a.values[(row + 2) * static_cast<size_t>(k)] = -inf;
      }
      b.values[3 * static_cast<size_t>(n) + column] = inf;
      b.values[static_cast<size_t>(k - 1) * static_cast<size_t>(n) + column + 1] = 0;
      b.values[column + 2] = std::nan("");
      for (const bool transpose : {false, true}) {
        HostTensor second = b;
        if (transpose) {
          second.shape = {n, k};
          for (size_t i = 0; i < static_cast<size_t>(k); ++i)
            for (size_t j = 0; j < static_cast<size_t>(n); ++j)
              second.values[j * static_cast<size_t>(k) + i] = b.values[i * static_cast<size_t>(n) + j];
        }
        const Graph graph = parse_graph(fmt::format(
            "%0 = input \"a\" : {0}[{1}, {3}]\n%1 = input \"b\" : {0}[{4}, {5}]\n%2 = dot(%0, %1){6} : f32[{1}, {2}]\n"
            "return %2\n",
            type, m, n, k, transpose ? n : k, transpose ? k : n, transpose ? " {transpose_b}" : ""));
        const HostTensor reference = interpret(graph, {a, second})[0], actual = runner().run(graph, {a, second})[0];
        const Comparison comparison = compare(actual, reference, bounds::of_graph(graph));
        EXPECT_TRUE(comparison.equal) << type << " " << m << "x" << n << "x" << k << ": " << comparison.text;
      }
    }
  }
}

}  // namespace
}  // namespace causeway::program
