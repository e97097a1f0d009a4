#include "causeway/bench/collective_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "causeway/base/error.h"

namespace causeway::bench {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const MpiLaunch kFour = {MpiFamily::kOpenMpi, "OMPI_COMM_WORLD_SIZE", 4, 1};
const MpiLaunch kOne = {MpiFamily::kMpich, "PMI_SIZE", 1, 0};

// "processes cpu", "cuda:1", or the message of the error.
std::string choice(const std::string& asked, const std::string& device, const std::optional<MpiLaunch>& launch) {
  try {
    const CollectiveBackend backend = choose_collective_backend(asked, device, launch);
    return (backend.between_processes ? "processes " : "") + backend.device;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    return error.what();
  }
}

TEST(CollectiveBackendTest, FollowsTheLaunchAndTheDevice) {
  EXPECT_EQ(choice("", "auto", {}), "auto");
  EXPECT_EQ(choice("", "cuda:1", {}), "cuda:1");
  EXPECT_EQ(choice("", "auto", kFour), "processes cpu");
  EXPECT_EQ(choice("", "cpu", kFour), "processes cpu");
  EXPECT_EQ(choice("mpi", "auto", kFour), "processes cpu");
  EXPECT_EQ(choice("", "cuda", kFour), "processes cuda");
  EXPECT_EQ(choice("nccl", "auto", kFour), "processes cuda");
  EXPECT_EQ(choice("", "hip", kFour), "processes hip");
  // A launch of one is nothing special.
  EXPECT_EQ(choice("", "auto", kOne), "auto");
  EXPECT_EQ(choice("threads", "auto", kOne), "cpu");
  EXPECT_EQ(choice("threads", "auto", {}), "cpu");
  EXPECT_EQ(choice("nccl", "auto", {}), "cuda");
  EXPECT_EQ(choice("nccl", "cuda:2", {}), "cuda:2");
  EXPECT_EQ(choice("rccl", "auto", {}), "hip");
}

TEST(CollectiveBackendTest, SaysWhatDoesNotFit) {
  EXPECT_THAT(choice("mpi", "auto", {}),
              AllOf(HasSubstr("this process was not started by mpirun"), HasSubstr("mpirun -n 4 causeway bench")));
  EXPECT_THAT(choice("mpi", "auto", kOne), HasSubstr("mpirun started one process"));
  EXPECT_THAT(choice("mpi", "cuda", kFour), AllOf(HasSubstr("cuda is none"), HasSubstr("GPUs exchange by NCCL")));
  EXPECT_THAT(choice("threads", "auto", kFour), HasSubstr("4 processes were started, and threads exchanges within"));
  EXPECT_THAT(choice("nccl", "hip", {}), AllOf(HasSubstr("NVIDIA's GPUs"), HasSubstr("give cuda")));
  EXPECT_THAT(choice("threads", "cuda", {}), HasSubstr("threads exchanges between processors here"));
  EXPECT_THAT(choice("ncll", "auto", {}), AllOf(HasSubstr("'ncll' is no backend"), HasSubstr("Did you mean nccl?")));
}

}  // namespace
}  // namespace causeway::bench
