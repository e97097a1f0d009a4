// Which blocks of an attention matrix hold anything: what is decided from ranges of positions, and whole maps against
// the reference interpreter on the processor and on emulated GPUs, or on the device that CAUSEWAY_TEST_DEVICE names.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "causeway/graph/interpreter.h"
#include "causeway/graph/op.h"
#include "causeway/graph/printer.h"
#include "causeway/kernels/mask_ranges.h"
#include "tests/device/device_under_test.h"
#include "tests/passes/attention_specs.h"
#include "tests/program/program_runner.h"

namespace causeway::program {
namespace {

Range random_range(std::mt19937& random, int64_t least, int64_t greatest) {
  std::uniform_int_distribution<int64_t> number(least, greatest);
  const int64_t a = number(random), b = number(random);
  return {std::min(a, b), std::max(a, b)};
}

struct Operation {
  const char* name;
  std::function<Range(const Range&, const Range&)> of_ranges;
  std::function<int64_t(int64_t, int64_t)> of_numbers;
  bool of_truths = false;
};

const std::vector<Operation>& operations() {
  static const std::vector<Operation> all = {
      {"neg", [](const Range& a, const Range&) { return range_neg(a); }, [](int64_t a, int64_t) { return -a; }},
      {"abs", [](const Range& a, const Range&) { return range_abs(a); },
       [](int64_t a, int64_t) { return a < 0 ? -a : a; }},
      {"add", range_add, [](int64_t a, int64_t b) { return a + b; }},
      {"sub", range_sub, [](int64_t a, int64_t b) { return a - b; }},
      {"mul", range_mul, [](int64_t a, int64_t b) { return a * b; }},
      {"min", interval_min<int64_t>, [](int64_t a, int64_t b) { return std::min(a, b); }},
      {"max", interval_max<int64_t>, [](int64_t a, int64_t b) { return std::max(a, b); }},
      {"lt", interval_lt<int64_t>, [](int64_t a, int64_t b) -> int64_t { return a < b; }},
      {"le", interval_le<int64_t>, [](int64_t a, int64_t b) -> int64_t { return a <= b; }},
      {"eq", interval_eq<int64_t>, [](int64_t a, int64_t b) -> int64_t { return a == b; }},
      {"and", interval_and<int64_t>, [](int64_t a, int64_t b) { return a & b; }, true},
      {"or", interval_or<int64_t>, [](int64_t a, int64_t b) { return a | b; }, true},
      {"xor", range_xor, [](int64_t a, int64_t b) { return a ^ b; }, true},
  };
  return all;
}

// No more either: of one operation the least and the greatest result are taken.
TEST(MaskRanges, AreThoseOfEveryPairOfNumbers) {
  std::mt19937 random(1);
  for (const Operation& operation : operations())
    for (int round = 0; round < 200; ++round) {
      const int64_t least = operation.of_truths ? 0 : -6, greatest = operation.of_truths ? 1 : 6;
      const Range a = random_range(random, least, greatest), b = random_range(random, least, greatest);
      std::vector<int64_t> results;
      for (int64_t x = a.low; x <= a.high; ++x)
        for (int64_t y = b.low; y <= b.high; ++y) results.push_back(operation.of_numbers(x, y));
      const Range range = operation.of_ranges(a, b);
      EXPECT_EQ(range.low, *std::min_element(results.begin(), results.end())) << operation.name;
      EXPECT_EQ(range.high, *std::max_element(results.begin(), results.end())) << operation.name;
    }
}

TEST(MaskRanges, OfWhatMayNotFitIsEverything) {
  const Range most = {kAnyInt32.high, kAnyInt32.high};
  EXPECT_EQ(range_add(most, {0, 1}).low, kAnyInt32.low);
  EXPECT_EQ(range_mul(kAnyInt32, kAnyInt32).high, kAnyInt32.high);
  EXPECT_EQ(range_neg(kAnyInt32).low, kAnyInt32.low);
}

TEST(MaskRanges, AConditionThatIsKnownChooses) {
  const Range known = interval_select<int64_t>({1, 1}, {2, 3}, {5, 7}),
              unknown = interval_select<int64_t>({0, 1}, {2, 3}, {5, 7});
  EXPECT_EQ(known.high, 3);
  EXPECT_EQ(interval_select<int64_t>({0, 0}, {2, 3}, {5, 7}).low, 5);
  EXPECT_EQ(unknown.low, 2);
  EXPECT_EQ(unknown.high, 7);
}

constexpr int64_t kMarks = 180;  // of a sequence; more positions than there are read the last one

TEST(MaskRanges, OfElementsAreThoseOfAllThatAreLookedAt) {
  std::vector<int32_t> row(300);
  std::mt19937 random(3);
  for (int32_t& element : row) element = std::uniform_int_distribution<int32_t>(-50, 50)(random);
  const auto size = static_cast<int64_t>(row.size());
  for (int round = 0; round < 300; ++round) {
    const Range index = random_range(random, 0, size - 1), range = range_of_elements(row.data(), index, size);
    if (index.high - index.low >= 256) {
      EXPECT_EQ(range.high, kAnyInt32.high);
      continue;
    }
    const auto [least, greatest] = std::minmax_element(row.begin() + index.low, row.begin() + index.high + 1);
    EXPECT_EQ(range.low, *least) << index.low << " to " << index.high;
    EXPECT_EQ(range.high, *greatest) << index.low << " to " << index.high;
  }
  EXPECT_EQ(range_of_elements(row.data(), {-1, 3}, size).low, kAnyInt32.low);
  EXPECT_EQ(range_of_elements(row.data(), {size - 1, size}, size).low, kAnyInt32.low);
  EXPECT_TRUE(is_one_index({2, 2}, 3));
  for (const Range& index : {Range{3, 3}, Range{-1, -1}, Range{1, 2}}) EXPECT_FALSE(is_one_index(index, 3));
}

// A mask of random arithmetic over the positions, of numbers from tensors and of comparisons.
class RandomMask {
 public:
  explicit RandomMask(uint32_t seed) : random_(seed), f_(passes::scalar_function(false)), builder_(f_.graph) {
    numbers_ = f_.in;
    const Value limits = f_.graph.add_input("limits", {DType::kI32, {2}});
    numbers_.push_back(builder_.gather(limits, f_.in[0], 0));
    const Value marks = builder_.gather(f_.graph.add_input("marks", {DType::kI32, {2, kMarks}}), f_.in[0], 0);
    for (const Value position : {f_.in[2], f_.in[3], builder_.sub(f_.in[2], f_.in[3])})
      numbers_.push_back(builder_.gather(marks, position, 0));
    for (const double number : {1.0, 3.0, 70.0}) numbers_.push_back(builder_.constant(DType::kI32, {}, number));
    numbers_.push_back(f_.graph.add(Op::kRem, {f_.in[3], numbers_.back()}));
  }

  std::shared_ptr<const Graph> make() {
    constexpr Op kArithmetic[] = {Op::kAdd, Op::kSub, Op::kMul, Op::kMin, Op::kMax, Op::kNeg, Op::kAbs};
    constexpr Op kComparisons[] = {Op::kLt, Op::kLe, Op::kEq};
    constexpr Op kLogic[] = {Op::kAnd, Op::kOr, Op::kXor};
    for (int i = 0; i < 5; ++i) {
      const Op op = one_of(kArithmetic);
      numbers_.push_back(op == Op::kNeg || op == Op::kAbs ? f_.graph.add(op, {number()})
                                                          : f_.graph.add(op, {number(), number()}));
    }
    for (int i = 0; i < 3; ++i) truths_.push_back(f_.graph.add(one_of(kComparisons), {number(), number()}));
    const Value chosen = builder_.select(truths_[0], number(), number());
    truths_.push_back(f_.graph.add(one_of(kComparisons), {chosen, number()}));
    for (int i = 0; i < 3; ++i) truths_.push_back(f_.graph.add(one_of(kLogic), {truth(), truth()}));
    return passes::finish(f_, truths_.back());
  }

 private:
  template <size_t kCount>
  Op one_of(const Op (&ops)[kCount]) {
    return ops[std::uniform_int_distribution<size_t>(0, kCount - 1)(random_)];
  }
  Value number() { return numbers_[std::uniform_int_distribution<size_t>(0, numbers_.size() - 1)(random_)]; }
  Value truth() { return truths_[std::uniform_int_distribution<size_t>(0, truths_.size() - 1)(random_)]; }

  std::mt19937 random_;
  passes::ScalarFunction f_;
  passes::Builder builder_;
  std::vector<Value> numbers_, truths_;
};

class BlockMaps : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { device_ = open_device_under_test(GetParam()); }

  // Counts, in `kinds`, the blocks of each kind.
  void expect_reference(const std::shared_ptr<const Graph>& mask, int64_t queries, int64_t keys, bool has_tensors,
                        int64_t (&kinds)[3]) {
    auto spec = std::make_shared<AttentionSpec>();
    spec->mask = mask;
    spec->scale = 1;
    spec->block_q = spec->block_k = 16;
    Attributes attributes;
    attributes.attention = spec;
    attributes.shape = {2, 3, queries, keys};
    Graph graph;
    std::vector<Value> captured;
    if (has_tensors) {
      captured.push_back(graph.add_input("limits", {DType::kI32, {2}}));
      captured.push_back(graph.add_input("marks", {DType::kI32, {2, kMarks}}));
    }
    graph.outputs = {graph.add(Op::kAttentionBlockMap, captured, attributes)};
    std::vector<HostTensor> inputs;
    if (has_tensors) {
      inputs.push_back(make_host_tensor(DType::kI32, {2}, {40, 11}));
      std::vector<double> marks(2 * kMarks);
      for (size_t i = 0; i < marks.size(); ++i) marks[i] = static_cast<double>(i % kMarks / (i < kMarks ? 23 : 40));
      inputs.push_back(make_host_tensor(DType::kI32, {2, kMarks}, marks));
    }
    const std::vector<double> expected = interpret(graph, inputs)[0].values;
    EXPECT_EQ(ProgramRunner(device_).run(graph, inputs)[0].values, expected) << print_graph(*mask);
    for (const double kind : expected) ++kinds[static_cast<size_t>(kind)];
  }

  std::shared_ptr<Device> device_;
};

TEST_P(BlockMaps, OfRandomMasks) {
  int64_t kinds[3] = {};
  for (uint32_t seed = 0; seed < 16; ++seed)
    expect_reference(RandomMask(seed).make(), 40 + seed, 150 - seed, true, kinds);
  for (const int64_t count : kinds) EXPECT_GT(count, 100);
}

// Causal within documents, of which most blocks hold one or no document of both.
TEST_P(BlockMaps, OfDocuments) {
  passes::ScalarFunction f = passes::scalar_function(false);
  const passes::Builder b(f.graph);
  f.graph.add_input("limits", {DType::kI32, {2}});
  const Value marks = b.gather(f.graph.add_input("marks", {DType::kI32, {2, kMarks}}), f.in[0], 0);
  const Value same = b.equal(b.gather(marks, f.in[2], 0), b.gather(marks, f.in[3], 0));
  const auto mask = passes::finish(f, f.graph.add(Op::kAnd, {same, b.less_equal(f.in[3], f.in[2])}));
  int64_t kinds[3] = {};
  expect_reference(mask, kMarks, kMarks, true, kinds);
  for (const int64_t count : kinds) EXPECT_GE(count, 5);
}

// More blocks of keys than a task has threads. A window of 50: of some blocks of 16 the first query sees the last key
// alone.
TEST_P(BlockMaps, OfLongRows) {
  int64_t kinds[3] = {};
  expect_reference(passes::window_mask_by_head(300), 100, 2500, false, kinds);
  expect_reference(passes::window_mask(50), 2100, 2100, false, kinds);
  expect_reference(passes::window_mask(50), 1, 2100, false, kinds);
  for (const int64_t count : kinds) EXPECT_GT(count, 0);
}

INSTANTIATE_TEST_SUITE_P(Devices, BlockMaps,
                         testing::ValuesIn(devices_under_test({"cpu", "emulator:sm_90a", "emulator:gfx942"})),
                         named_by_device);

}  // namespace
}  // namespace causeway::program
