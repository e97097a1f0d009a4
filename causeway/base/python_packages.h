// Libraries that vendors also ship inside Python packages.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace causeway {

// Existing files among `files` (relative to a folder of packages: "nvidia/nccl/lib/libnccl.so.2"), in the package
// folders of every Python 3 that a command line finds on the search path, then of those in /usr/local, /usr and
// /opt/conda. `path` is the search path, its folders separated by colons.
std::vector<std::string> python_package_files(std::span<const std::string> files, const std::string& path);
// With this process's search path.
std::vector<std::string> python_package_files(std::span<const std::string> files);

}  // namespace causeway
