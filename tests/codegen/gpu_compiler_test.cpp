// Kernel text compiled for GPUs, without one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/codegen/compile/compiler.h"
#include "causeway/codegen/compile/kernel_resources.h"
#include "causeway/device/cpu/cpu_device.h"
#include "causeway/device/cpu/cpu_module.h"
#include "causeway/device/gpu_architecture.h"

namespace causeway::codegen {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kKernel[] = R"(
#include "causeway/kernels/gpu/intrinsics.h"
CAUSEWAY_KERNEL(scale, 256, 2, 2, 1, 1) {
  const float* x = global_pointer<const float>(buffers[0]);
  float* y = global_pointer<float>(buffers[1]);
  const int64_t at = (static_cast<int64_t>(task) * 256 + thread_index()) * 4;
  if (at >= sizes[0]) return;
  float values[4];
  for (int i = 0; i < 4; ++i) values[i] = 2.0f * x[at + i];
  for (int i = 0; i < 4; ++i) y[at + i] = values[i];
}
)";

TEST(GpuCompiler, WritesPtxThatDriversOfCuda12Read) {
  const std::string ptx = compile_module(kKernel, gpu_target("sm_90a"));
  EXPECT_THAT(ptx, HasSubstr(".version 8.0"));
  EXPECT_THAT(ptx, HasSubstr(".target sm_90a"));
  EXPECT_THAT(ptx, HasSubstr(".visible .entry scale("));
  EXPECT_THAT(ptx, HasSubstr(".maxntid 256"));
  EXPECT_THAT(ptx, HasSubstr(".minnctapersm 2"));
  EXPECT_THAT(ptx, HasSubstr("ld.global.v4"));
  EXPECT_THAT(ptx, HasSubstr("st.global.v4"));
  EXPECT_THAT(ptx, testing::Not(HasSubstr(".local")));
  EXPECT_THAT(compile_module(kKernel, gpu_target("sm_80")), HasSubstr(".target sm_80"));
}

size_t occurrences(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// The first index is extended to 64 bits as one that is not negative, the others as signed ones.
TEST(GpuCompiler, NeighboursAreLoadedTogetherWhateverTheirIndicesWereExtendedBy) {
  const std::string text = R"(
#include "causeway/kernels/gpu/intrinsics.h"
CAUSEWAY_KERNEL(kernel, 256, 1, 2, 0, 0) {
  const auto* x = static_cast<const float*>(__builtin_assume_aligned(global_pointer<const float>(buffers[0]), 16));
  auto* y = global_pointer<int32_t>(buffers[1]);
  const int32_t first = (static_cast<int32_t>(task) * 256 + thread_index()) * 8;
  int32_t bits = 0;
#pragma clang loop unroll(full)
  for (int e = 0; e < 8; ++e) {
    int32_t rounded = 0;
    asm("cvt.rni.s32.f32 %0, %1;" : "=r"(rounded) : "f"(x[first + e]));
    bits = bits * 3 + rounded;
  }
  y[task * 256 + thread_index()] = bits;
}
)";
  for (const char* processor : {"sm_80", "sm_90a"}) {
    const std::string ptx = compile_module(text, gpu_target(processor));
    EXPECT_EQ(occurrences(ptx, "ld.global.v4.b32"), 2u) << ptx;
    EXPECT_EQ(occurrences(ptx, "ld.global"), 2u) << ptx;
  }
}

// From an address that is known only once it is known to be of shared memory.
TEST(GpuCompiler, NeighboursInSharedMemoryAreLoadedTogether) {
  const std::string text = R"(
#include "causeway/kernels/gpu/intrinsics.h"
CAUSEWAY_KERNEL(kernel, 256, 1, 1, 0, 0) {
  auto* y = global_pointer<uint32_t>(buffers[0]);
  const auto* row = reinterpret_cast<const uint16_t*>(shared_memory() + 256);
  block_barrier();
  uint32_t sum = 0;
#pragma clang loop unroll(full)
  for (int e = 0; e < 8; ++e) sum = sum * 3 + row[thread_index() * 8 + e];
  y[thread_index()] = sum;
}
)";
  const std::string ptx = compile_module(text, gpu_target("sm_90a"));
  EXPECT_EQ(occurrences(ptx, "ld.shared.v4.b32"), 1u) << ptx;
  EXPECT_EQ(occurrences(ptx, "ld.shared"), 1u) << ptx;
}

TEST(GpuCompiler, TheAddressOfATensorMapIsThatOfTheArgument) {
  const std::string ptx = compile_module(
      R"(#include "causeway/kernels/gpu/intrinsics.h"
CAUSEWAY_KERNEL(fetch, 128, 1, 1, 1, 2) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&maps[1]) : "memory");
})",
      gpu_target("sm_90a"));
  EXPECT_THAT(ptx, testing::Not(HasSubstr(".local")));
  EXPECT_THAT(ptx, HasSubstr("prefetch.tensormap"));
}

TEST(GpuCompiler, LaunchBoundsReachAmdsBackEnd) {
  for (const char* processor : {"gfx90a", "gfx942"}) {
    const std::string listing = compile_to_assembly(kKernel, gpu_target(processor));
    EXPECT_THAT(listing, HasSubstr(".protected\tscale"));
    EXPECT_THAT(listing, HasSubstr(".max_flat_workgroup_size: 256"));
    EXPECT_THAT(listing, HasSubstr("global_load_dwordx4"));
    EXPECT_THAT(listing, testing::Not(HasSubstr("hidden_")));  // arguments that the runtime would have to supply
  }
}

TEST(GpuCompiler, KernelsKnowHowManyBlocksWereLaunched) {
  constexpr char kText[] = R"(#include "causeway/kernels/gpu/intrinsics.h"
CAUSEWAY_KERNEL(count, 64, 1, 1, 0, 0) { global_pointer<int>(buffers[0])[task] = block_count(); })";
  for (const char* processor : {"sm_80", "sm_90a"})
    EXPECT_THAT(compile_module(kText, gpu_target(processor)), HasSubstr("%nctaid.x"));
  for (const char* processor : {"gfx90a", "gfx942"}) {
    const std::string listing = compile_to_assembly(kText, gpu_target(processor));
    EXPECT_THAT(listing, HasSubstr(".amdhsa_user_sgpr_dispatch_ptr 1"));
    EXPECT_THAT(listing, testing::Not(HasSubstr("hidden_")));
  }
}

TEST(GpuCompiler, CompilesForTheEmulator) {
  for (const char* processor : {"sm_80", "sm_90a", "gfx90a", "gfx942"}) {
    Target target = gpu_target(processor, true);
    EXPECT_THAT(compile_to_assembly(kKernel, target), testing::Not(HasSubstr("__tsan_read")));
    target.add_feature("checked");
    EXPECT_THAT(compile_to_assembly(kKernel, target), HasSubstr("__tsan_read"));
  }
}

// The callbacks of the instrumentation are the kernel text's own.
TEST(GpuCompiler, CheckedKernelsReportTheirAccesses) {
  constexpr char kText[] = R"(
#define CALLBACK extern "C" __attribute__((disable_sanitizer_instrumentation))
static int reads, writes;
CALLBACK void __tsan_init() {}
CALLBACK void __tsan_func_entry(void*) {}
CALLBACK void __tsan_func_exit() {}
CALLBACK void __tsan_read4(void*) { ++reads; }
CALLBACK void __tsan_write4(void*) { ++writes; }
extern "C" void copy(void* const* buffers, const long*, long, void*) {
  int* to = static_cast<int*>(__builtin_assume_aligned(buffers[0], 4));
  const int* from = static_cast<const int*>(buffers[1]);
  for (int i = 0; i < 10; ++i) to[i] = from[i];
}
CALLBACK void __tsan_read8(void*) {}
extern "C" __attribute__((disable_sanitizer_instrumentation)) void count(void* const* buffers, const long*, long, void*) {
  static_cast<int*>(buffers[0])[0] = reads;
  static_cast<int*>(buffers[0])[1] = writes;
})";
  Target target = gpu_target("sm_90a", true);
  target.add_feature("checked");
  const std::string image = compile_module(kText, target);
  EXPECT_THAT(image, HasSubstr(".debug_line"));
  const CpuModule module(image);
  CpuDevice device(1);
  std::vector<int> from(10, 7), to(10), counts(2);
  void* const buffers[] = {to.data(), from.data()};
  device.launch({module.kernel("copy"), buffers, {}, 1, 0});
  void* const results[] = {counts.data()};
  device.launch({module.kernel("count"), results, {}, 1, 0});
  EXPECT_EQ(to, from);
  EXPECT_THAT(counts, testing::ElementsAre(10, 10));
  EXPECT_THROW(module.kernel("__tsan_read4"), Error);  // two modules must not share them
}

TEST(GpuCompiler, RefusesWhatNoGpuHas) {
  const std::pair<const char*, const char*> kCalls[] = {
      {"extern \"C\" float sinf(float);", "sinf(1.0f * sizes[0])"},
      {"extern \"C\" float powf(float, float);", "powf(sizes[0], 2.5f)"},
      {"", "__builtin_tanhf(sizes[0])"},
      {"", "__builtin_exp(sizes[0])"}};
  const char* const kNames[] = {"sinf", "powf", "tanh", "exp"};
  for (const char* processor : {"sm_80", "sm_90a", "gfx90a", "gfx942"}) {
    for (size_t i = 0; i < std::size(kCalls); ++i) {
      try {
        compile_module(std::string("#include \"causeway/kernels/gpu/intrinsics.h\"\n") + kCalls[i].first +
                           "\nCAUSEWAY_KERNEL(wave, 64, 1, 1, 1, 0) { global_pointer<float>(buffers[0])[0] = " +
                           kCalls[i].second + "; }",
                       gpu_target(processor));
        ADD_FAILURE() << kNames[i] << " compiled for " << processor;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
        EXPECT_THAT(error.message(), testing::ContainsRegex(std::string("the kernel calls [a-z.0-9]*") + kNames[i] +
                                                            "[a-z.0-9]*, which no GPU has"));
      }
    }
  }
}

TEST(GpuCompiler, WhatTheBackEndCannotTranslateIsAnError) {
  // The first is an instruction of another machine, the second a broken module.
  for (const char* name : {"llvm.x86.sse2.pause", "llvm.ctpop.i64"}) {
    for (const char* processor : {"sm_90a", "gfx942"}) {
      const std::string text =
          std::string("#include \"causeway/kernels/gpu/intrinsics.h\"\nextern \"C\" void wrong() asm(\"") + name +
          "\");\nCAUSEWAY_KERNEL(stop, 64, 1, 1, 1, 0) { wrong(); }";
      try {
        compile_module(text, gpu_target(processor));
        ADD_FAILURE() << name << " compiled for " << processor;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
        EXPECT_THAT(error.message(), HasSubstr("the back end gave up: "));
      }
      EXPECT_FALSE(compile_module(kKernel, gpu_target(processor)).empty());
    }
  }
}

// The assembler moves votes that give a predicate below branches that some lanes do not take (nvidia.h).
TEST(GpuCompiler, VotesGiveTheBitsOfAllLanes) {
  const std::string text =
      "#include \"causeway/kernels/gpu/intrinsics.h\"\nCAUSEWAY_KERNEL(vote, 64, 1, 1, 1, 0) {\n"
      "int* out = global_pointer<int>(buffers[0]);\n"
      "const bool any = wave_any(out[thread_index()] != 0), all = wave_all(out[thread_index()] != 0);\n"
      "if (thread_index() != 0) return;\nif (any) out[64] = 1;\nif (all) out[65] = 1;\n}\n";
  for (const char* processor : {"sm_80", "sm_90a"}) {
    const std::string assembly = compile_to_assembly(text, gpu_target(processor));
    EXPECT_THAT(assembly, HasSubstr("vote.sync.ballot.b32"));
    EXPECT_THAT(assembly, testing::Not(HasSubstr("vote.sync.any")));
    EXPECT_THAT(assembly, testing::Not(HasSubstr("vote.sync.all")));
  }
}

TEST(GpuCompiler, TextKnowsItsArchitecture) {
  const std::pair<const char*, const char*> kExpected[] = {{"sm_80", "CAUSEWAY_NVIDIA == 80"},
                                                           {"sm_90a", "CAUSEWAY_NVIDIA == 90"},
                                                           {"gfx90a", "CAUSEWAY_AMD == 0x90a"},
                                                           {"gfx942", "CAUSEWAY_AMD == 0x942"}};
  for (const auto& [processor, condition] : kExpected) {
    const std::string text = std::string("static_assert(") + condition + ");\n";
    EXPECT_NO_THROW(compile_object(text, gpu_target(processor))) << processor;
    EXPECT_NO_THROW(compile_object(text + "static_assert(CAUSEWAY_EMULATOR);", gpu_target(processor, true)))
        << processor;
  }
}

TEST(GpuCompiler, ImagesAreReproducibleOnEveryThread) {
  std::vector<std::thread> threads;
  for (const char* processor : {"sm_80", "sm_90a", "gfx90a", "gfx942"}) {
    threads.emplace_back([processor] {
      const std::string image = compile_module(kKernel, gpu_target(processor));
      for (int repeat = 0; repeat < 3; ++repeat)
        EXPECT_EQ(compile_module(kKernel, gpu_target(processor)), image) << processor;
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(KernelResources, AreReadFromAmdCodeObjects) {
  const std::string text = std::string(kKernel) + R"(
CAUSEWAY_KERNEL(stacked, 1024, 1, 2, 1, 0) {
  volatile float local[64];
  for (int i = 0; i < 64; ++i) local[i] = global_pointer<float>(buffers[0])[i];
  global_pointer<float>(buffers[1])[0] = local[sizes[0]];
}
)";
  for (const char* processor : {"gfx90a", "gfx942"}) {
    const std::string image = compile_module(text, gpu_target(processor));
    const auto kernels = kernel_resources(image, gpu_target(processor));
    ASSERT_TRUE(kernels.has_value());
    ASSERT_EQ(kernels->size(), 2u);
    EXPECT_EQ((*kernels)[0].kernel, "scale");
    EXPECT_EQ((*kernels)[1].kernel, "stacked");
    for (const KernelResources& kernel : *kernels) {
      EXPECT_TRUE(kernel.exported) << kernel.kernel;
      EXPECT_GT(kernel.registers, 0);
      EXPECT_GT(kernel.scalar_registers, 0);
      EXPECT_EQ(kernel.spill_bytes, 0);
      EXPECT_THAT(kernel.notes, testing::IsEmpty());
    }
    EXPECT_EQ((*kernels)[0].stack_bytes, 0);
    EXPECT_GE((*kernels)[1].stack_bytes, 256);
    for (const size_t size : {size_t{0}, size_t{40}, image.size() / 2}) {
      try {
        kernel_resources(image.substr(0, size), gpu_target(processor));
        ADD_FAILURE() << "read " << size << " bytes";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
      }
    }
  }
}

// One block of 256 threads to a compute unit leaves a wave all 512 vector registers.
TEST(KernelResources, OneBlockOf256ThreadsMayUseEveryRegister) {
  const std::string text = R"(#include "causeway/kernels/gpu/intrinsics.h"
CAUSEWAY_KERNEL(wide, 256, 1, 2, 1, 0) {
  const float* x = global_pointer<const float>(buffers[0]) + thread_index();
  float sums[300] = {};
  for (int64_t k = 0; k < sizes[0]; ++k) {
    const float factor = x[k * 256];
#pragma clang loop unroll(full)
    for (int i = 0; i < 300; ++i) sums[i] = sums[i] * factor + i;
  }
  float* y = global_pointer<float>(buffers[1]) + thread_index() * 300;
#pragma clang loop unroll(full)
  for (int i = 0; i < 300; ++i) y[i] = sums[i];
})";
  const auto kernels = kernel_resources(compile_module(text, gpu_target("gfx942")), gpu_target("gfx942"));
  ASSERT_TRUE(kernels.has_value());
  EXPECT_GE((*kernels)[0].registers, 300);
  EXPECT_EQ((*kernels)[0].spill_bytes, 0);
  EXPECT_EQ((*kernels)[0].stack_bytes, 0);
}

TEST(KernelResources, AreReadFromPtxasWhereItIsInstalled) {
  const Target target = gpu_target("sm_90a");
  const auto kernels = kernel_resources(compile_module(kKernel, target), target);
  ASSERT_EQ(kernels.has_value(), !find_ptxas().empty());
  if (!kernels.has_value()) GTEST_SKIP() << "What ptxas reports is not looked at. " << how_to_get_ptxas();
  ASSERT_EQ(kernels->size(), 1u);
  EXPECT_EQ((*kernels)[0].kernel, "scale");
  EXPECT_GT((*kernels)[0].registers, 4);
  EXPECT_EQ((*kernels)[0].spill_bytes + (*kernels)[0].stack_bytes, 0);
  EXPECT_THAT((*kernels)[0].notes, testing::IsEmpty());
  try {
    kernel_resources("not PTX", target);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("ptxas refuses the kernel"));
  }
}

TEST(KernelResources, PtxasReportsAreRead) {
  const std::string serialized =
      "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to "
      "non wgmma instructions defining accumulator registers in the function 'product'";
  const std::string ignored = "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored";
  const std::vector<KernelResources> kernels = parse_ptxas_report(
      "ptxas info    : 0 bytes gmem\n" + serialized + "\n" + ignored +
      "\nptxas info    : Compiling entry function 'sum' for 'sm_90a'\n"
      "ptxas info    : Function properties for sum\n"
      "    256 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads\n"
      "ptxas info    : Used 32 registers, used 0 barriers, 256 bytes cumulative stack size, 1024 bytes smem\n"
      "ptxas info    : Compiling entry function 'product' for 'sm_90a'\n"
      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 168 registers, used 1 barriers\n");
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0], (KernelResources{.kernel = "sum",
                                         .registers = 32,
                                         .accumulation_registers = 0,
                                         .scalar_registers = 0,
                                         .shared_bytes = 1024,
                                         .spill_bytes = 12,
                                         .stack_bytes = 256,
                                         .exported = true,
                                         .notes = {ignored}}));
  EXPECT_EQ(kernels[1].registers, 168);
  EXPECT_THAT(kernels[1].notes, testing::ElementsAre(serialized, ignored));
}

TEST(KernelResources, AreUnknownOnProcessors) {
  EXPECT_FALSE(kernel_resources("", Target{}).has_value());
  EXPECT_FALSE(kernel_resources("", gpu_target("sm_90a", true)).has_value());
}

TEST(KernelResources, GiveTheBlocksThatFitOnAMultiprocessor) {
  const auto blocks = [](int registers, int threads, int shared, const char* processor, int scalar = 0) {
    return resident_blocks({.kernel = "", .registers = registers, .scalar_registers = scalar, .notes = {}}, threads,
                           shared, gpu_architecture(processor));
  };
  // 64 waves; 65,536 registers; 32 blocks; 164 and 228 KiB of shared memory, of which a block takes 1 KiB.
  EXPECT_EQ(blocks(32, 256, 0, "sm_90a"), 8);
  EXPECT_EQ(blocks(33, 256, 0, "sm_90a"), 6);
  EXPECT_EQ(blocks(168, 384, 0, "sm_90a"), 1);
  EXPECT_EQ(blocks(255, 256, 0, "sm_80"), 1);
  EXPECT_EQ(blocks(16, 32, 0, "sm_80"), 16);
  EXPECT_EQ(blocks(16, 128, 40 * 1024, "sm_80"), 4);
  EXPECT_EQ(blocks(16, 128, 40 * 1024, "sm_90a"), 5);
  EXPECT_EQ(blocks(16, 128, 227 * 1024, "sm_90a"), 1);
  // Four units of 512 vector registers to a lane, of at most 8 waves; 64 KiB.
  EXPECT_EQ(blocks(64, 256, 0, "gfx942"), 8);
  EXPECT_EQ(blocks(65, 256, 0, "gfx942"), 7);
  EXPECT_EQ(blocks(64, 256, 0, "gfx942", 102), 7);
  EXPECT_EQ(blocks(512, 256, 0, "gfx90a"), 1);
  EXPECT_EQ(blocks(24, 128, 0, "gfx90a"), 16);
  EXPECT_EQ(blocks(24, 64, 0, "gfx90a"), 32);
  EXPECT_EQ(blocks(24, 128, 20 * 1024, "gfx90a"), 3);
}

TEST(GpuCompiler, NamesTheKnownArchitectures) {
  try {
    gpu_target("sm_90");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("Did you mean sm_90a?"));
    EXPECT_THAT(error.what(), HasSubstr("gfx942"));
  }
}

}  // namespace
}  // namespace causeway::codegen
