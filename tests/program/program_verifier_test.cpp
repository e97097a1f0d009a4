// Each fault of a program, planted into a sound one, is reported.
#include "causeway/program/program_verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "causeway/base/error.h"

namespace causeway::program {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

enum Buffer : int { kX, kW, kOut, kSum, kOther, kKept };
enum PlannedValue : int { kOldX, kOldW, kSumValue, kNewW, kOtherValue, kResult };

Instruction launch(std::vector<Access> accesses, Signal sets = kNoSignal) {
  Launch launch;
  launch.accesses = std::move(accesses);
  return {kComputeQueue, launch, sets};
}
Access reads(Buffer buffer, PlannedValue content) { return {{buffer, content}, false}; }
Access writes(Buffer buffer, PlannedValue content) { return {{buffer, content}, true}; }

// w is overwritten in place, and its old content copied out beside it: another buffer shares memory with an earlier
// one.
class ProgramVerifier : public testing::Test {
 protected:
  ProgramVerifier() {
    program_.buffers = {{ProgramBuffer::Place::kInput, 0, 400},  {ProgramBuffer::Place::kInput, 1, 400},
                        {ProgramBuffer::Place::kOutput, 0, 400}, {ProgramBuffer::Place::kArena, 0, 400},
                        {ProgramBuffer::Place::kArena, 0, 400},  {ProgramBuffer::Place::kArena, 448, 400}};
    for (const char* text : {"x", "w", "sum", "new w", "other", "result"}) program_.contents.push_back({{}, text});
    program_.initial = {{kX, kOldX}, {kW, kOldW}};
    program_.results = {{kX, kOldX}, {kW, kNewW}, {kOut, kResult}};
    program_.arena_bytes = 848;
    program_.signals = 3;
    program_.instructions = {
        {kCopyQueue, Wait{kBegin}},                                             // 0
        {kCopyQueue, Copy{{kW, kOldW}, kKept, 400}, 1},                         // 1
        launch({reads(kX, kOldX), writes(kSum, kSumValue)}),                    // 2
        {kComputeQueue, Wait{1}},                                               // 3
        launch({reads(kW, kOldW), reads(kSum, kSumValue), writes(kW, kNewW)}),  // 4
        launch({reads(kKept, kOldW), writes(kOther, kOtherValue)}, 2),          // 5
        launch({reads(kOther, kOtherValue), writes(kOut, kResult)}),            // 6
    };
    std::get<Launch>(program_.instructions[4].work).overwrites = {kOldW};
  }

  std::vector<std::string> faults() const { return find_faults(program_); }
  Launch& launch_at(size_t i) { return std::get<Launch>(program_.instructions[i].work); }

  LoweredProgram program_;
};

TEST_F(ProgramVerifier, FindsNothingInASoundProgram) {
  EXPECT_THAT(faults(), IsEmpty());
  EXPECT_NO_THROW(verify(program_));
}

TEST_F(ProgramVerifier, AWaitForWhatNobodySets) {
  program_.instructions[3].work = Wait{2};
  EXPECT_THAT(faults(), Contains(AllOf(HasSubstr("instruction 3 (wait for signal 2 on the compute queue)"),
                                       HasSubstr("nothing before it sets the signal"))));
  EXPECT_THROW(verify(program_), InternalError);
}

TEST_F(ProgramVerifier, ASignalThatIsSetTwice) {
  program_.instructions[5].sets = 1;
  EXPECT_THAT(faults(), ElementsAre(HasSubstr("sets signal 1, which instruction 1")));
  program_.instructions[5].sets = kBegin;
  EXPECT_THAT(faults(), ElementsAre(HasSubstr("sets signal 0, which the program's begin")));
  program_.instructions[5].sets = 7;
  EXPECT_THAT(faults(), ElementsAre(HasSubstr("sets signal 7 of 3")));
}

TEST_F(ProgramVerifier, AQueueThatBeginsTooEarly) {
  program_.instructions[0].work = Copy{};
  program_.instructions.erase(program_.instructions.begin());
  EXPECT_THAT(faults(), Contains(HasSubstr("(copy from buffer 1 to buffer 5 on the copy queue) may run before the "
                                           "program begins")));
}

TEST_F(ProgramVerifier, AQueueThatIsNotWaitedFor) {
  program_.instructions.erase(program_.instructions.begin() + 3);
  const std::vector<std::string> found = faults();
  EXPECT_THAT(found, Contains(HasSubstr("on the copy queue) may run when the program has ended")));
}

TEST_F(ProgramVerifier, AReadBesideItsWrite) {
  // The wait comes behind the launch that reads the copy.
  std::swap(program_.instructions[3], program_.instructions[5]);
  EXPECT_THAT(faults(),
              Contains(AllOf(HasSubstr("reads w in buffer 5, which instruction 1"), HasSubstr("may write later"))));
}

TEST_F(ProgramVerifier, AReadBeforeItsWrite) {
  std::swap(program_.instructions[5], program_.instructions[6]);
  EXPECT_THAT(faults(), Contains(AllOf(HasSubstr("reads other in buffer 4"), HasSubstr("may write later"))));
}

TEST_F(ProgramVerifier, AReadOfWhatNobodyWrites) {
  launch_at(6).accesses[0].holding.buffer = kKept;
  EXPECT_THAT(faults(), Contains(HasSubstr("reads other in buffer 5, which nothing writes")));
  launch_at(6).accesses[0].holding.buffer = 17;
  EXPECT_THAT(faults(), ElementsAre(HasSubstr("names a buffer or a content that is not there")));
}

TEST_F(ProgramVerifier, AResultThatIsNotThere) {
  program_.instructions.pop_back();
  EXPECT_THAT(faults(), Contains(HasSubstr("the program's end reads result in buffer 2, which nothing writes")));
}

TEST_F(ProgramVerifier, AnInputThatIsOverwrittenUnasked) {
  launch_at(2).accesses.push_back(writes(kX, kOtherValue));
  EXPECT_THAT(faults(), Contains(AllOf(HasSubstr("x in buffer 0"), HasSubstr("in use at the same time"))));
}

TEST_F(ProgramVerifier, BuffersThatShareMemoryWhileBothAreInUse) {
  program_.buffers[kKept].at = 384;  // sixteen bytes too low
  EXPECT_THAT(faults(), Contains(AllOf(HasSubstr("in buffer 5, written by instruction 1"), HasSubstr("in buffer 3"),
                                       HasSubstr("share memory and are in use at the same time"))));
}

TEST_F(ProgramVerifier, AWriteBesideARead) {
  // Without the wait before it, the launch overwrites what the copy has yet to read.
  std::swap(program_.instructions[3], program_.instructions[4]);
  EXPECT_THAT(faults(), Contains(AllOf(HasSubstr("w in buffer 1"), HasSubstr("in use at the same time"))));
}

TEST_F(ProgramVerifier, AWriteInPlaceThatTheKernelDoesNotBear) {
  launch_at(4).overwrites.clear();
  EXPECT_THAT(faults(), ElementsAre(AllOf(HasSubstr("w in buffer 1"), HasSubstr("in use at the same time"))));
}

TEST_F(ProgramVerifier, TwoWritersOfOneContent) {
  launch_at(5).accesses.push_back(writes(kOut, kResult));
  EXPECT_THAT(faults(), Contains(HasSubstr("both write result in buffer 2")));
}

TEST_F(ProgramVerifier, ABufferOutsideOfTheArena) {
  program_.arena_bytes = 840;
  EXPECT_THAT(faults(), ElementsAre(HasSubstr("buffer 5 of 400 bytes lies at 448 of the arena's 840")));
  program_.arena_bytes = 900;
  program_.buffers[kKept].at = 456;
  EXPECT_THAT(faults(), ElementsAre(HasSubstr("lies at 456")));
}

TEST_F(ProgramVerifier, ACopyOfMoreThanThereIs) {
  std::get<Copy>(program_.instructions[1].work).bytes = 401;
  EXPECT_THAT(faults(), ElementsAre(HasSubstr("is of 401 bytes")));
}

}  // namespace
}  // namespace causeway::program
