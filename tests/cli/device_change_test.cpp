// A run that moves between devices on the way: the same recipe and checkpoint, and the loss curve goes on.
#include "tests/cli/program_under_test.h"

namespace causeway::cli {
namespace {

class DeviceChangeTest : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    prepare_data();
  }

  void train_until(const std::string& name, int steps, const std::string& device, const std::string& precision) {
    const Outcome outcome = run({"train", "tiny.yaml", "--quiet", "--resume", "auto", "name=" + name,
                                 "train.steps=" + std::to_string(steps), "schedule.kind=constant",
                                 "train.precision=" + precision, "device=" + device});
    ASSERT_EQ(outcome.status, 0) << device << "\n" << outcome.err;
  }

  // Nine steps on the processor, and nine of which the middle three are another device's.
  void expect_the_same_curve(const std::string& device, const std::string& precision, double tolerance) {
    train_until("whole", 9, "cpu", precision);
    train_until("moved", 3, "cpu", precision);
    train_until("moved", 6, device, precision);
    train_until("moved", 9, "cpu", precision);
    const std::map<std::string, double> whole = losses("runs/whole"), moved = losses("runs/moved");
    for (int step = 1; step <= 9; ++step) {
      const std::string key = std::to_string(step) + " loss";
      ASSERT_TRUE(moved.contains(key)) << key;
      EXPECT_NEAR(moved.at(key), whole.at(key), tolerance * whole.at(key)) << key << " on " << device;
    }
    EXPECT_LT(moved.at("9 loss"), moved.at("1 loss"));
  }
};

TEST_F(DeviceChangeTest, ToAnEmulatedHopperGpuAndBack) { expect_the_same_curve("emulator:sm_90a", "bf16", 5e-3); }

TEST_F(DeviceChangeTest, ToAnEmulatedCdnaGpuAndBack) { expect_the_same_curve("emulator:gfx942", "f32", 1e-4); }

// The processor computes in f32 where tf32 is asked for.
TEST_F(DeviceChangeTest, ToAnEmulatedGpuThatRoundsToTf32AndBack) {
  expect_the_same_curve("emulator:sm_80", "tf32", 1e-3);
}

TEST_F(DeviceChangeTest, ToAnEmulatedHopperGpuThatRoundsToTf32AndBack) {
  expect_the_same_curve("emulator:sm_90a", "tf32", 1e-3);
}

TEST_F(DeviceChangeTest, AnEmulatedRunRepeatsBitForBit) {
  for (const char* name : {"a", "b"}) train_until(name, 3, "emulator:gfx942", "bf16");
  EXPECT_EQ(losses("runs/a"), losses("runs/b"));
  EXPECT_TRUE(tensor_files("runs/a/checkpoints/step-00000003") == tensor_files("runs/b/checkpoints/step-00000003"));
}

}  // namespace
}  // namespace causeway::cli
