#include "causeway/program/early_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace causeway::program {
namespace {

using testing::ElementsAre;

constexpr int64_t kLarge = 4 << 20, kSmall = 64;
constexpr int kCounter = 99;  // a buffer of which each kernel makes a content of its own

class ExchangedKernels {
 public:
  ExchangedKernels& launch(const std::vector<int>& reads, const std::vector<int>& writes) {
    Launch launch;
    launch.kernel = list_.size();
    for (const int buffer : reads) launch.accesses.push_back({{buffer, buffer}, false});
    for (const int buffer : writes) {
      const int content = buffer == kCounter ? kCounter + static_cast<int>(list_.size()) : buffer;
      launch.accesses.push_back({{buffer, content}, true});
    }
    list_.emplace_back(std::move(launch));
    return *this;
  }
  ExchangedKernels& exchange(int from, int to, int64_t count) {
    const Collective collective{CollectiveKind::kReduceScatter, DType::kF32, count};
    list_.emplace_back(Collectives{"dp", 2, {{list_.size(), collective, {from, from}, {to, to}}}});
    return *this;
  }
  ExchangedKernels& message() {
    StageMessage message;
    message.kernel = list_.size();
    list_.emplace_back(std::move(message));
    return *this;
  }

  const std::vector<KernelWork>& list() const { return list_; }
  std::vector<size_t> ordered() const {
    std::vector<size_t> order;
    for (const KernelWork& work : exchange_early(list_)) order.push_back(number(work));
    return order;
  }
  static size_t number(const KernelWork& work) {
    if (const auto* launch = std::get_if<Launch>(&work)) return launch->kernel;
    if (const auto* exchange = std::get_if<Collectives>(&work)) return exchange->parts.front().kernel;
    return std::get<StageMessage>(work).kernel;
  }

 private:
  std::vector<KernelWork> list_;
};

// Inputs' gradients 1, 2, 3, of which each but the first is made of the one before; weights' gradients 11, 12, 13, of
// which the last is the embedding's, made of the last input's gradient.
ExchangedKernels backward_pass() {
  return ExchangedKernels()
      .launch({0}, {1})
      .launch({0}, {11})
      .launch({1}, {2})
      .launch({1}, {12})
      .launch({2}, {3})
      .launch({3}, {13});
}

TEST(EarlyExchange, GradientsThatTheLastOneDoesNotNeedComeBehind) {
  ExchangedKernels kernels = backward_pass();
  kernels.exchange(13, 23, kLarge).exchange(11, 21, kLarge).exchange(12, 22, kLarge).launch({21, 22, 23}, {30});
  EXPECT_THAT(kernels.ordered(), ElementsAre(0, 2, 4, 5, 1, 3, 6, 7, 8, 9));
}

// A copy of what kernel 0 makes, which is sent; one that a kernel reads as well keeps its place.
TEST(EarlyExchange, WhatIsSentComesBehindWhatMakesIt) {
  ExchangedKernels kernels;
  kernels.launch({0}, {1}).launch({0}, {2});
  for (int i = 0; i < 10; ++i) kernels.launch({2}, {40 + i});
  kernels.launch({1}, {5}).exchange(5, 6, kSmall).launch({6, 49}, {7});
  EXPECT_THAT(kernels.ordered(), ElementsAre(0, 12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14));
  kernels.launch({5}, {8});
  EXPECT_TRUE(std::ranges::is_sorted(kernels.ordered()));
}

// What all of them write and none reads, a counter of tasks, binds nothing.
TEST(EarlyExchange, WhatNobodyReadsKeepsNothingInItsPlace) {
  ExchangedKernels kernels;
  kernels.launch({0}, {1, kCounter}).launch({0}, {11, kCounter}).launch({1}, {2, kCounter}).launch({1}, {12, kCounter});
  kernels.launch({2}, {3, kCounter}).launch({3}, {13, kCounter});
  kernels.exchange(13, 23, kLarge)
      .exchange(11, 21, kLarge)
      .exchange(12, 22, kLarge)
      .launch({21, 22, 23}, {30, kCounter});
  EXPECT_THAT(kernels.ordered(), ElementsAre(0, 2, 4, 5, 1, 3, 6, 7, 8, 9));
}

// Two layers, each an input's gradient that is added up over ranks for the layer before it, with a weight's gradient
// that comes before what is sent: behind it, and no further back with the second one.
TEST(EarlyExchange, WeightsGradientsComeBehindWhatIsWaitedFor) {
  ExchangedKernels kernels;
  kernels.launch({0}, {11}).launch({0}, {1}).exchange(1, 2, kLarge);
  kernels.launch({2}, {12}).launch({2}, {3}).exchange(3, 4, kLarge);
  // Far before the step's last exchange, each of the one before it.
  for (int i = 0; i < 40; ++i) kernels.launch({40 + (i == 0 ? -36 : i - 1)}, {40 + i});
  kernels.exchange(79, 80, kLarge).launch({80, 11, 12}, {30});
  std::vector<size_t> order = kernels.ordered();
  order.resize(6);
  EXPECT_THAT(order, ElementsAre(1, 0, 2, 4, 3, 5));

  // What nobody waits for moves nothing.
  ExchangedKernels gradients;
  gradients.launch({0}, {11}).launch({0}, {1}).exchange(1, 2, kLarge);
  for (int i = 0; i < 40; ++i) gradients.launch({i == 0 ? 0 : 39 + i}, {40 + i});
  gradients.exchange(79, 80, kLarge).launch({80, 11, 2}, {30});
  EXPECT_TRUE(std::ranges::is_sorted(gradients.ordered()));
}

TEST(EarlyExchange, SmallOnesAndMessagesChangeNothing) {
  ExchangedKernels small = backward_pass();
  small.exchange(13, 23, kSmall).exchange(11, 21, kSmall);
  EXPECT_THAT(small.ordered(), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  ExchangedKernels stage;
  stage.launch({0}, {1}).launch({0}, {11}).message().launch({1}, {13}).exchange(13, 23, kLarge);
  EXPECT_THAT(stage.ordered(), ElementsAre(0, 1, 2, 3, 4));
  // Nothing is exchanged that kernels make.
  EXPECT_THAT(ExchangedKernels().exchange(0, 1, kLarge).launch({1}, {2}).ordered(), ElementsAre(0, 1));
}

// One that is gathered again for the gradient stays before it; what overwrites stays behind what reads.
TEST(EarlyExchange, KeepsEveryDependency) {
  std::mt19937 random(11);
  const auto draw = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
  size_t moved = 0;
  for (int round = 0; round < 500; ++round) {
    ExchangedKernels kernels;
    int next = 4;
    for (int k = 0; k < 30; ++k) {
      const int to = draw(6) == 0 ? draw(next) : next;
      const int from = draw(next);
      if (to == from) continue;
      if (draw(4) == 0) {
        kernels.exchange(from, to, draw(2) == 0 ? kLarge : kSmall);
      } else {
        kernels.launch({from, draw(next)}, {to});
      }
      next = std::max(next, to + 1);
    }
    const std::vector<KernelWork>& list = kernels.list();
    const std::vector<size_t> order = kernels.ordered();
    std::vector<size_t> place(list.size(), list.size());
    for (size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
    ASSERT_EQ(order.size(), list.size());
    if (!std::ranges::is_sorted(order)) ++moved;
    const auto accesses_of = [&](size_t k) {
      return std::visit([](const auto& one) { return Instruction{kComputeQueue, one}.accesses(); }, list[k]);
    };
    for (size_t late = 0; late < list.size(); ++late)
      for (size_t early = 0; early < late; ++early)
        for (const Access& a : accesses_of(early))
          for (const Access& b : accesses_of(late))
            if (a.holding.buffer == b.holding.buffer && (a.written || b.written))
              ASSERT_LT(place[early], place[late]) << early << " and " << late << " in round " << round;
  }
  EXPECT_GT(moved, 100u);
}

}  // namespace
}  // namespace causeway::program
