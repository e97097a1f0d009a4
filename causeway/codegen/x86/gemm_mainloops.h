// The mainloops of GEMMs on x86-64, a file each (gemm_mainloop.h), in the order in which they are asked: the first that
// serves a problem computes it.
#pragma once

#include <array>

#include "causeway/codegen/x86/gemm_mainloop.h"

namespace causeway::codegen {

const GemmMainloop& x86_skinny_gemm_mainloop();
const GemmMainloop& x86_amx_gemm_mainloop();
const GemmMainloop& x86_packed_gemm_mainloop();

inline auto gemm_mainloops() {
  return std::array{&x86_skinny_gemm_mainloop(), &x86_amx_gemm_mainloop(), &x86_packed_gemm_mainloop()};
}

}  // namespace causeway::codegen
