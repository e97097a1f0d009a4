// The mainloops of GEMMs on GPUs, a file each (gemm_mainloop.h), in the order in which they are asked: the first that
// serves a problem computes it.
#pragma once

#include <array>

#include "causeway/codegen/gpu/gemm_mainloop.h"

namespace causeway::codegen {

const GpuGemmMainloop& hopper_gemm_mainloop();
const GpuGemmMainloop& skinny_gemm_mainloop();
const GpuGemmMainloop& cdna_gemm_mainloop();
const GpuGemmMainloop& portable_gemm_mainloop();
const GpuGemmMainloop& portable_grouped_gemm_mainloop();

inline auto gpu_gemm_mainloops() {
  return std::array{&hopper_gemm_mainloop(), &skinny_gemm_mainloop(), &cdna_gemm_mainloop(), &portable_gemm_mainloop(),
                    &portable_grouped_gemm_mainloop()};
}

}  // namespace causeway::codegen
