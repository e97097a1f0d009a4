// The energy that the processor's packages have used, from the kernel's powercap files (Linux: Documentation/power/
// powercap; RAPL of Intel and AMD processors). Memory is not in it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::bench {

class RaplEnergy {
 public:
  // `system` is where sysfs lies. Packages whose counter this user may not read count as absent, and one absent package
  // makes the sum absent.
  explicit RaplEnergy(const std::filesystem::path& system);

  // Joules of all packages since construction. Counters wrap, some within minutes under load: exact as long as calls
  // are no further apart than that.
  std::optional<double> joules();

 private:
  struct Package {
    std::filesystem::path counter;
    uint64_t range = 0;  // microjoules; the counter wraps after it
    uint64_t last = 0;
    double total = 0;  // microjoules
  };
  std::vector<Package> packages_;
};

}  // namespace causeway::bench
