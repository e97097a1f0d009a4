// `causeway bench`: what is measured. What becomes of the figures afterwards is in bench_results_commands.cpp.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>

#include "causeway/base/error.h"
#include "causeway/bench/attention_benchmark.h"
#include "causeway/bench/collectives_benchmark.h"
#include "causeway/bench/copy_benchmark.h"
#include "causeway/bench/gemm_benchmark.h"
#include "causeway/bench/providers/open_providers.h"
#include "causeway/bench/results/compare.h"
#include "causeway/bench/results/results_file.h"
#include "causeway/bench/session.h"
#include "causeway/bench/startup_benchmark.h"
#include "causeway/bench/train_benchmark.h"
#include "causeway/cli/commands.h"
#include "causeway/device/open_device.h"

namespace causeway {
namespace {

struct Options {
  std::string device = "auto";
  std::string store, against;
  int samples = 100;
  double seconds = 0;  // most time for one case
  std::string inputs = "normal";
  std::vector<std::string> shapes, dtypes = {"bf16"}, collective_dtypes = {"f32"};
  std::vector<std::string> providers, libraries;
  std::vector<std::string> sizes, collectives, models;
  int devices = 0;
  std::string nccl;
  bool no_multicast = false, nccl_table = true;
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

TimingOptions timing_of(const BenchmarkSession& session, const Options& options) {
  TimingOptions timing;
  timing.samples = options.samples;
  timing.limit_seconds = options.seconds;
  timing.flush_bytes = flush_bytes_for(session.cache_bytes());
  return timing;
}

void run_gemms(BenchmarkSession& session, const Options& options) {
  GemmOptions gemm;
  gemm.inputs = parse_inputs(options.inputs);
  gemm.timing = timing_of(session, options);
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

void run_copies(BenchmarkSession& session, const Options& options) {
  CopyOptions copy;
  copy.timing = timing_of(session, options);
  copy.cache_bytes = session.cache_bytes();
  Device& device = session.device();
  const int64_t memory = device.memory_limit();
  session.record(run_stream(device, standard_stream_elements(session.is_gpu(), session.cache_bytes(), memory),
                            causeway_stream(device), copy, session.peak(), session.skipped()));
  std::vector<int64_t> sizes;
  for (const std::string& size : options.sizes) sizes.push_back(parse_collective_bytes(size));
  if (sizes.empty()) sizes = standard_copy_sizes(memory);
  for (const int64_t bytes : sizes)
    session.record(run_copy(device, bytes, copy_entry_points(device), copy, session.peak(), session.skipped()));
}

// Ranks of a group: every GPU of the vendor, or threads of the processor, or as many as were asked for.
int collective_devices(const Options& options) {
  if (options.devices > 0) return options.devices;
  const std::string vendor = options.device.substr(0, options.device.find(':'));
  int gpus = 0, threads = 2;
  for (const DeviceDescription& description : describe_devices()) {
    const bool wanted =
        vendor == "auto" ? !description.spec.starts_with("emulator") : description.spec.starts_with(vendor);
    if (description.spec == "cpu") threads = description.parallel_units;
    if (wanted && description.usable && description.spec != "cpu") ++gpus;
  }
  return gpus > 0 ? gpus : std::clamp(threads, 2, 8);
}

void run_all_collectives(BenchmarkSession& session, const Options& options) {
  const int count = collective_devices(options);
  std::vector<std::shared_ptr<Device>> devices = {session.shared_device()};
  const std::string name = session.device().name();
  for (int i = 1; i < count; ++i)
    devices.push_back(session.is_gpu() ? open_device(fmt::format("{}:{}", name.substr(0, name.find(':')), i))
                                       : session.shared_device());
  CollectivesOptions collectives;
  collectives.timing = timing_of(session, options);
  collectives.communicator.library = options.nccl;
  collectives.communicator.nvlink_multicast = !options.no_multicast;
  std::vector<int64_t> sizes;
  for (const std::string& size : options.sizes) sizes.push_back(parse_collective_bytes(size));
  std::vector<CollectiveCase> cases;
  for (const std::string& dtype : options.collective_dtypes) {
    const auto standard = standard_collective_cases(session.is_gpu(), count, parse_operands(dtype), sizes);
    cases.insert(cases.end(), standard.begin(), standard.end());
  }
  std::vector<CollectiveKind> wanted;
  for (const std::string& kind : options.collectives) wanted.push_back(parse_collective(kind));
  std::erase_if(cases, [&](const CollectiveCase& one) {
    return !wanted.empty() && std::find(wanted.begin(), wanted.end(), one.kind) == wanted.end();
  });
  const std::vector<Measurement> all =
      run_collectives(devices, cases, collectives, session.peak(), session.skipped(),
                      [&](const Measurement& measurement) { session.record({measurement}); });
  if (options.nccl_table) fmt::print("\n{}", format_nccl_table(all));
}

void run_training(BenchmarkSession& session, const Options& options) {
  TrainOptions train;
  train.steps = options.samples;
  train.limit_seconds = options.seconds == 0 ? 20 : options.seconds;
  std::vector<TrainCase> cases = standard_train_cases(session.device());
  for (const std::string& model : options.models)
    if (std::none_of(cases.begin(), cases.end(), [&](const TrainCase& one) { return one.recipe == model; })) {
      std::vector<std::string> names;
      for (const TrainCase& one : cases)
        if (std::find(names.begin(), names.end(), one.recipe) == names.end()) names.push_back(one.recipe);
      throw Error(ErrorKind::kInvalidArgument, fmt::format("'{}' is no model of this benchmark", model), "--model",
                  fmt::format("Did you mean '{}'? On this device there are: {}.", nearest_name(model, names),
                              fmt::join(names, ", ")));
    }
  for (const TrainCase& one : cases) {
    if (!options.models.empty() &&
        std::find(options.models.begin(), options.models.end(), one.recipe) == options.models.end())
      continue;
    if (std::optional<Measurement> measurement =
            run_train(session.device(), one, train, session.peak(), session.telemetry(), session.skipped()))
      session.record({std::move(*measurement)});
  }
}

void run_attentions(BenchmarkSession& session, const Options& options) {
  std::vector<AttentionProvider> providers;
  providers.push_back(causeway_attention());
  for (const AttentionCase& one : standard_attention_cases(session.is_gpu(), parse_operands(options.dtypes.front()),
                                                           session.device().memory_limit()))
    session.record(run_attention(session.device(), one, providers, timing_of(session, options), session.peak(),
                                 session.skipped()));
}

void run_startups(BenchmarkSession& session, const Options&) {
  session.record(
      run_startup({.program = std::filesystem::read_symlink("/proc/self/exe"), .device = session.device().name()}));
}

// Everything, in minutes: each case has a short time of its own.
void run_suite(BenchmarkSession& session, const Options& asked) {
  Options options = asked;
  if (options.seconds == 0) options.seconds = session.is_gpu() ? 1 : 2;
  const double each = options.seconds;
  options.nccl_table = false;
  const auto part = [](int number, const char* name) { fmt::print("\n[{} of 6] {}\n", number, name); };
  part(1, "memory");
  run_copies(session, options);
  part(2, "matrix products");
  options.dtypes =
      session.is_gpu() ? std::vector<std::string>{"bf16", "f8e4m3"} : std::vector<std::string>{"bf16", "f32"};
  run_gemms(session, options);
  part(3, "attention");
  options.dtypes = {"bf16"};
  run_attentions(session, options);
  part(4, "training");
  options.seconds = session.is_gpu() ? 5 : 20;
  run_training(session, options);
  options.seconds = each;
  part(5, "start");
  run_startups(session, options);
  part(6, "collectives");
  const int devices = collective_devices(options);
  if (session.is_gpu() && devices < 2) {
    session.skipped().push_back("collectives: there is one GPU, and nothing to exchange");
  } else {
    run_all_collectives(session, options);
  }
}

void add_common_options(CLI::App& command, const std::shared_ptr<Options>& options) {
  command.add_option("--device", options->device, "cpu, cuda, cuda:1, hip, emulator:sm_90a or auto");
  command.add_option("--samples", options->samples, "Samples of each figure")->check(CLI::Range(1, 1000000));
  command.add_option("--seconds", options->seconds, "Most time for one case; 0: no limit");
  command.add_option("--store", options->store, "The results' SQLite file, in place of the usual one");
  command.add_option("--against", options->against,
                     "Compare with this run or .json file; exits with 1 when something is slower");
}

using Part = void (*)(BenchmarkSession&, const Options&);

void measure(const std::string& command, const Options& options, Part part, int device_count) {
  BenchmarkSession session({.device = options.device,
                            .store = options.store,
                            .command = command,
                            .device_count = device_count,
                            .samples = options.samples});
  part(session, options);
  if (!session.finish()) command_status = 1;
  if (options.against.empty()) return;
  const std::vector<Change> changes = compare(load_run_reference(session.store(), options.against),
                                              load_run_reference(session.store(), std::to_string(session.run())));
  fmt::print("\n{}", format_changes(changes));
  if (is_regression(worst_verdict(changes))) command_status = 1;
}

}  // namespace

void add_bench_command(CLI::App& program) {
  CLI::App* command =
      program.add_subcommand("bench", "Measure what a device really does, beside its vendor's libraries");
  command->require_subcommand(0, 1);
  command->footer("Example: causeway bench\nOne part, with its options: causeway bench gemm --dtype bf16,f8e4m3");
  auto options = std::make_shared<Options>();
  add_common_options(*command, options);
  command->callback([command, options] {
    if (command->get_subcommands().empty()) measure("causeway bench", *options, run_suite, 1);
  });
  const auto add = [&](const char* name, const char* description, const char* example, Part part) {
    CLI::App* sub = command->add_subcommand(name, description);
    add_common_options(*sub, options);
    sub->footer(fmt::format("Example: causeway bench {}", example));
    const bool several = std::string_view(name) == "collectives";
    sub->callback([options, part, name, several] {
      measure(fmt::format("causeway bench {}", name), *options, part, several ? collective_devices(*options) : 1);
    });
    return sub;
  };

  CLI::App* gemm =
      add("gemm", "Matrix products by shape and type", "gemm --shape 8192x8192x8192 --dtype bf16,f8e4m3", run_gemms);
  gemm->add_option("--shape", options->shapes, "m x n x k, as 8192x8192x8192; several may be given");
  gemm->add_option("--dtype", options->dtypes, "bf16, f16, f32, f8e4m3, f8e5m2; several by commas")->delimiter(',');
  gemm->add_option("--inputs", options->inputs, "normal, uniform, integers or zeros");
  gemm->add_option("--provider", options->providers,
                   "causeway, cublaslt, cublaslt-fast, cublas, hipblaslt, openblas, onednn; all that fit without it")
      ->delimiter(',');
  gemm->add_option("--library", options->libraries, "A provider's library that is elsewhere, as cublaslt=FILE");

  CLI::App* copy =
      add("copy", "Memory: copies by size, and BabelStream's five kernels", "copy --size 64M,1G", run_copies);
  copy->add_option("--size", options->sizes, "Bytes, as 64M or 1G; several by commas")->delimiter(',');

  CLI::App* collectives = add("collectives", "Exchange between devices, by nccl-tests' conventions",
                              "collectives --collective all_reduce --size 16M,256M", run_all_collectives);
  collectives->add_option("--devices", options->devices, "How many; all GPUs without it");
  collectives->add_option("--size", options->sizes, "Bytes, as 16M or 8G; several by commas")->delimiter(',');
  collectives
      ->add_option("--collective", options->collectives,
                   "all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, send_receive; all without it")
      ->delimiter(',');
  collectives->add_option("--dtype", options->collective_dtypes, "f32, bf16")->delimiter(',');
  collectives->add_option("--nccl", options->nccl, "The file of NCCL or RCCL, where it is not in a usual place");
  collectives->add_flag("--no-multicast", options->no_multicast, "Leave NVLink's multicast out (NCCL_NVLS_ENABLE=0)");
  CLI::App* attention =
      add("attention", "Causal, full, windowed, by document, ALiBi; forward and backward", "attention", run_attentions);
  attention->add_option("--dtype", options->dtypes, "bf16 or f16");
  add("startup", "From the start of the program to its first training step", "startup", run_startups);
  CLI::App* train =
      add("train", "Training steps of whole models on random tokens", "train --model gpt2_124m", run_training);
  train->add_option("--model", options->models, "Recipes' names, as gpt2_1.5b; several by commas")->delimiter(',');
  add_bench_results_commands(*command);
}

}  // namespace causeway
