// What no emulator sees: the kernels of training steps, compiled for GPUs that are not here, use no more registers than
// there are, and as many as tests/golden/gpu_budgets.txt says (a change shows as a difference there), and the static
// checks of their code find nothing. To accept other figures:
// CAUSEWAY_UPDATE_GOLDEN=1 build/tests/train_tests --gtest_filter='*GpuGate*'. Layers are cut to one, or with adapters
// to two; all other sizes are the recipes'. AMD's figures are in the code objects; NVIDIA's need ptxas, and where that
// is not installed its kernels are only compiled to PTX. Another release of ptxas gives other figures, which are then
// not compared. What was not looked at makes the test one that is skipped.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>

#include "causeway/base/file.h"
#include "causeway/codegen/compile/kernel_cache.h"
#include "causeway/codegen/compile/kernel_resources.h"
#include "causeway/device/gpu_architecture.h"
#include "causeway/device/offline/offline_device.h"
#include "causeway/model/experts.h"
#include "causeway/program/context.h"
#include "causeway/program/kernel_library.h"
#include "causeway/program/program_resources.h"
#include "causeway/train/recipe/recipe.h"
#include "causeway/train/step/training_step.h"

namespace causeway::train {
namespace {

struct GateCase {
  std::string recipe, processor;
};
void PrintTo(const GateCase& gate_case, std::ostream* out) {
  *out << gate_case.recipe << " on " << gate_case.processor;
}

// Figures of one function of one kind of kernel, the greatest of all kernels that have it.
struct Budget {
  int registers = 0;
  int shared_bytes = 0;
  bool operator==(const Budget&) const = default;
};
using Budgets = std::map<std::string, Budget>;  // "dot kernel_run"

// tests/golden/gpu_budgets.txt: "RECIPE PROCESSOR KIND FUNCTION REGISTERS SHARED" in sorted lines, after a first line
// that names the release of ptxas that NVIDIA's figures are of.
class BudgetFile {
 public:
  BudgetFile() {
    std::ifstream file(path());
    std::getline(file, heading_);
    for (std::string line; std::getline(file, line);) lines_.insert(line);
  }

  static std::string path() { return CAUSEWAY_SOURCE_DIR "/tests/golden/gpu_budgets.txt"; }

  static std::string heading() { return kHeading + ptxas_release(); }

  // The release of ptxas that NVIDIA's figures are of, and of the one that is installed: "13.0"; empty without.
  std::string release_in_file() const { return heading_.substr(std::min(heading_.size(), kHeading.size())); }
  static std::string ptxas_release() {
    if (find_ptxas().empty()) return "";
    const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen((find_ptxas() + " --version").c_str(), "r"), ::pclose);
    std::string text(4096, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), pipe.get()));
    std::smatch match;
    return std::regex_search(text, match, std::regex("release ([0-9.]+)")) ? match[1].str() : "";
  }

  static std::set<std::string> lines_of(const GateCase& gate_case, const Budgets& budgets) {
    std::set<std::string> lines;
    for (const auto& [function, budget] : budgets)
      lines.insert(fmt::format("{} {} {} {} {}", gate_case.recipe, gate_case.processor, function, budget.registers,
                               budget.shared_bytes));
    return lines;
  }

  std::set<std::string> lines_of(const GateCase& gate_case) const {
    std::set<std::string> found;
    for (const std::string& line : lines_)
      if (line.starts_with(gate_case.recipe + " " + gate_case.processor + " ")) found.insert(line);
    return found;
  }

  void replace(const GateCase& gate_case, const std::set<std::string>& lines) {
    for (const std::string& line : lines_of(gate_case)) lines_.erase(line);
    lines_.insert(lines.begin(), lines.end());
    std::string text = (find_ptxas().empty() ? heading_ : heading()) + "\n";
    for (const std::string& line : lines_) text += line + "\n";
    write_file_atomically(path(), text);
  }

 private:
  inline static const std::string kHeading = "# registers and shared bytes; of NVIDIA by ptxas ";

  std::string heading_;
  std::set<std::string> lines_;
};

// Lines that only one of the two has, marked as diff marks them.
std::string difference(const std::set<std::string>& golden, const std::set<std::string>& now) {
  std::set<std::string> all = golden;
  all.insert(now.begin(), now.end());
  std::string text;
  for (const std::string& line : all)
    if (golden.contains(line) != now.contains(line)) text += (golden.contains(line) ? "- " : "+ ") + line + "\n";
  return text;
}

class GpuGate : public testing::TestWithParam<GateCase> {};

TEST_P(GpuGate, NoKernelSpillsAndBudgetsHold) {
  const std::string path = CAUSEWAY_SOURCE_DIR "/recipes/" + GetParam().recipe + ".yaml";
  // The first layer with adapters is unlike those behind it: no gradient goes further.
  const char* layers = load_recipe(path, {}).adapter.is_used() ? "model.layers=2" : "model.layers=1";
  const Recipe recipe =
      load_recipe(path, {layers, "train.batch_size=4", "train.micro_batch_size=4", "train.recompute=selective"});
  const Target target = gpu_target(GetParam().processor);
  const auto context = std::make_shared<Context>(std::make_shared<OfflineDevice>(target),
                                                 ContextOptions{.cache = std::make_shared<KernelCache>("")});
  const ContextScope scope(context);
  const std::unique_ptr<LanguageModel> model =
      recipe.adapter.is_used()
          ? LanguageModel::create(recipe.model, ModelPart(recipe.model.layers), new_weights(recipe))
          : LanguageModel::create(recipe.model, std::nullopt);
  TrainingStep step(*model, recipe);
  Program& program = step.main_step().prepare(step.main_arguments());
  ASSERT_GT(program.sources().size(), 20u);
  const bool is_nvidia = target.family == Target::Family::kNvptx;
  const bool has_figures = !is_nvidia || !find_ptxas().empty();
  Budgets budgets;
  for (const FunctionResources& function : program_resources(program, context->library())) {
    const std::string& source = program.sources()[function.source];
    EXPECT_LE(function.shared_bytes(), target.architecture().shared_bytes) << source;
    if (function.code)
      for (const CodeFinding& finding : function.code->findings)
        ADD_FAILURE() << function.function << " " << finding_text(finding, target) << "\n" << source;
    ASSERT_EQ(function.resources.has_value(), has_figures) << source;
    ASSERT_TRUE(function.code.has_value()) << source;
    if (!has_figures) continue;
    const KernelResources& kernel = *function.resources;
    Budget& budget = budgets[function.kind + " " + function.function];
    budget.registers = std::max(budget.registers, kernel.registers);
    budget.shared_bytes = std::max(budget.shared_bytes, function.shared_bytes());
    EXPECT_EQ(kernel.spill_bytes, 0) << function.kind << " " << kernel.kernel << "\n" << source;
    EXPECT_TRUE(kernel.exported) << kernel.kernel;
    // AMD's scalar registers spill to vector registers, not to memory.
    if (is_nvidia) EXPECT_TRUE(kernel.notes.empty()) << kernel.notes.front() << "\n" << source;
  }
  if (!has_figures) GTEST_SKIP() << "What ptxas makes of the kernels is not tested. " << how_to_get_ptxas();
  BudgetFile file;
  const std::set<std::string> now = BudgetFile::lines_of(GetParam(), budgets), golden = file.lines_of(GetParam());
  if (std::getenv("CAUSEWAY_UPDATE_GOLDEN") != nullptr) {
    file.replace(GetParam(), now);
  } else if (!is_nvidia || file.release_in_file() == BudgetFile::ptxas_release()) {
    EXPECT_TRUE(now == golden) << "registers or shared memory have changed (- tests/golden/gpu_budgets.txt, + now):\n"
                               << difference(golden, now)
                               << "To accept it: CAUSEWAY_UPDATE_GOLDEN=1 build/tests/train_tests "
                                  "--gtest_filter='*GpuGate*'";
  } else {
    GTEST_SKIP() << "Nothing spills, but registers are not compared: tests/golden/gpu_budgets.txt has those of ptxas "
                 << file.release_in_file() << ", and installed is " << BudgetFile::ptxas_release() << ".";
  }
}

// Every dense recipe on Hopper, whose kernels are the most; on the others the first of each family, told by the
// beginning of its name. Of recipes with experts, whose grouped GEMMs are portable, the first on all but Hopper: there
// one GEMM of a router spills, and where K has fewer slices than there are stages the static check takes an epilogue's
// shared memory for a stage (docs/experts.md).
std::vector<GateCase> gate_cases() {
  std::vector<std::string> recipes;
  for (const auto& file : std::filesystem::directory_iterator(CAUSEWAY_SOURCE_DIR "/recipes"))
    recipes.push_back(file.path().stem().string());
  std::sort(recipes.begin(), recipes.end());
  std::vector<GateCase> cases;
  std::set<std::string> families;
  for (const std::string& recipe : recipes) {
    const bool has_experts =
        expert_shape(load_recipe(CAUSEWAY_SOURCE_DIR "/recipes/" + recipe + ".yaml", {}).model).has_value();
    const bool is_first = families.insert(has_experts ? "experts" : recipe.substr(0, recipe.find('_'))).second;
    for (const GpuArchitecture& architecture : gpu_architectures())
      if (has_experts ? is_first && architecture.processor != "sm_90a" : is_first || architecture.processor == "sm_90a")
        cases.push_back({recipe, std::string(architecture.processor)});
  }
  return cases;
}

// Every product of a step in tf32 is one of warpgroups on Hopper, and attention multiplies by matrix instructions.
TEST(GpuGateOfTf32, WarpgroupsMultiplyWithoutSpills) {
  const Recipe recipe =
      load_recipe(CAUSEWAY_SOURCE_DIR "/recipes/gpt2_124m.yaml",
                  {"model.layers=1", "train.batch_size=4", "train.micro_batch_size=4", "train.precision=tf32"});
  const auto context = std::make_shared<Context>(std::make_shared<OfflineDevice>(gpu_target("sm_90a")),
                                                 ContextOptions{.cache = std::make_shared<KernelCache>("")});
  const ContextScope scope(context);
  const std::unique_ptr<LanguageModel> model = LanguageModel::create(recipe.model, std::nullopt);
  TrainingStep step(*model, recipe);
  Program& program = step.main_step().prepare(step.main_arguments());
  int products = 0, attentions = 0;
  for (const FunctionResources& function : program_resources(program, context->library())) {
    const bool attention = function.kind == "attention" || function.kind == "attention_gradient";
    if (function.kind != "dot" && !attention) continue;
    ++(attention ? attentions : products);
    const std::string& source = program.sources()[function.source];
    EXPECT_NE(source.find(attention ? "using Operand = tf32;" : "gemm_hopper.h"), std::string::npos) << source;
    if (!function.resources.has_value()) continue;
    EXPECT_EQ(function.resources->spill_bytes, 0) << source;
    EXPECT_TRUE(function.resources->notes.empty()) << function.resources->notes.front() << "\n" << source;
  }
  EXPECT_GT(products, 8);
  EXPECT_EQ(attentions, 3);
  if (find_ptxas().empty()) GTEST_SKIP() << "What ptxas makes of the kernels is not tested. " << how_to_get_ptxas();
}

// No recipe has heads of 256: those of Gemma 2, whose scores are soft-capped, in windows and without.
TEST(GpuGateOfWideHeads, GradientsAreWithoutSpills) {
  const Recipe recipe =
      load_recipe(CAUSEWAY_SOURCE_DIR "/recipes/llama3_8b.yaml",
                  {"model.family=gemma2", "model.layers=2", "model.head_dim=256", "model.sliding_window=1024",
                   "data.document_mask=false", "train.batch_size=4", "train.micro_batch_size=4"});
  const auto context = std::make_shared<Context>(std::make_shared<OfflineDevice>(gpu_target("sm_90a")),
                                                 ContextOptions{.cache = std::make_shared<KernelCache>("")});
  const ContextScope scope(context);
  const std::unique_ptr<LanguageModel> model = LanguageModel::create(recipe.model, std::nullopt);
  TrainingStep step(*model, recipe);
  Program& program = step.main_step().prepare(step.main_arguments());
  int functions = 0;
  for (const FunctionResources& function : program_resources(program, context->library())) {
    if (function.kind != "attention_gradient") continue;
    ++functions;
    const std::string& source = program.sources()[function.source];
    EXPECT_NE(source.find("attention_hopper_wide_gradient.h"), std::string::npos) << source;
    if (!function.resources.has_value()) continue;
    EXPECT_EQ(function.resources->spill_bytes, 0) << source;
    EXPECT_TRUE(function.resources->notes.empty()) << function.resources->notes.front() << "\n" << source;
  }
  EXPECT_EQ(functions, 2 * 2);
  if (find_ptxas().empty()) GTEST_SKIP() << "What ptxas makes of the kernels is not tested. " << how_to_get_ptxas();
}

INSTANTIATE_TEST_SUITE_P(Recipes, GpuGate, testing::ValuesIn(gate_cases()), [](const auto& test) {
  std::string name = test.param.recipe + "_" + test.param.processor;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

}  // namespace
}  // namespace causeway::train
