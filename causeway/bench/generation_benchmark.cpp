#include "causeway/bench/generation_benchmark.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>

#include "causeway/base/byte_size.h"
#include "causeway/base/error.h"
#include "causeway/bench/choices.h"
#include "causeway/bench/statistics.h"
#include "causeway/bench/train_benchmark.h"
#include "causeway/generate/cached_forward.h"
#include "causeway/model/experts.h"
#include "causeway/program/context.h"
#include "causeway/tensor/cast_tensors.h"
#include "causeway/train/recipe/recipe.h"
#include "causeway/train/step/training_step.h"

namespace causeway::bench {
namespace {

constexpr int kWarmUpTokens = 3;
constexpr int kGenerationRounds = 10;

// Of experts that no token of a pass goes through, the parameters. One sequence's token goes through experts_per_token;
// of several sequences the routers choose as if all experts were as likely, of each token by itself, as new weights
// nearly do.
double parameters_left_out(const ModelConfig& config, int64_t sequences) {
  const std::optional<ExpertShape> shape = expert_shape(config);
  if (!shape) return 0;
  const double idle = 1 - static_cast<double>(shape->per_token) / static_cast<double>(shape->experts);
  const double of_experts = static_cast<double>(shape->experts * 3 * config.width * shape->width);
  return std::pow(idle, static_cast<double>(sequences)) * of_experts *
         static_cast<double>(shape->sparse_layers(config.layers));
}

// What a token of each sequence needs at least: every weight that is multiplied, and keys and values so far, of layers
// with windows those within.
double least_bytes_of_token(const LanguageModel& model, const GenerationCase& one, DType compute, double length) {
  const ModelConfig& config = model.config();
  const double embedding = static_cast<double>(config.vocabulary_size * config.width);
  const double untied = config.tie_embeddings ? 0 : embedding;
  const auto element = static_cast<double>(size_bytes(compute));
  double positions = 0;  // of all layers
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const auto window = static_cast<double>(model.window(layer));
    positions += window > 0 ? std::min(window, length) : length;
  }
  const double cached = 2.0 * static_cast<double>(config.kv_heads * config.head_dim) * positions;
  return element * (static_cast<double>(parameter_count(config)) - untied - parameters_left_out(config, one.sequences) +
                    static_cast<double>(one.sequences) * cached);
}

// The largest share, over sequences, that the difference has of the logits' own size, both as roots of mean squares.
double largest_difference(const std::vector<float>& logits, const std::vector<float>& expected, size_t sequences) {
  double largest = 0;
  const size_t width = expected.size() / sequences;
  for (size_t i = 0; i < sequences; ++i) {
    double difference = 0, size = 0;
    for (size_t j = i * width; j < (i + 1) * width; ++j) {
      const double apart = static_cast<double>(logits[j]) - static_cast<double>(expected[j]);
      difference += apart * apart;
      size += static_cast<double>(expected[j]) * static_cast<double>(expected[j]);
    }
    const double share = std::sqrt(difference / size);
    largest = share <= largest ? largest : share;  // not a number is larger
  }
  return largest;
}

}  // namespace

std::vector<GenerationCase> choose_generation_cases(const GenerationChoice& choice, const Device& device) {
  const bool is_gpu = device.target().is_gpu();
  std::vector<std::string> skipped;
  const std::vector<TrainCase> known = choose_train_cases({}, device, skipped);
  std::vector<std::string> recipes;
  for (const TrainCase& one : known) recipes.push_back(one.recipe);
  std::vector<std::string> models = choice.models, precisions = choice.precisions;
  if (models.empty())
    models = is_gpu ? std::vector<std::string>{"gpt2_124m", "gpt2_1.5b"} : std::vector<std::string>{"gpt2_124m"};
  if (precisions.empty()) precisions = {is_gpu ? "bf16" : "f32"};
  std::vector<int64_t> sequences = choice.sequences;
  if (sequences.empty()) sequences = {1, 16};
  std::vector<GenerationCase> cases;
  for (const std::string& model : models) {
    const TrainCase& named = known[choose("model of this benchmark on this device", model, "--model", recipes)];
    for (const std::string& precision : precisions) {
      choose("precision of generation", precision, "--precision", {"bf16", "f32"});
      for (const int64_t count : sequences) {
        GenerationCase one{named.group, named.recipe, precision, count};
        if (choice.length) one.length = *choice.length;
        if (count < 1 || one.length < 1)
          throw Error(ErrorKind::kInvalidArgument, fmt::format("{} sequences of {} tokens", count, one.length),
                      count < 1 ? "--sequences" : "--length", "Give numbers from 1.");
        cases.push_back(std::move(one));
      }
    }
  }
  return cases;
}

std::optional<Measurement> run_generation(Device& device, const GenerationCase& one, const GenerationOptions& options,
                                          const std::optional<DevicePeak>& peak, std::vector<std::string>& skipped) {
  Context::current()->release_memory();
  const Recipe recipe = shipped_benchmark_recipe(one.recipe, {"train.precision=" + one.precision});
  const int64_t longest = one.length + kWarmUpTokens + options.tokens;
  const std::string name = fmt::format("{}, {}, {} sequences", one.group, one.precision, one.sequences);
  if (longest > recipe.model.max_sequence_length) {
    skipped.push_back(fmt::format("{}: {} tokens, and the model's longest sequence has {}", name, longest,
                                  recipe.model.max_sequence_length));
    return std::nullopt;
  }
  std::unique_ptr<LanguageModel> model;
  std::unique_ptr<CachedForward> forward;
  try {
    model = LanguageModel::create(recipe.model, uint64_t{1});
    forward = std::make_unique<CachedForward>(*model, pipeline_options(recipe), one.sequences, longest,
                                              recipe.model.vocabulary_size, std::make_shared<CastTensors>());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kResource) throw;
    skipped.push_back(fmt::format("{}: {}", name, error.what()));
    return std::nullopt;
  }
  std::mt19937 random(1);
  std::vector<std::vector<int32_t>> beginnings(static_cast<size_t>(one.sequences));
  for (std::vector<int32_t>& beginning : beginnings)
    for (int64_t i = 0; i < one.length; ++i)
      beginning.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(recipe.model.vocabulary_size)));

  bool finite = true;
  std::vector<std::vector<int32_t>> texts = beginnings;
  for (std::vector<int32_t>& text : texts) text.reserve(static_cast<size_t>(longest));
  Tensor last_logits;
  std::vector<int32_t> tokens(beginnings.size()), positions(beginnings.size(), static_cast<int32_t>(one.length) - 1);
  const auto draw = [&](const NextTokens& next) {
    last_logits = next.logits;
    next.likeliest.read_bytes(std::as_writable_bytes(std::span(tokens)));
    for (size_t i = 0; i < tokens.size(); ++i) {
      finite = finite && tokens[i] >= 0;
      tokens[i] = std::max(tokens[i], 0);
      ++positions[i];
    }
  };
  const auto seconds_of = [](const auto& work) {
    const auto begun = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  };
  const auto begin = [&] { draw(forward->begin(beginnings)); };
  const auto go_on = [&] {
    for (size_t i = 0; i < tokens.size(); ++i) texts[i].push_back(tokens[i]);
    draw(forward->go_on(tokens, positions));
  };
  begin();  // compiles
  forward->clear();
  std::fill(positions.begin(), positions.end(), static_cast<int32_t>(one.length) - 1);
  const double begin_seconds = seconds_of(begin);
  for (int i = 0; i < kWarmUpTokens; ++i) go_on();

  Measurement m;
  for (int round = 0; round < kGenerationRounds; ++round) {
    const int samples = options.tokens * (round + 1) / kGenerationRounds - options.tokens * round / kGenerationRounds;
    if (samples == 0) continue;
    if (options.clock != nullptr) options.clock->read();
    std::vector<double>& seconds = m.rounds.emplace_back();
    for (int i = 0; i < samples; ++i) seconds.push_back(seconds_of(go_on));
    if (options.clock == nullptr) continue;
    options.clock->read();
    if (const std::optional<double> mhz = options.clock->mean_mhz()) m.clock_mhz.push_back(*mhz);
  }

  const auto read = [](const Tensor& of) {
    std::vector<float> values(static_cast<size_t>(of.local_bytes()) / sizeof(float));
    of.read_bytes(std::as_writable_bytes(std::span(values)));
    return values;
  };
  const std::vector<float> logits = read(last_logits);
  forward->clear();
  m.correct = finite;
  m.check = fmt::format("logits are {}", finite ? "finite" : "NOT finite");
  try {
    const double difference = largest_difference(logits, read(forward->begin(texts).logits), texts.size());
    const double bound = one.precision == "f32" ? 1e-4 : 0.05;
    m.correct = m.correct && difference <= bound;
    m.check +=
        fmt::format("; the last are {:.2g} of their size from those of the whole sequences at once, of {} allowed",
                    difference, bound);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kResource) throw;
    m.check += "; there is no memory to compare them with those of the whole sequences at once";
  }

  m.benchmark = "generate";
  m.group = one.group;
  m.workload = fmt::format("{} x {} tokens", one.sequences, one.length);
  m.dtype = one.precision;
  m.provider = "Causeway";
  m.work = static_cast<double>(one.sequences);
  m.unit = "tokens/s";
  const double length = static_cast<double>(one.length) + kWarmUpTokens + options.tokens / 2.0;
  const double bytes = least_bytes_of_token(*model, one, *parse_dtype(one.precision), length);
  const double passes_per_second = headline(m) / m.work;
  m.details["prompts"] =
      fmt::format("{:.0f} tokens/s", static_cast<double>(one.sequences * one.length) / begin_seconds);
  m.details["bytes of a pass"] = format_bytes(bytes);
  if (expert_shape(recipe.model))
    m.details["experts"] = "those that tokens go through are read, chosen as if all were as likely";
  m.details["read at least"] = fmt::format("{:.1f} GB/s", bytes * passes_per_second / 1e9);
  m.details["KV cache"] = format_bytes(forward->cache_bytes());
  if (peak && peak->memory_gb_per_s > 0) {
    m.peak = peak->memory_gb_per_s * 1e9 / bytes * m.work;
    m.peak_source =
        fmt::format("{} GB/s over the bytes that a pass reads at least. {}", peak->memory_gb_per_s, peak->source);
  }
  return m;
}

}  // namespace causeway::bench
