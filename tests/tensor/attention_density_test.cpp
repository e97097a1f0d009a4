// The FLOPs counted for every mask of the library, and for conjunctions of them, against counting pairs one by one.
#include <algorithm>
#include <array>

#include "causeway/graph/interpreter.h"
#include "causeway/passes/attended_pairs.h"
#include "causeway/passes/count_flops.h"
#include "tests/fixtures/op_literal.h"
#include "tests/tensor/op_check.h"

namespace causeway::tensor {
namespace {

constexpr int64_t kBatch = 2, kHeads = 2, kLength = 40;

struct NamedMask {
  std::string name;
  bool reads_data = false;
  MaskFunction mask;
};

class AttentionDensity : public testing::Test {
 protected:
  AttentionDensity() {
    std::vector<double> ids;
    for (int64_t b = 0; b < kBatch; ++b)
      for (int64_t t = 0; t < kLength; ++t) ids.push_back(static_cast<double>(t / (b == 0 ? 13 : 7)));
    documents_ = Tensor::from_values(ids, {kBatch, kLength}, DType::kI32);
    lengths_ = Tensor::from_values({11, 40}, {kBatch}, DType::kI32);
  }

  std::vector<NamedMask> masks() const {
    return {{"all", false, and_masks({})},
            {"none", false, or_masks({})},
            {"causal", false, causal_mask()},
            {"not causal", false, not_mask(causal_mask())},
            {"window of 1", false, sliding_window_mask(1)},
            {"window of 9", false, sliding_window_mask(9)},
            {"window longer than the sequence", false, sliding_window_mask(100)},
            {"window or far", false,
             or_masks({sliding_window_mask(5), [](const AttentionPosition& p) { return ge(p.query - p.key, 30); }})},
            {"prefix", true, prefix_mask(lengths_)},
            {"padding", true, padding_mask(lengths_)},
            {"documents", true, document_mask(documents_)},
            {"other documents", true, not_mask(document_mask(documents_))}};
  }

  struct Counted {
    FlopCount flops;
    AttendedPairs pairs;
    double actual = 0;
  };

  Counted count(const MaskFunction& mask, const ScoreFunction& score = {}) const {
    Trace trace;
    {
      const TraceScope scope(trace);
      const Tensor x = trace.add_argument("x", {DType::kF32, {kBatch, kLength, kHeads, 4}});
      trace.graph.outputs = {trace.use(attention(x, x, x, {.score = score, .mask = mask, .block_map = false}))};
    }
    Counted counted;
    counted.flops = count_flops(trace.graph);
    const auto node = std::find_if(trace.graph.nodes().begin(), trace.graph.nodes().end(),
                                   [](const Node& each) { return each.op == "attention"_op; });
    const AttentionSpec& spec = *node->attributes.attention;
    counted.pairs = count_attended_pairs(spec, kBatch, kHeads, kLength, kLength);
    std::vector<HostTensor> inputs(4);
    for (size_t i = 3; i < node->inputs.size(); ++i)
      for (const Trace::Captured& captured : trace.captured())
        if (captured.input == node->inputs[i]) {
          std::vector<int64_t> shape = sizes_of(captured.tensor);
          inputs.push_back(make_host_tensor(captured.tensor.dtype(), shape, captured.tensor.values()));
        }
    for (int64_t b = 0; b < kBatch; ++b)
      for (int64_t h = 0; h < kHeads; ++h)
        for (int64_t i = 0; i < kLength; ++i)
          for (int64_t j = 0; j < kLength; ++j) {
            const std::array<int64_t, 4> at = {b, h, i, j};
            for (size_t k = 0; k < 4; ++k) inputs[k] = make_host_tensor(DType::kI32, {}, {static_cast<double>(at[k])});
            counted.actual += interpret(*spec.mask, inputs)[0].values[0];
          }
    return counted;
  }

  static void expect_sound(const Counted& counted, bool reads_data, const std::string& name) {
    EXPECT_LE(counted.pairs.at_least, counted.actual) << name;
    EXPECT_GE(counted.pairs.at_most, counted.actual) << name;
    EXPECT_FALSE(counted.pairs.sampled) << name;
    if (!reads_data) {
      EXPECT_TRUE(counted.pairs.known()) << name;
      EXPECT_FALSE(counted.flops.at_most) << name;
    }
    EXPECT_EQ(counted.flops.at_most, !counted.pairs.known()) << name;
    EXPECT_EQ(counted.flops.attended_pairs, counted.pairs.at_most) << name;
    EXPECT_EQ(counted.flops.forward, 4 * counted.pairs.at_most * 4) << name;
  }

  Tensor documents_, lengths_;
};

TEST_F(AttentionDensity, OfEveryMask) {
  for (const NamedMask& each : masks()) expect_sound(count(each.mask), each.reads_data, each.name);
}

TEST_F(AttentionDensity, AStricterMaskNeverCountsMore) {
  const std::vector<NamedMask> all = masks();
  std::vector<double> alone;
  for (const NamedMask& each : all) alone.push_back(count(each.mask).pairs.at_most);
  for (size_t a = 0; a < all.size(); ++a)
    for (size_t b = 0; b < all.size(); ++b) {
      const std::string name = all[a].name + " and " + all[b].name;
      const Counted both = count(and_masks({all[a].mask, all[b].mask}));
      expect_sound(both, all[a].reads_data || all[b].reads_data, name);
      EXPECT_LE(both.pairs.at_most, std::min(alone[a], alone[b])) << name;
      const Counted either = count(or_masks({all[a].mask, all[b].mask}));
      EXPECT_LE(either.pairs.at_most, alone[a] + alone[b]) << name;
      EXPECT_GE(either.pairs.at_most, std::max(alone[a], alone[b])) << name;
    }
}

TEST_F(AttentionDensity, OfACausalMaskIsExactWhateverTheScoreReads) {
  const Tensor slopes = Tensor::from_values({0.5, 0.25}, {kHeads}, DType::kF32);
  const Counted counted = count(causal_mask(), alibi_score(slopes));
  EXPECT_EQ(counted.pairs.at_most, kBatch * kHeads * kLength * (kLength + 1) / 2);
  EXPECT_TRUE(counted.pairs.known());
  EXPECT_EQ(density_text(counted.flops), "0.5125 of all pairs");
}

TEST_F(AttentionDensity, OfDocumentsIsAtMostThatOfTheCausalMaskOrWindow) {
  for (const auto& [mask, pairs] : {std::pair(causal_mask(), 820), std::pair(sliding_window_mask(9), 36 + 32 * 9)}) {
    const Counted counted = count(and_masks({mask, document_mask(documents_)}));
    EXPECT_EQ(counted.pairs.at_most, kBatch * kHeads * pairs);
    EXPECT_TRUE(counted.flops.at_most);
    EXPECT_LT(counted.actual, counted.pairs.at_most);
  }
}

}  // namespace
}  // namespace causeway::tensor
