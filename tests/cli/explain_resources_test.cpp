// What a recipe's kernels take of a GPU that is not here, and what is said of devices that cannot be.
#include <gmock/gmock.h>

#include "causeway/codegen/compile/kernel_resources.h"
#include "tests/cli/program_under_test.h"

namespace causeway::cli {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

using ExplainResourcesTest = CliTest;

TEST_F(ExplainResourcesTest, AmdFiguresAreInTheKernelsThemselves) {
  const nlohmann::json json = run_json({"explain", "tiny.yaml", "device=hip:gfx942", "--resources", "--json"});
  EXPECT_FALSE(json.contains("resources_note"));
  std::set<std::string> kinds;
  std::set<int> kernels;
  int launches = 0, barriers = 0;
  for (const nlohmann::json& entry : json["resources"]) {
    kinds.insert(entry["kind"]);
    kernels.insert(entry["kernel"].get<int>());
    launches += entry["launches"].get<int>();
    EXPECT_GT(entry["registers"], 0) << entry;
    EXPECT_LE(entry["registers"], 512) << entry;
    EXPECT_LE(entry["accumulation_registers"], entry["registers"]) << entry;
    EXPECT_GT(entry["scalar_registers"], 0) << entry;
    EXPECT_LE(entry["static_shared_bytes"].get<int>() + entry["dynamic_shared_bytes"].get<int>(), 64 << 10) << entry;
    EXPECT_EQ(entry["spill_bytes"], 0) << entry;
    EXPECT_GE(entry["resident_blocks"], 1) << entry;
    EXPECT_EQ(entry["threads"].get<int>() % 64, 0) << entry;
    EXPECT_GT(entry["code_check"]["instructions"], 10) << entry;
    EXPECT_EQ(entry["code_check"]["findings"], nlohmann::json::array()) << entry;
    barriers += entry["code_check"]["barriers"].get<int>();
    // Tiles of both operands are in shared memory.
    if (entry["kind"] == "dot" && entry["function"] != "kernel_combine")
      EXPECT_GT(entry["dynamic_shared_bytes"], 4096) << entry;
  }
  EXPECT_THAT(kinds, testing::IsSupersetOf({"loop", "dot", "attention", "attention_gradient"}));
  EXPECT_EQ(kernels.size(), json["kernels"].get<size_t>());
  EXPECT_GT(barriers, 10);
  // A kernel may be several launches, one after the other.
  EXPECT_GT(launches, json["launches"].get<int>());

  const Outcome text = run({"explain", "tiny.yaml", "device=hip:gfx942", "--resources"});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("resources on gfx942 (MI300A, MI300X, MI325X)"));
  EXPECT_THAT(text.out, ContainsRegex("kernel kind +function +launches threads +vector +accum. +scalar"));
  EXPECT_THAT(text.out, ContainsRegex("attention_gradient +kernel_keys_values +2 +256 +[0-9]+"));
  EXPECT_THAT(text.out, ContainsRegex("machine code checked: [0-9]+ functions, [0-9]+ with barriers, [0-9]+ "
                                      "instructions; 0 findings"));
}

TEST_F(ExplainResourcesTest, NvidiaFiguresNeedPtxas) {
  const nlohmann::json json = run_json({"explain", "tiny.yaml", "device=cuda:sm_90a", "--resources", "--json"});
  const bool known = !find_ptxas().empty();
  ASSERT_GT(json["resources"].size(), 10u);
  for (const nlohmann::json& entry : json["resources"]) {
    EXPECT_GT(entry["threads"], 0) << entry;
    EXPECT_EQ(entry.contains("registers"), known) << entry;
  }
  EXPECT_EQ(json.contains("resources_note"), !known);
  const Outcome text = run({"explain", "tiny.yaml", "device=cuda:sm_90a", "--resources"});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("resources on sm_90a (H100, H200)"));
  EXPECT_EQ(text.out.find(std::string(how_to_get_ptxas())) == std::string::npos, known) << text.out;
  if (!known) GTEST_SKIP() << "The registers that ptxas reports are not looked at. " << how_to_get_ptxas();
}

TEST_F(ExplainResourcesTest, TheProcessorHasNone) {
  EXPECT_THAT(
      run({"explain", "tiny.yaml", "device=cpu", "--resources"}).out,
      HasSubstr("The processor's kernels share no registers or shared memory. For those of a GPU: device=cuda:"));
  const nlohmann::json json = run_json({"explain", "tiny.yaml", "device=emulator:gfx942", "--resources", "--json"});
  EXPECT_EQ(json["resources"], nlohmann::json::array());
  EXPECT_THAT(json["resources_note"].get<std::string>(), HasSubstr("device=hip:gfx942."));
}

TEST_F(ExplainResourcesTest, ListingsAreOfTheGpu) {
  EXPECT_THAT(run({"explain", "tiny.yaml", "device=cuda:sm_90a", "--assembly"}).out, HasSubstr(".target sm_90a"));
  const Outcome amd = run({"explain", "tiny.yaml", "device=hip:gfx942", "--assembly"});
  EXPECT_THAT(amd.out, HasSubstr(".amdgcn_target \"amdgcn-amd-amdhsa--gfx942\""));
  EXPECT_THAT(amd.out, HasSubstr("v_mfma_"));
}

TEST_F(ExplainResourcesTest, DevicesThatCannotBe) {
  expect_failure({"explain", "tiny.yaml", "device=cuda:sm_55"}, 1,
                 {"unknown GPU architecture 'sm_55'", "Known: sm_80 (A100), sm_90a (H100, H200), gfx90a", "gfx942"});
  expect_failure({"explain", "tiny.yaml", "device=hip:sm_80"}, 1,
                 {"hip has no architecture sm_80", "Did you mean cuda:sm_80?"});
  expect_failure(
      {"explain", "tiny.yaml", "device=cuda:sm_90a", "device_architecture=sm_80"}, 1,
      {"device_architecture: cuda:sm_90a does not run kernels of sm_80", "cuda:sm_80 where nothing is to run"});
  expect_failure({"train", "tiny.yaml", "device=cude"}, 1, {"there is no device 'cude'", "Did you mean cuda?"});
}

// What the loader finds first is the driver's library.
TEST_F(ExplainResourcesTest, ADriverThatIsNotThereOrShowsFewerGpus) {
  prepare_data();
  std::filesystem::create_directory(path("libraries"));
  std::map<std::string, std::string> environment = environment_;
  environment["LD_LIBRARY_PATH"] = path("libraries").string();
  set_environment(environment);
  write("libraries/libcuda.so.1", "not a library");
  expect_failure({"train", "tiny.yaml", "device=cuda"}, 1,
                 {"cuda: the driver's library cannot be opened: ", "libcuda.so.1",
                  "Install NVIDIA's driver, version 525 (CUDA 12.0) or newer"});
  std::filesystem::remove(path("libraries/libcuda.so.1"));
  std::filesystem::create_symlink(CAUSEWAY_CUDA_STAND_IN, path("libraries/libcuda.so.1"));
  expect_failure({"train", "tiny.yaml", "device=cuda:7"}, 1, {"cuda:7", "The driver shows 2: cuda:0 to cuda:1."});
  EXPECT_FALSE(std::filesystem::exists(path("runs")));
}

}  // namespace
}  // namespace causeway::cli
