// The attention tests for matrix registers, which are emulated.
#include <gtest/gtest.h>

#include "tests/kernels/emulated_matrix_tiles.h"

#define CAUSEWAY_X86_LEVEL 0

namespace {

template <class Operand>
class AttentionMatrixTiles : public testing::Test {};
using Operands = testing::Types<bf16>;
TYPED_TEST_SUITE(AttentionMatrixTiles, Operands);

}  // namespace

#define ATTENTION_TEST(name) TYPED_TEST(AttentionMatrixTiles, name)
#include "tests/kernels/attention_cases.h"

namespace {

// What the tests above take for granted.
static_assert(attention_tile::use_matrix_tiles<bf16>(64, 64));
static_assert(!attention_tile::use_matrix_tiles<bf16>(48, 64) && !attention_tile::use_matrix_tiles<float>(64, 64));

}  // namespace
