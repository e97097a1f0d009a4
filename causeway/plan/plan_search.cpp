#include "causeway/plan/plan_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "causeway/base/byte_size.h"
#include "causeway/base/error.h"
#include "causeway/base/thread_pool.h"
#include "causeway/plan/pipeline_plan.h"
#include "causeway/plan/step_plan.h"
#include "causeway/train/recipe/moe_config.h"
#include "causeway/train/step/recomputation.h"
#include "causeway/train/step/trained_stages.h"

namespace causeway::plan {
namespace {

// Of a micro-batch.
constexpr int64_t kMostRowsOfStage = 4;
// From the least recomputation to the most.
constexpr std::array<RecomputePolicy, 3> kRecomputePolicies = {RecomputePolicy::kNone, RecomputePolicy::kSelective,
                                                               RecomputePolicy::kBlock};

std::vector<int64_t> divisors(int64_t number) {
  std::vector<int64_t> list;
  for (int64_t divisor = 1; divisor <= number; ++divisor)
    if (number % divisor == 0) list.push_back(divisor);
  return list;
}

// Stages from two nodes on, whose rows are then cut by dp alone.
std::vector<Recipe::MeshSizes> candidate_meshes(const Recipe& recipe, const Machine& machine, int64_t devices) {
  constexpr int64_t kLongSequence = 16384;
  const ModelConfig& model = recipe.model;
  const bool several_nodes = devices > machine.devices_per_node;
  std::vector<Recipe::MeshSizes> meshes;
  for (const int64_t pp : divisors(devices)) {
    if (pp > 1 && (!several_nodes || pp * recipe.train.pipeline_chunks > model.layers)) continue;
    for (const int64_t tp : divisors(devices / pp)) {
      if (tp > machine.devices_per_node || model.heads % tp || model.kv_heads % tp || model.ffn_width % tp) continue;
      for (const int64_t cp : divisors(devices / pp / tp)) {
        if ((cp > 1 && recipe.data.sequence_length < kLongSequence) || recipe.data.sequence_length % (cp * tp))
          continue;
        const int64_t rest = devices / pp / tp / cp;
        for (const int64_t fsdp : divisors(rest)) {
          const int64_t dp = rest / fsdp;
          if (fsdp > 1 && (pp > 1 || (dp > 1 && !several_nodes))) continue;
          if (recipe.train.batch_size % (dp * fsdp * pp) == 0)
            meshes.push_back({.dp = dp, .fsdp = fsdp, .cp = cp, .tp = tp, .pp = pp});
        }
      }
    }
  }
  return meshes;
}

// Of the first rank of the mesh: weights and what the optimizer keeps on the device at least. What does not fit by
// these alone need not be traced.
int64_t state_bytes(Recipe recipe, const Machine& machine, const Recipe::MeshSizes& sizes) {
  recipe.mesh = sizes;
  train::require_trained_first_piece(recipe);
  train::check_moe(recipe);
  const HeldBytes held = held_bytes(recipe, machine);
  const bool keeps_state = recipe.offload.optimizer == train::Offload::kFalse || sizes.pp > 1;
  return held.weights + (keeps_state ? held.optimizer : 0);
}

class PlanSearch {
 public:
  PlanSearch(const Recipe& recipe, const Machine& machine, std::vector<Recipe::MeshSizes> meshes,
             const SearchObserver& progress)
      : recipe_(recipe), machine_(machine), progress_(progress), tries_(meshes.size()) {
    for (size_t i = 0; i < meshes.size(); ++i) tries_[i].mesh = meshes[i];
  }

  std::vector<StepPlan> run() {
    ThreadPool threads;
    threads.run(static_cast<int64_t>(tries_.size()), [&](int64_t task, int) {
      Try& one = tries_[static_cast<size_t>(task)];
      try {
        one.state_bytes = state_bytes(recipe_, machine_, one.mesh);
      } catch (const Error& error) {
        // It cuts what the optimizer keeps as a whole, its first stage would train nothing, or it does not go together
        // with the model's experts.
        one.refused = error;
        return count_tried(1);
      }
      const bool may_fit = static_cast<double>(one.state_bytes) <= usable_bytes(recipe_, machine_);
      if (may_fit && one.mesh.pp == 1) add_plans(one, recipe_.train.batch_size);
      if (may_fit && one.mesh.pp > 1) look(one);
      if (!one.seconds) count_tried(1);
    });
    const auto is_refused = [](const Try& one) { return one.refused.has_value(); };
    if (!tries_.empty() && std::ranges::all_of(tries_, is_refused)) throw *tries_[0].refused;
    std::map<int64_t, std::vector<Try*>> by_stages;
    for (Try& one : tries_)
      if (one.seconds) by_stages[one.mesh.pp].push_back(&one);
    std::vector<std::vector<Try*>> alike;
    for (auto& [stages, those] : by_stages) alike.push_back(std::move(those));
    threads.run(static_cast<int64_t>(alike.size()), [&](int64_t task, int) {
      std::vector<Try*>& those = alike[static_cast<size_t>(task)];
      std::ranges::sort(those, {}, [](const Try* one) { return *one->seconds; });
      for (Try* one : those) {
        // Every stage has a micro-batch to work on; few sequences each, so that the ends of the pipeline are short.
        add_plans(*one, kMostRowsOfStage);
        if (!one->plans.empty()) break;
      }
      count_tried(those.size());
    });
    std::vector<StepPlan> all;
    for (Try& one : tries_) std::move(one.plans.begin(), one.plans.end(), std::back_inserter(all));
    std::sort(all.begin(), all.end(),
              [](const StepPlan& a, const StepPlan& b) { return a.time.seconds < b.time.seconds; });
    return all;
  }

  // "72.1 GiB a device, on dp 2, fsdp 1, cp 1, tp 2, pp 1": of the mesh that needs least of those that were planned or
  // looked at, or else by weights and optimizer state alone.
  std::string least() const {
    const bool is_state = std::ranges::all_of(tries_, [](const Try& one) { return one.bytes == 0; });
    const Try* least = nullptr;
    const auto bytes = [&](const Try& one) { return is_state ? one.state_bytes : one.bytes; };
    for (const Try& one : tries_)
      if (bytes(one) > 0 && (least == nullptr || bytes(one) < bytes(*least))) least = &one;
    const Recipe::MeshSizes& mesh = least->mesh;
    return fmt::format("{} a device{}, on dp {}, fsdp {}, cp {}, tp {}, pp {}", format_bytes(bytes(*least)),
                       is_state ? " for weights and optimizer state alone" : "", mesh.dp, mesh.fsdp, mesh.cp, mesh.tp,
                       mesh.pp);
  }

 private:
  struct Try {
    Recipe::MeshSizes mesh;
    int64_t state_bytes = 0;
    int64_t bytes = 0;              // the least that was planned or looked at; 0: nothing was
    std::optional<double> seconds;  // of stages that may fit, by a look
    std::vector<StepPlan> plans;
    std::optional<Error> refused;

    void needs(double more) {
      const int64_t rounded = std::llround(more);
      if (bytes == 0 || rounded < bytes) bytes = rounded;
    }
  };

  static bool is_open(const Recipe& recipe) {
    return recipe.offload.optimizer == train::Offload::kAuto || recipe.offload.activations == train::Offload::kAuto;
  }

  Recipe candidate(const Recipe::MeshSizes& mesh, int64_t rows, RecomputePolicy policy) const {
    Recipe one = train::with_recomputation(recipe_, {policy});
    one.mesh = mesh;
    one.train.micro_batch_size = rows * mesh.dp * mesh.fsdp;
    if (mesh.pp == 1) one.train.pipeline_schedule = Recipe().train.pipeline_schedule;
    if (mesh.pp == 1) one.train.pipeline_chunks = 1;
    // Stages keep all on the device (check_offload()). What is left open is weighed against computing again.
    if (mesh.pp > 1) one.offload = {};
    if (is_open(one)) one.train.recompute.reset();
    return one;
  }

  // With a row each, and the least recomputation for which there is memory at a first look.
  void look(Try& one) const {
    for (const RecomputePolicy policy : kRecomputePolicies) {
      const StageLook look = look_at_stages(candidate(one.mesh, 1, policy), machine_);
      one.needs(look.bytes);
      if (!look.may_fit(usable_bytes(recipe_, machine_))) continue;
      one.seconds = look.seconds;
      return;
    }
  }

  // With 1, 2, 4, ... rows of a rank in a micro-batch, each with the least recomputation that fits.
  void add_plans(Try& one, int64_t most_rows) const {
    const int64_t ranks_of_rows = one.mesh.dp * one.mesh.fsdp;
    bool fits = true;
    size_t policy = 0;  // more rows need no less recomputation
    for (int64_t rows = 1;
         fits && rows <= most_rows && recipe_.train.batch_size % (rows * ranks_of_rows * one.mesh.pp) == 0; rows *= 2) {
      fits = false;
      for (; policy < kRecomputePolicies.size() && !fits; policy += fits ? 0 : 1) {
        const Recipe tried = candidate(one.mesh, rows, kRecomputePolicies[policy]);
        if (const StageLook look = look_at_stages(tried, machine_); !look.may_fit(usable_bytes(recipe_, machine_))) {
          one.needs(look.bytes);
          continue;
        }
        StepPlan plan = plan_step(tried, machine_, false);
        one.needs(static_cast<double>(plan.memory.total()));
        fits = plan.fits(machine_);
        if (fits) one.plans.push_back(std::move(plan));
        if (is_open(tried)) break;
      }
    }
  }

  void count_tried(size_t more) {
    if (progress_ == nullptr) return;
    const std::lock_guard lock(mutex_);
    tried_ += more;
    progress_(tried_, tries_.size());
  }

  const Recipe& recipe_;
  const Machine& machine_;
  const SearchObserver& progress_;
  std::vector<Try> tries_;
  std::mutex mutex_;
  size_t tried_ = 0;
};

}  // namespace

std::vector<StepPlan> search_plans(const Recipe& recipe, const Machine& machine, int64_t devices,
                                   const SearchObserver& progress) {
  const std::vector<Recipe::MeshSizes> meshes = candidate_meshes(recipe, machine, devices);
  if (meshes.empty())
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("no mesh of size {} divides {} heads, a feed-forward width of {}, sequences of {} tokens "
                            "and a batch of {}",
                            devices, recipe.model.heads, recipe.model.ffn_width, recipe.data.sequence_length,
                            recipe.train.batch_size),
                "-n", "Choose a number of devices that divides train.batch_size.");
  PlanSearch search(recipe, machine, meshes, progress);
  std::vector<StepPlan> plans = search.run();
  if (plans.empty()) {
    throw Error(ErrorKind::kResource,
                fmt::format("no mesh of size {} has memory for the step: the least is {}, and {} has {}", devices,
                            search.least(), machine.product, format_bytes(std::llround(usable_bytes(recipe, machine)))),
                "-n", "Use more devices, or a shorter data.sequence_length.");
  }
  return plans;
}

}  // namespace causeway::plan
