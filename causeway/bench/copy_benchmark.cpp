#include "causeway/bench/copy_benchmark.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "causeway/base/byte_size.h"
#include "causeway/base/error.h"
#include "causeway/bench/choices.h"
#include "causeway/codegen/compile/kernel_cache.h"
#include "causeway/graph/op.h"
#include "causeway/passes/builder.h"
#include "causeway/program/arena.h"
#include "causeway/program/kernel_library.h"
#include "causeway/program/program.h"

namespace causeway::bench {
namespace {

constexpr float kScalar = 0.4f;
constexpr int64_t kPieces = 64, kPieceBytes = 4096;
constexpr int64_t kWhole = int64_t{256} << 20;  // bytes up to which copies are compared whole
constexpr int64_t kSmallestRow = 256;           // elements that one partial sum of a dot product takes

// A graph's program on buffers that stay.
class PersistentProgram {
 public:
  PersistentProgram(const Graph& graph, Device& device, std::shared_ptr<KernelLibrary> library,
                    std::vector<void*> inputs, std::vector<void*> outputs)
      : library_(std::move(library)),
        arena_(device),
        program_(graph, device, *library_, arena_),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)) {}
  void run() { program_.run_recorded(inputs_, outputs_); }

 private:
  std::shared_ptr<KernelLibrary> library_;
  Arena arena_;
  Program program_;
  std::vector<void*> inputs_, outputs_;
};

TimedWork persistent_work(const Graph& graph, Device& device, const std::shared_ptr<KernelLibrary>& library,
                          std::vector<void*> inputs, std::vector<void*> outputs) {
  return [program = std::make_shared<PersistentProgram>(graph, device, library, std::move(inputs),
                                                        std::move(outputs))] { program->run(); };
}

std::shared_ptr<KernelLibrary> make_library(Device& device) {
  return std::make_shared<KernelLibrary>(device, std::make_shared<KernelCache>());
}

// Same bits under another type: a value of its own to the graph, so that a loop moves it.
Value moved(Graph& graph, Value value, DType dtype) {
  Attributes attributes;
  attributes.dtype = dtype;
  return graph.add(Op::kBitcast, {value}, attributes);
}

// Places all over a buffer, its first and last bytes among them.
std::vector<std::pair<int64_t, int64_t>> pieces_of(int64_t bytes) {
  if (bytes <= kPieces * kPieceBytes) return {{0, bytes}};
  std::vector<std::pair<int64_t, int64_t>> pieces;
  for (int64_t i = 0; i < kPieces; ++i) {
    const int64_t at = (bytes - kPieceBytes) / (kPieces - 1) * i / 4 * 4;
    pieces.emplace_back(i == kPieces - 1 ? bytes - kPieceBytes : at, kPieceBytes);
  }
  return pieces;
}

// The whole, in parts that fit the host.
std::vector<std::pair<int64_t, int64_t>> parts_of(int64_t bytes) {
  constexpr int64_t kPart = int64_t{64} << 20;
  std::vector<std::pair<int64_t, int64_t>> parts;
  for (int64_t at = 0; at < bytes; at += kPart) parts.emplace_back(at, std::min(kPart, bytes - at));
  return parts;
}

std::vector<std::byte> read(Device& device, const void* memory, std::pair<int64_t, int64_t> piece) {
  std::vector<std::byte> bytes(static_cast<size_t>(piece.second));
  device.copy_to_host(bytes.data(), static_cast<const std::byte*>(memory) + piece.first, bytes.size());
  return bytes;
}

// Bytes in those pieces that differ.
int64_t wrong_bytes(Device& device, const void* to, const void* from,
                    const std::vector<std::pair<int64_t, int64_t>>& pieces) {
  int64_t wrong = 0;
  for (const auto& piece : pieces) {
    const std::vector<std::byte> copied = read(device, to, piece), original = read(device, from, piece);
    if (copied == original) continue;
    for (size_t i = 0; i < copied.size(); ++i) wrong += copied[i] != original[i];
  }
  return wrong;
}

struct StreamKernelFacts {
  StreamKernel kernel;
  const char* name;
  const char* formula;
  int arrays;
};
constexpr std::array<StreamKernelFacts, 5> kStreamKernels = {{
    {StreamKernel::kCopy, "copy", "c = a", 2},
    {StreamKernel::kMul, "mul", "b = 0.4 c", 2},
    {StreamKernel::kAdd, "add", "c = a + b", 3},
    {StreamKernel::kTriad, "triad", "a = b + 0.4 c", 3},
    {StreamKernel::kDot, "dot", "sum of a b", 2},
}};

// What every element of the arrays ought to be. A kernel run again changes nothing, so it is enough to follow which
// one runs next; in f32, as the arrays are.
struct StreamValues {
  float a = 0.1f, b = 0.2f, c = 0;

  void follow(StreamKernel kernel) {
    switch (kernel) {
      case StreamKernel::kCopy:
        c = a;
        break;
      case StreamKernel::kMul:
        b = kScalar * c;
        break;
      case StreamKernel::kAdd:
        c = a + b;
        break;
      case StreamKernel::kTriad:
        a = b + kScalar * c;
        break;
      case StreamKernel::kDot:
        break;
    }
  }
};

void fill(Device& device, void* array, int64_t elements, float value) {
  for (const auto& [at, bytes] : parts_of(elements * 4)) {
    const std::vector<float> values(static_cast<size_t>(bytes / 4), value);
    device.copy_to_device(static_cast<std::byte*>(array) + at, values.data(), static_cast<size_t>(bytes));
  }
}

// The largest relative error, a NaN counting as infinite.
double worst_error(Device& device, const void* array, double expected,
                   const std::vector<std::pair<int64_t, int64_t>>& pieces) {
  double worst = 0;
  for (const auto& piece : pieces) {
    const std::vector<std::byte> bytes = read(device, array, piece);
    for (size_t i = 0; i < bytes.size(); i += sizeof(float)) {
      float value;
      std::memcpy(&value, bytes.data() + i, sizeof value);
      const double error = std::abs(static_cast<double>(value) - expected) / std::abs(expected);
      worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(worst, error);
    }
  }
  return worst;
}

}  // namespace

CopyChoice choose_copies(const std::vector<std::string>& names) {
  if (names.empty()) return {};
  std::vector<std::string> known = {"device", "loop"};
  for (const StreamKernelFacts& facts : kStreamKernels) known.emplace_back(facts.name);
  CopyChoice choice = {false, false, {}};
  for (const std::string& name : names) {
    const size_t place = choose("kernel of this benchmark", name, "--kernel", known);
    if (place == 0) choice.device_copy = true;
    if (place == 1) choice.loop = true;
    if (place < 2) continue;
    const StreamKernel kernel = kStreamKernels[place - 2].kernel;
    if (std::find(choice.stream.begin(), choice.stream.end(), kernel) == choice.stream.end())
      choice.stream.push_back(kernel);
  }
  return choice;
}

std::vector<CopyEntryPoint> copy_entry_points(Device& device) {
  const auto device_copy = [&device](void* to, const void* from, int64_t bytes) -> TimedWork {
    return [&device, to, from, bytes] { device.copy_on_device(to, from, static_cast<size_t>(bytes)); };
  };
  const auto loop = [&device, library = make_library(device)](void* to, const void* from, int64_t bytes) {
    Graph graph;
    const Value input = graph.add_input("from", {DType::kI32, {Dim(bytes / 4)}});
    graph.outputs = {moved(graph, input, DType::kF32)};
    return persistent_work(graph, device, library, {const_cast<void*>(from)}, {to});
  };
  return {{"device copy", device_copy}, {"Causeway loop", loop}};
}

std::vector<int64_t> standard_copy_sizes(int64_t memory_bytes) {
  const int64_t largest = memory_bytes > 0 ? memory_bytes / 4 : int64_t{256} << 20;
  std::vector<int64_t> sizes;
  for (int64_t bytes = int64_t{64} << 10; bytes <= largest; bytes *= 4) sizes.push_back(bytes);
  return sizes;
}

void check_copy_size(int64_t bytes) {
  if (bytes <= 0 || bytes % 4 != 0)
    throw Error(ErrorKind::kInvalidArgument, fmt::format("{} bytes cannot be copied as whole f32 elements", bytes),
                "bench copy", "Give a positive multiple of 4.");
}

void check_array_size(int64_t bytes) {
  if (bytes < 4 * kSmallestRow || (bytes & (bytes - 1)) != 0)
    throw Error(ErrorKind::kInvalidArgument, fmt::format("BabelStream's arrays cannot have {} bytes", bytes),
                "bench copy", "Give a power of two from 1K.");
}

std::vector<Measurement> run_copy(Device& device, int64_t bytes, const std::vector<CopyEntryPoint>& entries,
                                  const CopyOptions& options, const std::optional<DevicePeak>& peak,
                                  std::vector<std::string>& skipped) {
  check_copy_size(bytes);
  const std::string workload = "copy " + exact_bytes(bytes) + inputs_suffix(options.inputs);
  std::vector<Measurement> measurements;
  std::vector<TimedWork> work;
  Tensor from;
  DeviceBuffer to;
  try {
    from = draw_inputs({bytes / 4}, DType::kF32, options.inputs, 1);
    to = device.allocate(static_cast<size_t>(bytes));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kResource) throw;
    skipped.push_back(fmt::format("{}: {}", workload, error.what()));
    return {};
  }
  const void* const source = from.buffer().data();
  const auto pieces = pieces_of(bytes);
  const bool whole = bytes <= kWhole;
  // What a copy leaves out has to show: zeros do among ones alone.
  const auto spoil = [&](const std::vector<std::pair<int64_t, int64_t>>& where) {
    if (options.inputs != InputDistribution::kZeros) return device.fill_with_zeros(to.data(), to.bytes);
    for (const auto& [at, length] : where) fill(device, static_cast<std::byte*>(to.data()) + at, length / 4, 1);
  };
  for (const CopyEntryPoint& entry : entries) {
    TimedWork copy;
    try {
      copy = entry.prepare(to.data(), source, bytes);
    } catch (const Error& error) {
      skipped.push_back(fmt::format("{}: {}: {}", entry.provider, workload, error.what()));
      continue;
    }
    Measurement& m = measurements.emplace_back();
    m.benchmark = "copy";
    m.group = "copies by size";
    m.workload = workload;
    m.size = static_cast<double>(bytes);
    m.provider = entry.provider;
    m.work = 2.0 * static_cast<double>(bytes);
    m.unit = "GB/s";
    m.details["bytes counted"] = "read and written: twice the size";
    m.details["inputs"] = fmt::format("f32, {}", describe_inputs(options.inputs));
    if (peak && peak->cache_bytes > 0 && bytes >= 16 * peak->cache_bytes) {
      m.peak = peak->memory_gb_per_s;
      m.peak_source = peak->source;
    } else if (peak) {
      m.details["peak"] = "none: part of so little may stay in the cache";
    }
    const auto looked_at = whole ? parts_of(bytes) : pieces;
    spoil(looked_at);
    copy();
    const int64_t wrong = wrong_bytes(device, to.data(), source, looked_at);
    m.correct = wrong == 0;
    m.check =
        fmt::format("{}compared before the timing: {} wrong bytes", whole ? "all " : "pieces all over it ", wrong);
    work.push_back(std::move(copy));
  }
  std::vector<int64_t> wrong(work.size(), 0);
  spoil(pieces);
  std::vector<TimedRounds> timed = time_alternately(device, work, options.timing, [&](size_t i) {
    wrong[i] += wrong_bytes(device, to.data(), source, pieces);
    spoil(pieces);
  });
  for (size_t i = 0; i < measurements.size(); ++i) {
    measurements[i].rounds = std::move(timed[i].seconds);
    measurements[i].clock_mhz = std::move(timed[i].clock_mhz);
    measurements[i].correct &= wrong[i] == 0;
    measurements[i].check += fmt::format("; pieces after every round: {} wrong bytes", wrong[i]);
  }
  return measurements;
}

StreamProvider causeway_stream(Device& device) {
  return {"Causeway", [&device, library = make_library(device)](StreamKernel kernel, const StreamArrays& arrays) {
            Graph graph;
            const Builder b(graph);
            const TensorType type = {DType::kF32, {Dim(arrays.elements)}};
            switch (kernel) {
              case StreamKernel::kCopy:
                graph.outputs = {moved(graph, graph.add_input("a", {DType::kI32, type.shape}), DType::kF32)};
                return persistent_work(graph, device, library, {arrays.a}, {arrays.c});
              case StreamKernel::kMul:
                graph.outputs = {b.scale(graph.add_input("c", type), kScalar)};
                return persistent_work(graph, device, library, {arrays.c}, {arrays.b});
              case StreamKernel::kAdd: {
                const Value x = graph.add_input("a", type), y = graph.add_input("b", type);
                graph.outputs = {b.add(x, y)};
                return persistent_work(graph, device, library, {arrays.a, arrays.b}, {arrays.c});
              }
              case StreamKernel::kTriad: {
                const Value x = graph.add_input("b", type), y = graph.add_input("c", type);
                graph.outputs = {b.add(x, b.scale(y, kScalar))};
                return persistent_work(graph, device, library, {arrays.b, arrays.c}, {arrays.a});
              }
              default: {
                // Partial sums first, as many as keep the whole device busy.
                const int64_t rows = std::clamp<int64_t>(arrays.elements / kSmallestRow, 1, 8192);
                const Value x = graph.add_input("a", type), y = graph.add_input("b", type);
                CAUSEWAY_CHECK(arrays.elements % rows == 0);
                const Value products = b.reshape(b.mul(x, y), {Dim(rows), Dim(arrays.elements / rows)});
                graph.outputs = {b.reduce_sum(b.reduce_sum(products, {1}), {0})};
                return persistent_work(graph, device, library, {arrays.a, arrays.b}, {arrays.sum});
              }
            }
          }};
}

int64_t standard_stream_elements(bool is_gpu, int64_t cache_bytes, int64_t memory_bytes) {
  int64_t array_bytes = int64_t{1} << (is_gpu ? 30 : 27);
  while (array_bytes < 4 * cache_bytes) array_bytes *= 2;
  while (memory_bytes > 0 && array_bytes > 4096 && 3 * array_bytes > memory_bytes / 2) array_bytes /= 2;
  return array_bytes / 4;
}

namespace {

// All but what is measured.
Measurement describe_stream_kernel(const StreamKernelFacts& facts, int64_t array_bytes, const std::string& provider,
                                   const CopyOptions& options, const std::optional<DevicePeak>& peak) {
  const std::string size_text = exact_bytes(array_bytes);
  Measurement m;
  m.benchmark = "copy";
  m.group = "BabelStream";
  m.workload = fmt::format("{} {}", facts.name, size_text);
  m.size = static_cast<double>(array_bytes);
  m.dtype = "f32";
  m.provider = provider;
  m.work = static_cast<double>(facts.arrays) * static_cast<double>(array_bytes);
  m.unit = "GB/s";
  m.statistic = Statistic::kMinimum;
  m.details["kernel"] = facts.formula;
  m.details["bytes counted"] = fmt::format("{} arrays of {}", facts.arrays, size_text);
  m.details["inputs"] = "a = 0.1, b = 0.2, c = 0 at first, as BabelStream has it";
  m.details["elements"] = "f32: Causeway has no f64, which BabelStream takes by default; bytes count alike";
  m.details["cache"] = "not flushed: the arrays displace it";
  if (options.cache_bytes != 0 && array_bytes < 4 * options.cache_bytes) {
    m.distrust.push_back("BabelStream's arrays are smaller than four times the last cache");
  } else if (peak) {
    m.peak = peak->memory_gb_per_s;
    m.peak_source = peak->source;
  }
  return m;
}

// The worst of a kernel's result, within the pieces.
double error_of(Device& device, StreamKernel kernel, const StreamArrays& arrays, const StreamValues& expected,
                const std::vector<std::pair<int64_t, int64_t>>& pieces) {
  double error = 0;
  switch (kernel) {
    case StreamKernel::kCopy:
    case StreamKernel::kAdd:
      error = worst_error(device, arrays.c, expected.c, pieces);
      break;
    case StreamKernel::kMul:
      error = worst_error(device, arrays.b, expected.b, pieces);
      break;
    case StreamKernel::kTriad:
      error = worst_error(device, arrays.a, expected.a, pieces);
      break;
    case StreamKernel::kDot:
      error =
          worst_error(device, arrays.sum,
                      static_cast<double>(expected.a) * expected.b * static_cast<double>(arrays.elements), {{0, 4}});
      break;
  }
  return error;
}

}  // namespace

std::vector<Measurement> run_stream(Device& device, int64_t elements, const StreamProvider& provider,
                                    const CopyOptions& options, const std::optional<DevicePeak>& peak,
                                    std::vector<std::string>& skipped, std::span<const StreamKernel> kernels) {
  const int64_t array_bytes = elements * 4;
  check_array_size(array_bytes);
  const std::string size_text = exact_bytes(array_bytes);
  const auto bytes = static_cast<size_t>(array_bytes);
  StreamArrays arrays = {};
  std::vector<DeviceBuffer> buffers;
  try {
    for (int i = 0; i < 3; ++i) buffers.push_back(device.allocate(bytes));
    buffers.push_back(device.allocate(sizeof(float), true));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kResource) throw;
    skipped.push_back(fmt::format("BabelStream {}: {}", size_text, error.what()));
    return {};
  }
  arrays = {buffers[0].data(), buffers[1].data(), buffers[2].data(), buffers[3].data(), elements};
  StreamValues expected;
  fill(device, arrays.a, elements, expected.a);
  fill(device, arrays.b, elements, expected.b);
  fill(device, arrays.c, elements, expected.c);

  std::vector<Measurement> measurements;
  std::vector<TimedWork> work;
  std::vector<double> worst(kStreamKernels.size(), 0);
  for (const StreamKernelFacts& facts : kStreamKernels) {
    work.push_back([run = provider.prepare(facts.kernel, arrays), &expected, kernel = facts.kernel] {
      run();
      expected.follow(kernel);
    });
    measurements.push_back(describe_stream_kernel(facts, array_bytes, provider.name, options, peak));
  }

  const double allowed = 100.0 * std::numeric_limits<float>::epsilon();
  const auto look = [&](size_t i, const std::vector<std::pair<int64_t, int64_t>>& pieces) {
    worst[i] = std::max(worst[i], error_of(device, kStreamKernels[i].kernel, arrays, expected, pieces));
  };
  // Once in order, whole, before anything is timed: every kernel's own result is there to be seen.
  for (size_t i = 0; i < work.size(); ++i) {
    work[i]();
    look(i, parts_of(array_bytes));
  }
  std::vector<size_t> chosen;
  std::vector<TimedWork> timed;
  for (size_t i = 0; i < work.size(); ++i) {
    if (std::find(kernels.begin(), kernels.end(), kStreamKernels[i].kernel) == kernels.end()) continue;
    chosen.push_back(i);
    timed.push_back(work[i]);
  }
  TimingOptions timing = options.timing;
  timing.flush_bytes = 0;
  const auto pieces = pieces_of(array_bytes);
  std::vector<TimedRounds> rounds =
      time_alternately(device, timed, timing, [&](size_t place) { look(chosen[place], pieces); });
  std::vector<Measurement> result;
  for (size_t place = 0; place < chosen.size(); ++place) {
    const size_t i = chosen[place];
    // c holds what add left by now.
    if (kStreamKernels[i].kernel != StreamKernel::kCopy) look(i, parts_of(array_bytes));
    measurements[i].rounds = std::move(rounds[place].seconds);
    measurements[i].clock_mhz = std::move(rounds[place].clock_mhz);
    measurements[i].correct = worst[i] <= allowed;
    measurements[i].check =
        fmt::format("every element before and after, pieces after every round: relative error {:.2g} of {:.2g} allowed",
                    worst[i], allowed);
    result.push_back(std::move(measurements[i]));
  }
  return result;
}

}  // namespace causeway::bench
