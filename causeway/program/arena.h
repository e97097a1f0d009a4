// Working memory of a device, shared by the programs that run on it one after the other. It grows to the largest need
// and stays until it is released; a program's values are gone when the next one runs. Ranks of a mesh exchange what
// lies in it, and may read each other's: those of a stage ask for as much in the same order.
#pragma once

#include <cstdint>

#include "causeway/communicator/mesh_communicators.h"
#include "causeway/device/device.h"

namespace causeway::program {

class Arena {
 public:
  explicit Arena(Device& device, MeshCommunicators* communicators = nullptr)
      : device_(device), communicators_(communicators) {}

  // At least `bytes`, valid until the next call that asks for more.
  std::byte* reserve(int64_t bytes) {
    if (bytes > static_cast<int64_t>(buffer_.bytes)) {
      if (communicators_ != nullptr) communicators_->forget_memory();
      buffer_ = {};  // released first, so that the peak is not the sum
      buffer_ = device_.allocate(static_cast<size_t>(bytes));
      if (communicators_ != nullptr) communicators_->share_memory(buffer_.data(), buffer_.bytes);
    }
    return buffer_.data();
  }
  // The same of the host's memory, for what programs keep there while they run.
  std::byte* reserve_on_host(int64_t bytes) {
    if (bytes > static_cast<int64_t>(host_buffer_.bytes)) {
      host_buffer_ = {};
      host_buffer_ = device_.allocate_host(static_cast<size_t>(bytes));
    }
    return host_buffer_.data();
  }
  // Four bytes, 0 before and after each kernel that takes its tasks from them. They stay where they are.
  std::byte* task_counter() {
    if (task_counter_.data() == nullptr) task_counter_ = device_.allocate(sizeof(uint32_t), true);
    return task_counter_.data();
  }
  void release() {
    buffer_ = {};
    host_buffer_ = {};
  }
  int64_t bytes() const { return static_cast<int64_t>(buffer_.bytes); }

 private:
  Device& device_;
  MeshCommunicators* communicators_;
  DeviceBuffer buffer_, task_counter_;
  HostBuffer host_buffer_;
};

}  // namespace causeway::program
