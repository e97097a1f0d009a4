// A copy of tensors that is made beside the step that overwrites them.
#include "causeway/train/checkpoint/state_snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "causeway/program/held_memory.h"
#include "causeway/tensor/ops.h"
#include "causeway/tensor/step.h"

namespace causeway::train {
namespace {

using ::testing::ElementsAre;

class StateSnapshotTest : public testing::TestWithParam<std::string> {
 protected:
  std::vector<float> copied(const StateSnapshot& snapshot, const Tensor& tensor) const {
    const std::span<const std::byte> bytes = snapshot.of(tensor);
    const auto* values = reinterpret_cast<const float*>(bytes.data());
    return {values, values + bytes.size() / sizeof(float)};
  }

  const std::shared_ptr<Context> context_ = Context::open(GetParam());
  const ContextScope scope_{context_};
  Tensor x_ = Tensor::from_values({1, 2, 3}, {3}), y_ = Tensor::from_values({10, 20}, {2});
  // Updates both in place.
  Step step_{[this](const std::vector<Tensor>&) {
    x_.assign(x_ + 1.0);
    y_.assign(y_ * 2.0);
    return std::vector<Tensor>{};
  }};
};

TEST_P(StateSnapshotTest, HoldsTheValuesOfItsBeginningWhateverAStepWrites) {
  for (int i = 0; i < 3; ++i) step_.run({});
  StateSnapshot snapshot(context_, {x_, y_});
  EXPECT_EQ(snapshot.bytes(), 512);  // each at a multiple of 256 bytes
  snapshot.allocate();
  for (int round = 0; round < 2; ++round) {
    const float steps = static_cast<float>(3 + round * 2);
    snapshot.begin();
    EXPECT_TRUE(snapshot.is_copying());
    step_.run({});
    EXPECT_GE(snapshot.finish(), 0.0);
    EXPECT_FALSE(snapshot.is_copying());
    EXPECT_TRUE(context_->held_memory().empty());
    step_.run({});
    EXPECT_THAT(copied(snapshot, x_), ElementsAre(1 + steps, 2 + steps, 3 + steps));
    EXPECT_THAT(copied(snapshot, y_), ElementsAre(10 * std::exp2(steps), 20 * std::exp2(steps)));
  }
  EXPECT_THAT(x_.values(), ElementsAre(8, 9, 10));
}

// Through memory of the device, for as many blocks as there is room for: blocks of 256 MiB and less are whole.
TEST_P(StateSnapshotTest, PassesThroughSpareMemoryOfTheDevice) {
  const int64_t before = context_->device().bytes_in_use();
  for (const int64_t spare : {int64_t{511}, int64_t{512}}) {
    const float at_first = x_.values()[0];
    StateSnapshot snapshot(context_, {x_, y_});
    snapshot.allocate();
    snapshot.begin(spare);
    EXPECT_EQ(context_->device().bytes_in_use() - before, spare / 512 * 512);
    EXPECT_EQ(context_->held_memory().empty(), spare == 512);  // programs wait for nothing then
    step_.run({});
    step_.run({});
    EXPECT_TRUE(snapshot.is_copied());
    EXPECT_TRUE(snapshot.is_copying());
    snapshot.finish();
    EXPECT_EQ(context_->device().bytes_in_use(), before);
    EXPECT_TRUE(snapshot.is_copied());
    EXPECT_EQ(snapshot.finish(), 0);
    EXPECT_THAT(copied(snapshot, x_), ElementsAre(at_first, at_first + 1, at_first + 2));
    EXPECT_EQ(x_.values()[0], at_first + 2);
  }
}

// Only what comes last where there is not room for all.
TEST_P(StateSnapshotTest, CopiesDirectlyWhatThereIsNoRoomFor) {
  constexpr int64_t kBlock = 64 << 20;  // elements: blocks of their own
  const Tensor first = Tensor::uninitialized({kBlock}, DType::kF32), last = Tensor::uninitialized({5}, DType::kF32);
  StateSnapshot snapshot(context_, {first, last});
  snapshot.allocate();
  const int64_t before = context_->device().bytes_in_use();
  snapshot.begin(kBlock);
  EXPECT_EQ(context_->device().bytes_in_use() - before, 256);
  EXPECT_NE(context_->held_memory().event(first.buffer().data()), nullptr);
  EXPECT_EQ(context_->held_memory().event(last.buffer().data()), nullptr);
  snapshot.finish();
}

// The emulator copies as late as it may: what nobody waits for is overwritten.
TEST_P(StateSnapshotTest, OnlyBecauseProgramsWaitForIt) {
  step_.run({});
  StateSnapshot snapshot(context_, {x_, y_});
  snapshot.allocate();
  snapshot.begin();
  context_->held_memory().release(context_->device());
  step_.run({});
  snapshot.finish();
  const float step = GetParam() == "cpu" ? 1 : 2;
  EXPECT_THAT(copied(snapshot, x_), ElementsAre(1 + step, 2 + step, 3 + step));
}

TEST_P(StateSnapshotTest, IsAllocatedBesidePrograms) {
  StateSnapshot snapshot(context_, {x_, y_});
  snapshot.prepare();
  step_.run({});
  snapshot.prepare();
  snapshot.allocate();
  snapshot.begin();
  snapshot.prepare();
  step_.run({});
  snapshot.finish();
  EXPECT_THAT(copied(snapshot, x_), ElementsAre(2, 3, 4));
  StateSnapshot given_up(context_, {x_});
  given_up.prepare();
}

TEST_P(StateSnapshotTest, MayBeGivenUpWhileItCopies) {
  StateSnapshot snapshot(context_, {x_});
  snapshot.allocate();
  {
    StateSnapshot other(context_, {y_});
    other.allocate();
    other.begin();
  }
  EXPECT_TRUE(context_->held_memory().empty());
  step_.run({});
  EXPECT_THAT(y_.values(), ElementsAre(20, 40));
}

INSTANTIATE_TEST_SUITE_P(Devices, StateSnapshotTest, testing::Values("cpu", "emulator:sm_90a", "emulator:gfx942"),
                         [](const auto& device) {
                           std::string name = device.param;
                           std::ranges::replace(name, ':', '_');
                           return name;
                         });

}  // namespace
}  // namespace causeway::train
