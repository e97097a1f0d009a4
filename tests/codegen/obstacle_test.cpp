// Whether values can share a kernel is decided from indices, without writing it. That the decision is the writers' own
// is shown on requests of all sorts over random graphs, and each reason on a graph made for it.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <random>

#include "causeway/base/error.h"
#include "causeway/codegen/kernel.h"
#include "causeway/graph/parser.h"
#include "causeway/graph/printer.h"
#include "tests/fixtures/op_literal.h"
#include "tests/random_graph/random_graph.h"

namespace causeway::codegen {
namespace {

using testing::HasSubstr;

bool is_expandable(const Graph& graph, Value value) {
  const Op op = graph.node(value).op;
  return is_elementwise(op) || op_info(op).kind == OpKind::kMovement || op == "iota"_op || op == "random_bits"_op ||
         op == "gather"_op;
}

bool is_reduction(const Graph& graph, Value value) { return op_info(graph.node(value).op).kind == OpKind::kReduce; }

bool reduces_last_axis(const Graph& graph, Value value) {
  const Node& node = graph.node(value);
  return node.attributes.axes.back() + 1 == static_cast<int64_t>(graph.shape(node.inputs[0]).size());
}

// A request of a random kind over values that have the sizes for it, in the order of the graph, and in `materialized`
// what cannot be computed in place. Nothing when the value drawn starts no kernel.
std::optional<KernelRequest> random_request(const Graph& graph, std::mt19937_64& random,
                                            MaterializedValues& materialized) {
  const auto pick = [&] { return Value{static_cast<int32_t>(random() % graph.nodes().size()), 0}; };
  KernelRequest request;
  const Value first = pick();
  const Dim count = element_count(graph.shape(first));
  if (graph.node(first).op == "dot"_op) {
    request.kind = KernelKind::kDot;
  } else if (is_reduction(graph, first) && reduces_last_axis(graph, first)) {
    request.rows = count;
    for (const int64_t axis : graph.node(first).attributes.axes)
      request.columns *= graph.shape(graph.node(first).inputs[0])[static_cast<size_t>(axis)];
  } else if (is_expandable(graph, first)) {
    request.columns = count;
  } else {
    return std::nullopt;
  }
  const auto fits = [&](Value value) {
    if (!is_expandable(graph, value) || value == first) return false;
    const Dim elements = element_count(graph.shape(value));
    if (request.kind == KernelKind::kDot) return value.node > first.node && elements == count;
    return elements == request.rows * request.columns || (is_reduction(graph, first) && elements == request.rows);
  };
  request.members = {first};
  for (int i = 0; i < 10; ++i) {
    const Value value = pick();
    if (fits(value) && !request.computes(value)) request.members.push_back(value);
  }
  std::sort(request.members.begin(), request.members.end());
  for (size_t i = 0; i < graph.nodes().size(); ++i)
    for (size_t output = 0; output < graph.nodes()[i].outputs.size(); ++output) {
      const Value value{static_cast<int32_t>(i), static_cast<int32_t>(output)};
      if (graph.nodes()[i].op != "constant"_op && (!is_expandable(graph, value) || random() % 4 == 0))
        materialized.insert(value);
    }
  for (const Value member : request.members) {
    materialized.insert(member);
    request.stored.push_back(random() % 3 != 0);
  }
  return request;
}

Target x86() {
  Target target;
  target.processor = "x86-64-v4";
  target.vector_bytes = 64;
  return target;
}

TEST(Obstacle, IsFoundExactlyWhereWritingFails) {
  const std::vector<Target> targets = {x86(), gpu_target("sm_90a"), gpu_target("gfx942")};
  std::map<Obstacle::Kind, int> found;
  int written = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    RandomGraphOptions options;
    options.symbolic = seed % 3 == 2;
    options.maximum_nodes = 60;
    const RandomGraph random_graph = make_random_graph(seed, options);
    const Graph& graph = random_graph.graph;
    std::mt19937_64 random(seed);
    for (int attempt = 0; attempt < 20; ++attempt) {
      MaterializedValues materialized(graph);
      const std::optional<KernelRequest> request = random_request(graph, random, materialized);
      if (!request) continue;
      for (const Target& target : targets) {
        const std::optional<Obstacle> obstacle = find_obstacle(graph, materialized, *request, target);
        std::string failure;
        try {
          EXPECT_FALSE(generate_kernel(graph, materialized, *request, target).source.empty());
          ++written;
        } catch (const InternalError& error) {
          failure = error.what();
        }
        ASSERT_EQ(failure.empty(), !obstacle)
            << "seed " << seed << ", attempt " << attempt << ", " << target.text() << "\n"
            << failure << "\n"
            << print_graph(graph);
        if (!obstacle) continue;
        EXPECT_THAT(failure, HasSubstr(obstacle->text(graph))) << "seed " << seed << ", attempt " << attempt;
        ++found[obstacle->kind];
      }
    }
  }
  EXPECT_GT(written, 500);
  EXPECT_GT(found[Obstacle::Kind::kOwnValueElsewhere], 100);
  EXPECT_GT(found[Obstacle::Kind::kComputedOperand], 10);
  EXPECT_GT(found[Obstacle::Kind::kNotInBothOrders], 10);
}

// The values with the given numbers as one kernel, beside inputs in memory. `stored`: those that are written.
std::optional<Obstacle> obstacle_of(const std::string& text, KernelKind kind, const std::vector<int32_t>& nodes,
                                    const std::vector<bool>& stored, const Target& target, Dim rows = 1,
                                    Dim columns = 1) {
  const Graph graph = parse_graph(text);
  MaterializedValues materialized(graph);
  KernelRequest request;
  request.kind = kind;
  request.rows = std::move(rows);
  request.columns = std::move(columns);
  request.stored = stored;
  for (const int32_t node : nodes) {
    request.members.push_back({node, 0});
    materialized.insert({node, 0});
  }
  return find_obstacle(graph, materialized, request, target);
}

constexpr char kOwnTranspose[] = R"(%0 = input "x" : f32[64, 64]
%1 = neg(%0) : f32[64, 64]
%2 = permute(%1) {axes=[1, 0]} : f32[64, 64]
return %1, %2
)";

TEST(Obstacle, AValueThatIsNeededElsewhereBelongsInAnotherKernel) {
  for (const Target& target : {x86(), gpu_target("sm_90a")}) {
    const std::optional<Obstacle> obstacle =
        obstacle_of(kOwnTranspose, KernelKind::kLoop, {1, 2}, {true, true}, target, 1, 4096);
    ASSERT_TRUE(obstacle) << target.text();
    EXPECT_EQ(obstacle->kind, target.is_gpu() ? Obstacle::Kind::kNotInBothOrders : Obstacle::Kind::kOwnValueElsewhere);
    EXPECT_EQ(obstacle->value, (Value{1, 0}));
    EXPECT_EQ(obstacle->text(parse_graph(kOwnTranspose)),
              target.is_gpu() ? "neg f32[64, 64] is no matrix of 8-bit numbers that is stored in both orders by tiles"
                              : "it reads its own value neg f32[64, 64] at another position");
    EXPECT_FALSE(obstacle_of(kOwnTranspose, KernelKind::kLoop, {2}, {true}, target, 1, 4096)) << target.text();
  }
}

// What a later pass over a row reads is in memory, or in a register of a GPU's thread; a processor has none to keep it.
TEST(Obstacle, ALaterPassNeedsWhatAnEarlierOneStored) {
  constexpr char kSoftmax[] = R"(%0 = input "x" : f32[64, 256]
%1 = exp2(%0) : f32[64, 256]
%2 = reduce_sum(%1) {axes=[1]} : f32[64]
%3 = broadcast(%2) {axes=[0]} : f32[64, 256]
%4 = div(%1, %3) : f32[64, 256]
return %4
)";
  const auto obstacle = [&](bool stored, const Target& target) {
    return obstacle_of(kSoftmax, KernelKind::kLoop, {1, 2, 4}, {stored, false, true}, target, 64, 256);
  };
  EXPECT_FALSE(obstacle(true, x86()));
  EXPECT_TRUE(obstacle(false, x86()));
  EXPECT_FALSE(obstacle(false, gpu_target("sm_90a")));
}

TEST(Obstacle, FewLongRowsAreNotLeftToAFewBlocks) {
  constexpr char kFewRows[] = R"(%0 = input "x" : f32[2, 2097152]
%1 = reduce_sum(%0) {axes=[1]} : f32[2]
%2 = broadcast(%1) {axes=[0]} : f32[2, 2097152]
%3 = mul(%0, %2) : f32[2, 2097152]
return %3
)";
  const std::optional<Obstacle> obstacle =
      obstacle_of(kFewRows, KernelKind::kLoop, {1, 3}, {true, true}, gpu_target("gfx942"), 2, 2097152);
  ASSERT_TRUE(obstacle);
  EXPECT_EQ(obstacle->kind, Obstacle::Kind::kFewLongRows);
  EXPECT_FALSE(obstacle_of(kFewRows, KernelKind::kLoop, {1, 3}, {true, true}, x86(), 2, 2097152));
  // A weight of 896 x 896 with its own maximum: one block would take 97 us.
  constexpr char kOneRow[] = R"(%0 = input "x" : f32[1, 802816]
%1 = reduce_max(%0) {axes=[1]} : f32[1]
%2 = broadcast(%1) {axes=[0]} : f32[1, 802816]
%3 = mul(%0, %2) : f32[1, 802816]
return %3
)";
  EXPECT_TRUE(obstacle_of(kOneRow, KernelKind::kLoop, {1, 3}, {true, true}, gpu_target("sm_90a"), 1, 802816));
}

TEST(Obstacle, AGpuReadsOperandsAsTheyLie) {
  const auto product = [](const std::string& operand) {
    return "%0 = input \"a\" : f32[64, 64]\n%1 = input \"b\" : f32[64, 64]\n%2 = " + operand +
           " : f32[64, 64]\n%3 = dot(%2, %1) : f32[64, 64]\nreturn %3\n";
  };
  const auto obstacle = [&](const std::string& operand, const Target& target) {
    return obstacle_of(product(operand), KernelKind::kDot, {3}, {true}, target);
  };
  EXPECT_FALSE(obstacle("permute(%0) {axes=[1, 0]}", gpu_target("sm_90a")));
  EXPECT_FALSE(obstacle("neg(%0)", x86()));
  const std::optional<Obstacle> computed = obstacle("neg(%0)", gpu_target("sm_90a"));
  ASSERT_TRUE(computed);
  EXPECT_EQ(computed->kind, Obstacle::Kind::kComputedOperand);
}

}  // namespace
}  // namespace causeway::codegen
