// A pipeline that is continued from a few stages and micro-batches is what tracing all of it says.
#include "causeway/plan/pipeline_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <tuple>

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

// To the byte where the plan says so.
TEST(PipelinePlan, ManyMicroBatchesTakeWhatTheScheduleTakesOfAll) {
  for (const char* schedule : {"1f1b", "zero_bubble"}) {
    SCOPED_TRACE(schedule);
    const Recipe recipe = parse_recipe(
        fmt::format("name: small\nmodel: {{family: gpt2, vocabulary_size: 512, layers: 2, width: 64, heads: 2, "
                    "max_sequence_length: 128}}\ndata: {{sequence_length: 128}}\nmesh: {{pp: 2}}\ntrain: {{batch_size: "
                    "52, micro_batch_size: 1, recompute: none, pipeline_schedule: {}}}\n",
                    schedule),
        "small.yaml", {});
    const Machine& machine = find_machine("mi250x");
    const StepPlan plan = plan_pipelined_step(recipe, machine, true),
                   whole = plan_pipelined_step(recipe, machine, true, true);
    const double bytes = static_cast<double>(whole.memory.activations);
    EXPECT_NEAR(static_cast<double>(plan.memory.activations), bytes, plan.memory.exact ? 0 : 0.02 * bytes);
    EXPECT_EQ(plan.memory.batch, whole.memory.batch);
    EXPECT_NEAR(plan.time.seconds, whole.time.seconds, 1e-3 * whole.time.seconds);
    EXPECT_NEAR(plan.flops.total(), whole.flops.total(), 1e-12 * whole.flops.total());
  }
}

// Means of a few sizes where there are many micro-batches: seconds and counts as traced, memory about.
TEST(PipelinePlan, AnEstimateOfManyMicroBatchesIsAboutThatOfAll) {
  const Recipe recipe = parse_recipe(
      "name: small\nmodel: {family: gpt2, vocabulary_size: 512, layers: 5, width: 64, heads: 2, max_sequence_length: "
      "128}\ndata: {sequence_length: 128}\nmesh: {pp: 5}\ntrain: {batch_size: 64, micro_batch_size: 1, recompute: "
      "none}\n",
      "small.yaml", {});
  const Machine& machine = find_machine("mi250x");
  const StepPlan about = plan_pipelined_step(recipe, machine, false),
                 whole = plan_pipelined_step(recipe, machine, false, true);
  const auto apart = [](double one, double other) { return std::abs(one / other - 1); };
  EXPECT_LT(apart(static_cast<double>(about.memory.activations), static_cast<double>(whole.memory.activations)), 0.03);
  EXPECT_EQ(about.memory.batch, whole.memory.batch);
  EXPECT_LT(apart(about.time.seconds, whole.time.seconds), 0.005);
  EXPECT_LT(apart(about.flops.total(), whole.flops.total()), 1e-12);
  ASSERT_EQ(about.collectives.size(), whole.collectives.size());
  for (size_t i = 0; i < whole.collectives.size(); ++i)
    EXPECT_EQ(about.collectives[i].number, whole.collectives[i].number) << i;
}

// It leaves out what needs more than there is: it may say less, as it sees the first stage alone, and not more.
TEST(PipelinePlan, ALookNeverSaysMuchMore) {
  for (const auto& [schedule, recompute, chunks] :
       {std::tuple("1f1b", "none", 1), std::tuple("zero_bubble", "block", 1),
        std::tuple("interleaved", "selective", 2)}) {
    SCOPED_TRACE(schedule);
    const Recipe recipe = parse_recipe(
        fmt::format("name: small\nmodel: {{family: llama, vocabulary_size: 1024, layers: {}, width: 256, heads: 2, "
                    "max_sequence_length: 256}}\ndata: {{sequence_length: 256}}\nmesh: {{pp: 3, dp: 2}}\ntrain: "
                    "{{batch_size: 12, micro_batch_size: 2, recompute: {}, pipeline_schedule: {}, pipeline_chunks: "
                    "{}}}\n",
                    3 * chunks, recompute, schedule, chunks),
        "small.yaml", {});
    const Machine& machine = find_machine("mi250x");
    const StepPlan whole = plan_pipelined_step(recipe, machine, true, true);
    const StageLook look = look_at_stages(recipe, machine);
    EXPECT_LT(look.bytes, 1.05 * static_cast<double>(whole.memory.total()));
    EXPECT_GT(look.bytes, 0.3 * static_cast<double>(whole.memory.total()));
    EXPECT_LT(look.seconds, 1.1 * whole.time.seconds);
    EXPECT_GT(look.seconds, 0.7 * whole.time.seconds);
  }
}

}  // namespace
}  // namespace causeway::plan
