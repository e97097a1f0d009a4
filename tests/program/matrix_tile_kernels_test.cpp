// GEMMs of bf16 for a processor with AMX: what is generated for one is compiled to its instructions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "causeway/codegen/compile/compiler.h"
#include "causeway/passes/builder.h"
#include "causeway/program/fusion.h"

namespace causeway::program {
namespace {

std::string gemm_assembly(const Target& target, DType type, int64_t rows, bool transpose_a, bool transpose_b) {
  Graph graph;
  const Dim m(rows), n(480), k(288);
  const Value a = graph.add_input("a", {type, transpose_a ? Shape{k, m} : Shape{m, k}});
  const Value b = graph.add_input("b", {type, transpose_b ? Shape{n, k} : Shape{k, n}});
  graph.outputs = {Builder(graph).dot(a, b, transpose_a, transpose_b, DType::kF32, false)};
  const FusionResult fusion = fuse(graph, target);
  EXPECT_EQ(fusion.kernels.size(), 1u);
  return codegen::compile_to_assembly(
      generate_kernel(graph, fusion.materialized, fusion.kernels.front(), target).source, target);
}

TEST(MatrixTileKernels, GemmsOfBf16AreTheProcessorsInstructions) {
  Target target;
  target.processor = "x86-64-v4";
  for (const char* feature : {"avx512bf16", "amx-tile", "amx-bf16"}) target.add_feature(feature);
  target.vector_bytes = 64;
  target.parallel_units = 4;
  for (const bool transpose_a : {false, true})
    for (const bool transpose_b : {false, true}) {
      const std::string text = gemm_assembly(target, DType::kBF16, 320, transpose_a, transpose_b);
      // prefetcht1: what packing reads next, of A in every order.
      for (const char* instruction : {"ldtilecfg", "tileloadd", "tdpbf16ps", "tilestored", "tilerelease", "prefetcht1"})
        EXPECT_THAT(text, testing::HasSubstr(instruction)) << transpose_a << transpose_b;
    }
  const auto has_tiles = testing::HasSubstr("tdpbf16ps");
  // A few rows, and floats, are multiplied by vectors.
  EXPECT_THAT(gemm_assembly(target, DType::kBF16, 4, false, false), testing::Not(has_tiles));
  EXPECT_THAT(gemm_assembly(target, DType::kF32, 320, false, false), testing::Not(has_tiles));
  target.features = {"avx512bf16"};
  EXPECT_THAT(gemm_assembly(target, DType::kBF16, 320, false, false), testing::Not(has_tiles));
}

}  // namespace
}  // namespace causeway::program
