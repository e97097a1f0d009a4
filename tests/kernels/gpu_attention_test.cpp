// Attention, forward and backward, against the reference interpreter, through fusion and code generation: on the
// processor and on emulated GPUs, or on the device that the environment variable CAUSEWAY_TEST_DEVICE names ("cuda",
// "hip").
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "causeway/device/emulator/emulator_device.h"
#include "causeway/device/gpu_architecture.h"
#include "causeway/graph/interpreter.h"
#include "tests/comparison/bounds.h"
#include "tests/device/device_under_test.h"
#include "tests/fixtures/op_literal.h"
#include "tests/passes/attention_specs.h"
#include "tests/program/program_runner.h"

namespace causeway::program {
namespace {

std::vector<std::string> device_specs() { return devices_under_test({"cpu", "emulator:sm_90a", "emulator:gfx942"}); }

std::shared_ptr<Device> device_of(const std::string& spec) {
  static std::map<std::string, std::shared_ptr<Device>> devices;
  std::shared_ptr<Device>& device = devices[spec];
  if (device == nullptr) device = open_device_under_test(spec);
  return device;
}

struct AttentionCase {
  DType dtype = DType::kF32;
  bool tf32 = false;
  int64_t batch = 2, queries = 37, keys = 37, heads = 2, kv_heads = 2, dim = 32;
  int64_t value_dim = 0;  // of values and outputs; 0: as wide as queries and keys
  std::shared_ptr<const Graph> mask, score;
  bool captures_slopes = false;
  bool captures_documents = false;
  bool captures_bias = false;  // [queries, keys]
  enum class Layout { kPlain, kPermuted, kSliced, kComputed };
  Layout layout = Layout::kPlain;
  int64_t block = 32;
  bool sees_nothing = false;  // all results are zeros
  bool sees_one_key = false;  // no query more than one: dq and dk are 0 but for rounding
  bool has_gradient = true;
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
// s + bias[...], whose gradient is 1: nothing but the score is needed of it.
std::shared_ptr<const Graph> score_with_captured_bias(const AttentionCase& c) {
  ScalarFunction f = scalar_function(true);
  const Value bias = captured_bias(f, c);
  return finish(f, Builder(f.graph).add(f.in[4], bias));
}
std::shared_ptr<const Graph> one_beside_bias(const AttentionCase& c) {
  ScalarFunction f = scalar_function(true);
  captured_bias(f, c);
  return finish(f, Builder(f.graph).constant(DType::kF32, {}, 1));
}
std::shared_ptr<const Graph> causal_mask_beside_bias(const AttentionCase& c) {
  ScalarFunction f = scalar_function(false);
  captured_bias(f, c);
  return finish(f, Builder(f.graph).less_equal(f.in[3], f.in[2]));
}

std::shared_ptr<const Graph> causal_mask_beside_slopes(int64_t heads) {
  ScalarFunction f = scalar_function(false);
  f.graph.add_input("slopes", {DType::kF32, {heads}});
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
  const Value bent = f.graph.add("tanh"_op, {b.scale(f.in[4], 1 / cap)});
  return finish(f, b.sub(b.constant(DType::kF32, {}, 1), b.mul(bent, bent)));
}

// s + offset + rise * j: exp2 of the scores alone has no room in f32, and maxima are raised along the keys.
std::shared_ptr<const Graph> score_far_from_zero(double offset, double rise) {
  ScalarFunction f = scalar_function(true);
  const Builder b(f.graph);
  const Value along = b.scale(b.cast(f.in[3], DType::kF32), rise);
  return finish(f, b.add(f.in[4], b.add(along, b.constant(DType::kF32, {}, offset))));
}

// Causal within documents; documents [batch, length] captured.
std::shared_ptr<const Graph> document_mask(int64_t batch, int64_t length) {
  ScalarFunction f = scalar_function(false);
  const Value documents = f.graph.add_input("documents", {DType::kI32, {batch, length}});
  const Builder b(f.graph);
  const Value row = b.gather(documents, f.in[0], 0);
  const Value same = b.equal(b.gather(row, f.in[2], 0), b.gather(row, f.in[3], 0));
  return finish(f, f.graph.add("and"_op, {same, b.less_equal(f.in[3], f.in[2])}));
}
// Causal, but the first keys are seen by all.
std::shared_ptr<const Graph> prefix_mask(int64_t prefix) {
  ScalarFunction f = scalar_function(false);
  const Builder b(f.graph);
  const Value first = b.less(f.in[3], b.constant(DType::kI32, {}, static_cast<double>(prefix)));
  return finish(f, f.graph.add("or"_op, {first, b.less_equal(f.in[3], f.in[2])}));
}

// Outputs: out, lse and, with the gradient, dq, dk, dv.
Graph attention_graph(const AttentionCase& c, const std::shared_ptr<const Graph>& score_gradient) {
  Graph graph;
  const Builder build(graph);
  const int64_t value_dim = c.value_dim == 0 ? c.dim : c.value_dim;
  const auto operand = [&](const char* name, int64_t length, int64_t heads, int64_t dim) {
    switch (c.layout) {
      case AttentionCase::Layout::kPermuted:  // heads before positions in memory
        return build.permute(graph.add_input(name, {c.dtype, {c.batch, heads, length, dim}}), {0, 2, 1, 3});
      case AttentionCase::Layout::kSliced:  // between other heads
        return build.slice_axis(graph.add_input(name, {c.dtype, {c.batch, length, heads + 2, dim}}), 2, 1, heads + 1);
      case AttentionCase::Layout::kComputed:
        return build.neg(graph.add_input(name, {c.dtype, {c.batch, length, heads, dim}}));
      case AttentionCase::Layout::kPlain:
        break;
    }
    return graph.add_input(name, {c.dtype, {c.batch, length, heads, dim}});
  };
  const Value q = operand("q", c.queries, c.heads, c.dim), k = operand("k", c.keys, c.kv_heads, c.dim),
              v = operand("v", c.keys, c.kv_heads, value_dim), dout = operand("dout", c.queries, c.heads, value_dim);
  std::vector<Value> captured;
  if (c.captures_slopes) captured.push_back(graph.add_input("slopes", {DType::kF32, {c.heads}}));
  if (c.captures_bias) captured.push_back(graph.add_input("bias", {DType::kF32, {c.queries, c.keys}}));
  if (c.captures_documents) captured.push_back(graph.add_input("documents", {DType::kI32, {c.batch, c.keys}}));

  auto spec = std::make_shared<AttentionSpec>();
  spec->mask = c.mask;
  spec->score = c.score;
  spec->scale = 1 / std::sqrt(static_cast<double>(c.dim));
  spec->block_q = spec->block_k = c.block;
  spec->has_block_map = c.mask != nullptr;
  std::vector<Value> map;
  if (spec->has_block_map) {
    Attributes attributes;
    attributes.attention = spec;
    attributes.shape = {c.batch, c.heads, c.queries, c.keys};
    map.push_back(graph.add("attention_block_map"_op, captured, attributes));
  }
  const auto inputs = [&](std::vector<Value> first) {
    first.insert(first.end(), map.begin(), map.end());
    first.insert(first.end(), captured.begin(), captured.end());
    return first;
  };
  Attributes forward;
  forward.attention = spec;
  forward.tf32 = c.tf32;
  const Value out = graph.add("attention"_op, inputs({q, k, v}), forward);
  const Value lse{out.node, 1};
  if (!c.has_gradient) {
    graph.outputs = {out, lse};
    return graph;
  }
  const Value product = build.mul(build.cast(out, DType::kF32), build.cast(dout, DType::kF32));
  const Value delta = build.permute(build.reduce_sum(product, {3}), {0, 2, 1});
  auto backward_spec = std::make_shared<AttentionSpec>(*spec);
  backward_spec->score_gradient = score_gradient;
  Attributes backward;
  backward.attention = backward_spec;
  backward.tf32 = c.tf32;
  const Value dq = graph.add("attention_gradient"_op, inputs({q, k, v, dout, lse, delta}), backward);
  graph.outputs = {out, lse, dq, {dq.node, 1}, {dq.node, 2}};
  return graph;
}

// Scores with a standard deviation of 1.5, so that every query has a few keys that matter to it, each key some query,
// and results are of order 1; biases that leave it so.
double input_range(const std::string& name) {
  if (name == "q" || name == "k") return 2.1;
  if (name == "v" || name == "dout") return 1.7;
  return name == "slopes" ? 0.03 : 1;
}

std::vector<HostTensor> inputs_of(const Graph& graph) {
  std::vector<HostTensor> inputs;
  uint64_t seed = 1;
  for (const Value input : graph.inputs()) {
    const TensorType& type = graph.type(input);
    const double range = input_range(graph.node(input).attributes.name);
    inputs.push_back(random_host_tensor(type.dtype, evaluate(type.shape, {}), seed++, -range, range));
  }
  return inputs;
}

// Of output i: out, lse, dq, dk, dv.
Bound bound_of(const AttentionCase& c, size_t i) {
  if (c.sees_nothing) return bounds::kExact;
  if (c.tf32) return bounds::attention_in_tf32();
  if (i == 1) return bounds::attention_log_sum();
  // What cancels is of order 1.
  if (c.sees_one_key && (i == 2 || i == 3)) return bounds::derived(bounds::attention(c.dtype).row);
  return bounds::attention(c.dtype);
}

class AttentionOnDevices : public testing::TestWithParam<std::string> {
 protected:
  void expect_reference(const AttentionCase& c, const std::shared_ptr<const Graph>& score_gradient = nullptr) {
    // The processor's kernels want blocks that are multiples of 16.
    if (GetParam() == "cpu" && c.block % 16 != 0) return;
    const Graph graph = attention_graph(c, score_gradient);
    const std::vector<HostTensor> inputs = inputs_of(graph);
    const std::vector<HostTensor> reference = interpret(graph, inputs, {}, Rounding::kRounded);
    ProgramRunner runner(device_of(GetParam()));
    const std::vector<HostTensor> actual = runner.run(graph, inputs);
    for (size_t i = 0; i < actual.size(); ++i) {
      const Comparison comparison = compare(actual[i], reference[i], bound_of(c, i));
      EXPECT_TRUE(comparison.equal) << "output " << i << " of " << dtype_name(c.dtype) << " " << c.batch << " x "
                                    << c.queries << " x " << c.keys << ", " << c.heads << "/" << c.kv_heads
                                    << " heads of " << c.dim << ", values of " << c.value_dim << ": "
                                    << comparison.text;
    }
  }
};

TEST_P(AttentionOnDevices, FullAndCausalInEveryType) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    AttentionCase c;
    c.dtype = dtype;
    expect_reference(c);
    c.mask = causal_mask();
    c.queries = c.keys = 100;
    expect_reference(c);
  }
}

// The order in which weights and values are multiplied is another one there.
TEST_P(AttentionOnDevices, FloatsMayBeRoundedToTf32) {
  AttentionCase c;
  c.tf32 = true;
  c.kv_heads = 1;
  c.mask = causal_mask();
  for (const auto layout : {AttentionCase::Layout::kPlain, AttentionCase::Layout::kPermuted,
                            AttentionCase::Layout::kSliced, AttentionCase::Layout::kComputed}) {
    c.layout = layout;
    expect_reference(c);
  }
  c.batch = 1;
  c.layout = AttentionCase::Layout::kPlain;
  c.mask = nullptr;
  c.queries = 50;
  for (const int64_t dim : {40, 64, 128}) {
    c.dim = dim;
    expect_reference(c);
  }
  c.score = soft_capped_score(2);
  expect_reference(c, soft_capped_gradient(2));
}

TEST_P(AttentionOnDevices, EveryHeadDimension) {
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

// As latent attention has them, and the other way round.
TEST_P(AttentionOnDevices, ValuesOfAnotherWidth) {
  for (const DType dtype : {DType::kF32, DType::kBF16})
    for (const auto& [dim, value_dim] : {std::pair(48, 32), {40, 64}, {96, 80}}) {
      AttentionCase c;
      c.dtype = dtype;
      c.dim = dim;
      c.value_dim = value_dim;
      c.batch = 1;
      c.heads = 4;
      c.queries = c.keys = 70;
      c.mask = causal_mask();
      expect_reference(c);
      c.mask = nullptr;
      c.layout = dim == 48 ? AttentionCase::Layout::kComputed : AttentionCase::Layout::kSliced;
      c.keys = 90;
      expect_reference(c);
    }
  // What a text's next token needs.
  for (const auto& [dim, value_dim] : {std::pair(192, 128), {128, 64}}) {
    AttentionCase c;
    c.dtype = DType::kBF16;
    c.dim = dim;
    c.value_dim = value_dim;
    c.queries = 1;
    c.keys = 300;
    c.has_gradient = false;
    expect_reference(c);
  }
}

TEST_P(AttentionOnDevices, GroupedQueriesAndOtherLengths) {
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
  c.sees_one_key = true;
  expect_reference(c);
  c.mask = nullptr;
  c.sees_one_key = false;
  expect_reference(c);
}

// On GPUs a kernel of their own: few blocks of many waves and many of few, keys that are no multiple of what a block
// takes at once, heads of one piece of memory and of as many as a wave has lanes, and others.
TEST_P(AttentionOnDevices, OneQuery) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const int64_t dim : {8, 64, 80, 128, 256}) {
      if (dim == 256 && dtype == DType::kF32) continue;  // more than gfx942's shared memory
      AttentionCase c;
      c.dtype = dtype;
      c.queries = 1;
      c.keys = 300;
      c.heads = 6;
      c.kv_heads = 2;
      c.dim = dim;
      c.has_gradient = dim == 64;  // in kernels for any number of queries, which other tests cover
      expect_reference(c);
      c.keys = 97;
      c.layout = AttentionCase::Layout::kSliced;
      c.mask = prefix_mask(40);
      expect_reference(c);
    }
  }
  // Keys that several blocks share: some parts see nothing, and the last one is shorter.
  for (const int64_t keys : {1600, 2049}) {
    AttentionCase c;
    c.dtype = DType::kBF16;
    c.queries = 1;
    c.keys = keys;
    c.heads = 4;
    c.kv_heads = 2;
    c.dim = 64;
    c.mask = prefix_mask(500);
    c.has_gradient = keys == 1600;
    expect_reference(c);
    c.mask = {};
    c.score = biased_score(c.heads);
    c.captures_slopes = true;
    expect_reference(c, one(true, c.heads));
  }
  AttentionCase many;
  many.has_gradient = false;
  many.dtype = DType::kBF16;
  many.batch = 30;
  many.queries = 1;
  many.keys = 130;
  many.heads = 6;
  many.dim = 64;
  many.score = biased_score(many.heads);
  many.captures_slopes = true;
  expect_reference(many, one(true, many.heads));
  many.batch = 80;
  many.keys = 40;
  many.heads = 4;
  many.kv_heads = 2;
  many.score = biased_score(many.heads);
  expect_reference(many, one(true, many.heads));
  AttentionCase capped;
  capped.queries = 1;
  capped.keys = 1;
  capped.score = soft_capped_score(2);
  capped.sees_one_key = true;
  expect_reference(capped, soft_capped_gradient(2));
  capped.keys = 50;
  capped.sees_one_key = false;
  capped.mask = window_mask_by_head(0);
  capped.sees_nothing = true;
  expect_reference(capped, soft_capped_gradient(2));
}

TEST_P(AttentionOnDevices, MasksThatDifferByHeadAndLeaveRowsOut) {
  AttentionCase c;
  c.heads = c.kv_heads = 3;
  c.queries = c.keys = 130;
  c.batch = 1;
  c.mask = window_mask_by_head(9);
  expect_reference(c);
  c.mask = window_mask_by_head(0);
  c.sees_nothing = true;
  expect_reference(c);
  c.sees_nothing = false;
  c.mask = causal_mask();
  c.block = 24;  // tiles straddle the map's blocks
  expect_reference(c);
}

TEST_P(AttentionOnDevices, ScoresWithTheirGradients) {
  AttentionCase c;
  c.score = soft_capped_score(2);
  c.mask = causal_mask();
  c.queries = c.keys = 70;
  expect_reference(c, soft_capped_gradient(2));
  AttentionCase biased;
  biased.dtype = DType::kBF16;
  biased.score = biased_score(biased.heads);
  biased.captures_slopes = true;
  expect_reference(biased, one(true, biased.heads));
  AttentionCase captured;
  captured.dtype = DType::kBF16;
  captured.captures_bias = true;
  captured.score = score_of_captured_bias(captured);
  expect_reference(captured, gradient_of_captured_bias(captured));
  captured.mask = causal_mask_beside_bias(captured);
  expect_reference(captured, gradient_of_captured_bias(captured));
}

TEST_P(AttentionOnDevices, ScoresFarFromZero) {
  for (const double sign : {1, -1}) {
    AttentionCase c;
    c.dtype = DType::kBF16;
    c.score = score_far_from_zero(150 * sign, 0.25 * sign);
    c.mask = causal_mask();
    c.queries = c.keys = 100;
    expect_reference(c, one(false, c.heads));
  }
}

TEST_P(AttentionOnDevices, OperandsAreReadWhereTheyLie) {
  AttentionCase c;
  c.dtype = DType::kBF16;
  c.mask = causal_mask();
  c.queries = c.keys = 65;
  for (const auto layout : {AttentionCase::Layout::kPermuted, AttentionCase::Layout::kSliced}) {
    c.layout = layout;
    expect_reference(c);
  }
}

TEST_P(AttentionOnDevices, ComputedOperands) {
  AttentionCase c;
  c.layout = AttentionCase::Layout::kComputed;
  c.mask = causal_mask();
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    c.dtype = dtype;
    expect_reference(c);
  }
}

TEST_P(AttentionOnDevices, DocumentsAndPrefixes) {
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
class WideHeads : public AttentionOnDevices {
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
  bool has_warpgroup_matrix() const {
    const Target target = device_of(GetParam())->target();
    return target.is_gpu() && target.architecture().has_warpgroup_matrix;
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

// Heads that are no whole boxes of 64 columns in shared memory, tiles of keys that blocks of the map do not divide, and
// room for the queries of one task alone.
TEST_P(WideHeads, OfEveryWidth) {
  if (!has_warpgroup_matrix()) return;  // others have AttentionOnDevices.EveryHeadDimension
  for (const int64_t dim : {80, 96, 160, 192, 256}) {
    AttentionCase c = wide(dim, dim == 160 ? DType::kF16 : DType::kBF16);
    c.queries = c.keys = 195;
    c.heads = 4;  // more tasks than the emulator has blocks
    c.kv_heads = 2;
    c.mask = causal_mask();
    expect_reference(c);
  }
}

TEST_P(WideHeads, OfEveryWidthWithMasksScoresAndLengths) {
  if (!has_warpgroup_matrix()) return;
  for (const int64_t dim : {96, 112, 144, 192, 256}) {
    AttentionCase c = wide(dim);
    c.has_gradient = dim <= 128;
    c.queries = 70;
    c.keys = 201;
    expect_reference(c);
    c.queries = 200;
    c.keys = 30;
    expect_reference(c);
    c = wide(dim);
    c.has_gradient = dim == 96 || dim == 256;
    c.queries = c.keys = 330;
    c.heads = c.kv_heads = 1;
    c.mask = window_mask(70);
    expect_reference(c);
    c.score = soft_capped_score(2);
    expect_reference(c, soft_capped_gradient(2));
    c = wide(dim);
    c.has_gradient = dim == 96;
    c.mask = causal_mask();
    for (const auto layout : {AttentionCase::Layout::kSliced, AttentionCase::Layout::kComputed}) {
      c.layout = layout;
      expect_reference(c);
    }
  }
}

// More tiles than there is room for at once.
TEST_P(WideHeads, ManyTiles) {
  for (const int64_t dim : {64, 128}) {
    AttentionCase c = wide(dim);
    c.heads = c.kv_heads = 1;
    c.queries = 70;
    c.keys = 900;
    expect_reference(c);
    c.queries = c.keys = 700;
    c.mask = causal_mask();
    expect_reference(c);
  }
}

TEST_P(WideHeads, MasksAndTheirMaps) {
  for (const int64_t block : {24, 32, 64, 128, 256}) {
    AttentionCase c = wide(64);
    c.block = block;
    c.mask = window_mask_by_head(20);
    expect_reference(c);
  }
  // Gradients of queries that several tiles of keys see, two, one, or none.
  AttentionCase apart = wide(128);
  apart.queries = apart.keys = 500;
  apart.mask = window_mask_by_head(90);
  expect_reference(apart);
  apart.mask = window_mask_by_head(0);
  apart.sees_nothing = true;
  expect_reference(apart);
  AttentionCase c = wide(64);
  c.mask = window_mask_by_head(0);
  c.sees_nothing = true;
  expect_reference(c);
  c.sees_nothing = false;
  c.mask = prefix_mask(140);
  expect_reference(c);
  c.mask = document_mask(c.batch, c.keys);
  c.captures_documents = true;
  expect_reference(c);
}

// So many blocks of the map that what is seen is looked for before the tiles are.
TEST_P(WideHeads, LongMaps) {
  AttentionCase c = wide(128);
  c.batch = 1;
  c.heads = 2;
  c.kv_heads = 1;
  c.queries = 1060;
  c.keys = 1070;
  c.block = 16;
  c.mask = window_mask_by_head(40);
  expect_reference(c);
  // Rows of whole pieces of 16 blocks, which Hopper's kernels read at once.
  if (!has_warpgroup_matrix()) return;
  c.keys = 1280;
  expect_reference(c);
  c.mask = window_mask(300);
  expect_reference(c);
  c.dim = 64;
  expect_reference(c);
}

TEST_P(WideHeads, ScoresLayoutsAndLengths) {
  for (const int64_t dim : {64, 128}) {
    AttentionCase biased = wide(dim);
    biased.keys = 300;  // of which the second tile's weights are relative to the greatest one of the first
    biased.score = biased_score(biased.heads);
    biased.captures_slopes = true;
    expect_reference(biased, one(true, biased.heads));
  }
  AttentionCase c = wide(128);
  c.mask = causal_mask();
  for (const auto layout :
       {AttentionCase::Layout::kPermuted, AttentionCase::Layout::kSliced, AttentionCase::Layout::kComputed}) {
    c.layout = layout;
    expect_reference(c);
  }
  for (const int64_t dim : {64, 128}) {
    AttentionCase grouped = wide(dim);
    grouped.heads = 6;
    grouped.queries = 1;
    grouped.keys = 130;
    expect_reference(grouped);
    grouped.queries = 129;
    grouped.keys = 1;
    grouped.sees_one_key = true;
    expect_reference(grouped);
  }
}

// Of one key, in the second tile of Hopper's forward pass: queries that see it have results that are none, others are
// as they were. Maxima are looked for in ways that could lose it.
TEST_P(WideHeads, NotANumberIsSeen) {
  for (const int64_t dim : {64, 128}) {
    AttentionCase c = wide(dim);
    c.queries = c.keys = 200;
    c.mask = causal_mask();
    c.has_gradient = false;
    const Graph graph = attention_graph(c, nullptr);
    std::vector<HostTensor> inputs = inputs_of(graph);
    ProgramRunner runner(device_of(GetParam()));
    const std::vector<HostTensor> before = runner.run(graph, inputs);
    constexpr int64_t kKey = 140;
    inputs[1].values[static_cast<size_t>(kKey * c.heads * dim + 3)] = std::numeric_limits<double>::quiet_NaN();
    const std::vector<HostTensor> after = runner.run(graph, inputs);
    for (int64_t query = 0; query < c.queries; ++query) {  // of the first head, whose key it is
      const auto at = static_cast<size_t>(query * c.heads * dim);
      const double out = after[0].values[at], lse = after[1].values[static_cast<size_t>(query)];
      if (query < kKey) {
        EXPECT_EQ(out, before[0].values[at]) << "query " << query;
        EXPECT_FALSE(std::isnan(lse)) << "query " << query;
      } else {
        EXPECT_TRUE(std::isnan(out) && std::isnan(lse)) << "query " << query << ": " << out << ", " << lse;
      }
    }
  }
}

TEST_P(WideHeads, ScoresFarFromZero) {
  // From tile to tile exponents of 2 rise by 46, more than what leaves sums as they are, by 20, which f16 does not
  // hold, or fall.
  for (const auto& [dtype, rise] : {std::pair(DType::kBF16, 0.25), {DType::kF16, 0.11}, {DType::kBF16, -0.25}}) {
    AttentionCase c = wide(64, dtype);
    c.queries = c.keys = 260;
    c.score = score_far_from_zero(rise < 0 ? -150 : 150, rise);
    c.mask = causal_mask();
    expect_reference(c, one(false, c.heads));
  }
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
    c.score = biased_score(c.heads);
    c.captures_slopes = true;
    c.mask = causal_mask_beside_slopes(c.heads);
    expect_reference(c, one(true, c.heads));
    c = wide(dim);
    c.score = soft_capped_score(2);
    c.mask = causal_mask();
    expect_reference(c, soft_capped_gradient(2));
  }
}

// Heads of another width for values than for scores, narrower and wider ones: the forward pass with results that take
// the place of queries and with others, gradients in one pass, in two launches and, of wide heads, by warpgroups that
// have one sum each.
TEST_P(WideHeads, ValuesOfAnotherWidth) {
  if (!has_warpgroup_matrix()) return;  // others have AttentionOnDevices.ValuesOfAnotherWidth
  for (const auto& [dim, value_dim] :
       {std::pair(192, 128), {128, 192}, {96, 64}, {64, 112}, {256, 80}, {144, 128}, {80, 208}}) {
    AttentionCase c = wide(dim, dim == 96 ? DType::kF16 : DType::kBF16);
    c.value_dim = value_dim;
    c.heads = 4;
    c.queries = c.keys = 195;
    c.mask = causal_mask();
    expect_reference(c);
    if (dim > 128) continue;
    c.mask = nullptr;
    c.layout = AttentionCase::Layout::kComputed;
    c.queries = 70;
    expect_reference(c);
  }
  AttentionCase latent = wide(192);
  latent.value_dim = 128;
  latent.heads = 2;
  latent.kv_heads = 1;
  latent.queries = 290;
  latent.keys = 270;
  latent.mask = window_mask_by_head(40);
  expect_reference(latent);
  latent.score = soft_capped_score(2);
  expect_reference(latent, soft_capped_gradient(2));
  latent.mask = nullptr;
  latent.layout = AttentionCase::Layout::kComputed;
  latent.has_gradient = false;
  expect_reference(latent, soft_capped_gradient(2));
}

// Of wide heads (attention_hopper_wide_gradient.h), in tiles of 64 x 64: more tiles than there is room for at once, of
// several heads of queries, with ends inside of a tile.
TEST_P(WideHeads, GradientsInTwoLaunches) {
  for (const int64_t dim : {144, 160, 176, 192, 208, 224, 240, 256}) {
    AttentionCase c = wide(dim);
    c.heads = 6;
    c.kv_heads = 3;
    c.mask = causal_mask();
    expect_reference(c);
  }
  AttentionCase full = wide(256, DType::kF16);
  full.heads = full.kv_heads = 1;
  full.queries = 200;
  full.keys = 130;
  expect_reference(full);
  // Queries that several tiles of keys see, one, or none.
  AttentionCase window = wide(256);
  window.heads = 2;
  window.kv_heads = 1;
  window.queries = 290;
  window.keys = 270;
  window.mask = window_mask_by_head(40);
  expect_reference(window);
  window.mask = window_mask_by_head(0);
  window.sees_nothing = true;
  expect_reference(window);
}

TEST_P(WideHeads, ScoresOfTwoLaunches) {
  AttentionCase c = wide(256);
  c.kv_heads = 1;
  c.score = soft_capped_score(2);
  c.mask = causal_mask();
  expect_reference(c, soft_capped_gradient(2));
  c.mask = window_mask(50);
  expect_reference(c, soft_capped_gradient(2));
  c = wide(256);
  c.score = biased_score(c.heads);
  c.captures_slopes = true;
  expect_reference(c, one(true, c.heads));
  c = wide(256);
  c.mask = document_mask(c.batch, c.keys);
  c.captures_documents = true;
  c.block = 32;
  expect_reference(c);
}

// Processors have every kind of mask and score with heads of 64 in attention_cases.h, and of 128 the full and the
// causal one above: to their kernels a mask is the same whatever the dimension.
INSTANTIATE_TEST_SUITE_P(Devices, WideHeads,
                         testing::ValuesIn(devices_under_test({"emulator:sm_90a", "emulator:gfx942"})),
                         named_by_device);

INSTANTIATE_TEST_SUITE_P(Devices, AttentionOnDevices, testing::ValuesIn(device_specs()), named_by_device);

// Planted faults are the emulator's own tests; here none must be found, and the order of threads must not matter.
TEST(AttentionOnTheEmulator, NoRacesAndTheSameBitsForEverySchedule) {
  for (const auto& [processor, dim] : {std::pair("sm_80", 64), std::pair("sm_90a", 64), std::pair("sm_90a", 192),
                                       std::pair("sm_90a", 256), std::pair("gfx90a", 64), std::pair("gfx942", 128)}) {
    AttentionCase c;
    c.dtype = DType::kBF16;
    c.queries = c.keys = 150;
    c.dim = dim;
    c.captures_bias = true;
    c.mask = causal_mask_beside_bias(c);
    c.score = score_of_captured_bias(c);
    const Graph graph = attention_graph(c, gradient_of_captured_bias(c));
    const std::vector<HostTensor> inputs = inputs_of(graph);
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

// A cap that scores are far below: what is added to a small tanh would count.
TEST_P(WideHeads, ScoresFarBelowTheirCap) {
  AttentionCase c = wide(64);
  c.score = soft_capped_score(1e6);
  expect_reference(c, soft_capped_gradient(1e6));
}

// A bias is not read past the ends of the lengths, in tiles that nothing is masked in either.
TEST(AttentionOnTheEmulator, AddedScoresAreReadInside) {
  for (const auto& [processor, dim] :
       {std::pair("sm_90a", 64), std::pair("sm_90a", 128), std::pair("sm_90a", 256), std::pair("gfx942", 64)})
    for (const bool keys_too : {false, true}) {
      AttentionCase c;
      c.dtype = DType::kBF16;
      c.queries = 100;
      c.keys = keys_too ? 70 : 128;
      c.dim = dim;
      c.captures_bias = true;
      c.score = score_with_captured_bias(c);
      const Graph graph = attention_graph(c, one_beside_bias(c));
      EmulatorOptions options;
      options.checked = true;
      EXPECT_NO_THROW(ProgramRunner(std::make_shared<EmulatorDevice>(processor, options)).run(graph, inputs_of(graph)))
          << processor << ", heads of " << dim << ", " << c.keys << " keys";
    }
}

}  // namespace
}  // namespace causeway::program
