// Memory bandwidth: copies within a device by size, and the five kernels of BabelStream (Deakin et al., 2016) as
// Causeway generates them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "causeway/bench/device_peaks.h"
#include "causeway/bench/result.h"
#include "causeway/bench/timing.h"

namespace causeway {

struct CopyOptions {
  TimingOptions timing;     // BabelStream leaves the cache alone whatever flush_bytes says
  int64_t cache_bytes = 0;  // of the device's last cache; 0: not known
};

// One way to copy. prepare() makes work that copies so many bytes, a multiple of 4, between two places that do not
// overlap.
struct CopyEntryPoint {
  std::string provider;
  std::function<TimedWork(void* to, const void* from, int64_t bytes)> prepare;
};

// The device's own copy (Device::copy_on_device) and a generated loop.
std::vector<CopyEntryPoint> copy_entry_points(Device& device);

// 64 KiB, then four times as much each time, to a quarter of the memory; to 256 MiB where that is not known.
std::vector<int64_t> standard_copy_sizes(int64_t memory_bytes);

// One measurement for each entry point, in GB/s with both reading and writing counted. The first of each is compared
// whole (256 MiB at most, otherwise pieces all over it), every round in pieces. Sizes under 16 caches have no peak:
// part of what is written stays in the cache.
std::vector<Measurement> run_copy(Device& device, int64_t bytes, const std::vector<CopyEntryPoint>& entries,
                                  const CopyOptions& options, const std::optional<DevicePeak>& peak,
                                  std::vector<std::string>& skipped);

// c = a; b = .4 c; c = a + b; a = b + .4 c; sum = a . b.
enum class StreamKernel { kCopy, kMul, kAdd, kTriad, kDot };

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

// Five measurements in GB/s: copy, mul, add, triad, dot, of the best time, after BabelStream: a = .1, b = .2, c = 0 at
// first, two, two, three, three and two arrays counted. `elements` is a multiple of 256. What a kernel leaves is looked
// at in pieces after every round and whole at the end, as far as 100 times the precision of f32.
std::vector<Measurement> run_stream(Device& device, int64_t elements, const StreamProvider& provider,
                                    const CopyOptions& options, const std::optional<DevicePeak>& peak,
                                    std::vector<std::string>& skipped);

// "64 KiB", "1.5 GiB".
std::string binary_size_text(int64_t bytes);

}  // namespace causeway
