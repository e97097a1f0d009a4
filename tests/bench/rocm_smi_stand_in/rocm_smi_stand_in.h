// What the stand-in for librocm_smi64.so pretends: two GPUs, at buses 0xc1 and 0xc2 of domain 1.
#pragma once

#include <cstdint>

struct RocmSmiStandIn {
  uint32_t version = 6;
  int init_result = 0;
  int started = 0;
  uint32_t asked = 0;  // the GPU of the last question
  bool tells_clocks = true;
  bool tells_power = true;
  bool has_junction = true;
  uint64_t energy_count = 1000000;
  uint64_t throttle_status = 0;
};
