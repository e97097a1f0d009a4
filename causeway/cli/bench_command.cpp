#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "causeway/base/error.h"
#include "causeway/bench/gemm_benchmark.h"
#include "causeway/bench/statistics.h"
#include "causeway/cli/commands.h"
#include "causeway/tensor/runtime.h"

namespace causeway {
namespace {

struct Options {
  std::string device = "auto";
  int samples = 100;
  double seconds = 0;
  std::string inputs = "normal";
  std::vector<std::string> shapes, dtypes = {"bf16"}, providers;
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

void run_gemms(const Options& options) {
  Runtime::use_device(options.device);
  Device& device = Runtime::current().device();
  const bool is_gpu = device.target().is_gpu();
  std::vector<std::unique_ptr<MatmulProvider>> providers;
  providers.push_back(make_causeway_matmul(device));
  std::vector<std::string> skipped;
  try {
    providers.push_back(open_cublaslt(device, options.cublaslt));
  } catch (const Error& error) {
    skipped.push_back(error.what());
  }
  GemmOptions gemm_options;
  gemm_options.inputs = parse_inputs(options.inputs);
  gemm_options.timing.samples = options.samples;
  gemm_options.timing.limit_seconds = options.seconds;
  gemm_options.timing.flush_bytes = flush_bytes_for(int64_t{50} << 20);
  fmt::print("{:<10}{:<22}{:<8}{:<20}{:>9}{:>9}{:>9}{:>9}{:>8}  {}\n", "group", "m x n x k", "type", "provider",
             "TFLOP/s", "p5", "p95", "mean", "samples", "check");
  for (const std::string& name : options.dtypes) {
    const std::optional<DType> dtype = parse_dtype(name);
    if (!dtype)
      throw Error(ErrorKind::kInvalidArgument, fmt::format("'{}' is no type", name), "--dtype",
                  "Choose bf16, f16, f32, f8e4m3 or f8e5m2.");
    std::vector<GemmCase> cases;
    for (const std::string& shape : options.shapes) cases.push_back({"asked for", parse_matmul_shape(shape, *dtype)});
    if (cases.empty()) cases = standard_gemm_cases(is_gpu, *dtype, device.memory_limit());
    for (const GemmCase& gemm : cases) {
      const auto no_peak = [](DType) { return std::optional<std::pair<double, std::string>>(); };
      for (const Measurement& m : run_gemm(device, gemm, providers, gemm_options, no_peak, skipped)) {
        const Summary s = summarize(m);
        fmt::print("{:<10}{:<22}{:<8}{:<20}{:>9.1f}{:>9.1f}{:>9.1f}{:>9.1f}{:>8}  {}{}\n", m.group, m.workload, m.dtype,
                   m.provider, m.rate(s.median), m.rate(s.p95), m.rate(s.p5), m.rate(s.mean), s.samples,
                   m.correct ? "" : "WRONG ", m.check);
        std::fflush(stdout);
      }
    }
  }
  for (const std::string& reason : skipped) fmt::print("left out: {}\n", reason);
}

}  // namespace

void add_bench_command(CLI::App& program) {
  auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand("bench", "Measure what a device does, beside its vendor's libraries");
  command->require_subcommand(0, 1);
  CLI::App* gemm = command->add_subcommand("gemm", "Matrix products by shape and type");
  gemm->add_option("--device", options->device, "cpu, cuda, cuda:1, hip or auto");
  gemm->add_option("--shape", options->shapes, "m x n x k, as 8192x8192x8192; several may be given");
  gemm->add_option("--dtype", options->dtypes, "bf16, f16, f32, f8e4m3, f8e5m2")->delimiter(',');
  gemm->add_option("--inputs", options->inputs, "normal, uniform, integers or zeros");
  gemm->add_option("--samples", options->samples, "Samples of each provider and shape");
  gemm->add_option("--seconds", options->seconds, "Most time for one shape");
  gemm->add_option("--cublaslt", options->cublaslt, "The library's file");
  gemm->callback([options] { run_gemms(*options); });
}

}  // namespace causeway
