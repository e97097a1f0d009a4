// What becomes of figures: the list of runs, comparison, the report, export and import.
#include <fmt/format.h>

#include <map>
#include <memory>
#include <span>

#include "causeway/base/console.h"
#include "causeway/base/error.h"
#include "causeway/base/printable.h"
#include "causeway/base/text_table.h"
#include "causeway/bench/report/report.h"
#include "causeway/bench/results/compare.h"
#include "causeway/bench/results/results_file.h"
#include "causeway/bench/results/results_store.h"
#include "causeway/cli/commands.h"

namespace causeway::cli {
namespace {

struct BenchResultsCommandOptions {
  std::string store, before, after = "latest", against, output, costs;
  std::vector<std::string> files;
  std::string run = "latest";
  bool all = false;
};

std::filesystem::path store_path(const BenchResultsCommandOptions& options) {
  return options.store.empty() ? default_store_path() : std::filesystem::path(options.store);
}

// Looking at a store makes none.
bool has_store(const BenchResultsCommandOptions& options) { return std::filesystem::exists(store_path(options)); }

void list_runs(const BenchResultsCommandOptions& options) {
  if (!has_store(options)) {
    output("There are no results yet: {} does not exist, and `causeway bench` makes it.\n",
           printable(store_path(options).string()));
    return;
  }
  std::vector<std::vector<std::string>> rows = {{"run", "started", "figures", "device", "commit", "command"}};
  for (const StoredRun& run : ResultsStore(store_path(options)).list())
    rows.push_back({std::to_string(run.id), run.started, std::to_string(run.measurements), run.device,
                    run.commit.substr(0, 12), run.command});
  output("{}", format_table(rows, {0, 2}));
}

// The same run under two names: in one store, or exported from it.
bool is_same_run(BenchmarkRun a, const BenchmarkRun& b) {
  a.id = b.id;
  return a == b;
}

void compare_runs(const BenchResultsCommandOptions& options) {
  const std::string before = options.against.empty() ? options.before : options.against;
  const std::string after = options.against.empty()  ? options.after
                            : options.before.empty() ? "latest"
                                                     : options.before;
  if (before.empty())
    throw Error(ErrorKind::kInvalidArgument, "there is nothing to compare with", "bench compare",
                "Name two runs (`causeway bench compare 3 4`), or give --against FILE.");
  const BenchmarkRun run = load_run_reference(store_path(options), after);
  const BenchmarkRun reference = load_run_reference(store_path(options), before);
  if (is_same_run(reference, run)) {
    output("{} and {} are the same run, of {} on {}: nothing can have changed. Name another.\n", printable(before),
           printable(after), printable(run.started), printable(run.device));
    return;
  }
  const std::vector<Change> changes = compare(reference, run, {}, load_earlier_runs(store_path(options), run));
  output("{}", format_changes(changes, {}, options.all));
  if (is_regression(worst_verdict(changes))) command_status = 1;
}

// Each run against the one before it on the same device, where they measured the same things.
std::vector<RegressionMark> regressions(const std::vector<BenchmarkRun>& runs) {
  std::vector<RegressionMark> marks;
  std::map<std::string, std::map<std::string, const BenchmarkRun*>> latest;  // by device, by key
  for (size_t i = 0; i < runs.size(); ++i) {
    const BenchmarkRun& run = runs[i];
    auto& before = latest[fmt::format("{} x {}", run.device, run.device_count)];
    std::map<const BenchmarkRun*, bool> earlier;
    for (const Measurement& m : run.measurements)
      if (const auto found = before.find(m.key()); found != before.end()) earlier[found->second] = true;
    for (const auto& [other, unused] : earlier)
      for (const Change& change : compare(*other, run, {}, std::span(runs).first(i)))
        if (is_regression(change.verdict) && before[change.key] == other)
          marks.push_back({change.key, run.commit, change.ratio, run.device});
    for (const Measurement& m : run.measurements) before[m.key()] = &run;
  }
  return marks;
}

void write_report_page(const BenchResultsCommandOptions& options) {
  std::vector<BenchmarkRun> runs;
  if (options.files.empty()) {
    if (has_store(options)) runs = ResultsStore(store_path(options)).load_all();
  } else {
    for (const std::string& file : options.files)
      for (BenchmarkRun& run : read_results_file(file)) runs.push_back(std::move(run));
  }
  if (runs.empty())
    throw Error(ErrorKind::kNotFound, "there are no results yet", store_path(options).string(),
                "Run `causeway bench` first.");
  const std::string page = options.output.empty() ? "causeway-report.html" : options.output;
  write_report(runs, options.costs.empty() ? shipped_cost_table() : read_cost_table(options.costs),
               shipped_published_results(), regressions(runs), page);
  output("{}: {} runs. Open it in a browser; it needs no server and no network.\n", page, runs.size());
}

void export_run(const BenchResultsCommandOptions& options) {
  std::vector<BenchmarkRun> runs;
  if (options.run == "all") {
    if (has_store(options)) runs = ResultsStore(store_path(options)).load_all();
    if (runs.empty())
      throw Error(ErrorKind::kNotFound, "there are no results yet", store_path(options).string(),
                  "Run `causeway bench` first.");
  } else {
    runs.push_back(load_run_reference(store_path(options), options.run));
  }
  if (options.output.ends_with(".csv")) {
    write_results_csv(runs, options.output);
  } else if (options.output.ends_with(".json")) {
    write_results_json(runs, options.output);
  } else {
    throw Error(ErrorKind::kInvalidArgument, fmt::format("'{}' is neither a .json nor a .csv file", options.output),
                "--output", "The ending chooses the format: JSON can be read back, CSV has one line for each sample.");
  }
  output("{}: {} run{}\n", options.output, runs.size(), runs.size() == 1 ? "" : "s");
}

void import_files(const BenchResultsCommandOptions& options) {
  std::vector<std::vector<BenchmarkRun>> runs;
  for (const std::string& file : options.files) runs.push_back(read_results_file(file));
  // After all files are known to be good.
  ResultsStore store(store_path(options));
  for (size_t i = 0; i < runs.size(); ++i)
    for (const BenchmarkRun& run : runs[i]) {
      const ImportedRun imported = store.import_run(run);
      output("{}: {} as run {}\n", printable(options.files[i]), imported.is_new ? "stored" : "already there",
             imported.id);
    }
}

}  // namespace

void add_bench_results_commands(CLI::App& bench) {
  auto options = std::make_shared<BenchResultsCommandOptions>();
  const auto add = [&](const char* name, const char* description, const char* example) {
    CLI::App* command = bench.add_subcommand(name, description);
    command->add_option("--store", options->store, "The results' SQLite file, in place of the usual one");
    command->footer(std::string("Example: causeway bench ") + example);
    return command;
  };
  CLI::App* list = add("list", "The runs in the store", "list");
  list->callback([options] { list_runs(*options); });

  CLI::App* compare =
      add("compare", "What changed between two runs beyond noise; exits with 1 on a regression", "compare 3 4");
  compare->add_option("before", options->before, "A run's number, latest, or a .json file");
  compare->add_option("after", options->after, "The other; the latest if it is left out");
  compare->add_option("--against", options->against, "Compare the first argument, or the latest run, with this");
  compare->add_flag("--all", options->all, "Also show what did not change");
  compare->callback([options] { compare_runs(*options); });

  CLI::App* report = add("report", "Write one HTML page of all results", "report -o report.html");
  report->add_option("files", options->files, "Exported .json files, in place of the store");
  report->add_option("-o,--output", options->output, "The page; causeway-report.html if it is left out");
  report->add_option("--costs", options->costs, "A cost table, YAML; benchmarks/costs.yaml shows the form");
  report->callback([options] { write_report_page(*options); });

  CLI::App* exporting = add("export", "Write runs as JSON or CSV", "export latest -o run.json");
  exporting->add_option("run", options->run, "A run's number, latest, or all");
  exporting->add_option("-o,--output", options->output, "A .json or .csv file")->required();
  exporting->callback([options] { export_run(*options); });

  CLI::App* importing = add("import", "Take exported runs into the store", "import run.json");
  importing->add_option("files", options->files, "Exported .json files")->required();
  importing->callback([options] { import_files(*options); });
}

}  // namespace causeway::cli
