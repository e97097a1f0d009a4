// The recipes that come with the program: each is valid, survives being printed, and has the model it is named for.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "causeway/model/experts.h"
#include "causeway/train/recipe/recipe.h"

namespace causeway::train {
namespace {

std::vector<std::filesystem::path> recipe_files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(CAUSEWAY_SOURCE_DIR) / "recipes"))
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

TEST(RecipeFiles, AreValidAndNamedAsTheirFiles) {
  for (const std::filesystem::path& file : recipe_files()) {
    const Recipe recipe = load_recipe(file, {});
    EXPECT_EQ(recipe.name, file.stem().string());
    EXPECT_FALSE(recipe.data.path.empty()) << file;
    const std::string text = recipe_text(recipe);
    EXPECT_EQ(recipe_text(parse_recipe(text, "printed", {})), text) << file;
  }
}

TEST(RecipeFiles, HaveThePublishedShapes) {
  // What the published layers, widths, heads and vocabularies come to; tied embeddings count once.
  const std::map<std::string, int64_t> published = {
      {"gpt2_124m", 124'439'808},     {"gpt2_1.5b", 1'557'611'200},
      {"llama3_8b", 8'030'261'248},   {"llama3_70b_4layers", 5'523'972'096},
      {"mistral_1b", 1'100'048'384},  {"mistral_7b", 7'241'732'096},
      {"mpt_1b", 1'311'213'568},      {"mpt_3b", 2'645'690'880},
      {"mpt_7b", 6'649'286'656},      {"mixtral_8x7b", 46'702'792'704},
      {"olmoe_1b_7b", 6'919'161'856}, {"qwen3_30b_a3b", 30'532'122'624},
  };
  std::map<std::string, int64_t> found;
  for (const std::filesystem::path& file : recipe_files()) {
    const Recipe recipe = load_recipe(file, {});
    if (published.contains(recipe.name)) found[recipe.name] = parameter_count(recipe.model);
  }
  EXPECT_EQ(found, published);
}

// Without the experts that a token does not go through.
TEST(RecipeFiles, HaveThePublishedActiveParameters) {
  const std::map<std::string, int64_t> published = {
      {"mixtral_8x7b", 12'879'925'248}, {"olmoe_1b_7b", 1'282'017'280}, {"qwen3_30b_a3b", 3'353'032'704}};
  std::map<std::string, int64_t> found;
  for (const std::filesystem::path& file : recipe_files()) {
    const Recipe recipe = load_recipe(file, {});
    if (const int64_t active = active_parameter_count(recipe.model); active != parameter_count(recipe.model))
      found[recipe.name] = active;
  }
  EXPECT_EQ(found, published);
}

}  // namespace
}  // namespace causeway::train
