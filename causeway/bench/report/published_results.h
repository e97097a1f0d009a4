// Results that others published (benchmarks/published.yaml): baselines to draw beside what was measured, never mixed
// with it.
#pragma once

#include <string>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::bench {

struct PublishedResult {
  std::string device;     // "H100"; says so where a part of a card is counted: "MI250X (per GCD)"
  std::string benchmark;  // as Measurement::benchmark
  std::string group;      // as Measurement::group
  std::string workload;   // as Measurement::workload, or its first words
  std::string dtype;      // empty: stands beside every dtype
  double size = 0;        // as Measurement::size; 0: none
  double value = 0;       // in `unit`, above 0
  std::string unit;       // as Measurement::unit, with " per device" for training
  std::string source;
  std::string date;  // "2024", "2024-12", "2024-12-22" or "undated"
  std::string tag;   // "primary": read at its source; "secondhand": quoted by a third party; "derived": worked out
  std::string note;  // how it was taken; may be empty
};

// Throws Error(kInvalidArgument) with the file, the line and what to do: not YAML, an unknown, missing or repeated key,
// a figure that is not above 0, a benchmark, unit, tag or date of another form.
std::vector<PublishedResult> parse_published_results(const std::string& yaml, const std::string& where);
const std::vector<PublishedResult>& shipped_published_results();

}  // namespace causeway::bench
