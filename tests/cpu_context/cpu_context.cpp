// Linked into test programs whose tests make tensors: the CPU's context is current in the thread that runs them.
#include <gtest/gtest.h>

#include <optional>

#include "causeway/program/context.h"

namespace causeway::program {
namespace {

class CpuContext : public testing::Environment {
  void SetUp() override { scope_.emplace(Context::open("cpu")); }
  void TearDown() override { scope_.reset(); }

  std::optional<ContextScope> scope_;
};

[[maybe_unused]] const testing::Environment* const kCpuContext = testing::AddGlobalTestEnvironment(new CpuContext);

}  // namespace
}  // namespace causeway::program
