#include "causeway/tensor/step.h"

#include <algorithm>
#include <map>

#include "causeway/base/error.h"
#include "causeway/passes/narrow_weights.h"
#include "causeway/passes/pipeline.h"
#include "causeway/passes/split_weights.h"
#include "causeway/program/context.h"
#include "causeway/program/non_finite_value.h"
#include "causeway/program/program.h"
#include "causeway/tensor/cast_tensors.h"
#include "causeway/tensor/operand.h"
#include "causeway/tensor/shape_ops.h"
#include "causeway/tensor/trace.h"

namespace causeway::tensor {

class Step::Implementation {
 public:
  Implementation(Function function, StepOptions options)
      : context_(Context::current()), function_(std::move(function)), options_(std::move(options)) {}

  std::vector<Tensor> operator()(const std::vector<Tensor>& arguments);
  const std::vector<Tensor>& run(const std::vector<Tensor>& arguments);
  const std::vector<Tensor>& run_traced(const std::vector<Tensor>& arguments, std::vector<InstructionTime>& times);
  Program& prepare(const std::vector<StepArgument>& arguments);
  SymbolBindings sizes(const std::vector<StepArgument>& arguments) const;
  Graph trace(const std::vector<StepArgument>& arguments) const;
  const Graph& traced_graph(const std::vector<StepArgument>& arguments);
  std::optional<NonFiniteValue> find_non_finite(const std::vector<Tensor>& arguments);
  std::vector<double> run_timed(const std::vector<Tensor>& arguments);
  const std::shared_ptr<Context>& context() const { return context_; }
  void record_passes(PipelineTrace* trace) { pipeline_trace_ = trace; }

 private:
  struct Compiled {
    Graph traced;
    std::shared_ptr<Program> program;
    std::vector<Tensor> captured;
    std::vector<size_t> lower_halves;  // of which of them further inputs are
    std::vector<TensorType> results;
    size_t argument_count = 0;
    std::map<SymbolBindings, std::vector<Tensor>> kept;  // run()'s results, by sizes
  };
  struct Call {
    std::vector<void*> inputs;
    std::vector<Tensor> results;
    std::vector<void*> outputs;
    SymbolBindings bindings;
  };

  // What tracing gives; the program is left out.
  Compiled trace_function(const std::vector<StepArgument>& arguments) const;
  Compiled& compiled_for(const std::vector<StepArgument>& arguments);
  Compiled compile(const std::vector<StepArgument>& arguments);
  // The traced graph with cast weights as inputs, which become captured.
  Graph with_cast_weights(Compiled& compiled) const;
  // With both halves of captured tensors that lie in halves.
  Graph with_halves(Compiled& compiled, const Graph& graph) const;
  std::vector<StepArgument> with_symbols(std::vector<StepArgument> arguments, SymbolBindings& bindings) const;
  // Without results.
  Call prepare_call(const std::vector<Tensor>& arguments, Compiled*& compiled);
  // With the results that run() keeps.
  Call prepare_kept_call(const std::vector<Tensor>& arguments, Compiled*& compiled);
  static void set_results(Call& call, std::vector<Tensor> results);
  std::vector<Tensor> make_results(const Compiled& compiled, const SymbolBindings& bindings);

  std::shared_ptr<Context> context_;
  Function function_;
  StepOptions options_;
  PipelineTrace* pipeline_trace_ = nullptr;
  std::map<std::string, Compiled> compiled_;  // by types and shardings of arguments
};

std::vector<StepArgument> Step::Implementation::with_symbols(std::vector<StepArgument> arguments,
                                                             SymbolBindings& bindings) const {
  for (const StepOptions::SymbolicAxis& symbolic : options_.symbolic) {
    CAUSEWAY_CHECK(symbolic.argument < arguments.size() &&
                   symbolic.axis < arguments[symbolic.argument].type.shape.size());
    Dim& dim = arguments[symbolic.argument].type.shape[symbolic.axis];
    const Dim replacement = Dim::symbol(symbolic.symbol, symbolic.divisor);
    if (dim == replacement) continue;
    const int64_t size = dim.constant();
    const int32_t symbol = replacement.symbols().front();
    if (size % symbolic.divisor != 0 || size < symbolic.divisor)
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("axis {} of argument {} has size {}, which is no positive multiple of {}", symbolic.axis,
                              symbolic.argument, size, symbolic.divisor));
    const auto [entry, inserted] = bindings.try_emplace(symbol, size / symbolic.divisor);
    if (entry->second != size / symbolic.divisor)
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("axis {} of argument {} has size {}, but '{}' is {} in another argument", symbolic.axis,
                              symbolic.argument, size, symbolic.symbol, entry->second * symbolic.divisor));
    dim = replacement;
  }
  return arguments;
}

Step::Implementation::Compiled Step::Implementation::trace_function(const std::vector<StepArgument>& arguments) const {
  const ContextScope context_scope(context_);
  Trace trace;
  Compiled compiled;
  std::vector<Value> argument_inputs;
  {
    const TraceScope scope(trace);
    std::vector<Tensor> stand_ins;
    for (size_t i = 0; i < arguments.size(); ++i) {
      stand_ins.push_back(trace.add_argument(fmt::format("argument{}", i), arguments[i].type, arguments[i].sharding));
      argument_inputs.push_back(stand_ins.back().state()->value);
    }
    const std::vector<Tensor> results = function_(stand_ins);
    for (const Tensor& result : results) {
      trace.graph.outputs.push_back(trace.use(result));
      compiled.results.push_back(result.type());
    }
  }
  for (const Trace::Captured& captured : trace.captured()) compiled.captured.push_back(captured.tensor);
  compiled.argument_count = arguments.size();
  compiled.traced = std::move(trace.graph);
  return compiled;
}

Step::Implementation::Compiled Step::Implementation::compile(const std::vector<StepArgument>& arguments) {
  Compiled compiled = trace_function(arguments);
  const bool casts = options_.casts != nullptr && options_.program.pipeline.mixed_precision.compute != DType::kF32;
  const Graph graph =
      casts ? with_halves(compiled, with_cast_weights(compiled)) : with_halves(compiled, compiled.traced);
  compiled.program = context_->compile(graph, options_.program, pipeline_trace_);
  return compiled;
}

Graph Step::Implementation::with_halves(Compiled& compiled, const Graph& graph) const {
  const size_t first = graph.inputs().size() - compiled.captured.size();
  std::vector<bool> split(graph.inputs().size());
  for (size_t i = 0; i < compiled.captured.size(); ++i) split[first + i] = compiled.captured[i].lies_in_halves();
  SplitWeights result = split_weights(graph, split, options_.program.pipeline.mixed_precision.compute == DType::kBF16);
  for (const size_t input : result.lower) compiled.lower_halves.push_back(input - first);
  return std::move(result.graph);
}

Graph Step::Implementation::with_cast_weights(Compiled& compiled) const {
  const ContextScope context_scope(context_);
  const DType compute = options_.program.pipeline.mixed_precision.compute;
  CAUSEWAY_CHECK(context_->mesh().empty());
  const std::vector<Value>& inputs = compiled.traced.inputs();
  std::vector<bool> never_change(inputs.size());
  for (size_t i = compiled.argument_count; i < inputs.size(); ++i)
    never_change[i] = !compiled.captured[i - compiled.argument_count].lies_in_halves() &&
                      std::none_of(compiled.traced.assignments.begin(), compiled.traced.assignments.end(),
                                   [&](const Assignment& assignment) { return assignment.target == inputs[i]; });
  // Joined weights would share a scale of 8 bits.
  const bool streams = context_->device().target().has_skinny_gemm();
  NarrowedWeights narrowed = narrow_weights(
      compiled.traced, never_change, compute,
      {.lines_along_k = streams, .joined = streams && options_.program.pipeline.fp8_gemms == Fp8Scales::kNone});
  for (const NarrowedWeights::Source& source : narrowed.sources) {
    std::vector<Tensor> weights;
    for (const size_t input : source.inputs) weights.push_back(compiled.captured[input - compiled.argument_count]);
    compiled.captured.push_back(options_.casts->cast(weights, compute, source.transposed));
  }
  return std::move(narrowed.graph);
}

Graph Step::Implementation::trace(const std::vector<StepArgument>& arguments) const {
  SymbolBindings bindings;
  Compiled compiled = trace_function(with_symbols(arguments, bindings));
  return with_halves(compiled, compiled.traced);
}

Step::Implementation::Compiled& Step::Implementation::compiled_for(const std::vector<StepArgument>& arguments) {
  std::string key;
  for (const StepArgument& argument : arguments) key += argument.type.text() + argument.sharding.text() + ";";
  auto entry = compiled_.find(key);
  if (entry == compiled_.end()) entry = compiled_.emplace(key, compile(arguments)).first;
  return entry->second;
}

Program& Step::Implementation::prepare(const std::vector<StepArgument>& arguments) {
  SymbolBindings bindings;
  return *compiled_for(with_symbols(arguments, bindings)).program;
}

SymbolBindings Step::Implementation::sizes(const std::vector<StepArgument>& arguments) const {
  SymbolBindings bindings;
  with_symbols(arguments, bindings);
  return bindings;
}

const Graph& Step::Implementation::traced_graph(const std::vector<StepArgument>& arguments) {
  SymbolBindings bindings;
  return compiled_for(with_symbols(arguments, bindings)).traced;
}

Step::Implementation::Call Step::Implementation::prepare_call(const std::vector<Tensor>& arguments,
                                                              Compiled*& compiled) {
  const ContextScope context_scope(context_);
  // What was recorded eagerly is computed before the step updates tensors in place.
  if (Trace::current().is_eager() && !Trace::current().captured().empty()) Trace::current().flush();
  Call call;
  std::vector<StepArgument> types;
  for (const Tensor& argument : arguments) {
    argument.evaluate();
    require_context(*argument.state(), *context_);
    types.emplace_back(argument);
  }
  compiled = &compiled_for(with_symbols(std::move(types), call.bindings));
  // A rank's coordinates come first among the program's inputs, then arguments, then what the function captured.
  if (!context_->mesh().empty()) call.inputs.push_back(context_->mesh_coordinates().data());
  for (const Tensor& argument : arguments) call.inputs.push_back(argument.buffer().data());
  for (const Tensor& captured : compiled->captured) {
    captured.evaluate();
    call.inputs.push_back(captured.buffer().data());
  }
  for (const size_t i : compiled->lower_halves)
    call.inputs.push_back(compiled->captured[i].buffer().data() + compiled->captured[i].local_bytes() / 2);
  return call;
}

std::vector<Tensor> Step::Implementation::make_results(const Compiled& compiled, const SymbolBindings& bindings) {
  const ContextScope context_scope(context_);
  std::vector<Tensor> results;
  for (const TensorType& type : compiled.results)
    results.push_back(Tensor::uninitialized(evaluate(type.shape, bindings), type.dtype));
  return results;
}

void Step::Implementation::set_results(Call& call, std::vector<Tensor> results) {
  call.results = std::move(results);
  for (const Tensor& result : call.results) call.outputs.push_back(result.buffer().data());
}

Step::Implementation::Call Step::Implementation::prepare_kept_call(const std::vector<Tensor>& arguments,
                                                                   Compiled*& compiled) {
  Call call = prepare_call(arguments, compiled);
  const auto [kept, first] = compiled->kept.try_emplace(call.bindings);
  if (first) kept->second = make_results(*compiled, call.bindings);
  set_results(call, kept->second);
  return call;
}

const std::vector<Tensor>& Step::Implementation::run(const std::vector<Tensor>& arguments) {
  Compiled* compiled = nullptr;
  const Call call = prepare_kept_call(arguments, compiled);
  compiled->program->run_recorded(call.inputs, call.outputs, call.bindings);
  return compiled->kept.at(call.bindings);
}

const std::vector<Tensor>& Step::Implementation::run_traced(const std::vector<Tensor>& arguments,
                                                            std::vector<InstructionTime>& times) {
  Compiled* compiled = nullptr;
  const Call call = prepare_kept_call(arguments, compiled);
  times = compiled->program->run_traced(call.inputs, call.outputs, call.bindings);
  return compiled->kept.at(call.bindings);
}

std::vector<Tensor> Step::Implementation::operator()(const std::vector<Tensor>& arguments) {
  Compiled* compiled = nullptr;
  Call call = prepare_call(arguments, compiled);
  set_results(call, make_results(*compiled, call.bindings));
  compiled->program->run(call.inputs, call.outputs, call.bindings);
  return std::move(call.results);
}

std::vector<double> Step::Implementation::run_timed(const std::vector<Tensor>& arguments) {
  Compiled* compiled = nullptr;
  Call call = prepare_call(arguments, compiled);
  set_results(call, make_results(*compiled, call.bindings));
  return compiled->program->run_timed(call.inputs, call.outputs, call.bindings);
}

std::optional<NonFiniteValue> Step::Implementation::find_non_finite(const std::vector<Tensor>& arguments) {
  Compiled* compiled = nullptr;
  Call call = prepare_call(arguments, compiled);
  set_results(call, make_results(*compiled, call.bindings));
  return compiled->program->run_and_find_non_finite(call.inputs, call.outputs, call.bindings);
}

Step::Step(Function function, StepOptions options)
    : implementation_(std::make_unique<Implementation>(std::move(function), std::move(options))) {}
Step::Step(Step&&) noexcept = default;
Step& Step::operator=(Step&&) noexcept = default;
Step::~Step() = default;

std::vector<Tensor> Step::operator()(const std::vector<Tensor>& arguments) { return (*implementation_)(arguments); }
const std::vector<Tensor>& Step::run(const std::vector<Tensor>& arguments) { return implementation_->run(arguments); }
const std::vector<Tensor>& Step::run_traced(const std::vector<Tensor>& arguments, std::vector<InstructionTime>& times) {
  return implementation_->run_traced(arguments, times);
}
Program& Step::prepare(const std::vector<StepArgument>& arguments) { return implementation_->prepare(arguments); }
SymbolBindings Step::sizes(const std::vector<StepArgument>& arguments) const {
  return implementation_->sizes(arguments);
}
Graph Step::trace(const std::vector<StepArgument>& arguments) const { return implementation_->trace(arguments); }
const Graph& Step::traced_graph(const std::vector<StepArgument>& arguments) {
  return implementation_->traced_graph(arguments);
}
std::optional<NonFiniteValue> Step::find_non_finite(const std::vector<Tensor>& arguments) {
  return implementation_->find_non_finite(arguments);
}
std::vector<double> Step::run_timed(const std::vector<Tensor>& arguments) {
  return implementation_->run_timed(arguments);
}
const std::shared_ptr<Context>& Step::context() const { return implementation_->context(); }
void Step::record_passes(PipelineTrace* trace) { implementation_->record_passes(trace); }

}  // namespace causeway::tensor
