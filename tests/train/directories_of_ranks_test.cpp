// Ranks whose directories are not the same ones, though they have the same names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <mutex>

#include "causeway/base/error.h"
#include "causeway/base/host_name.h"
#include "causeway/train/checkpoint/resume.h"
#include "causeway/train/checkpoint/shared_run_directory.h"
#include "tests/fixtures/temporary_directory.h"
#include "tests/train/training_ranks.h"

namespace causeway::train {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::SizeIs;

// What each rank throws.
std::vector<std::string> errors_of_ranks(const Recipe::MeshSizes& mesh, const std::function<void(int rank)>& body) {
  std::mutex mutex;
  std::vector<std::string> errors;
  on_ranks(mesh, [&] {
    std::string what;
    try {
      body(static_cast<int>(Context::current()->rank()));
    } catch (const ErrorOfAllRanks& error) {
      what = error.what();
    }
    const std::lock_guard lock(mutex);
    errors.push_back(what);
  });
  return errors;
}

TEST(DirectoriesOfRanks, OneThatIsNotSharedIsFoundBeforeAnythingIsDone) {
  const TemporaryDirectory first, other;
  const auto look = [&](const std::filesystem::path& of_rank_1) {
    return errors_of_ranks({.fsdp = 3}, [&](int rank) {
      require_shared_run_directory(Ranks(*Context::current()), rank == 1 ? of_rank_1 : first.path(),
                                   std::chrono::milliseconds(0));
    });
  };
  // Of a start that ended meanwhile.
  std::ofstream(first / ".seen-by-all-0123456789abcdef");
  EXPECT_THAT(look(first.path()), AllOf(SizeIs(3), Each("")));
  for (const auto& unlike : {other.path(), other / "absent"})
    EXPECT_THAT(
        look(unlike),
        AllOf(SizeIs(3), Each(AllOf(HasSubstr("rank 1 (on " + host_name() + ") does not see the run directory "),
                                    HasSubstr("of rank 0 (on " + host_name() + ")"),
                                    HasSubstr("that every machine of the run shares")))));
  EXPECT_TRUE(std::filesystem::is_empty(first.path()));
  EXPECT_TRUE(std::filesystem::is_empty(other.path()));
  EXPECT_THAT(look(first / ""), Each(""));
}

constexpr char kRecipeOfRanks[] = R"(name: small
model: {family: llama, vocabulary_size: 256, layers: 1, width: 8, heads: 1, ffn_width: 16, max_sequence_length: 8}
data: {path: data, sequence_length: 8}
train: {batch_size: 2}
)";

// Half of each would be trained on.
TEST(DirectoriesOfRanks, CheckpointsOfOneStepAndTwoRunsAreRefused) {
  const TemporaryDirectory directory;
  std::ofstream(directory / "text.bin", std::ios::binary) << std::string(2000, '\1');
  const TokenDataset dataset = TokenDataset::open(directory / "text.bin");
  const auto with_run = [&](const std::vector<std::string>& overrides, uint64_t seed,
                            const std::function<void(const RunParts&)>& work) {
    const Recipe recipe = parse_recipe(kRecipeOfRanks, "recipe", overrides);
    const auto model = LanguageModel::create(recipe.model, seed);
    TrainingStep step(*model, recipe);
    work({recipe, dataset, nullptr, *model, step});
  };
  std::vector<CheckpointEntry> saved;
  on_ranks({}, [&] {
    for (const uint64_t seed : {1, 2})
      with_run({"run_directory=" + (directory / std::to_string(seed)).string()}, seed,
               [&](const RunParts& run) { saved.push_back({5, save_run(run, {.step = 5}, {})}); });
  });
  const auto resume = [&](const std::vector<CheckpointEntry>& of_ranks) {
    return errors_of_ranks({.fsdp = 2}, [&](int rank) {
      with_run({"mesh.fsdp=2"}, 3, [&](const RunParts& run) {
        const auto resumed = resume_run({of_ranks[static_cast<size_t>(rank)]}, run);
        EXPECT_EQ(resumed->position.step, 5);
      });
    });
  };
  EXPECT_THAT(resume({saved[0], saved[0]}), AllOf(SizeIs(2), Each("")));
  EXPECT_THAT(resume(saved), AllOf(SizeIs(2), Each(AllOf(HasSubstr("rank 1 has another checkpoint in "),
                                                         HasSubstr("than rank 0: manifest "),
                                                         HasSubstr("Every rank must read the same files")))));
}

}  // namespace
}  // namespace causeway::train
