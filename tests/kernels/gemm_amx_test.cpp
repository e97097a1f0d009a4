// The gemm tests for AVX-512 BF16 with AMX.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#include "causeway/device/cpu/host_target.h"

#define CAUSEWAY_X86_LEVEL 3
#define CAUSEWAY_AMX
#define MATMUL_TEST_SUITE GemmAmx
#define MATMUL_TEST_MATRIX_TILES

namespace {
// Asks for the permission to use the registers, too.
bool gemm_level_supported() { return causeway::device::host_target().has_amx_bf16(); }
}  // namespace

#pragma clang attribute push(                                                                            \
    __attribute__((target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16"))), \
    apply_to = function)
#include "tests/kernels/gemm_cases.h"

#pragma clang attribute pop
