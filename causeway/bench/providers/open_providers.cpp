#include "causeway/bench/providers/open_providers.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>

#include "causeway/base/error.h"
#include "causeway/bench/choices.h"

namespace causeway::bench {
namespace {

struct Entry {
  std::string name;
  std::optional<Target::Family> family;  // nothing: any
  std::string library;                   // the name its file goes by; empty: it needs none
  std::function<std::unique_ptr<GemmProvider>(Device&, const std::string& file)> open;
};

const std::vector<Entry>& entries() {
  using Family = Target::Family;
  static const std::vector<Entry> table = {
      {"causeway", {}, "", [](Device& device, const std::string&) { return make_causeway_gemm(device); }},
      {"cublaslt", Family::kNvptx, "cublaslt",
       [](Device& device, const std::string& file) { return open_cublaslt(device, file); }},
      {"cublas", Family::kNvptx, "cublas", open_cublas},
      {"cublaslt-fast", Family::kNvptx, "cublaslt",
       [](Device& device, const std::string& file) { return open_cublaslt(device, file, true); }},
      {"hipblaslt", Family::kAmdgpu, "hipblaslt", open_hipblaslt},
      {"openblas", Family::kX86, "openblas", open_openblas},
      {"onednn", Family::kX86, "onednn", open_onednn},
  };
  return table;
}

const Entry& find(const std::string& name) {
  for (const Entry& entry : entries())
    if (entry.name == name) return entry;
  throw_unknown_choice("provider of GEMMs", name, "--provider", gemm_provider_names());
}

// Every file belongs to a library that some provider opens.
void check_libraries(const std::map<std::string, std::string>& libraries) {
  std::vector<std::string> known;
  for (const Entry& entry : entries())
    if (!entry.library.empty() && std::find(known.begin(), known.end(), entry.library) == known.end())
      known.push_back(entry.library);
  for (const auto& [name, file] : libraries)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw_unknown_choice("library that is opened", name, "--library", known);
}

}  // namespace

const std::vector<std::string>& gemm_provider_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> result;
    for (const Entry& entry : entries()) result.push_back(entry.name);
    return result;
  }();
  return names;
}

std::vector<std::unique_ptr<GemmProvider>> open_gemm_providers(Device& device, const std::vector<std::string>& names,
                                                               const std::map<std::string, std::string>& libraries,
                                                               std::vector<std::string>& skipped) {
  check_libraries(libraries);
  std::vector<const Entry*> wanted;
  for (const std::string& name : names) {
    const Entry* entry = &find(name);
    if (std::find(wanted.begin(), wanted.end(), entry) == wanted.end()) wanted.push_back(entry);
  }
  if (names.empty())
    for (const Entry& entry : entries())
      if (!entry.family || *entry.family == device.target().family) wanted.push_back(&entry);

  std::vector<std::unique_ptr<GemmProvider>> providers;
  for (const Entry* entry : wanted) {
    const auto file = libraries.find(entry->library);
    const bool named = file != libraries.end();
    try {
      providers.push_back(entry->open(device, named ? file->second : std::string()));
    } catch (const Error& error) {
      const bool absent = error.kind() == ErrorKind::kNotFound && !named;
      if (!absent && error.kind() != ErrorKind::kUnsupported) throw;
      skipped.push_back(fmt::format("{}: {}. {}", entry->name, error.message(), error.hint()));
    }
  }
  return providers;
}

}  // namespace causeway::bench
