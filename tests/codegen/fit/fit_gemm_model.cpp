// Fits the figures by which plans of Hopper's GEMMs are chosen (HopperGemmFigures, codegen/gpu/gemm_hopper_model.h) to
// what a card took for plans that were forced, and prints them and how far from the measurements they are.
//
//   fit_gemm_model FIELDS FILE [FIGURE...]
//
// FIELDS says which fields of a plan the file's lines have after "order m n k" and before the microseconds:
//   rounds      rows and columns of a tile, ping-pong, parts of k, tiles before them (hopper_gemms_h200.txt)
//   one_tile    rows, columns, cluster above and beside, parts of k, swapped (hopper_gemms_one_tile_h200.txt)
//   all         rows, columns, cluster above and beside, ping-pong, parts of k, tiles before them, swapped
// FIGURE: those that are fitted, by the names that are printed, "one_tile" for all of its; without any, those that the
// file is about. Everything else stays as it is.
//
// For another card: measure plans of shapes drawn at random, in the form of tests/kernels/hopper_gemms_*_h200.txt
// (medians, caches filled with something else before each, a shape's plans in turns); fit one_tile to plans of one tile
// for each multiprocessor first, then cooperative and ping_pong to those of several rounds, then rounds to shapes that
// have both, and power to GEMMs that follow one another. Give schedules.cpp the figures beside those of the H200, by
// architecture, and the files to tests/kernels/hopper_gemm_plan_test.cpp.
//
// By coordinates: each figure in turn a step up or down, as long as the root mean square of log(model / measured)
// becomes less; then half the step.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/codegen/gpu/gemm_hopper_model.h"
#include "tests/codegen/fit/dense_gemm_order.h"

namespace causeway::codegen {
namespace {

enum class PlanFields { kRounds, kOneTile, kAll };

std::vector<int64_t> fields_of(const HopperGemmPlan& plan, PlanFields fields) {
  const HopperGemmTile& tile = plan.tile;
  const int64_t whole = plan.splits > 1 ? plan.whole_tiles : 0;
  switch (fields) {
    case PlanFields::kRounds:
      return {tile.m, tile.n, tile.ping_pong, plan.splits, whole};
    case PlanFields::kOneTile:
      return {tile.m, tile.n, tile.cluster_m, tile.cluster_n, plan.splits, tile.swapped};
    case PlanFields::kAll:
      break;
  }
  return {tile.m, tile.n, tile.cluster_m, tile.cluster_n, tile.ping_pong, plan.splits, whole, tile.swapped};
}

struct Shape {
  std::string order;
  std::array<int64_t, 3> sizes{};
  bool operator<(const Shape& other) const { return std::tie(order, sizes) < std::tie(other.order, other.sizes); }
};
using Measured = std::map<Shape, std::map<std::vector<int64_t>, double>>;

Measured read(const std::string& path, PlanFields fields) {
  std::ifstream file(path);
  if (!file) throw Error(ErrorKind::kNotFound, "cannot be opened", path, "Give a file of measurements.");
  Measured measured;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.starts_with("#")) continue;
    std::istringstream words(line);
    Shape shape;
    std::vector<int64_t> plan(fields_of({}, fields).size());
    double microseconds = 0;
    words >> shape.order;
    for (int64_t& size : shape.sizes) words >> size;
    for (int64_t& field : plan) words >> field;
    words >> microseconds;
    if (!words || shape.order.size() != 2)
      throw Error(ErrorKind::kCorrupt, "not a measurement: " + line, path, "Name the fields that its lines have.");
    measured[shape][plan] = microseconds;
  }
  return measured;
}

using Figure = std::pair<std::string, double*>;

void add_times(std::vector<Figure>& figures, const std::string& name, HopperGemmTimes& times) {
  const std::vector<std::pair<const char*, double*>> fields = {{"begin", &times.begin},
                                                               {"element", &times.element},
                                                               {"element_of_64", &times.element_of_64},
                                                               {"line", &times.line},
                                                               {"wait", &times.wait},
                                                               {"last_round", &times.last_round},
                                                               {"padding", &times.padding},
                                                               {"store", &times.store},
                                                               {"narrow_store", &times.narrow_store},
                                                               {"first_slices", &times.first_slices},
                                                               {"a_side_by_side", &times.a_side_by_side},
                                                               {"b_side_by_side", &times.b_side_by_side},
                                                               {"crossing", &times.crossing}};
  for (const auto& [field, value] : fields) figures.emplace_back(name + "." + field, value);
}

std::vector<Figure> named(HopperGemmFigures& all) {
  std::vector<Figure> figures;
  add_times(figures, "cooperative", all.cooperative);
  add_times(figures, "ping_pong", all.ping_pong);
  HopperGemmOneTileTimes& one = all.one_tile;
  const std::vector<Figure> rest = {{"one_tile.begin", &one.begin},
                                    {"one_tile.result", &one.result},
                                    {"one_tile.few_results", &one.few_results},
                                    {"one_tile.element", &one.element},
                                    {"one_tile.clock", &one.clock},
                                    {"one_tile.line", &one.line},
                                    {"one_tile.all_lines", &one.all_lines},
                                    {"one_tile.line_of_group", &one.line_of_group},
                                    {"one_tile.a_line", &one.a_line},
                                    {"one_tile.parts_of_lines", &one.parts_of_lines},
                                    {"one_tile.way", &one.way},
                                    {"one_tile.a_side_by_side", &one.a_side_by_side},
                                    {"one_tile.b_side_by_side", &one.b_side_by_side},
                                    {"one_tile.crossing", &one.crossing},
                                    {"one_tile.combine_launch", &one.combine_launch},
                                    {"one_tile.combine_bytes", &one.combine_bytes},
                                    {"one_tile.cluster", &one.cluster},
                                    {"one_tile.out_of_step", &one.out_of_step},
                                    {"rounds.begin", &all.rounds.begin},
                                    {"rounds.part", &all.rounds.part},
                                    {"rounds.part_side_by_side", &all.rounds.part_side_by_side},
                                    {"rounds.long_part", &all.rounds.long_part},
                                    {"rounds.long_time", &all.rounds.long_time},
                                    {"parts_of_lines.most", &all.parts_of_lines.most},
                                    {"parts_of_lines.most_ping_pong", &all.parts_of_lines.most_ping_pong},
                                    {"parts_of_lines.few", &all.parts_of_lines.few},
                                    {"parts_of_lines.many", &all.parts_of_lines.many},
                                    {"split_sectors.line", &all.split_sectors.line},
                                    {"split_sectors.line_of_one", &all.split_sectors.line_of_one},
                                    {"split_sectors.other_line", &all.split_sectors.other_line},
                                    {"split_sectors.result", &all.split_sectors.result},
                                    {"split_sectors.result_ping_pong", &all.split_sectors.result_ping_pong},
                                    {"power.multiply_add", &all.power.multiply_add},
                                    {"power.line", &all.power.line},
                                    {"power.operand", &all.power.operand},
                                    {"power.ping_pong", &all.power.ping_pong},
                                    {"power.store", &all.power.store},
                                    {"power.part", &all.power.part},
                                    {"power.crossing", &all.power.crossing}};
  figures.insert(figures.end(), rest.begin(), rest.end());
  return figures;
}

struct Distance {
  double rms = 0;
  size_t plans = 0;
};

Distance distance(const Measured& measured, PlanFields fields, const HopperGemmFigures& figures) {
  double squares = 0;
  size_t plans = 0;
  for (const auto& [shape, times] : measured) {
    const auto& [m, n, k] = shape.sizes;
    GemmOrder order = dense_gemm_order(shape.order, m, n, k);
    order.may_swap = fields != PlanFields::kRounds;
    const auto offers = hopper_gemm_offers(device::gpu_architecture("sm_90a"), HopperGemmAccumulators::kOne,
                                           HopperGemmStores::kByTma, 1, m, n, k, order, figures);
    for (const auto& [plan, microseconds] : offers) {
      if ((fields == PlanFields::kOneTile) != plan.tile.results_in_stages && fields != PlanFields::kAll) continue;
      const auto found = times.find(fields_of(plan, fields));
      if (found == times.end()) continue;
      const double error = std::log(microseconds / found->second);
      squares += error * error;
      ++plans;
    }
  }
  if (plans == 0)
    throw Error(ErrorKind::kNotFound, "no plan that was measured is one that the model knows", "fit_gemm_model",
                "Name the fields that the file's lines have.");
  return {std::sqrt(squares / static_cast<double>(plans)), plans};
}

void fit(PlanFields fields, const std::string& path, const std::vector<std::string>& names) {
  const Measured measured = read(path, fields);
  HopperGemmFigures figures = hopper_gemm_figures();
  std::vector<Figure> fitted;
  for (const Figure& figure : named(figures))
    for (const std::string& name : names)
      if (figure.first == name || figure.first.starts_with(name + ".")) fitted.push_back(figure);
  if (fitted.empty()) throw Error(ErrorKind::kInvalidArgument, "no such figure", "fit_gemm_model", "They are printed.");
  Distance now = distance(measured, fields, figures);
  fmt::print("{}: {} plans of {} shapes, {:.2f} % (rms) from them before\n", path, now.plans, measured.size(),
             100 * now.rms);
  constexpr double kFirstStep = 0.08, kLastStep = 0.004;
  for (double step = kFirstStep; step >= kLastStep; step /= 2)
    for (const auto& [name, value] : fitted)
      for (const double factor : {1 + step, 1 / (1 + step)})
        for (;;) {
          const double before = *value;
          *value *= factor;
          const Distance then = distance(measured, fields, figures);
          if (then.rms < now.rms * (1 - 1e-5)) {
            now = then;
            continue;
          }
          *value = before;
          break;
        }
  fmt::print("{:.2f} % after\n", 100 * now.rms);
  HopperGemmFigures shipped = hopper_gemm_figures();
  const std::vector<Figure> old = named(shipped), found = named(figures);
  for (size_t i = 0; i < old.size(); ++i)
    fmt::print("{:32} {:12.6g}{}\n", found[i].first, *found[i].second,
               *found[i].second == *old[i].second ? "" : fmt::format("   was {:.6g}", *old[i].second));
}

int run(const std::vector<std::string>& arguments) {
  const std::map<std::string, std::pair<PlanFields, std::vector<std::string>>> kinds = {
      {"rounds", {PlanFields::kRounds, {"cooperative", "ping_pong"}}},
      {"one_tile", {PlanFields::kOneTile, {"one_tile"}}},
      {"all", {PlanFields::kAll, {"rounds", "parts_of_lines"}}}};
  const auto kind = arguments.size() < 2 ? kinds.end() : kinds.find(arguments[0]);
  if (kind == kinds.end()) {
    fmt::print(stderr, "fit_gemm_model rounds|one_tile|all FILE [FIGURE...]\n");
    return 2;
  }
  const std::vector<std::string> names(arguments.begin() + 2, arguments.end());
  try {
    fit(kind->second.first, arguments[1], names.empty() ? kind->second.second : names);
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace causeway::codegen

int main(int count, char** arguments) { return causeway::codegen::run({arguments + 1, arguments + count}); }
