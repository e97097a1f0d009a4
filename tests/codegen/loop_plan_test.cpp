// What loop kernels do, as planned: their axes and how they are mapped, what is read, held and stored, how sums are
// made.
#include "causeway/codegen/gpu/loop_plan.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <optional>
#include <string>
#include <vector>

#include "causeway/codegen/gpu/column_reduce_plan.h"
#include "causeway/codegen/x86/loop_plan.h"
#include "causeway/device/gpu_architecture.h"
#include "causeway/graph/parser.h"
#include "causeway/kernels/gpu/transpose_layout.h"

namespace causeway::codegen {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using enum AxisMapping;
using Form = GpuLoopPlan::Form;
using ColumnLoop = GpuLoopPlan::ColumnLoop;
using Reduction = GpuLoopPlan::Reduction;
using Where = GpuLoopPlan::HeldRow::Where;

Value of(int32_t node) { return {node, 0}; }

// A request for some nodes of a graph, all of which are stored unless `stored` says otherwise.
struct Loop {
  Loop(const std::string& text, const std::vector<int32_t>& nodes, Dim rows, Dim columns)
      : graph(parse_graph(text)), materialized(graph) {
    request.rows = std::move(rows);
    request.columns = std::move(columns);
    for (const int32_t node : nodes) {
      request.members.push_back(of(node));
      request.stored.push_back(true);
      materialized.insert(of(node));
    }
  }
  Loop& keep(size_t member) {
    request.stored[member] = false;
    return *this;
  }
  Loop& in_fixed_order() {
    request.fixed_order = true;
    return *this;
  }
  GpuLoopPlan on(const char* processor) const {
    const Target target = gpu_target(processor);
    return plan_gpu_loop({graph, materialized, request, target});
  }
  GpuColumnReducePlan as_column_reduction() const {
    const Target target = gpu_target("sm_90a");
    return plan_gpu_column_reduce({graph, materialized, request, target});
  }
  CpuLoopPlan on_cpu() const {
    const Target target;
    return plan_cpu_loop({graph, materialized, request, target});
  }

  Graph graph;
  MaterializedValues materialized;
  KernelRequest request;
};

Loop elementwise(const char* dtype, int64_t rows, int64_t columns) {
  return {fmt::format(R"(%0 = input "x" : {0}[{1}, {2}]
%1 = input "y" : {0}[{1}, {2}]
%2 = add(%0, %1) : {0}[{1}, {2}]
return %2
)",
                      dtype, rows, columns),
          {2},
          1,
          rows * columns};
}

Loop broadcast(const char* dtype, int64_t rows, int64_t columns) {
  return {fmt::format(R"(%0 = input "x" : {0}[{1}, {2}]
%1 = input "y" : {0}[{2}]
%2 = broadcast(%1) {{axes=[1]}} : {0}[{1}, {2}]
%3 = mul(%0, %2) : {0}[{1}, {2}]
return %3
)",
                      dtype, rows, columns),
          {3},
          1,
          rows * columns};
}

// The members are the maximum, the sum and the quotient.
Loop softmax(const char* dtype, int64_t rows, int64_t columns) {
  return {fmt::format(R"(%0 = input "x" : {0}[{1}, {2}]
%1 = cast(%0) : f32[{1}, {2}]
%2 = reduce_max(%1) {{axes=[1]}} : f32[{1}]
%3 = broadcast(%2) {{axes=[0]}} : f32[{1}, {2}]
%4 = sub(%1, %3) : f32[{1}, {2}]
%5 = exp2(%4) : f32[{1}, {2}]
%6 = reduce_sum(%5) {{axes=[1]}} : f32[{1}]
%7 = broadcast(%6) {{axes=[0]}} : f32[{1}, {2}]
%8 = div(%5, %7) : f32[{1}, {2}]
return %8
)",
                      dtype, rows, columns),
          {2, 6, 8},
          rows,
          columns};
}

// Sums of one pass: of x, of its squares, and its maximum.
Loop sums(int64_t rows, int64_t columns, const std::vector<int32_t>& nodes) {
  return {fmt::format(R"(%0 = input "x" : f32[{0}, {1}]
%1 = mul(%0, %0) : f32[{0}, {1}]
%2 = reduce_sum(%0) {{axes=[1]}} : f32[{0}]
%3 = reduce_sum(%1) {{axes=[1]}} : f32[{0}]
%4 = reduce_max(%0) {{axes=[1]}} : f32[{0}]
%5 = rsqrt(%3) : f32[{0}]
return %2, %3, %4, %5
)",
                      rows, columns),
          nodes, rows, columns};
}

// The members are a value of the row, the sum of it times x, and what follows from both and from x.
Loop own_value_twice(int64_t rows, int64_t columns) {
  return {fmt::format(R"(%0 = input "x" : f32[{0}, {1}]
%1 = input "g" : f32[{0}, {1}]
%2 = mul(%0, %1) : f32[{0}, {1}]
%3 = mul(%2, %0) : f32[{0}, {1}]
%4 = reduce_sum(%3) {{axes=[1]}} : f32[{0}]
%5 = broadcast(%4) {{axes=[0]}} : f32[{0}, {1}]
%6 = mul(%0, %5) : f32[{0}, {1}]
%7 = sub(%2, %6) : f32[{0}, {1}]
return %7
)",
                      rows, columns),
          {2, 4, 7},
          rows,
          columns};
}

Loop transposed(const char* dtype, int64_t rows, int64_t columns, bool computes) {
  return {fmt::format(R"(%0 = input "x" : {0}[3, {1}, {2}]
%1 = permute(%0) {{axes=[0, 2, 1]}} : {0}[3, {2}, {1}]
%2 = neg(%1) : {0}[3, {2}, {1}]
return %{3}
)",
                      dtype, rows, columns, computes ? 2 : 1),
          {computes ? 2 : 1},
          1,
          3 * rows * columns};
}

// The members are an 8-bit matrix and its transpose.
Loop in_both_orders(int64_t rows, int64_t columns, const char* dtype = "f8e4m3") {
  return {fmt::format(R"(%0 = input "x" : bf16[{0}, {1}]
%1 = cast(%0) : f32[{0}, {1}]
%2 = cast(%1) : {2}[{0}, {1}]
%3 = permute(%2) {{axes=[1, 0]}} : {2}[{1}, {0}]
return %2, %3
)",
                      rows, columns, dtype),
          {2, 3},
          rows,
          columns};
}

// The members are a norm's gradient's sum over each row, and sums over all rows.
Loop gradient_of_norm(int64_t rows, int64_t columns) {
  return {fmt::format(R"(%0 = input "x" : f32[{0}, {1}]
%1 = input "g" : f32[{0}, {1}]
%2 = mul(%0, %1) : f32[{0}, {1}]
%3 = reduce_sum(%2) {{axes=[1]}} : f32[{0}]
%4 = reduce_sum(%2) {{axes=[0]}} : f32[{1}]
%5 = reduce_sum(%1) {{axes=[0]}} : f32[{1}]
return %3, %4, %5
)",
                      rows, columns),
          {3, 4, 5},
          rows,
          columns};
}

TEST(GpuLoopPlan, NeighboursOfOneRangeAreLanes) {
  const GpuLoopPlan plan = elementwise("bf16", 1024, 4096).on("sm_90a");
  EXPECT_EQ(plan.form, Form::kElements);
  EXPECT_THAT(plan.axes, ElementsAre(LoopAxis{524288, kThread}, LoopAxis{8, kLane}));
  EXPECT_EQ(plan.index_type, DType::kI32);
  EXPECT_TRUE(plan.fills_blocks);
  EXPECT_FALSE(plan.ends_within_vector);
  ASSERT_EQ(plan.loads.size(), 2);
  for (const LoopLoad& load : plan.loads) EXPECT_EQ(load.at, plan.element);
  EXPECT_THAT(plan.members, ElementsAre(LoopMember{LoopRole::kFull, 0, true}));
  EXPECT_THAT(plan.held, IsEmpty());
  EXPECT_THAT(plan.reductions, IsEmpty());
  EXPECT_FALSE(plan.obstacle);
  EXPECT_EQ(elementwise("f32", 1024, 4096).on("gfx942").axes, (std::vector<LoopAxis>{{1048576, kThread}, {4, kLane}}));
}

TEST(GpuLoopPlan, OneRangeMayEndWithinAVector) {
  const GpuLoopPlan plan = elementwise("f32", 7, 129).on("sm_90a");
  EXPECT_EQ(plan.lanes, 4);
  EXPECT_TRUE(plan.ends_within_vector);
  EXPECT_FALSE(plan.fills_blocks);
  EXPECT_EQ(elementwise("f32", int64_t{1} << 16, int64_t{1} << 15).on("sm_90a").index_type, DType::kI64);
}

TEST(GpuLoopPlan, ABroadcastCutsItsAxis) {
  const GpuLoopPlan plan = broadcast("bf16", 512, 768).on("sm_90a");
  EXPECT_EQ(plan.form, Form::kElements);
  EXPECT_THAT(plan.axes, ElementsAre(LoopAxis{512, kThread}, LoopAxis{96, kThread}, LoopAxis{8, kLane}));
  ASSERT_EQ(plan.loads.size(), 2);
  const LoopLoad& row = plan.loads[1];
  EXPECT_EQ(row.value, of(1));
  EXPECT_TRUE(coefficient(row.at, 0).is_constant(0));
  EXPECT_TRUE(coefficient(row.at, 1).is_constant(8));
  EXPECT_TRUE(coefficient(row.at, 2).is_constant(1));
}

TEST(GpuLoopPlan, RowsThatNoVectorFits) {
  // Short ones are computed element by element, long ones by vectors that may begin before them.
  const GpuLoopPlan by_one = broadcast("f32", 100, 7).on("sm_90a");
  EXPECT_THAT(by_one.axes, ElementsAre(LoopAxis{100, kThread}, LoopAxis{7, kThread}, LoopAxis{1, kLane}));
  const GpuLoopPlan plan = broadcast("f32", 64, 1027).on("sm_90a");
  EXPECT_EQ(plan.form, Form::kUnalignedRows);
  EXPECT_THAT(plan.axes, ElementsAre(LoopAxis{64, kGrid}, LoopAxis{1024, kBlock}, LoopAxis{4, kLane}));
  EXPECT_EQ(plan.unaligned_columns, 1027);
  EXPECT_TRUE(plan.row_vectors.is_constant(258));
  const GpuLoopPlan of_sums = sums(64, 1027, {2}).on("sm_90a");
  EXPECT_EQ(of_sums.form, Form::kRows);
  EXPECT_EQ(of_sums.column_loop, ColumnLoop::kUnaligned);
}

TEST(GpuLoopPlan, WhatLiesAcrossTheResultIsReadByTiles) {
  const GpuLoopPlan plan = transposed("f32", 1024, 512, true).on("sm_90a");
  EXPECT_EQ(plan.form, Form::kTiles);
  EXPECT_THAT(plan.axes,
              ElementsAre(LoopAxis{3, kGrid}, LoopAxis{512, kTile}, LoopAxis{256, kTile}, LoopAxis{4, kLane}));
  ASSERT_TRUE(plan.tiles);
  EXPECT_EQ(plan.tiles->read_axis, 1);
  EXPECT_EQ(plan.tiles->written_axis, 2);
  EXPECT_EQ(plan.tiles->read, of(0));
  EXPECT_EQ(plan.tiles->extent, 16);
  EXPECT_TRUE(coefficient(plan.tiles->read_at, 1).is_constant(1));
  EXPECT_EQ(plan.shared_bytes, 0);
}

TEST(GpuLoopPlan, WhatIsOnlyTransposedPassesThroughSharedMemory) {
  const GpuLoopPlan plan = transposed("bf16", 1024, 512, false).on("sm_90a");
  EXPECT_EQ(plan.form, Form::kTransposedCopy);
  EXPECT_EQ(plan.tiles->extent, transpose_tile_elements(2));
  EXPECT_EQ(plan.shared_bytes, transpose_shared_bytes(2));
  // In pieces of 16 bytes.
  EXPECT_EQ(transposed("bf16", 1024, 508, false).on("sm_90a").form, Form::kTiles);
}

TEST(GpuLoopPlan, AMatrixOfEightBitsIsStoredInBothOrders) {
  const GpuLoopPlan plan = in_both_orders(4096, 896).on("sm_90a");
  EXPECT_FALSE(plan.obstacle);
  EXPECT_EQ(plan.form, Form::kBothOrders);
  EXPECT_THAT(plan.members,
              ElementsAre(LoopMember{LoopRole::kFull, 0, true}, LoopMember{LoopRole::kTransposed, 0, true}));
  EXPECT_THAT(plan.transposed, ElementsAre(GpuLoopPlan::Transposed{0, 1}));
  EXPECT_THAT(plan.axes, ElementsAre(LoopAxis{4096, kTile}, LoopAxis{112, kTile}, LoopAxis{8, kLane}));
  EXPECT_EQ(plan.row_axes, 1);
  EXPECT_EQ(plan.rounds, 8);
  EXPECT_EQ(plan.shared_bytes, transpose_shared_bytes(1));
  // Sides that are no whole pieces of 16 bytes, and what takes other tiles.
  for (const Loop& other : {in_both_orders(4096, 888), in_both_orders(4088, 896), in_both_orders(4096, 896, "bf16")}) {
    const GpuLoopPlan refused = other.on("sm_90a");
    ASSERT_TRUE(refused.obstacle);
    EXPECT_EQ(refused.obstacle->kind, Obstacle::Kind::kNotInBothOrders);
  }
}

TEST(GpuLoopPlan, TeamsByTheLengthOfRows) {
  struct Case {
    int64_t rows, columns;
    int team, threads;
  };
  for (const auto& [rows, columns, team, threads] :
       {Case{4096, 32, 8, 256}, Case{4096, 1024, 32, 256}, Case{4096, 4096, 256, 256}, Case{64, 4096, 512, 512}}) {
    const GpuLoopPlan plan = sums(rows, columns, {2}).on("sm_90a");
    EXPECT_EQ(plan.form, Form::kRows);
    EXPECT_THAT(plan.axes, ElementsAre(LoopAxis{rows, kGrid}, LoopAxis{columns / 4, kTeam}, LoopAxis{4, kLane}));
    EXPECT_EQ(plan.team, team) << rows << " x " << columns;
    EXPECT_EQ(plan.threads, threads) << rows << " x " << columns;
    EXPECT_EQ(plan.column_loop, ColumnLoop::kRolled);
    EXPECT_THAT(plan.reductions, ElementsAre(Pair(0, Reduction::kTeam)));
    EXPECT_THAT(plan.members, ElementsAre(LoopMember{LoopRole::kReduction, 0, true}));
    EXPECT_TRUE(plan.fills_blocks);
  }
  EXPECT_FALSE(sums(4097, 32, {2}).on("sm_90a").fills_blocks);
}

TEST(GpuLoopPlan, SumsOfAPassAreExchangedInPairsWhereThatTakesBarriers) {
  EXPECT_THAT(sums(4096, 4096, {2, 3, 4}).on("sm_90a").reductions,
              ElementsAre(Pair(0, Reduction::kTeamPair), Pair(1, Reduction::kWithPair), Pair(2, Reduction::kTeam)));
  EXPECT_THAT(sums(4096, 4096, {3, 4}).on("sm_90a").reductions,
              ElementsAre(Pair(0, Reduction::kTeam), Pair(1, Reduction::kTeam)));
  EXPECT_THAT(sums(4096, 1024, {2, 3}).on("sm_90a").reductions,
              ElementsAre(Pair(0, Reduction::kTeam), Pair(1, Reduction::kTeam)));
}

TEST(GpuLoopPlan, WhatSeveralPassesReadStaysInRegisters) {
  const GpuLoopPlan plan = softmax("f32", 4096, 4096).on("sm_90a");
  EXPECT_THAT(plan.members,
              ElementsAre(LoopMember{LoopRole::kReduction, 0, true}, LoopMember{LoopRole::kReduction, 1, true},
                          LoopMember{LoopRole::kFull, 2, true}));
  EXPECT_THAT(plan.reductions, ElementsAre(Pair(0, Reduction::kTeam), Pair(1, Reduction::kTeam)));
  ASSERT_EQ(plan.held.size(), 1);
  EXPECT_EQ(plan.held[0].value, of(0));
  EXPECT_EQ(plan.held[0].where, Where::kLoaded);
  EXPECT_EQ(plan.column_loop, ColumnLoop::kUnrolled);
  EXPECT_EQ(plan.steps, 4);
  EXPECT_EQ(plan.held_elements, 16);
  EXPECT_FALSE(plan.last_step_is_cut);
  EXPECT_THAT(plan.loads, IsEmpty());
  EXPECT_TRUE(softmax("f32", 4096, 4100).on("sm_90a").last_step_is_cut);
}

TEST(GpuLoopPlan, RowsThatAreTooLongForRegistersAreInSharedMemory) {
  const GpuLoopPlan plan = softmax("f32", 1000, 30000).on("sm_90a");
  ASSERT_EQ(plan.held.size(), 1);
  EXPECT_EQ(plan.held[0].where, Where::kShared);
  EXPECT_EQ(plan.threads, 1024);
  EXPECT_EQ(plan.shared_bytes, GpuLoopPlan::kSumsSharedBytes + 4 * 30000);
  EXPECT_EQ(plan.column_loop, ColumnLoop::kRolled);
  EXPECT_EQ(plan.unrolled, 1);
  EXPECT_EQ(softmax("f32", 1000, 24000).on("sm_90a").threads, 512);
  // Where nothing copies past registers, each pass reads the row again.
  const GpuLoopPlan plain = softmax("f32", 1000, 30000).on("gfx942");
  EXPECT_THAT(plain.held, IsEmpty());
  ASSERT_EQ(plain.loads.size(), 3);
  for (int phase = 0; phase < 3; ++phase) EXPECT_EQ(plain.loads[static_cast<size_t>(phase)].phase, phase);
}

TEST(GpuLoopPlan, RowsThatNoBlockHasRoomForAreSharedByAClustersBlocks) {
  const GpuLoopPlan plan = softmax("bf16", 1000, 128256).on("sm_90a");
  EXPECT_EQ(plan.form, Form::kRows);
  EXPECT_EQ(plan.cluster, 4);
  EXPECT_EQ(plan.threads, 512);
  ASSERT_EQ(plan.held.size(), 1);
  EXPECT_EQ(plan.held[0].where, Where::kShared);
  EXPECT_EQ(plan.held[0].offset, GpuLoopPlan::kClusterSharedBytes);
  EXPECT_EQ(plan.shared_bytes, GpuLoopPlan::kSumsSharedBytes + GpuLoopPlan::kClusterSharedBytes + 2 * 128256 / 4);
  EXPECT_THAT(plan.loads, IsEmpty());
  EXPECT_EQ(softmax("bf16", 1000, 256000).on("sm_90a").cluster, 8);
  EXPECT_EQ(softmax("bf16", 1000, 50304).on("sm_90a").cluster, 1);
  // Too long for eight blocks; no clusters; an order of sums that only their length decides.
  EXPECT_EQ(softmax("bf16", 1000, 1 << 20).on("sm_90a").cluster, 1);
  EXPECT_EQ(softmax("bf16", 1000, 128256).on("gfx942").cluster, 1);
  EXPECT_EQ(softmax("bf16", 1000, 128256).in_fixed_order().on("sm_90a").cluster, 1);
}

// Blocks exchange floats.
TEST(GpuLoopPlan, IntegersOfARowAreLeftToOneBlock) {
  const Loop loop(R"(%0 = input "x" : i32[100, 120000]
%1 = reduce_max(%0) {axes=[1]} : i32[100]
%2 = broadcast(%1) {axes=[0]} : i32[100, 120000]
%3 = sub(%0, %2) : i32[100, 120000]
return %3
)",
                  {1, 3}, 100, 120000);
  EXPECT_EQ(loop.on("sm_90a").cluster, 1);
}

TEST(GpuLoopPlan, AMemberOfAnEarlierPassIsHeldOrReadBack) {
  const GpuLoopPlan held = own_value_twice(4096, 1024).keep(0).on("sm_90a");
  EXPECT_FALSE(held.obstacle);
  ASSERT_EQ(held.held.size(), 2);
  EXPECT_EQ(held.held[0].where, Where::kLoaded);
  EXPECT_EQ(held.held[1].where, Where::kComputed);
  EXPECT_EQ(held.held[1].value, of(2));
  EXPECT_EQ(held.held[1].number, 0);
  // A team that is widened for a row in shared memory would have registers for it, but comes too late.
  const GpuLoopPlan read_back = own_value_twice(1000, 32768).on("sm_90a");
  EXPECT_FALSE(read_back.obstacle);
  EXPECT_EQ(read_back.threads, 1024);
  ASSERT_EQ(read_back.held.size(), 1);
  EXPECT_EQ(read_back.held[0].where, Where::kShared);
  EXPECT_EQ(read_back.column_loop, ColumnLoop::kRolled);
  EXPECT_EQ(read_back.loads.back().value, of(2));
  EXPECT_EQ(read_back.loads.back().phase, 1);
  const GpuLoopPlan shorter = own_value_twice(1000, 12288).on("sm_90a");
  EXPECT_FALSE(shorter.obstacle);
  EXPECT_EQ(shorter.threads, 512);
  ASSERT_EQ(shorter.held.size(), 1);
  EXPECT_EQ(shorter.held[0].where, Where::kShared);
  EXPECT_EQ(shorter.loads.back().value, of(2));
  EXPECT_EQ(shorter.loads.back().phase, 1);
  const GpuLoopPlan neither = own_value_twice(1000, 32768).keep(0).on("sm_90a");
  ASSERT_TRUE(neither.obstacle);
  EXPECT_EQ(neither.obstacle->kind, Obstacle::Kind::kOwnValueElsewhere);
}

TEST(GpuLoopPlan, AFewLongRowsAreCutIntoParts) {
  const GpuLoopPlan plan = sums(1, 1 << 20, {3, 5}).on("sm_90a");
  EXPECT_EQ(plan.form, Form::kRowParts);
  EXPECT_EQ(plan.parts, 64);
  EXPECT_THAT(plan.reductions, ElementsAre(Pair(0, Reduction::kParts)));
  EXPECT_THAT(plan.members,
              ElementsAre(LoopMember{LoopRole::kReduction, 0, true}, LoopMember{LoopRole::kRow, 1, true}));
  EXPECT_EQ(plan.finish_shared_bytes, GpuLoopPlan::kSumsSharedBytes);
  EXPECT_EQ(plan.workspace_bytes, 64 * GpuLoopPlan::kPartialBytes);
  EXPECT_EQ(sums(1, 1 << 15, {3, 5}).on("sm_90a").form, Form::kRows);
  // A fixed order depends on nothing but the length.
  const GpuLoopPlan fixed = sums(1, 1 << 20, {3, 5}).in_fixed_order().on("sm_90a");
  EXPECT_EQ(fixed.form, Form::kRows);
  EXPECT_EQ(fixed.lanes, 1);
}

TEST(GpuLoopPlan, SumsOverRowsStayWithTheThreadsOfTheirColumns) {
  const GpuLoopPlan plan = gradient_of_norm(8192, 768).on("sm_90a");
  EXPECT_EQ(plan.form, Form::kRowSums);
  EXPECT_THAT(plan.members,
              ElementsAre(LoopMember{LoopRole::kReduction, 0, true}, LoopMember{LoopRole::kRowSum, 0, true},
                          LoopMember{LoopRole::kRowSum, 0, true}));
  EXPECT_THAT(plan.reductions,
              ElementsAre(Pair(0, Reduction::kTeam), Pair(1, Reduction::kOverRows), Pair(2, Reduction::kOverRows)));
  EXPECT_THAT(plan.row_sums, ElementsAre(1, 2));
  EXPECT_EQ(plan.column_loop, ColumnLoop::kUnrolled);
  EXPECT_EQ(plan.held.size(), 2);
  EXPECT_EQ(plan.arguments, 6);
  EXPECT_EQ(plan.row_sum_blocks % device::kMeasuredUnits, 0);
  EXPECT_EQ(plan.rows_to_next_load, plan.row_sum_blocks * plan.rows_per_block());
  EXPECT_EQ(plan.workspace_bytes, 2 * plan.row_sum_blocks * 768 * GpuLoopPlan::kRowSumBytes);
  EXPECT_LT(plan.finish.neighbours, GpuPartsLaunch{}.neighbours);
  const GpuLoopPlan wide = gradient_of_norm(8192, 65536).on("sm_90a");
  ASSERT_TRUE(wide.obstacle);
  EXPECT_EQ(wide.obstacle->kind, Obstacle::Kind::kLongRowSums);
}

TEST(GpuLoopPlan, ASingleRowIsStoredOnceAllHaveReadIt) {
  EXPECT_TRUE(sums(1, 4096, {2}).on("sm_90a").barrier_before_stores);
  EXPECT_FALSE(sums(2, 4096, {2}).on("sm_90a").barrier_before_stores);
}

TEST(GpuLoopPlan, ComparisonsAreSettledForVectorsOfLoopsAtRunTime) {
  EXPECT_TRUE(sums(4096, 4096, {2}).on("sm_90a").settles_comparisons);
  EXPECT_FALSE(softmax("f32", 4096, 4096).on("sm_90a").settles_comparisons);
  EXPECT_FALSE(sums(4096, 4097, {2}).on("sm_90a").settles_comparisons);
  EXPECT_FALSE(sums(4096, 4096, {2}).in_fixed_order().on("sm_90a").settles_comparisons);
}

// Those of one launch differ in nothing but their tensors.
TEST(GpuLoopPlan, LoopsThatShareALaunchHaveOnePlan) {
  Loop loops(R"(%0 = input "a" : f32[64, 96]
%1 = input "b" : f32[64, 96]
%2 = cast(%0) : bf16[64, 96]
%3 = cast(%1) : bf16[64, 96]
return %2, %3
)",
             {2}, 1, 64 * 96);
  loops.materialized.insert(of(3));
  loops.request.alike = {{of(3)}};
  const GpuLoopPlan plan = loops.on("sm_90a");
  loops.request.members = loops.request.alike.front();
  const GpuLoopPlan other = loops.on("sm_90a");
  EXPECT_EQ(plan.axes, other.axes);
  EXPECT_EQ(plan.members, other.members);
  EXPECT_EQ(plan.element, other.element);
  ASSERT_EQ(plan.loads.size(), 1);
  ASSERT_EQ(other.loads.size(), 1);
  EXPECT_EQ(plan.loads[0].at, other.loads[0].at);
  EXPECT_NE(plan.loads[0].value, other.loads[0].value);
}

// The members are a value, where `nodes` has it, and sums of it over leading axes.
Loop sums_by_column(int64_t rows, int64_t columns, const std::vector<int32_t>& nodes) {
  return {fmt::format(R"(%0 = input "x" : bf16[{0}, {1}]
%1 = cast(%0) : f32[{0}, {1}]
%2 = mul(%1, %1) : f32[{0}, {1}]
%3 = reduce_sum(%1) {{axes=[0]}} : f32[{1}]
%4 = reduce_sum(%2) {{axes=[0]}} : f32[{1}]
return %2, %3, %4
)",
                      rows, columns),
          nodes, rows, columns};
}

TEST(GpuColumnReducePlan, BlocksAreRowsOfNeighbouringColumns) {
  const GpuColumnReducePlan plan = sums_by_column(4096, 768, {3}).as_column_reduction();
  EXPECT_THAT(plan.axes,
              ElementsAre(LoopAxis{1, kGrid}, LoopAxis{4096, kTeam}, LoopAxis{96, kBlock}, LoopAxis{8, kLane}));
  EXPECT_THAT(plan.reductions, ElementsAre(0));
  EXPECT_EQ(plan.block_columns, 32);
  EXPECT_EQ(plan.block_rows, 8);
  EXPECT_EQ(plan.parts, 4096 / (8 * 8));
  EXPECT_EQ(plan.blocks_per_unit, 1);
  EXPECT_EQ(plan.shared_bytes, 256 * 8 * 4);
  EXPECT_EQ(plan.finish_shared_bytes, 256 * 4);
  EXPECT_TRUE(plan.workspace_bytes.is_constant(plan.parts * 768 * 4));
  // Few columns leave threads for more rows; short reductions are not worth parts.
  const GpuColumnReducePlan narrow = sums_by_column(64, 64, {3}).as_column_reduction();
  EXPECT_EQ(narrow.block_columns, 8);
  EXPECT_EQ(narrow.block_rows, 32);
  EXPECT_EQ(narrow.parts, 1);
  EXPECT_EQ(narrow.finish_shared_bytes, 0);
  EXPECT_TRUE(narrow.workspace_bytes.is_constant(0));
  EXPECT_EQ(sums_by_column(4096, 768, {3}).in_fixed_order().as_column_reduction().parts, 1);
}

TEST(GpuColumnReducePlan, ElementsOnTheWayAreStored) {
  const GpuColumnReducePlan plan = sums_by_column(8192, 768, {2, 3, 4}).as_column_reduction();
  EXPECT_THAT(plan.elements, ElementsAre(0));
  EXPECT_THAT(plan.reductions, ElementsAre(1, 2));
  EXPECT_EQ(plan.lanes, 8);
  EXPECT_EQ(plan.blocks_per_unit, 3);
}

TEST(GpuColumnReducePlan, MixedAxesAreCutApart) {
  const Loop loop(R"(%0 = input "x" : f32[4, 8, 16, 64]
%1 = reduce_sum(%0) {axes=[0, 2]} : f32[8, 64]
return %1
)",
                  {1}, 64, 512);
  const GpuColumnReducePlan plan = loop.as_column_reduction();
  EXPECT_FALSE(plan.adjacent);
  EXPECT_THAT(plan.axes, ElementsAre(LoopAxis{8, kGrid}, LoopAxis{4, kTeam}, LoopAxis{16, kTeam}, LoopAxis{16, kBlock},
                                     LoopAxis{4, kLane}));
}

TEST(CpuLoopPlan, ElementsAreOneLoopThatAsksAhead) {
  const CpuLoopPlan plan = elementwise("bf16", 1024, 4096).on_cpu();
  EXPECT_TRUE(plan.is_flat);
  EXPECT_THAT(plan.axes, ElementsAre(LoopAxis{1024 * 4096, kVector}));
  EXPECT_TRUE(plan.count.is_constant(1024 * 4096));
  ASSERT_EQ(plan.prefetches.size(), 1);
  ASSERT_EQ(plan.prefetches[0].size(), 2);
  EXPECT_EQ(plan.prefetches[0][0].first, Index::constant(0));
}

TEST(CpuLoopPlan, ABroadcastMakesRows) {
  const CpuLoopPlan plan = broadcast("f32", 512, 768).on_cpu();
  EXPECT_FALSE(plan.is_flat);
  EXPECT_THAT(plan.axes, ElementsAre(LoopAxis{512, kGrid}, LoopAxis{768, kVector}));
  EXPECT_TRUE(plan.count.is_constant(512));
  EXPECT_EQ(plan.per_task, 32768 / 768);
  EXPECT_THAT(plan.prefetches, IsEmpty());
}

TEST(CpuLoopPlan, OnlyThePassThatReadsFirstAsksAhead) {
  const CpuLoopPlan plan = softmax("f32", 64, 8192).on_cpu();
  EXPECT_THAT(plan.axes, ElementsAre(LoopAxis{64, kGrid}, LoopAxis{8192, kVector}));
  EXPECT_THAT(plan.reductions, ElementsAre(Pair(0, CpuLoopPlan::Reduction::kLargestKey),
                                           Pair(1, CpuLoopPlan::Reduction::kReassociated)));
  ASSERT_EQ(plan.prefetches.size(), 3);
  EXPECT_EQ(plan.prefetches[0].size(), 1);
  EXPECT_THAT(plan.prefetches[1], IsEmpty());
  EXPECT_THAT(plan.prefetches[2], IsEmpty());
  EXPECT_THAT(softmax("f32", 64, 1024).on_cpu().prefetches, IsEmpty());
}

TEST(CpuLoopPlan, WhatLiesAcrossTheLoopIsNotAskedForAhead) {
  const CpuLoopPlan plan = transposed("f32", 8192, 64, true).on_cpu();
  EXPECT_THAT(plan.axes, ElementsAre(LoopAxis{3, kGrid}, LoopAxis{64, kGrid}, LoopAxis{8192, kVector}));
  ASSERT_EQ(plan.prefetches.size(), 1);
  EXPECT_THAT(plan.prefetches[0], IsEmpty());
}

TEST(CpuLoopPlan, AFixedOrderIsTheLoopsOwn) {
  const CpuLoopPlan plan = softmax("f32", 64, 8192).in_fixed_order().on_cpu();
  EXPECT_EQ(plan.axes.back(), (LoopAxis{8192, kSerial}));
  EXPECT_EQ(plan.reductions.at(1), CpuLoopPlan::Reduction::kInOrder);
  EXPECT_EQ(elementwise("f32", 64, 64).in_fixed_order().on_cpu().axes.back().mapping, kVector);
}

}  // namespace
}  // namespace causeway::codegen
