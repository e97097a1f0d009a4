// The gemm tests without vector instructions beyond the baseline.
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

#define CAUSEWAY_X86_LEVEL 0
#define MATMUL_TEST_SUITE GemmPortable

namespace {
bool gemm_level_supported() { return true; }
}  // namespace

#include "tests/kernels/gemm_cases.h"
