#include "causeway/plan/published_points.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "causeway/base/error.h"
#include "causeway/base/yaml_document.h"
#include "causeway/bench/report/shipped_text.h"
#include "causeway/bench/report/sourced_yaml.h"
#include "causeway/plan/machines.h"
#include "causeway/plan/step_plan.h"
#include "causeway/plan/transformer_work.h"

namespace causeway::plan {
namespace {

using bench::YamlRecord;

// Products of sizes are taken in 64 bits.
constexpr double kMostSize = 1e6, kMostRanks = 1e6, kMostTokens = 1e12;
constexpr int64_t kMostLayers = 10'000;

// A row of the file: sizes as whole numbers.
class Row {
 public:
  Row(const YAML::Node& node, const std::string& where, const std::vector<std::string>& keys)
      : record_(node, where, keys) {}

  int64_t size(const std::string& key) const { return whole(key, record_.positive_number(key)); }
  int64_t size_or(const std::string& key, int64_t otherwise) const {
    const std::optional<double> value = record_.optional_positive_number(key);
    return value ? whole(key, *value) : otherwise;
  }
  bool truth_or(const std::string& key, bool otherwise) const {
    const std::string text = record_.text_or(key, otherwise ? "true" : "false");
    if (text != "true" && text != "false")
      record_.fail(key, key + " is neither true nor false", "Write true or false.");
    return text == "true";
  }
  const YamlRecord& record() const { return record_; }

 private:
  int64_t whole(const std::string& key, double value) const {
    if (value != std::floor(value)) record_.fail(key, key + " must be a whole number", "");
    if (value > kMostSize) record_.fail(key, fmt::format("{} must be at most {:.0f}", key, kMostSize), "");
    return static_cast<int64_t>(value);
  }
  YamlRecord record_;
};

TransformerShape parse_shape(const YAML::Node& node, const std::string& where) {
  const Row row(node, where, {"layers", "width", "heads", "kv_heads", "ffn_width", "gated", "vocabulary", "attention"});
  TransformerShape shape;
  shape.layers = row.size("layers");
  shape.width = row.size("width");
  shape.heads = row.size("heads");
  shape.kv_heads = row.size_or("kv_heads", shape.heads);
  if (shape.layers > kMostLayers)
    row.record().fail("layers", fmt::format("layers must be at most {}", kMostLayers), "");
  if (shape.heads > shape.width) row.record().fail("heads", "heads must be at most width", "");
  if (shape.kv_heads > shape.heads) row.record().fail("kv_heads", "kv_heads must be at most heads", "");
  shape.head_dim = shape.width / shape.heads;
  shape.ffn_width = row.size_or("ffn_width", 4 * shape.width);
  shape.gated = row.truth_or("gated", false);
  shape.vocabulary = row.size("vocabulary");
  const std::string attention = row.record().text("attention");
  if (attention != "fused" && attention != "unfused")
    row.record().fail("attention", "attention is neither fused nor unfused", "Write fused or unfused.");
  shape.fused_attention = attention == "fused";
  return shape;
}

void check_sizes(const YamlRecord& record, const TransformerShape& shape, const TransformerRun& run) {
  double ranks = 1, tokens = 1;
  for (const int64_t size : {run.dp, run.fsdp, run.tp, run.cp, run.pp}) ranks *= static_cast<double>(size);
  for (const int64_t size : {run.dp, run.fsdp, run.micro_batch, run.micro_batches, shape.sequence})
    tokens *= static_cast<double>(size);
  if (ranks > kMostRanks) record.fail("shape", fmt::format("a step of more than {:.0f} ranks", kMostRanks), "");
  if (tokens > kMostTokens) record.fail("shape", fmt::format("a step of more than {:.0e} tokens", kMostTokens), "");
  if (run.pp * run.virtual_stages > shape.layers + 2)
    record.fail("pp", fmt::format("pp x virtual_stages is {}, of {} layers", run.pp * run.virtual_stages, shape.layers),
                "A chunk of a stage holds a layer, the embedding or the output layer at least.");
}

Recomputation parse_recomputation(const YamlRecord& record) {
  const std::string text = record.text_or("recompute", "none");
  if (text == "none") return Recomputation::kNone;
  if (text == "attention") return Recomputation::kAttention;
  if (text == "layer") return Recomputation::kLayer;
  record.fail("recompute", fmt::format("recompute is '{}'", text), "Write none, attention or layer.");
}

// Of a step, by the formula that its source states.
double step_flops(const std::string& formula, const YamlRecord& record, const TransformerShape& shape,
                  const TransformerRun& run) {
  const double tokens = run.tokens(shape), layers = static_cast<double>(shape.layers),
               width = static_cast<double>(shape.width), sequence = static_cast<double>(shape.sequence);
  if (formula == "sc21")
    return 96 * tokens * layers * width * width *
           (1 + sequence / (6 * width) + static_cast<double>(shape.vocabulary) / (16 * layers * width));
  if (formula == "foundry") return tokens * (6 * shape.parameters() + 12 * layers * width * sequence);
  if (formula == "dense") return tokens * (6 * shape.parameters() + 6 * layers * width * sequence);
  record.fail("flops", fmt::format("no formula of FLOPs is called '{}'", formula), "Write sc21, foundry or dense.");
}

double published_seconds(const Row& row, const TransformerShape& shape, const TransformerRun& run) {
  const YamlRecord& record = row.record();
  const double devices = static_cast<double>(run.devices());
  if (const auto seconds = record.optional_positive_number("seconds")) return *seconds;
  if (const auto rate = record.optional_positive_number("tokens_per_s")) return run.tokens(shape) / (*rate * devices);
  return step_flops(record.text("flops"), record, shape, run) / (record.positive_number("tflops") * 1e12 * devices);
}

PublishedPoint parse_point(const YAML::Node& node, const std::string& where,
                           const std::map<std::string, TransformerShape>& shapes, int64_t devices_per_node) {
  const Row row(
      node, where,
      {"shape", "sequence", "dp", "fsdp", "tp", "sequence_parallel", "cp", "pp", "virtual_stages", "micro_batch",
       "micro_batches", "recompute", "gradient_bytes", "seconds", "tokens_per_s", "tflops", "flops"});
  PublishedPoint point;
  const std::string name = row.record().text("shape");
  const auto shape = shapes.find(name);
  if (shape == shapes.end()) row.record().fail("shape", fmt::format("no shape is called '{}'", name), "");
  TransformerShape sized = shape->second;
  sized.sequence = row.size("sequence");
  TransformerRun run;
  run.dp = row.size_or("dp", 1);
  run.fsdp = row.size_or("fsdp", 1);
  run.tp = row.size_or("tp", 1);
  run.sequence_parallel = row.truth_or("sequence_parallel", false);
  run.cp = row.size_or("cp", 1);
  run.pp = row.size_or("pp", 1);
  run.virtual_stages = row.size_or("virtual_stages", 1);
  run.micro_batch = row.size("micro_batch");
  run.micro_batches = row.size("micro_batches");
  run.recompute = parse_recomputation(row.record());
  run.gradient_bytes = static_cast<double>(row.size_or("gradient_bytes", 4));
  check_sizes(row.record(), sized, run);
  point.seconds = published_seconds(row, sized, run);
  point.step = describe_step(sized, run, devices_per_node);
  point.name = fmt::format("{}, {} x {} x {} tokens", name, run.micro_batches, run.micro_batch, sized.sequence);
  for (const auto& [axis, size] :
       {std::pair{"dp", run.dp}, {"fsdp", run.fsdp}, {"tp", run.tp}, {"cp", run.cp}, {"pp", run.pp}})
    if (size > 1) point.name += fmt::format(", {} {}", axis, size);
  if (run.recompute == Recomputation::kLayer) point.name += ", recomputed";
  if (run.recompute == Recomputation::kAttention) point.name += ", attention recomputed";
  return point;
}

// A step of ours: traced for the machine, as `causeway plan` does.
PublishedPoint parse_own_point(const YAML::Node& node, const std::string& where, const std::string& machine) {
  const YamlRecord record(node, where, {"recipe", "overrides", "tokens_per_s"});
  PublishedPoint point;
  point.name = record.text("recipe");
  std::vector<std::string> overrides;
  for (const YAML::Node& one : record.list("overrides")) {
    overrides.push_back(one.Scalar());
    point.name += " " + overrides.back().substr(overrides.back().find('.') + 1);
  }
  const std::string path = "recipes/" + record.text("recipe") + ".yaml";
  const Recipe recipe = parse_recipe(std::string(bench::shipped_benchmark_text(path)), path, overrides);
  const double tokens = static_cast<double>(recipe.train.batch_size * recipe.data.sequence_length);
  point.seconds = tokens / record.positive_number("tokens_per_s") / static_cast<double>(recipe.mesh.ranks());
  point.step = trace_step_work(recipe, find_machine(machine));
  return point;
}

// Squared for small errors and straight for large ones, so that a run that was slow for a reason of its own does not
// move the others.
double loss_of(double error) {
  constexpr double kStraightFrom = 0.05;
  const double size = std::abs(error);
  return size < kStraightFrom ? size * size / (2 * kStraightFrom) : size - kStraightFrom / 2;
}

// How far constants may go: no share of a peak above 1.
double upper_bound(const std::string& name) {
  if (name.ends_with("_fraction")) return 1;
  if (name == "gemm_half") return 2000;
  if (name == "launch_seconds") return 2e-4;
  return name == "straggle" ? 0.05 : 0.5;
}

}  // namespace

std::vector<PublishedPoint> parse_published_points(const std::string& yaml, const std::string& where,
                                                   int64_t devices_per_node) {
  const YamlRecord root(parse_yaml(yaml, where), where, {"shapes", "points"});
  std::map<std::string, TransformerShape> shapes;
  const YAML::Node listed = root.node("shapes");
  if (!listed.IsMap()) root.fail("shapes", "shapes must be a map", "");
  for (const auto& entry : listed) shapes[entry.first.Scalar()] = parse_shape(entry.second, where);
  std::vector<PublishedPoint> points;
  std::map<std::string, int> seen;
  for (const YAML::Node& group : root.list("points")) {
    const YamlRecord record(group, where, {"machine", "source", "rows"});
    const std::string machine = record.text("machine"), source = record.text("source");
    for (const YAML::Node& node : record.list("rows")) {
      points.push_back(node.IsMap() && node["recipe"] ? parse_own_point(node, where, machine)
                                                      : parse_point(node, where, shapes, devices_per_node));
      points.back().machine = machine;
      points.back().source = source;
      points.back().held_out = seen[machine]++ % 2 == 1;
    }
  }
  return points;
}

const std::vector<PublishedPoint>& shipped_published_points() {
  static const std::vector<PublishedPoint> points = parse_published_points(
      std::string(bench::shipped_benchmark_text("benchmarks/training_points.yaml")), "training_points.yaml");
  return points;
}

double relative_error(const PublishedPoint& point, const Machine& machine) {
  return predict(point.step, machine).seconds / point.seconds - 1;
}

ErrorSummary summarize_errors(std::vector<double> errors) {
  ErrorSummary summary;
  summary.points = static_cast<int>(errors.size());
  if (errors.empty()) return summary;
  for (double& error : errors) {
    error = std::abs(error);
    summary.mean += error / static_cast<double>(errors.size());
  }
  std::sort(errors.begin(), errors.end());
  summary.maximum = errors.back();
  summary.median = errors[errors.size() / 2];
  return summary;
}

Machine fit_constants(const Machine& machine, const std::vector<PublishedPoint>& points) {
  constexpr double kTie = 0.02;  // of a deviation from the beginning by a factor of e, per point
  const MachineConstants begin;
  Machine best = machine;
  best.constants = begin;
  const auto cost = [&](const Machine& candidate) {
    double sum = 0;
    for (const PublishedPoint& point : points) sum += loss_of(relative_error(point, candidate));
    sum /= static_cast<double>(points.size());
    for (const ConstantField& field : constant_fields()) {
      const double deviation = std::log((candidate.constants.*field.member) / (begin.*field.member));
      sum += kTie * deviation * deviation / static_cast<double>(constant_fields().size());
    }
    return sum;
  };
  double least = cost(best);
  // Halving steps; at each size, constants are moved one by one while that helps.
  for (double step = 0.4; step > 0.002; step /= 2)
    for (bool moved = true; moved;) {
      moved = false;
      for (const ConstantField& field : constant_fields())
        for (const double factor : {std::exp(step), std::exp(-step)}) {
          Machine candidate = best;
          double& value = candidate.constants.*field.member;
          value = std::min(value * factor, upper_bound(field.name));
          const double at = cost(candidate);
          if (at >= least * (1 - 1e-6)) continue;
          least = at, best = candidate, moved = true;
        }
    }
  return best;
}

}  // namespace causeway::plan
