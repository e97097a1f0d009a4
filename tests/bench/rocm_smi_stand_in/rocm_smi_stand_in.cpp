// The functions of librocm_smi64.so that ROCm SMI telemetry uses, without a GPU.
#include "tests/bench/rocm_smi_stand_in/rocm_smi_stand_in.h"

#include <cstddef>
#include <cstdio>
#include <cstring>

namespace {

constexpr int kInvalid = 1, kNotSupported = 2;
RocmSmiStandIn state;

int ask(uint32_t device) {
  state.asked = device;
  return state.started > 0 && device < 2 ? 0 : kInvalid;
}

struct Version {
  uint32_t major, minor, patch;
  const char* build;
};

template <typename Integer>
void put(void* bytes, size_t at, Integer value) {
  std::memcpy(static_cast<char*>(bytes) + at, &value, sizeof value);
}

}  // namespace

extern "C" {

RocmSmiStandIn* rocm_smi_stand_in() { return &state; }

int rsmi_init(uint64_t) {
  if (state.init_result == 0) ++state.started;
  return state.init_result;
}
int rsmi_shut_down() { return --state.started, 0; }
int rsmi_version_get(Version* version) { return *version = {state.version, 1, 0, "stand-in"}, 0; }
int rsmi_status_string(int status, const char** text) {
  return *text = status == 8 ? "no driver is loaded" : "as the stand-in says", 0;
}
int rsmi_num_monitor_devices(uint32_t* count) { return *count = 2, 0; }
int rsmi_dev_pci_id_get(uint32_t device, uint64_t* id) {
  // With the number of a partition in the bits that are for it.
  *id = uint64_t{1} << 32 | uint64_t{3} << 28 | (0xc1 + device) << 8 | 2;
  return ask(device);
}
int rsmi_dev_gpu_clk_freq_get(uint32_t device, int kind, void* table) {
  if (!state.tells_clocks || (kind != 0 && kind != 4)) return kNotSupported;
  // The second of three frequencies; the table begins with a flag since version 6.
  const bool has_flag = state.version >= 6;
  const uint64_t hertz = kind == 0 ? 2100000000 : 1300000000;
  put<uint32_t>(table, has_flag ? 4 : 0, 3);
  put<uint32_t>(table, has_flag ? 8 : 4, 1);
  for (size_t i = 0; i < 3; ++i) put<uint64_t>(table, (has_flag ? 16 : 8) + 8 * i, i == 1 ? hertz : 1);
  return ask(device);
}
int rsmi_dev_power_get(uint32_t device, uint64_t* microwatts, int* kind) {
  *microwatts = 700250000;
  *kind = 1;
  return state.tells_power ? ask(device) : kNotSupported;
}
int rsmi_dev_temp_metric_get(uint32_t device, uint32_t sensor, int metric, int64_t* millidegrees) {
  if (metric != 0 || sensor > 1 || (sensor == 1 && !state.has_junction)) return kNotSupported;
  *millidegrees = sensor == 1 ? 75500 : 55000;
  return ask(device);
}
int rsmi_dev_energy_count_get(uint32_t device, uint64_t* count, float* microjoules, uint64_t* nanoseconds) {
  *count = state.energy_count;
  *microjoules = 15.3F;
  *nanoseconds = 1;
  return ask(device);
}
int rsmi_dev_metrics_indep_throttle_status_get(uint32_t device, uint64_t* bits) {
  *bits = state.throttle_status;
  return ask(device);
}

int hipDeviceGetPCIBusId(char* text, int bytes, int device) {
  std::snprintf(text, static_cast<size_t>(bytes), "0001:%02x:00.0", static_cast<unsigned>(0xc2 - device));
  return device < 2 ? 0 : 101;
}

}  // extern "C"
