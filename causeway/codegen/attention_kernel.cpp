// Attention through kernels/x86/attention.h and attention_gradient.h: operands are computed while they are packed,
// score and mask functions are expanded into the kernel.
#include "causeway/codegen/attention_geometry.h"
#include "causeway/codegen/problem_writer.h"

namespace causeway {
namespace {

// Emits a score or mask function: its inputs are the kernel's positions, the score, and captured tensors.
class FunctionContext : public EmitterContext {
 public:
  FunctionContext(const Graph& function, KernelWriter& kernel, std::vector<Value> captured,
                  std::vector<int> position_variables, bool has_score)
      : function_(function),
        kernel_(kernel),
        captured_(std::move(captured)),
        positions_(std::move(position_variables)),
        has_score_(has_score) {}

  bool is_stored(Value value) override { return function_.node(value).op == Op::kInput; }

  std::optional<EmittedValue> variable(Value value, const Index& linear) override {
    static constexpr const char* kNames[] = {"static_cast<int32_t>(b)", "static_cast<int32_t>(h)", "t", "s", "x"};
    const size_t input = input_number(value);
    if (input < 4 || (has_score_ && input == 4)) return EmittedValue{kNames[input], 1};
    return std::nullopt;
  }

  std::string pointer(Value value) override {
    return kernel_.pointer(captured_[input_number(value) - (has_score_ ? 5 : 4)]);
  }

  std::optional<Index> position_index(Value value) override {
    if (!is_stored(value)) return std::nullopt;
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
};

class AttentionWriter : public ProblemWriter {
 public:
  AttentionWriter(const Graph& graph, const MaterializedValues& materialized, const KernelRequest& request,
                  const Target& target)
      : ProblemWriter(graph, materialized, request, target),
        node_(graph.node(request.members.front())),
        spec_(*node_.attributes.attention) {}

  GeneratedKernel write() { return node_.op == Op::kAttentionBlockMap ? write_block_map() : write_attention(); }

 private:
  GeneratedKernel write_attention() {
    const bool backward = node_.op == Op::kAttentionGradient;
    const Shape& q = graph_.shape(node_.inputs[0]);
    const Shape& k = graph_.shape(node_.inputs[1]);
    batch_ = q[0], query_heads_ = q[2], query_length_ = q[1], key_length_ = k[1];
    const size_t map_input = backward ? 6 : 3;
    captured_.assign(node_.inputs.begin() + static_cast<ptrdiff_t>(map_input + (spec_.has_block_map ? 1 : 0)),
                     node_.inputs.end());
    const bool bf16_operands = graph_.dtype(node_.inputs[0]) == DType::kBF16;

    std::string text = fmt::format(
        "using Operand = {};\nstatic constexpr int kHeadDim = {};\nstatic constexpr int kBlockQ = {};\n"
        "static constexpr int kBlockK = {};\nstatic constexpr bool kHasScore = {};\nstatic constexpr bool kHasMask = "
        "{};\n"
        "static constexpr bool kHasBlockMap = {};\nstatic constexpr float scale = {};\n",
        bf16_operands ? "bf16" : "float", q[3].constant(), spec_.block_q, spec_.block_k, spec_.score != nullptr,
        spec_.mask != nullptr, spec_.has_block_map, literal(DType::kF32, spec_.scale));
    std::string functions = load4("load_q", "t", node_.inputs[0]) + load4("load_k", "s", node_.inputs[1]) +
                            load4("load_v", "s", node_.inputs[2]) + attention_functions();
    if (spec_.has_block_map) functions += block_kind(node_.inputs[map_input]);
    const Value first{request_.members.front().node, 0};
    if (!backward) {
      functions += store4("store_out", "t", first) + store_statistics("store_lse", {first.node, 1});
    } else {
      functions += load4("load_out_gradient", "t", node_.inputs[3]);
      functions += load_statistics("load_lse", node_.inputs[4]) + load_statistics("load_delta", node_.inputs[5]);
      functions += store4("store_dq", "t", first) + store4("store_dk", "s", {first.node, 1}) +
                   store4("store_dv", "s", {first.node, 2});
    }
    std::string members, initialisation;
    declare_size("batch", batch_, members, initialisation);
    declare_size("query_heads", query_heads_, members, initialisation);
    declare_size("kv_heads", k[2], members, initialisation);
    declare_size("query_length", query_length_, members, initialisation);
    declare_size("key_length", key_length_, members, initialisation);

    const auto shape = [=, block_q = spec_.block_q, block_k = spec_.block_k](const SymbolBindings& bindings) {
      return AttentionShape{q[0].evaluate(bindings), q[2].constant(), k[2].constant(), q[1].evaluate(bindings),
                            k[1].evaluate(bindings), q[3].constant(), block_q,         block_k};
    };
    // Splitting by queries is decided when the kernel is compiled, where the sizes are known by then.
    const bool sizes_known = batch_.is_constant() && query_length_.is_constant() && key_length_.is_constant();
    const int64_t workers = sizes_known ? target_.parallel_units : 1;
    if (!backward) {
      const int64_t splits = sizes_known ? attention_forward_launch(shape({}), workers).query_splits : 1;
      members += fmt::format("static constexpr int64_t query_splits = {};\n", splits);
    }
    const auto launch = [=](const SymbolBindings& bindings) {
      return backward ? attention_backward_launch(shape(bindings)) : attention_forward_launch(shape(bindings), workers);
    };
    const std::string source =
        std::string("#include \"causeway/kernels/elementwise.h\"\n#include \"causeway/kernels/x86/attention") +
        (backward ? "_gradient" : "") + ".h\"\nnamespace {\nstruct Problem {\n" + text +
        problem_members(members, initialisation) + functions + "};\n}\n" +
        entry_point("kernel", backward ? "attention_backward(problem, task, scratch);"
                                       : "attention_forward(problem, task, scratch);");
    GeneratedKernel kernel = finish(source);
    kernel.phases = {{"kernel", [launch](const SymbolBindings& b) { return launch(b).task_count; },
                      [launch](const SymbolBindings& b) { return launch(b).scratch_bytes; }}};
    return kernel;
  }

  GeneratedKernel write_block_map() {
    const Value result = request_.members.front();
    const Shape& map = graph_.shape(result);
    const Shape& sizes = node_.attributes.shape;
    batch_ = sizes[0], query_heads_ = sizes[1], query_length_ = sizes[2], key_length_ = sizes[3];
    captured_ = node_.inputs;
    std::string functions = function(*spec_.mask, "bool mask", false);
    functions += fmt::format(
        "CAUSEWAY_INLINE void store_block_kind(int64_t b, int64_t h, int64_t q_block, int64_t k_block, uint8_t kind) "
        "const "
        "{{\n{}[((b * {} + h) * {} + q_block) * {} + k_block] = kind;\n}}\n",
        pointer(result), symbols_.text(map[1]), symbols_.text(map[2]), symbols_.text(map[3]));
    std::string members = fmt::format("static constexpr int kBlockQ = {};\nstatic constexpr int kBlockK = {};\n",
                                      spec_.block_q, spec_.block_k);
    std::string initialisation;
    declare_size("map_batch", map[0], members, initialisation);
    declare_size("map_heads", map[1], members, initialisation);
    declare_size("query_length", query_length_, members, initialisation);
    declare_size("key_length", key_length_, members, initialisation);
    const std::string source =
        "#include \"causeway/kernels/elementwise.h\"\n#include \"causeway/kernels/attention_block_map.h\"\n"
        "namespace {\nstruct Problem {\n" +
        problem_members(members, initialisation) + functions + "};\n}\n" +
        entry_point("kernel", "attention_block_map(problem, task);");
    GeneratedKernel kernel = finish(source);
    kernel.phases = {{"kernel",
                      [map](const SymbolBindings& bindings) {
                        return map[0].evaluate(bindings) * map[1].evaluate(bindings) * map[2].evaluate(bindings);
                      },
                      [](const SymbolBindings&) { return int64_t{0}; }}};
    return kernel;
  }

  std::string load4(const std::string& name, const std::string& position, Value value) {
    const Shape& shape = graph_.shape(value);
    const std::vector<int> at = {parameter("b", shape[0]), parameter("h", shape[2]), parameter(position, shape[1]),
                                 parameter("d", shape[3])};
    return load_function(
        fmt::format("CAUSEWAY_INLINE float {}(int64_t b, int64_t h, int64_t {}, int64_t d)", name, position), value,
        {{}, std::vector<Index>{Index::of(at[0]), Index::of(at[2]), Index::of(at[1]), Index::of(at[3])}});
  }

  std::string load_statistics(const std::string& name, Value value) {
    const Shape& shape = graph_.shape(value);
    const std::vector<Index> at = {Index::of(parameter("b", shape[0])), Index::of(parameter("h", shape[1])),
                                   Index::of(parameter("t", shape[2]))};
    return load_function(fmt::format("CAUSEWAY_INLINE float {}(int64_t b, int64_t h, int64_t t)", name), value,
                         {{}, at});
  }

  std::string store4(const std::string& name, const std::string& position, Value value) {
    const Shape& shape = graph_.shape(value);
    std::string statement;
    if (is_member(value))
      statement = store_statement(value,
                                  fmt::format("((b * {} + {}) * {} + h) * {} + d", symbols_.text(shape[1]), position,
                                              symbols_.text(shape[2]), symbols_.text(shape[3])),
                                  "value");
    return fmt::format(
        "CAUSEWAY_INLINE void {}(int64_t b, int64_t h, int64_t {}, int64_t d, float value) const {{\n{}}}\n", name,
        position, statement);
  }

  std::string store_statistics(const std::string& name, Value value) {
    const Shape& shape = graph_.shape(value);
    std::string statement;
    if (is_member(value))
      statement = store_statement(
          value, fmt::format("(b * {} + h) * {} + t", symbols_.text(shape[1]), symbols_.text(shape[2])), "value");
    return fmt::format("CAUSEWAY_INLINE void {}(int64_t b, int64_t h, int64_t t, float value) const {{\n{}}}\n", name,
                       statement);
  }

  std::string block_kind(Value map) {
    const Shape& shape = graph_.shape(map);
    const auto at = [&](const char* name, size_t axis) {
      return shape[axis].is_constant(1) ? Index::constant(0) : Index::of(parameter(name, shape[axis]));
    };
    const std::vector<Index> position = {at("b", 0), at("h", 1), at("q_block", 2), at("k_block", 3)};
    return load_function("CAUSEWAY_INLINE uint8_t block_kind(int64_t b, int64_t h, int64_t q_block, int64_t k_block)",
                         map, {{}, position});
  }

  std::string attention_functions() {
    std::string text;
    if (spec_.score != nullptr) text += function(*spec_.score, "float score", true);
    if (spec_.score_gradient != nullptr) text += function(*spec_.score_gradient, "float score_gradient", true);
    if (spec_.mask != nullptr) text += function(*spec_.mask, "bool mask", false);
    return text;
  }

  std::string function(const Graph& graph, const std::string& declaration, bool has_score) {
    const std::vector<int> positions = {parameter("b", batch_), parameter("h", query_heads_),
                                        parameter("t_index", query_length_), parameter("s_index", key_length_)};
    FunctionContext context(graph, *this, captured_, positions, has_score);
    ExpressionEmitter emitter(graph, context, variables_, symbols_);
    const EmittedValue result = emitter.emit(graph.outputs[0], {Index::constant(0), {}});
    return fmt::format(
        "CAUSEWAY_INLINE {}(int64_t b, int64_t h, int32_t t, int32_t s{}) const {{\n"
        "const int64_t t_index = t;\nconst int64_t s_index = s;\n{}return {};\n}}\n",
        declaration, has_score ? ", float x" : "", body(emitter), result.name);
  }

  const Node& node_;
  const AttentionSpec& spec_;
  Dim batch_, query_heads_, query_length_, key_length_;
  std::vector<Value> captured_;
};

}  // namespace

GeneratedKernel generate_attention_kernel(const Graph& graph, const MaterializedValues& materialized,
                                          const KernelRequest& request, const Target& target) {
  return AttentionWriter(graph, materialized, request, target).write();
}

}  // namespace causeway
