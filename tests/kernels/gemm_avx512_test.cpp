// The gemm tests for AVX-512.
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

#define CAUSEWAY_X86_LEVEL 2
#define MATMUL_TEST_SUITE GemmAvx512

namespace {
bool gemm_level_supported() {
  return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
}  // namespace

#pragma clang attribute push(__attribute__((target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl"))), \
                             apply_to = function)
#include "tests/kernels/gemm_cases.h"

#pragma clang attribute pop
