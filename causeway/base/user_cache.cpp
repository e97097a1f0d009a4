#include "causeway/base/user_cache.h"

#include <cstdlib>

namespace causeway {
namespace {

// The XDG Base Directory Specification: a path that is not absolute is none.
std::filesystem::path absolute_path_in(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value == '/' ? std::filesystem::path(value) : std::filesystem::path();
}

}  // namespace

std::filesystem::path usual_cache_path() {
  if (const std::filesystem::path cache = absolute_path_in("XDG_CACHE_HOME"); !cache.empty()) return cache / "causeway";
  if (const std::filesystem::path home = absolute_path_in("HOME"); !home.empty()) return home / ".cache" / "causeway";
  return {};
}

UserCache open_user_cache(const std::string& name) {
  UserCache cache;
  const auto open_below = [&](const std::filesystem::path& path) {
    try {
      cache.directory = PrivateDirectory::create(path / name);
    } catch (const Error& error) {
      if (cache.problem.empty()) cache.problem = error.what();
    }
  };
  if (const std::filesystem::path usual = usual_cache_path(); !usual.empty()) {
    open_below(usual);
  } else {
    cache.problem = "neither XDG_CACHE_HOME nor HOME is the path of a directory";
  }
  if (cache.directory) return cache;
  if (const std::filesystem::path runtime = absolute_path_in("XDG_RUNTIME_DIR"); !runtime.empty())
    open_below(runtime / "causeway");
  return cache;
}

}  // namespace causeway
