// The part every kernel writer shares: arguments, names, sizes and the frame of the source text.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "causeway/codegen/expressions/expression_emitter.h"
#include "causeway/codegen/kernel_writers.h"

namespace causeway::codegen {

constexpr int kTaskDepth = 1;  // of a processor task's loop variables

class KernelWriter : public EmitterContext {
 public:
  explicit KernelWriter(const KernelInputs& inputs)
      : graph_(inputs.graph), materialized_(inputs.materialized), request_(inputs.request), target_(inputs.target) {}

  std::optional<ElementValue> variable(Value value, const Index& linear) override;
  bool is_stored(Value value) override;
  std::string pointer(Value value) override;

 protected:
  // A statement that stores `value` as the element `linear` of `member`, or nothing when it is not written.
  std::string store_statement(Value member, const std::string& linear, const std::string& value);
  // The same of a value that its type holds exactly, as all that an emitter declares are.
  std::string store_rounded(Value member, const std::string& linear, const std::string& value);
  // Appends `size` to sizes[] and returns its expression in kernel text.
  std::string size_argument(const Dim& size);
  // `const auto* b0 = ...;` lines and `const int64_t d0 = ...;` lines for everything used so far.
  std::string prologue();
  // GPU: the line that opens a kernel of `threads` threads a block, of which a multiprocessor holds `blocks_per_unit`.
  // Written when all arguments and sizes are known, that is, after the body. For loops that are alike, the body is that
  // of each. `begins_early`: the body waits for earlier launches itself.
  std::string gpu_kernel(const std::string& name, int threads, int blocks_per_unit = 1, int tensor_maps = 0,
                         bool begins_early = false);
  // buffers[position] as a pointer to `type`.
  std::string buffer_pointer(const std::string& type, size_t position) const;
  // Another argument, KernelArgument::Kind::kTaskCounter, as the pointer that take_task() of kernels/gpu/hopper.h
  // takes.
  std::string task_counter();
  // Throws InternalError when there is an obstacle.
  void check_no_obstacle(const std::optional<Obstacle>& obstacle) const;
  // The arguments and sizes, in the order in which the text uses them.
  GeneratedKernel finish(std::string source);

  const Graph& graph_;
  const MaterializedValues& materialized_;
  const KernelRequest& request_;
  const Target& target_;
  IndexVariables variables_;
  SymbolNames symbols_;
  std::vector<KernelArgument> arguments_;
  std::map<Value, std::string> pointers_;
  std::vector<Dim> sizes_;

 private:
  std::string assignment(Value member, const std::string& linear, const std::string& stored);
};

}  // namespace causeway::codegen
