// Attention on x86-64 for the machine that tests are compiled for, and how it is launched.
#include <gtest/gtest.h>

#include "causeway/kernels/types.h"

namespace {

template <class Operand>
class AttentionTest : public testing::Test {};
using Operands = testing::Types<bf16, float>;
TYPED_TEST_SUITE(AttentionTest, Operands);

}  // namespace

#define ATTENTION_TEST(name) TYPED_TEST(AttentionTest, name)
#include "tests/kernels/attention_cases.h"

namespace {

TEST(AttentionBlockMap, KindsOfASlidingWindow) {
  Case<SlidingWindow, float, 16> test({1, 1, 1, 200, 200}, SlidingWindow(150));
  const std::vector<uint8_t> expected = {1, 0, 0, 0,  //
                                         2, 1, 0, 0,  //
                                         1, 2, 1, 0,  //
                                         1, 2, 2, 1};
  // Row 150 no longer sees key 0, but query block 2 holds rows 128 to 191; the last block holds rows 192 to 199.
  EXPECT_EQ(test.map, expected);
}

TEST(AttentionBlockMap, EdgesAreJudgedByThePositionsThatExist) {
  Case<CausalAtEnd, float, 16> test({1, 1, 1, 10, 70}, CausalAtEnd(69));
  EXPECT_EQ(test.map, (std::vector<uint8_t>{2, 2}));
}

TEST(AttentionGeometry, SplitsQueriesOnlyWhenWorkersWouldIdle) {
  causeway::codegen::AttentionShape shape{4, 12, 12, 1024, 1024, 64, 64};
  EXPECT_EQ(causeway::codegen::attention_forward_launch(shape, 2).query_splits, 1);
  EXPECT_EQ(causeway::codegen::attention_forward_launch(shape, 2).task_count, 48);
  EXPECT_EQ(causeway::codegen::attention_forward_launch(shape, 64).query_splits, 4);
  EXPECT_EQ(causeway::codegen::attention_forward_launch(shape, 64).task_count, 192);
  EXPECT_EQ(causeway::codegen::attention_backward_launch(shape).task_count, 48);
  // Nobody knows yet how many there are: a kernel whose sizes are symbolic.
  EXPECT_EQ(causeway::codegen::attention_forward_launch({1, 4, 2, 1024, 1024, 64, 64}, 0).query_splits, 1);
  EXPECT_EQ(causeway::codegen::attention_forward_launch({1, 4, 2, 1024, 1024, 64, 64}, 2).query_splits, 4);
  shape.query_length = 1;
  EXPECT_EQ(causeway::codegen::attention_forward_launch(shape, 64).query_splits, 1);
  // One panel of keys and one of values, not all sixteen.
  EXPECT_LT(causeway::codegen::attention_forward_launch(shape, 64).scratch_bytes, 100 * 1024);
}

TEST(AttentionGeometry, RefusesWhatTheKernelsCannotRun) {
  auto message = [](causeway::codegen::AttentionShape shape) -> std::string {
    try {
      causeway::codegen::check_attention_shape(shape);
    } catch (const causeway::Error& error) {
      EXPECT_EQ(error.kind(), causeway::ErrorKind::kInvalidArgument);
      return error.message() + "; " + error.hint();
    }
    return "";
  };
  EXPECT_EQ(message({1, 8, 2, 10, 10, 64, 64}), "");
  EXPECT_EQ(message({1, 8, 3, 10, 10, 64, 64}),
            "8 query heads cannot share 3 key/value heads evenly; make the number of query heads a multiple of the "
            "number of key/value heads");
  EXPECT_EQ(message({1, 8, 2, 10, 10, 1024, 64}), "the head dimension is 1024; use a head dimension from 1 to 512");
  EXPECT_EQ(message({1, 8, 2, 10, 10, 64, 64, 64, 20}), "the block size is 20; use a multiple of 16 from 16 to 256");
  EXPECT_EQ(message({0, 8, 2, 10, 10, 64, 64}), "batch is 0; give at least one sequence");
}

}  // namespace
