// `causeway bench`: what is measured. What becomes of the figures afterwards is in bench_results_commands.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "causeway/base/error.h"
#include "causeway/bench/gemm_benchmark.h"
#include "causeway/bench/providers/open_providers.h"
#include "causeway/bench/results/compare.h"
#include "causeway/bench/results/results_file.h"
#include "causeway/bench/session.h"
#include "causeway/cli/commands.h"

namespace causeway {
namespace {

struct Options {
  std::string device = "auto";
  std::string store, against;
  int samples = 100;
  double seconds = 0;  // most time for one case
  std::string inputs = "normal";
  std::vector<std::string> shapes, dtypes = {"bf16"};
  std::vector<std::string> providers, libraries;
};

InputDistribution parse_inputs(const std::string& name) {
  const std::vector<std::string> names = {"normal", "uniform", "integers", "zeros"};
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    throw Error(ErrorKind::kInvalidArgument, fmt::format("'{}' is no distribution of inputs", name), "--inputs",
                "Choose normal, uniform, integers or zeros.");
  return static_cast<InputDistribution>(found - names.begin());
}

DType parse_operands(const std::string& name) {
  const std::optional<DType> dtype = parse_dtype(name);
  if (!dtype || !is_float(*dtype))
    throw Error(ErrorKind::kInvalidArgument, fmt::format("'{}' is no type of numbers that are multiplied", name),
                "--dtype", "Choose bf16, f16, f32, f8e4m3 or f8e5m2.");
  return *dtype;
}

// "cublaslt=/opt/libcublasLt.so.13".
std::map<std::string, std::string> parse_libraries(const std::vector<std::string>& texts) {
  std::map<std::string, std::string> libraries;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos)
      throw Error(ErrorKind::kInvalidArgument, fmt::format("'{}' does not name a provider and a file", text),
                  "--library", "Write it as --library cublaslt=/path/to/libcublasLt.so.13.");
    libraries[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return libraries;
}

void run_gemms(BenchmarkSession& session, const Options& options) {
  GemmOptions gemm;
  gemm.inputs = parse_inputs(options.inputs);
  gemm.timing.samples = options.samples;
  gemm.timing.limit_seconds = options.seconds;
  gemm.timing.flush_bytes = flush_bytes_for(session.cache_bytes());
  std::vector<GemmCase> cases;
  for (const std::string& name : options.dtypes) {
    const DType dtype = parse_operands(name);
    const std::vector<GemmCase> standard =
        standard_gemm_cases(session.is_gpu(), dtype, session.device().memory_limit());
    if (options.shapes.empty()) cases.insert(cases.end(), standard.begin(), standard.end());
    for (const std::string& shape : options.shapes) {
      GemmCase asked = {"other shapes", parse_matmul_shape(shape, dtype)};
      for (const GemmCase& known : standard)
        if (known.workload == asked.workload) asked.group = known.group;
      cases.push_back(asked);
    }
  }
  const std::vector<std::unique_ptr<MatmulProvider>> providers =
      open_matmul_providers(session.device(), options.providers, parse_libraries(options.libraries), session.skipped());
  for (const GemmCase& one : cases)
    session.record(run_gemm(session.device(), one, providers, gemm, session.peak(), session.skipped()));
}

void add_common_options(CLI::App& command, const std::shared_ptr<Options>& options) {
  command.add_option("--device", options->device, "cpu, cuda, cuda:1, hip, emulator:sm_90a or auto");
  command.add_option("--samples", options->samples, "Samples of each figure")->check(CLI::Range(1, 1000000));
  command.add_option("--seconds", options->seconds, "Most time for one case; 0: no limit");
  command.add_option("--store", options->store, "The results' SQLite file, in place of the usual one");
  command.add_option("--against", options->against,
                     "Compare with this run or .json file; exits with 1 when something is slower");
}

}  // namespace

void add_bench_command(CLI::App& program) {
  CLI::App* command =
      program.add_subcommand("bench", "Measure what a device really does, beside its vendor's libraries");
  command->require_subcommand(1);
  command->footer("Example: causeway bench gemm --dtype bf16,f8e4m3");
  auto options = std::make_shared<Options>();
  const auto measure = [options](const std::string& name, void (*run)(BenchmarkSession&, const Options&)) {
    SessionOptions session_options;
    session_options.device = options->device;
    session_options.store = options->store;
    session_options.command = "causeway bench " + name;
    session_options.samples = options->samples;
    BenchmarkSession session(session_options);
    run(session, *options);
    if (!session.finish()) command_status = 1;
    if (options->against.empty()) return;
    const std::filesystem::path store = session.store();
    const std::vector<Change> changes =
        compare(load_run_reference(store, options->against), load_run_reference(store, std::to_string(session.run())));
    fmt::print("\n{}", format_changes(changes));
    if (is_regression(worst_verdict(changes))) command_status = 1;
  };

  CLI::App* gemm = command->add_subcommand("gemm", "Matrix products by shape and type");
  add_common_options(*gemm, options);
  gemm->add_option("--shape", options->shapes, "m x n x k, as 8192x8192x8192; several may be given");
  gemm->add_option("--dtype", options->dtypes, "bf16, f16, f32, f8e4m3, f8e5m2; several by commas")->delimiter(',');
  gemm->add_option("--inputs", options->inputs, "normal, uniform, integers or zeros");
  gemm->add_option("--provider", options->providers,
                   "causeway, cublaslt, cublaslt-fast, cublas, hipblaslt, openblas, onednn; all that fit without it")
      ->delimiter(',');
  gemm->add_option("--library", options->libraries, "A provider's library that is elsewhere, as cublaslt=FILE");
  gemm->footer("Example: causeway bench gemm --shape 8192x8192x8192 --dtype bf16,f8e4m3");
  gemm->callback([measure] { measure("gemm", run_gemms); });
  add_bench_results_commands(*command);
}

}  // namespace causeway
