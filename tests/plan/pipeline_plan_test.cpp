// A pipeline that is continued from a few stages and micro-batches is what tracing all of it says.
#include "causeway/plan/pipeline_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "causeway/plan/machines.h"

namespace causeway::plan {
namespace {

struct Case {
  const char* schedule;
  int64_t layers, stages, chunks, micro_batches;
  std::vector<std::string> more;
};

void expect_equal(const StepPlan& continued, const StepPlan& whole) {
  for (int64_t MemoryPlan::* bytes :
       {&MemoryPlan::weights, &MemoryPlan::optimizer, &MemoryPlan::activations, &MemoryPlan::batch})
    EXPECT_EQ(continued.memory.*bytes, whole.memory.*bytes);
  for (double StepTime::* seconds : {&StepTime::seconds, &StepTime::compute_seconds, &StepTime::collective_seconds})
    EXPECT_NEAR(continued.time.*seconds, whole.time.*seconds, 1e-6 * whole.time.*seconds);
  EXPECT_NEAR(continued.flops.total(), whole.flops.total(), 1e-12 * whole.flops.total());
  ASSERT_EQ(continued.collectives.size(), whole.collectives.size());
  for (size_t i = 0; i < whole.collectives.size(); ++i) {
    EXPECT_EQ(continued.collectives[i].group, whole.collectives[i].group);
    EXPECT_EQ(continued.collectives[i].kind, whole.collectives[i].kind);
    EXPECT_EQ(continued.collectives[i].number, whole.collectives[i].number);
    EXPECT_NEAR(continued.collectives[i].bytes, whole.collectives[i].bytes, 1e-9 * whole.collectives[i].bytes);
  }
}

TEST(PipelinePlan, ContinuedFiguresAreThoseOfAllMicroBatches) {
  for (const Case& one :
       {Case{"1f1b", 3, 3, 1, 14, {}}, Case{"1f1b", 8, 8, 1, 12, {"mesh.dp=2"}}, Case{"1f1b", 4, 4, 1, 3, {}},
        Case{"zero_bubble", 7, 7, 1, 12, {"mesh.dp=2"}}, Case{"interleaved", 4, 2, 2, 20, {}}}) {
    std::vector<std::string> overrides = one.more;
    overrides.push_back(fmt::format("mesh.pp={}", one.stages));
    int64_t row_groups = 1;
    for (const std::string& more : one.more)
      if (more.starts_with("mesh.dp=")) row_groups = more.back() - '0';
    const std::string yaml = fmt::format(
        "name: small\nmodel: {{family: gpt2, vocabulary_size: 512, layers: {}, width: 64, heads: 2, "
        "max_sequence_length: 128}}\ndata: {{sequence_length: 128}}\ntrain: {{batch_size: {}, micro_batch_size: {}, "
        "pipeline_schedule: {}, pipeline_chunks: {}, recompute: {}}}\n",
        one.layers, one.micro_batches * row_groups, row_groups, one.schedule, one.chunks, "none");
    SCOPED_TRACE(fmt::format("{} of {} stages, {} micro-batches, {}", one.schedule, one.stages, one.micro_batches,
                             fmt::join(one.more, " ")));
    const Recipe recipe = parse_recipe(yaml, "small.yaml", overrides);
    const Machine& machine = find_machine("mi250x");
    expect_equal(plan_pipelined_step(recipe, machine, true), plan_pipelined_step(recipe, machine, true, true));
  }
}

}  // namespace
}  // namespace causeway::plan
