#include "causeway/program/context.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "causeway/base/error.h"
#include "causeway/codegen/compile/kernel_cache.h"
#include "causeway/device/cpu/cpu_device.h"
#include "causeway/graph/parser.h"
#include "tests/fixtures/error_message.h"
#include "tests/fixtures/op_literal.h"
#include "tests/program/program_runner.h"

namespace causeway::program {
namespace {

TEST(Context, NoneIsCurrentOutsideOfAScope) {
  try {
    Context::current();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_EQ(error.message(), "no context is current in this thread");
  }
}

TEST(Context, ScopesNestAndAreTheThreadsOwn) {
  const auto outer = Context::open("cpu"), inner = Context::open("cpu", {.rank = 3});
  EXPECT_EQ(inner->rank(), 3);
  EXPECT_NE(&outer->device(), &inner->device());
  {
    const ContextScope outer_scope(outer);
    {
      const ContextScope inner_scope(inner);
      EXPECT_EQ(Context::current(), inner);
      std::thread([&] {
        EXPECT_THROW(Context::current(), Error);
        const ContextScope scope(outer);
        EXPECT_EQ(Context::current(), outer);
      }).join();
    }
    EXPECT_EQ(Context::current(), outer);
  }
  EXPECT_THROW(Context::current(), Error);
}

// Changes one field of the options at a time, whichever there are.
template <class Struct, class Compile>
void with_each_field_changed(Struct& part, const Compile& compile) {
  for_each_field<Struct>([&](const auto& field) {
    auto& value = part.*field.member;
    using Type = std::remove_cvref_t<decltype(value)>;
    const Type before = value;
    if constexpr (ListsFields<Type>) {
      with_each_field_changed(value, compile);
    } else if constexpr (std::is_same_v<Type, bool>) {
      value = !value;
      compile(field.name);
    } else if constexpr (std::is_same_v<Type, DType>) {
      value = DType::kBF16;
      compile(field.name);
    } else if constexpr (std::is_same_v<Type, int> || std::is_same_v<Type, int64_t>) {
      ++value;
      compile(field.name);
    } else {
      value = static_cast<Type>(static_cast<int>(value) + 1);
      compile(field.name);
    }
    value = before;
  });
}

TEST(Context, ProgramsAreSharedByEqualGraphsAndOptionsAlone) {
  Context context(Context::open("cpu")->shared_device(), {.cache = std::make_shared<KernelCache>("")});
  const Graph graph = parse_graph("%0 = input \"x\" : f32[4]\n%1 = mul(%0, %0) : f32[4]\nreturn %1\n");
  const Graph other = parse_graph("%0 = input \"x\" : f32[4]\n%1 = add(%0, %0) : f32[4]\nreturn %1\n");
  std::set<std::shared_ptr<Program>> programs = {context.compile(graph, {})};
  EXPECT_EQ(context.compile(graph, {}), *programs.begin());
  EXPECT_TRUE(programs.insert(context.compile(other, {})).second);
  ProgramOptions options;
  with_each_field_changed(options, [&](std::string_view field) {
    if (field == "residual") options.pipeline.mixed_precision.compute = DType::kBF16;  // residual goes with it alone
    EXPECT_TRUE(programs.insert(context.compile(graph, options)).second) << field;
  });
  EXPECT_GE(programs.size(), 9u);
}

TEST(Context, PassesGetTheSizesOfTheDevice) {
  const Graph graph = parse_graph(R"(%0 = input "x" : f32[4, 16]
%1 = input "weight" : f32[50, 16]
%2 = input "targets" : i32[4]
%3 = input "token_weights" : f32[4]
%4:4 = linear_cross_entropy(%0, %1, %2, %3) : f32[], f32[4, 16], f32[50, 16], f32[4]
return %4
)");
  const auto rows_of_logits = [&](const std::string& device) {
    const Graph after = Context::open(device)->run_passes(graph, {});
    for (const Node& node : after.nodes())
      if (node.op == "dot"_op) return node.outputs[0].shape.back().constant();
    return int64_t{0};
  };
  EXPECT_EQ(rows_of_logits("cpu"), 50);
  EXPECT_EQ(rows_of_logits("emulator:sm_90a"), 64);
  EXPECT_EQ(rows_of_logits("emulator:gfx942"), 64);
}

// Of each launch whether it follows another one of its program.
class FollowingLaunches : public device::CpuDevice {
 public:
  FollowingLaunches() : CpuDevice(1) {}
  void launch(const device::DeviceLaunch& launch) override {
    follows.push_back(launch.follows_launch);
    CpuDevice::launch(launch);
  }
  std::vector<bool> follows;
};

// What an input holds may have been written by the program before. The first launch of a program therefore waits until
// all that was queued before it has ended, and no later one can begin before the first has.
TEST(Context, AProgramBeginsWhenTheOneBeforeItHasEnded) {
  const auto device = std::make_shared<FollowingLaunches>();
  ProgramRunner runner(device);
  const Graph graph = parse_graph(R"(%0 = input "x" : f32[16, 32]
%1 = input "w" : f32[32, 32]
%2 = dot(%0, %1) : f32[16, 32]
%3 = dot(%2, %1) : f32[16, 32]
%4 = dot(%3, %1) : f32[16, 32]
return %4
)");
  const std::vector<HostTensor> inputs = {random_host_tensor(DType::kF32, {16, 32}, 1, -1, 1),
                                          random_host_tensor(DType::kF32, {32, 32}, 2, -1, 1)};
  Program program(graph, runner.device(), runner.library(), runner.arena());
  for (int run = 0; run < 2; ++run) {
    device->follows.clear();
    runner.run(program, inputs);
    ASSERT_GE(device->follows.size(), 3u);
    EXPECT_FALSE(device->follows.front());
    EXPECT_TRUE(device->follows.back());
  }
}

}  // namespace
}  // namespace causeway::program
