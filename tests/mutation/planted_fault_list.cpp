// The faults. Each is a mistake that somebody could make; the test named is the quickest that sees it.
#include "tests/mutation/planted_faults.h"

namespace causeway {
namespace {

constexpr std::string_view kX86Attention = "causeway/kernels/x86/attention.h";
constexpr std::string_view kX86Gradient = "causeway/kernels/x86/attention_gradient.h";
constexpr std::string_view kX86Matmul = "causeway/kernels/x86/matmul.h";
constexpr std::string_view kTypes = "causeway/kernels/types.h";
constexpr std::string_view kTile = "causeway/kernels/gpu/attention_tile.h";
constexpr std::string_view kAttention = "causeway/kernels/gpu/attention.h";
constexpr std::string_view kGradient = "causeway/kernels/gpu/attention_gradient.h";
constexpr std::string_view kHopperAttention = "causeway/kernels/gpu/attention_hopper.h";
constexpr std::string_view kHopperGradient = "causeway/kernels/gpu/attention_hopper_gradient.h";
constexpr std::string_view kHopperOrder = "causeway/kernels/gpu/attention_hopper_order.h";
constexpr std::string_view kHopperTile = "causeway/kernels/gpu/attention_hopper_tile.h";
constexpr std::string_view kMatmul = "causeway/kernels/gpu/matmul.h";
constexpr std::string_view kHopperMatmul = "causeway/kernels/gpu/matmul_hopper.h";
constexpr std::string_view kF8 = "causeway/kernels/gpu/f8_pair.h";
constexpr std::string_view kTf32 = "causeway/kernels/gpu/tf32.h";
constexpr std::string_view kReduce = "causeway/kernels/gpu/reduce.h";
constexpr std::string_view kIntrinsics = "causeway/kernels/gpu/intrinsics.h";
constexpr std::string_view kGenerated = "";

constexpr PlantedFault kFaults[] = {
    // Attention on processors.
    {"x86_attention_skipped_keys", "x86 attention: the second block of keys is skipped", kX86Attention,
     "if (kind == kAttentionBlockEmpty) continue;", "if (kind == kAttentionBlockEmpty || k_block == 1) continue;",
     "kernels_tests", "Devices/AttentionOnDevices.FullAndCausalInEveryType/cpu"},
    {"x86_attention_mask_edge", "x86 attention: the mask is off by one key", kX86Attention,
     "p.mask(b_, head, t, first + j)", "p.mask(b_, head, t, first + j + 1)", "kernels_tests",
     "Devices/AttentionOnDevices.FullAndCausalInEveryType/cpu"},
    {"x86_attention_no_maximum", "x86 attention: softmax does not subtract the maximum", kX86Attention,
     "const auto grown = peak > before + kSlack;\n    if (!__builtin_reduce_or(grown)) return;\n"
     "    const Floats after = grown ? peak : before;",
     "const auto grown = Floats(0.0f) > before + kSlack;\n    if (!__builtin_reduce_or(grown)) return;\n"
     "    const Floats after = grown ? Floats(0.0f) : before;",
     "kernels_tests", "Devices/AttentionOnDevices.ScoresFarFromZero/cpu"},
    {"x86_attention_no_rescale", "x86 attention: sums are not scaled to a new maximum", kX86Attention,
     "const Floats scale = Floats(scales[4 * r]);", "const Floats scale = Floats(1.0f);", "kernels_tests",
     "Devices/AttentionOnDevices.ScoresFarFromZero/cpu"},
    {"x86_attention_zero_dq", "x86 attention: dq is zero", kX86Gradient, "row[d] * p.scale);", "row[d] * 0.0f);",
     "kernels_tests", "Devices/AttentionOnDevices.FullAndCausalInEveryType/cpu"},
    {"x86_attention_zero_dk", "x86 attention: dk is zero", kX86Gradient, "key[d] * p.scale);", "key[d] * 0.0f);",
     "kernels_tests", "Devices/AttentionOnDevices.FullAndCausalInEveryType/cpu"},
    {"x86_attention_zero_dv", "x86 attention: dv is zero", kX86Gradient, "s, d, value[d]);", "s, d, value[d] * 0.0f);",
     "kernels_tests", "Devices/AttentionOnDevices.FullAndCausalInEveryType/cpu"},
    {"x86_attention_wrong_head", "x86 attention: queries read the keys of another head", kX86Attention,
     "return p.load_k(b_, kv_head_, first + i, d);", "return p.load_k(b_, 0, first + i, d);", "kernels_tests",
     "Devices/AttentionOnDevices.GroupedQueriesAndOtherLengths/cpu"},
    // Products on processors.
    {"x86_matmul_lost_k", "x86 product: the last word of each slice of k is dropped", kX86Matmul,
     "int64_t steps = matmul_words(kBlocks, terms);", "int64_t steps = matmul_words(kBlocks, terms) - 1;",
     "program_tests", "Kernels.DotInEveryOrientation"},
    {"x86_matmul_lost_row", "x86 product: the last row of a ragged panel is zero", kX86Matmul,
     "to[i] = operand.word(row + i, at);\n    for (int64_t i = rows;",
     "to[i] = i + 1 < rows ? operand.word(row + i, at) : 0;\n    for (int64_t i = rows;", "program_tests",
     "Kernels.DotInEveryOrientation"},
    // Attention on GPUs, for every architecture.
    {"attention_skipped_keys", "GPU attention: the second tile of keys is skipped", kAttention,
     "process_tile(key, stage);\n", "if (key != P::kKeyTile) process_tile(key, stage);\n", "kernels_tests",
     "Devices/AttentionOnDevices.FullAndCausalInEveryType/emulator_gfx942"},
    {"attention_stale_stage", "GPU attention: tiles are read from the first stage alone", kAttention,
     "process_tile(key, stage);\n", "process_tile(key, 0);\n", "kernels_tests",
     "Devices/AttentionOnDevices.FullAndCausalInEveryType/emulator_sm_90a"},
    {"attention_transposed_fragment", "GPU attention: a fragment of values is not transposed", kAttention,
     "load_fragment_transposed(values, tile(stage, 1) + n * 16 * kStride + 16 * d, kStride);",
     "load_fragment(values, tile(stage, 1) + n * 16 * kStride + 16 * d, kStride);", "kernels_tests",
     "Devices/AttentionOnDevices.FullAndCausalInEveryType/emulator_sm_90a"},
    {"attention_no_maximum", "GPU attention: softmax does not subtract the maximum", kAttention,
     "largest = __builtin_fmaxf(largest, maximum_[r][slot]);", "largest = 0.0f;", "kernels_tests",
     "Devices/AttentionOnDevices.ScoresFarFromZero/emulator_gfx942"},
    {"attention_no_rescale", "GPU attention: the sum of weights is not scaled to a new maximum", kAttention,
     "sum_[r][slot] *= rescale;", "", "kernels_tests",
     "Devices/AttentionOnDevices.FullAndCausalInEveryType/emulator_gfx942"},
    {"attention_wrong_head", "GPU attention: queries read the keys of another head", kAttention,
     "kv_head_ = h_ / (p.query_heads / p.kv_heads);", "kv_head_ = h_ % p.kv_heads;", "kernels_tests",
     "Devices/AttentionOnDevices.GroupedQueriesAndOtherLengths/emulator_sm_90a"},
    {"attention_store_rounding", "GPU attention: results are cut to bf16 instead of rounded", kAttention,
     "to_operand<T>(output_[r][d].v[i] * inverse)",
     "to_operand<T>(__builtin_bit_cast(float, __builtin_bit_cast(uint32_t, output_[r][d].v[i] * inverse) & "
     "0xffff0000u))",
     "kernels_tests", "Devices/AttentionOnDevices.FullAndCausalInEveryType/emulator_gfx942"},
    {"attention_mask_edge", "GPU attention: the mask is off by one key", kTile, "p.mask(b, h, t_inside, s_inside)",
     "p.mask(b, h, t_inside, s_inside + 1)", "kernels_tests",
     "Devices/AttentionOnDevices.FullAndCausalInEveryType/emulator_gfx942"},
    {"attention_lost_tail", "GPU attention: the last key is left out", kTile, "bool seen = s < keys;",
     "bool seen = s < keys - 1;", "kernels_tests",
     "Devices/AttentionOnDevices.FullAndCausalInEveryType/emulator_gfx942"},
    {"attention_zero_dq", "GPU attention: dq is zero", kGradient, "this->store(sums_, p.scale,",
     "this->store(sums_, 0.0f,", "kernels_tests",
     "Devices/AttentionOnDevices.FullAndCausalInEveryType/emulator_gfx942"},
    {"attention_zero_dk", "GPU attention: dk is zero", kGradient, "this->store(dk_, p.scale,", "this->store(dk_, 0.0f,",
     "kernels_tests", "Devices/AttentionOnDevices.FullAndCausalInEveryType/emulator_gfx942"},
    {"attention_zero_dv", "GPU attention: dv is zero", kGradient, "this->store(dv_, 1.0f,", "this->store(dv_, 0.0f,",
     "kernels_tests", "Devices/AttentionOnDevices.FullAndCausalInEveryType/emulator_gfx942"},
    {"attention_no_score_gradient", "GPU attention: the score function is not differentiated", kGradient,
     "dproduct *= p.score_gradient(", "dproduct += 0.0f * p.score_gradient(", "kernels_tests",
     "Devices/AttentionOnDevices.ScoresWithTheirGradients/emulator_gfx942"},
    // Attention on Hopper.
    {"hopper_attention_skipped_keys", "Hopper attention: a tile of keys is skipped", kHopperTile,
     "kinds_ = other < limit ? kinds(other) : 0;", "kinds_ = other < limit && other != kOthers ? kinds(other) : 0;",
     "kernels_tests", "Devices/WideHeads.FullAndCausal/emulator_sm_90a"},
    {"hopper_attention_stale_stage", "Hopper attention: values are read from the first stage alone", kHopperAttention,
     "        multiply_weights<P, P::kKeyTile>(output, weights, shared_.values[values_.stage]);",
     "        multiply_weights<P, P::kKeyTile>(output, weights, shared_.values[0]);", "kernels_tests",
     "Devices/WideHeads.FullAndCausal/emulator_sm_90a"},
    {"hopper_attention_no_rescale", "Hopper attention: the sum of weights is not scaled to a new maximum",
     kHopperAttention, "sum[slot] *= rescale[slot];", "", "kernels_tests",
     "Devices/WideHeads.ScoresFarFromZero/emulator_sm_90a"},
    {"hopper_attention_output_not_rescaled", "Hopper attention: output is not scaled to a new maximum",
     kHopperAttention, "if (!grown) return;", "return;", "kernels_tests",
     "Devices/WideHeads.ScoresFarFromZero/emulator_sm_90a"},
    {"hopper_attention_no_maximum", "Hopper attention: softmax does not subtract the maximum", kHopperAttention,
     "const float largest = grown ? greatest[slot] : maximum[slot];", "const float largest = 0.0f;", "kernels_tests",
     "Devices/WideHeads.ScoresFarFromZero/emulator_sm_90a"},
    {"hopper_attention_mask_left_out", "Hopper attention: tiles seen in part are taken as seen whole", kHopperAttention,
     "kind_of(note.kinds, group_) != 2", "kind_of(note.kinds, group_) == 0", "kernels_tests",
     "Devices/WideHeads.FullAndCausal/emulator_sm_90a"},
    {"hopper_attention_wrong_head", "Hopper attention: queries read the keys of another head", kHopperAttention,
     "head / heads, h, h / group};", "head / heads, h, h % static_cast<int32_t>(p.kv_heads)};", "kernels_tests",
     "Devices/WideHeads.FullAndCausal/emulator_sm_90a"},
    {"hopper_attention_lost_inner", "Hopper attention: the last 16 of the inner dimension are dropped", kHopperTile,
     "for (int d = 0; d < P::kHeadDim; d += 16)", "for (int d = 0; d < P::kHeadDim - 16; d += 16)", "kernels_tests",
     "Devices/WideHeads.FullAndCausal/emulator_sm_90a"},
    {"hopper_attention_exchanged_queries", "Hopper attention: queries in registers are exchanged", kHopperTile,
     "line + i % 2 * 8, 2 * step + i / 2", "line + i / 2 * 8, 2 * step + i % 2", "kernels_tests",
     "Devices/WideHeads.FullAndCausal/emulator_sm_90a"},
    {"hopper_attention_zero_dq", "Hopper attention: dq is zero", kHopperGradient,
     "store_lines<P, kLines>(sums, factors,", "store_lines<P, kLines>(sums, {0.0f, 0.0f},", "kernels_tests",
     "Devices/WideHeads.FullAndCausal/emulator_sm_90a"},
    {"hopper_attention_zero_dk", "Hopper attention: dk is zero", kHopperGradient, "store_lines<P, kLines>(dk, factors,",
     "store_lines<P, kLines>(dk, {0.0f, 0.0f},", "kernels_tests", "Devices/WideHeads.FullAndCausal/emulator_sm_90a"},
    {"hopper_attention_zero_dv", "Hopper attention: dv is zero", kHopperGradient, "store_lines<P, kLines>(dv, factors,",
     "store_lines<P, kLines>(dv, {0.0f, 0.0f},", "kernels_tests", "Devices/WideHeads.FullAndCausal/emulator_sm_90a"},
    {"hopper_attention_lost_task", "Hopper attention: every second tile of a head is left out", kHopperOrder,
     "tile = rest / together;", "tile = rest / together / 2 * 2;", "kernels_tests",
     "Devices/WideHeads.ManyTiles/emulator_sm_90a"},
    {"hopper_attention_lost_heads", "Hopper attention: dk and dv sum over the first head of a group alone", kHopperTile,
     "if (h_ + 1 >= end_) return;", "return;", "kernels_tests", "Devices/WideHeads.FullAndCausal/emulator_sm_90a"},
    // Products on GPUs, for every architecture.
    {"matmul_lost_slice", "GPU product: the last slice of k is dropped", kMatmul,
     "for (int slice = 0; slice < slices; ++slice) {\n    copy_async_wait",
     "for (int slice = 0; slice + (slices > 1 ? 1 : 0) < slices; ++slice) {\n    copy_async_wait", "kernels_tests",
     "Devices/GpuMatmul.EveryOrientationAndType/emulator_gfx942"},
    {"matmul_lost_tail", "GPU product: the last of an odd k is dropped", kMatmul,
     "line < lines && depth + e < k_end : depth < k_end && line + e < lines",
     "line < lines && depth + e + 1 < k_end : depth < k_end && line + e < lines", "kernels_tests",
     "Devices/GpuMatmul.SizesThatNoTileDivides/emulator_gfx942"},
    {"matmul_stale_stage", "GPU product: slices of A are read from the first stage alone", kMatmul,
     "sums.template add<kTile.k>(a_slice(stage)", "sums.template add<kTile.k>(a_slice(0)", "kernels_tests",
     "Devices/GpuMatmul.SeveralTilesInEveryOrientation/emulator_sm_80"},
    {"matmul_transposed_fragment", "GPU product: a fragment of B is not transposed", kMatmul,
     "load_fragment_transposed(b[j], b_slice", "load_fragment(b[j], b_slice", "kernels_tests",
     "Devices/GpuMatmul.EveryOrientationAndType/emulator_sm_80"},
    {"matmul_lost_split", "GPU product: one part of a split k is not added", kMatmul,
     "for (int split = 0; split < Problem::kSplits; ++split) {",
     "for (int split = 1; split < Problem::kSplits; ++split) {", "kernels_tests",
     "Devices/GpuMatmul.LongSumsAreSplitAndFollowedByTheirEpilogue/emulator_gfx942"},
    {"tf32_cut", "tf32 product: operands are cut instead of rounded", kTf32, "bits + 0x1000u : bits)", "bits : bits)",
     "kernels_tests", "Devices/GpuMatmul.Tf32RoundsOperandsAndNothingElse/emulator_sm_80"},
    {"f8_lost_factor", "8-bit product on CDNA 3: the factor of its formats is left out", kF8, "kIsF8Pair<T> ? 4 : 1",
     "kIsF8Pair<T> ? 1 : 1", "kernels_tests",
     "Devices/GpuMatmul.EightBitOperandsAreMultipliedAsTheyAre/emulator_gfx942"},
    // Products on Hopper.
    {"hopper_matmul_lost_step", "Hopper product: the last 16 of each slice of k are dropped", kHopperMatmul,
     "for (int step = 0; step < kDepth / 16; ++step)", "for (int step = 0; step < kDepth / 16 - 1; ++step)",
     "kernels_tests", "HopperMatmul.EveryOrientation"},
    {"hopper_matmul_stale_stage", "Hopper product: slices are read from the first stage alone", kHopperMatmul,
     "char* stage = shared.stages + ring.stage * hopper_matmul_stage_bytes(kTile);", "char* stage = shared.stages;",
     "kernels_tests", "HopperMatmul.EveryOrientation"},
    {"hopper_matmul_wrong_rows", "Hopper product: the second warpgroup multiplies the first one's rows", kHopperMatmul,
     "matrix_descriptor(stage + first_block * kBoxBytes,", "matrix_descriptor(stage + 0 * group,", "kernels_tests",
     "HopperMatmul.EveryOrientation"},
    {"hopper_matmul_sums_kept", "Hopper product: sums of the tile before are kept", kHopperMatmul,
     "!begins || step > 0", "true", "kernels_tests", "HopperMatmul.BlocksComputeManyTiles"},
    {"hopper_matmul_lost_tile", "Hopper product: a tile of odd number is stored as the one before it", kHopperMatmul,
     "index < schedule.work ? index :", "index < schedule.work ? index / 2 * 2 :", "kernels_tests",
     "HopperMatmul.BlocksComputeManyTiles"},
    {"hopper_matmul_lost_part", "Hopper product: of a split k only the last part is kept", kHopperMatmul,
     "sums[i] += from[i / 4 * 512 + i % 4];", "sums[i] = from[i / 4 * 512 + i % 4];", "kernels_tests",
     "HopperMatmul.TheLastTilesAreSplit"},
    {"hopper_matmul_stale_fetch", "Hopper product: a residual is fetched for the first rows alone", kHopperMatmul,
     "fetch(first + i, fetched[i]);", "fetch(first, fetched[i]);", "kernels_tests", "HopperMatmul.EveryOrientation"},
    {"hopper_matmul_f8_lost_sum", "Hopper product of 8 bits: only the last partial sum is kept", kHopperMatmul,
     "totals[i] += sums[0][i];", "totals[i] = sums[0][i];", "kernels_tests",
     "Devices/GpuMatmul.EightBitOperandsAreMultipliedAsTheyAre/emulator_sm_90a"},
    // What code generation writes around products.
    {"missing_bias", "GPU product: the bias is left out", kGenerated, "(result + columns.value0[e])",
     "(result + 0.0f * columns.value0[e])", "kernels_tests",
     "Devices/GpuMatmul.BiasActivationResidualAndTwoResults/emulator_gfx942"},
    {"missing_scale", "8-bit product on Hopper: the scale of its operands is left out", kGenerated, "(result * t0)",
     "(result + 0.0f * t0)", "kernels_tests",
     "Devices/GpuMatmul.EightBitOperandsAreMultipliedAsTheyAre/emulator_sm_90a"},
    {"x86_missing_bias", "x86 product: the bias is left out", kGenerated, "(result + t0)", "(result + 0.0f * t0)",
     "program_tests", "Kernels.DotWithEpilogue"},
    // Sums, and what is fused with them.
    {"lost_lane", "GPU sums: a wave's last exchange is left out", kReduce,
     "value = operation(value, exchange_xor(value, mask));",
     "value = mask == 16 ? value : operation(value, exchange_xor(value, mask));", "program_tests",
     "Devices/KernelsOnGpu.RowsOfEveryLength/emulator_sm_90a"},
    {"lost_row", "GPU column sums: the last row of threads is not added", kReduce,
     "for (int other = 1; other < kRows; ++other) {", "for (int other = 1; other < kRows - 1; ++other) {",
     "program_tests", "Devices/KernelsOnGpu.ColumnSumsInParts/emulator_gfx942"},
    // Loops that share a launch.
    {"alike_lost_kernel", "GPU loops of one launch: every second one does the work of the one before", kIntrinsics,
     "a.buffers + kernel * (buffer_count)", "a.buffers + kernel / 2 * 2 * (buffer_count)", "program_tests",
     "Devices/HorizontalFusion.UpdatesOfManyTensors/emulator_sm_90a"},
    {"alike_lost_block", "GPU loops of one launch: each does its first block over and over", kIntrinsics,
     "block_index() / (kernel_count)", "block_index() / (kernel_count) * 0", "program_tests",
     "Devices/HorizontalFusion.UpdatesOfManyTensors/emulator_gfx942"},
    {"bf16_cut", "every store of bf16 is cut instead of rounded", kTypes,
     "uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;", "uint32_t rounded = bits >> 16;",
     "program_tests", "Devices/KernelsOnGpu.VectorsWithAndWithoutATail/emulator_gfx942"},
};

}  // namespace

std::span<const PlantedFault> planted_faults() { return kFaults; }

}  // namespace causeway
