// Memory bandwidth: copies within a device by size, and the five kernels of BabelStream (Deakin et al., 2016) as
// Causeway generates them.
#pragma once

#include <functional>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "causeway/bench/inputs.h"
#include "causeway/bench/result.h"
#include "causeway/bench/timing.h"
#include "causeway/device/device_peaks.h"

namespace causeway::bench {

struct CopyOptions {
  TimingOptions timing;     // BabelStream leaves the cache alone whatever flush_bytes says
  int64_t cache_bytes = 0;  // of the device's last cache; 0: not known
  InputDistribution inputs = InputDistribution::kNormal;  // of what run_copy() copies
};

// One way to copy. prepare() makes work that copies so many bytes, a multiple of 4, between two places that do not
// overlap.
struct CopyEntryPoint {
  std::string provider;
  std::function<TimedWork(void* to, const void* from, int64_t bytes)> prepare;
};

// The device's own copy (Device::copy_on_device) and a generated loop, in this order.
std::vector<CopyEntryPoint> copy_entry_points(Device& device);

// 64 KiB, then four times as much each time, to a quarter of the memory; to 256 MiB where that is not known.
std::vector<int64_t> standard_copy_sizes(int64_t memory_bytes);

// Throw Error(kInvalidArgument) for a size that run_copy() does not take, and for one of run_stream()'s arrays.
void check_copy_size(int64_t bytes);
void check_array_size(int64_t bytes);

// One measurement for each entry point, in GB/s with both reading and writing counted. The first of each is compared
// whole (256 MiB at most, otherwise pieces all over it), every round in pieces. Sizes under 16 caches have no peak:
// part of what is written stays in the cache.
std::vector<Measurement> run_copy(Device& device, int64_t bytes, const std::vector<CopyEntryPoint>& entries,
                                  const CopyOptions& options, const std::optional<DevicePeak>& peak,
                                  std::vector<std::string>& skipped);

// c = a; b = .4 c; c = a + b; a = b + .4 c; sum = a . b.
enum class StreamKernel { kCopy, kMul, kAdd, kTriad, kDot };
inline constexpr StreamKernel kAllStreamKernels[] = {StreamKernel::kCopy, StreamKernel::kMul, StreamKernel::kAdd,
                                                     StreamKernel::kTriad, StreamKernel::kDot};

// What is measured of memory, by names: "device" and "loop" are copies by size, by the device's own copy and by a
// generated loop; "copy", "mul", "add", "triad" and "dot" are BabelStream's.
struct CopyChoice {
  bool device_copy = true, loop = true;
  std::vector<StreamKernel> stream = {std::begin(kAllStreamKernels), std::end(kAllStreamKernels)};
};
// Everything for no names. Throws Error(kInvalidArgument) with the nearest for other names.
CopyChoice choose_copies(const std::vector<std::string>& names);

// f32, on the device.
struct StreamArrays {
  void *a, *b, *c;
  void* sum;  // one element
  int64_t elements;
};

struct StreamProvider {
  std::string name;
  std::function<TimedWork(StreamKernel kernel, const StreamArrays& arrays)> prepare;
};

StreamProvider causeway_stream(Device& device);

// A power of two: arrays of four caches and at least 1 GiB on a GPU, 128 MiB on a processor, but all three in half of
// the memory where that is known.
int64_t standard_stream_elements(bool is_gpu, int64_t cache_bytes, int64_t memory_bytes);

// Measurements in GB/s of those kernels, of the best time, after BabelStream: a = .1, b = .2, c = 0 at first, two, two,
// three, three and two arrays counted. `elements` is a power of two from 256. All five run once, in order, before
// anything is timed. What a kernel leaves is looked at in pieces after every round and whole at the end, as far as 100
// times the precision of f32.
std::vector<Measurement> run_stream(Device& device, int64_t elements, const StreamProvider& provider,
                                    const CopyOptions& options, const std::optional<DevicePeak>& peak,
                                    std::vector<std::string>& skipped,
                                    std::span<const StreamKernel> kernels = kAllStreamKernels);

}  // namespace causeway::bench
