// The gemm tests for matrix registers, which are emulated.
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

#include "causeway/kernels/types.h"
#include "tests/kernels/emulated_matrix_tiles.h"

#define CAUSEWAY_X86_LEVEL 0
#define MATMUL_TEST_SUITE GemmMatrixTiles
#define MATMUL_TEST_MATRIX_TILES

namespace {

bool gemm_level_supported() { return true; }

}  // namespace

#include "tests/kernels/gemm_cases.h"
