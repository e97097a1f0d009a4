// "causeway data inspect", a part of the command "data".
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "causeway/formats/dataset_manifest.h"

namespace causeway::cli {

void add_data_inspect_command(CLI::App& data);

// What stands around documents, as --json shows it.
nlohmann::ordered_json documents_json(const DocumentTokens& documents);

}  // namespace causeway::cli
