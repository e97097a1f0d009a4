// NVIDIA's management library as a source of telemetry (NVML API reference, "Device Queries").
#pragma once

#include <memory>
#include <string>

#include "causeway/bench/telemetry/telemetry.h"

namespace causeway::bench {

// The GPU at the PCI address or with the UUID `bus_id`; where that is empty, number `index` as NVML counts. Throws
// Error (kNotFound, kUnsupported) where the library or the GPU is missing or refuses.
std::unique_ptr<TelemetryReader> open_nvml(const std::string& library, int index, const std::string& bus_id);

}  // namespace causeway::bench
