// What attention is to the kernels of attention.h, attention_cdna.h, attention_one_query.h, attention_hopper.h and
// those of the gradient, as concepts: a Problem, which code generation writes (codegen/gpu/attention_kernel.cpp). What
// is computed graph.h says (AttentionSpec). h counts the heads of queries, of k and v those of keys.
#pragma once

#include "causeway/kernels/gpu/attention_one_query_layout.h"
#include "causeway/kernels/gpu/attention_tile_layout.h"
#include "causeway/kernels/gpu/intrinsics.h"
#include "causeway/kernels/gpu/same_type.h"

// tanh(x) for scores, whose error counts as such, not as a share of them: at most 4e-7, as that of tanh_f32() where the
// result is near 1.
CAUSEWAY_INLINE float score_tanh(float x) {
  return __builtin_fmaf(-2.0f, fast_reciprocal(fast_exp2(x * 2.88539008f) + 1.0f), 1.0f);
}

// Operand: what is multiplied: bf16, f16, float or tf32. kHeadDim: of queries and keys; kValueDim: of values and
// outputs. kBlockQ, kBlockK: of the block map. scale: what q . k is
// multiplied by, before there is a score. Sizes are static constexpr int64_t where they are known when the kernel is
// written, otherwise members; query_heads is a multiple of kv_heads.
template <class P>
concept AttentionWithSizes = requires(const P& problem) {
  typename P::Operand;
  { P::kHeadDim } -> SameType<int>;
  { P::kValueDim } -> SameType<int>;
  { P::kBlockQ } -> SameType<int>;
  { P::kBlockK } -> SameType<int>;
  { P::scale } -> SameType<float>;
  { problem.batch } -> SameType<int64_t>;
  { problem.query_heads } -> SameType<int64_t>;
  { problem.kv_heads } -> SameType<int64_t>;
  { problem.query_length } -> SameType<int64_t>;
  { problem.key_length } -> SameType<int64_t>;
};

// Elements, for operands that do not lie in memory as kernels want them.
template <class P>
concept AttentionWithElements = requires(const P& problem, int64_t b, int64_t h, int64_t position, int64_t d) {
  { problem.load_q(b, h, position, d) } -> SameType<float>;
  { problem.load_k(b, h, position, d) } -> SameType<float>;
  { problem.load_v(b, h, position, d) } -> SameType<float>;
};

// kHasScore: score() gives what enters the softmax from scale q . k. kScoreAddsDistance: it is
// x + distance_factor(b, h) (s - t).
template <class P>
concept AttentionWithScore = requires {
  { P::kHasScore } -> SameType<bool>;
  { P::kScoreAddsDistance } -> SameType<bool>;
} && (!P::kHasScore || requires(const P& problem, int64_t b, int64_t h, int32_t t, int32_t s, float x) {
                               { problem.score(b, h, t, s, x) } -> SameType<float>;
                             }) && (!P::kScoreAddsDistance || requires(const P& problem, int64_t b, int64_t h) {
                               { problem.distance_factor(b, h) } -> SameType<float>;
                             });

// kHasMask: mask() says whether a query attends to a key. kMaskReadsMemory: of captured tensors. kHasBlockMap:
// block_kind() is the map's (attention_block_map.h), block_row() where a row of it lies: of kMapRowPieces pieces of 16
// bytes, or 0 where that is not known. kMapHasHeads: those of heads differ.
template <class P>
concept AttentionWithMask =
    requires {
      { P::kHasMask } -> SameType<bool>;
      { P::kMaskReadsMemory } -> SameType<bool>;
      { P::kHasBlockMap } -> SameType<bool>;
    } && (!P::kHasMask || requires(const P& problem, int64_t b, int64_t h, int32_t t, int32_t s) {
      { problem.mask(b, h, t, s) } -> SameType<bool>;
    }) && (!P::kHasBlockMap || requires(const P& problem, int64_t b, int64_t h, int64_t q_block, int64_t k_block) {
      { problem.block_kind(b, h, q_block, k_block) } -> SameType<uint8_t>;
      { problem.block_row(b, h, q_block) } -> SameType<const uint8_t*>;
      { P::kMapRowPieces } -> SameType<int>;
      { P::kMapHasHeads } -> SameType<bool>;
    });

template <class P>
concept AttentionInputs =
    AttentionWithSizes<P> && AttentionWithElements<P> && AttentionWithScore<P> && AttentionWithMask<P>;

// What the forward pass leaves: the output, and the logarithm of the sum of exponentials.
template <class P>
concept AttentionResults = requires(const P& problem, int64_t b, int64_t h, int64_t t, int64_t d, float value) {
  problem.store_out(b, h, t, d, value);
  problem.store_lse(b, h, t, value);
};

// score_gradient(): d score / d x. kScoreIsShifted: it is 1. delta: the sum of output times its gradient, less that of
// lse.
template <class P>
concept AttentionGradients =
    requires(const P& problem, int64_t b, int64_t h, int64_t position, int64_t d, float value) {
      { P::kScoreIsShifted } -> SameType<bool>;
      { problem.load_out_gradient(b, h, position, d) } -> SameType<float>;
      { problem.load_lse(b, h, position) } -> SameType<float>;
      { problem.load_delta(b, h, position) } -> SameType<float>;
      problem.store_dq(b, h, position, d, value);
      problem.store_dk(b, h, position, d, value);
      problem.store_dv(b, h, position, d, value);
    } && (!P::kHasScore || requires(const P& problem, int64_t b, int64_t h, int32_t t, int32_t s, float x) {
      { problem.score_gradient(b, h, t, s, x) } -> SameType<float>;
    });

// Operands that are read by address: kDirectQ and its like say which lie in memory as rows, contiguous and aligned to
// 16 bytes; of those q_row(b, h, t) and its like are the addresses.
template <class P>
concept AttentionByAddress = requires {
  { P::kDirectQ } -> SameType<bool>;
  { P::kDirectK } -> SameType<bool>;
  { P::kDirectV } -> SameType<bool>;
} && (!P::kDirectQ || requires(const P& problem, int64_t b, int64_t h, int64_t t) {
                               { problem.q_row(b, h, t) } -> SameType<const typename P::Operand*>;
                             }) && (!P::kDirectK || requires(const P& problem, int64_t b, int64_t h, int64_t s) {
                               { problem.k_row(b, h, s) } -> SameType<const typename P::Operand*>;
                             }) && (!P::kDirectV || requires(const P& problem, int64_t b, int64_t h, int64_t s) {
                               { problem.v_row(b, h, s) } -> SameType<const typename P::Operand*>;
                             });
template <class P>
concept AttentionGradientByAddress = AttentionByAddress<P> && requires {
  { P::kDirectGradient } -> SameType<bool>;
} && (!P::kDirectGradient || requires(const P& problem, int64_t b, int64_t h, int64_t t) {
                                       { problem.out_gradient_row(b, h, t) } -> SameType<const typename P::Operand*>;
                                     });

// Operands of 16 bits that TMA loads, by tensor maps of [D][T][H][B] in boxes of 64 columns and
// hopper_attention_box_lines() of a tile's lines, whose numbers are kMapQ and its like; -1: elements are computed.
// kComputesOperands: of any of them.
template <class P>
concept AttentionByTma =
    sizeof(typename P::Operand) == 2 && hopper_attention_serves(P::kHeadDim, P::kValueDim) && requires {
      { P::kMapQ } -> SameType<int>;
      { P::kMapK } -> SameType<int>;
      { P::kMapV } -> SameType<int>;
      { P::kComputesOperands } -> SameType<bool>;
    };

// Of attention.h.
template <class P>
concept AttentionProblem = AttentionInputs<P> && AttentionResults<P> && AttentionByAddress<P> &&
                           SameType<decltype(P::kTile), GpuAttentionTile>;

// Of attention_cdna.h: keys and values in memory, of one width, whole fragments.
template <class P>
concept CdnaAttentionProblem = AttentionProblem<P> && P::kTile.ping_pong && P::kTile.waves == 8 &&
                               P::kTile.keys == 64 && P::kDirectK && P::kDirectV && sizeof(typename P::Operand) == 2 &&
                               gpu_attention_padded_dim(P::kHeadDim) == P::kHeadDim && P::kValueDim == P::kHeadDim;

// Of attention_one_query.h: all rows in memory, of one width. workspace: for what blocks leave of their parts, where
// there are several.
template <class P>
concept OneQueryAttentionProblem =
    AttentionInputs<P> && AttentionResults<P> && AttentionByAddress<P> && P::kDirectQ && P::kDirectK && P::kDirectV &&
    P::kValueDim == P::kHeadDim && SameType<decltype(P::kTile), OneQueryAttentionTile> && requires(const P& problem) {
      { problem.workspace } -> SameType<float*>;
    };

// Of attention_hopper.h.
template <class P>
concept HopperAttentionProblem = AttentionInputs<P> && AttentionResults<P> && AttentionByTma<P> &&
                                 SameType<decltype(P::kTile), HopperAttentionTile> && P::kTile.keys % 16 == 0;

// Of attention_gradient.h.
template <class P>
concept AttentionGradientProblem = AttentionInputs<P> && AttentionGradients<P> && AttentionGradientByAddress<P> &&
                                   SameType<decltype(P::kTile), GpuAttentionGradientTile>;

// Of attention_cdna_gradient.h: all operands in memory, of one width, whole fragments.
template <class P>
concept CdnaAttentionGradientProblem =
    AttentionGradientProblem<P> && P::kTile.ping_pong && P::kTile.waves == 8 && P::kTile.others == 32 && P::kDirectQ &&
    P::kDirectK && P::kDirectV && P::kDirectGradient && sizeof(typename P::Operand) == 2 &&
    gpu_attention_padded_dim(P::kHeadDim) == P::kHeadDim && P::kValueDim == P::kHeadDim;

// Of attention_hopper_gradient.h.
template <class P>
concept HopperAttentionGradientProblem =
    AttentionInputs<P> && AttentionGradients<P> && AttentionByTma<P> &&
    SameType<decltype(P::kTile), HopperAttentionGradientTile> &&
    (P::kTile.wide() || hopper_attention_gradient_serves(P::kHeadDim, P::kValueDim)) && requires {
      { P::kMapGradient } -> SameType<int>;
    };

// Of attention_hopper_joint_gradient.h, which says what workspace holds: all operands in memory.
template <class P>
concept HopperAttentionJointProblem = HopperAttentionGradientProblem<P> && P::kTile.joint() && P::kTile.groups == 2 &&
                                      P::kTile.others == 64 && !P::kComputesOperands && requires(const P& problem) {
                                        { problem.workspace } -> SameType<float*>;
                                      };

// Of attention_hopper_wide_gradient.h.
template <class P>
concept HopperAttentionWideProblem = HopperAttentionGradientProblem<P> && P::kTile.wide() && P::kTile.groups == 2 &&
                                     P::kTile.others == 64 && !P::kComputesOperands;
