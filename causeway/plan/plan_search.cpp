#include "causeway/plan/plan_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/base/thread_pool.h"
#include "causeway/device/offline/offline_device.h"
#include "causeway/device/open_device.h"
#include "causeway/plan/pipeline_plan.h"
#include "causeway/program/context.h"
#include "causeway/train/log/progress_line.h"
#include "causeway/train/step/recomputation.h"
#include "causeway/train/step/training_step.h"

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

// Of the first rank of the mesh: weights and two moments. What does not fit by these alone need not be traced. Without
// stages each layer has what the second has.
int64_t state_bytes(Recipe recipe, const Machine& machine, const Recipe::MeshSizes& sizes) {
  if (sizes.pp == 1 && recipe.model.layers > 2) {
    const int64_t layers = std::exchange(recipe.model.layers, 1);
    const int64_t one = state_bytes(recipe, machine, sizes);
    recipe.model.layers = 2;
    return one + (layers - 1) * (state_bytes(recipe, machine, sizes) - one);
  }
  recipe.mesh = sizes;
  if (sizes.pp == 1) recipe.train.pipeline_chunks = 1;
  const Mesh mesh = make_mesh(sizes);
  const auto device = std::make_shared<OfflineDevice>(parse_target(machine.target));
  const auto context = std::make_shared<Context>(device, ContextOptions{.mesh = mesh});
  const ContextScope scope(context);
  int64_t bytes = 0;
  const std::unique_ptr<LanguageModel> model =
      LanguageModel::create(recipe.model, train::part_of_stage(recipe, 0), std::nullopt);
  for (const Parameter& parameter : model->parameters()) bytes += 3 * parameter.tensor.local_bytes();
  return bytes;
}

// Of what was looked at, the mesh that needs least.
struct Least {
  int64_t bytes = 0;
  Recipe::MeshSizes mesh;

  void remember(int64_t other_bytes, const Recipe::MeshSizes& other) {
    if (bytes == 0 || other_bytes < bytes) *this = {other_bytes, other};
  }
};

class PlanSearch {
 public:
  PlanSearch(const Recipe& recipe, const Machine& machine) : recipe_(recipe), machine_(machine) {}

  std::vector<StepPlan> run(const std::vector<Recipe::MeshSizes>& meshes, const SearchObserver& progress) {
    std::vector<std::vector<StepPlan>> plans(meshes.size());
    std::vector<std::optional<StageLook>> looks(meshes.size());
    ThreadPool threads;
    threads.run(static_cast<int64_t>(meshes.size()), [&](int64_t task, int) {
      const auto i = static_cast<size_t>(task);
      if (progress != nullptr) {
        const std::lock_guard lock(mutex_);
        progress(tried_++, meshes.size());
      }
      const int64_t state = state_bytes(recipe_, machine_, meshes[i]);
      if (static_cast<double>(state) > machine_.memory_bytes) {
        const std::lock_guard lock(mutex_);
        least_state_.remember(state, meshes[i]);
      } else if (meshes[i].pp == 1) {
        plans[i] = plans_of(meshes[i], recipe_.train.batch_size);
      } else {
        looks[i] = first_that_fits(meshes[i]);
      }
    });
    std::map<int64_t, size_t> fastest;  // by stages
    for (size_t i = 0; i < meshes.size(); ++i) {
      if (!looks[i]) continue;
      const auto [entry, is_first] = fastest.try_emplace(meshes[i].pp, i);
      if (!is_first && looks[i]->seconds < looks[entry->second]->seconds) entry->second = i;
    }
    std::vector<size_t> chosen;
    for (const auto& [stages, i] : fastest) chosen.push_back(i);
    threads.run(static_cast<int64_t>(chosen.size()), [&](int64_t task, int) {
      const size_t i = chosen[static_cast<size_t>(task)];
      // Every stage has a micro-batch to work on; few sequences each, so that the ends of the pipeline are short.
      plans[i] = plans_of(meshes[i], kMostRowsOfStage);
    });
    std::vector<StepPlan> all;
    for (std::vector<StepPlan>& of_mesh : plans) std::move(of_mesh.begin(), of_mesh.end(), std::back_inserter(all));
    std::sort(all.begin(), all.end(),
              [](const StepPlan& a, const StepPlan& b) { return a.time.seconds < b.time.seconds; });
    return all;
  }

  // Of what was planned or looked at; and of weights and moments, where that was enough to know.
  const Least& least() const { return least_; }
  const Least& least_state() const { return least_state_; }

 private:
  Recipe candidate(const Recipe::MeshSizes& mesh, int64_t rows, RecomputePolicy policy) const {
    Recipe one = train::with_recomputation(recipe_, {policy});
    one.mesh = mesh;
    one.train.micro_batch_size = rows * mesh.dp * mesh.fsdp;
    if (mesh.pp == 1) one.train.pipeline_schedule = Recipe().train.pipeline_schedule;
    if (mesh.pp == 1) one.train.pipeline_chunks = 1;
    return one;
  }

  void remember(int64_t bytes, const Recipe::MeshSizes& mesh) {
    const std::lock_guard lock(mutex_);
    least_.remember(bytes, mesh);
  }

  // With a row each, and the least recomputation for which there is memory at a first look.
  std::optional<StageLook> first_that_fits(const Recipe::MeshSizes& mesh) {
    for (const RecomputePolicy policy : kRecomputePolicies) {
      const StageLook look = look_at_stages(candidate(mesh, 1, policy), machine_);
      if (look.may_fit(machine_.memory_bytes)) return look;
      remember(std::llround(look.bytes), mesh);
    }
    return std::nullopt;
  }

  // With 1, 2, 4, ... rows of a rank in a micro-batch, each with the least recomputation that fits.
  std::vector<StepPlan> plans_of(const Recipe::MeshSizes& mesh, int64_t most_rows) {
    std::vector<StepPlan> plans;
    const int64_t ranks_of_rows = mesh.dp * mesh.fsdp;
    bool fits = true;
    size_t policy = 0;  // more rows need no less recomputation
    for (int64_t rows = 1;
         fits && rows <= most_rows && recipe_.train.batch_size % (rows * ranks_of_rows * mesh.pp) == 0; rows *= 2) {
      fits = false;
      for (; policy < kRecomputePolicies.size() && !fits; policy += fits ? 0 : 1) {
        const Recipe one = candidate(mesh, rows, kRecomputePolicies[policy]);
        if (const StageLook look = look_at_stages(one, machine_); !look.may_fit(machine_.memory_bytes)) {
          remember(std::llround(look.bytes), mesh);
          continue;
        }
        StepPlan plan = plan_step(one, machine_, false);
        remember(plan.memory.total(), mesh);
        fits = plan.fits(machine_);
        if (fits) plans.push_back(std::move(plan));
      }
    }
    return plans;
  }

  const Recipe& recipe_;
  const Machine& machine_;
  std::mutex mutex_;
  size_t tried_ = 0;
  Least least_, least_state_;
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
  PlanSearch search(recipe, machine);
  std::vector<StepPlan> plans = search.run(meshes, progress);
  if (plans.empty()) {
    const bool is_state = search.least().bytes == 0;
    const Least& one = is_state ? search.least_state() : search.least();
    throw Error(ErrorKind::kResource,
                fmt::format("no mesh of size {} has memory for the step: the least is {} a device{}, on dp {}, fsdp "
                            "{}, cp {}, tp {}, pp {}, and {} has {}",
                            devices, train::format_bytes(static_cast<uint64_t>(one.bytes)),
                            is_state ? " for weights and moments alone" : "", one.mesh.dp, one.mesh.fsdp, one.mesh.cp,
                            one.mesh.tp, one.mesh.pp, machine.product,
                            train::format_bytes(static_cast<uint64_t>(machine.memory_bytes))),
                "-n", "Use more devices, or a shorter data.sequence_length.");
  }
  return plans;
}

}  // namespace causeway::plan
