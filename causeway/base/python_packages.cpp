#include "causeway/base/python_packages.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace causeway {
namespace {

namespace fs = std::filesystem;

// Installations by the folder that has "bin" and "lib" in it, a virtual environment's before its Python's own.
std::vector<fs::path> installations(const std::string& path) {
  std::vector<fs::path> found;
  std::istringstream folders(path);
  std::error_code ignored;
  for (std::string folder; std::getline(folders, folder, ':');)
    if (const fs::path program = fs::path(folder) / "python3"; program.is_absolute() && fs::exists(program, ignored))
      found.push_back(program.lexically_normal().parent_path().parent_path());
  for (const char* usual : {"/usr/local", "/usr", "/opt/conda"}) found.emplace_back(usual);
  return found;
}

}  // namespace

std::vector<std::string> python_package_files(std::span<const std::string> files, const std::string& path) {
  std::vector<std::string> found;
  std::error_code ignored;
  for (const fs::path& installation : installations(path)) {
    std::vector<fs::path> versions;
    for (const auto& entry : fs::directory_iterator(installation / "lib", ignored))
      if (entry.path().filename().string().starts_with("python3")) versions.push_back(entry.path());
    std::sort(versions.begin(), versions.end());
    for (const fs::path& version : versions)
      for (const char* packages : {"site-packages", "dist-packages"})
        for (const std::string& file : files) {
          const std::string whole = version / packages / file;
          if (fs::exists(whole, ignored) && std::find(found.begin(), found.end(), whole) == found.end())
            found.push_back(whole);
        }
  }
  return found;
}

std::vector<std::string> python_package_files(std::span<const std::string> files) {
  const char* path = std::getenv("PATH");
  return python_package_files(files, path != nullptr ? path : "");
}

}  // namespace causeway
