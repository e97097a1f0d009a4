#include "tests/fixtures/op_literal.h"
#include "tests/tensor/op_check.h"

namespace causeway::tensor {
namespace {

using List = std::vector<double>;
using In = const std::vector<Tensor>&;

struct AttentionSizes {
  int64_t batch = 2, queries = 5, keys = 5, heads = 4, key_heads = 2, width = 3;
};

// Plain loops in double; `score` and `attends` take (batch, head, query, key).
struct Reference {
  AttentionSizes sizes = {};
  std::function<double(int64_t, int64_t, int64_t, int64_t, double)> score = [](int64_t, int64_t, int64_t, int64_t,
                                                                               double s) { return s; };
  std::function<bool(int64_t, int64_t, int64_t, int64_t)> attends = [](int64_t, int64_t, int64_t, int64_t) {
    return true;
  };
  List sink = {};

  List operator()(const HostTensor& q, const HostTensor& k, const HostTensor& v) const {
    const AttentionSizes& n = sizes;
    List out(q.values.size());
    const auto query_at = [&](int64_t b, int64_t t, int64_t h, int64_t d) {
      return static_cast<size_t>(((b * n.queries + t) * n.heads + h) * n.width + d);
    };
    const auto key_at = [&](int64_t b, int64_t s, int64_t h, int64_t d) {
      return static_cast<size_t>(((b * n.keys + s) * n.key_heads + h * n.key_heads / n.heads) * n.width + d);
    };
    for (int64_t b = 0; b < n.batch; ++b)
      for (int64_t h = 0; h < n.heads; ++h)
        for (int64_t t = 0; t < n.queries; ++t) {
          double total = sink.empty() ? 0 : std::exp(sink[static_cast<size_t>(h)]);
          List weights(static_cast<size_t>(n.keys));
          for (int64_t s = 0; s < n.keys; ++s) {
            if (!attends(b, h, t, s)) continue;
            double product = 0;
            for (int64_t d = 0; d < n.width; ++d)
              product += q.values[query_at(b, t, h, d)] * k.values[key_at(b, s, h, d)];
            weights[static_cast<size_t>(s)] =
                std::exp(score(b, h, t, s, product / std::sqrt(static_cast<double>(n.width))));
            total += weights[static_cast<size_t>(s)];
          }
          for (int64_t s = 0; s < n.keys; ++s)
            for (int64_t d = 0; d < n.width; ++d)
              if (total > 0)
                out[query_at(b, t, h, d)] += weights[static_cast<size_t>(s)] / total * v.values[key_at(b, s, h, d)];
        }
    return out;
  }
};

class AttentionOps : public testing::Test {
 protected:
  void expect(const AttentionOptions& options, const Reference& reference) {
    const AttentionSizes& n = reference.sizes;
    const HostTensor q = random_host({n.batch, n.queries, n.heads, n.width}, 1);
    const HostTensor k = random_host({n.batch, n.keys, n.key_heads, n.width}, 2);
    const HostTensor v = random_host({n.batch, n.keys, n.key_heads, n.width}, 3);
    expect_op([&](In x) { return attention(x[0], x[1], x[2], options); }, {q, k, v}, q.shape, reference(q, k, v),
              {1e-9, 1e-5, true});
  }
};

TEST_F(AttentionOps, Plain) {
  expect({}, {});
  expect({}, {{.queries = 2, .keys = 7, .heads = 2, .key_heads = 2}});
  expect({.scale = 1 / std::sqrt(3.0)}, {{.key_heads = 1}});
}

TEST_F(AttentionOps, LibraryMasks) {
  const auto causal = [](int64_t, int64_t, int64_t t, int64_t s) { return s <= t; };
  expect({.mask = causal_mask()}, {.attends = causal});
  expect({.mask = causal_mask(), .block_map = false}, {.attends = causal});
  expect({.mask = sliding_window_mask(2)},
         {.attends = [](int64_t, int64_t, int64_t t, int64_t s) { return s <= t && t - s < 2; }});
  const List prefix = {3, 0}, lengths = {4, 1}, documents = {0, 0, 1, 1, 1, 5, 5, 5, 5, 2};
  const auto in_prefix = [&](int64_t b, int64_t, int64_t t, int64_t s) {
    return s <= t || static_cast<double>(s) < prefix[static_cast<size_t>(b)];
  };
  expect({.mask = prefix_mask(vector_of(prefix, DType::kI32))}, {.attends = in_prefix});
  expect({.mask = padding_mask(vector_of(lengths, DType::kI64))},
         {.attends = [&](int64_t b, int64_t, int64_t, int64_t s) {
           return static_cast<double>(s) < lengths[static_cast<size_t>(b)];
         }});
  const Tensor ids = Tensor::from_values(documents, {2, 5}, DType::kI32);
  const auto one_document = [&](int64_t b, int64_t, int64_t t, int64_t s) {
    return documents[static_cast<size_t>(5 * b + t)] == documents[static_cast<size_t>(5 * b + s)];
  };
  expect({.mask = and_masks({causal_mask(), document_mask(ids)})},
         {.attends = [&](int64_t b, int64_t h, int64_t t, int64_t s) { return s <= t && one_document(b, h, t, s); }});
  expect({.mask = or_masks({not_mask(causal_mask()), document_mask(ids)})},
         {.attends = [&](int64_t b, int64_t h, int64_t t, int64_t s) { return s > t || one_document(b, h, t, s); }});
}

TEST_F(AttentionOps, EmptyRowsGiveZero) {
  expect({.mask = [](const AttentionPosition& p) { return p.key < p.query; }},
         {.attends = [](int64_t, int64_t, int64_t t, int64_t s) { return s < t; }});
}

TEST_F(AttentionOps, LibraryScores) {
  const List slopes = alibi_slopes(4).values();
  const auto causal = [](int64_t, int64_t, int64_t t, int64_t s) { return s <= t; };
  const auto alibi = [&](int64_t, int64_t h, int64_t t, int64_t s, double x) {
    return x + slopes[static_cast<size_t>(h)] * static_cast<double>(s - t);
  };
  const auto capped = [](double x) { return 0.7 * std::tanh(x / 0.7); };
  expect({.score = alibi_score(alibi_slopes(4)), .mask = causal_mask()}, {.score = alibi, .attends = causal});
  expect({.score = softcap_score(0.7)},
         {.score = [&](int64_t, int64_t, int64_t, int64_t, double x) { return capped(x); }});
  expect({.score = compose_scores({softcap_score(0.7), alibi_score(alibi_slopes(4))})},
         {.score = [&](int64_t b, int64_t h, int64_t t, int64_t s, double x) { return alibi(b, h, t, s, capped(x)); }});
  const HostTensor bias = random_host({4, 1, 5}, 8);
  expect({.score = bias_score(to_tensor(bias)), .mask = causal_mask()},
         {.score = [&](int64_t, int64_t h, int64_t, int64_t s,
                       double x) { return x + bias.values[static_cast<size_t>(5 * h + s)]; },
          .attends = causal});
}

// Score and mask that capture tensors of their own and one in common.
TEST_F(AttentionOps, OwnFunctions) {
  const Tensor shared = vector_of({1, 2}, DType::kI32), scales = vector_of({0.5, 1, 1.5, 2});
  const ScoreFunction score = [&](const AttentionPosition& p, const Tensor& s) {
    return s * at(scales, {p.head}) + cast(at(shared, {p.batch}), DType::kF32) * 0.1 * cast(p.key, DType::kF32);
  };
  const MaskFunction mask = [&](const AttentionPosition& p) {
    return logical_or(p.key <= p.query, p.key > p.query + at(shared, {p.batch}));
  };
  expect({.score = score, .mask = mask},
         {.score =
              [](int64_t b, int64_t h, int64_t, int64_t s, double x) {
                return x * 0.5 * static_cast<double>(h + 1) + static_cast<double>(b + 1) * 0.1 * static_cast<double>(s);
              },
          .attends = [](int64_t b, int64_t, int64_t t, int64_t s) { return s <= t || s > t + b + 1; }});
}

TEST_F(AttentionOps, Sink) {
  const HostTensor sink = host({4}, {0.5, -1, 2, 0});
  const AttentionSizes n;
  const HostTensor q = random_host({n.batch, n.queries, n.heads, n.width}, 1);
  const HostTensor k = random_host({n.batch, n.keys, n.key_heads, n.width}, 2);
  const HostTensor v = random_host({n.batch, n.keys, n.key_heads, n.width}, 3);
  const Reference reference = {.attends = [](int64_t, int64_t, int64_t t, int64_t s) { return s < t; },
                               .sink = sink.values};
  const OpFunction op = [](In x) {
    return attention(x[0], x[1], x[2],
                     {.mask = [](const AttentionPosition& p) { return p.key < p.query; }, .sink = x[3]});
  };
  expect_op(op, {q, k, v, sink}, q.shape, reference(q, k, v), {1e-9, 1e-5, true});
}

TEST_F(AttentionOps, LogSumExp) {
  const HostTensor q = random_host({1, 2, 1, 2}, 5), k = random_host({1, 3, 1, 2}, 6);
  List expected;
  for (size_t t = 0; t < 2; ++t) {
    double total = 0;
    for (size_t s = 0; s < 3; ++s)
      total += std::exp(2 * (q.values[2 * t] * k.values[2 * s] + q.values[2 * t + 1] * k.values[2 * s + 1]));
    expected.push_back(std::log(total));
  }
  expect_op([](In x) { return attention_with_lse(x[0], x[1], x[1], {.scale = 2}).lse; }, {q, k}, {1, 1, 2}, expected);
}

// More than one block of 64, where blocks that the map marks empty are skipped.
TEST_F(AttentionOps, BlocksAreSkippedWithoutEffect) {
  const HostTensor q = random_host({1, 200, 1, 4}, 1), k = random_host({1, 200, 1, 4}, 2),
                   v = random_host({1, 200, 1, 4}, 3);
  const Reference reference = {
      .sizes = {.batch = 1, .queries = 200, .keys = 200, .heads = 1, .key_heads = 1, .width = 4},
      .attends = [](int64_t, int64_t, int64_t t, int64_t s) { return s <= t && t - s < 70; }};
  const auto run = [&](bool block_map) {
    return attention(to_tensor(q), to_tensor(k), to_tensor(v),
                     {.mask = sliding_window_mask(70), .block_map = block_map})
        .values();
  };
  expect_close(run(true), reference(q, k, v), 1e-5, "with a map");
  expect_close(run(false), reference(q, k, v), 1e-5, "without one");
}

TEST_F(AttentionOps, BlockMapNeedsKnownLengths) {
  const auto maps = [](const Dim& length) {
    Trace trace;
    const TraceScope scope(trace);
    const Tensor x = trace.add_argument("x", {DType::kF32, {1, length, 1, 4}});
    attention(x, x, x, {.mask = causal_mask()});
    attention(x, x, x, {.mask = causal_mask()});
    int64_t count = 0;
    for (const Node& node : trace.graph.nodes()) count += node.op == "attention_block_map"_op ? 1 : 0;
    return count;
  };
  EXPECT_EQ(maps(100), 2);
  EXPECT_EQ(maps(Dim::symbol("attention_test_T", 64)), 2);
  EXPECT_EQ(maps(Dim::symbol("attention_test_U")), 0);
}

TEST_F(AttentionOps, SymbolicLength) {
  for (const int64_t divisor : {1, 64}) {
    Step step(
        [](In x) {
          const Tensor out = attention(x[0], x[0], x[0], {.mask = and_masks({causal_mask(), document_mask(x[1])})});
          return std::vector<Tensor>{out, gradients(sum(square(out)), std::span(&x[0], 1))[0]};
        },
        {.symbolic = {{.argument = 0, .axis = 1, .symbol = "attention_test_V", .divisor = divisor},
                      {.argument = 1, .axis = 1, .symbol = "attention_test_V", .divisor = divisor}}});
    for (const int64_t length : {64, 192}) {
      const HostTensor x = random_host({1, length, 1, 4}, 7);
      List ids;
      for (int64_t i = 0; i < length; ++i) ids.push_back(static_cast<double>(i / 50));
      const Reference reference = {
          .sizes = {.batch = 1, .queries = length, .keys = length, .heads = 1, .key_heads = 1, .width = 4},
          .attends = [](int64_t, int64_t, int64_t t, int64_t s) { return s <= t && t / 50 == s / 50; }};
      const std::vector<Tensor> results = step({to_tensor(x), Tensor::from_values(ids, {1, length}, DType::kI32)});
      expect_close(results[0].values(), reference(x, x, x), 1e-5, "out");
      EXPECT_EQ(sizes_of(results[1]), x.shape);
    }
  }
}

// A tensor computed in the step, not only one that holds values, can be captured.
TEST_F(AttentionOps, CapturesValuesOfTheStep) {
  Step step([](In x) {
    const Tensor doubled = x[1] * 2.0;
    const ScoreFunction score = [&](const AttentionPosition& p, const Tensor& s) {
      return s + at(doubled, {p.key}) + at(x[1], {p.key});
    };
    return std::vector<Tensor>{attention(x[0], x[0], x[0], {.score = score})};
  });
  const HostTensor x = random_host({1, 3, 1, 2}, 9), bias = random_host({3}, 10);
  const Reference reference = {.sizes = {.batch = 1, .queries = 3, .keys = 3, .heads = 1, .key_heads = 1, .width = 2},
                               .score = [&](int64_t, int64_t, int64_t, int64_t s, double v) {
                                 return v + 3 * bias.values[static_cast<size_t>(s)];
                               }};
  expect_close(step({to_tensor(x), to_tensor(bias)})[0].values(), reference(x, x, x), 1e-5, "out");
}

TEST_F(AttentionOps, Errors) {
  const Tensor q = zeros({1, 4, 3, 2}), k = zeros({1, 4, 2, 2});
  const auto with = [](const AttentionOptions& options) {
    const Tensor x = zeros({1, 4, 1, 2});
    return error_text([&] { attention(x, x, x, options); });
  };
  EXPECT_THAT(error_text([&] { attention(q, k, k); }),
              testing::HasSubstr("takes a number of query heads (3) that the number of key heads (2) divides"));
  EXPECT_THAT(error_text([&] { attention(q, zeros({1, 4, 3, 4}), zeros({1, 4, 3, 4})); }),
              testing::HasSubstr("takes queries and keys of one head dimension"));
  EXPECT_THAT(error_text([&] { attention(zeros({4, 2}), k, k); }),
              testing::HasSubstr("attention: takes q [B, T, H, D], k [B, S, K, D] and v [B, S, K, V]"));
  EXPECT_EQ(with({.mask = [](const AttentionPosition& p) { return p.key; }}),
            "attention: the mask does not give a bool; it was given (i32[])");
  const Tensor table = zeros({4}), square_table = zeros({4, 4});
  EXPECT_EQ(with({.score = [&](const AttentionPosition&, const Tensor& s) { return s + table; }}),
            "attention: the score does not give a scalar; it was given (f32[4])");
  EXPECT_EQ(with({.score = [&](const AttentionPosition&, const Tensor& s) { return s + sum(table); }}),
            "attention: the score uses 'reduce_sum', which does not compute one element from others");
  EXPECT_EQ(with({.score = [&](const AttentionPosition&, const Tensor& s) { return stop_gradient(s); }}),
            "attention: the score uses stop_gradient");
  EXPECT_THAT(with({.sink = zeros({2})}), testing::HasSubstr("attention: takes a sink [H]"));
  EXPECT_EQ(error_text([] { sliding_window_mask(0); }), "sliding_window_mask: a window of 0");
  // A learned bias: its gradient is not there, and says so when it is asked for.
  EXPECT_EQ(error_text([&] {
              const Tensor x = zeros({1, 4, 1, 2});
              const Tensor loss = sum(attention(x, x, x, {.score = bias_score(reshape(square_table, {1, 4, 4}))}));
              gradients(loss, std::span(&square_table, 1));
            }),
            "the attention score captures the f32[1, 4, 4] computed by reshape, and gradients of captured tensors are "
            "not defined");
}

}  // namespace
}  // namespace causeway::tensor
