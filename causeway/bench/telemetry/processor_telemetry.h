// The processor's telemetry, from the kernel's files.
#pragma once

#include <filesystem>
#include <memory>

#include "causeway/bench/telemetry/telemetry.h"

namespace causeway::bench {

// `system` and `processes` are where sysfs and procfs lie. The clock is the mean over the cores, of /proc/cpuinfo (a
// virtual machine shows the nominal one) or else cpufreq; the temperature is the hottest of the processor's sensors
// (hwmon, or else the thermal zones); power and energy are the packages' (RAPL). A core slowed for heat since the last
// read is throttling, and so is a control group's quota of processor time used up since then.
std::unique_ptr<TelemetryReader> open_processor_telemetry(const std::filesystem::path& system,
                                                          const std::filesystem::path& processes);

}  // namespace causeway::bench
