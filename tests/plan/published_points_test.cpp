#include "causeway/plan/published_points.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/plan/machines.h"

namespace causeway::plan {
namespace {

std::vector<double> held_out_errors(const std::string& machine) {
  std::vector<double> errors;
  for (const PublishedPoint& point : shipped_published_points())
    if (point.machine == machine && point.held_out) errors.push_back(relative_error(point, find_machine(machine)));
  return errors;
}

// docs/planning.md says the same. The bar is a mean of 5 % and a maximum of 15 %; two rows of LLM Foundry's are beyond
// the latter.
TEST(PublishedPoints, StepsThatConstantsWereNotFittedToArePredicted) {
  struct Bar {
    const char* machine;
    int points;
    double mean, maximum;
  };
  std::ptrdiff_t beyond = 0;
  int all = 0;
  for (const Bar& bar :
       {Bar{"h200", 14, 0.019, 0.04}, Bar{"h100_foundry", 29, 0.03, 0.09}, Bar{"a100_80gb", 30, 0.04, 0.22},
        Bar{"a100_40gb", 39, 0.03, 0.17}, Bar{"a100_megatron", 9, 0.035, 0.06}, Bar{"h100_llama3", 1, 0.05, 0.05},
        Bar{"mi250x", 1, 0.08, 0.08}, Bar{"mi250", 1, 0.01, 0.01}, Bar{"a100_zero3", 1, 0.09, 0.09}}) {
    const std::vector<double> errors = held_out_errors(bar.machine);
    beyond += std::count_if(errors.begin(), errors.end(), [](double error) { return std::abs(error) > 0.15; });
    all += bar.points;
    const ErrorSummary summary = summarize_errors(errors);
    EXPECT_EQ(summary.points, bar.points) << bar.machine;
    EXPECT_LE(summary.mean, bar.mean) << bar.machine;
    EXPECT_LE(summary.maximum, bar.maximum) << bar.machine;
  }
  EXPECT_EQ(beyond, 2);
  const std::vector<PublishedPoint>& points = shipped_published_points();
  EXPECT_EQ(all,
            std::count_if(points.begin(), points.end(), [](const PublishedPoint& point) { return point.held_out; }))
      << "of a machine that is not listed";
}

// In one test, since most of its time is taken by the points' programs, which are kept in the process.
TEST(PublishedPoints, TheFitFindsConstants) {
  // Those in machines.yaml are what the fit gives, where it is quick.
  const Machine& shipped = find_machine("a100_megatron");
  std::vector<PublishedPoint> fitted;
  for (const PublishedPoint& point : shipped_published_points())
    if (point.machine == shipped.name && !point.held_out) fitted.push_back(point);
  const Machine again = fit_constants(shipped, fitted);
  for (const ConstantField& field : constant_fields())
    EXPECT_NEAR(again.constants.*field.member, shipped.constants.*field.member,
                1e-3 * (shipped.constants.*field.member))
        << field.name;

  // And those that steps were made with.
  Machine truth = find_machine("a100_80gb");
  truth.constants.gemm_fraction = 0.6;
  truth.constants.memory_fraction = 0.7;
  std::vector<PublishedPoint> points;
  for (PublishedPoint point : shipped_published_points()) {
    if (point.machine != "a100_80gb" || points.size() == 12) continue;
    point.seconds = predict(point.step, truth).seconds;
    points.push_back(std::move(point));
  }
  const Machine found = fit_constants(truth, points);
  for (const PublishedPoint& point : points) EXPECT_LT(std::abs(relative_error(point, found)), 0.02) << point.name;
}

const char* const kShapes = "shapes:\n  tiny: {layers: 4, width: 64, heads: 4, vocabulary: 100, attention: fused}\n";

std::string message_of_points(const std::string& rows) {
  try {
    parse_published_points(std::string(kShapes) + "points:\n  - machine: m\n    source: s\n    rows:\n" + rows, "file");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(PublishedPoints, EverySecondRowOfAMachineIsHeldOut) {
  const std::string row = "      - {shape: tiny, sequence: 128, micro_batch: 2, micro_batches: 1, seconds: 1}\n";
  const auto points = parse_published_points(
      std::string(kShapes) + "points:\n  - machine: a\n    source: s\n    rows:\n" + row + row +
          "  - machine: b\n    source: s\n    rows:\n" + row + "  - machine: a\n    source: t\n    rows:\n" + row + row,
      "file");
  std::vector<bool> held_out;
  for (const PublishedPoint& point : points) held_out.push_back(point.held_out);
  EXPECT_EQ(held_out, (std::vector<bool>{false, true, false, false, true}));
}

TEST(PublishedPoints, FormulasOfFlopsGiveSeconds) {
  const auto points = parse_published_points(
      std::string(kShapes) +
          "points:\n  - machine: a\n    source: s\n    rows:\n"
          "      - {shape: tiny, sequence: 128, fsdp: 2, micro_batch: 2, micro_batches: 3, tokens_per_s: 384}\n"
          "      - {shape: tiny, sequence: 128, fsdp: 2, micro_batch: 2, micro_batches: 3, tflops: 1, flops: sc21}\n",
      "file");
  // 2 ranks x 2 sequences x 3 micro-batches x 128 tokens, at 384 a second of each rank.
  EXPECT_DOUBLE_EQ(points[0].seconds, 1536.0 / (2 * 384));
  EXPECT_DOUBLE_EQ(points[1].seconds,
                   96.0 * 1536 * 4 * 64 * 64 * (1 + 128 / (6 * 64.0) + 100 / (16 * 4 * 64.0)) / 2e12);
}

TEST(PublishedPoints, BadRowsAreNamed) {
  const std::string good = "sequence: 128, micro_batch: 2, micro_batches: 1";
  EXPECT_NE(message_of_points("      - {shape: huge, " + good + ", seconds: 1}\n").find("no shape is called 'huge'"),
            std::string::npos);
  EXPECT_NE(message_of_points("      - {shape: tiny, " + good + ", secnds: 1}\n").find("Did you mean seconds?"),
            std::string::npos);
  EXPECT_NE(message_of_points("      - {shape: tiny, " + good + ", tflops: 1, flops: mine}\n")
                .find("no formula of FLOPs is called 'mine'"),
            std::string::npos);
  EXPECT_NE(message_of_points("      - {shape: tiny, " + good + ", recompute: some, seconds: 1}\n")
                .find("recompute is 'some'"),
            std::string::npos);
  EXPECT_NE(
      message_of_points("      - {shape: tiny, " + good + ", tp: 1.5, seconds: 1}\n").find("tp must be a whole number"),
      std::string::npos);
  EXPECT_NE(message_of_points("      - just text\n").find("a map of keys is expected here"), std::string::npos);
}

// Sizes whose products no 64 bits hold.
TEST(PublishedPoints, SizesBeyondAllMeasureAreRefused) {
  const std::string good = "shape: tiny, sequence: 128, seconds: 1, ";
  const auto refusal = [&](const std::string& sizes) { return message_of_points("      - {" + good + sizes + "}\n"); };
  EXPECT_EQ(refusal("micro_batch: 1, micro_batches: 1, pp: 2, virtual_stages: 2"), "");
  EXPECT_NE(refusal("micro_batch: 1000001, micro_batches: 1").find("micro_batch must be at most 1000000"),
            std::string::npos);
  EXPECT_NE(refusal("micro_batch: 1, micro_batches: 1, tp: 4096, fsdp: 4096, cp: 4096").find("more than 1000000 ranks"),
            std::string::npos);
  EXPECT_NE(refusal("micro_batch: 1000000, micro_batches: 1000000").find("more than 1e+12 tokens"), std::string::npos);
  EXPECT_NE(
      refusal("micro_batch: 1, micro_batches: 1, virtual_stages: 9").find("pp x virtual_stages is 9, of 4 layers"),
      std::string::npos);
}

TEST(PublishedPoints, ShapesThatCannotBeAreRefused) {
  const auto refusal = [](const std::string& sizes) {
    try {
      parse_published_points("shapes:\n  odd: {" + sizes + ", vocabulary: 100, attention: fused}\npoints: []\n",
                             "file");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(refusal("layers: 4, width: 4, heads: 8").find("file:2: heads must be at most width"), std::string::npos);
  EXPECT_NE(refusal("layers: 4, width: 64, heads: 4, kv_heads: 8").find("kv_heads must be at most heads"),
            std::string::npos);
  EXPECT_NE(refusal("layers: 10001, width: 64, heads: 4").find("layers must be at most 10000"), std::string::npos);
}

}  // namespace
}  // namespace causeway::plan
