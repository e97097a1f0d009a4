#include "causeway/device/cpu/host_target.h"

#include <cpuid.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "causeway/base/error.h"
#include "causeway/base/thread_pool.h"

namespace causeway::device {
namespace {

struct CpuidRegisters {
  uint32_t eax = 0;
  uint32_t ebx = 0;
  uint32_t ecx = 0;
  uint32_t edx = 0;
};

// From the baseline up.
constexpr std::array<std::string_view, 4> kLevels = {"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};
constexpr std::array<int, 4> kVectorBytes = {16, 16, 32, 64};

// All zero when the processor does not have the leaf.
CpuidRegisters cpuid(uint32_t leaf, uint32_t subleaf = 0) {
  CpuidRegisters registers;
  __get_cpuid_count(leaf, subleaf, &registers.eax, &registers.ebx, &registers.ecx, &registers.edx);
  return registers;
}

bool bit(uint32_t word, int index) { return (word >> index & 1u) != 0; }

// XCR0: the register states that the operating system saves. Only meaningful when OSXSAVE is set.
uint64_t saved_register_states() {
  uint32_t low = 0;
  uint32_t high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<uint64_t>(high) << 32 | low;
}

// Linux hands out the large tile state only to processes that ask for it.
bool request_tile_permission() {
  constexpr int kRequestPermission = 0x1023;
  constexpr int kTileData = 18;
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

// Bit positions: Intel SDM volume 2A, CPUID; AMD APM volume 3, appendix E.
Target detect() {
  const CpuidRegisters basic = cpuid(1);
  const CpuidRegisters extended = cpuid(7);
  const CpuidRegisters extended_1 = cpuid(7, 1);
  const CpuidRegisters amd = cpuid(0x80000001);
  const uint64_t saved = bit(basic.ecx, 27) ? saved_register_states() : 0;
  const bool saves_avx = (saved & 0x6) == 0x6;
  const bool saves_avx512 = (saved & 0xe6) == 0xe6;
  const bool saves_tiles = (saved & 0x60000) == 0x60000;

  // SSE3, SSSE3, CMPXCHG16B, SSE4.1, SSE4.2, POPCNT, LAHF.
  const bool v2 = bit(basic.ecx, 0) && bit(basic.ecx, 9) && bit(basic.ecx, 13) && bit(basic.ecx, 19) &&
                  bit(basic.ecx, 20) && bit(basic.ecx, 23) && bit(amd.ecx, 0);
  // FMA, MOVBE, AVX, F16C, BMI1, AVX2, BMI2, LZCNT.
  const bool v3 = v2 && saves_avx && bit(basic.ecx, 12) && bit(basic.ecx, 22) && bit(basic.ecx, 28) &&
                  bit(basic.ecx, 29) && bit(extended.ebx, 3) && bit(extended.ebx, 5) && bit(extended.ebx, 8) &&
                  bit(amd.ecx, 5);
  // AVX-512 F, DQ, CD, BW, VL.
  const bool v4 = v3 && saves_avx512 && bit(extended.ebx, 16) && bit(extended.ebx, 17) && bit(extended.ebx, 28) &&
                  bit(extended.ebx, 30) && bit(extended.ebx, 31);

  Target target;
  target.family = Target::Family::kX86;
  target.processor = kLevels[v4 ? 3 : v3 ? 2 : v2 ? 1 : 0];
  target.vector_bytes = kVectorBytes[v4 ? 3 : v3 ? 2 : 0];
  target.parallel_units = available_processors();
  if (v3 && bit(extended.ecx, 8)) target.add_feature("gfni");
  if (!v4) return target;
  if (bit(extended.ecx, 11)) target.add_feature("avx512vnni");
  if (bit(extended.edx, 23)) target.add_feature("avx512fp16");
  if (bit(extended_1.eax, 5)) target.add_feature("avx512bf16");
  if (saves_tiles && bit(extended.edx, 24) && request_tile_permission()) {
    target.add_feature("amx-tile");
    if (bit(extended.edx, 22)) target.add_feature("amx-bf16");
    if (bit(extended.edx, 25)) target.add_feature("amx-int8");
  }
  return target;
}

}  // namespace

const Target& host_target() {
  static const Target target = detect();
  return target;
}

Target host_target_of_level(std::string_view level) {
  Target target = host_target();
  const auto own = std::ranges::find(kLevels, std::string_view(target.processor));
  const auto asked = std::ranges::find(kLevels, level);
  if (asked > own)
    throw Error(ErrorKind::kInvalidArgument,
                asked == kLevels.end()
                    ? fmt::format("there is no device 'cpu:{}': '{}' is no level of x86-64", level, level)
                    : fmt::format("this processor is {} and does not run kernels of {}", *own, level),
                "device", fmt::format("Write cpu, or cpu: and one of {}.", fmt::join(kLevels.begin(), own + 1, ", ")));
  if (asked == own) return target;
  target.processor = *asked;
  target.vector_bytes = kVectorBytes[static_cast<size_t>(asked - kLevels.begin())];
  std::erase_if(target.features,
                [&](const std::string& feature) { return feature != "gfni" || target.vector_bytes < 32; });
  return target;
}

std::string host_processor_name() {
  std::array<CpuidRegisters, 3> parts;
  for (uint32_t index = 0; index < parts.size(); ++index) parts[index] = cpuid(0x80000002 + index);
  std::string name(reinterpret_cast<const char*>(parts.data()), sizeof parts);
  name.resize(std::strlen(name.c_str()));
  const size_t first = name.find_first_not_of(' ');
  if (first == std::string::npos) return "unknown";
  return name.substr(first, name.find_last_not_of(' ') - first + 1);
}

}  // namespace causeway::device
