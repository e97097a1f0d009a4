// The kernels of small graphs, as text, compared with tests/golden: a change that alters generated kernels shows as a
// difference there. To accept one: CAUSEWAY_UPDATE_GOLDEN=1 build/tests/program_tests --gtest_filter='GoldenKernels*'.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "causeway/base/file.h"
#include "causeway/device/preferred_sizes.h"
#include "causeway/graph/parser.h"
#include "causeway/passes/gradient.h"
#include "causeway/passes/pipeline.h"
#include "causeway/program/fusion.h"

namespace causeway::program {
namespace {

// A fixed machine, so that the text is the same everywhere.
Target golden_target() {
  Target target;
  target.processor = "x86-64-v4";
  target.features = {"avx512bf16"};
  target.vector_bytes = 64;
  target.parallel_units = 2;
  return target;
}

std::string kernels_text(const Graph& graph, const Target& target) {
  const FusionResult fusion = fuse(graph, target);
  std::string text;
  for (const KernelRequest& request : fusion.kernels) {
    text += "// ";
    text += kernel_kind_name(request.kind);
    text += ":";
    for (size_t i = 0; i < request.members.size(); ++i) {
      const Value member = request.members[i];
      text += " " + std::string(op_name(graph.node(member).op)) + " " + graph.type(member).text() +
              (request.stored[i] ? "" : " (not stored)") + ";";
    }
    text += "\n" + generate_kernel(graph, fusion.materialized, request, target).source + "\n";
  }
  return text;
}

void expect_golden(const std::string& name, const std::string& text) {
  const std::filesystem::path path = std::filesystem::path(CAUSEWAY_SOURCE_DIR) / "tests/golden" / (name + ".txt");
  if (std::getenv("CAUSEWAY_UPDATE_GOLDEN") != nullptr) {
    std::filesystem::create_directories(path.parent_path());
    write_file_atomically(path, text);
    return;
  }
  ASSERT_TRUE(std::filesystem::exists(path)) << path;
  EXPECT_EQ(text, read_text_file(path)) << "the kernels of " << name << " have changed";
}

void expect_golden(const std::string& name, const Graph& graph) {
  expect_golden(name, kernels_text(graph, golden_target()));
}

constexpr char kNormalisation[] = R"(%0 = input "x" : f32[64, 256]
%1 = input "weight" : f32[256]
%2 = mul(%0, %0) : f32[64, 256]
%3 = reduce_sum(%2) {axes=[1]} : f32[64]
%4 = constant 0.00390625 : f32[64]
%5 = mul(%3, %4) : f32[64]
%6 = constant 1e-05 : f32[64]
%7 = add(%5, %6) : f32[64]
%8 = rsqrt(%7) : f32[64]
%9 = broadcast(%8) {axes=[0]} : f32[64, 256]
%10 = mul(%0, %9) : f32[64, 256]
%11 = broadcast(%1) {axes=[1]} : f32[64, 256]
%12 = mul(%10, %11) : f32[64, 256]
%13 = cast(%12) : bf16[64, 256]
return %13
)";

TEST(GoldenKernels, NormalisationForward) { expect_golden("rms_norm", parse_graph(kNormalisation)); }

// Two layers, their loss and gradients, in bf16: GEMMs with fused prologues and epilogues, sums by columns.
TEST(GoldenKernels, TwoLayersWithGradients) {
  Graph graph = parse_graph(R"(%0 = input "x" : f32[128, 64]
%1 = input "up" : f32[64, 96]
%2 = input "bias" : f32[96]
%3 = input "down" : f32[96, 64]
%4 = dot(%0, %1) : f32[128, 96]
%5 = broadcast(%2) {axes=[1]} : f32[128, 96]
%6 = add(%4, %5) : f32[128, 96]
%7 = tanh(%6) : f32[128, 96]
%8 = dot(%7, %3) : f32[128, 64]
%9 = add(%8, %0) : f32[128, 64]
%10 = mul(%9, %9) : f32[128, 64]
%11 = reduce_sum(%10) {axes=[0, 1]} : f32[]
return %11
)");
  const Value loss = graph.outputs.front();
  const std::vector<Value> weights(graph.inputs().begin() + 1, graph.inputs().end());
  for (const Value gradient : add_gradients(graph, loss, weights)) graph.outputs.push_back(gradient);
  PipelineOptions options;
  options.mixed_precision.compute = DType::kBF16;
  expect_golden("two_layers_with_gradients", run_pipeline(graph, options, preferred_sizes_of_processors()));
}

TEST(GoldenKernels, SymbolicEmbedding) {
  expect_golden("symbolic_embedding", parse_graph(R"(%0 = input "table" : f32[256, 64]
%1 = input "tokens" : i32[B, T]
%2 = gather(%0, %1) {axes=[0]} : f32[B, T, 64]
%3 = iota {axes=[1]} : i32[B, T]
%4 = input "positions" : f32[1024, 64]
%5 = gather(%4, %3) {axes=[0]} : f32[B, T, 64]
%6 = add(%2, %5) : f32[B, T, 64]
return %6
)"));
}

constexpr char kColumnSum[] = R"(%0 = input "x" : bf16[4096, 768]
%1 = cast(%0) : f32[4096, 768]
%2 = reduce_sum(%1) {axes=[0]} : f32[768]
return %2
)";

constexpr char kGemmWithBias[] = R"(%0 = input "x" : bf16[4096, 768]
%1 = input "weight" : bf16[768, 3072]
%2 = input "bias" : bf16[3072]
%3 = dot(%0, %1) : bf16[4096, 3072]
%4 = broadcast(%2) {axes=[1]} : bf16[4096, 3072]
%5 = add(%3, %4) : bf16[4096, 3072]
return %5
)";

constexpr char kCausalAttention[] = R"(%0 = input "q" : bf16[2, 512, 8, 64]
%1 = input "k" : bf16[2, 512, 4, 64]
%2 = input "v" : bf16[2, 512, 4, 64]
%3:2 = attention(%0, %1, %2) {
  scale=0.125, block_q=64, block_k=64,
  mask={
    %0 = input "b" : i32[]
    %1 = input "h" : i32[]
    %2 = input "i" : i32[]
    %3 = input "j" : i32[]
    %4 = le(%3, %2) : bool[]
    return %4
  }
} : bf16[2, 512, 8, 64], f32[2, 8, 512]
return %3, %3.1
)";

// A row loop, a sum by columns, a GEMM and attention, as the writers for GPUs give them.
TEST(GoldenKernels, OfGpus) {
  for (const char* processor : {"sm_90a", "gfx942"}) {
    std::string text;
    for (const char* graph : {kNormalisation, kColumnSum, kGemmWithBias, kCausalAttention})
      text += kernels_text(parse_graph(graph), gpu_target(processor));
    expect_golden(std::string("gpu_kernels_") + processor, text);
  }
}

}  // namespace
}  // namespace causeway::program
