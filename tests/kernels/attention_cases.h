// The attention tests, compiled by attention_test.cpp and, through emulated matrix registers, by
// attention_matrix_tiles_test.cpp. Such a file defines ATTENTION_TEST(name), a typed test by the operands' type.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/codegen/x86/attention_geometry.h"
#include "causeway/kernels/x86/attention.h"
#include "causeway/kernels/x86/attention_gradient.h"
#include "tests/comparison/bounds.h"

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

struct Sizes {
  int64_t batch, query_heads, kv_heads, query_length, key_length;
};

// What a case's score and mask are, called through one function each, so that kernels are compiled for whether there is
// a score and a mask, and not for each of these rules. Each is written as a recipe's functions would be traced:
// positions as 32-bit integers.
struct Rule {
  virtual ~Rule() = default;
  virtual bool mask(int64_t, int64_t, int32_t, int32_t) const { return true; }
  virtual float score(int64_t, int64_t, int32_t, int32_t, float x) const { return x; }
  virtual float score_gradient(int64_t, int64_t, int32_t, int32_t, float) const { return 1.0f; }
};

struct Full : Rule {
  static constexpr bool kHasScore = false, kHasMask = false;
};

struct Causal : Rule {
  static constexpr bool kHasScore = false, kHasMask = true;
  bool mask(int64_t, int64_t, int32_t t, int32_t s) const override { return s <= t; }
};

// The last query is aligned with the last key.
struct CausalAtEnd : Rule {
  static constexpr bool kHasScore = false, kHasMask = true;
  explicit CausalAtEnd(int32_t offset) : offset(offset) {}
  bool mask(int64_t, int64_t, int32_t t, int32_t s) const override { return s <= t + offset; }
  int32_t offset;
};

struct SlidingWindow : Rule {
  static constexpr bool kHasScore = false, kHasMask = true;
  SlidingWindow() : window(37) {}
  explicit SlidingWindow(int32_t window) : window(window) {}
  bool mask(int64_t, int64_t, int32_t t, int32_t s) const override { return s <= t && t - s < window; }
  int32_t window;
};

struct Document : Rule {
  static constexpr bool kHasScore = false, kHasMask = true;
  // [batch][positions]
  Document(const int32_t* ids, int64_t positions) : ids(ids), positions(positions) {}
  bool mask(int64_t b, int64_t, int32_t t, int32_t s) const override {
    return s <= t && ids[b * positions + t] == ids[b * positions + s];
  }
  const int32_t* ids;
  int64_t positions;
};

struct Prefix : Rule {
  static constexpr bool kHasScore = false, kHasMask = true;
  bool mask(int64_t, int64_t, int32_t t, int32_t s) const override { return s < 70 || s <= t; }
};

struct Alibi : Rule {
  static constexpr bool kHasScore = true, kHasMask = true;
  bool mask(int64_t, int64_t, int32_t t, int32_t s) const override { return s <= t; }
  float score(int64_t, int64_t h, int32_t t, int32_t s, float x) const override {
    return x + 0.05f * static_cast<float>(h + 1) * static_cast<float>(s - t);
  }
};

// x / (1 + |x| / cap): soft-capping with a cap that needs no library call.
struct SoftCap : Rule {
  static constexpr bool kHasScore = true, kHasMask = false;
  static constexpr float kCap = 2.0f;
  float score(int64_t, int64_t, int32_t, int32_t, float x) const override { return x / (1.0f + std::abs(x) / kCap); }
  float score_gradient(int64_t, int64_t, int32_t, int32_t, float x) const override {
    const float scaled = 1.0f + std::abs(x) / kCap;
    return 1.0f / (scaled * scaled);
  }
};

// Rows 3, 4 and 5 of head 0 and the whole first query block of head 1 attend to nothing.
struct FullyMasked : Rule {
  static constexpr bool kHasScore = false, kHasMask = true;
  bool mask(int64_t, int64_t h, int32_t t, int32_t) const override {
    return h == 0 ? t < 3 || t > 5 : h != 1 || t >= 64;
  }
};

// Only even keys, as a mask that depends on the batch element: the others through a captured bias of -inf.
struct CapturedBias : Rule {
  static constexpr bool kHasScore = true, kHasMask = false;
  // [query_length][key_length]
  CapturedBias(const float* bias, int64_t key_length) : bias(bias), key_length(key_length) {}
  float score(int64_t, int64_t, int32_t t, int32_t s, float x) const override {
    return x + bias[static_cast<int64_t>(t) * key_length + s];
  }
  const float* bias;
  int64_t key_length;
};

// No query sees the first two blocks of keys.
struct LateKeys : Rule {
  static constexpr bool kHasScore = false, kHasMask = true;
  bool mask(int64_t, int64_t, int32_t t, int32_t s) const override { return s >= 128 && s - 128 <= t; }
};

template <bool kScore, bool kMask, class OperandType, int kDim, bool kMap, int kBlock, int kValue>
struct Problem {
  using Operand = OperandType;
  static constexpr bool kHasScore = kScore, kHasMask = kMask;
  static constexpr int kHeadDim = kDim, kValueDim = kValue, kBlockQ = kBlock, kBlockK = kBlock;
  static constexpr bool kHasBlockMap = kMap;

  int64_t batch, query_heads, kv_heads, query_length, key_length;
  float scale;
  int64_t query_splits = 1;
  int64_t map_batch = 1, map_heads = 1;
  const float *q, *k, *v, *dout;
  float *out, *lse, *delta, *dq, *dk, *dv;
  uint8_t* map;
  const Rule* rule;

  bool mask(int64_t b, int64_t h, int32_t t, int32_t s) const { return rule->mask(b, h, t, s); }
  float score(int64_t b, int64_t h, int32_t t, int32_t s, float x) const { return rule->score(b, h, t, s, x); }
  float score_gradient(int64_t b, int64_t h, int32_t t, int32_t s, float x) const {
    return rule->score_gradient(b, h, t, s, x);
  }
  int64_t query_at(int64_t b, int64_t h, int64_t t, int64_t d) const {
    return ((b * query_heads + h) * query_length + t) * kDim + d;
  }
  int64_t key_at(int64_t b, int64_t h, int64_t s, int64_t d) const {
    return ((b * kv_heads + h) * key_length + s) * kDim + d;
  }
  int64_t out_at(int64_t b, int64_t h, int64_t t, int64_t d) const {
    return ((b * query_heads + h) * query_length + t) * kValue + d;
  }
  int64_t value_at(int64_t b, int64_t h, int64_t s, int64_t d) const {
    return ((b * kv_heads + h) * key_length + s) * kValue + d;
  }
  int64_t row_at(int64_t b, int64_t h, int64_t t) const { return (b * query_heads + h) * query_length + t; }
  int64_t map_at(int64_t b, int64_t h, int64_t i, int64_t j) const {
    const int64_t query_blocks = (query_length + kBlock - 1) / kBlock;
    const int64_t key_blocks = (key_length + kBlock - 1) / kBlock;
    return (((b % map_batch) * map_heads + h % map_heads) * query_blocks + i) * key_blocks + j;
  }

  float load_q(int64_t b, int64_t h, int64_t t, int64_t d) const { return q[query_at(b, h, t, d)]; }
  float load_k(int64_t b, int64_t h, int64_t s, int64_t d) const { return k[key_at(b, h, s, d)]; }
  float load_v(int64_t b, int64_t h, int64_t s, int64_t d) const { return v[value_at(b, h, s, d)]; }
  float load_out_gradient(int64_t b, int64_t h, int64_t t, int64_t d) const { return dout[out_at(b, h, t, d)]; }
  float load_lse(int64_t b, int64_t h, int64_t t) const { return lse[row_at(b, h, t)]; }
  float load_delta(int64_t b, int64_t h, int64_t t) const { return delta[row_at(b, h, t)]; }
  void store_out(int64_t b, int64_t h, int64_t t, int64_t d, float x) const { out[out_at(b, h, t, d)] = x; }
  void store_lse(int64_t b, int64_t h, int64_t t, float x) const { lse[row_at(b, h, t)] = x; }
  void store_dq(int64_t b, int64_t h, int64_t t, int64_t d, float x) const { dq[query_at(b, h, t, d)] = x; }
  void store_dk(int64_t b, int64_t h, int64_t s, int64_t d, float x) const { dk[key_at(b, h, s, d)] = x; }
  void store_dv(int64_t b, int64_t h, int64_t s, int64_t d, float x) const { dv[value_at(b, h, s, d)] = x; }
  Range mask_range(int64_t, int64_t, const Range&, const Range&) const { return kAnyTruth; }
  uint8_t block_kind(int64_t b, int64_t h, int64_t i, int64_t j) const { return map[map_at(b, h, i, j)]; }
  void store_block_kind(int64_t b, int64_t h, int64_t i, int64_t j, uint8_t kind) const {
    map[map_at(b, h, i, j)] = kind;
  }
};

// Scratch with exactly the declared size, filled with NaN so that a read before a write shows.
struct Scratch {
  explicit Scratch(int64_t bytes)
      : size(static_cast<size_t>((bytes + 63) / 64 * 64)), memory(std::aligned_alloc(64, size), std::free) {
    std::fill_n(static_cast<float*>(memory.get()), size / 4, std::numeric_limits<float>::quiet_NaN());
  }
  void* get() const { return memory.get(); }
  size_t size;
  std::unique_ptr<void, void (*)(void*)> memory;
};

enum class Order { kForward, kBackward, kShuffled };

std::vector<int64_t> task_order(int64_t count, Order order) {
  std::vector<int64_t> tasks(static_cast<size_t>(count));
  std::iota(tasks.begin(), tasks.end(), 0);
  if (order == Order::kBackward) std::reverse(tasks.begin(), tasks.end());
  if (order == Order::kShuffled) std::shuffle(tasks.begin(), tasks.end(), std::mt19937(5));
  return tasks;
}

std::vector<float> random_values(int64_t count, uint32_t seed, bool round) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = round ? to_float(to_bf16(normal(generator))) : normal(generator);
  return values;
}

template <class Function, class Operand, int kDim, bool kMap = true, int kBlock = 64, int kValue = kDim>
struct Case {
  using P = Problem<Function::kHasScore, Function::kHasMask, Operand, kDim, kMap && Function::kHasMask, kBlock, kValue>;

  Case(Sizes sizes, const Function& rule, float scale = 0.0f, bool map_per_head = false)
      : sizes(sizes),
        rule(rule),
        shape{
            sizes.batch, sizes.query_heads, sizes.kv_heads, sizes.query_length, sizes.key_length, kDim, kValue, kBlock,
            kBlock} {
    constexpr bool kRound = sizeof(Operand) == 2;
    const int64_t query_count = sizes.batch * sizes.query_heads * sizes.query_length * kDim;
    const int64_t key_count = sizes.batch * sizes.kv_heads * sizes.key_length * kDim;
    q = random_values(query_count, 1, kRound);
    k = random_values(key_count, 2, kRound);
    v = random_values(key_count / kDim * kValue, 3, kRound);
    dout = random_values(query_count / kDim * kValue, 4, kRound);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    out.assign(dout.size(), nan);
    dq.assign(q.size(), nan);
    dk.assign(k.size(), nan);
    dv.assign(v.size(), nan);
    lse.assign(q.size() / kDim, nan);
    delta.assign(q.size() / kDim, nan);
    problem.rule = &this->rule;
    problem.batch = sizes.batch;
    problem.query_heads = sizes.query_heads;
    problem.kv_heads = sizes.kv_heads;
    problem.query_length = sizes.query_length;
    problem.key_length = sizes.key_length;
    problem.scale = scale != 0.0f ? scale : 1.0f / std::sqrt(static_cast<float>(kDim));
    problem.map_batch = map_per_head ? sizes.batch : 1;
    problem.map_heads = map_per_head ? sizes.query_heads : 1;
    problem.q = q.data();
    problem.k = k.data();
    problem.v = v.data();
    problem.dout = dout.data();
    problem.out = out.data();
    problem.lse = lse.data();
    problem.delta = delta.data();
    problem.dq = dq.data();
    problem.dk = dk.data();
    problem.dv = dv.data();
    const int64_t blocks = ((sizes.query_length + kBlock - 1) / kBlock) * ((sizes.key_length + kBlock - 1) / kBlock);
    map.assign(static_cast<size_t>(problem.map_batch * problem.map_heads * blocks), 255);
    problem.map = map.data();
    if constexpr (P::kHasBlockMap) {
      const auto launch = causeway::codegen::attention_block_map_launch(shape, problem.map_batch, problem.map_heads);
      for (int64_t task = 0; task < launch.task_count; ++task) attention_block_map(problem, task);
    }
  }

  void forward(Order order = Order::kForward, int64_t workers = 1) {
    const auto launch = causeway::codegen::attention_forward_launch(shape, workers);
    problem.query_splits = launch.query_splits;
    Scratch scratch(launch.scratch_bytes);
    for (int64_t task : task_order(launch.task_count, order)) attention_forward(problem, task, scratch.get());
  }

  void backward(Order order = Order::kForward) {
    for (size_t row = 0; row < delta.size(); ++row) {
      delta[row] = 0.0f;
      for (int d = 0; d < kValue; ++d) delta[row] += out[row * kValue + d] * dout[row * kValue + d];
    }
    const auto launch = causeway::codegen::attention_backward_launch(shape);
    Scratch scratch(launch.scratch_bytes);
    for (int64_t task : task_order(launch.task_count, order)) attention_backward(problem, task, scratch.get());
  }

  double score_at(int64_t b, int64_t h, int64_t t, int64_t s, double* gradient) const {
    const int64_t kv_head = h / (sizes.query_heads / sizes.kv_heads);
    double x = 0.0;
    for (int d = 0; d < kDim; ++d) {
      x += static_cast<double>(problem.load_q(b, h, t, d)) * problem.load_k(b, kv_head, s, d);
    }
    x *= problem.scale;
    *gradient = 1.0;
    if constexpr (Function::kHasScore) {
      const int32_t ti = static_cast<int32_t>(t), si = static_cast<int32_t>(s);
      *gradient = problem.score_gradient(b, h, ti, si, static_cast<float>(x));
      x = problem.score(b, h, ti, si, static_cast<float>(x));
    }
    if constexpr (Function::kHasMask) {
      if (!problem.mask(b, h, static_cast<int32_t>(t), static_cast<int32_t>(s))) x = -kInf;
    }
    return x;
  }

  // The analytic definition in double precision; fills the expected_ members.
  void reference() {
    expected_out.assign(out.size(), 0.0);
    expected_lse.assign(lse.size(), -kInf);
    expected_dq.assign(q.size(), 0.0);
    expected_dk.assign(k.size(), 0.0);
    expected_dv.assign(v.size(), 0.0);
    std::vector<double> x(static_cast<size_t>(sizes.key_length)), gradient(x.size()), weight(x.size()), dp(x.size());
    for (int64_t b = 0; b < sizes.batch; ++b) {
      for (int64_t h = 0; h < sizes.query_heads; ++h) {
        const int64_t kv_head = h / (sizes.query_heads / sizes.kv_heads);
        for (int64_t t = 0; t < sizes.query_length; ++t) {
          double maximum = -kInf;
          for (size_t s = 0; s < x.size(); ++s) {
            x[s] = score_at(b, h, t, static_cast<int64_t>(s), &gradient[s]);
            maximum = std::max(maximum, x[s]);
          }
          if (maximum == -kInf) continue;
          double sum = 0.0;
          for (double score : x) sum += std::exp(score - maximum);
          expected_lse[static_cast<size_t>(problem.row_at(b, h, t))] = maximum + std::log(sum);
          double delta_row = 0.0;
          for (size_t s = 0; s < x.size(); ++s) {
            weight[s] = std::exp(x[s] - maximum) / sum;
            dp[s] = 0.0;
            if (weight[s] == 0.0) continue;
            for (int d = 0; d < kValue; ++d) {
              const auto query = static_cast<size_t>(problem.out_at(b, h, t, d));
              const auto key = static_cast<size_t>(problem.value_at(b, kv_head, static_cast<int64_t>(s), d));
              expected_out[query] += weight[s] * v[key];
              dp[s] += static_cast<double>(dout[query]) * v[key];
              expected_dv[key] += weight[s] * dout[query];
            }
            delta_row += weight[s] * dp[s];
          }
          for (size_t s = 0; s < x.size(); ++s) {
            if (weight[s] == 0.0) continue;
            const double dx = weight[s] * (dp[s] - delta_row) * gradient[s] * problem.scale;
            for (int d = 0; d < kDim; ++d) {
              const auto query = static_cast<size_t>(problem.query_at(b, h, t, d));
              const auto key = static_cast<size_t>(problem.key_at(b, kv_head, static_cast<int64_t>(s), d));
              expected_dq[query] += dx * k[key];
              expected_dk[key] += dx * q[query];
            }
          }
        }
      }
    }
  }

  static void expect_close(const char* what, const std::vector<float>& actual, const std::vector<double>& expected,
                           int64_t width, const causeway::Bound& bound) {
    const auto rows = static_cast<int64_t>(expected.size()) / width;
    const auto tensor = [&](std::vector<double> values) {
      return causeway::graph::make_host_tensor(causeway::graph::DType::kF32, {rows, width}, std::move(values));
    };
    const causeway::Comparison comparison = compare(tensor({actual.begin(), actual.end()}), tensor(expected), bound);
    EXPECT_TRUE(comparison.equal) << what << ": " << comparison.text;
  }

  // `slack` widens the bound where scores are large and gradients cancel.
  void check(double slack = 1.0) {
    forward();
    backward();
    reference();
    using namespace causeway;
    using graph::DType;
    Bound bound = bounds::attention(sizeof(Operand) == 2 ? DType::kBF16 : DType::kF32);
    bound.rms *= slack;
    bound.row *= slack;
    expect_close("out", out, expected_out, kValue, bound);
    expect_close("lse", lse, expected_lse, sizes.query_length, bounds::attention_log_sum());
    expect_close("dq", dq, expected_dq, kDim, bound);
    expect_close("dk", dk, expected_dk, kDim, bound);
    expect_close("dv", dv, expected_dv, kValue, bound);
  }

  Sizes sizes;
  Function rule;
  causeway::codegen::AttentionShape shape;
  P problem{};
  std::vector<float> q, k, v, dout, out, lse, delta, dq, dk, dv;
  std::vector<uint8_t> map;
  std::vector<double> expected_out, expected_lse, expected_dq, expected_dk, expected_dv;
};

ATTENTION_TEST(Full) { Case<Full, TypeParam, 64>({2, 2, 2, 128, 128}, {}).check(); }

ATTENTION_TEST(FullWithoutMapAndOddLengths) { Case<Full, TypeParam, 64, false>({1, 2, 1, 77, 131}, {}).check(); }

ATTENTION_TEST(Causal) { Case<Causal, TypeParam, 64>({1, 3, 3, 200, 200}, {}).check(); }

ATTENTION_TEST(CausalWithoutMap) { Case<Causal, TypeParam, 64, false>({1, 2, 2, 130, 130}, {}).check(); }

ATTENTION_TEST(CausalWithMoreKeysThanQueries) {
  Case<CausalAtEnd, TypeParam, 64>({1, 2, 1, 90, 301}, CausalAtEnd(211)).check();
}

ATTENTION_TEST(CausalWithMoreQueriesThanKeys) {
  Case<CausalAtEnd, TypeParam, 32>({1, 2, 1, 210, 70}, CausalAtEnd(-140)).check();
}

ATTENTION_TEST(SlidingWindow) { Case<SlidingWindow, TypeParam, 64>({1, 2, 2, 333, 333}, {}).check(); }

ATTENTION_TEST(Document) {
  std::vector<int32_t> ids(2 * 300);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i < 300 ? i / 70 : (i * i) / 30000);
  Case<Document, TypeParam, 64>({2, 2, 2, 300, 300}, Document(ids.data(), 300), 0.0f, true).check();
}

ATTENTION_TEST(Prefix) { Case<Prefix, TypeParam, 64>({1, 2, 2, 190, 190}, {}).check(); }

ATTENTION_TEST(Alibi) { Case<Alibi, TypeParam, 64>({1, 4, 2, 150, 150}, {}).check(); }

ATTENTION_TEST(SoftCap) { Case<SoftCap, TypeParam, 64>({1, 2, 2, 100, 140}, {}).check(); }

ATTENTION_TEST(CapturedBias) {
  std::vector<float> bias = random_values(75 * 83, 9, false);
  for (size_t i = 0; i < bias.size(); i += 3) bias[i] = -kInf;
  Case<CapturedBias, TypeParam, 64>({1, 2, 2, 75, 83}, CapturedBias(bias.data(), 83)).check();
}

ATTENTION_TEST(GroupedQueries) {
  Case<Causal, TypeParam, 64>({2, 6, 2, 129, 129}, {}).check();
  Case<Causal, TypeParam, 64>({1, 8, 1, 65, 65}, {}).check();
}

ATTENTION_TEST(HeadDimensions) {
  Case<Causal, TypeParam, 40>({1, 2, 2, 70, 70}, {}).check();
  Case<Causal, TypeParam, 96>({1, 2, 2, 70, 70}, {}).check();
  Case<Causal, TypeParam, 256>({1, 1, 1, 130, 130}, {}).check();
  Case<Full, TypeParam, 5>({1, 1, 1, 20, 30}, {}).check();
}

ATTENTION_TEST(ValuesOfAnotherWidth) {
  Case<Causal, TypeParam, 96, true, 64, 64>({1, 4, 2, 130, 130}, {}).check();
  Case<Full, TypeParam, 40, false, 64, 96>({1, 2, 2, 70, 90}, {}).check();
}

ATTENTION_TEST(OtherBlockSizes) {
  Case<Causal, TypeParam, 64, true, 16>({1, 2, 1, 100, 100}, {}).check();
  Case<Causal, TypeParam, 64, true, 128>({1, 2, 1, 300, 300}, {}).check();
}

ATTENTION_TEST(Decoding) {
  Case<CausalAtEnd, TypeParam, 64>({2, 8, 2, 1, 333}, CausalAtEnd(332)).check();
  Case<CausalAtEnd, TypeParam, 64>({1, 4, 1, 3, 200}, CausalAtEnd(197)).check();
  Case<Full, TypeParam, 64, false>({1, 40, 1, 5, 100}, {}).check();
}

ATTENTION_TEST(NegativeScale) { Case<Causal, TypeParam, 64>({1, 1, 1, 100, 100}, {}, -0.2f).check(); }

ATTENTION_TEST(LargeScoresKeepTheRunningMaximum) {
  Case<Causal, TypeParam, 64> test({1, 1, 1, 256, 256}, {});
  // Scores that rise by hundreds along the keys: every block raises the maximum.
  for (size_t i = 0; i < test.q.size(); ++i) test.q[i] = 2.0f;
  for (size_t i = 0; i < test.k.size(); ++i) {
    const size_t row = i / (64 * 8);
    test.k[i] = to_float(to_bf16(test.k[i] + static_cast<float>(row)));
  }
  test.check(16.0);
}

ATTENTION_TEST(FullyMaskedRows) {
  Case<FullyMasked, TypeParam, 64> test({1, 3, 3, 100, 100}, {}, 0.0f, true);
  test.check();
  for (int64_t t : {3, 4, 5}) {
    EXPECT_EQ(test.lse[static_cast<size_t>(test.problem.row_at(0, 0, t))], -kInf);
    EXPECT_EQ(test.out[static_cast<size_t>(test.problem.query_at(0, 0, t, 7))], 0.0f);
    EXPECT_EQ(test.dq[static_cast<size_t>(test.problem.query_at(0, 0, t, 7))], 0.0f);
  }
  EXPECT_EQ(test.map[static_cast<size_t>(test.problem.map_at(0, 1, 0, 0))], kAttentionBlockEmpty);
  EXPECT_EQ(test.lse[static_cast<size_t>(test.problem.row_at(0, 1, 63))], -kInf);
}

ATTENTION_TEST(NoKeys) {
  Case<Full, TypeParam, 64, false> test({1, 1, 1, 5, 0}, {});
  test.forward();
  test.backward();
  for (float x : test.out) EXPECT_EQ(x, 0.0f);
  for (float x : test.lse) EXPECT_EQ(x, -kInf);
  for (float x : test.dq) EXPECT_EQ(x, 0.0f);
}

// The NaN in blocks that no query sees must not be read.
ATTENTION_TEST(EmptyBlocksAreSkipped) {
  Case<LateKeys, TypeParam, 64> test({1, 2, 1, 256, 256}, {});
  for (size_t i = 0; i < 128 * 64; ++i) test.k[i] = test.v[i] = std::numeric_limits<float>::quiet_NaN();
  test.forward();
  test.backward();
  for (float x : test.out) ASSERT_FALSE(std::isnan(x));
  for (float x : test.dq) ASSERT_FALSE(std::isnan(x));
  for (size_t i = 0; i < test.dk.size(); ++i) {
    ASSERT_FALSE(std::isnan(test.dk[i]));
    if (i < 128 * 64) {
      ASSERT_EQ(test.dk[i], 0.0f);
      ASSERT_EQ(test.dv[i], 0.0f);
    }
  }
}

ATTENTION_TEST(NanInAnAllowedKeyIsNotHidden) {
  Case<Full, TypeParam, 64, false> test({1, 1, 1, 8, 100}, {});
  test.k[70 * 64] = std::numeric_limits<float>::quiet_NaN();
  test.forward();
  for (float x : test.out) EXPECT_TRUE(std::isnan(x));
  for (float x : test.lse) EXPECT_TRUE(std::isnan(x));
}

ATTENTION_TEST(ResultsDoNotDependOnTaskOrderOrSplits) {
  Case<Causal, TypeParam, 64> first({2, 4, 2, 500, 500}, {});
  first.forward(Order::kForward, 1);
  EXPECT_EQ(first.problem.query_splits, 1);
  first.backward(Order::kForward);
  Case<Causal, TypeParam, 64> second({2, 4, 2, 500, 500}, {});
  second.forward(Order::kShuffled, 16);
  EXPECT_GT(second.problem.query_splits, 1);
  second.backward(Order::kBackward);
  EXPECT_EQ(first.out, second.out);
  EXPECT_EQ(first.lse, second.lse);
  EXPECT_EQ(first.dq, second.dq);
  EXPECT_EQ(first.dk, second.dk);
  EXPECT_EQ(first.dv, second.dv);
}

}  // namespace
