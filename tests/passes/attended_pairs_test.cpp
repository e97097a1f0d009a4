#include "causeway/passes/attended_pairs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tests/fixtures/op_literal.h"
#include "tests/passes/attention_specs.h"

namespace causeway::passes {
namespace {

using MaskBody = std::function<Value(const Builder& build, const ScalarFunction& f, Value documents)>;

// `documents` [64] is captured, whether or not the mask reads it.
AttentionSpec spec_of(const MaskBody& body) {
  ScalarFunction f = scalar_function(false);
  const Value documents = f.graph.add_input("documents", {DType::kI32, {64}});
  const Value mask = body(Builder(f.graph), f, documents);
  AttentionSpec spec;
  spec.mask = finish(f, mask);
  return spec;
}

Value same_document(const Builder& build, const ScalarFunction& f, Value documents) {
  return build.equal(build.gather(documents, f.in[2], 0), build.gather(documents, f.in[3], 0));
}
Value causal(const Builder& build, const ScalarFunction& f) { return build.less_equal(f.in[3], f.in[2]); }
Value integer(const Builder& build, double value) { return build.constant(DType::kI32, {}, value); }
Value truth(const Builder& build, double value) { return build.constant(DType::kBool, {}, value); }

void expect_exactly(const AttendedPairs& pairs, double count) {
  EXPECT_EQ(pairs.at_most, count);
  EXPECT_EQ(pairs.at_least, count);
  EXPECT_TRUE(pairs.known());
  EXPECT_FALSE(pairs.sampled);
}

double causal_pairs(double length) { return length * (length + 1) / 2; }

TEST(AttendedPairs, OfPositionsAloneAreExactAtAnyLength) {
  AttentionSpec spec;
  expect_exactly(count_attended_pairs(spec, 2, 3, 5, 7), 2 * 3 * 5 * 7);
  spec.mask = causal_mask();
  for (const int64_t length : {1, 5, 8, 9, 63, 64, 1000, 4096, 8191, 131072})
    expect_exactly(count_attended_pairs(spec, 2, 3, length, length), 2 * 3 * causal_pairs(static_cast<double>(length)));
  // More keys than queries, and fewer.
  expect_exactly(count_attended_pairs(spec, 1, 1, 5, 9), 15);
  expect_exactly(count_attended_pairs(spec, 1, 1, 9, 5), 15 + 4 * 5);
  // Head h sees 2 * (h + 1) keys back: 1 + 2 + 2 + 2 and 1 + 2 + 3 + 4.
  spec.mask = window_mask_by_head(2);
  expect_exactly(count_attended_pairs(spec, 3, 2, 4, 4), 3 * (7 + 10));
  const double window = 4096, length = 32768;
  spec.mask = window_mask_by_head(4096);
  expect_exactly(count_attended_pairs(spec, 1, 1, 32768, 32768), causal_pairs(window) + (length - window) * window);
}

// What was counted serves other batches and heads where these do not decide, and equal masks alone.
TEST(AttendedPairs, AreRememberedByMaskAndSize) {
  for (int round = 0; round < 2; ++round) {
    AttentionSpec spec;
    spec.mask = window_mask_by_head(2);
    expect_exactly(count_attended_pairs(spec, 1, 1, 4, 4), 7);
    expect_exactly(count_attended_pairs(spec, 3, 2, 4, 4), 3 * (7 + 10));
    spec.mask = window_mask_by_head(1);
    expect_exactly(count_attended_pairs(spec, 3, 2, 4, 4), 3 * (4 + 7));
    spec.mask = causal_mask();
    expect_exactly(count_attended_pairs(spec, 1, 1, 4, 4), 10);
    expect_exactly(count_attended_pairs(spec, 3, 2, 4, 4), 60);
    expect_exactly(count_attended_pairs(spec, 3, 2, 4, 5), 60);
  }
}

TEST(AttendedPairs, AreCountedInASampleWhereTheBoundaryIsTooLong) {
  // Every second key: 4 of 8 at each query.
  const AttentionSpec spec = spec_of([](const Builder& build, const ScalarFunction& f, Value) {
    const Value sum = build.add(f.in[2], f.in[3]);
    return build.equal(build.graph().add("rem"_op, {sum, integer(build, 2)}), integer(build, 0));
  });
  expect_exactly(count_attended_pairs(spec, 1, 1, 256, 256), 256 * 128);
  const AttendedPairs pairs = count_attended_pairs(spec, 1, 1, 16384, 16384);
  EXPECT_TRUE(pairs.sampled);
  EXPECT_EQ(pairs.at_most, 16384.0 * 8192);
}

// No interval says anything of a product that wraps, so every pair is looked at.
TEST(AttendedPairs, OfMasksThatIntervalsCannotBoundAreCountedOneByOne) {
  const AttentionSpec spec = spec_of([](const Builder& build, const ScalarFunction& f, Value) {
    const Value hash =
        build.mul(build.add(build.mul(f.in[2], integer(build, 7919)), f.in[3]), integer(build, 1640531527));
    return build.less(hash, integer(build, 0));
  });
  double expected = 0;
  for (uint32_t i = 0; i < 50; ++i)
    for (uint32_t j = 0; j < 70; ++j) expected += static_cast<int32_t>((i * 7919 + j) * 1640531527u) < 0 ? 1 : 0;
  EXPECT_GT(expected, 1000);
  expect_exactly(count_attended_pairs(spec, 1, 1, 50, 70), expected);
  // Products beyond what a double holds are not computed: such a pair may attend or not.
  const AttentionSpec wide = spec_of([](const Builder& build, const ScalarFunction& f, Value) {
    const Value large = build.constant(DType::kI64, {}, 4611686018427387904.0);
    const Value product = build.mul(build.cast(f.in[2], DType::kI64), large);
    return build.less(product, build.constant(DType::kI64, {}, 0));
  });
  const AttendedPairs pairs = count_attended_pairs(wide, 1, 1, 8, 8);
  EXPECT_LE(pairs.at_least, 64 - 8);
  EXPECT_EQ(pairs.at_most, 64);
  EXPECT_FALSE(pairs.known());
}

TEST(AttendedPairs, WhatDataDecidesIsBoundedByWhatItDoesNot) {
  const double length = 64, all = length * length;
  const auto count = [](const MaskBody& body) { return count_attended_pairs(spec_of(body), 1, 1, 64, 64); };
  const auto expect = [](const AttendedPairs& pairs, double at_least, double at_most) {
    EXPECT_EQ(pairs.at_least, at_least);
    EXPECT_EQ(pairs.at_most, at_most);
    EXPECT_EQ(pairs.known(), at_least == at_most);
  };
  expect(count(same_document), 0, all);
  const auto both = [](const Builder& build, const ScalarFunction& f, Value documents) {
    return build.graph().add("and"_op, {causal(build, f), same_document(build, f, documents)});
  };
  expect(count(both), 0, causal_pairs(length));
  expect(count([&](const Builder& build, const ScalarFunction& f, Value documents) {
           return build.graph().add("or"_op, {same_document(build, f, documents), causal(build, f)});
         }),
         causal_pairs(length), all);
  // not (causal and document), by xor and by comparison with false.
  expect(count([&](const Builder& build, const ScalarFunction& f, Value documents) {
           return build.graph().add("xor"_op, {both(build, f, documents), truth(build, 1)});
         }),
         all - causal_pairs(length), all);
  expect(count([&](const Builder& build, const ScalarFunction& f, Value documents) {
           return build.equal(both(build, f, documents), truth(build, 0));
         }),
         all - causal_pairs(length), all);
  // where(document, causal, false); where(causal, document, true); where(document, causal, causal).
  expect(count([&](const Builder& build, const ScalarFunction& f, Value documents) {
           return build.select(same_document(build, f, documents), causal(build, f), truth(build, 0));
         }),
         0, causal_pairs(length));
  expect(count([&](const Builder& build, const ScalarFunction& f, Value documents) {
           return build.select(causal(build, f), same_document(build, f, documents), truth(build, 1));
         }),
         all - causal_pairs(length), all);
  expect(count([&](const Builder& build, const ScalarFunction& f, Value documents) {
           return build.select(same_document(build, f, documents), causal(build, f), causal(build, f));
         }),
         causal_pairs(length), causal_pairs(length));
  // Data that comes to nothing: captured and not read, or read under a condition that never holds.
  expect(count([&](const Builder& build, const ScalarFunction& f, Value) { return causal(build, f); }),
         causal_pairs(length), causal_pairs(length));
  expect(count([&](const Builder& build, const ScalarFunction& f, Value documents) {
           const Value never = build.less(f.in[3], integer(build, 0));
           return build.graph().add("and"_op, {never, same_document(build, f, documents)});
         }),
         0, 0);
}

}  // namespace
}  // namespace causeway::passes
