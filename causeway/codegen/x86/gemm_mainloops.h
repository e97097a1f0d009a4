// The mainloops of GEMMs on x86-64, a file each (gemm_mainloop.h), in the order in which they are asked: the first that
// serves a problem computes it.
#pragma once

#include <array>

#include "causeway/codegen/x86/gemm_mainloop.h"

namespace causeway::codegen {

const GemmMainloop& gemm_skinny_mainloop();
const GemmMainloop& gemm_amx_mainloop();
const GemmMainloop& gemm_packed_mainloop();

inline auto gemm_mainloops() {
  return std::array{&gemm_skinny_mainloop(), &gemm_amx_mainloop(), &gemm_packed_mainloop()};
}

}  // namespace causeway::codegen
