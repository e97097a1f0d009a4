// The gemm tests for AVX2 and FMA.
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

#define CAUSEWAY_X86_LEVEL 1
#define MATMUL_TEST_SUITE GemmAvx2

namespace {
bool gemm_level_supported() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
}  // namespace

#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#include "tests/kernels/gemm_cases.h"

#pragma clang attribute pop
