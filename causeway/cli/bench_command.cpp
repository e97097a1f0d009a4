// `causeway bench`: what is measured. What becomes of the figures afterwards is in bench_results_commands.cpp.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>

#include "causeway/base/byte_size.h"
#include "causeway/base/console.h"
#include "causeway/base/error.h"
#include "causeway/bench/attention_benchmark.h"
#include "causeway/bench/choices.h"
#include "causeway/bench/collective_backend.h"
#include "causeway/bench/collectives_benchmark.h"
#include "causeway/bench/copy_benchmark.h"
#include "causeway/bench/gemm_benchmark.h"
#include "causeway/bench/generation_benchmark.h"
#include "causeway/bench/link_table.h"
#include "causeway/bench/providers/open_providers.h"
#include "causeway/bench/results/compare.h"
#include "causeway/bench/results/results_file.h"
#include "causeway/bench/session.h"
#include "causeway/bench/startup_benchmark.h"
#include "causeway/bench/train_benchmark.h"
#include "causeway/cli/commands.h"
#include "causeway/communicator/control_plane.h"
#include "causeway/communicator/mesh_communicators.h"
#include "causeway/communicator/mpi_communicator.h"
#include "causeway/device/cpu/cpu_device.h"
#include "causeway/device/open_device.h"
#include "causeway/train/log/progress_line.h"
#include "causeway/train/ranks.h"
#include "causeway/train/run_context.h"

namespace causeway::cli {
namespace {

struct BenchCommandOptions {
  std::string device = "auto";
  std::string store, against;
  int samples = 100;
  double seconds = 0;  // most time for one case
  std::string inputs = "normal";
  std::vector<std::string> shapes, dtypes = {"bf16"}, orders = {"nt"}, collective_dtypes = {"f32"};
  std::vector<std::string> providers, libraries;
  std::vector<std::string> sizes, kernels, collectives, models, precisions, mesh;
  AttentionChoice attention;
  std::optional<int64_t> batch, length;
  std::vector<int64_t> sequences;
  std::string build;
  int devices = 0;
  std::string backend, nccl, mpi;
  bool no_multicast = false, nccl_table = true, links = false;
};

DType parse_type(const std::string& name, const std::vector<std::string>& known) {
  choose("type of numbers here", name, "--dtype", known);
  return *parse_dtype(name);
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

TimingOptions timing_of(const BenchmarkSession& session, const BenchCommandOptions& options) {
  TimingOptions timing;
  timing.samples = options.samples;
  timing.limit_seconds = options.seconds;
  timing.flush_bytes = flush_bytes_for(session.cache_bytes());
  timing.clock = session.clock();
  return timing;
}

void run_gemm_cases(BenchmarkSession& session, const BenchCommandOptions& options, const std::vector<GemmCase>& cases) {
  GemmOptions gemm;
  gemm.inputs = parse_inputs(options.inputs);
  gemm.timing = timing_of(session, options);
  const std::vector<std::unique_ptr<GemmProvider>> providers =
      open_gemm_providers(session.device(), options.providers, parse_libraries(options.libraries), session.skipped());
  for (const GemmCase& one : cases)
    session.record(run_gemm(session.device(), one, providers, gemm, session.peak(), session.skipped()));
}

void run_gemms(BenchmarkSession& session, const BenchCommandOptions& options) {
  std::vector<GemmCase> cases;
  for (const std::string& name : options.dtypes) {
    const bool tf32 = name == "tf32", blocks = name == "f8e4m3_block";
    const DType dtype = tf32     ? DType::kF32
                        : blocks ? DType::kF8E4M3
                                 : parse_type(name, {"bf16", "f16", "tf32", "f32", "f8e4m3", "f8e4m3_block", "f8e5m2"});
    std::vector<GemmCase> standard = standard_gemm_cases(session.is_gpu(), dtype, session.device().memory_limit());
    if (blocks) std::erase_if(standard, [](const GemmCase& one) { return !has_blocks(one.workload); });
    for (GemmCase& one : standard) {
      one.workload.tf32 = tf32;
      one.workload.block_scales = blocks;
    }
    std::vector<GemmCase> asked = options.shapes.empty() ? standard : std::vector<GemmCase>();
    for (const std::string& shape : options.shapes) {
      GemmCase& one = asked.emplace_back("other shapes", parse_gemm_shape(shape, dtype, blocks));
      one.workload.tf32 = tf32;
      for (const GemmCase& known : standard)
        if (known.workload == one.workload) one.group = known.group;
    }
    for (const std::string& order : options.orders) {
      for (GemmCase one : asked) {
        set_gemm_order(one.workload, order);
        cases.push_back(one);
      }
    }
  }
  run_gemm_cases(session, options, cases);
}

void run_copies(BenchmarkSession& session, const BenchCommandOptions& options) {
  CopyOptions copy;
  copy.timing = timing_of(session, options);
  copy.cache_bytes = session.cache_bytes();
  copy.inputs = parse_inputs(options.inputs);
  const CopyChoice choice = choose_copies(options.kernels);
  Device& device = session.device();
  // A processor's copies are of the same sizes on every machine, so that their figures can be compared.
  const int64_t memory = session.is_gpu() ? device.memory_limit() : 0;
  std::vector<int64_t> sizes, arrays;
  for (const std::string& size : options.sizes) sizes.push_back(parse_byte_size(size, "--size"));
  // Sizes are those of BabelStream's arrays where its kernels were asked for by name.
  if (!options.kernels.empty()) arrays = sizes;
  // Before the first is measured, for minutes.
  if (!choice.stream.empty()) std::ranges::for_each(arrays, check_array_size);
  if (choice.loop || choice.device_copy) std::ranges::for_each(sizes, check_copy_size);
  if (arrays.empty()) arrays = {4 * standard_stream_elements(session.is_gpu(), session.cache_bytes(), memory)};
  if (sizes.empty()) sizes = standard_copy_sizes(memory);
  if (!choice.stream.empty())
    for (const int64_t bytes : arrays)
      session.record(run_stream(device, bytes / 4, causeway_stream(device), copy, session.peak(), session.skipped(),
                                choice.stream));
  std::vector<CopyEntryPoint> entries = copy_entry_points(device);
  if (!choice.loop) entries.pop_back();
  if (!choice.device_copy) entries.erase(entries.begin());
  if (!entries.empty())
    for (const int64_t bytes : sizes)
      session.record(run_copy(device, bytes, entries, copy, session.peak(), session.skipped()));
}

// Ranks of a group: every GPU of the vendor, or threads of the processor, or as many as were asked for.
int collective_devices(const BenchCommandOptions& options) {
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

std::vector<CollectiveCase> collective_cases(const BenchCommandOptions& options, bool is_gpu, int ranks) {
  std::vector<int64_t> sizes;
  for (const std::string& size : options.sizes) sizes.push_back(parse_byte_size(size, "--size"));
  std::vector<CollectiveCase> cases;
  if (options.links) {
    if (!options.collectives.empty())
      throw Error(ErrorKind::kInvalidArgument, "links are measured by send_receive between each two ranks alone",
                  "--collective", "Leave out --collective or --links.");
    constexpr int64_t kOnGpus = int64_t{64} << 20, kOnProcessors = int64_t{4} << 20;
    const int64_t usual = is_gpu ? kOnGpus : kOnProcessors;
    return link_cases(ranks, parse_type(options.collective_dtypes.front(), {"f32", "bf16"}),
                      sizes.empty() ? usual : *std::ranges::max_element(sizes));
  }
  for (const std::string& dtype : options.collective_dtypes) {
    const auto standard = standard_collective_cases(is_gpu, ranks, parse_type(dtype, {"f32", "bf16"}), sizes);
    cases.insert(cases.end(), standard.begin(), standard.end());
  }
  std::vector<CollectiveKind> wanted;
  for (const std::string& kind : options.collectives) wanted.push_back(parse_collective(kind));
  std::erase_if(cases, [&](const CollectiveCase& one) {
    return !wanted.empty() && std::find(wanted.begin(), wanted.end(), one.kind) == wanted.end();
  });
  return cases;
}

CollectivesOptions collectives_options(const BenchCommandOptions& options) {
  CollectivesOptions collectives;
  collectives.timing.samples = options.samples;
  collectives.timing.limit_seconds = options.seconds;
  collectives.nvlink_multicast = !options.no_multicast;
  return collectives;
}

void run_groups(BenchmarkSession& session, const BenchCommandOptions& options, const RankGroups& groups) {
  const std::vector<Measurement> all = run_collectives(
      groups, collective_cases(options, session.is_gpu(), groups.ranks), collectives_options(options), session.peak(),
      session.skipped(), [&](const Measurement& measurement) { session.record({measurement}); });
  if (options.nccl_table) output("\n{}", options.links ? format_link_table(all) : format_nccl_table(all));
}

void run_all_collectives(BenchmarkSession& session, const BenchCommandOptions& options) {
  std::vector<std::shared_ptr<Device>> devices = {session.shared_device()};
  const std::string name = session.device().name();
  for (int i = 1; i < collective_devices(options); ++i)
    devices.push_back(session.is_gpu() ? open_device(fmt::format("{}:{}", name.substr(0, name.find(':')), i))
                                       : session.shared_device());
  run_groups(session, options, groups_of(devices, {options.nccl, !options.no_multicast}));
}

TrainOptions train_options(const BenchCommandOptions& options) {
  TrainOptions train;
  train.steps = options.samples;
  train.limit_seconds = options.seconds == 0 ? 20 : options.seconds;
  return train;
}

void run_training(BenchmarkSession& session, const BenchCommandOptions& options, const Recipe::MeshSizes& mesh) {
  TrainOptions train = train_options(options);
  train.clock = session.clock();
  std::unique_ptr<LanguageModel> model;
  for (const TrainCase& one : choose_train_cases({options.models, options.precisions, options.batch, mesh},
                                                 session.device(), session.skipped()))
    if (std::optional<Measurement> measurement =
            run_train(session.device(), one, train, session.peak(), session.telemetry(), model, session.skipped())) {
      session.record({*measurement});
      output("  {}\n", train_figures(*measurement));
      if (mesh.ranks() > 1) output("  {}\n", measurement->check);
    }
}

void run_generations(BenchmarkSession& session, const BenchCommandOptions& options) {
  const GenerationChoice choice{options.models, options.precisions, options.sequences, options.length};
  for (const GenerationCase& one : choose_generation_cases(choice, session.device())) {
    const std::optional<Measurement> measurement =
        run_generation(session.device(), one, {options.samples, session.clock()}, session.peak(), session.skipped());
    if (!measurement) continue;
    session.record({*measurement});
    output("  at least {} read a pass, {}; prompts: {}; KV cache: {}\n", measurement->details.at("bytes of a pass"),
           measurement->details.at("read at least"), measurement->details.at("prompts"),
           measurement->details.at("KV cache"));
  }
}

void run_attentions(BenchmarkSession& session, const BenchCommandOptions& options) {
  AttentionSettings settings;
  settings.inputs = parse_inputs(options.inputs);
  settings.timing = timing_of(session, options);
  std::vector<AttentionCase> cases;
  for (const std::string& dtype : options.dtypes) {
    const std::vector<AttentionCase> chosen =
        choose_attention_cases(options.attention, session.is_gpu(), parse_type(dtype, {"bf16", "f16", "f32"}),
                               session.device().memory_limit());
    cases.insert(cases.end(), chosen.begin(), chosen.end());
  }
  for (const AttentionCase& one : cases)
    session.record(
        run_attention(session.device(), one, {causeway_attention()}, settings, session.peak(), session.skipped()));
}

void run_startups(BenchmarkSession& session, const BenchCommandOptions& options) {
  if (!options.build.empty()) check_sources(options.build);
  // What was measured before this holds memory that the program that is started needs.
  session.context().release_memory();
  StartupOptions startup = {.program = std::filesystem::read_symlink("/proc/self/exe"),
                            .device = session.device().name()};
  for (const StartupModel& model : standard_startup_models(session.device())) {
    if (!model.prefix.empty()) {
      startup.cold_samples = 2;
      startup.warm_samples = 3;
    }
    try {
      session.record(run_startup(startup, model));
    } catch (const Error& error) {
      session.skipped().push_back(fmt::format("start, {}: {}", model.description, error.what()));
    }
  }
  if (!options.build.empty()) {
    try {
      session.record({run_build(options.build)});
    } catch (const Error& error) {
      session.skipped().push_back(fmt::format("building the program: {}", error.what()));
    }
  }
  output("  The program: {}. {}\n", program_size(startup.program),
         options.build.empty() ? "Its build time: `causeway bench startup --build SOURCES` builds it and says." : "");
}

// Everything, in minutes: each case has a short time of its own.
void run_suite(BenchmarkSession& session, const BenchCommandOptions& asked) {
  BenchCommandOptions options = asked;
  if (options.seconds == 0) options.seconds = session.is_gpu() ? 1 : 2;
  const double each = options.seconds;
  options.nccl_table = false;
  auto begun = std::chrono::steady_clock::now();
  int number = 0;
  const auto part = [&](const char* name) {
    const auto now = std::chrono::steady_clock::now();
    if (number > 0) output("\nThat took {}.\n", format_duration(std::chrono::duration<double>(now - begun).count()));
    output("\n[{} of 6] {}\n", ++number, name);
    begun = now;
  };
  part("memory");
  run_copies(session, options);
  part("GEMMs");
  run_gemm_cases(session, options, suite_gemm_cases(session.device()));
  part("attention");
  run_attentions(session, options);
  part("training");
  options.seconds = session.is_gpu() ? 5 : 20;
  run_training(session, options, {});
  options.seconds = each;
  part("start");
  run_startups(session, options);
  part("collectives");
  const int devices = collective_devices(options);
  if (session.is_gpu() && devices < 2) {
    session.skipped().push_back("collectives: there is one GPU, and nothing to exchange");
  } else {
    run_all_collectives(session, options);
  }
}

void add_common_options(CLI::App& command, const std::shared_ptr<BenchCommandOptions>& options) {
  command.add_option("--device", options->device, "cpu, cuda, cuda:1, hip, emulator:sm_90a or auto");
  command.add_option("--samples", options->samples, "Samples of each figure")->check(CLI::Range(1, 1000000));
  command.add_option("--seconds", options->seconds, "Most time for one case; 0: no limit");
  command.add_option("--store", options->store, "The results' SQLite file, in place of the usual one");
  command.add_option("--against", options->against,
                     "Compare with this run or .json file; exits with 1 when something is slower");
}

using Part = std::function<void(BenchmarkSession&, const BenchCommandOptions&)>;

void measure(const std::string& command, const BenchCommandOptions& options, const Part& part, int device_count,
             const std::shared_ptr<Context>& context = nullptr) {
  BenchmarkSession session({.device = options.device,
                            .context = context,
                            .store = options.store,
                            .command = command,
                            .device_count = device_count,
                            .samples = options.samples});
  // Before anything is measured: a wrong name is told at once, and "latest" is the run before this one.
  std::optional<BenchmarkRun> reference;
  if (!options.against.empty()) reference = load_run_reference(session.store(), options.against);
  part(session, options);
  if (!session.finish()) command_status = 1;
  if (!reference || session.run() == 0) return;
  const BenchmarkRun run = load_run_reference(session.store(), std::to_string(session.run()));
  const std::vector<Change> changes = compare(*reference, run, {}, load_earlier_runs(session.store(), run));
  output("\n{}", format_changes(changes));
  if (is_regression(worst_verdict(changes))) command_status = 1;
}

// In one process, or as one of several: then that of rank 0 prints and stores.
void measure_collectives(const std::string& command, const BenchCommandOptions& asked) {
  const std::optional<MpiLaunch> launch = find_mpi_launch();
  BenchCommandOptions options = asked;
  CollectiveBackend backend;
  std::vector<CollectiveCase> cases;
  try {
    backend = choose_collective_backend(options.backend, options.device, launch);
    if (backend.between_processes && options.devices > 0)
      throw Error(ErrorKind::kInvalidArgument, "with MPI there is a rank for each process", "--devices",
                  "Say how many by the launcher's option: mpirun -n 4.");
    if (backend.between_processes) cases = collective_cases(options, backend.device != "cpu", launch->size);
  } catch (const Error&) {
    // The command line is the same in every process: one tells what is wrong with it.
    if (launch && launch->rank > 0) return;
    throw;
  }
  options.device = backend.device;
  if (!backend.between_processes) return measure(command, options, run_all_collectives, collective_devices(options));
  options.device = device_of_local_rank(backend.device, launch ? launch->local_rank : std::nullopt);
  const std::shared_ptr<Device> device =
      backend.device == "cpu" ? std::make_shared<CpuDevice>(1) : open_device(options.device);
  const std::shared_ptr<Communicator> world =
      open_device_communicator(open_mpi(device, {.library = options.mpi}), {options.nccl, !options.no_multicast});
  const RankGroups groups = groups_of(*world);
  if (world->first_local() > 0) {
    std::vector<std::string> told_by_rank_0;
    run_collectives(groups, cases, collectives_options(options), {}, told_by_rank_0);
    return;
  }
  const auto part = [&](BenchmarkSession& session, const BenchCommandOptions&) {
    run_groups(session, options, groups);
  };
  measure(command, options, part, world->size());
}

// In one process, or as one of several: then each is a rank of the mesh, and rank 0 prints and stores.
void measure_training(const std::string& command, const BenchCommandOptions& options) {
  const std::optional<MpiLaunch> launch = find_mpi_launch();
  Recipe run;  // of which only the device and the mesh are asked for
  run.device = options.device;
  try {
    run.mesh = parse_benchmark_mesh(options.mesh, launch ? launch->size : 1);
  } catch (const Error&) {
    // The command line is the same in every process: one tells what is wrong with it.
    if (launch && launch->rank > 0) throw train::SaidElsewhere();
    throw;
  }
  const auto part = [&](BenchmarkSession& session, const BenchCommandOptions& all) {
    run_training(session, all, run.mesh);
  };
  train::StartTimes start;
  const std::shared_ptr<Context> context = train::open_run_context(run, start);
  const std::shared_ptr<MeshCommunicators> communicators = context->communicators();
  if (communicators == nullptr) return measure(command, options, part, 1, context);
  ControlPlane control(communicators->world(), communicators->progress());
  try {
    if (communicators->rank() == 0) return measure(command, options, part, static_cast<int>(run.mesh.ranks()), context);
    const ContextScope scope(context);
    std::vector<std::string> told_by_rank_0;
    const std::unique_ptr<TelemetryReader> telemetry = open_telemetry(context->device().name());
    std::unique_ptr<LanguageModel> model;
    for (const TrainCase& one : choose_train_cases({options.models, options.precisions, options.batch, run.mesh},
                                                   context->device(), told_by_rank_0))
      run_train(context->device(), one, train_options(options), {}, *telemetry, model, told_by_rank_0);
  } catch (const train::ErrorOfAllRanks&) {
    if (communicators->rank() != 0) throw train::SaidElsewhere();
    throw;
  } catch (const std::exception& error) {
    control.fail(error.what(), dynamic_cast<const CollectiveError*>(&error) != nullptr);
    throw;
  }
}

void add_collectives_options(CLI::App& command, const std::shared_ptr<BenchCommandOptions>& options) {
  command.add_option("--backend", options->backend,
                     "threads, mpi (between the processes that mpirun started, on processors), nccl, rccl (between "
                     "such processes too); without it what the device has, under mpirun mpi unless that is a GPU");
  command.add_option("--devices", options->devices, "How many; all GPUs without it; not with mpi");
  command.add_option("--size", options->sizes, "Bytes, as 16M or 8G; several by commas")->delimiter(',');
  command
      .add_option("--collective", options->collectives,
                  "all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, send_receive; all without it")
      ->delimiter(',');
  command.add_option("--dtype", options->collective_dtypes, "f32, bf16")->delimiter(',');
  command.add_option("--nccl", options->nccl, "The file of NCCL or RCCL, where it is not in a usual place");
  command.add_option("--mpi", options->mpi, "The file of MPI's library, where it is not in a usual place");
  command.add_flag("--links", options->links,
                   "Only send_receive between each two ranks, as a table; of the largest --size");
  command.add_flag("--no-multicast", options->no_multicast, "Leave NVLink's multicast out (NCCL_NVLS_ENABLE=0)");
}

}  // namespace

void add_bench_command(CLI::App& program) {
  CLI::App* command =
      program.add_subcommand("bench", "Measure what a device really does, beside its vendor's libraries");
  command->require_subcommand(0, 1);
  command->footer("Example: causeway bench\nOne part, with its options: causeway bench gemm --dtype bf16,f8e4m3");
  auto options = std::make_shared<BenchCommandOptions>();
  add_common_options(*command, options);
  command->callback([command, options] {
    if (command->get_subcommands().empty()) measure("causeway bench", *options, run_suite, 1);
  });
  const auto add = [&](const char* name, const char* description, const char* example, const Part& part) {
    CLI::App* sub = command->add_subcommand(name, description);
    add_common_options(*sub, options);
    sub->footer(fmt::format("Example: causeway bench {}", example));
    sub->callback([options, part, name] { measure(fmt::format("causeway bench {}", name), *options, part, 1); });
    return sub;
  };

  CLI::App* gemm = add("gemm", "GEMMs by shape and type", "gemm --shape 8192x8192x8192 --dtype bf16,f8e4m3", run_gemms);
  gemm->add_option("--shape", options->shapes, "m x n x k, as 8192x8192x8192; several may be given");
  gemm->add_option("--dtype", options->dtypes, "bf16, f16, tf32, f32, f8e4m3, f8e4m3_block, f8e5m2; several by commas")
      ->delimiter(',');
  gemm->add_option("--order", options->orders,
                   "How operands lie, as BLAS names it: nt (A[m, k] B[n, k], a layer's forward pass), nn (A[m, k] "
                   "B[k, n], its input's gradient), tn (A[k, m] B[k, n], its weights' gradient), tt; several by commas")
      ->delimiter(',');
  const auto add_inputs = [&](CLI::App* part) {
    part->add_option("--inputs", options->inputs, "normal, uniform, integers or zeros");
  };
  add_inputs(gemm);
  gemm->add_option("--provider", options->providers,
                   "causeway, cublaslt, cublaslt-fast, cublas, hipblaslt, openblas, onednn; all that fit without it")
      ->delimiter(',');
  gemm->add_option("--library", options->libraries, "A provider's library that is elsewhere, as cublaslt=FILE");

  CLI::App* copy =
      add("copy", "Memory: copies by size, and BabelStream's five kernels", "copy --size 64M,1G", run_copies);
  copy->add_option("--size", options->sizes,
                   "Bytes, as 64M or 1G; several by commas. Of copies, and of BabelStream's arrays where --kernel "
                   "names its kernels")
      ->delimiter(',');
  copy->add_option("--kernel", options->kernels,
                   "device, loop (copies by size); copy, mul, add, triad, dot (BabelStream); all without it")
      ->delimiter(',');
  add_inputs(copy);

  CLI::App* collectives = add("collectives", "Exchange between devices, by nccl-tests' conventions",
                              "collectives --collective all_reduce --size 16M,256M\n"
                              "Between processes: mpirun -n 4 causeway bench collectives",
                              run_all_collectives);
  collectives->callback([options] { measure_collectives("causeway bench collectives", *options); });
  add_collectives_options(*collectives, options);
  CLI::App* attention =
      add("attention", "Causal, full, windowed, by document, ALiBi, soft-capped; forward and backward",
          "attention --pattern causal,window --window 1024 --shape 4x32x8x4096x128", run_attentions);
  attention
      ->add_option("--pattern", options->attention.patterns,
                   "causal, full, window, document, alibi, softcap; all without it")
      ->delimiter(',');
  attention->add_option(
      "--shape", options->attention.shapes,
      "batch x query heads x key heads x length x head dimension (x that of values, where it is another one); "
      "several may be given");
  attention->add_option("--window", options->attention.window, "Keys that the pattern window sees");
  attention
      ->add_option("--direction", options->attention.directions,
                   "forward, backward (with the forward pass that it needs); both without it")
      ->delimiter(',');
  attention->add_option("--dtype", options->dtypes, "bf16, f16 or f32; several by commas")->delimiter(',');
  add_inputs(attention);
  CLI::App* startup =
      add("startup", "From the start of the program to its first training step", "startup --build .", run_startups);
  startup->add_option(
      "--build", options->build,
      "Directory of the sources: builds the program from nothing, without a compiler cache, and times it");
  CLI::App* train = add("train", "Training steps of whole models on random tokens",
                        "train --model gpt2_124m\n"
                        "On several GPUs: causeway launch -n 4 -- bench train --model llama3_8b --mesh fsdp=4",
                        {});
  train->callback([options] { measure_training("causeway bench train", *options); });
  train->add_option("--model", options->models, "Recipes' names, as gpt2_1.5b; several by commas")->delimiter(',');
  train->add_option("--precision", options->precisions, "bf16, fp8, fp8_block, tf32, f32; several by commas")
      ->delimiter(',');
  train->add_option("--batch", options->batch,
                    "Sequences of a micro-batch, of each group of ranks with rows of its own; without it as published, "
                    "or what fits");
  train
      ->add_option("--mesh", options->mesh,
                   "Of the processes that were started, as fsdp=4 or fsdp=2,tp=2 (dp, fsdp, cp, tp); dp without it")
      ->delimiter(',');
  train->add_option("--steps", options->samples, "Steps that are timed; as --samples")->check(CLI::Range(1, 1000000));
  CLI::App* generate = add("generate", "Tokens one after another, with a KV cache",
                           "generate --model gpt2_124m --sequences 1,16", run_generations);
  generate->add_option("--model", options->models, "Recipes' names, as gpt2_124m; several by commas")->delimiter(',');
  generate->add_option("--precision", options->precisions, "bf16, f32; several by commas")->delimiter(',');
  generate->add_option("--sequences", options->sequences, "How many side by side; several by commas")->delimiter(',');
  generate->add_option("--length", options->length, "Tokens of each sequence before the first that is timed; 128");
  generate->add_option("--tokens", options->samples, "Tokens of each sequence that are timed; as --samples")
      ->check(CLI::Range(1, 1000000));
  add_bench_results_commands(*command);
}

}  // namespace causeway::cli
