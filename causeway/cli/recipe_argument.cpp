#include "causeway/cli/recipe_argument.h"

#include <filesystem>
#include <string_view>

#include "causeway/base/error.h"
#include "causeway/bench/report/shipped_text.h"

namespace causeway::cli {
namespace {

constexpr std::string_view kDirectory = "recipes/", kExtension = ".yaml";

bool is_file(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) && !std::filesystem::is_directory(path, ignored);
}

}  // namespace

std::vector<std::string> shipped_recipe_names() {
  std::vector<std::string> names;
  for (const EmbeddedText& file : shipped_benchmark_files()) {
    std::string_view path = file.path;
    if (!path.starts_with(kDirectory) || !path.ends_with(kExtension)) continue;
    path.remove_prefix(kDirectory.size());
    path.remove_suffix(kExtension.size());
    names.emplace_back(path);
  }
  return names;
}

Recipe load_recipe_argument(const std::string& recipe, const std::vector<std::string>& overrides) {
  const bool is_path = recipe.find('/') != std::string::npos || recipe.ends_with(kExtension);
  if (is_path || is_file(recipe)) return load_recipe(recipe, overrides);
  const std::vector<std::string> names = shipped_recipe_names();
  for (const std::string& name : names) {
    if (name != recipe) continue;
    const std::string path = fmt::format("{}{}{}", kDirectory, name, kExtension);
    return parse_recipe(std::string(shipped_benchmark_text(path)), "recipe " + name, overrides);
  }
  const std::string nearest = nearest_name(recipe, names);
  throw Error(ErrorKind::kNotFound, "there is no such file, and no recipe of that name comes with the program", recipe,
              nearest.empty() ? fmt::format("Give the path of a YAML file, or one of {}.", fmt::join(names, ", "))
                              : fmt::format("Did you mean {}?", nearest));
}

}  // namespace causeway::cli
