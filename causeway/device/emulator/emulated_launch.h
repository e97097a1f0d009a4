// A launch of a kernel on the emulator, and what its seed decides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "causeway/device/emulator/emulated_memory.h"
#include "causeway/device/emulator/emulator_module.h"
#include "causeway/device/emulator/race_detector.h"
#include "causeway/device/gpu_architecture.h"

namespace causeway::device {

// What the clusters of a launch have in common.
struct EmulatedLaunch {
  const EmulatedKernel* kernel = nullptr;
  const GpuArchitecture* architecture = nullptr;
  const std::byte* arguments = nullptr;
  size_t argument_bytes = 0;
  int blocks = 0;
  int threads = 0;  // of a block
  int shared_bytes = 0;
  int cluster = 1;
  uint64_t seed = 0;
  bool checked = false;
  std::shared_ptr<const AllocationTable> allocations;
  GlobalHistory* history = nullptr;  // only where checked
};

// Bits that depend on all of `value`'s: splitmix64 (Steele, Lea, Flood 2014).
inline uint64_t mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

}  // namespace causeway::device
