// What the stand-in for libnvidia-ml.so.1 pretends. It shows three GPUs, at bus 0x10, 0x20 and 0x30; its CUDA driver
// (it stands in for libcuda.so.1 too) counts them backwards.
#pragma once

struct NvmlStandIn {
  int init_result = 0;
  int started = 0;  // initialisations less shutdowns
  int asked = 0;    // the GPU of the last question
  unsigned graphics_clock = 1980;
  unsigned memory_clock = 3201;
  unsigned milliwatts = 650500;
  int power_result = 0;
  unsigned celsius = 61;
  unsigned long long throttle_reasons = 0;
  unsigned long long millijoules = 1500;
  int energy_result = 0;
  int cuda_result = 0;
};
