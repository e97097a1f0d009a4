// The processor this program runs on, as a kernel target.
#pragma once

#include <string>

#include "causeway/device/target.h"

namespace causeway::device {

// Asks the processor (cpuid) and the operating system (which register state it saves). The processor is the highest
// x86-64 level met (v4, v3, v2 or the baseline); features are those a kernel may exploit beyond it: avx512bf16,
// avx512vnni, avx512fp16, amx-tile, amx-bf16, amx-int8, gfni. Vectors are 64 bytes wide with AVX-512, else 32 with
// AVX2, else 16. Where the processor has AMX, asks the kernel for permission to use the tiles, for the whole process.
// Computed once; thread-safe.
const Target& host_target();

// The processor's brand, e.g. "AMD EPYC 9354"; "unknown" when it does not say.
std::string host_processor_name();

}  // namespace causeway::device
