#include "causeway/bench/telemetry/rapl.h"

#include "causeway/base/system_files.h"

namespace causeway::bench {

namespace fs = std::filesystem;

RaplEnergy::RaplEnergy(const fs::path& system) {
  // "intel-rapl:0" is a package, on AMD too; "intel-rapl:0:0" a part of one; "intel-rapl-mmio:0" another view of it.
  for (const fs::path& zone : entries_starting_with(system / "class" / "powercap", "intel-rapl:")) {
    if (!read_first_line(zone / "name").value_or("").starts_with("package")) continue;
    const std::optional<uint64_t> range = read_count(zone / "max_energy_range_uj");
    const std::optional<uint64_t> now = read_count(zone / "energy_uj");
    if (!range || !now) {
      packages_.clear();
      return;
    }
    packages_.push_back({zone / "energy_uj", *range, *now, 0});
  }
}

std::optional<double> RaplEnergy::joules() {
  if (packages_.empty()) return std::nullopt;
  double microjoules = 0;
  for (Package& package : packages_) {
    const std::optional<uint64_t> now = read_count(package.counter);
    if (!now) return std::nullopt;
    const uint64_t used = *now >= package.last ? *now - package.last : *now + package.range - package.last;
    package.total += static_cast<double>(used);
    package.last = *now;
    microjoules += package.total;
  }
  return microjoules / 1e6;
}

}  // namespace causeway::bench
