#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "causeway/base/error.h"
#include "causeway/graph/parser.h"
#include "causeway/graph/printer.h"
#include "tests/fixtures/op_literal.h"
#include "tests/random_graph/random_graph.h"

namespace causeway::graph {
namespace {

bool same_marks(const Graph& a, const Graph& b) {
  for (size_t i = 0; i < a.nodes().size(); ++i)
    if (a.nodes()[i].scope != b.nodes()[i].scope || a.nodes()[i].backward != b.nodes()[i].backward) return false;
  return true;
}

void expect_round_trip(const Graph& graph) {
  const std::string text = print_graph(graph);
  const Graph back = parse_graph(text);
  EXPECT_TRUE(structurally_equal(graph, back)) << text;
  EXPECT_TRUE(same_marks(graph, back)) << text;
  EXPECT_EQ(print_graph(back), text);
}

const char* const kExample = R"(%0 = input "x" : f32[B, 64]
%1 = constant 0.5 : f32[B, 64]
%2 = mul(%0, %1) : f32[B, 64]  # layers.0.mlp
%3:2 = topk(%2) {count=4} : f32[B, 4], i32[B, 4]
%4 = reduce_sum(%3) {axes=[1], backward} : f32[B]
%5 = pad(%4) {start=[1], limit=[0], value=-inf} : f32[B + 1]
%6 = dot(%2, %0) {transpose_b} : bf16[B, B]
%7 = attention_block_map {
  shape=[B, 8, 64*T/64, 64*T/64], scale=1, block_q=64, block_k=64,
  mask={
    %0 = input "b" : i32[]
    %1 = input "h" : i32[]
    %2 = input "i" : i32[]
    %3 = input "j" : i32[]
    %4 = le(%3, %2) : bool[]  # mask
    return %4
  }
} : u8[1, 1, T/64, T/64]  # layers.1
assign %0 = %2
return %4, %3.1, %7
)";

TEST(Printer, PrintsTheExampleAsItStands) {
  const Graph graph = parse_graph(kExample);
  EXPECT_EQ(print_graph(graph), kExample);
  EXPECT_EQ(print_node(graph, 7),
            "%7 = attention_block_map {shape=[B, 8, 64*T/64, 64*T/64], scale=1, block_q=64, block_k=64, mask} "
            ": u8[1, 1, T/64, T/64]  # layers.1");
  EXPECT_EQ(graph.nodes()[6].attributes.dtype, DType::kBF16);
  EXPECT_TRUE(graph.nodes()[6].attributes.transpose_b);
  EXPECT_TRUE(graph.nodes()[4].backward);
  EXPECT_EQ(graph.nodes()[2].scope, "layers.0.mlp");
  expect_round_trip(graph);
}

TEST(Printer, EmptyGraph) {
  EXPECT_EQ(print_graph(Graph()), "return\n");
  expect_round_trip(Graph());
}

TEST(Printer, AwkwardNamesAndNumbers) {
  Graph graph;
  graph.set_scope(" a \"b\" \\ # c\nnew line\r\t");
  graph.add_input("quote \" slash \\ line \n bell \x07 \xc3\xa9", {DType::kF32, {}});
  graph.add_input("", {DType::kBool, {0, Dim::symbol("seq_len") * 3 - 1}});
  for (const double value : {0.1, 1e300, -5e-324, 1.0 / 3, -0.0, std::numeric_limits<double>::infinity(),
                             -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    Attributes attributes;
    attributes.value = value;
    graph.add("constant"_op, {}, attributes);
  }
  // Attributes that an op does not read are kept as well.
  Attributes odd;
  odd.name = "unused \"name\"";
  odd.stream = -3;
  odd.strides = {1, -2};
  odd.dtype = DType::kU8;
  odd.shape = {Dim::symbol("B"), 2};
  AttentionSpec spec;
  spec.scale = 0.1;
  spec.has_block_map = true;
  odd.attention = std::make_shared<AttentionSpec>(spec);
  graph.set_backward(true);
  graph.outputs = {graph.add("neg"_op, {graph.inputs()[0]}, odd)};
  expect_round_trip(graph);
}

TEST(Printer, RandomGraphsRoundTrip) {
  for (uint64_t seed = 0; seed < 300; ++seed)
    expect_round_trip(make_random_graph(seed, {.symbolic = seed % 2 == 0, .attention = true}).graph);
}

TEST(Parser, AcceptsHandWrittenText) {
  const Graph graph = parse_graph(
      "# a comment\n\n  %10 = input \"x\" : f32[2,3]\r\n%7=constant 1:f32[ 2 , 3 ]\n"
      "%8 = add( %10 ,%7 ){ } : f32[2, 3]   #s\n\n# another\n%9 = cast(%8) {dtype=bf16} : bf16[2, 3]\nreturn "
      "%9\n\n#end");
  EXPECT_EQ(print_graph(graph),
            "%0 = input \"x\" : f32[2, 3]\n%1 = constant 1 : f32[2, 3]\n%2 = add(%0, %1) : f32[2, 3]  # s\n"
            "%3 = cast(%2) : bf16[2, 3]\nreturn %3\n");
}

struct Bad {
  std::string text;
  std::string message;  // with place and hint
};

class ParserError : public testing::TestWithParam<Bad> {};

TEST_P(ParserError, SaysWhereAndWhat) {
  try {
    parse_graph("%0 = input \"x\" : f32[2]\n" + GetParam().text);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_EQ(std::string(error.what()), "graph text, line " + GetParam().message);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ParserError,
    testing::Values(
        Bad{"%1 = tahn(%0) : f32[2]\nreturn", "2, column 6: there is no op 'tahn'\n  did you mean 'tanh'?"},
        Bad{"%1 = neg(%2) : f32[2]\nreturn", "2, column 10: %2 is not defined above"},
        Bad{"%0 = neg(%0) : f32[2]\nreturn", "2, column 1: %0 is defined already"},
        Bad{"%1 = neg(%0.1) : f32[2]\nreturn", "2, column 10: %0 has 1 outputs, there is no output 1"},
        Bad{"%1 = neg(%0) : f32[3]\nreturn", "2, column 16: the type here is f32[2], not f32[3]"},
        Bad{"%1 = neg(%0) : ff32[2]\nreturn", "2, column 16: there is no element type 'ff32'\n  did you mean 'f32'?"},
        Bad{"%1 = neg(%0, %0) : f32[2]\nreturn", "2, column 6: neg takes 1 inputs; it was given (f32[2], f32[2])"},
        Bad{"%1 = neg(%0 : f32[2]\nreturn", "2, column 13: expected ')' after the inputs"},
        Bad{"%1 = neg(%0)\nreturn", "2, column 13: expected ':' before the types"},
        Bad{"%1 = neg(%0) : f32[2\nreturn", "2, column 21: expected ']' after a list of sizes"},
        Bad{"%1 = neg(%0) : f32[2 2]\nreturn", "2, column 20: cannot read the dimension '2 2': expected + or -"},
        Bad{"%1 = neg(%0) : f32[2] junk\nreturn", "2, column 23: expected the end of the line after a node"},
        Bad{"%1 = reduce_sum(%0) {axis=[0]} : f32[]\nreturn",
            "2, column 22: there is no attribute 'axis'\n  did you mean 'axes'?"},
        Bad{"%1 = reduce_sum(%0) {axes=[0} : f32[]\nreturn", "2, column 29: expected ']' after a list of integers"},
        Bad{"%1 = reduce_sum(%0) {axes=0} : f32[]\nreturn", "2, column 27: expected '[' before a list of integers"},
        Bad{"%1 = reduce_sum(%0) {axes [0]} : f32[]\nreturn", "2, column 27: expected '=' after axes"},
        Bad{"%1 = topk(%0) {count=99999999999999999999} : f32[2]\nreturn", "2, column 22: an integer is too large"},
        Bad{"%1 = constant x : f32[2]\nreturn", "2, column 15: expected the value of the constant"},
        Bad{"%1 = constant 1e999 : f32[2]\nreturn", "2, column 15: the value of the constant is out of range"},
        Bad{"%1 = input x : f32[2]\nreturn", "2, column 12: expected the name of the input in double quotes"},
        Bad{"%1 = input \"x : f32[2]\nreturn", "2, column 12: the name of the input has no closing quote"},
        Bad{"%1 = input \"\\q\" : f32[2]\nreturn", "2, column 14: expected n, x, \\ or \" after a backslash"},
        Bad{"%1 = input \"\\xG0\" : f32[2]\nreturn", "2, column 15: expected a lower-case hexadecimal digit"},
        Bad{"%1 = input \"y\"(%0) : f32[2]\nreturn", "2, column 6: an input of the graph takes no inputs"},
        Bad{"%1:2 = neg(%0) : f32[2]\nreturn", "2, column 18: expected 2 types, one for each output"},
        Bad{"assign %0 = %1\nreturn", "2, column 13: %1 is not defined above"},
        Bad{"%1 = neg(%0) : f32[2]\nassign %1 = %0\nreturn", "3, column 8: only an input can be assigned"},
        Bad{"%1 = constant 1 : f32[3]\nassign %0 = %1\nreturn",
            "3, column 13: a value of type f32[3] is assigned to an input of type f32[2]"},
        Bad{"", "2, column 1: expected a node (%0 = ...), assign or return"},
        Bad{"retrun %0", "2, column 1: expected a node (%0 = ...), assign or return"},
        Bad{"return %0 %0", "2, column 11: expected the end of the line after return"},
        Bad{"return %0\n%1 = neg(%0) : f32[2]", "3, column 1: expected the end of the text after return"},
        Bad{"%1 = attention_block_map {mask={return},\n shape=[1]} : u8[1]\nreturn",
            "2, column 39: expected the end of the line after return"},
        Bad{"%1 = attention_block_map {mask=return} : u8[1]\nreturn", "2, column 32: expected '{' before a function"},
        Bad{"%1 = constant 1 : f32[4611686018427387904, 4611686018427387904]\n%2 = reshape(%1) : f32[2]\nreturn",
            "3, column 6: a size does not fit in 64 bits"}));

TEST(Parser, NestingIsBounded) {
  std::string text;
  for (int i = 0; i < 10000; ++i) text += "%0 = attention_block_map {mask={\n";
  EXPECT_THROW(parse_graph(text), Error);
}

// Bytes changed, removed, repeated and moved: a graph or an Error, never anything else.
TEST(Parser, MutatedTextNeverCrashes) {
  std::vector<std::string> seeds = {kExample};
  for (uint64_t seed = 0; seed < 12; ++seed)
    seeds.push_back(print_graph(make_random_graph(seed * 3 + 1, {.symbolic = true, .attention = true}).graph));
  uint64_t state = 1;
  const auto random = [&](size_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>(state >> 33) % below;
  };
  const std::string alphabet = "%=(){}[],:.#\"\\*+-/ \n019BTfix_";
  int accepted = 0, refused = 0;
  for (int round = 0; round < 6000; ++round) {
    std::string text = seeds[random(seeds.size())];
    for (size_t edits = 1 + random(3); edits > 0 && !text.empty(); --edits) {
      const size_t at = random(text.size());
      const size_t length = std::min(text.size() - at, 1 + random(12));
      switch (random(5)) {
        case 0:
          text[at] = alphabet[random(alphabet.size())];
          break;
        case 1:
          text.erase(at, length);
          break;
        case 2:
          text.insert(random(text.size()), text.substr(at, length));
          break;
        case 3:
          text.insert(at, 1, alphabet[random(alphabet.size())]);
          break;
        default:
          text.resize(at);
          break;
      }
    }
    try {
      const Graph graph = parse_graph(text);
      graph.verify("mutated text");
      EXPECT_TRUE(structurally_equal(graph, parse_graph(print_graph(graph)))) << text;
      ++accepted;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
      ++refused;
    }
  }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace causeway::graph
