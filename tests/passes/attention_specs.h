// Score and mask functions as scalar graphs.
#pragma once

#include <memory>

#include "causeway/passes/builder.h"
#include "tests/fixtures/op_literal.h"

namespace causeway::passes {

struct ScalarFunction {
  Graph graph;
  std::vector<Value> in;  // b, h, i, j and, for a score, s
};

inline ScalarFunction scalar_function(bool with_score) {
  ScalarFunction f;
  for (const char* name : {"b", "h", "i", "j"}) f.in.push_back(f.graph.add_input(name, {DType::kI32, {}}));
  if (with_score) f.in.push_back(f.graph.add_input("s", {DType::kF32, {}}));
  return f;
}

inline std::shared_ptr<const Graph> finish(ScalarFunction& f, Value output) {
  f.graph.outputs = {output};
  return std::make_shared<const Graph>(std::move(f.graph));
}

inline std::shared_ptr<const Graph> causal_mask() {
  ScalarFunction f = scalar_function(false);
  return finish(f, f.graph.add("le"_op, {f.in[3], f.in[2]}));
}

// i - j < window * (h + 1), causal: each head its own window.
inline std::shared_ptr<const Graph> window_mask_by_head(int64_t window) {
  ScalarFunction f = scalar_function(false);
  const Builder b(f.graph);
  const Value heads = b.add(f.in[1], b.constant(DType::kI32, {}, 1));
  const Value near =
      b.less(b.sub(f.in[2], f.in[3]), b.mul(heads, b.constant(DType::kI32, {}, static_cast<double>(window))));
  return finish(f, f.graph.add("and"_op, {near, b.less_equal(f.in[3], f.in[2])}));
}

// i - j < window, causal.
inline std::shared_ptr<const Graph> window_mask(int64_t window) {
  ScalarFunction f = scalar_function(false);
  const Builder b(f.graph);
  const Value near = b.less(b.sub(f.in[2], f.in[3]), b.constant(DType::kI32, {}, static_cast<double>(window)));
  return finish(f, f.graph.add("and"_op, {near, b.less_equal(f.in[3], f.in[2])}));
}

// cap * tanh(s / cap).
inline std::shared_ptr<const Graph> soft_capped_score(double cap) {
  ScalarFunction f = scalar_function(true);
  const Builder b(f.graph);
  return finish(f, b.scale(f.graph.add("tanh"_op, {b.scale(f.in[4], 1 / cap)}), cap));
}

// s + slopes[h] * (j - i), slopes captured.
inline std::shared_ptr<const Graph> biased_score(int64_t heads) {
  ScalarFunction f = scalar_function(true);
  const Value slopes = f.graph.add_input("slopes", {DType::kF32, {heads}});
  const Builder b(f.graph);
  const Value distance = b.cast(b.sub(f.in[3], f.in[2]), DType::kF32);
  return finish(f, b.add(f.in[4], b.mul(b.gather(slopes, f.in[1], 0), distance)));
}

}  // namespace causeway::passes
