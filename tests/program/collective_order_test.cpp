// Where collectives go among kernels, over hand-made lists of them.
#include "causeway/program/collective_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

namespace causeway::program {
namespace {

constexpr int64_t kCount = 150'000;                   // gathered 1.2 MB: just not small
constexpr int64_t kBucketOfTwo = 2 * kCount * 2 * 4;  // bytes that a rank receives of two gathers over two ranks

Access access(int buffer, bool written) { return {{buffer, buffer}, written}; }

// The order over kernels of a list; buffers are numbered.
class OrderedKernels {
 public:
  OrderedKernels& launch(const std::vector<int>& reads, const std::vector<int>& writes) {
    Launch launch;
    launch.kernel = list_.size();
    for (const int buffer : reads) launch.accesses.push_back(access(buffer, false));
    for (const int buffer : writes) launch.accesses.push_back(access(buffer, true));
    list_.emplace_back(std::move(launch));
    return *this;
  }
  OrderedKernels& collective(CollectiveKind kind, const std::string& group, int from, int to, int64_t count = kCount) {
    list_.emplace_back(Collectives{group, 2, {{list_.size(), {kind, DType::kF32, count}, {from, from}, {to, to}}}});
    return *this;
  }
  OrderedKernels& gather(const std::string& group, int from, int to, int64_t count = kCount) {
    return collective(CollectiveKind::kAllGather, group, from, to, count);
  }
  OrderedKernels& scatter(const std::string& group, int from, int to, int64_t count = kCount) {
    return collective(CollectiveKind::kReduceScatter, group, from, to, count);
  }

  const std::vector<KernelWork>& list() const { return list_; }

  // "0 dp(1 2) 3": launches by their position, collectives that go together in brackets; "*" where they follow kernels.
  std::string ordered(int64_t bucket_bytes = INT64_MAX) const {
    std::string text;
    for (const OrderedWork& one : order_collectives(list_, bucket_bytes)) {
      if (!text.empty()) text += " ";
      if (const auto* launch = std::get_if<Launch>(&one.work)) {
        text += std::to_string(launch->kernel);
        continue;
      }
      const auto& collectives = std::get<Collectives>(one.work);
      text += collectives.group + (one.follows_kernels ? "*(" : "(");
      for (const Collectives::Part& part : collectives.parts)
        text += (&part == &collectives.parts.front() ? "" : " ") + std::to_string(part.kernel);
      text += ")";
    }
    return text;
  }

 private:
  std::vector<KernelWork> list_;
};

// Weights 0, 1, 2, ... of a program, each gathered right before the kernel that uses it.
TEST(CollectiveOrder, GathersTwoBucketsAhead) {
  OrderedKernels kernels;
  for (int i = 0; i < 4; ++i) kernels.gather("dp", i, 10 + i).launch({10 + i}, {20 + i});
  EXPECT_EQ(kernels.ordered(1), "dp*(0) dp*(2) dp*(4) 1 dp*(6) 3 5 7");
  EXPECT_EQ(kernels.ordered(), "dp*(0 2 4 6) 1 3 5 7");
}

// Biases and norms.
TEST(CollectiveOrder, SmallGathersGoTogetherBeforeAllOthers) {
  OrderedKernels kernels;
  for (int i = 0; i < 3; ++i)
    kernels.gather("dp", i, 10 + i).gather("dp", 30 + i, 40 + i, 64).launch({10 + i, 40 + i}, {20 + i});
  kernels.launch({20}, {5}).gather("dp", 5, 6, 64).launch({6}, {7});  // of what a kernel makes
  EXPECT_EQ(kernels.ordered(1), "dp*(1 4 7) dp*(0) dp*(3) dp*(6) 2 5 8 9 dp*(10) 11");
}

// Kernels wait for the first gathers, beside which nothing runs: few, and the next ones begin with their use.
TEST(CollectiveOrder, TheFirstGathersAreFew) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  OrderedKernels kernels;
  for (int i = 0; i < 6; ++i) kernels.gather("dp", i, 10 + i, kMiB).launch({10 + i}, {20 + i});  // 8 MiB each
  EXPECT_EQ(kernels.ordered(16 * kMiB), "dp*(0) dp*(2 4) dp*(6 8) 1 dp*(10) 3 5 7 9 11");
}

TEST(CollectiveOrder, ACastOfAWeightComesAlongWithItsGather) {
  OrderedKernels kernels;
  kernels.launch({}, {50});
  kernels.launch({0}, {1}).gather("dp", 1, 2).launch({2}, {3});
  EXPECT_EQ(kernels.ordered(), "1 dp*(2) 0 3");
}

// Weights that fsdp and dp cut: what is gathered over dp is gathered over fsdp.
TEST(CollectiveOrder, AGatherMayReadAnother) {
  OrderedKernels kernels;
  for (int i = 0; i < 3; ++i) kernels.gather("dp", i, 10 + i).gather("fsdp", 10 + i, 20 + i).launch({20 + i}, {30 + i});
  EXPECT_EQ(kernels.ordered(), "dp*(0 3 6) fsdp*(1 4 7) 2 5 8");
  // One bucket each for a weight: a gather over fsdp does not come before the one that it reads.
  EXPECT_EQ(kernels.ordered(1), "dp*(0) fsdp*(1) dp*(3) fsdp*(4) dp*(6) fsdp*(7) 2 5 8");
}

TEST(CollectiveOrder, ABucketIsNotJoinedBehindWhatReadsIt) {
  // The third weight does not fit into the first bucket of dp, so the open bucket of fsdp stands before its gather.
  OrderedKernels kernels;
  for (int i = 0; i < 2; ++i) kernels.gather("dp", i, 10 + i).launch({10 + i}, {30 + i});
  kernels.gather("fsdp", 5, 15).launch({15}, {35});
  kernels.gather("dp", 2, 12).gather("fsdp", 12, 22).launch({22}, {32});
  EXPECT_EQ(kernels.ordered(kBucketOfTwo), "dp*(0 2) fsdp*(4) dp*(6) 1 3 fsdp*(7) 5 8");
}

TEST(CollectiveOrder, GroupsGatherWithoutClosingEachOthersBuckets) {
  OrderedKernels kernels;
  for (int i = 0; i < 4; ++i) kernels.gather(i % 2 == 0 ? "dp" : "fsdp", i, 10 + i).launch({10 + i}, {20 + i});
  EXPECT_EQ(kernels.ordered(), "dp*(0 4) fsdp*(2 6) 1 3 5 7");
}

// What a collective that is no gather of weights needs, or is needed by, stays where it is.
TEST(CollectiveOrder, GathersOfSumsStayBehindThem) {
  OrderedKernels kernels;
  kernels.launch({}, {0}).scatter("dp", 0, 1).gather("dp", 1, 2).launch({2}, {3});
  EXPECT_EQ(kernels.ordered(), "0 dp(1) dp(2) 3");
  OrderedKernels read;  // a gathered weight that a reduce-scatter reads
  read.launch({}, {9}).gather("fsdp", 0, 1).scatter("dp", 1, 2).launch({2}, {3});
  EXPECT_EQ(read.ordered(), "fsdp(1) dp(2) 0 3");
}

TEST(CollectiveOrder, SumsOfGradientsGoTogetherByGroup) {
  OrderedKernels kernels;  // gradients of three weights, with a collective of tp between each two
  for (int i = 0; i < 3; ++i)
    kernels.launch({60}, {60, i, 10 + i}).scatter("dp", i, 20 + i).scatter("tp", 10 + i, 30 + i);
  kernels.launch({20, 21, 22, 30, 31, 32}, {40});
  EXPECT_EQ(kernels.ordered(), "0 3 6 dp(1 4 7) tp(2 5 8) 9");
  EXPECT_EQ(kernels.ordered(1), "0 dp(1) tp(2) 3 dp(4) tp(5) 6 dp(7) tp(8) 9");
}

// Matrices' terms are exchanged, and those of biases between them are added up: each kind with its like.
TEST(CollectiveOrder, KindsDoNotCloseEachOthersBuckets) {
  OrderedKernels kernels;
  for (int i = 0; i < 3; ++i)
    kernels.launch({60}, {60, i, 10 + i})
        .collective(CollectiveKind::kAllToAll, "dp", i, 20 + i)
        .scatter("dp", 10 + i, 30 + i, 64);
  kernels.launch({20, 21, 22, 30, 31, 32}, {40});
  EXPECT_EQ(kernels.ordered(), "0 3 6 dp(1 4 7) dp(2 5 8) 9");
  EXPECT_EQ(kernels.ordered(kBucketOfTwo), "0 3 dp(1 4) 6 dp(2 5 8) dp(7) 9");
}

// Sums over fsdp and then over dp, of weights that both cut.
TEST(CollectiveOrder, SumsOfSumsGoTogetherToo) {
  OrderedKernels kernels;
  for (int i = 0; i < 3; ++i) kernels.launch({60}, {60, i}).scatter("fsdp", i, 10 + i).scatter("dp", 10 + i, 20 + i);
  kernels.launch({20, 21, 22}, {30});
  EXPECT_EQ(kernels.ordered(), "0 3 6 fsdp(1 4 7) dp(2 5 8) 9");
  // The first is used before the others begin.
  OrderedKernels used;
  for (int i = 0; i < 2; ++i)
    used.launch({60}, {60, i}).scatter("fsdp", i, 10 + i).scatter("dp", 10 + i, 20 + i).launch({20 + i}, {30 + i});
  EXPECT_EQ(used.ordered(), "0 fsdp(1) dp(2) 3 4 fsdp(5) dp(6) 7");
}

// Terms of gradients that were exchanged are added up when two more exchanges have begun behind theirs, those of the
// last two where they stand: what ranks sent each other is larger than its sum.
TEST(CollectiveOrder, LaunchesThatReadExchangesAloneComeSoonBehindThem) {
  OrderedKernels kernels;
  for (int i = 0; i < 4; ++i) kernels.launch({60}, {60, i});
  for (int i = 0; i < 4; ++i) kernels.collective(CollectiveKind::kAllToAll, "dp", i, 10 + i).launch({10 + i}, {20 + i});
  kernels.launch({20, 21, 22, 23}, {30});
  EXPECT_EQ(kernels.ordered(1), "0 dp(4) 1 dp(6) 2 5 dp(8) 3 7 dp(10) 9 11 12");
  // One that reads what a kernel gives as well keeps its place.
  OrderedKernels reads_more;
  for (int i = 0; i < 4; ++i) reads_more.launch({60}, {60, i});
  for (int i = 0; i < 4; ++i)
    reads_more.collective(CollectiveKind::kAllToAll, "dp", i, 10 + i).launch({10 + i, 60}, {20 + i});
  EXPECT_EQ(reads_more.ordered(1), "0 dp(4) 1 dp(6) 2 dp(8) 3 dp(10) 5 7 9 11");
}

// Any list: everything once, nothing before what it depends on, buckets of one kind and group.
TEST(CollectiveOrder, KeepsEveryDependency) {
  std::mt19937 random(7);
  const auto draw = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
  size_t together = 0, chains = 0;
  for (int round = 0; round < 2000; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    // Buffers below 6 are the program's inputs; each collective writes one of its own, and some are used again.
    OrderedKernels kernels;
    int next = 6;
    for (int k = 0; k < 24; ++k) {
      const int from = draw(next);
      const int to = draw(8) == 0 ? draw(next) : next;
      if (to == from) continue;
      if (draw(2) == 0) {
        kernels.launch(draw(5) == 0 ? std::vector<int>{} : std::vector<int>{from, draw(next)}, {to});
      } else {
        kernels.collective(draw(3) == 0 ? CollectiveKind::kReduceScatter : CollectiveKind::kAllGather,
                           std::vector<std::string>{"dp", "fsdp", "tp"}[static_cast<size_t>(draw(3))], from, to);
        if (from > 6 && from % 3 == 0) ++chains;
      }
      next = std::max(next, to + 1);
    }
    const std::vector<KernelWork>& list = kernels.list();
    std::map<size_t, size_t> place;  // of each kernel in the new order
    const std::vector<OrderedWork> ordered = order_collectives(list, round % 2 == 0 ? kBucketOfTwo : INT64_MAX);
    for (size_t i = 0; i < ordered.size(); ++i) {
      if (const auto* launch = std::get_if<Launch>(&ordered[i].work)) {
        EXPECT_TRUE(place.emplace(launch->kernel, i).second);
        continue;
      }
      const auto& collectives = std::get<Collectives>(ordered[i].work);
      if (collectives.parts.size() > 1) ++together;
      for (const Collectives::Part& part : collectives.parts) {
        EXPECT_TRUE(place.emplace(part.kernel, i).second);
        const auto& before = std::get<Collectives>(list[part.kernel]);
        EXPECT_EQ(before.group, collectives.group);
        EXPECT_EQ(before.parts[0].collective.kind, collectives.parts[0].collective.kind);
      }
    }
    ASSERT_EQ(place.size(), list.size());
    const auto accesses_of = [&](size_t k) {
      return std::visit([](const auto& one) { return Instruction{kComputeQueue, one}.accesses(); }, list[k]);
    };
    for (size_t late = 0; late < list.size(); ++late)
      for (size_t early = 0; early < late; ++early)
        for (const Access& a : accesses_of(early))
          for (const Access& b : accesses_of(late))
            if (a.holding.buffer == b.holding.buffer && (a.written || b.written))
              EXPECT_LT(place[early], place[late]) << early << " and " << late << ": " << kernels.ordered();
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(together, 500u);
  EXPECT_GT(chains, 500u);
}

}  // namespace
}  // namespace causeway::program
