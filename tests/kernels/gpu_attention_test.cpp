// Attention on GPUs, forward and backward, against the reference interpreter, through fusion and code generation: on
// the emulator, or on the device that the environment variable CAUSEWAY_TEST_DEVICE names ("cuda", "hip").
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "causeway/device/emulator/emulator_device.h"
#include "causeway/device/open_device.h"
#include "causeway/graph/compare.h"
#include "causeway/graph/interpreter.h"
#include "tests/passes/attention_specs.h"
#include "tests/program/program_runner.h"

namespace causeway {
namespace {

std::vector<std::string> device_specs() {
  if (const char* spec = std::getenv("CAUSEWAY_TEST_DEVICE")) return {spec};
  return {"emulator:sm_90a", "emulator:gfx942"};
}

std::shared_ptr<Device> device_of(const std::string& spec) {
  static std::map<std::string, std::shared_ptr<Device>> devices;
  std::shared_ptr<Device>& device = devices[spec];
  if (device == nullptr) device = open_device(spec);
  return device;
}

struct AttentionCase {
  DType dtype = DType::kF32;
  int64_t batch = 2, queries = 37, keys = 37, heads = 2, kv_heads = 2, dim = 32;
  std::shared_ptr<const Graph> mask, score;
  bool captures_slopes = false;
  bool captures_documents = false;
  bool captures_bias = false;  // [queries, keys]
  enum class Layout { kPlain, kPermuted, kSliced, kComputed };
  Layout layout = Layout::kPlain;
  int64_t block = 32;
};

// A bias for each pair of positions, and pairs that take no part where it is below -0.9: their gradient must not count,
// even where it is infinite. With a mask that has the same inputs.
Value captured_bias(ScalarFunction& f, const AttentionCase& c) {
  const Value bias = f.graph.add_input("bias", {DType::kF32, {c.queries, c.keys}});
  const Builder b(f.graph);
  return b.gather(b.gather(bias, f.in[2], 0), f.in[3], 0);
}
std::shared_ptr<const Graph> score_of_captured_bias(const AttentionCase& c) {
  ScalarFunction f = scalar_function(true);
  const Value bias = captured_bias(f, c);
  const Builder b(f.graph);
  const Value left_out = b.less(bias, b.constant(DType::kF32, {}, -0.9));
  return finish(f, b.select(left_out, b.constant(DType::kF32, {}, -std::numeric_limits<double>::infinity()),
                            b.add(f.in[4], bias)));
}
std::shared_ptr<const Graph> gradient_of_captured_bias(const AttentionCase& c) {
  ScalarFunction f = scalar_function(true);
  const Value bias = captured_bias(f, c);
  const Builder b(f.graph);
  const Value left_out = b.less(bias, b.constant(DType::kF32, {}, -0.9));
  return finish(f, b.select(left_out, b.constant(DType::kF32, {}, std::numeric_limits<double>::infinity()),
                            b.constant(DType::kF32, {}, 1)));
}
std::shared_ptr<const Graph> causal_mask_beside_bias(const AttentionCase& c) {
  ScalarFunction f = scalar_function(false);
  captured_bias(f, c);
  return finish(f, Builder(f.graph).less_equal(f.in[3], f.in[2]));
}

// d score / d s, as the gradient pass would make it, for the scores used here.
std::shared_ptr<const Graph> one(bool captures_slopes, int64_t heads) {
  ScalarFunction f = scalar_function(true);
  if (captures_slopes) f.graph.add_input("slopes", {DType::kF32, {heads}});
  return finish(f, Builder(f.graph).constant(DType::kF32, {}, 1));
}
std::shared_ptr<const Graph> soft_capped_gradient(double cap) {
  ScalarFunction f = scalar_function(true);
  const Builder b(f.graph);
  const Value bent = f.graph.add(Op::kTanh, {b.scale(f.in[4], 1 / cap)});
  return finish(f, b.sub(b.constant(DType::kF32, {}, 1), b.mul(bent, bent)));
}

// Causal within documents; documents [batch, length] captured.
std::shared_ptr<const Graph> document_mask(int64_t batch, int64_t length) {
  ScalarFunction f = scalar_function(false);
  const Value documents = f.graph.add_input("documents", {DType::kI32, {batch, length}});
  const Builder b(f.graph);
  const Value row = b.gather(documents, f.in[0], 0);
  const Value same = b.equal(b.gather(row, f.in[2], 0), b.gather(row, f.in[3], 0));
  return finish(f, f.graph.add(Op::kAnd, {same, b.less_equal(f.in[3], f.in[2])}));
}
// Causal, but the first keys are seen by all.
std::shared_ptr<const Graph> prefix_mask(int64_t prefix) {
  ScalarFunction f = scalar_function(false);
  const Builder b(f.graph);
  const Value first = b.less(f.in[3], b.constant(DType::kI32, {}, static_cast<double>(prefix)));
  return finish(f, f.graph.add(Op::kOr, {first, b.less_equal(f.in[3], f.in[2])}));
}

// Outputs: out, lse, dq, dk, dv.
Graph attention_graph(const AttentionCase& c, const std::shared_ptr<const Graph>& score_gradient) {
  Graph graph;
  const Builder build(graph);
  const auto operand = [&](const char* name, int64_t length, int64_t heads) {
    switch (c.layout) {
      case AttentionCase::Layout::kPermuted:  // heads before positions in memory
        return build.permute(graph.add_input(name, {c.dtype, {c.batch, heads, length, c.dim}}), {0, 2, 1, 3});
      case AttentionCase::Layout::kSliced:  // between other heads
        return build.slice_axis(graph.add_input(name, {c.dtype, {c.batch, length, heads + 2, c.dim}}), 2, 1, heads + 1);
      case AttentionCase::Layout::kComputed:
        return build.neg(graph.add_input(name, {c.dtype, {c.batch, length, heads, c.dim}}));
      case AttentionCase::Layout::kPlain:
        break;
    }
    return graph.add_input(name, {c.dtype, {c.batch, length, heads, c.dim}});
  };
  const Value q = operand("q", c.queries, c.heads), k = operand("k", c.keys, c.kv_heads),
              v = operand("v", c.keys, c.kv_heads), dout = operand("dout", c.queries, c.heads);
  std::vector<Value> captured;
  if (c.captures_slopes) captured.push_back(graph.add_input("slopes", {DType::kF32, {c.heads}}));
  if (c.captures_bias) captured.push_back(graph.add_input("bias", {DType::kF32, {c.queries, c.keys}}));
  if (c.captures_documents) captured.push_back(graph.add_input("documents", {DType::kI32, {c.batch, c.keys}}));

  auto spec = std::make_shared<AttentionSpec>();
  spec->mask = c.mask;
  spec->score = c.score;
  spec->scale = 1 / std::sqrt(static_cast<double>(c.dim));
  spec->block_q = spec->block_k = c.block;
  spec->has_block_map = c.mask != nullptr && !c.captures_slopes;
  std::vector<Value> map;
  if (spec->has_block_map) {
    Attributes attributes;
    attributes.attention = spec;
    attributes.shape = {c.batch, c.heads, c.queries, c.keys};
    map.push_back(graph.add(Op::kAttentionBlockMap, captured, attributes));
  }
  const auto inputs = [&](std::vector<Value> first) {
    first.insert(first.end(), map.begin(), map.end());
    first.insert(first.end(), captured.begin(), captured.end());
    return first;
  };
  Attributes forward;
  forward.attention = spec;
  const Value out = graph.add(Op::kAttention, inputs({q, k, v}), forward);
  const Value lse{out.node, 1};
  const Value product = build.mul(build.cast(out, DType::kF32), build.cast(dout, DType::kF32));
  const Value delta = build.permute(build.reduce_sum(product, {3}), {0, 2, 1});
  auto backward_spec = std::make_shared<AttentionSpec>(*spec);
  backward_spec->score_gradient = score_gradient;
  Attributes backward;
  backward.attention = backward_spec;
  const Value dq = graph.add(Op::kAttentionGradient, inputs({q, k, v, dout, lse, delta}), backward);
  graph.outputs = {out, lse, dq, {dq.node, 1}, {dq.node, 2}};
  return graph;
}

std::vector<HostTensor> inputs_of(const Graph& graph) {
  std::vector<HostTensor> inputs;
  uint64_t seed = 1;
  for (const Value input : graph.inputs()) {
    const TensorType& type = graph.type(input);
    inputs.push_back(random_host_tensor(type.dtype, evaluate(type.shape, {}), seed++, -1, 1));
  }
  return inputs;
}

class GpuAttention : public testing::TestWithParam<std::string> {
 protected:
  void expect_reference(const AttentionCase& c, const std::shared_ptr<const Graph>& score_gradient = nullptr) {
    const Graph graph = attention_graph(c, score_gradient);
    const std::vector<HostTensor> inputs = inputs_of(graph);
    const std::vector<HostTensor> reference = interpret(graph, inputs, {}, Rounding::kRounded);
    ProgramRunner runner(device_of(GetParam()));
    const std::vector<HostTensor> actual = runner.run(graph, inputs);
    const double tolerance = c.dtype == DType::kF32 ? 2e-5 : c.dtype == DType::kF16 ? 4e-3 : 3e-2;
    for (size_t i = 0; i < actual.size(); ++i) {
      const Comparison comparison = compare(actual[i], reference[i], {tolerance, tolerance, 2});
      EXPECT_TRUE(comparison.equal) << "output " << i << " of " << dtype_name(c.dtype) << " " << c.batch << " x "
                                    << c.queries << " x " << c.keys << ", " << c.heads << "/" << c.kv_heads
                                    << " heads of " << c.dim << ": " << comparison.text;
    }
  }
};

TEST_P(GpuAttention, FullAndCausalInEveryType) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    AttentionCase c;
    c.dtype = dtype;
    expect_reference(c);
    c.mask = causal_mask();
    c.queries = c.keys = 100;
    expect_reference(c);
  }
}

TEST_P(GpuAttention, EveryHeadDimension) {
  for (const int64_t dim : {16, 40, 64, 80, 96, 128, 256}) {
    AttentionCase c;
    c.dtype = DType::kBF16;
    c.batch = 1;
    c.dim = dim;
    c.mask = causal_mask();
    expect_reference(c);
  }
  AttentionCase wide;
  wide.batch = 1;
  wide.dim = 128;
  expect_reference(wide);
}

TEST_P(GpuAttention, GroupedQueriesAndOtherLengths) {
  AttentionCase c;
  c.dtype = DType::kBF16;
  c.heads = 6;
  c.kv_heads = 2;
  c.queries = 20;
  c.keys = 90;
  expect_reference(c);
  c.queries = 90;
  c.keys = 17;
  c.mask = causal_mask();
  expect_reference(c);
  c.queries = 1;
  expect_reference(c);
}

TEST_P(GpuAttention, MasksThatDifferByHeadAndLeaveRowsOut) {
  AttentionCase c;
  c.heads = c.kv_heads = 3;
  c.queries = c.keys = 130;
  c.batch = 1;
  c.mask = window_mask_by_head(9);
  expect_reference(c);
  c.mask = window_mask_by_head(0);  // nothing is seen
  expect_reference(c);
  c.mask = causal_mask();
  c.block = 24;  // tiles straddle the map's blocks
  expect_reference(c);
}

TEST_P(GpuAttention, ScoresWithTheirGradients) {
  AttentionCase c;
  c.score = soft_capped_score(0.5);
  c.mask = causal_mask();
  c.queries = c.keys = 70;
  expect_reference(c, soft_capped_gradient(0.5));
  AttentionCase biased;
  biased.dtype = DType::kBF16;
  biased.score = biased_score(biased.heads);
  biased.captures_slopes = true;
  expect_reference(biased, one(true, biased.heads));
}

TEST_P(GpuAttention, OperandsAreReadWhereTheyLie) {
  AttentionCase c;
  c.dtype = DType::kBF16;
  c.mask = causal_mask();
  c.queries = c.keys = 65;
  for (const auto layout : {AttentionCase::Layout::kPermuted, AttentionCase::Layout::kSliced}) {
    c.layout = layout;
    expect_reference(c);
  }
}

TEST_P(GpuAttention, ComputedOperands) {
  AttentionCase c;
  c.layout = AttentionCase::Layout::kComputed;
  c.mask = causal_mask();
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    c.dtype = dtype;
    expect_reference(c);
  }
}

TEST_P(GpuAttention, DocumentsAndPrefixes) {
  AttentionCase c;
  c.dtype = DType::kBF16;
  c.queries = c.keys = 100;
  c.mask = prefix_mask(21);
  expect_reference(c);
  c.mask = document_mask(c.batch, c.keys);
  c.captures_documents = true;
  expect_reference(c);
}

// What runs on warpgroup matrices where there are any (attention_hopper.h): more than one tile of queries and of keys,
// with ends inside of a tile.
class WideHeads : public GpuAttention {
 protected:
  static AttentionCase wide(int64_t dim, DType dtype = DType::kBF16) {
    AttentionCase c;
    c.dtype = dtype;
    c.batch = 1;
    c.dim = dim;
    c.queries = c.keys = 150;
    c.block = 64;
    return c;
  }
};

TEST_P(WideHeads, FullAndCausal) {
  for (const int64_t dim : {64, 128}) {
    AttentionCase c = wide(dim, dim == 64 ? DType::kF16 : DType::kBF16);
    c.keys = 300;
    expect_reference(c);
    c = wide(dim);
    c.batch = 2;
    c.heads = 4;
    c.mask = causal_mask();
    expect_reference(c);
  }
}

// More tiles than there is room for at once.
TEST_P(WideHeads, ManyTiles) {
  AttentionCase c = wide(64);
  c.heads = c.kv_heads = 1;
  c.queries = 70;
  c.keys = 900;
  expect_reference(c);
  c.queries = c.keys = 700;
  c.mask = causal_mask();
  expect_reference(c);
}

TEST_P(WideHeads, MasksAndTheirMaps) {
  AttentionCase c = wide(64);
  for (const int64_t block : {24, 32, 64, 128, 256}) {
    c.block = block;
    c.mask = window_mask_by_head(20);
    expect_reference(c);
  }
  c.mask = window_mask_by_head(0);  // nothing is seen
  expect_reference(c);
  c.mask = prefix_mask(140);
  expect_reference(c);
  c.mask = document_mask(c.batch, c.keys);
  c.captures_documents = true;
  expect_reference(c);
}

TEST_P(WideHeads, ScoresLayoutsAndLengths) {
  AttentionCase biased = wide(64);
  biased.score = biased_score(biased.heads);
  biased.captures_slopes = true;
  expect_reference(biased, one(true, biased.heads));
  AttentionCase c = wide(128);
  c.mask = causal_mask();
  for (const auto layout :
       {AttentionCase::Layout::kPermuted, AttentionCase::Layout::kSliced, AttentionCase::Layout::kComputed}) {
    c.layout = layout;
    expect_reference(c);
  }
  AttentionCase grouped = wide(64);
  grouped.heads = 6;
  grouped.queries = 1;
  grouped.keys = 130;
  expect_reference(grouped);
  grouped.queries = 129;
  grouped.keys = 1;
  expect_reference(grouped);
}

// Tiles that are all seen and inside, where the score function alone is applied, beside those that are not.
TEST_P(WideHeads, ScoresWithMasksAndTheirMaps) {
  for (const int64_t dim : {64, 128}) {
    AttentionCase c = wide(dim);
    c.queries = 150;
    c.keys = 300;
    c.captures_bias = true;
    c.score = score_of_captured_bias(c);
    expect_reference(c, gradient_of_captured_bias(c));
    c.mask = causal_mask_beside_bias(c);
    expect_reference(c, gradient_of_captured_bias(c));
    c = wide(dim);
    c.score = soft_capped_score(0.5);
    c.mask = causal_mask();
    expect_reference(c, soft_capped_gradient(0.5));
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, WideHeads, testing::ValuesIn(device_specs()), [](const auto& test) {
  std::string name = test.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
});

INSTANTIATE_TEST_SUITE_P(Devices, GpuAttention, testing::ValuesIn(device_specs()), [](const auto& test) {
  std::string name = test.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
});

// Planted faults are the emulator's own tests; here none must be found, and the order of threads must not matter.
TEST(GpuAttentionOnTheEmulator, NoRacesAndTheSameBitsForEverySchedule) {
  AttentionCase c;
  c.dtype = DType::kBF16;
  c.queries = c.keys = 150;
  c.dim = 64;
  c.captures_bias = true;
  c.mask = causal_mask_beside_bias(c);
  c.score = score_of_captured_bias(c);
  const Graph graph = attention_graph(c, gradient_of_captured_bias(c));
  const std::vector<HostTensor> inputs = inputs_of(graph);
  for (const char* processor : {"sm_80", "sm_90a", "gfx90a"}) {
    std::vector<std::vector<HostTensor>> results;
    for (const uint64_t seed : {1, 2}) {
      EmulatorOptions options;
      options.seed = seed;
      options.checked = true;
      ProgramRunner runner(std::make_shared<EmulatorDevice>(processor, options));
      results.push_back(runner.run(graph, inputs));
    }
    for (size_t i = 0; i < results[0].size(); ++i) EXPECT_EQ(results[0][i].values, results[1][i].values) << processor;
  }
}

}  // namespace
}  // namespace causeway
