#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "causeway/passes/attention_gradient_rule.h"
#include "tests/fixtures/op_literal.h"
#include "tests/passes/attention_specs.h"
#include "tests/passes/gradient_check.h"

namespace causeway::passes {
namespace {

using Values = std::vector<Value>;

GraphFunction attention(std::shared_ptr<const AttentionSpec> spec) {
  return [spec](const Builder& b, const Values& x) {
    Attributes attributes;
    attributes.attention = spec;
    const Value out = b.graph().add("attention"_op, x, attributes);
    return Values{out, {out.node, 1}};
  };
}

std::vector<CheckedInput> queries_keys_values(int64_t heads, int64_t key_heads, int64_t queries, int64_t keys) {
  return {checked(DType::kF32, {2, queries, heads, 3}, 1), checked(DType::kF32, {2, keys, key_heads, 3}, 2),
          checked(DType::kF32, {2, keys, key_heads, 3}, 3)};
}

TEST(AttentionGradient, OfOutputAndLogSumExp) {
  AttentionSpec plain;
  plain.scale = 0.7;
  expect_gradients(attention(std::make_shared<AttentionSpec>(plain)), queries_keys_values(2, 2, 3, 5));
  AttentionSpec causal = plain;
  causal.mask = causal_mask();
  expect_gradients(attention(std::make_shared<AttentionSpec>(causal)), queries_keys_values(4, 2, 5, 5));
}

TEST(AttentionGradient, OfEachOutputAlone) {
  const auto spec = std::make_shared<AttentionSpec>();
  for (const size_t output : {0, 1})
    expect_gradients([&](const Builder& b, const Values& x) { return Values{attention(spec)(b, x)[output]}; },
                     queries_keys_values(2, 1, 3, 4));
}

TEST(AttentionGradient, DifferentiatesTheScoreFunction) {
  AttentionSpec capped;
  capped.score = soft_capped_score(2.0);
  capped.mask = causal_mask();
  expect_gradients(attention(std::make_shared<AttentionSpec>(capped)), queries_keys_values(2, 2, 4, 4));
}

TEST(AttentionGradient, NamesTheCapturedTensorItCannotDifferentiate) {
  AttentionSpec biased;
  biased.score = biased_score(2);
  Graph graph;
  Values inputs;
  for (const CheckedInput& input : queries_keys_values(2, 2, 3, 3)) inputs.push_back(graph.add_input("x", input.type));
  inputs.push_back(graph.add_input("slopes", {DType::kF32, {2}}));
  const Builder build(graph);
  graph.set_scope("layers.1.attention");
  const Value out = attention(std::make_shared<AttentionSpec>(biased))(build, inputs)[0];
  const Value loss = build.reduce_sum(out, {0, 1, 2, 3});
  EXPECT_NO_THROW(add_gradients(graph, loss, std::vector{inputs[0]}));
  EXPECT_THAT([&] { add_gradients(graph, loss, std::vector{inputs[3]}); },
              testing::ThrowsMessage<Error>(
                  testing::AllOf(testing::HasSubstr("captures 'slopes'"), testing::HasSubstr("layers.1.attention"))));
}

TEST(AttentionGradient, ScoreDerivativeKeepsTheInputs) {
  const std::shared_ptr<const Graph> score = biased_score(3);
  const std::shared_ptr<const Graph> derivative = differentiate_score(*score);
  derivative->verify("score gradient");
  ASSERT_EQ(derivative->inputs().size(), score->inputs().size());
  // d (s + slope_h * (j - i)) / ds = 1.
  const Node& result = derivative->node(derivative->outputs[0]);
  EXPECT_EQ(result.op, "constant"_op);
  EXPECT_EQ(result.attributes.value, 1);
}

}  // namespace
}  // namespace causeway::passes
