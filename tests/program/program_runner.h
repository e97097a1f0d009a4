// Runs a graph on a device from host tensors, for comparison with the reference interpreter.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "causeway/device/cpu/cpu_device.h"
#include "causeway/graph/host_tensor.h"
#include "causeway/program/program.h"
#include "tests/mutation/planted_faults.h"

namespace causeway::program {

class ProgramRunner {
 public:
  explicit ProgramRunner(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  // On the CPU.
  explicit ProgramRunner(int thread_count = 0) : ProgramRunner(std::make_shared<CpuDevice>(thread_count)) {}

  // Outputs, then the new values of assigned inputs, in order.
  std::vector<HostTensor> run(const Graph& graph, const std::vector<HostTensor>& inputs,
                              const SymbolBindings& bindings = {}) {
    Program program(graph, *device_, library_, arena_);
    return run(program, inputs, bindings);
  }

  std::vector<HostTensor> run(Program& program, const std::vector<HostTensor>& inputs,
                              const SymbolBindings& bindings = {}) {
    const Graph& graph = program.graph();
    std::vector<DeviceBuffer> buffers;
    std::vector<void*> input_pointers, output_pointers;
    std::vector<HostBuffer> on_host;
    for (size_t i = 0; i < inputs.size(); ++i)
      input_pointers.push_back(is_on_host(graph, i) ? put_on_host(on_host, to_bytes(inputs[i]))
                                                    : upload(buffers, to_bytes(inputs[i])));
    // Poison, so that an element nobody writes shows.
    for (const Value output : graph.outputs)
      output_pointers.push_back(
          upload(buffers, std::vector<std::byte>(byte_count(graph.type(output), bindings), std::byte{0xff})));
    program.run(input_pointers, output_pointers, bindings);
    std::vector<HostTensor> results;
    for (size_t i = 0; i < graph.outputs.size(); ++i)
      results.push_back(read(graph.type(graph.outputs[i]), output_pointers[i], bindings));
    for (const Assignment& assignment : graph.assignments)
      for (size_t i = 0; i < graph.inputs().size(); ++i)
        if (graph.inputs()[i] == assignment.target)
          results.push_back(is_on_host(graph, i) ? read_host(graph.type(assignment.target), input_pointers[i], bindings)
                                                 : read(graph.type(assignment.target), input_pointers[i], bindings));
    return results;
  }

  Device& device() { return *device_; }
  KernelLibrary& library() { return library_; }
  Arena& arena() { return arena_; }

 private:
  static size_t byte_count(const TensorType& type, const SymbolBindings& bindings) {
    return static_cast<size_t>(element_count(type.shape).evaluate(bindings)) * size_bytes(type.dtype);
  }
  void* upload(std::vector<DeviceBuffer>& buffers, const std::vector<std::byte>& bytes) {
    buffers.push_back(device_->allocate(bytes.size()));
    if (!bytes.empty()) device_->copy_to_device(buffers.back().data(), bytes.data(), bytes.size());
    return buffers.back().data();
  }
  static bool is_on_host(const Graph& graph, size_t input) {
    return graph.node(graph.inputs()[input]).attributes.on_host;
  }
  void* put_on_host(std::vector<HostBuffer>& buffers, const std::vector<std::byte>& bytes) {
    buffers.push_back(device_->allocate_host(bytes.size()));
    std::copy(bytes.begin(), bytes.end(), buffers.back().data());
    return buffers.back().data();
  }
  HostTensor read_host(const TensorType& type, const void* data, const SymbolBindings& bindings) {
    device_->synchronize();
    return from_bytes(type.dtype, evaluate(type.shape, bindings), static_cast<const std::byte*>(data));
  }
  HostTensor read(const TensorType& type, const void* data, const SymbolBindings& bindings) {
    std::vector<std::byte> bytes(byte_count(type, bindings));
    if (!bytes.empty()) device_->copy_to_host(bytes.data(), data, bytes.size());
    return from_bytes(type.dtype, evaluate(type.shape, bindings), bytes.data());
  }

  std::shared_ptr<Device> device_;
  // Kernels with a planted fault are kept nowhere.
  static std::shared_ptr<KernelCache> cache() {
    return a_fault_is_planted() ? std::make_shared<KernelCache>(std::filesystem::path())
                                : std::make_shared<KernelCache>();
  }

  KernelLibrary library_{*device_, cache(), with_planted_fault};
  Arena arena_{*device_};
};

}  // namespace causeway::program
