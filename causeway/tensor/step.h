// A function of tensors, traced once and compiled into one program: forward, loss, gradients, optimizer and all.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "causeway/program/program_options.h"
#include "causeway/tensor/tensor.h"

namespace causeway::passes {
struct PipelineTrace;
}
namespace causeway::program {
class Context;
class Program;
struct InstructionTime;
struct NonFiniteValue;
}  // namespace causeway::program

namespace causeway::tensor {

class CastTensors;  // cast_tensors.h

struct StepOptions {
  ProgramOptions program = {};
  // Axes whose size may change from call to call without compiling again.
  struct SymbolicAxis {
    size_t argument = 0;
    size_t axis = 0;
    std::string symbol;   // equal symbols have equal sizes
    int64_t divisor = 1;  // every size is a multiple of it
  };
  std::vector<SymbolicAxis> symbolic = {};
  // Where given: captured tensors that are not assigned to never change, and those that GEMMs read in the compute
  // type are cast once, not in every run. Several steps may share what is cast. Not over a mesh.
  std::shared_ptr<CastTensors> casts = nullptr;
};

// What a step is compiled for, of one argument.
struct StepArgument {
  StepArgument(TensorType argument_type, Sharding how = {})  // NOLINT: a type is that of a replicated argument
      : type(std::move(argument_type)), sharding(std::move(how)) {}
  StepArgument(const Tensor& tensor) : type(tensor.type()), sharding(tensor.sharding()) {}  // NOLINT: such a tensor
  TensorType type;
  Sharding sharding;  // over the mesh of the step's context
};

// Where the step's context is a rank's of a mesh, every rank calls it alike: arguments and captured tensors may be cut,
// results are whole on every rank, and what is assigned lies as its target does.
class Step {
 public:
  // Called with stand-ins for the arguments; returns the results. Tensors it captures that hold values are inputs of
  // the program; those it assigns to are updated in place at each call.
  using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>& arguments)>;
  // Belongs to the thread's current context, and is traced and run in it whatever is current then.
  explicit Step(Function function, StepOptions options = {});
  Step(Step&&) noexcept;
  Step& operator=(Step&&) noexcept;
  ~Step();

  // Runs the program for arguments of these types, tracing and compiling it when they are new. Throws
  // Error(kInvalidArgument) when a size does not fit its symbolic axis, or an argument is of another context.
  std::vector<Tensor> operator()(const std::vector<Tensor>& arguments);

  // As operator(), with the results in tensors that the step keeps: the next run() with arguments of these types writes
  // over them. Where a device can, runs on the same arguments replay what was launched before, whatever else was
  // allocated meanwhile.
  const std::vector<Tensor>& run(const std::vector<Tensor>& arguments);

  // As run(), launched one by one, with the times of the program's instructions (Program::run_traced()).
  const std::vector<Tensor>& run_traced(const std::vector<Tensor>& arguments, std::vector<InstructionTime>& times);

  // Traces and compiles for arguments of these types without running.
  Program& prepare(const std::vector<StepArgument>& arguments);
  // What the symbols of that program are for these arguments.
  SymbolBindings sizes(const std::vector<StepArgument>& arguments) const;
  // The graph for arguments of these types as it goes to the passes; nothing is compiled.
  Graph trace(const std::vector<StepArgument>& arguments) const;
  // As it was traced before that, of the program that is compiled for them: weights in whole elements.
  const Graph& traced_graph(const std::vector<StepArgument>& arguments);
  // What running with these arguments would compute, looked at value by value; the results and updates happen too.
  std::optional<NonFiniteValue> find_non_finite(const std::vector<Tensor>& arguments);
  // Runs and returns the seconds each kernel of the program took, in the order of its kernel_reports().
  std::vector<double> run_timed(const std::vector<Tensor>& arguments);
  const std::shared_ptr<Context>& context() const;
  // Records of the passes, for the next program that is compiled.
  void record_passes(PipelineTrace* trace);

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace causeway::tensor
