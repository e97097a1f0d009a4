// Every elementwise primitive, conversion, reduction and movement op, for every dtype it takes, on odd shapes, against
// the reference interpreter.
#include "causeway/graph/op.h"
#include "tests/program/primitive_cases.h"

namespace causeway::program {
namespace {

ProgramRunner& runner() {
  static ProgramRunner shared(2);
  return shared;
}

class ElementwiseOnCpu : public testing::TestWithParam<Op> {};

TEST_P(ElementwiseOnCpu, MatchesTheReference) {
  const std::vector<PrimitiveCase> cases = elementwise_cases(GetParam());
  EXPECT_EQ(cases.empty(), GetParam() == Op::kCast || GetParam() == Op::kBitcast);
  for (const PrimitiveCase& primitive : cases) expect_reference(runner(), primitive);
}

INSTANTIATE_TEST_SUITE_P(Ops, ElementwiseOnCpu, testing::ValuesIn(elementwise_ops()),
                         [](const auto& test) { return std::string(op_name(test.param)); });

TEST(ConversionsOnCpu, EveryPairOfDTypes) {
  for (const PrimitiveCase& primitive : conversion_cases()) expect_reference(runner(), primitive);
}

TEST(ReductionsOnCpu, EveryDTypeAndAxis) {
  for (const PrimitiveCase& primitive : reduction_cases()) expect_reference(runner(), primitive);
}

}  // namespace
}  // namespace causeway::program
