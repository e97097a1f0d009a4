// How export and import write weights, as the command line says it.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "causeway/graph/dtype.h"

namespace causeway::cli {

struct WeightOptions {
  std::string dtype;  // empty: as they are
  std::string most_bytes = "5G";
  bool overwrite = false;

  // Throw Error(kInvalidArgument) naming the option.
  std::optional<DType> parsed_dtype() const;
  uint64_t max_file_bytes() const;
};

// --dtype, --max-shard-size and --overwrite.
void add_weight_options(CLI::App& command, WeightOptions& options, const std::string& dtype_help);

}  // namespace causeway::cli
