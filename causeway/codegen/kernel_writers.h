// Who writes which kind of kernel, by target: the one place where the families of targets part.
#pragma once

#include <optional>
#include <string_view>

#include "causeway/codegen/kernel.h"

namespace causeway::codegen {

// What a kernel is written from. All of it outlives the writer.
struct KernelInputs {
  const Graph& graph;
  const MaterializedValues& materialized;
  const KernelRequest& request;
  const Target& target;
};

struct KernelWriterEntry {
  GeneratedKernel (*write)(const KernelInputs& inputs) = nullptr;
  // Null where there are no obstacles.
  std::optional<Obstacle> (*find_obstacle)(const KernelInputs& inputs) = nullptr;
};

KernelWriterEntry kernel_writer(KernelKind kind, const Target& target);

// buffers[position] as a pointer to `type`, as kernel text of the target has it.
std::string buffer_pointer_text(const Target& target, const std::string& type, size_t position);

GeneratedKernel write_loop_kernel(const KernelInputs& inputs);
GeneratedKernel write_gpu_loop_kernel(const KernelInputs& inputs);
GeneratedKernel write_column_reduce_kernel(const KernelInputs& inputs);
GeneratedKernel write_gpu_column_reduce_kernel(const KernelInputs& inputs);
GeneratedKernel write_axis_kernel(const KernelInputs& inputs);
GeneratedKernel write_gpu_axis_kernel(const KernelInputs& inputs);
GeneratedKernel write_scatter_add_kernel(const KernelInputs& inputs);
GeneratedKernel write_gpu_scatter_add_kernel(const KernelInputs& inputs);
GeneratedKernel write_dot_kernel(const KernelInputs& inputs);
GeneratedKernel write_gpu_dot_kernel(const KernelInputs& inputs);
GeneratedKernel write_attention_kernel(const KernelInputs& inputs);
GeneratedKernel write_gpu_attention_kernel(const KernelInputs& inputs);
GeneratedKernel write_attention_block_map_kernel(const KernelInputs& inputs);
GeneratedKernel write_gpu_attention_block_map_kernel(const KernelInputs& inputs);
GeneratedKernel write_user_kernel(const KernelInputs& inputs);
GeneratedKernel write_gpu_user_kernel(const KernelInputs& inputs);
// Of every target.
GeneratedKernel write_collective(const KernelInputs& inputs);
GeneratedKernel write_message(const KernelInputs& inputs);

std::optional<Obstacle> find_loop_obstacle(const KernelInputs& inputs);
std::optional<Obstacle> find_gpu_loop_obstacle(const KernelInputs& inputs);
std::optional<Obstacle> find_dot_obstacle(const KernelInputs& inputs);
std::optional<Obstacle> find_gpu_dot_obstacle(const KernelInputs& inputs);
std::optional<Obstacle> find_gpu_attention_obstacle(const KernelInputs& inputs);

bool gpu_gemm_hides_epilogue(const Graph& graph, const KernelRequest& gemm, Value value, const Target& target);

}  // namespace causeway::codegen
