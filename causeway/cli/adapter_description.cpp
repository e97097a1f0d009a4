#include "causeway/cli/adapter_description.h"

#include <fmt/format.h>

namespace causeway::cli {

std::string describe_adapter(const train::StoredAdapter& adapter, double weight) {
  const AdapterConfig& config = adapter.config();
  return fmt::format("{}{}: {} of rank {} (scale {:g}) on {} matrices ({}), of {}{}",
                     weight == 1 ? "" : fmt::format("{:g} x ", weight), adapter.directory().string(), config.kind,
                     config.rank, config.scale(), adapter.matrices().size(), config.targets,
                     adapter.base().empty() ? "a base that it does not name" : adapter.base(),
                     config.has_quantized_base() ? fmt::format(" in {}", config.base) : "");
}

nlohmann::ordered_json adapter_json(const train::StoredAdapter& adapter, double weight) {
  const AdapterConfig& config = adapter.config();
  return {{"directory", adapter.directory().string()},
          {"weight", weight},
          {"kind", name_of(config.kind)},
          {"rank", config.rank},
          {"scale", config.scale()},
          {"targets", config.targets},
          {"matrices", adapter.matrices()},
          {"identity", adapter.identity()},
          {"base", adapter.base()},
          {"base_identity", adapter.base_identity()},
          {"base_weights", name_of(config.base)}};
}

}  // namespace causeway::cli
