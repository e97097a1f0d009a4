#include "causeway/codegen/compile/compiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <regex>
#include <thread>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/codegen/compile/kernel_text.h"
#include "causeway/device/cpu/cpu_device.h"
#include "causeway/device/cpu/cpu_module.h"
#include "causeway/device/cpu/host_target.h"
#include "causeway/kernels/types.h"

namespace causeway::codegen {
namespace {

using testing::HasSubstr;

const Target kAvx512{Target::Family::kX86, "x86-64-v4", {"avx512bf16"}, 64};
const Target kBaseline{Target::Family::kX86, "x86-64", {}, 16};

constexpr char kSaxpy[] = R"(
#include "causeway/kernels/types.h"
extern "C" void saxpy(void* const* buffers, const int64_t* sizes, int64_t task, void*) {
  float* __restrict y = static_cast<float*>(buffers[0]) + task * sizes[0];
  const float* __restrict x = static_cast<const float*>(buffers[1]) + task * sizes[0];
  const int64_t count = sizes[0];
  for (int64_t i = 0; i < count; ++i) y[i] += 2.0f * x[i];
}
)";

constexpr char kSum[] = R"(
#include "causeway/kernels/types.h"
extern "C" void sum(void* const* buffers, const int64_t* sizes, int64_t task, void*) {
#pragma clang fp reassociate(on)
  const float* x = static_cast<const float*>(buffers[1]) + task * sizes[0];
  const int64_t count = sizes[0];
  float total = 0;
#pragma clang loop vectorize(enable)
  for (int64_t i = 0; i < count; ++i) total += x[i];
  static_cast<float*>(buffers[0])[task] = total;
}
)";

std::string conversion_kernel(const std::string& to, const std::string& from, const std::string& expression) {
  return "#include \"causeway/kernels/types.h\"\n"
         "extern \"C\" void convert(void* const* buffers, const int64_t* sizes, int64_t, void*) {\n  " +
         to + "* __restrict y = static_cast<" + to + "*>(buffers[0]);\n  const " + from +
         "* __restrict x = static_cast<const " + from +
         "*>(buffers[1]);\n  const int64_t count = sizes[0];\n"
         "  for (int64_t i = 0; i < count; ++i) y[i] = " +
         expression + ";\n}\n";
}

std::vector<float> random_floats(size_t count) {
  std::mt19937 generator(7);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(generator);
  return values;
}

// Launches `name` over buffers {out, in} and sizes {count}.
void launch(const CpuModule& module, const std::string& name, void* out, const void* in, int64_t count,
            int64_t tasks = 1) {
  CpuDevice device(2);
  void* const buffers[] = {out, const_cast<void*>(in)};
  const int64_t sizes[] = {count};
  device.launch({module.kernel(name), buffers, sizes, tasks, 0});
}

TEST(Compiler, SaxpyComputesOnEveryX86Level) {
  for (const Target& target : {host_target(), kBaseline}) {
    const CpuModule module(compile_module(kSaxpy, target));
    const std::vector<float> x = random_floats(1000);
    std::vector<float> y(1000, 1.0f);
    launch(module, "saxpy", y.data(), x.data(), 100, 10);
    for (size_t i = 0; i < y.size(); ++i) ASSERT_FLOAT_EQ(y[i], 1.0f + 2.0f * x[i]) << target.text() << " at " << i;
  }
}

TEST(Compiler, ProductsAreFusedWithSumsUnlessTheTextSaysOtherwise) {
  // (1 + 2^-12)^2 - 1: rounded by itself the product loses 2^-24.
  const std::string text =
      "extern \"C\" void kernel(void* const* buffers, const long* sizes, long task, void* scratch) {\n"
      "  const float* in = static_cast<const float*>(buffers[1]);\n"
      "  static_cast<float*>(buffers[0])[task] = in[0] * in[0] - in[1];\n}\n";
  const float in[] = {1.0f + 0x1p-12f, 1.0f};
  for (const bool separate : {false, true}) {
    const CpuModule module(compile_module((separate ? std::string(kSeparateRounding) : "") + text, host_target()));
    float out = 0;
    launch(module, "kernel", &out, in, 1);
    EXPECT_EQ(out, separate ? 0x1p-11f : 0x1p-11f + 0x1p-24f);
  }
}

TEST(Compiler, SumMatchesDoublePrecision) {
  const CpuModule module(compile_module(kSum, host_target()));
  const std::vector<float> x = random_floats(3 * 1001);
  std::vector<float> sums(3);
  launch(module, "sum", sums.data(), x.data(), 1001, 3);
  for (size_t task = 0; task < 3; ++task) {
    double expected = 0;
    for (size_t i = 0; i < 1001; ++i) expected += x[task * 1001 + i];
    EXPECT_NEAR(sums[task], expected, 2e-6 * std::abs(expected));
  }
}

TEST(Compiler, LoopsUseTheWholeVectorWidth) {
  EXPECT_THAT(compile_to_assembly(kSaxpy, kAvx512), testing::ContainsRegex("vfmadd[0-9]*ps.*zmm"));
  EXPECT_THAT(compile_to_assembly(kSum, kAvx512), testing::ContainsRegex("vaddps.*zmm"));
  Target narrow = kAvx512;
  narrow.vector_bytes = 32;
  EXPECT_THAT(compile_to_assembly(kSaxpy, narrow), testing::Not(HasSubstr("zmm")));
  const Target avx2{Target::Family::kX86, "x86-64-v3", {}, 32};
  EXPECT_THAT(compile_to_assembly(kSum, avx2), testing::ContainsRegex("vaddps.*ymm"));
}

TEST(Compiler, ConversionsVectorise) {
  const std::pair<const char*, const char*> kFromFloat[] = {
      {"bf16", "to_bf16(x[i])"}, {"f16", "to_f16(x[i])"}, {"f8e4m3", "to_f8e4m3(x[i])"}, {"f8e5m2", "to_f8e5m2(x[i])"}};
  for (const auto& [type, expression] : kFromFloat) {
    EXPECT_THAT(compile_to_assembly(conversion_kernel(type, "float", expression), kAvx512),
                testing::ContainsRegex("[xyz]mm[0-9]+, .*\\(%r[a-z0-9]+,%r[a-z0-9]+"))
        << type;
    EXPECT_THAT(compile_to_assembly(conversion_kernel("float", type, "to_float(x[i])"), kAvx512),
                testing::ContainsRegex("vmov[a-z0-9]+\t%[xyz]mm[0-9]+, .*\\(%r[a-z0-9]+,%r[a-z0-9]+"))
        << type;
  }
}

// The compiled conversion gives what the same header gives in this program (types_test checks that against the
// formats' definitions), here for all upper halves and a spread of lower halves.
TEST(Compiler, CompiledConversionsEqualTheHeaders) {
  std::vector<float> x;
  for (uint32_t upper = 0; upper < 0x10000; ++upper) {
    for (const uint32_t lower : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u}) {
      x.push_back(std::bit_cast<float>(upper << 16 | lower));
    }
  }
  const int64_t count = static_cast<int64_t>(x.size());
  std::vector<bf16> halves(x.size());
  launch(CpuModule(compile_module(conversion_kernel("bf16", "float", "to_bf16(x[i])"), host_target())), "convert",
         halves.data(), x.data(), count);
  std::vector<f8e4m3> bytes(x.size());
  launch(CpuModule(compile_module(conversion_kernel("f8e4m3", "float", "to_f8e4m3(x[i])"), host_target())), "convert",
         bytes.data(), x.data(), count);
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(halves[i].bits, to_bf16(x[i]).bits) << x[i];
    ASSERT_EQ(bytes[i].bits, to_f8e4m3(x[i]).bits) << x[i];
  }
}

TEST(Compiler, NanAndInfinityKeepTheirMeaning) {
  const CpuModule module(compile_module(
      conversion_kernel("int32_t", "float", "(x[i] != x[i]) + 2 * (x[i] - x[i] != 0.0f)"), host_target()));
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {1.0f, infinity, -infinity, std::nanf(""), 0.0f};
  std::vector<int32_t> y(x.size());
  launch(module, "convert", y.data(), x.data(), static_cast<int64_t>(x.size()));
  EXPECT_THAT(y, testing::ElementsAre(0, 2, 2, 3, 0));
}

TEST(Compiler, OnlyUnmangledFunctionsAreExported) {
  const CpuModule module(compile_module(R"(
int visible_nowhere(int x) { return x + 1; }
extern "C" void first(void* const*, const long*, long, void*) {}
extern "C" void second(void* const*, const long*, long, void*) {}
)",
                                        host_target()));
  EXPECT_NE(module.kernel("first"), nullptr);
  EXPECT_NE(module.kernel("second"), nullptr);
  for (const char* name : {"_Z15visible_nowherei", "third"}) {
    try {
      module.kernel(name);
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
      EXPECT_EQ(error.message(), fmt::format("the module has no kernel \"{}\"", name));
    }
  }
}

std::string message_of(const std::string& source, const Target& target, ErrorKind kind) {
  try {
    compile_module(source, target);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.message();
  }
  ADD_FAILURE() << "compiled: " << source;
  return "";
}

TEST(Compiler, ErrorsCarryTheDiagnostics) {
  EXPECT_THAT(message_of("int f() { return missing_name; }", kBaseline, ErrorKind::kInvalidArgument),
              HasSubstr("kernel.cpp:1:18: error: use of undeclared identifier 'missing_name'"));
  EXPECT_THAT(message_of("#include <stdio.h>\n", kBaseline, ErrorKind::kInvalidArgument),
              HasSubstr("'stdio.h' file not found"));
  EXPECT_THAT(message_of("#include \"/etc/passwd\"\n", kBaseline, ErrorKind::kInvalidArgument),
              HasSubstr("file not found"));
  // An error that only the back end can see.
  EXPECT_THAT(
      message_of("extern \"C\" void f() { asm(\"no_such_instruction\"); }", kBaseline, ErrorKind::kInvalidArgument),
      HasSubstr("no_such_instruction"));
}

TEST(Compiler, ManyModulesMayBeLoadedAtOnce) {
  std::vector<CpuModule> modules;
  for (int index = 0; index < 5; ++index) {
    const std::string source = conversion_kernel("int32_t", "int32_t", fmt::format("x[i] + {}", index));
    modules.emplace_back(compile_module(source, kBaseline));
  }
  for (int index = 0; index < 5; ++index) {
    const int32_t x = 40;
    int32_t y = 0;
    launch(modules[static_cast<size_t>(index)], "convert", &y, &x, 1);
    EXPECT_EQ(y, 40 + index);
  }
}

TEST(Compiler, SeveralThreadsCompileAtOnce) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([thread] {
      for (int repeat = 0; repeat < 3; ++repeat) {
        const std::string source = conversion_kernel("int32_t", "int32_t", fmt::format("x[i] + {}", thread));
        const CpuModule module(compile_module(source, host_target()));
        const int32_t x = 40;
        int32_t y = 0;
        launch(module, "convert", &y, &x, 1);
        EXPECT_EQ(y, 40 + thread);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Compiler, ImagesAreReproducible) { EXPECT_EQ(compile_module(kSum, kAvx512), compile_module(kSum, kAvx512)); }

TEST(KernelText, HoldsTheHeadersByIncludePath) {
  std::vector<std::string_view> paths;
  for (const KernelTextFile& file : kernel_text_files()) {
    paths.push_back(file.path);
    EXPECT_EQ(file.text.data()[file.text.size()], '\0');
  }
  EXPECT_TRUE(std::is_sorted(paths.begin(), paths.end()));
  EXPECT_THAT(paths, testing::Contains("causeway/kernels/types.h"));
}

}  // namespace
}  // namespace causeway::codegen
