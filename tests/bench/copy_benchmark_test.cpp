#include "causeway/bench/copy_benchmark.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "causeway/base/byte_size.h"
#include "causeway/base/error.h"
#include "causeway/device/open_device.h"
#include "causeway/program/context.h"
#include "tests/bench/processor.h"

namespace causeway::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

CopyOptions short_options() {
  CopyOptions options;
  options.timing = {.samples = 4, .rounds = 2, .warm_up_seconds = 0};
  return options;
}

DevicePeak some_peak() {
  DevicePeak peak;
  peak.memory_gb_per_s = 1e6;
  peak.cache_bytes = 1024;
  peak.source = "made up";
  return peak;
}

void expect_right_stream(Device& device, int64_t elements) {
  std::vector<std::string> skipped;
  const std::vector<Measurement> measurements =
      run_stream(device, elements, causeway_stream(device), short_options(), some_peak(), skipped);
  EXPECT_THAT(skipped, ElementsAre());
  ASSERT_EQ(measurements.size(), 5u);
  const char* const names[] = {"copy ", "mul ", "add ", "triad ", "dot "};
  const double arrays[] = {2, 2, 3, 3, 2};
  for (size_t i = 0; i < 5; ++i) {
    const Measurement& m = measurements[i];
    EXPECT_TRUE(m.correct) << m.workload << ": " << m.check;
    EXPECT_EQ(m.benchmark, "copy");
    EXPECT_EQ(m.group, "BabelStream");
    EXPECT_EQ(m.workload, names[i] + exact_bytes(4 * elements));
    EXPECT_EQ(m.work, arrays[i] * 4 * static_cast<double>(elements));
    EXPECT_EQ(m.unit, "GB/s");
    EXPECT_EQ(m.statistic, Statistic::kMinimum);
    EXPECT_EQ(m.rounds.size(), 2u);
    EXPECT_EQ(m.peak, 1e6);
    EXPECT_THAT(m.details.at("elements"), HasSubstr("no f64"));
    EXPECT_THAT(m.distrust, ElementsAre());
  }
}

TEST(CopyBenchmark, StreamKernelsAreRight) {
  for (const int64_t elements : {int64_t{256}, int64_t{1} << 20}) expect_right_stream(processor(), elements);
}

TEST(CopyBenchmark, StreamKernelsAreRightOnAGpu) { expect_right_stream(*open_device("emulator:sm_90a"), 1024); }

TEST(CopyBenchmark, ArraysThatFitTheCacheAreDistrusted) {
  CopyOptions options = short_options();
  options.cache_bytes = 1 << 20;
  std::vector<std::string> skipped;
  for (const Measurement& m :
       run_stream(processor(), 1024, causeway_stream(processor()), options, some_peak(), skipped)) {
    EXPECT_THAT(m.distrust, ElementsAre(HasSubstr("smaller than four times the last cache")));
    EXPECT_FALSE(m.peak.has_value());
  }
}

TEST(CopyBenchmark, AWrongElementOfAStreamIsFound) {
  Device& device = processor();
  for (const StreamKernel kernel :
       {StreamKernel::kCopy, StreamKernel::kMul, StreamKernel::kAdd, StreamKernel::kTriad, StreamKernel::kDot}) {
    const StreamProvider right = causeway_stream(device);
    const StreamProvider wrong = {"wrong", [&](StreamKernel asked, const StreamArrays& arrays) -> TimedWork {
                                    TimedWork work = right.prepare(asked, arrays);
                                    if (asked != kernel) return work;
                                    void* const results[] = {arrays.c, arrays.b, arrays.c, arrays.a, arrays.sum};
                                    const size_t at = kernel == StreamKernel::kDot ? 0 : 777'777;
                                    return [work, &device,
                                            memory = static_cast<float*>(results[static_cast<size_t>(kernel)]) + at] {
                                      work();
                                      const float value = 0.3f;
                                      device.copy_to_device(memory, &value, sizeof value);
                                    };
                                  }};
    std::vector<std::string> skipped;
    const std::vector<Measurement> measurements = run_stream(device, 1 << 20, wrong, short_options(), {}, skipped);
    EXPECT_FALSE(measurements[static_cast<size_t>(kernel)].correct)
        << measurements[static_cast<size_t>(kernel)].workload;
  }
}

TEST(CopyBenchmark, BothWaysToCopyAreRight) {
  for (const int64_t bytes : {int64_t{4}, int64_t{65536}, int64_t{3} << 20}) {
    std::vector<std::string> skipped;
    const std::vector<Measurement> measurements =
        run_copy(processor(), bytes, copy_entry_points(processor()), short_options(), some_peak(), skipped);
    EXPECT_THAT(skipped, ElementsAre());
    ASSERT_EQ(measurements.size(), 2u);
    EXPECT_EQ(measurements[0].provider, "device copy");
    EXPECT_EQ(measurements[1].provider, "Causeway loop");
    for (const Measurement& m : measurements) {
      EXPECT_TRUE(m.correct) << m.provider << ": " << m.check;
      EXPECT_EQ(m.workload, "copy " + exact_bytes(bytes));
      EXPECT_EQ(m.work, 2.0 * static_cast<double>(bytes));
      EXPECT_EQ(m.size, static_cast<double>(bytes));
      EXPECT_EQ(m.unit, "GB/s");
      EXPECT_EQ(m.peak.has_value(), bytes >= 16 * 1024);
    }
  }
}

TEST(CopyBenchmark, ACopyThatLeavesTheEndOutIsFound) {
  std::vector<CopyEntryPoint> entries = copy_entry_points(processor());
  entries.push_back({"short", [](void* to, const void* from, int64_t bytes) -> TimedWork {
                       return [=] { processor().copy_on_device(to, from, static_cast<size_t>(bytes - 4)); };
                     }});
  entries.push_back({"absent", [](void*, const void*, int64_t) -> TimedWork {
                       throw Error(ErrorKind::kUnsupported, "there is no such copy", "absent");
                     }});
  std::vector<std::string> skipped;
  const std::vector<Measurement> measurements = run_copy(processor(), 1 << 20, entries, short_options(), {}, skipped);
  ASSERT_EQ(measurements.size(), 3u);
  EXPECT_TRUE(measurements[0].correct);
  EXPECT_TRUE(measurements[1].correct);
  EXPECT_FALSE(measurements[2].correct);
  EXPECT_THAT(skipped, ElementsAre(HasSubstr("absent: copy 1 MiB: ")));
}

TEST(CopyBenchmark, SizesGoToAQuarterOfTheMemory) {
  EXPECT_THAT(standard_copy_sizes(16 << 20), ElementsAre(64 << 10, 256 << 10, 1 << 20, 4 << 20));
  EXPECT_EQ(standard_copy_sizes(0).back(), 256 << 20);
  EXPECT_EQ(standard_stream_elements(true, 50'000'000, int64_t{141} << 30), 1 << 28);
  EXPECT_EQ(standard_stream_elements(true, 0, int64_t{3} << 30), 1 << 27);
  // Four caches of 60 MiB need 256 MiB.
  EXPECT_EQ(standard_stream_elements(false, 60 << 20, 0), 1 << 26);
  EXPECT_EQ(standard_stream_elements(false, 0, 0), 1 << 25);
}

TEST(CopyBenchmark, SizesThatAreNotWholeElementsAreErrors) {
  std::vector<std::string> skipped;
  EXPECT_THROW(run_copy(processor(), 6, copy_entry_points(processor()), short_options(), {}, skipped), Error);
  EXPECT_THROW(run_stream(processor(), 1000, causeway_stream(processor()), short_options(), {}, skipped), Error);
}

TEST(CopyBenchmark, KernelsAreChosen) {
  const CopyChoice all = choose_copies({});
  EXPECT_TRUE(all.device_copy && all.loop);
  EXPECT_EQ(all.stream.size(), 5u);
  const CopyChoice some = choose_copies({"triad", "device", "triad", "copy"});
  EXPECT_TRUE(some.device_copy);
  EXPECT_FALSE(some.loop);
  EXPECT_THAT(some.stream, ElementsAre(StreamKernel::kTriad, StreamKernel::kCopy));
  try {
    choose_copies({"traid"});
    ADD_FAILURE() << "there is no such kernel";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("Did you mean triad?"));
  }
}

TEST(CopyBenchmark, EachStreamKernelIsRightByItself) {
  for (const StreamKernel kernel : kAllStreamKernels) {
    std::vector<std::string> skipped;
    const std::vector<Measurement> measurements =
        run_stream(processor(), 1 << 16, causeway_stream(processor()), short_options(), {}, skipped, {&kernel, 1});
    ASSERT_EQ(measurements.size(), 1u);
    EXPECT_TRUE(measurements[0].correct) << measurements[0].workload << ": " << measurements[0].check;
  }
}

TEST(CopyBenchmark, ZerosThatAreNotCopiedAreFound) {
  CopyOptions options = short_options();
  options.inputs = InputDistribution::kZeros;
  std::vector<CopyEntryPoint> entries = copy_entry_points(processor());
  entries.push_back({"idle", [](void*, const void*, int64_t) -> TimedWork { return [] {}; }});
  std::vector<std::string> skipped;
  const std::vector<Measurement> measurements = run_copy(processor(), 1 << 20, entries, options, {}, skipped);
  ASSERT_EQ(measurements.size(), 3u);
  EXPECT_TRUE(measurements[0].correct && measurements[1].correct);
  EXPECT_FALSE(measurements[2].correct);
  EXPECT_EQ(measurements[0].details.at("inputs"), "f32, zeros");
}

}  // namespace
}  // namespace causeway::bench
