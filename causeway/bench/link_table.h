// The link between each two ranks: which is slower than the others.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "causeway/bench/collectives_benchmark.h"
#include "causeway/bench/result.h"

namespace causeway::bench {

// Each pair of so many devices, sending to each other at the same time while the others rest; `bytes` one way.
std::vector<CollectiveCase> link_cases(int devices, DType dtype, int64_t bytes);

// GB/s one way between each two ranks, the median of the samples, as a table of ranks by ranks; below it the slowest
// link, and those that have less than half of the links' median. Measurements of other cases are passed over; empty
// where there are none of pairs.
std::string format_link_table(std::span<const Measurement> measurements);

}  // namespace causeway::bench
