// The processor this program runs on, as a kernel target.
#pragma once

#include <string>
#include <string_view>

#include "causeway/device/target.h"

namespace causeway::device {

// Asks the processor (cpuid) and the operating system (which register state it saves). The processor is the highest
// x86-64 level met (v4, v3, v2 or the baseline); features are those a kernel may exploit beyond it: avx512bf16,
// avx512vnni, avx512fp16, amx-tile, amx-bf16, amx-int8, gfni. Vectors are 64 bytes wide with AVX-512, else 32 with
// AVX2, else 16. Where the processor has AMX, asks the kernel for permission to use the tiles, for the whole process.
// Computed once; thread-safe.
const Target& host_target();

// The same processor seen as one of a lower level ("x86-64-v3": AVX2), without the features beyond it: kernels are
// compiled as such a processor has them. The host's own level gives host_target(). Throws Error (kInvalidArgument) for
// what is no level, and for one that this processor does not have.
Target host_target_of_level(std::string_view level);

// The processor's brand, e.g. "AMD EPYC 9354"; "unknown" when it does not say.
std::string host_processor_name();

}  // namespace causeway::device
