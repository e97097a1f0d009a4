#include "causeway/bench/train_benchmark.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <random>

#include "causeway/base/byte_size.h"
#include "causeway/base/error.h"
#include "causeway/bench/choices.h"
#include "causeway/bench/gradient_agreement.h"
#include "causeway/bench/report/shipped_text.h"
#include "causeway/bench/statistics.h"
#include "causeway/communicator/rank_progress.h"
#include "causeway/device/gpu_architecture.h"
#include "causeway/model/experts.h"
#include "causeway/train/observation/replica_check.h"
#include "causeway/train/ranks.h"
#include "causeway/train/recipe/recipe.h"
#include "causeway/train/step/recomputation.h"
#include "causeway/train/step/training_step.h"

namespace causeway::bench {
namespace {

constexpr int kWarmUpSteps = 3;
constexpr int kTrainRounds = 10;
constexpr int kLeastSteps = 10;

Recipe recipe_of(const TrainCase& train_case, int64_t micro_batch) {
  std::vector<std::string> overrides = train_case.overrides;
  for (const std::string& key : {std::string("train.batch_size"), std::string("train.micro_batch_size")})
    overrides.push_back(fmt::format("{}={}", key, micro_batch * train_case.mesh.row_groups()));
  for (const auto& [axis, size] : train_case.mesh.axes()) overrides.push_back(fmt::format("mesh.{}={}", axis, size));
  overrides.push_back("train.precision=" + train_case.precision);
  return shipped_benchmark_recipe(train_case.recipe, std::move(overrides));
}

struct Prepared {
  Recipe recipe;
  std::unique_ptr<TrainingStep> step;
  StepCost cost;
};

// Of one rank: weights, what the optimizer keeps, and every layer's input in 16 bits: what a step needs whatever is
// computed again. Known without compiling one.
double least_bytes_of_training(const Recipe& recipe) {
  const auto tokens = static_cast<double>(recipe.train.micro_batch_size * recipe.data.sequence_length);
  const int64_t parameters = parameter_count(recipe.model);
  // Not every axis cuts all of it.
  return (4.0 * static_cast<double>(parameters) +
          static_cast<double>(find_optimizer(recipe.optimizer.name).least_state_bytes(parameters, recipe.optimizer)) +
          2.0 * tokens * static_cast<double>(recipe.model.layers * recipe.model.width)) /
         static_cast<double>(recipe.mesh.ranks());
}

bool lies_in_halves(const LanguageModel& model) {
  return std::any_of(model.parameters().begin(), model.parameters().end(),
                     [](const Parameter& parameter) { return parameter.tensor.lies_in_halves(); });
}

// The largest micro-batch that fits every rank, or null with the reason why none does.
std::unique_ptr<Prepared> prepare(const Ranks& ranks, const TrainCase& train_case,
                                  std::unique_ptr<LanguageModel>& model, std::string& reason) {
  const int64_t memory = std::ranges::min(ranks.gather_numbers(Context::current()->device().memory_limit()));
  const auto limit = memory > 0 ? static_cast<double>(memory) : std::numeric_limits<double>::infinity();
  for (int64_t micro_batch = train_case.micro_batch; micro_batch > 0; micro_batch /= 2) {
    auto prepared = std::make_unique<Prepared>();
    prepared->recipe = recipe_of(train_case, micro_batch);
    double needed = least_bytes_of_training(prepared->recipe);
    const char* how = "needs more than";
    if (needed <= kMostOfMemory * limit) {
      try {
        // Weights that lie as this precision's steps have them.
        const WeightStorage storage = weight_storage(prepared->recipe);
        ranks.together([&] {
          if (model == nullptr || !(model->config() == prepared->recipe.model) ||
              lies_in_halves(*model) != (storage == WeightStorage::kHalves)) {
            model.reset();
            model = LanguageModel::create(prepared->recipe.model, uint64_t{1}, storage);
          }
          prepared->step = std::make_unique<TrainingStep>(*model, prepared->recipe);
        });
        prepared->step->fit_memory(ranks);
        ranks.together([&] { prepared->cost = prepared->step->cost(); });
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kResource) throw;
        // Weights and optimizer state alone are too much, whatever the micro-batch.
        reason = error.what();
        return nullptr;
      }
      needed = static_cast<double>(std::ranges::max(ranks.gather_numbers(prepared->cost.total_bytes())));
      if (needed <= kMostOfMemory * limit) return prepared;
      how = "needs";
    }
    reason = fmt::format("{} {} with a micro-batch of {}, and there are {}", how, format_bytes(needed), micro_batch,
                         format_bytes(limit));
    if (train_case.exact_batch) return nullptr;
  }
  return nullptr;
}

}  // namespace

std::vector<TrainCase> standard_train_cases(const Device& device) {
  if (!device.target().is_gpu())
    return {{"Shakespeare Llama", "shakespeare", {}, 16, "bf16"}, {"GPT-2 124M", "gpt2_124m", {}, 1, "bf16"}};
  std::vector<TrainCase> cases = {
      {"GPT-2 124M", "gpt2_124m", {}, 32, "bf16"},
      {"GPT 1.5B", "gpt2_1.5b", {}, 28, "bf16"},
      {"Llama 70B, 4 layers", "llama3_70b_4layers", {"data.sequence_length=4096"}, 8, "bf16"},
      {"Llama 3 8B", "llama3_8b", {"data.sequence_length=4096"}, 4, "bf16"},
      {"Mistral 7B", "mistral_7b", {"data.sequence_length=8192", "model.sliding_window=1024"}, 2, "bf16"},
  };
  if (!device.target().architecture().has_f8_matrix) return cases;
  // Beside each other, so that a model's weights are drawn once.
  for (size_t i = 1; i < cases.size(); i += 2) {
    TrainCase narrow = cases[i];
    narrow.precision = "fp8";
    cases.insert(cases.begin() + static_cast<ptrdiff_t>(i) + 1, narrow);
  }
  return cases;
}

std::vector<TrainCase> choose_train_cases(const TrainChoice& choice, const Device& device,
                                          std::vector<std::string>& skipped) {
  const std::vector<TrainCase> standard = standard_train_cases(device);
  std::vector<std::string> models;
  for (const TrainCase& one : standard)
    if (std::find(models.begin(), models.end(), one.recipe) == models.end()) models.push_back(one.recipe);
  for (const std::string& model : choice.models)
    choose("model of this benchmark on this device", model, "--model", models);
  for (const std::string& precision : choice.precisions)
    choose("precision of training", precision, "--precision", names_of<Precision>());
  if (choice.micro_batch && *choice.micro_batch < 1)
    throw Error(ErrorKind::kInvalidArgument, fmt::format("a micro-batch of {} has no sequence", *choice.micro_batch),
                "--batch", "Give a number of sequences from 1.");
  const auto chosen = [](const std::vector<std::string>& names, const std::string& name) {
    return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
  };
  const auto multiplies = [&](const std::string& precision) {
    const Precision known = value_named<Precision>(precision).value();
    if (known == Precision::kBf16 || known == Precision::kF32) return true;
    if (!device.target().is_gpu()) return false;
    const GpuArchitecture& architecture = device.target().architecture();
    if (known == Precision::kFp8Block) return architecture.preferred_sizes.f8_blocks;
    return known == Precision::kFp8 ? architecture.has_f8_matrix : architecture.has_tf32_matrix;
  };

  std::vector<TrainCase> cases;
  const auto add = [&](TrainCase one) {
    one.mesh = choice.mesh;
    if (choice.micro_batch) {
      one.micro_batch = *choice.micro_batch;
      one.exact_batch = true;
    }
    cases.push_back(std::move(one));
  };
  if (choice.precisions.empty()) {
    for (const TrainCase& one : standard)
      if (chosen(choice.models, one.recipe)) add(one);
    return cases;
  }
  std::vector<std::string> multiplied;
  for (const std::string& precision : choice.precisions) {
    if (multiplies(precision)) {
      multiplied.push_back(precision);
    } else {
      skipped.push_back(
          fmt::format("training in {}: {} has no instructions that multiply it", precision, device.name()));
    }
  }
  for (TrainCase one : standard) {
    if (one.precision != "bf16" || !chosen(choice.models, one.recipe)) continue;
    for (const std::string& precision : multiplied) {
      one.precision = precision;
      add(one);
    }
  }
  return cases;
}

Recipe::MeshSizes parse_benchmark_mesh(const std::vector<std::string>& axes, int processes) {
  Recipe::MeshSizes mesh;
  if (axes.empty()) mesh.dp = processes;
  for (const std::string& text : axes) {
    const size_t equals = std::min(text.find('='), text.size());
    const std::string name = text.substr(0, equals), size_text = text.substr(std::min(equals + 1, text.size()));
    const std::optional<MeshAxisId> axis = value_named<MeshAxisId>(name);
    if (axis == MeshAxisId::kPp)
      throw Error(ErrorKind::kInvalidArgument, "steps of stages are not timed here", "--mesh",
                  "Time them with causeway train: metrics.jsonl has tokens_per_second.");
    if (!axis) {
      std::vector<std::string> known = names_of<MeshAxisId>();
      std::erase(known, name_of(MeshAxisId::kPp));
      throw_unknown_choice("axis of a mesh", name, "--mesh", known);
    }
    int64_t size = 0;
    const auto [end, error] = std::from_chars(size_text.data(), size_text.data() + size_text.size(), size);
    if (error != std::errc() || end != size_text.data() + size_text.size() || size < 1)
      throw Error(ErrorKind::kInvalidArgument, fmt::format("'{}' does not say how many ranks", text), "--mesh",
                  "Write an axis and a number: --mesh fsdp=4.");
    mesh.size(*axis) = size;
  }
  return mesh;
}

Recipe shipped_benchmark_recipe(const std::string& name, std::vector<std::string> overrides) {
  const std::string path = "recipes/" + name + ".yaml";
  // Documents are a property of data; random tokens have none.
  overrides.emplace_back("data.packing=windows");
  overrides.emplace_back("data.document_mask=false");
  return parse_recipe(std::string(shipped_benchmark_text(path)), path, overrides);
}

FlopConventions flop_conventions(const ModelConfig& config, int64_t sequence_length, double density) {
  const auto parameters = static_cast<double>(active_parameter_count(config));
  const auto embedding = static_cast<double>(config.vocabulary_size * config.width);
  const double attention =
      12.0 * static_cast<double>(config.layers * config.width) * static_cast<double>(sequence_length);
  // A tied embedding is the output layer's weight too: it multiplies.
  const double multiplying = config.tie_embeddings ? parameters : parameters - embedding;
  return {6 * multiplying + attention * density, 6 * multiplying + attention};
}

namespace {

// What the rate comes to by each convention.
void add_figures(Measurement& m, const Prepared& prepared, const FlopConventions& flops, const std::string& precision,
                 const std::optional<DevicePeak>& peak) {
  const Recipe& recipe = prepared.recipe;
  const auto devices = static_cast<double>(recipe.mesh.ranks());
  const double rate = headline(m) / devices;
  const auto teraflops = [&](double per_token) { return per_token * rate / 1e12; };
  const auto figure = [](double value) {
    return value < 10 ? fmt::format("{:.3g}", value) : fmt::format("{:.1f}", value);
  };
  const int64_t parameters = parameter_count(recipe.model), active = active_parameter_count(recipe.model);
  const char* const counted = active == parameters ? "N" : "N, active ones,";
  m.details["FLOP per token, SemiAnalysis"] =
      fmt::format("{:.4g} = 6 {} without input embeddings + 12 L H d S x {:.4g}", flops.causal, counted,
                  prepared.cost.flops.density());
  m.details["FLOP per token, torchtitan"] =
      fmt::format("{:.4g} = 6 {} without input embeddings + 12 L d S, all pairs", flops.full, counted);
  m.details["FLOP per token, counted in the graph"] = fmt::format("{:.4g}", prepared.cost.flops.total() / m.work);
  m.details["TFLOP/s, SemiAnalysis"] = figure(teraflops(flops.causal));
  m.details["TFLOP/s, torchtitan"] = figure(teraflops(flops.full));
  m.details["parameters"] = fmt::format("{}", parameters);
  if (active != parameters) m.details["active parameters"] = fmt::format("{}", active);
  m.details["memory planned"] = format_bytes(prepared.cost.total_bytes());
  m.details["recompute"] = recomputation_text(prepared.step->recomputation(), recipe);
  m.details["micro-batch"] = fmt::format("{}", recipe.train.batch_size / recipe.mesh.row_groups());
  if (devices > 1) m.details["devices"] = fmt::format("{}", recipe.mesh.ranks());
  if (const std::optional<double> tflops = peak ? peak->tflops(precision) : std::nullopt) {
    m.peak = devices * *tflops * 1e12 / flops.causal;
    m.peak_source = fmt::format("{} TFLOP/s over SemiAnalysis' FLOP per token (MFU). {}", *tflops, peak->source);
    m.details["MFU, SemiAnalysis"] = fmt::format("{:.1f} %", 100 * teraflops(flops.causal) / *tflops);
    m.details["MFU, torchtitan"] = fmt::format("{:.1f} %", 100 * teraflops(flops.full) / *tflops);
  } else {
    m.details["MFU"] = "n/a: the device's peak is not known";
  }
}

// That ranks have one gradient, of all rows, and the same weights where they hold the same parts.
void check_ranks(const Ranks& ranks, const LanguageModel& model, const Prepared& prepared, int64_t step,
                 Measurement& m) {
  const GradientAgreement gradients = compare_gradients(*prepared.step, prepared.recipe, ranks, step);
  m.correct = m.correct && gradients.holds();
  m.check += "; " + gradients.text();
  try {
    compare_replicas(ranks, model, *prepared.step, step);
    m.check += "; what ranks hold alike is the same bits";
  } catch (const ReplicasDiffer& error) {
    m.correct = false;
    m.check += fmt::format("; {}", error.message());
  }
}

}  // namespace

std::optional<Measurement> run_train(Device& device, const TrainCase& train_case, const TrainOptions& options,
                                     const std::optional<DevicePeak>& peak, TelemetryReader& telemetry,
                                     std::unique_ptr<LanguageModel>& model, std::vector<std::string>& skipped) {
  // Of the case before only the model can be of use.
  Context::current()->release_memory();
  const Ranks ranks(*Context::current());
  std::string reason;
  const std::unique_ptr<Prepared> prepared = prepare(ranks, train_case, model, reason);
  if (prepared == nullptr) {
    skipped.push_back(fmt::format("{}, {}: {}", train_case.group, train_case.precision, reason));
    return std::nullopt;
  }
  const Recipe& recipe = prepared->recipe;
  const int64_t length = recipe.data.sequence_length, batch = recipe.train.batch_size;
  // Ranks that share rows draw the same.
  RandomRows rows = own_random_rows(*prepared->step, recipe);
  std::mt19937 random(static_cast<uint32_t>(1 + prepared->step->own_rows().first));
  double first_loss = 0, last_loss = 0;
  bool finite = true;
  int64_t step = 0;
  const auto run_step = [&] {
    rows.draw(random, recipe.model.vocabulary_size);
    ranks.enter(step + 1, kStepPhase);
    const auto before = device.mark();
    const StepFigures figures = prepared->step->run(rows.batch(recipe.mesh.row_groups()), step, 1e-5);
    const auto after = device.mark();
    if (step++ == 0) first_loss = figures.loss;
    last_loss = figures.loss;
    finite = finite && figures.finite;
    return device.seconds_between(*before, *after);
  };
  double longest = 0;
  for (int i = 0; i < kWarmUpSteps; ++i) longest = run_step();
  int steps = options.steps;
  if (options.limit_seconds > 0)
    steps = std::clamp(static_cast<int>(options.limit_seconds / longest), std::min(kLeastSteps, steps), steps);
  steps = static_cast<int>(ranks.gather_numbers(steps).front());

  Measurement m;
  const std::optional<double> joules_before = telemetry.energy_joules();
  for (int round = 0; round < kTrainRounds; ++round) {
    const int samples = steps * (round + 1) / kTrainRounds - steps * round / kTrainRounds;
    if (samples == 0) continue;
    if (options.clock != nullptr) options.clock->read();
    std::vector<double>& seconds = m.rounds.emplace_back();
    for (int i = 0; i < samples; ++i) seconds.push_back(run_step());
    if (options.clock != nullptr) {
      options.clock->read();
      if (const std::optional<double> mhz = options.clock->mean_mhz()) m.clock_mhz.push_back(*mhz);
    }
  }
  const std::optional<double> joules_after = telemetry.energy_joules();
  const bool tells_energy = ranks.all_of(joules_before && joules_after);
  const double joules = tells_energy ? ranks.sum(*joules_after - *joules_before) / static_cast<double>(steps) : 0;

  const auto tokens = static_cast<double>(batch * length);
  const FlopConventions flops = flop_conventions(recipe.model, length, prepared->cost.flops.density());
  m.benchmark = "train";
  m.group = train_case.group;
  m.workload = fmt::format("{} x {} tokens", batch, length);
  for (const auto& [axis, size] : recipe.mesh.axes()) m.workload += fmt::format(", {} {}", axis, size);
  m.dtype = train_case.precision;
  m.provider = "Causeway";
  m.work = tokens;
  m.unit = "tokens/s";
  m.correct = finite;
  m.check = fmt::format("losses are {}: {:.4f} at first, {:.4f} at last, on random tokens",
                        finite ? "finite" : "NOT finite", first_loss, last_loss);
  if (ranks.count() > 1) check_ranks(ranks, *model, *prepared, step, m);
  add_figures(m, *prepared, flops, train_case.precision, peak);
  if (tells_energy) {
    m.details["J per step"] = fmt::format("{:.4g}", joules);
    m.details["J per token"] = fmt::format("{:.4g}", joules / tokens);
  }
  return m;
}

std::string train_figures(const Measurement& m) {
  const auto of = [&](const char* key) {
    const auto found = m.details.find(key);
    return found == m.details.end() ? std::string("n/a") : found->second;
  };
  return fmt::format(
      "TFLOP/s: {} by SemiAnalysis' formula, {} by torchtitan's; MFU: {}, {}; memory planned: {}; energy: {}",
      of("TFLOP/s, SemiAnalysis"), of("TFLOP/s, torchtitan"), of("MFU, SemiAnalysis"), of("MFU, torchtitan"),
      of("memory planned"),
      m.details.contains("J per token")
          ? fmt::format("{} J per token, {} J per step", of("J per token"), of("J per step"))
          : "not told by the device");
}

}  // namespace causeway::bench
