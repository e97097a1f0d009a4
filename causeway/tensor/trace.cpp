#include "causeway/tensor/trace.h"

#include <algorithm>

#include "causeway/base/error.h"
#include "causeway/passes/split_weights.h"
#include "causeway/program/program.h"

namespace causeway::tensor {
namespace {

thread_local Trace* current_trace = nullptr;

// Nodes that an eager trace holds before flush_when_long() computes them.
constexpr size_t kLongestEagerTrace = 20000;

}  // namespace

TensorState::~TensorState() {
  if (trace != nullptr) trace->forget_state(this);
}

Trace::~Trace() {
  // Tensors that outlive the trace no longer stand for anything.
  for (TensorState* state : live_) state->trace = nullptr;
}

Trace::Trace(Captures captures) : context_(Context::current()), captures_(captures) { add_mesh_coordinates(); }

void Trace::add_mesh_coordinates() {
  // A function within another trace computes elements, which lie nowhere.
  if (captures_ == Captures::kAnything || context()->mesh().empty()) return;
  const auto axes = static_cast<int64_t>(context()->mesh().axes.size());
  graph.add_input(kMeshCoordinates, {DType::kI32, {Dim(axes)}});
}

std::shared_ptr<Context> Trace::context() const {
  std::shared_ptr<Context> context = context_.lock();
  CAUSEWAY_CHECK(context != nullptr, "a trace was used after its context");
  return context;
}

Trace& Trace::current() { return of(Context::current()); }

Trace& Trace::of(const std::shared_ptr<Context>& context) {
  if (current_trace != nullptr && current_trace->context_.lock() == context) return *current_trace;
  thread_local std::vector<std::unique_ptr<Trace>> eager;  // one for each context that the thread has used
  std::erase_if(eager, [](const std::unique_ptr<Trace>& trace) { return trace->context_.expired(); });
  for (const std::unique_ptr<Trace>& trace : eager)
    if (trace->context_.lock() == context) return *trace;
  const ContextScope scope(context);
  return *eager.emplace_back(std::make_unique<Trace>());
}

TraceScope::TraceScope(Trace& trace) : context_(trace.context()), previous_(current_trace) {
  trace.eager_ = false;
  current_trace = &trace;
}

TraceScope::~TraceScope() { current_trace = previous_; }

size_t constant_bytes(const TensorType& type) {
  return static_cast<size_t>(element_count(type.shape).constant()) * size_bytes(type.dtype);
}

void require_context(const TensorState& state, const Context& context) {
  if (state.context.get() == &context) return;
  throw Error(ErrorKind::kInvalidArgument,
              fmt::format("a tensor on {} was used in another context, on {}", state.context->device().name(),
                          context.device().name()),
              {},
              "Enter the tensor's own context with a ContextScope, or make a tensor here from its bytes: "
              "read_bytes(), Tensor::from_bytes().");
}

void require_values(const TensorState& state) {
  const auto is_zero = [](const Dim& dim) { return dim.is_constant(0); };
  if (state.buffer.memory != nullptr || std::any_of(state.type.shape.begin(), state.type.shape.end(), is_zero)) return;
  throw Error(ErrorKind::kInvalidArgument, "a tensor was used after the step that it belonged to", {},
              "Return from a step's function what is to be used outside it.");
}

void require_whole(const TensorState& state, const std::string& action) {
  if (state.sharding.replicated()) return;
  throw Error(ErrorKind::kInvalidArgument,
              fmt::format("{} a tensor of type {} that is cut over the mesh as '{}'", action, state.type.text(),
                          state.sharding.text()),
              {}, "Each rank holds a part of it. Compute with it in a Step; read_bytes() gives this rank's part.");
}

bool Trace::has_assigned(TensorState* state) const {
  const auto value = value_of_.find(state);
  if (value == value_of_.end()) return false;
  return std::none_of(captured_.begin(), captured_.end(), [&](const Captured& captured) {
    return captured.tensor.state().get() == state && captured.input == value->second;
  });
}

void Trace::flush_when_long() {
  if (eager_ && graph.nodes().size() > kLongestEagerTrace) flush();
}

Value Trace::use(const Tensor& tensor) {
  const std::shared_ptr<TensorState>& state = tensor.state();
  if (state == nullptr) throw Error(ErrorKind::kInvalidArgument, "an undefined tensor was used");
  require_context(*state, *context());
  if (state->trace == this) {
    const auto assigned = value_of_.find(state.get());
    return assigned == value_of_.end() ? state->value : assigned->second;
  }
  if (state->trace != nullptr && captures_ == Captures::kValues) tensor.evaluate();
  const auto known = value_of_.find(state.get());
  if (known != value_of_.end()) return known->second;
  if (state->trace == nullptr) require_values(*state);
  if (eager_) require_whole(*state, "an eager operation on");
  Sharding sharding = captures_ == Captures::kAnything ? Sharding() : state->sharding;
  const Value input =
      graph.add_input(fmt::format("captured{}", captured_.size()), state->type, std::move(sharding), state->on_host);
  captured_.push_back({tensor, input});
  value_of_[state.get()] = input;
  return input;
}

Tensor Trace::add_argument(const std::string& name, TensorType type, Sharding sharding) {
  return Tensor(*this, graph.add_input(name, std::move(type), std::move(sharding)));
}

void Trace::assign(const Tensor& target, Value value) {
  const std::shared_ptr<TensorState>& state = target.state();
  if (state->trace == this) {
    // An argument or a value of this trace: from now on the handle means the new value.
    value_of_[state.get()] = value;
    return;
  }
  use(target);
  value_of_[state.get()] = value;
  for (Captured& captured : captured_) {
    if (captured.tensor.state() != state) continue;
    std::erase_if(graph.assignments, [&](const Assignment& old) { return old.target == captured.input; });
    if (value != captured.input) graph.assignments.push_back({captured.input, value});
  }
}

void Trace::flush() {
  CAUSEWAY_CHECK(eager_);
  std::vector<TensorState*> pending(live_.begin(), live_.end());
  std::sort(pending.begin(), pending.end(),
            [](const TensorState* a, const TensorState* b) { return a->value < b->value; });
  graph.outputs.clear();
  for (const TensorState* state : pending) graph.outputs.push_back(state->value);
  const std::shared_ptr<Context> context = this->context();
  if (!graph.outputs.empty() || !graph.assignments.empty()) {
    std::vector<bool> split(graph.inputs().size());
    const size_t first = split.size() - captured_.size();
    for (size_t i = 0; i < captured_.size(); ++i) split[first + i] = captured_[i].tensor.lies_in_halves();
    const SplitWeights in_halves = split_weights(graph, split, false);
    const std::shared_ptr<Program> program = context->compile(in_halves.graph, {});
    std::vector<void*> inputs, outputs;
    if (!context->mesh().empty()) inputs.push_back(context->mesh_coordinates().data());
    for (const Captured& captured : captured_) inputs.push_back(captured.tensor.state()->buffer.data());
    for (const size_t input : in_halves.lower) {
      const Tensor& tensor = captured_[input - first].tensor;
      inputs.push_back(tensor.state()->buffer.data() + tensor.local_bytes() / 2);
    }
    for (TensorState* state : pending) {
      state->buffer = context->device().allocate(constant_bytes(state->type));
      outputs.push_back(state->buffer.data());
    }
    program->run(inputs, outputs);
  }
  for (TensorState* state : pending) state->trace = nullptr;
  live_.clear();
  const std::string scope = graph.scope();
  graph = Graph();
  add_mesh_coordinates();
  graph.set_scope(scope);
  captured_.clear();
  value_of_.clear();
  stopped_.clear();
}

}  // namespace causeway::tensor
