// The providers of GEMMs by the names that a user gives.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "causeway/bench/providers/gemm_provider.h"

namespace causeway::bench {

// "causeway", "cublaslt", "cublas", "cublaslt-fast", "hipblaslt", "openblas", "onednn".
const std::vector<std::string>& gemm_provider_names();

// Those of the names that are here, in the order given and each once; no names: all that fit the device, Causeway
// first. `libraries` has files by provider's name ("cublaslt-fast" uses that of "cublaslt"); others are looked for
// where they usually are. What is not installed or does not run on this device is left out, with a sentence in
// `skipped` that says so and what to install. Throws Error(kInvalidArgument) for unknown names, with the nearest, and
// Error(kNotFound) for a file of `libraries` that cannot be opened.
std::vector<std::unique_ptr<GemmProvider>> open_gemm_providers(Device& device, const std::vector<std::string>& names,
                                                               const std::map<std::string, std::string>& libraries,
                                                               std::vector<std::string>& skipped);

}  // namespace causeway::bench
