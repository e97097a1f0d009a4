// `causeway bench`: what is measured. What becomes of the figures afterwards is in bench_results_commands.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "causeway/base/error.h"
#include "causeway/bench/gemm_benchmark.h"
#include "causeway/bench/session.h"
#include "causeway/cli/commands.h"

namespace causeway {
namespace {

struct Options {
  std::string device = "auto";
  std::string store;
  int samples = 100;
  double seconds = 0;  // most time for one case
  std::string inputs = "normal";
  std::vector<std::string> shapes, dtypes = {"bf16"};
  std::string cublaslt;
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

void run_gemms(BenchmarkSession& session, const Options& options) {
  GemmOptions gemm;
  gemm.inputs = parse_inputs(options.inputs);
  gemm.timing.samples = options.samples;
  gemm.timing.limit_seconds = options.seconds;
  gemm.timing.flush_bytes = flush_bytes_for(session.cache_bytes());
  std::vector<GemmCase> cases;
  for (const std::string& name : options.dtypes) {
    const DType dtype = parse_operands(name);
    for (const std::string& shape : options.shapes) cases.push_back({"asked for", parse_matmul_shape(shape, dtype)});
    if (!options.shapes.empty()) continue;
    const std::vector<GemmCase> standard =
        standard_gemm_cases(session.is_gpu(), dtype, session.device().memory_limit());
    cases.insert(cases.end(), standard.begin(), standard.end());
  }
  std::vector<std::unique_ptr<MatmulProvider>> providers;
  providers.push_back(make_causeway_matmul(session.device()));
  try {
    providers.push_back(open_cublaslt(session.device(), options.cublaslt));
  } catch (const Error& error) {
    session.skipped().push_back(error.what());
  }
  for (const GemmCase& one : cases)
    session.record(run_gemm(session.device(), one, providers, gemm, session.peak(), session.skipped()));
}

void add_common_options(CLI::App& command, const std::shared_ptr<Options>& options) {
  command.add_option("--device", options->device, "cpu, cuda, cuda:1, hip, emulator:sm_90a or auto");
  command.add_option("--samples", options->samples, "Samples of each figure")->check(CLI::Range(1, 1000000));
  command.add_option("--seconds", options->seconds, "Most time for one case; 0: no limit");
  command.add_option("--store", options->store, "The results' SQLite file, in place of the usual one");
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
  };

  CLI::App* gemm = command->add_subcommand("gemm", "Matrix products by shape and type");
  add_common_options(*gemm, options);
  gemm->add_option("--shape", options->shapes, "m x n x k, as 8192x8192x8192; several may be given");
  gemm->add_option("--dtype", options->dtypes, "bf16, f16, f32, f8e4m3, f8e5m2; several by commas")->delimiter(',');
  gemm->add_option("--inputs", options->inputs, "normal, uniform, integers or zeros");
  gemm->add_option("--cublaslt", options->cublaslt, "cuBLASLt's file, where it is not in a usual place");
  gemm->footer("Example: causeway bench gemm --shape 8192x8192x8192 --dtype bf16,f8e4m3");
  gemm->callback([measure] { measure("gemm", run_gemms); });
  add_bench_results_commands(*command);
}

}  // namespace causeway
