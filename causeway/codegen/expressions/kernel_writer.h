// The part every kernel writer shares: arguments, names, sizes and the frame of the source text.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "causeway/codegen/expressions/expression_emitter.h"
#include "causeway/codegen/kernel.h"

namespace causeway::codegen {

class KernelWriter : public EmitterContext {
 public:
  KernelWriter(const Graph& graph, const MaterializedValues& materialized, const KernelRequest& request,
               const Target& target);

  std::optional<EmittedValue> variable(Value value, const Index& linear) override;
  bool is_stored(Value value) override;
  std::string pointer(Value value) override;

 protected:
  // A statement that stores `value` as the element `linear` of `member`, or nothing when it is not written.
  std::string store_statement(Value member, const std::string& linear, const std::string& value);
  bool is_member(Value value) const;
  bool member_stored(Value value) const;
  // The materialized values (and members) that the expansion of `value` reads, not counting `value` itself.
  std::vector<Value> leaves(Value value) const;
  // Appends `size` to sizes[] and returns its expression in kernel text.
  std::string size_argument(const Dim& size);
  // `const auto* b0 = ...;` lines and `const int64_t d0 = ...;` lines for everything used so far.
  std::string prologue();
  // GPU: the line that opens a kernel of `threads` threads a block, of which a multiprocessor holds `blocks_per_unit`.
  // Written when all arguments and sizes are known, that is, after the body.
  std::string gpu_kernel(const std::string& name, int threads, int blocks_per_unit = 1, int tensor_maps = 0);
  // buffers[position] as a pointer to `type`.
  std::string buffer_pointer(const std::string& type, size_t position) const;
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
  // Members available as kernel variables, and the position at which they are.
  struct MemberVariable {
    EmittedValue value;
    Index linear;
  };
  std::map<Value, MemberVariable> member_variables_;
  // Set when a member is needed at a position where it is neither a variable nor in memory.
  bool conflict_ = false;
};

GeneratedKernel generate_loop_kernel(const Graph& graph, const MaterializedValues& materialized,
                                     const KernelRequest& request, const Target& target, bool& conflict);
GeneratedKernel generate_gpu_loop_kernel(const Graph& graph, const MaterializedValues& materialized,
                                         const KernelRequest& request, const Target& target, bool& conflict);
GeneratedKernel generate_column_reduce_kernel(const Graph& graph, const MaterializedValues& materialized,
                                              const KernelRequest& request, const Target& target);
GeneratedKernel generate_gpu_column_reduce_kernel(const Graph& graph, const MaterializedValues& materialized,
                                                  const KernelRequest& request, const Target& target);
GeneratedKernel generate_axis_kernel(const Graph& graph, const MaterializedValues& materialized,
                                     const KernelRequest& request, const Target& target);
GeneratedKernel generate_gpu_axis_kernel(const Graph& graph, const MaterializedValues& materialized,
                                         const KernelRequest& request, const Target& target);
GeneratedKernel generate_scatter_add_kernel(const Graph& graph, const MaterializedValues& materialized,
                                            const KernelRequest& request, const Target& target);
GeneratedKernel generate_gpu_scatter_add_kernel(const Graph& graph, const MaterializedValues& materialized,
                                                const KernelRequest& request, const Target& target);
GeneratedKernel generate_dot_kernel(const Graph& graph, const MaterializedValues& materialized,
                                    const KernelRequest& request, const Target& target, bool& conflict);
GeneratedKernel generate_gpu_dot_kernel(const Graph& graph, const MaterializedValues& materialized,
                                        const KernelRequest& request, const Target& target, bool& conflict);
GeneratedKernel generate_attention_kernel(const Graph& graph, const MaterializedValues& materialized,
                                          const KernelRequest& request, const Target& target);
GeneratedKernel generate_user_kernel(const Graph& graph, const MaterializedValues& materialized,
                                     const KernelRequest& request, const Target& target);

// The integer ceil(value / divisor).
inline int64_t divide_up(int64_t value, int64_t divisor) { return (value + divisor - 1) / divisor; }

}  // namespace causeway::codegen
