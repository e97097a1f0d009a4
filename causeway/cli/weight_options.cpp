#include "causeway/cli/weight_options.h"

#include "causeway/base/byte_size.h"
#include "causeway/base/error.h"

namespace causeway::cli {

std::optional<DType> WeightOptions::parsed_dtype() const {
  if (dtype.empty()) return std::nullopt;
  const std::optional<DType> parsed = parse_dtype(dtype);
  if (parsed == DType::kF32 || parsed == DType::kBF16 || parsed == DType::kF16) return parsed;
  throw Error(ErrorKind::kInvalidArgument, fmt::format("'{}' is no type of weights", dtype), "--dtype",
              "Choose f32, bf16 or f16.");
}

uint64_t WeightOptions::max_file_bytes() const {
  const int64_t bytes = parse_byte_size(most_bytes, "--max-shard-size");
  if (bytes > 0) return static_cast<uint64_t>(bytes);
  throw Error(ErrorKind::kInvalidArgument, "must be above 0", "--max-shard-size", "For example: 5G.");
}

void add_weight_options(CLI::App& command, WeightOptions& options, const std::string& dtype_help) {
  CLI::Option* dtype = command.add_option("--dtype", options.dtype, dtype_help);
  if (!options.dtype.empty()) dtype->capture_default_str();
  command.add_option("--max-shard-size", options.most_bytes, "Bytes of one file of weights at most, as 500M or 5G")
      ->capture_default_str();
  command.add_flag("--overwrite", options.overwrite, "Replace the model that the output directory holds");
}

}  // namespace causeway::cli
