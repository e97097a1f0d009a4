// The matmul tests for matrix registers, which are emulated.
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
#define MATMUL_TEST_SUITE MatmulMatrixTiles
#define MATMUL_TEST_MATRIX_TILES

namespace {

bool matmul_level_supported() { return true; }

}  // namespace

#include "tests/kernels/matmul_cases.h"
