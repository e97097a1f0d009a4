#include "causeway/codegen/expressions/attention_writer.h"

#include <algorithm>
#include <cmath>

#include "causeway/base/error.h"
#include "causeway/codegen/expressions/mask_ranges.h"
#include "causeway/graph/op.h"
#include "causeway/graph/rewrite.h"
#include "causeway/passes/joined_gradients.h"

namespace causeway::codegen {
namespace {

constexpr const char* kMask = "bool mask(int64_t b, int64_t h, int32_t t, int32_t s)";

// The places of a score function's inputs; a mask's captured tensors begin where the score would be.
enum ScoreInput : size_t { kBatch, kHead, kQuery, kKey, kScore };

// Key minus query as a float, which ALiBi multiplies.
bool is_distance(const Graph& score, Value value) {
  const Node& node = score.node(value);
  if (node.op != Op::kCast || score.dtype(value) != DType::kF32) return false;
  const Node& difference = score.node(node.inputs[0]);
  return difference.op == Op::kSub && difference.inputs[0] == score.inputs()[kKey] &&
         difference.inputs[1] == score.inputs()[kQuery];
}

bool depends_on(const Graph& function, Value value, Value input) {
  std::vector<bool> depends(function.nodes().size());
  for (size_t n = 0; n < depends.size(); ++n) {
    const std::vector<Value>& operands = function.nodes()[n].inputs;
    depends[n] = static_cast<size_t>(input.node) == n ||
                 std::any_of(operands.begin(), operands.end(),
                             [&](Value operand) { return depends[static_cast<size_t>(operand.node)]; });
  }
  return depends[static_cast<size_t>(value.node)];
}

// Whether a mask reads captured tensors.
bool reads_memory(const Graph& mask) {
  const auto uses = count_uses(mask);
  return std::any_of(mask.inputs().begin() + kScore, mask.inputs().end(),
                     [&](Value input) { return uses[static_cast<size_t>(input.node)][0] > 0; });
}

bool reads_memory_beside_score(const Graph& score) {
  const auto uses = count_uses(score);
  for (size_t i = kScore + 1; i < score.inputs().size(); ++i)
    if (uses[static_cast<size_t>(score.inputs()[i].node)][0] > 0) return true;
  return false;
}

// Of a score to which a multiple of the distance is added, as ALiBi does: what it is multiplied by, where that is the
// same for all pairs of a head.
std::optional<Value> find_distance_factor(const Graph& score) {
  const auto other_operand = [&](const Node& node, const auto& is_one) -> std::optional<Value> {
    for (size_t i = 0; i < 2; ++i)
      if (is_one(node.inputs[i])) return node.inputs[1 - i];
    return std::nullopt;
  };
  const Node& sum = score.node(score.outputs[0]);
  if (sum.op != Op::kAdd) return std::nullopt;
  const std::optional<Value> added = other_operand(sum, [&](Value value) { return value == score.inputs()[kScore]; });
  if (!added || score.node(*added).op != Op::kMul) return std::nullopt;
  const std::optional<Value> factor =
      other_operand(score.node(*added), [&](Value value) { return is_distance(score, value); });
  if (!factor) return std::nullopt;
  for (const ScoreInput input : {kQuery, kKey, kScore})
    if (depends_on(score, *factor, score.inputs()[input])) return std::nullopt;
  return factor;
}

// Whether the error of score_tanh(), which is no share of a small result, stays small in the score: nothing multiplies
// it by much. Of captured tensors that is not known.
bool takes_score_tanh(const Graph& score) {
  constexpr double kMostFactor = 1024;
  if (reads_memory_beside_score(score)) return false;
  return std::none_of(score.nodes().begin(), score.nodes().end(), [](const Node& node) {
    return node.op == Op::kConstant && std::isfinite(node.attributes.value) &&
           std::fabs(node.attributes.value) > kMostFactor;
  });
}

// Emits a score or mask function: its inputs are the kernel's positions, the score, and captured tensors.
class FunctionContext : public EmitterContext {
 public:
  FunctionContext(const Graph& function, KernelWriter& kernel, std::vector<Value> captured,
                  std::vector<int> position_variables, bool has_score, const char* tanh_function)
      : function_(function),
        kernel_(kernel),
        captured_(std::move(captured)),
        positions_(std::move(position_variables)),
        has_score_(has_score),
        tanh_function_(tanh_function) {}

  bool is_stored(Value value) override { return function_.node(value).op == Op::kInput; }

  std::optional<ElementValue> variable(Value value, const Index& linear) override {
    static constexpr const char* kNames[] = {"static_cast<int32_t>(b)", "static_cast<int32_t>(h)", "t", "s", "x"};
    const size_t input = input_number(value);
    if (input < 4 || (has_score_ && input == 4)) return ElementValue{kNames[input], 1};
    return std::nullopt;
  }

  std::string pointer(Value value) override {
    return kernel_.pointer(captured_[input_number(value) - (has_score_ ? 5 : 4)]);
  }

  const char* tanh_function() const override { return tanh_function_; }

  std::optional<Index> position_index(Value value) override {
    if (function_.node(value).op != Op::kInput) return std::nullopt;
    const size_t input = input_number(value);
    if (input >= 4) return std::nullopt;
    return Index::of(positions_[input]);
  }

 private:
  size_t input_number(Value value) const {
    for (size_t i = 0; i < function_.inputs().size(); ++i)
      if (function_.inputs()[i] == value) return i;
    CAUSEWAY_CHECK(false, "not an input of an attention function");
    return 0;
  }

  const Graph& function_;
  KernelWriter& kernel_;
  std::vector<Value> captured_;
  std::vector<int> positions_;
  bool has_score_;
  const char* tanh_function_;
};

bool is_one(const Graph& function) {
  const Node& node = function.node(function.outputs[0]);
  return node.op == Op::kConstant && node.attributes.value == 1;
}

}  // namespace

AttentionWriter::AttentionWriter(const KernelInputs& inputs)
    : ProblemWriter(inputs),
      node_(graph_.node(request_.members.front())),
      spec_(*node_.attributes.attention),
      backward_(node_.op == Op::kAttentionGradient) {}

void AttentionWriter::read_inputs() {
  const Shape& q = graph_.shape(node_.inputs[0]);
  const Shape& k = graph_.shape(node_.inputs[1]);
  batch_ = q[0], query_heads_ = q[2], kv_heads_ = k[2], query_length_ = q[1], key_length_ = k[1];
  captured_.assign(node_.inputs.begin() + static_cast<ptrdiff_t>(map_input() + (spec_.has_block_map ? 1 : 0)),
                   node_.inputs.end());
}

void AttentionWriter::read_map_inputs() {
  const Shape& sizes = node_.attributes.shape;
  batch_ = sizes[0], query_heads_ = sizes[1], query_length_ = sizes[2], key_length_ = sizes[3];
  captured_ = node_.inputs;
}

std::string AttentionWriter::constants(const std::string& operand) const {
  return fmt::format(
      "using Operand = {};\nstatic constexpr int kHeadDim = {};\nstatic constexpr int kValueDim = {};\n"
      "static constexpr int kBlockQ = {};\nstatic constexpr int kBlockK = {};\nstatic constexpr bool kHasScore = {};\n"
      "static constexpr bool kScoreIsShifted = {};\nstatic constexpr bool kScoreAddsDistance = {};\n"
      "static constexpr bool kHasMask = {};\nstatic constexpr bool kMaskReadsMemory = {};\n"
      "static constexpr bool kHasBlockMap = {};\nstatic constexpr float scale = {};\n",
      operand, graph_.shape(node_.inputs[0])[3].constant(), graph_.shape(node_.inputs[2])[3].constant(), spec_.block_q,
      spec_.block_k, spec_.score != nullptr, spec_.score_gradient != nullptr && is_one(*spec_.score_gradient),
      spec_.score != nullptr && find_distance_factor(*spec_.score), spec_.mask != nullptr,
      spec_.mask != nullptr && reads_memory(*spec_.mask), spec_.has_block_map, literal(DType::kF32, spec_.scale));
}

std::string AttentionWriter::functions() {
  std::string text = load4("load_q", "t", node_.inputs[0]) + load4("load_k", "s", node_.inputs[1]) +
                     load4("load_v", "s", node_.inputs[2]) + attention_functions();
  if (spec_.has_block_map) text += block_kind(node_.inputs[map_input()]);
  const Value first{request_.members.front().node, 0};
  if (!backward_) return text + store4("store_out", "t", first) + store_statistics("store_lse", {first.node, 1});
  text += load4("load_out_gradient", "t", node_.inputs[3]);
  text += load_statistics("load_lse", node_.inputs[4]) + load_statistics("load_delta", node_.inputs[5]);
  return text + store4("store_dq", "t", first) + store4("store_dk", "s", {first.node, 1}) +
         store4("store_dv", "s", {first.node, 2});
}

std::string AttentionWriter::map_functions() {
  const auto of_captured = [&](Value input) {
    const std::vector<Value>& inputs = spec_.mask->inputs();
    return pointer(
        captured_[static_cast<size_t>(std::find(inputs.begin(), inputs.end(), input) - inputs.begin()) - kScore]);
  };
  const auto size = [&](const Dim& dim) { return symbols_.text(dim); };
  const Value result = request_.members.front();
  const Shape& map = graph_.shape(result);
  return function(*spec_.mask, spec_.mask->outputs[0], kMask, false) +
         mask_range_function(*spec_.mask, of_captured, size) +
         fmt::format(
             "CAUSEWAY_INLINE void store_block_kind(int64_t b, int64_t h, int64_t q_block, int64_t k_block, uint8_t "
             "kind) "
             "const "
             "{{\n{}[((b * {} + h) * {} + q_block) * {} + k_block] = kind;\n}}\n",
             pointer(result), symbols_.text(map[1]), symbols_.text(map[2]), symbols_.text(map[3]));
}

void AttentionWriter::declare_sizes(std::string& members, std::string& initialisation) {
  declare_size("batch", batch_, members, initialisation);
  declare_size("query_heads", query_heads_, members, initialisation);
  declare_size("kv_heads", kv_heads_, members, initialisation);
  declare_size("query_length", query_length_, members, initialisation);
  declare_size("key_length", key_length_, members, initialisation);
}

std::string AttentionWriter::map_problem() {
  read_map_inputs();
  const std::string problem_functions = map_functions();
  const Shape& map = graph_.shape(request_.members.front());
  std::string members = fmt::format("static constexpr int kBlockQ = {};\nstatic constexpr int kBlockK = {};\n",
                                    spec_.block_q, spec_.block_k);
  std::string initialisation;
  declare_size("map_batch", map[0], members, initialisation);
  declare_size("map_heads", map[1], members, initialisation);
  declare_size("query_length", query_length_, members, initialisation);
  declare_size("key_length", key_length_, members, initialisation);
  return "namespace {\nstruct Problem {\n" + problem_members(members, initialisation) + problem_functions + "};\n}\n";
}

std::string AttentionWriter::load4(const std::string& name, const std::string& position, Value value) {
  const Shape& shape = graph_.shape(value);
  const std::vector<int> at = {parameter("b", shape[0]), parameter("h", shape[2]), parameter(position, shape[1]),
                               parameter("d", shape[3])};
  return load_function(
      fmt::format("CAUSEWAY_INLINE float {}(int64_t b, int64_t h, int64_t {}, int64_t d)", name, position), value,
      {{}, std::vector<Index>{Index::of(at[0]), Index::of(at[2]), Index::of(at[1]), Index::of(at[3])}});
}

std::string AttentionWriter::load_statistics(const std::string& name, Value value) {
  const Shape& shape = graph_.shape(value);
  const std::vector<Index> at = {Index::of(parameter("b", shape[0])), Index::of(parameter("h", shape[1])),
                                 Index::of(parameter("t", shape[2]))};
  return load_function(fmt::format("CAUSEWAY_INLINE float {}(int64_t b, int64_t h, int64_t t)", name), value, {{}, at});
}

std::string AttentionWriter::store4(const std::string& name, const std::string& position, Value value) {
  const Shape& shape = graph_.shape(value);
  const auto text = [&](const Dim& dim) { return symbols_.text(dim); };
  std::string statement;
  if (request_.computes(value))
    statement = store_statement(
        value,
        fmt::format("((b * {} + {}) * {} + h) * {} + d", text(shape[1]), position, text(shape[2]), text(shape[3])),
        "value");
  for (const Value member : request_.members) {
    if (member.node == value.node) continue;
    // Gradients side by side, of one projection.
    const std::optional<passes::JoinedGradients> joined = passes::find_joined_gradients(graph_, member);
    CAUSEWAY_CHECK(joined, "attention's gradient does not compute {}", op_name(graph_.node(member).op));
    for (const auto& [gradient, first_column] : joined->parts)
      if (gradient == value)
        statement += store_statement(member,
                                     fmt::format("(b * {} + {}) * {} + {} + h * {} + d", text(shape[1]), position,
                                                 text(graph_.shape(member)[2]), text(first_column), text(shape[3])),
                                     "value");
  }
  return fmt::format(
      "CAUSEWAY_INLINE void {}(int64_t b, int64_t h, int64_t {}, int64_t d, float value) const {{\n{}}}\n", name,
      position, statement);
}

std::string AttentionWriter::store_statistics(const std::string& name, Value value) {
  const Shape& shape = graph_.shape(value);
  std::string statement;
  if (request_.computes(value))
    statement = store_statement(
        value, fmt::format("(b * {} + h) * {} + t", symbols_.text(shape[1]), symbols_.text(shape[2])), "value");
  return fmt::format("CAUSEWAY_INLINE void {}(int64_t b, int64_t h, int64_t t, float value) const {{\n{}}}\n", name,
                     statement);
}

std::string AttentionWriter::block_kind(Value map) {
  const Shape& shape = graph_.shape(map);
  const auto at = [&](const char* name, size_t axis) {
    return shape[axis].is_constant(1) ? Index::constant(0) : Index::of(parameter(name, shape[axis]));
  };
  const std::vector<Index> position = {at("b", 0), at("h", 1), at("q_block", 2), at("k_block", 3)};
  // Of whole pieces of 16 bytes, where that is known.
  const std::optional<Dim> pieces = shape[3].divide_exactly(16);
  const auto text = [&](const char* name, size_t axis) {
    return shape[axis].is_constant(1) ? std::string("0") : std::string(name);
  };
  return load_function("CAUSEWAY_INLINE uint8_t block_kind(int64_t b, int64_t h, int64_t q_block, int64_t k_block)",
                       map, {{}, position}) +
         fmt::format(
             "CAUSEWAY_INLINE const uint8_t* block_row(int64_t b, int64_t h, int64_t q_block) const {{\n"
             "return {} + (({} * {} + {}) * {} + q_block) * {};\n}}\n"
             "static constexpr int kMapRowPieces = {};\nstatic constexpr bool kMapHasHeads = {};\n",
             pointer(map), text("b", 0), symbols_.text(shape[1]), text("h", 1), symbols_.text(shape[2]),
             symbols_.text(shape[3]), pieces && pieces->is_constant() ? pieces->constant() : 0,
             !shape[1].is_constant(1));
}

std::string AttentionWriter::attention_functions() {
  const std::string score_parameters = "(int64_t b, int64_t h, int32_t t, int32_t s, float x)";
  std::string text;
  if (spec_.score != nullptr) {
    text += function(*spec_.score, spec_.score->outputs[0], "float score" + score_parameters, true);
    if (const std::optional<Value> factor = find_distance_factor(*spec_.score))
      text += function(*spec_.score, *factor, "float distance_factor(int64_t b, int64_t h)", true);
  }
  if (spec_.score_gradient != nullptr)
    text += function(*spec_.score_gradient, spec_.score_gradient->outputs[0], "float score_gradient" + score_parameters,
                     true);
  if (spec_.mask != nullptr) text += function(*spec_.mask, spec_.mask->outputs[0], kMask, false);
  return text;
}

// A value of a score's or mask's graph.
std::string AttentionWriter::function(const Graph& graph, Value value, const std::string& declaration, bool has_score) {
  const std::vector<int> positions = {parameter("b", batch_), parameter("h", query_heads_),
                                      parameter("t_index", query_length_), parameter("s_index", key_length_)};
  // Of operands of 16 bits scores are not known as well as tanh_f32() computes. A block map has no operands.
  const bool by_score_tanh =
      target_.is_gpu() && has_score && size_bytes(graph_.dtype(node_.inputs[0])) == 2 && takes_score_tanh(graph);
  FunctionContext context(graph, *this, captured_, positions, has_score, by_score_tanh ? "score_tanh" : "tanh_f32");
  ExpressionEmitter emitter(graph, context, variables_, symbols_);
  const ElementValue result = emitter.compute(value, {Index::constant(0), {}});
  const bool has_positions = declaration.find("int32_t t, int32_t s") != std::string::npos;
  return fmt::format("CAUSEWAY_INLINE {} const {{\n{}{}return {};\n}}\n", declaration,
                     has_positions ? "const int64_t t_index = t;\nconst int64_t s_index = s;\n" : "", body(emitter),
                     result.name);
}

}  // namespace causeway::codegen
