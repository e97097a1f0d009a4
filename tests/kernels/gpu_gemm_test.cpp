// GPU gemms against the reference interpreter, through fusion and code generation: on the emulator, or on the device
// that the environment variable CAUSEWAY_TEST_DEVICE names ("cuda", "hip").
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "causeway/codegen/compile/compiler.h"
#include "causeway/codegen/compile/kernel_resources.h"
#include "causeway/codegen/gpu/gemm_hopper_model.h"
#include "causeway/device/emulator/emulator_device.h"
#include "causeway/device/gpu_architecture.h"
#include "causeway/device/offline/offline_device.h"
#include "causeway/device/open_device.h"
#include "causeway/device/preferred_sizes.h"
#include "causeway/graph/interpreter.h"
#include "causeway/graph/parser.h"
#include "causeway/passes/canonicalize.h"
#include "causeway/passes/gradient.h"
#include "causeway/passes/tf32_gemms.h"
#include "tests/comparison/bounds.h"
#include "tests/device/device_under_test.h"
#include "tests/program/program_runner.h"

namespace causeway::program {
namespace {

std::vector<std::string> device_specs() {
  return devices_under_test({"emulator:sm_80", "emulator:sm_90a", "emulator:gfx90a", "emulator:gfx942"});
}

class GpuGemm : public testing::TestWithParam<std::string> {
 protected:
  std::vector<HostTensor> random_inputs(const Graph& graph) const {
    std::vector<HostTensor> inputs;
    uint64_t seed = 1;
    for (const Value input : graph.inputs()) {
      const TensorType& type = graph.type(input);
      inputs.push_back(random_host_tensor(type.dtype, evaluate(type.shape, bindings_), seed++, -1, 1));
    }
    return inputs;
  }

  std::vector<HostTensor> run(const std::shared_ptr<Device>& device, const Graph& graph,
                              const std::vector<HostTensor>& inputs) {
    ProgramRunner runner(device);
    Program program(graph, runner.device(), runner.library(), runner.arena());
    kinds_.clear();
    for (const KernelReport& report : program.kernel_reports()) kinds_ += report.kind + " ";
    source_ = program.sources().back();
    return runner.run(program, inputs, bindings_);
  }

  void expect_reference(const std::string& text) {
    const Graph graph = parse_graph(text);
    const std::vector<HostTensor> inputs = random_inputs(graph);
    const std::vector<HostTensor> reference = interpret(graph, inputs, bindings_, Rounding::kRounded);
    const std::vector<HostTensor> actual = run(device(), graph, inputs);
    const Bound bound = bounds::of_graph(graph, bindings_);
    ASSERT_EQ(actual.size(), reference.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      const Comparison comparison = compare(actual[i], reference[i], bound);
      EXPECT_TRUE(comparison.equal) << "result " << i << ": " << comparison.text << "\n" << text << source_;
    }
  }

  // C = A B with A and B as they lie in memory.
  static std::string dot(const std::string& dtype, const std::string& batch, int m, int n, int k, bool transpose_a,
                         bool transpose_b, const std::string& result) {
    const std::string a = fmt::format("[{}{}, {}]", batch, transpose_a ? k : m, transpose_a ? m : k);
    const std::string b = fmt::format("[{}{}, {}]", batch, transpose_b ? n : k, transpose_b ? k : n);
    const std::string flags = transpose_a && transpose_b ? " {transpose_a, transpose_b}"
                              : transpose_a              ? " {transpose_a}"
                              : transpose_b              ? " {transpose_b}"
                                                         : "";
    return fmt::format("%0 = input \"a\" : {0}{1}\n%1 = input \"b\" : {0}{2}\n%2 = dot(%0, %1){3} : {4}[{5}{6}, {7}]\n",
                       dtype, a, b, flags, result, batch, m, n);
  }

  // One for all tests of a device.
  std::shared_ptr<Device> device() const {
    static std::map<std::string, std::shared_ptr<Device>> devices;
    std::shared_ptr<Device>& device = devices[GetParam()];
    if (device == nullptr) device = open_device_under_test(GetParam());
    return device;
  }
  const GpuArchitecture& architecture() const { return device()->target().architecture(); }

  SymbolBindings bindings_;
  std::string kinds_;
  std::string source_;
};

TEST_P(GpuGemm, EveryOrientationAndType) {
  for (const char* dtype : {"bf16", "f16", "f32", "f8e4m3", "f8e5m2"}) {
    for (const bool transpose_a : {false, true})
      for (const bool transpose_b : {false, true})
        expect_reference(dot(dtype, "", 72, 88, 40, transpose_a, transpose_b, "f32") + "return %2\n");
  }
}

// Lines along k of both 8-bit types, in every combination: on matrix instructions of their own where there are some.
TEST_P(GpuGemm, EightBitOperandsAreMultipliedAsTheyAre) {
  const bool has_instructions = architecture().has_f8_matrix;
  for (const char* a : {"f8e4m3", "f8e5m2"}) {
    for (const char* b : {"f8e4m3", "f8e5m2"}) {
      for (const auto& [m, n, k] : {std::array{72, 88, 48}, std::array{130, 200, 1200}}) {
        expect_reference(
            fmt::format("%0 = input \"a\" : {}[{}, {}]\n%1 = input \"b\" : {}[{}, {}]\n"
                        "%2 = input \"scale\" : f32[]\n"
                        "%3 = dot(%0, %1) {{transpose_b}} : f32[{}, {}]\n"
                        "%4 = broadcast(%2) : f32[{}, {}]\n%5 = mul(%3, %4) : f32[{}, {}]\nreturn %5\n",
                        a, m, k, b, n, k, m, n, m, n, m, n));
        EXPECT_EQ(kinds_, "dot ");
        EXPECT_EQ(source_.find("F8Pair<") != std::string::npos, has_instructions) << source_;
      }
    }
  }
}

// Scales of 128 of k, and of one line or 128.
std::string scaled_dot(const std::string& a, const std::string& b, int m, int n, int k, int a_lines, int b_lines,
                       const std::string& result) {
  return fmt::format(
      "%0 = input \"a\" : {}[{}, {}]\n%1 = input \"b\" : {}[{}, {}]\n%2 = input \"scales of a\" : f32[{}, {}]\n"
      "%3 = input \"scales of b\" : f32[{}, {}]\n%4 = scaled_dot(%0, %1, %2, %3) {{dtype={}}} : {}[{}, {}]\n",
      a, m, k, b, n, k, k / 128, m / a_lines, k / 128, n / b_lines, result, result, m, n);
}

std::string why_not_compiled(const std::shared_ptr<Device>& device) {
  ProgramRunner runner(device);
  try {
    const Program program(parse_graph(scaled_dot("f8e4m3", "f8e4m3", 128, 128, 128, 1, 128, "f32") + "return %4\n"),
                          runner.device(), runner.library(), runner.arena());
  } catch (const Error& error) {
    return error.what();
  }
  return "it was";
}

TEST(ScaledDot, HasNoKernelOfProcessors) {
  EXPECT_THAT(why_not_compiled(open_device("cpu")), testing::HasSubstr("a processor has no kernel for scaled_dot"));
}

TEST_P(GpuGemm, BlocksOfEightBitsHaveScales) {
  if (!architecture().has_warpgroup_matrix) {
    EXPECT_THAT(why_not_compiled(device()), testing::HasSubstr("has no kernel for this scaled_dot"));
    return;
  }
  for (const auto& [m, n, k, a_lines, b_lines] :
       {std::array{16, 128, 256, 1, 128}, std::array{72, 128, 384, 1, 128}, std::array{200, 384, 640, 1, 128},
        std::array{136, 88, 256, 1, 1}, std::array{256, 256, 1152, 128, 1}, std::array{128, 256, 128, 128, 128}}) {
    expect_reference(scaled_dot("f8e4m3", "f8e4m3", m, n, k, a_lines, b_lines, "f32") + "return %4\n");
    EXPECT_EQ(kinds_, "dot ");
  }
  expect_reference(scaled_dot("f8e5m2", "f8e4m3", 136, 256, 512, 1, 128, "bf16") + "return %4\n");
}

// To the nearest, ties away from zero or to even.
double rounded_to_tf32(double value, bool to_even) {
  if (value == 0) return value;
  const double unit = std::ldexp(1.0, std::ilogb(value) - 10), units = std::abs(value) / unit;
  return std::copysign((to_even ? std::nearbyint(units) : std::floor(units + 0.5)) * unit, value);
}

TEST_P(GpuGemm, Tf32RoundsOperandsAndNothingElse) {
  const bool has_instructions = architecture().has_tf32_matrix;
  for (const auto& [m, n, k] : {std::array{136, 72, 80}, std::array{67, 131, 45}, std::array{9, 72, 80}})
    for (const bool transpose_a : {false, true})
      for (const bool transpose_b : {false, true}) {
        const std::string text = dot("f32", "2, ", m, n, k, transpose_a, transpose_b, "f32");
        const std::string flags = fmt::format("(%0, %1) {{tf32{}{}}} :", transpose_a ? ", transpose_a" : "",
                                              transpose_b ? ", transpose_b" : "");
        const size_t begin = text.find("(%0, %1)");
        const Graph graph =
            parse_graph(text.substr(0, begin) + flags + text.substr(text.find(" :", begin) + 2) + "return %2\n");
        std::vector<HostTensor> inputs = random_inputs(graph);
        const std::vector<HostTensor> actual = run(device(), graph, inputs);
        EXPECT_EQ(source_.find("Operand = tf32") != std::string::npos, has_instructions) << source_;
        const bool has_warpgroups = architecture().has_warpgroup_matrix && transpose_b && k == 80;
        EXPECT_EQ(source_.find("gemm_hopper.h") != std::string::npos, has_warpgroups && m > 16) << source_;
        if (has_instructions)
          for (HostTensor& input : inputs)
            for (double& value : input.values) value = rounded_to_tf32(value, has_warpgroups && m > 16);
        const HostTensor reference = interpret(graph, inputs)[0];
        const Comparison comparison = compare(actual[0], reference, bounds::of_graph(graph, bindings_));
        EXPECT_TRUE(comparison.equal) << comparison.text << "\n" << flags << source_;
      }
}

// A layer and its gradients in tf32, beside those of f64. Warpgroup instructions want the second operand along k: of
// large GEMMs it is copied so.
TEST_P(GpuGemm, OperandsOfTf32AreCopiedAlongK) {
  if (!architecture().has_tf32_matrix) return;
  Graph graph = parse_graph(R"(%0 = input "x" : f32[512, 1024]
%1 = input "w" : f32[512, 1024]
%2 = input "residual" : f32[512, 512]
%3 = dot(%0, %1) {transpose_b} : f32[512, 512]
%4 = add(%3, %2) : f32[512, 512]
%5 = mul(%4, %4) : f32[512, 512]
%6 = reduce_sum(%5) {axes=[0, 1]} : f32[]
return %6
)");
  const std::vector<Value> operands = {graph.inputs()[0], graph.inputs()[1]};
  const std::vector<Value> gradients = passes::add_gradients(graph, graph.outputs[0], operands);
  graph.outputs = {Value{4, 0}, gradients[0], gradients[1]};
  const bool along_k = device()->target().preferred_sizes().tf32_along_k;
  const std::vector<HostTensor> inputs = random_inputs(graph);
  const std::vector<HostTensor> reference = interpret(graph, inputs);
  const std::vector<HostTensor> actual =
      run(device(), passes::canonicalize(passes::tf32_gemms(graph, along_k)), inputs);
  EXPECT_EQ(kinds_, along_k ? "dot loop dot loop dot " : "dot dot dot ");
  for (size_t i = 0; i < reference.size(); ++i) {
    double squares = 0, most = 0;
    for (size_t at = 0; at < reference[i].values.size(); ++at) {
      squares += reference[i].values[at] * reference[i].values[at];
      most = std::max(most, std::abs(actual[i].values[at] - reference[i].values[at]));
    }
    // 2^-11.5 of it as a root of mean squares, of each operand; the largest of 500,000 is five times that.
    EXPECT_LE(most, 0x1p-8 * std::sqrt(squares / static_cast<double>(reference[i].values.size()))) << "result " << i;
  }
}

// Small GEMMs, skinny ones and lines that TMA does not take are read as they lie.
TEST_P(GpuGemm, SmallOperandsOfTf32AreNotCopied) {
  for (const auto& [m, n, k] : {std::array{200, 264, 96}, std::array{9, 520, 600}, std::array{264, 260, 4099}}) {
    const Graph graph = parse_graph(dot("f32", "", m, n, k, true, false, "f32") + "return %2\n");
    std::vector<HostTensor> inputs = random_inputs(graph);
    for (HostTensor& input : inputs)
      for (double& value : input.values) value = rounded_to_tf32(value, false);
    const bool along_k = device()->target().preferred_sizes().tf32_along_k;
    const std::vector<HostTensor> actual =
        run(device(), passes::canonicalize(passes::tf32_gemms(graph, along_k)), inputs);
    EXPECT_EQ(kinds_, "dot ") << m;
    const Comparison comparison = compare(actual[0], interpret(graph, inputs)[0], bounds::of_graph(graph, bindings_));
    EXPECT_TRUE(comparison.equal) << comparison.text << "\n" << source_;
  }
}

// Large ones, as compiled for silicon: nothing spills, and Hopper's matrix instructions overlap. NVIDIA's kernels need
// ptxas to tell.
class GpuGemmResources : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (gpu_target(GetParam()).family == Target::Family::kNvptx && find_ptxas().empty())
      GTEST_SKIP() << "What ptxas makes of the kernels is not tested. " << how_to_get_ptxas();
  }
};
using GpuGemmResourcesOfEightBits = GpuGemmResources;
INSTANTIATE_TEST_SUITE_P(Processors, GpuGemmResources, testing::Values("sm_80", "sm_90a", "gfx942"),
                         [](const auto& test) { return std::string(test.param); });
INSTANTIATE_TEST_SUITE_P(Processors, GpuGemmResourcesOfEightBits, testing::Values("sm_90a", "gfx942"),
                         [](const auto& test) { return std::string(test.param); });

void expect_no_spills(const std::string& processor, const std::string& text) {
  const Target target = gpu_target(processor);
  ProgramRunner runner(std::make_shared<OfflineDevice>(target));
  const Program program(parse_graph(text), runner.device(), runner.library(), runner.arena());
  const std::string image = compile_module(program.sources().back(), target);
  const auto resources = kernel_resources(image, target);
  ASSERT_TRUE(resources.has_value());
  for (const KernelResources& kernel : *resources) {
    EXPECT_EQ(kernel.spill_bytes, 0) << processor << program.sources().back();
    EXPECT_TRUE(kernel.notes.empty()) << kernel.notes.front();
  }
}

TEST_P(GpuGemmResourcesOfEightBits, NothingSpills) {
  for (const char* b : {"f8e4m3", "f8e5m2"})
    for (const int n : {3584, 4096})  // by tiles of 224 and 192 columns on sm_90a
      expect_no_spills(GetParam(), fmt::format("%0 = input \"a\" : f8e4m3[16384, 8192]\n"
                                               "%1 = input \"b\" : {0}[{1}, 8192]\n"
                                               "%2 = dot(%0, %1) {{transpose_b}} : bf16[16384, {1}]\nreturn %2\n",
                                               b, n));
}

TEST(GpuGemmResourcesOfBlocks, NothingSpills) {
  for (const int b_lines : {128, 1})
    expect_no_spills("sm_90a", scaled_dot("f8e4m3", "f8e4m3", 4096, 4096, 8192, 1, b_lines, "bf16") + "return %4\n");
}

TEST_P(GpuGemmResources, OfTf32) {
  for (const char* flags : {"tf32", "tf32, transpose_a", "tf32, transpose_b", "tf32, transpose_a, transpose_b"})
    expect_no_spills(GetParam(), fmt::format("%0 = input \"a\" : f32[4096, 4096]\n%1 = input \"b\" : f32[4096, 4096]\n"
                                             "%2 = dot(%0, %1) {{{}}} : f32[4096, 4096]\nreturn %2\n",
                                             flags));
}

// CDNA 3 reads these codes as something else.
TEST_P(GpuGemm, EightBitZerosAndNoNumbers) {
  for (const DType dtype : {DType::kF8E4M3, DType::kF8E5M2}) {
    const Graph graph =
        parse_graph(dot(std::string(dtype_name(dtype)), "", 32, 32, 32, false, true, "f32") + "return %2\n");
    std::vector<HostTensor> inputs = random_inputs(graph);
    for (size_t k = 0; k < 32; ++k) inputs[0].values[3 * 32 + k] = -0.0;
    inputs[0].values[5 * 32 + 7] = std::numeric_limits<double>::quiet_NaN();
    const HostTensor result = run(device(), graph, inputs)[0];
    for (size_t n = 0; n < 32; ++n) {
      EXPECT_EQ(result.values[3 * 32 + n], 0);
      EXPECT_TRUE(std::isnan(result.values[5 * 32 + n]));
      EXPECT_TRUE(std::isfinite(result.values[6 * 32 + n]));
    }
  }
}

TEST_P(GpuGemm, SizesThatNoTileDivides) {
  for (const char* dtype : {"bf16", "f32"})
    for (const bool transpose_a : {false, true})
      for (const bool transpose_b : {false, true})
        expect_reference(dot(dtype, "", 67, 131, 45, transpose_a, transpose_b, "bf16") + "return %2\n");
}

TEST_P(GpuGemm, SkinnySides) {
  for (const char* dtype : {"bf16", "f32"}) {
    for (const auto& [m, n] : {std::pair(1, 136), std::pair(136, 1), std::pair(9, 72), std::pair(72, 16)})
      for (const bool transpose : {false, true})
        expect_reference(dot(dtype, "", m, n, 80, transpose, !transpose, "f32") + "return %2\n");
  }
}

TEST_P(GpuGemm, Batches) {
  expect_reference(dot("bf16", "3, ", 21, 30, 17, false, false, "f32") + "return %2\n");
  expect_reference(dot("f32", "2, 3, ", 40, 24, 16, true, true, "f32") + "return %2\n");
}

// Heads that lie between tokens and features are read where they are: no copy is made.
TEST_P(GpuGemm, PermutedBatchesAreReadInPlace) {
  expect_reference(R"(%0 = input "q" : bf16[2, 24, 3, 16]
%1 = input "k" : bf16[2, 32, 3, 16]
%2 = permute(%0) {axes=[0, 2, 1, 3]} : bf16[2, 3, 24, 16]
%3 = permute(%1) {axes=[0, 2, 1, 3]} : bf16[2, 3, 32, 16]
%4 = dot(%2, %3) {transpose_b} : f32[2, 3, 24, 32]
return %4
)");
  EXPECT_EQ(kinds_, "dot ");
}

TEST_P(GpuGemm, SlicesAreReadInPlace) {
  expect_reference(R"(%0 = input "x" : bf16[40, 96]
%1 = input "w" : bf16[32, 56]
%2 = slice(%0) {start=[8, 32], limit=[40, 64], strides=[1, 1]} : bf16[32, 32]
%3 = dot(%2, %1) : f32[32, 56]
return %3
)");
  EXPECT_EQ(kinds_, "dot ");
}

TEST_P(GpuGemm, ComputedOperandsAreStoredBeforehand) {
  expect_reference(R"(%0 = input "x" : f32[40, 32]
%1 = input "w" : bf16[32, 56]
%2 = mul(%0, %0) : f32[40, 32]
%3 = cast(%2) : bf16[40, 32]
%4 = dot(%3, %1) : f32[40, 56]
return %4
)");
  EXPECT_EQ(kinds_, "loop dot ");
}

TEST_P(GpuGemm, MergedAxesOfAPermutationAreStoredBeforehand) {
  expect_reference(R"(%0 = input "x" : bf16[2, 3, 24, 16]
%1 = input "w" : bf16[48, 40]
%2 = permute(%0) {axes=[0, 2, 1, 3]} : bf16[2, 24, 3, 16]
%3 = reshape(%2) : bf16[48, 48]
%4 = dot(%3, %1) : f32[48, 40]
return %4
)");
  EXPECT_EQ(kinds_, "loop dot ");
}

TEST_P(GpuGemm, BiasActivationResidualAndTwoResults) {
  for (const int n : {80, 83})
    expect_reference(fmt::format(R"(%0 = input "x" : bf16[70, 64]
%1 = input "w" : bf16[{0}, 64]
%2 = input "bias" : f32[{0}]
%3 = input "residual" : f32[70, {0}]
%4 = dot(%0, %1) {{transpose_b}} : f32[70, {0}]
%5 = broadcast(%2) {{axes=[1]}} : f32[70, {0}]
%6 = add(%4, %5) : f32[70, {0}]
%7 = abs(%6) : f32[70, {0}]
%8 = mul(%6, %7) : f32[70, {0}]
%9 = add(%8, %3) : f32[70, {0}]
%10 = cast(%6) : bf16[70, {0}]
return %9, %10
)",
                                 n));
  EXPECT_EQ(kinds_, "dot ");
}

// Where TMA stores results, it brings the residual too, unless that has wider elements.
TEST_P(GpuGemm, BiasAndResidualOfOneResult) {
  for (const char* result : {"f32", "bf16", "f16"})
    for (const char* residual : {"f32", "bf16", ""})
      for (const int n : {152, 83}) {
        std::string text = fmt::format(R"(%0 = input "x" : bf16[2, 200, 64]
%1 = input "w" : bf16[2, {0}, 64]
%2 = input "bias" : f32[{0}]
%3 = dot(%0, %1) {{transpose_b}} : f32[2, 200, {0}]
%4 = broadcast(%2) {{axes=[2]}} : f32[2, 200, {0}]
%5 = add(%3, %4) : f32[2, 200, {0}]
)",
                                       n);
        if (*residual != '\0')
          text += fmt::format(R"(%6 = input "residual" : {1}[2, 200, {0}]
%7 = cast(%6) : f32[2, 200, {0}]
%8 = add(%5, %7) : f32[2, 200, {0}]
)",
                              n, residual);
        text += fmt::format("%9 = cast(%{}) : {}[2, 200, {}]\nreturn %9\n", *residual != '\0' ? 8 : 5, result, n);
        SCOPED_TRACE(text);
        expect_reference(text);
        EXPECT_EQ(kinds_, "dot ");
        const auto size = [](std::string_view dtype) { return dtype == "f32" ? 4 : 2; };
        const bool is_sent =
            architecture().has_warpgroup_matrix && n % 8 == 0 && (*residual == '\0' || size(residual) <= size(result));
        EXPECT_EQ(source_.find("using TmaStored = ") != std::string::npos, is_sent) << source_;
      }
}

// Two residuals of 16 bits that are not alike, beside f32, and one of a byte beside bf16, which TMA does not bring.
TEST_P(GpuGemm, SeveralResidualsOfOneResult) {
  for (const int n : {152, 160}) {
    expect_reference(fmt::format(R"(%0 = input "x" : bf16[200, 64]
%1 = input "w" : bf16[{0}, 64]
%2 = input "r" : bf16[200, {0}]
%3 = input "s" : bf16[200, {0}]
%4 = dot(%0, %1) {{transpose_b}} : f32[200, {0}]
%5 = cast(%2) : f32[200, {0}]
%6 = cast(%3) : f32[200, {0}]
%7 = add(%5, %5) : f32[200, {0}]
%8 = add(%6, %7) : f32[200, {0}]
%9 = add(%4, %8) : f32[200, {0}]
return %9
)",
                                 n));
    EXPECT_EQ(kinds_, "dot ");
    EXPECT_EQ(source_.find("using TmaFetched = bf16") != std::string::npos, architecture().has_warpgroup_matrix);
    expect_reference(fmt::format(R"(%0 = input "x" : bf16[200, 64]
%1 = input "w" : bf16[{0}, 64]
%2 = input "r" : f8e4m3[200, {0}]
%3 = dot(%0, %1) {{transpose_b}} : f32[200, {0}]
%4 = cast(%2) : f32[200, {0}]
%5 = add(%3, %4) : f32[200, {0}]
%6 = cast(%5) : bf16[200, {0}]
return %6
)",
                                 n));
    EXPECT_EQ(kinds_, "dot ");
    EXPECT_EQ(source_.find("using TmaStored = "), std::string::npos);
  }
}

// Hopper's tiles of 256 x 160, of which each of these GEMMs is one: as many as there are multiprocessors, whose
// results leave from where slices were, and more.
TEST_P(GpuGemm, TilesOf160ColumnsWithTheirEpilogue) {
  if (!architecture().has_warpgroup_matrix) return;
  for (const auto& [products, tile] : {std::pair(132, "kTile = {.m = 128, .n = 160, .stages = 4, "),
                                       std::pair(264, "kTile = {.m = 256, .n = 160, .stages = 3, ")}) {
    expect_reference(fmt::format(R"(%0 = input "x" : bf16[{0}, 200, 24]
%1 = input "w" : bf16[{0}, 24, 152]
%2 = input "bias" : f32[152]
%3 = input "residual" : bf16[{0}, 200, 152]
%4 = dot(%0, %1) : f32[{0}, 200, 152]
%5 = broadcast(%2) {{axes=[2]}} : f32[{0}, 200, 152]
%6 = add(%4, %5) : f32[{0}, 200, 152]
%7 = cast(%3) : f32[{0}, 200, 152]
%8 = add(%6, %7) : f32[{0}, 200, 152]
%9 = cast(%6) : bf16[{0}, 200, 152]
return %8, %9
)",
                                 products));
    EXPECT_EQ(kinds_, "dot ");
    EXPECT_NE(source_.find(tile), std::string::npos) << source_;
  }
}

// Hopper's GEMMs of the transposes: one tile for each block, several and ping-pong, with columns of C and rows as
// what is added, one result and two.
TEST_P(GpuGemm, SwappedGemmsWithTheirEpilogue) {
  if (!architecture().has_warpgroup_matrix) return;
  struct Swapped {
    int batch, m, n, k;
    bool transpose_a, transpose_b;
    HopperGemmTile tile;
  };
  const std::vector<Swapped> gemms = {
      {12,
       280,
       128,
       32,
       false,
       true,
       {.m = 64,
        .n = 80,
        .stages = 12,
        .b_along_k = true,
        .results_in_stages = true,
        .rows_together = 2,
        .swapped = true}},
      {17, 264, 272, 32, false, false, {.m = 128, .n = 64, .stages = 6, .b_along_k = true, .swapped = true}},
      {12, 336, 528, 32, true, false, {.m = 64, .n = 128, .stages = 6, .ping_pong = true, .swapped = true}},
      {33,
       144,
       256,
       32,
       false,
       false,
       {.m = 64, .n = 96, .stages = 8, .ping_pong = true, .b_along_k = true, .swapped = true}}};
  for (const auto& [batch, m, n, k, transpose_a, transpose_b, tile] : gemms)
    for (const bool two : {false, true}) {
      const char* dtype = two ? "f16" : "bf16";
      expect_reference(dot(dtype, fmt::format("{}, ", batch), m, n, k, transpose_a, transpose_b, "f32") +
                       fmt::format(R"(%3 = input "bias" : f32[{2}]
%4 = broadcast(%3) {{axes=[2]}} : f32[{0}, {1}, {2}]
%5 = add(%2, %4) : f32[{0}, {1}, {2}]
%6 = input "factor" : f32[{1}]
%7 = broadcast(%6) {{axes=[1]}} : f32[{0}, {1}, {2}]
%8 = mul(%5, %7) : f32[{0}, {1}, {2}]
%9 = cast(%8) : {4}[{0}, {1}, {2}]
%10 = cast(%5) : {4}[{0}, {1}, {2}]
return %9{3}
)",
                                   batch, m, n, two ? ", %10" : "", dtype));
      EXPECT_EQ(kinds_, "dot ");
      EXPECT_NE(source_.find(gemm_tile_text(tile)), std::string::npos) << source_;
    }
}

TEST_P(GpuGemm, LongSumsAreSplitAndFollowedByTheirEpilogue) {
  for (const char* dtype : {"bf16", "f32"}) {
    expect_reference(dot(dtype, "", 40, 56, 8216, true, false, "f32") + R"(%3 = input "before" : f32[40, 56]
%4 = add(%2, %3) : f32[40, 56]
return %4
)");
    EXPECT_EQ(kinds_, "dot ");
    EXPECT_NE(source_.find("kernel_combine"), std::string::npos) << source_;
  }
}

TEST_P(GpuGemm, SeveralTilesInEveryOrientation) {
  for (const bool transpose_a : {false, true})
    for (const bool transpose_b : {false, true})
      expect_reference(dot("bf16", "", 200, 328, 136, transpose_a, transpose_b, "f32") + "return %2\n");
}

TEST_P(GpuGemm, ACostlyActivationIsAKernelOfItsOwn) {
  expect_reference(dot("bf16", "", 64, 80, 64, false, true, "f32") + "%3 = tanh(%2) : f32[64, 80]\nreturn %3\n");
  EXPECT_EQ(kinds_, "dot loop ");
}

// Where TMA stores both, an activation leaves with the GEMM that it is computed from, unless another
// tensor is read at its place.
TEST_P(GpuGemm, AnActivationIsInTheEpilogue) {
  for (const int n : {152, 83})
    for (const bool gated : {false, true}) {
      const std::string text = fmt::format(R"(%0 = input "x" : bf16[200, 64]
%1 = input "w" : bf16[{0}, 64]
%2 = input "bias" : f32[{0}]
%3 = input "gate" : bf16[200, {0}]
%4 = dot(%0, %1) {{transpose_b}} : bf16[200, {0}]
%5 = cast(%4) : f32[200, {0}]
%6 = broadcast(%2) {{axes=[1]}} : f32[200, {0}]
%7 = add(%5, %6) : f32[200, {0}]
%8 = exp2(%7) : f32[200, {0}]
%9 = add(%8, %8) : f32[200, {0}]
%10 = cast(%3) : f32[200, {0}]
%11 = mul(%9, {1}) : f32[200, {0}]
%12 = cast(%11) : bf16[200, {0}]
return %4, %12
)",
                                           n, gated ? "%10" : "%7");
      SCOPED_TRACE(text);
      expect_reference(text);
      const bool leaves_with_it = architecture().has_warpgroup_matrix && n % 8 == 0 && !gated;
      EXPECT_EQ(kinds_, leaves_with_it ? "dot " : "dot loop ");
      EXPECT_EQ(source_.find("kTmaStored = 2") != std::string::npos, leaves_with_it) << source_;
    }
}

TEST_P(GpuGemm, SymbolicSizes) {
  bindings_[Dim::symbol_id("B")] = 3;
  bindings_[Dim::symbol_id("T")] = 11;
  expect_reference(R"(%0 = input "x" : bf16[B, T, 24]
%1 = input "w" : bf16[24, 40]
%2 = reshape(%0) : bf16[B*T, 24]
%3 = dot(%2, %1) : f32[B*T, 40]
%4 = dot(%2, %2) {transpose_a} : f32[24, 24]
%5 = dot(%2, %2) {transpose_b} : f32[B*T, B*T]
return %3, %4, %5
)");
}

// Those whose lanes copy what they multiply, on architectures that have them, where weights lie along k: both numbers
// of columns of a block, last blocks that are not whole, waves that have nothing to sum, more slices than are on their
// way.
TEST_P(GpuGemm, FewRowsOfAlignedOperands) {
  const bool copies = architecture().vendor == GpuArchitecture::Vendor::kNvidia;
  for (const auto& [m, n, k] : {std::array{1, 72, 64}, std::array{5, 200, 1600}, std::array{8, 3000, 32},
                                std::array{9, 6008, 96}, std::array{16, 3208, 160}, std::array{1, 51, 4096}}) {
    for (const bool transpose_b : {false, true}) {
      if (!transpose_b && n % 8 != 0) continue;
      for (const char* dtype : {"bf16", "f16"}) {
        expect_reference(dot(dtype, "", m, n, k, false, transpose_b, dtype) + "return %2\n");
        EXPECT_EQ(source_.find("skinny_gemm.h") != std::string::npos, copies && transpose_b) << source_;
      }
      const std::string size = fmt::format("[2, {}, {}]", m, n);
      expect_reference(dot("bf16", "2, ", m, n, k, false, transpose_b, "f32") +
                       fmt::format("%3 = input \"x\" : f32{0}\n%4 = input \"bias\" : f32[{1}]\n"
                                   "%5 = broadcast(%4) {{axes=[2]}} : f32{0}\n%6 = add(%2, %5) : f32{0}\n"
                                   "%7 = mul(%6, %3) : f32{0}\nreturn %7\n",
                                   size, n));
      EXPECT_EQ(kinds_, "dot ");
    }
  }
}

// Long sums of few columns are cut into parts, of which the blocks of a cluster sum one each.
TEST_P(GpuGemm, FewRowsInPartsOfK) {
  const bool clusters = architecture().has_warpgroup_matrix;
  for (const int m : {1, 13}) {
    const std::string text = dot("bf16", "2, ", m, 51, 8192, false, true, "f32") + "return %2\n";
    expect_reference(text);
    EXPECT_EQ(source_.find("kTile = {.columns = 16, .waves = 16, .parts = 4, .row_bytes = 0}") != std::string::npos,
              clusters)
        << source_;
    EmulatorOptions options;
    options.checked = true;
    const auto checked = std::make_shared<EmulatorDevice>(device()->target().processor, options);
    const Graph graph = parse_graph(text);
    if (clusters) EXPECT_NO_THROW(run(checked, graph, random_inputs(graph))) << source_;
  }
}

TEST_P(GpuGemm, NothingToSum) {
  bindings_[Dim::symbol_id("T")] = 0;
  expect_reference(R"(%0 = input "x" : bf16[T, 24]
%1 = input "y" : bf16[T, 16]
%2 = dot(%0, %1) {transpose_a} : f32[24, 16]
return %2
)");
}

TEST_P(GpuGemm, NoRacesAndNoAccessOutsideOfMemory) {
  EmulatorOptions options;
  options.checked = true;
  const auto checked = std::make_shared<EmulatorDevice>(device()->target().processor, options);
  for (const auto& [dtype, k] : {std::pair("bf16", 72), std::pair("bf16", 37), std::pair("f32", 37)})
    for (const bool transpose : {false, true}) {
      const int n = k == 37 ? 67 : 72;
      const Graph graph = parse_graph(dot(dtype, "", n + 2, n, k, transpose, !transpose, "f32") + "return %2\n");
      EXPECT_NO_THROW(run(checked, graph, random_inputs(graph))) << source_;
    }
  for (const bool transpose : {false, true}) {
    Graph graph = parse_graph(dot("f32", "", 136, 72, 648, transpose, true, "f32") + "return %2\n");
    graph = passes::tf32_gemms(graph, false);
    EXPECT_NO_THROW(run(checked, graph, random_inputs(graph))) << source_;
  }
  const Graph thin = parse_graph(dot("bf16", "", 5, 40, 4096, false, true, "f32") + "return %2\n");
  EXPECT_NO_THROW(run(checked, thin, random_inputs(thin))) << source_;
}

TEST_P(GpuGemm, ResultsDoNotDependOnTheSchedule) {
  const Graph graph = parse_graph(dot("bf16", "", 72, 80, 1032, true, false, "f32") + "return %2\n");
  const std::vector<HostTensor> inputs = random_inputs(graph);
  const auto result = [&](uint64_t seed) {
    EmulatorOptions options;
    options.seed = seed;
    const std::string processor = device()->target().processor;
    return to_bytes(run(std::make_shared<EmulatorDevice>(processor, options), graph, inputs)[0]);
  };
  EXPECT_EQ(result(1), result(2));
}

INSTANTIATE_TEST_SUITE_P(Devices, GpuGemm, testing::ValuesIn(device_specs()), named_by_device);

}  // namespace
}  // namespace causeway::program
