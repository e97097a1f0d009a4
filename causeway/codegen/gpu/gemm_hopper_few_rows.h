// Tiles of gemm_hopper.h for GEMMs of few rows, whose time is that of reading weights: one tile has all rows, and every
// multiprocessor at most one block. Such blocks begin before earlier launches have ended (kBeginsEarly).
#pragma once

#include <optional>

#include "causeway/codegen/gpu/gemm_hopper_model.h"

namespace causeway::codegen {

constexpr int64_t kHopperGemmMostFewRows = 64;

// Of 16-bit operands whose lines are contiguous in k, B those of the weights; m is at most kHopperGemmMostFewRows.
// Nothing where that would be more tiles than multiprocessors. Pure, as choose_hopper_gemm().
std::optional<HopperGemmPlan> choose_hopper_gemm_of_few_rows(const GpuArchitecture& architecture, int64_t m, int64_t n,
                                                             int64_t k);

}  // namespace causeway::codegen
