// The functions of libnvidia-ml.so.1 that NVML telemetry uses, without a GPU.
#include "tests/bench/nvml_stand_in/nvml_stand_in.h"

#include <cstdint>
#include <cstdio>
#include <cstring>

namespace {

constexpr int kGpus = 3;
constexpr int kNotSupported = 3, kNotFound = 6;
NvmlStandIn state;
int gpus[kGpus];

int ask(void* device) {
  state.asked = static_cast<int>(static_cast<int*>(device) - gpus);
  return state.started > 0 ? 0 : 1;
}

}  // namespace

extern "C" {

NvmlStandIn* nvml_stand_in() { return &state; }

int nvmlInit_v2() {
  if (state.init_result == 0) ++state.started;
  return state.init_result;
}
int nvmlShutdown() { return --state.started, 0; }
const char* nvmlErrorString(int result) {
  return result == kNotSupported ? "Not Supported"
         : result == kNotFound   ? "Not Found"
                                 : "Driver/library version mismatch";
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index >= kGpus) return kNotFound;
  return *device = &gpus[index], 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** device) {
  unsigned domain = 0, bus = 0, slot = 0;
  if (std::sscanf(bus_id, "%x:%x:%x", &domain, &bus, &slot) != 3 || domain != 0 || slot != 0) return kNotFound;
  for (unsigned i = 0; i < kGpus; ++i)
    if (bus == 0x10 * (i + 1)) return *device = &gpus[i], 0;
  return kNotFound;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  if (std::strcmp(uuid, "GPU-1") != 0) return kNotFound;
  return *device = &gpus[1], 0;
}

int nvmlDeviceGetClockInfo(void* device, int kind, unsigned* megahertz) {
  if (kind != 0 && kind != 2) return kNotSupported;
  *megahertz = kind == 0 ? state.graphics_clock : state.memory_clock;
  return ask(device);
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  *milliwatts = state.milliwatts;
  return state.power_result != 0 ? state.power_result : ask(device);
}
int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* celsius) {
  *celsius = state.celsius;
  return sensor == 0 ? ask(device) : kNotSupported;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* bits) {
  *bits = state.throttle_reasons;
  return ask(device);
}
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
  *millijoules = state.millijoules;
  return state.energy_result != 0 ? state.energy_result : ask(device);
}

int cuInit(unsigned) { return state.cuda_result; }
int cuDeviceGet(int* device, int index) {
  *device = 100 + index;
  return index < kGpus ? 0 : 101;
}
int cuDeviceGetPCIBusId(char* text, int bytes, int device) {
  std::snprintf(text, static_cast<size_t>(bytes), "0000:%02X:00.0",
                static_cast<unsigned>(0x10 * (kGpus - (device - 100))));
  return 0;
}

}  // extern "C"
