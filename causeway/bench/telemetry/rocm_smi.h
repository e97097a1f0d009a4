// AMD's ROCm SMI as a source of telemetry (rocm_smi.h of ROCm 5 to 7). Never run on an AMD GPU: tested on a stand-in.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "causeway/bench/telemetry/telemetry.h"

namespace causeway::bench {

// The GPU at the PCI address `bus_id`; where that is empty, number `index` as ROCm SMI counts. On cards of two dies
// (MI250X) the first die tells power and energy of both, the second none. Throttling is told by the MI200 series alone.
// Throws Error (kNotFound, kUnsupported) where the library or the GPU is missing or refuses.
std::unique_ptr<TelemetryReader> open_rocm_smi(std::span<const std::string> libraries, int index,
                                               const std::string& bus_id);

}  // namespace causeway::bench
