// What the benchmark lab ships inside the program: the report page's parts and the files under benchmarks/ that hold
// published results and hourly costs.
#pragma once

#include <span>

#include "causeway/base/embedded_text.h"
#include "causeway/namespaces.h"

namespace causeway::bench {

// Sorted by path. Valid for the life of the program.
std::span<const EmbeddedText> shipped_benchmark_files();

// The text of the shipped file at `path`, e.g. "benchmarks/costs.yaml", which must exist.
std::string_view shipped_benchmark_text(std::string_view path);

}  // namespace causeway::bench
