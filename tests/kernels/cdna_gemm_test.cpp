// CDNA's gemm template, whose waves multiply in turns: its results on the emulator of both architectures (or on the
// device that CAUSEWAY_TEST_DEVICE names, "hip"), races, and what the compiler makes of it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "causeway/codegen/compile/compiler.h"
#include "causeway/codegen/compile/kernel_resources.h"
#include "causeway/codegen/gpu/gemm_wave_tile.h"
#include "causeway/device/emulator/emulator_device.h"
#include "causeway/kernels/gpu/gemm_layout.h"
#include "causeway/kernels/types.h"
#include "causeway/kernels/x86/gemm_layout.h"
#include "tests/device/device_under_test.h"
#include "tests/mutation/planted_faults.h"

namespace causeway::program {
namespace {

constexpr GpuGemmTile kTile = {256, 256, 32, 128, 64, 2, 1, true};

// C[batch, m, n] = A B, of bf16 or f16; C of f32.
struct Case {
  int64_t batch = 1, m = 256, n = 256, k = 64;
  bool a_along_k = true, b_along_k = true;
  int splits = 1;
  bool half = false;
  bool fixed_k = false;  // k is known to the compiler

  // No piece of 16 bytes straddles an edge.
  bool aligned(bool along_k, int64_t lines) const { return (along_k ? k : lines) % 8 == 0; }
  int lanes() const { return n % 4 == 0 ? 4 : 1; }
  std::string describe() const {
    return fmt::format("batch {} {}x{}x{} along k: {} {}, splits {}, f16 {}, k fixed {}", batch, m, n, k, a_along_k,
                       b_along_k, splits, half, fixed_k);
  }
};

std::string operand_text(const char* type, bool along_k, bool aligned, const std::string& lines) {
  return fmt::format(R"(
  struct {0} {{
    using Element = Operand;
    static constexpr bool kContiguousInK = {1}, kAligned = {2};
    const Element* data;
    int64_t stride, matrix;
    CAUSEWAY_INLINE int64_t batch_offset(int64_t batch_index) const {{ return batch_index * matrix; }}
  }};
)",
                     type, along_k, aligned, lines);
}

std::string kernel_text(const Case& c) {
  std::string text = fmt::format(
      "#include \"causeway/kernels/gpu/gemm_cdna.h\"\nnamespace {{\nstruct Problem {{\nusing Operand = {};\n",
      c.half ? "f16" : "bf16");
  text += operand_text("A", c.a_along_k, c.aligned(c.a_along_k, c.m), "m") +
          operand_text("B", c.b_along_k, c.aligned(c.b_along_k, c.n), "n") + "A a;\nB b;\n" + gemm_tile_text(kTile);
  text += fmt::format("\nstatic constexpr int kSplits = {}, kStoreLanes = {};\n", c.splits, c.lanes());
  text += c.fixed_k ? fmt::format("static constexpr int64_t k = {};\nint64_t batch, m, n;\n", c.k)
                    : std::string("int64_t batch, m, n, k;\n");
  text += fmt::format(R"(
  float* result;
  float* workspace;
  CAUSEWAY_INLINE Problem(void* const* buffers, const int64_t* sizes)
      : batch(sizes[0]), m(sizes[1]), n(sizes[2] * kStoreLanes), {}
        result(global_pointer<float>(buffers[2])), workspace(global_pointer<float>(buffers[3])) {{
    a.data = global_pointer<const Operand>(buffers[0]);
    b.data = global_pointer<const Operand>(buffers[1]);
    a.stride = A::kContiguousInK ? k : m;
    b.stride = B::kContiguousInK ? k : n;
    a.matrix = m * k;
    b.matrix = n * k;
  }}
  struct Fetched {{ static constexpr int kTensors = 0; }};
  struct FetchedColumns {{ static constexpr int kTensors = 0; }};
  template <int V>
  CAUSEWAY_INLINE void fetch(int64_t batch_index, int64_t m_index, int64_t n_index, Fetched& to) const {{}}
  template <int V>
  CAUSEWAY_INLINE void fetch_columns(int64_t n_index, FetchedColumns& to) const {{}}
  template <int V>
  CAUSEWAY_INLINE void store(int64_t batch_index, int64_t m_index, int64_t n_index, const float (&values)[V],
                             const Fetched& fetched, const FetchedColumns& columns) const {{
#pragma clang loop unroll(full)
    for (int e = 0; e < V; ++e) result[(batch_index * m + m_index) * n + n_index + e] = values[e];
  }}
}};
}}
CAUSEWAY_KERNEL(kernel_run, {}, 1, 4, 4, 0) {{
  const Problem problem(buffers, sizes);
  cdna_gemm_run(problem, task);
}}
)",
                      c.fixed_k ? "" : "k(sizes[3]),", gpu_gemm_waves(kTile) * 64);
  if (c.splits > 1)
    text += fmt::format(
        "CAUSEWAY_KERNEL(kernel_combine, {}, 1, 4, 4, 0) {{\nconst Problem problem(buffers, sizes);\n"
        "gemm_combine(problem, task);\n}}\n",
        kGpuGemmCombineThreads);
  return text;
}

float operand_value(uint16_t bits, bool half) {
  return half ? to_float(__builtin_bit_cast(f16, bits)) : to_float(bf16{bits});
}

// Sums are exact: multiples of 1/64 below 2^18.
void expect_gemm(Device& device, const Case& c) {
  SCOPED_TRACE(c.describe());
  std::mt19937 random(1);
  const auto fill = [&](int64_t count) {
    std::vector<uint16_t> values(static_cast<size_t>(count));
    for (uint16_t& value : values) {
      const float number = static_cast<float>(static_cast<int>(random() % 33) - 16) / 8;
      value = c.half ? __builtin_bit_cast(uint16_t, to_f16(number)) : to_bf16(number).bits;
    }
    return values;
  };
  const std::vector<uint16_t> a = fill(c.batch * c.m * c.k), b = fill(c.batch * c.n * c.k);
  const auto upload = [&](const std::vector<uint16_t>& values) {
    DeviceBuffer buffer = device.allocate(values.size() * 2);
    device.copy_to_device(buffer.data(), values.data(), values.size() * 2);
    return buffer;
  };
  const DeviceBuffer a_buffer = upload(a), b_buffer = upload(b);
  const auto count = static_cast<size_t>(c.batch * c.m * c.n);
  const DeviceBuffer result_buffer = device.allocate(count * sizeof(float));
  const DeviceBuffer workspace = device.allocate(static_cast<size_t>(c.splits) * count * sizeof(float));
  void* const buffers[] = {a_buffer.data(), b_buffer.data(), result_buffer.data(), workspace.data()};
  const int64_t sizes[] = {c.batch, c.m, c.n / c.lanes(), c.k};
  const auto module = device.load(compile_module(with_planted_fault(kernel_text(c)), device.target()));
  DeviceLaunch launch;
  launch.kernel = module->kernel("kernel_run");
  launch.buffers = buffers;
  launch.sizes = sizes;
  launch.task_count = c.batch * c.splits * gemm_ceil_div(c.m, int64_t{kTile.m}) * gemm_ceil_div(c.n, int64_t{kTile.n});
  launch.threads = gpu_gemm_waves(kTile) * 64;
  launch.shared_bytes = gpu_gemm_shared_bytes(kTile, true, true, 2);
  device.launch(launch);
  if (c.splits > 1) {
    launch.kernel = module->kernel("kernel_combine");
    launch.task_count = gemm_ceil_div(static_cast<int64_t>(count) / c.lanes(), int64_t{kGpuGemmCombineThreads});
    launch.threads = kGpuGemmCombineThreads;
    launch.shared_bytes = 0;
    device.launch(launch);
  }
  std::vector<float> result(count);
  device.copy_to_host(result.data(), result_buffer.data(), count * sizeof(float));
  // By rows of A and columns of B, each along k.
  const auto along_k = [&](const std::vector<uint16_t>& operand, int64_t lines, bool is_along_k) {
    std::vector<float> values(operand.size());
    for (int64_t batch = 0; batch < c.batch; ++batch)
      for (int64_t line = 0; line < lines; ++line)
        for (int64_t k = 0; k < c.k; ++k)
          values[static_cast<size_t>((batch * lines + line) * c.k + k)] = operand_value(
              operand[static_cast<size_t>(batch * lines * c.k + (is_along_k ? line * c.k + k : k * lines + line))],
              c.half);
    return values;
  };
  const std::vector<float> rows = along_k(a, c.m, c.a_along_k), columns = along_k(b, c.n, c.b_along_k);
  int wrong = 0;
  for (int64_t row = 0; row < c.batch * c.m; ++row) {
    for (int64_t n = 0; n < c.n; ++n) {
      const float* left = &rows[static_cast<size_t>(row * c.k)];
      const float* right = &columns[static_cast<size_t>((row / c.m * c.n + n) * c.k)];
      float sum = 0;
      for (int64_t k = 0; k < c.k; ++k) sum += left[k] * right[k];
      const float got = result[static_cast<size_t>(row * c.n + n)];
      if (!(got == sum) && ++wrong <= 3)
        ADD_FAILURE() << "row " << row << " column " << n << ": " << got << " instead of " << sum;
    }
  }
  EXPECT_EQ(wrong, 0);
}

class CdnaGemm : public testing::TestWithParam<std::string> {
 protected:
  static Device& device() {
    static std::map<std::string, std::shared_ptr<Device>> devices;
    std::shared_ptr<Device>& device = devices[GetParam()];
    if (device == nullptr) device = open_device_under_test(GetParam());
    return *device;
  }
};

std::vector<std::string> devices_of_amd() {
  std::vector<std::string> specs = devices_under_test({"emulator:gfx90a", "emulator:gfx942"});
  std::erase_if(specs, [](const std::string& spec) { return spec.starts_with("cuda"); });
  return specs;
}

// One slice, two, an odd number of them, and one that ends within a slice.
TEST_P(CdnaGemm, EveryOrientation) {
  for (const bool a_along_k : {true, false})
    for (const bool b_along_k : {true, false})
      for (const int64_t k : {32, 64, 136})
        expect_gemm(device(), {.k = k, .a_along_k = a_along_k, .b_along_k = b_along_k, .half = k == 64});
}

TEST_P(CdnaGemm, SizesThatNoTileDivides) {
  for (const bool a_along_k : {true, false})
    for (const bool b_along_k : {true, false}) {
      expect_gemm(device(), {.m = 328, .n = 264, .k = 72, .a_along_k = a_along_k, .b_along_k = b_along_k});
      // Lines at no multiple of 16 bytes.
      expect_gemm(device(), {.m = 131, .n = 259, .k = 45, .a_along_k = a_along_k, .b_along_k = b_along_k});
    }
}

TEST_P(CdnaGemm, BatchesAndPartsOfK) {
  expect_gemm(device(), {.batch = 3, .m = 40, .n = 304, .k = 96, .b_along_k = false, .fixed_k = true});
  expect_gemm(device(), {.m = 300, .n = 260, .k = 328, .splits = 3});
}

// More tiles than chiplets, of which some have one more.
TEST_P(CdnaGemm, TilesOfManyChiplets) { expect_gemm(device(), {.m = 1288, .n = 1032, .k = 32, .fixed_k = true}); }

TEST_P(CdnaGemm, NoRacesAndNoAccessOutsideOfMemory) {
  EmulatorOptions options;
  options.checked = true;
  EmulatorDevice checked(device().target().processor, options);
  for (const bool along_k : {true, false}) {
    for (const Case& c :
         {Case{.m = 72, .n = 280, .k = 104, .a_along_k = along_k, .b_along_k = !along_k},
          Case{.m = 256, .n = 40, .k = 96, .a_along_k = !along_k, .b_along_k = along_k, .fixed_k = true}})
      EXPECT_NO_THROW(expect_gemm(checked, c));
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, CdnaGemm, testing::ValuesIn(devices_of_amd()), named_by_device);

// As compiled for silicon: nothing spills, and a turn of GEMMs is nothing but GEMMs, each of its own operands.
TEST(CdnaGemmText, PingPongChangesNothingElse) {
  for (const std::string processor : {"gfx90a", "gfx942"})
    for (const bool a_along_k : {true, false})
      for (const bool b_along_k : {true, false}) {
        SCOPED_TRACE(fmt::format("{} along k: {} {}", processor, a_along_k, b_along_k));
        const Target target = gpu_target(processor);
        const std::string text =
            kernel_text({.k = 4096, .a_along_k = a_along_k, .b_along_k = b_along_k, .fixed_k = true});
        const auto resources = kernel_resources(compile_module(text, target), target);
        ASSERT_TRUE(resources.has_value());
        ASSERT_EQ(resources->size(), 1u);
        EXPECT_EQ(resources->front().spill_bytes, 0);
        EXPECT_LE(resources->front().registers, 256);  // of two waves on a SIMD's 512
        const std::string assembly = compile_to_assembly(text, target);
        const size_t begin = assembly.find("s_setprio 1"), end = assembly.find("s_setprio 0");
        ASSERT_NE(begin, std::string::npos);
        ASSERT_NE(end, std::string::npos);
        const std::string turn = assembly.substr(begin, end - begin);
        const std::regex instruction(R"(\n\s+([a-z]\w+)[^\n]*)"), product(R"(v_mfma_\w+ (\S+), (\S+), (\S+), (\S+))");
        std::set<std::string> operands;
        int products = 0;
        for (std::sregex_iterator at(turn.begin(), turn.end(), instruction), last; at != last; ++at) {
          std::smatch found;
          const std::string line = at->str();
          ASSERT_TRUE(std::regex_search(line, found, product)) << line;
          ++products;
          operands.insert(found[2].str() + " " + found[3].str());
        }
        EXPECT_EQ(products, 64);
        EXPECT_EQ(operands.size(), 64u);
      }
}

}  // namespace
}  // namespace causeway::program
