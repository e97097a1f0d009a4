// Fits the constants of every machine to its published steps and prints them, and what they predict for the steps, as
// rows of docs/log/planning.md: build/tests/fit_machines [MACHINE ...]
#include <fmt/format.h>

#include <exception>
#include <set>

#include "causeway/plan/machines.h"
#include "causeway/plan/published_points.h"

int main(int argc, char** argv) {
  using namespace causeway::plan;
  const std::set<std::string> chosen(argv + 1, argv + argc);
  try {
    for (const Machine& machine : shipped_machines()) {
      if (!chosen.empty() && !chosen.contains(machine.name)) continue;
      std::vector<PublishedPoint> fitted, held_out;
      for (const PublishedPoint& point : shipped_published_points())
        if (point.machine == machine.name) (point.held_out ? held_out : fitted).push_back(point);
      if (fitted.empty()) continue;
      const Machine result = fit_constants(machine, fitted);
      fmt::print("{}\n", machine.name);
      for (const ConstantField& field : constant_fields())
        fmt::print("    {}: {:.4g}\n", field.name, result.constants.*field.member);
      for (const auto* points : {&fitted, &held_out}) {
        std::vector<double> errors;
        for (const PublishedPoint& point : *points) {
          errors.push_back(relative_error(point, result));
          fmt::print("| {} | {} | {:.3f} | {:.3f} | {:+.1f} % |\n", point.held_out ? "held out" : "fitted", point.name,
                     point.seconds, predict(point.step, result).seconds, 100 * errors.back());
        }
        const ErrorSummary summary = summarize_errors(errors);
        fmt::print("  {}: {} points, mean {:.1f} %, median {:.1f} %, maximum {:.1f} %\n",
                   points == &fitted ? "fitted" : "held out", summary.points, 100 * summary.mean, 100 * summary.median,
                   100 * summary.maximum);
      }
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
