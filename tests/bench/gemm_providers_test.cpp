#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>

#include "causeway/base/error.h"
#include "causeway/bench/gemm_benchmark.h"
#include "causeway/bench/providers/open_providers.h"
#include "causeway/device/open_device.h"
#include "causeway/program/context.h"
#include "tests/bench/processor.h"

namespace causeway::bench {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

// Times GEMMs in every order of operands and expects all of the provider's to be right.
void expect_right_gemms(const std::string& name, DType operands) {
  std::vector<std::string> absent;
  const auto providers = open_gemm_providers(processor(), {"causeway", name}, {}, absent);
  if (providers.size() < 2) GTEST_SKIP() << absent.at(0);
  GemmOptions options;
  options.timing.samples = 2;
  options.timing.rounds = 2;
  options.timing.warm_up_seconds = 0;
  std::vector<GemmWorkload> workloads;
  for (const char* order : {"nt", "nn", "tn", "tt"})
    for (const GemmWorkload& sizes : {GemmWorkload{96, 160, 224, operands}, GemmWorkload{33, 17, 129, operands}})
      set_gemm_order(workloads.emplace_back(sizes), order);
  for (const GemmWorkload& workload : workloads) {
    std::vector<std::string> skipped;
    const std::vector<Measurement> measurements =
        run_gemm(processor(), {"squares", workload}, providers, options, {}, skipped);
    if (measurements.size() < 2) {
      ASSERT_EQ(skipped.size(), 1u);
      EXPECT_THAT(skipped[0], AllOf(StartsWith(providers[1]->name()), HasSubstr(dtype_name(operands))));
      GTEST_SKIP() << skipped[0];
    }
    EXPECT_THAT(skipped, ElementsAre());
    EXPECT_EQ(measurements[0].provider, "Causeway");
    EXPECT_EQ(measurements[1].provider, providers[1]->name());
    for (const Measurement& measurement : measurements) {
      EXPECT_TRUE(measurement.correct) << measurement.provider << ": " << measurement.check;
      EXPECT_EQ(measurement.workload, workload.name());
      EXPECT_EQ(measurement.details.at("layout"), workload.layout());
      EXPECT_EQ(measurement.rounds.size(), 2u);
    }
  }
}

TEST(GemmProviders, OpenBlasMultipliesF32) { expect_right_gemms("openblas", DType::kF32); }
TEST(GemmProviders, OpenBlasMultipliesBf16) { expect_right_gemms("openblas", DType::kBF16); }
TEST(GemmProviders, OneDnnMultipliesF32) { expect_right_gemms("onednn", DType::kF32); }
TEST(GemmProviders, OneDnnMultipliesBf16) { expect_right_gemms("onednn", DType::kBF16); }

TEST(GemmProviders, TwoProvidersAreTwoRightMeasurements) {
  std::vector<std::unique_ptr<GemmProvider>> providers;
  providers.push_back(make_causeway_gemm(processor()));
  providers.push_back(make_causeway_gemm(processor()));
  GemmOptions options;
  options.timing = {.samples = 3, .rounds = 3, .warm_up_seconds = 0};
  std::vector<std::string> skipped;
  const std::vector<Measurement> measurements =
      run_gemm(processor(), {"squares", {64, 64, 64, DType::kF32}}, providers, options, {}, skipped);
  ASSERT_EQ(measurements.size(), 2u);
  for (const Measurement& measurement : measurements) {
    EXPECT_TRUE(measurement.correct) << measurement.check;
    EXPECT_EQ(measurement.size, 64);
    EXPECT_EQ(measurement.rounds.size(), 3u);
    EXPECT_THAT(measurement.check, StartsWith("256 elements against sums in double"));
  }
  EXPECT_THAT(skipped, ElementsAre());
}

// What the reference reads lies otherwise in each order: a GEMM that took one for another would be found wrong.
TEST(GemmProviders, GemmsInOneOrderAreWrongInAnother) {
  class OtherOrder : public GemmProvider {
   public:
    std::string name() const override { return "other order"; }
    std::unique_ptr<PreparedGemm> prepare(const GemmWorkload& workload, void* a, void* b, void* c) override {
      GemmWorkload other = workload;
      other.b_along_n = !other.b_along_n;
      return causeway_->prepare(other, a, b, c);
    }

   private:
    std::unique_ptr<GemmProvider> causeway_ = make_causeway_gemm(processor());
  };
  std::vector<std::unique_ptr<GemmProvider>> providers;
  providers.push_back(std::make_unique<OtherOrder>());
  GemmOptions options;
  options.timing = {.samples = 2, .rounds = 2, .warm_up_seconds = 0};
  for (const char* order : {"nt", "nn", "tn", "tt"}) {
    GemmWorkload workload = {64, 48, 32, DType::kF32};
    set_gemm_order(workload, order);
    std::vector<std::string> skipped;
    const std::vector<Measurement> measurements =
        run_gemm(processor(), {"squares", workload}, providers, options, {}, skipped);
    ASSERT_EQ(measurements.size(), 1u);
    EXPECT_FALSE(measurements[0].correct) << order;
  }
}

TEST(GemmProviders, OrdersAreNamed) {
  GemmWorkload workload = {64, 48, 32, DType::kF32};
  EXPECT_EQ(workload.name(), "64x48x32");
  EXPECT_EQ(workload.layout(), "C[m, n] = A[m, k] B[n, k]^T");
  set_gemm_order(workload, "tn");
  EXPECT_EQ(workload.name(), "64x48x32 tn");
  EXPECT_EQ(workload.layout(), "C[m, n] = A[k, m]^T B[k, n]");
  EXPECT_THAT(message_of([&] { set_gemm_order(workload, "nm"); }),
              AllOf(StartsWith("--order: 'nm' is no order of a GEMM's operands"), HasSubstr("nt, nn, tn, tt")));
  GemmWorkload blocks = parse_gemm_shape("64x256x384", DType::kF8E4M3, /*block_scales=*/true);
  EXPECT_THAT(message_of([&] { set_gemm_order(blocks, "nn"); }), HasSubstr("lie along k"));
}

TEST(GemmProviders, NamesInTheOrderGivenEachOnce) {
  std::vector<std::string> skipped;
  const auto providers = open_gemm_providers(processor(), {"causeway", "cublas", "causeway"}, {}, skipped);
  ASSERT_EQ(providers.size(), 1u);
  EXPECT_EQ(providers[0]->name(), "Causeway");
  EXPECT_THAT(skipped, ElementsAre("cublas: cuBLAS runs on NVIDIA's GPUs alone. Leave it out for cpu."));
}

TEST(GemmProviders, NoNamesAreAllThatFitTheDevice) {
  std::vector<std::string> skipped;
  const auto providers = open_gemm_providers(processor(), {}, {}, skipped);
  // Causeway, OpenBLAS and oneDNN: each is there or its absence is told.
  EXPECT_EQ(providers.size() + skipped.size(), 3u);
  ASSERT_FALSE(providers.empty());
  EXPECT_EQ(providers[0]->name(), "Causeway");
  for (const std::string& sentence : skipped)
    EXPECT_THAT(sentence, AllOf(HasSubstr("cannot be opened"), HasSubstr("Install lib"), Not(HasSubstr("driver"))));
}

TEST(GemmProviders, UnknownNamesBringTheNearest) {
  std::vector<std::string> skipped;
  EXPECT_THAT(message_of([&] { open_gemm_providers(processor(), {"openblass"}, {}, skipped); }),
              AllOf(StartsWith("--provider: 'openblass' is no provider of GEMMs"), HasSubstr("Did you mean openblas?"),
                    HasSubstr("cublaslt-fast")));
  EXPECT_THAT(message_of([&] { open_gemm_providers(processor(), {"xxxxxxxx"}, {}, skipped); }),
              AllOf(HasSubstr("Known: causeway, cublaslt, cublas, cublaslt-fast, hipblaslt, openblas, onednn."),
                    Not(HasSubstr("Did you mean"))));
  EXPECT_THAT(message_of([&] { open_gemm_providers(processor(), {}, {{"onedn", "/x.so"}}, skipped); }),
              AllOf(StartsWith("--library: 'onedn' is no library that is opened"), HasSubstr("Did you mean onednn?")));
  // Causeway's kernels are in no library's file.
  EXPECT_THAT(message_of([&] { open_gemm_providers(processor(), {}, {{"causeway", "/x.so"}}, skipped); }),
              HasSubstr("'causeway' is no library that is opened"));
  EXPECT_THAT(skipped, ElementsAre());
}

TEST(GemmProviders, AnAbsentFileIsAnErrorThatSaysWhatToInstall) {
  std::vector<std::string> skipped;
  const std::string message = message_of(
      [&] { open_gemm_providers(processor(), {"openblas"}, {{"openblas", "/absent/libopenblas.so"}}, skipped); });
  EXPECT_THAT(message, AllOf(StartsWith("openblas: OpenBLAS cannot be opened: /absent/libopenblas.so: "),
                             HasSubstr("Install libopenblas0 (Debian, Ubuntu)"), HasSubstr("--library openblas=FILE")));
  EXPECT_THAT(message_of([] { open_onednn(processor(), "/absent/libdnnl.so"); }),
              AllOf(StartsWith("onednn: oneDNN cannot be opened: /absent/libdnnl.so: "), HasSubstr("libdnnl2")));
}

TEST(GemmProviders, AnotherLibrarysFileIsRefused) {
  std::vector<std::string> skipped;
  // The C library is there and exports nothing of oneDNN's.
  const auto providers = open_gemm_providers(processor(), {"onednn"}, {{"onednn", "libc.so.6"}}, skipped);
  EXPECT_TRUE(providers.empty());
  ASSERT_EQ(skipped.size(), 1u);
  EXPECT_THAT(skipped[0], AllOf(StartsWith("onednn: libc.so.6"), HasSubstr("dnnl_version")));
}

TEST(GemmProviders, EachLibraryIsForItsDevices) {
  EXPECT_THAT(message_of([] { open_hipblaslt(processor()); }),
              AllOf(HasSubstr("hipBLASLt runs on AMD's GPUs alone"), HasSubstr("Leave it out for cpu.")));
  EXPECT_THAT(message_of([] { open_cublaslt(processor(), {}, true); }),
              HasSubstr("cuBLASLt runs on NVIDIA's GPUs alone"));
  const auto emulator = open_device("emulator:gfx942");
  EXPECT_THAT(message_of([&] { open_openblas(*emulator); }), HasSubstr("OpenBLAS is measured on the processor alone"));
  std::vector<std::string> skipped;
  EXPECT_EQ(open_gemm_providers(*emulator, {}, {}, skipped).size(), 1u);
  EXPECT_THAT(skipped, ElementsAre());
}

TEST(GemmBenchmark, TheSuiteHasEveryTypeThatTheDeviceMultiplies) {
  std::map<std::string, int> on_processor, on_gpu;
  for (const GemmCase& one : suite_gemm_cases(processor())) ++on_processor[one.workload.type()];
  EXPECT_THAT(on_processor, testing::UnorderedElementsAre(testing::Pair("bf16", 7), testing::Pair("f32", 7)));
  const std::shared_ptr<Device> gpu = open_device("emulator:sm_90a");
  std::set<std::string> f16;
  for (const GemmCase& one : suite_gemm_cases(*gpu)) {
    ++on_gpu[one.workload.type()];
    if (one.workload.operands == DType::kF16) f16.insert(one.workload.name());
  }
  EXPECT_THAT(f16, ElementsAre("16384x8192x7168", "8192x28672x4096", "8192x8192x8192"));
  EXPECT_EQ(on_gpu["f32"], 1);
  EXPECT_EQ(on_gpu["tf32"], 1);
  EXPECT_EQ(on_gpu["bf16"], on_gpu["f8e4m3"]);
  EXPECT_EQ(on_gpu["f8e4m3_block"], 5);
  EXPECT_EQ(on_gpu.size(), 6u);
}

TEST(GemmBenchmark, Tf32IsMeasuredWhereItIsMultiplied) {
  GemmWorkload workload = {64, 48, 32, DType::kF32};
  workload.tf32 = true;
  GemmOptions options;
  options.timing = {.samples = 10, .warm_up_seconds = 0, .flush_bytes = 1};
  std::vector<std::string> skipped;
  std::vector<std::unique_ptr<GemmProvider>> providers;
  providers.push_back(make_causeway_gemm(processor()));
  EXPECT_TRUE(run_gemm(processor(), {"other shapes", workload}, providers, options, {}, skipped).empty());
  EXPECT_THAT(skipped, ElementsAre(HasSubstr("cpu has no instructions that multiply tf32")));

  const ContextScope scope(Context::open("emulator:sm_80"));
  Device& gpu = Context::current()->device();
  providers[0] = make_causeway_gemm(gpu);
  const std::vector<Measurement> measured = run_gemm(gpu, {"other shapes", workload}, providers, options, {}, skipped);
  ASSERT_EQ(measured.size(), 1u);
  EXPECT_EQ(measured[0].dtype, "tf32");
  EXPECT_TRUE(measured[0].correct) << measured[0].check;
}

TEST(GemmBenchmark, BlocksWithScalesAreMeasuredWhereTheyHaveKernels) {
  const GemmWorkload workload = parse_gemm_shape("64x256x384", DType::kF8E4M3, /*block_scales=*/true);
  EXPECT_EQ(workload.type(), "f8e4m3_block");
  EXPECT_THAT(message_of([] { parse_gemm_shape("64x200x384", DType::kF8E4M3, true); }),
              AllOf(HasSubstr("64x200x384 has parts of blocks"), HasSubstr("multiples of 128")));
  GemmOptions options;
  options.timing = {.samples = 2, .rounds = 2, .warm_up_seconds = 0};
  std::vector<std::string> skipped;
  std::vector<std::unique_ptr<GemmProvider>> providers;
  providers.push_back(make_causeway_gemm(processor()));
  EXPECT_TRUE(run_gemm(processor(), {"other shapes", workload}, providers, options, {}, skipped).empty());
  EXPECT_THAT(skipped, ElementsAre(HasSubstr("cpu has no kernels for block-scaled GEMMs")));

  const ContextScope scope(Context::open("emulator:sm_90a"));
  Device& gpu = Context::current()->device();
  providers[0] = make_causeway_gemm(gpu);
  const std::vector<Measurement> measured = run_gemm(gpu, {"other shapes", workload}, providers, options, {}, skipped);
  ASSERT_EQ(measured.size(), 1u);
  EXPECT_EQ(measured[0].dtype, "f8e4m3_block");
  EXPECT_TRUE(measured[0].correct) << measured[0].check;
}

TEST(GemmBenchmark, EveryDistributionOfInputsIsRightAndNamed) {
  std::vector<std::string> skipped;
  std::vector<std::unique_ptr<GemmProvider>> providers;
  providers.push_back(make_causeway_gemm(processor()));
  for (const char* name : {"normal", "uniform", "integers", "zeros"}) {
    GemmOptions options;
    options.inputs = parse_inputs(name);
    options.timing = {.samples = 2, .rounds = 2, .warm_up_seconds = 0};
    for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
      const auto measurements =
          run_gemm(processor(), {"other shapes", {48, 32, 64, dtype}}, providers, options, {}, skipped);
      ASSERT_EQ(measurements.size(), 1u);
      EXPECT_TRUE(measurements[0].correct) << name << ": " << measurements[0].check;
      EXPECT_EQ(measurements[0].details.at("inputs"), describe_inputs(options.inputs));
    }
  }
  EXPECT_THAT(message_of([] { parse_inputs("nromal"); }), HasSubstr("Did you mean normal?"));
}

TEST(GemmBenchmark, WhatDoesNotFitIsLeftOut) {
  std::vector<std::string> skipped;
  std::vector<std::unique_ptr<GemmProvider>> providers;
  providers.push_back(make_causeway_gemm(processor()));
  const int64_t much = int64_t{1} << 22;
  EXPECT_TRUE(
      run_gemm(processor(), {"other shapes", {much, much, much, DType::kBF16}}, providers, {}, {}, skipped).empty());
  EXPECT_THAT(skipped, ElementsAre(HasSubstr("cannot allocate")));
}

}  // namespace
}  // namespace causeway::bench
