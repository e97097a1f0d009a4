// Attention on Hopper (sm_90a), forward, for the problem that attention.h describes, with operands of 16 bits and heads
// of 64 or 128 elements: one warpgroup copies tiles of keys and values into rings in shared memory, the others have 64
// queries each and multiply by wgmma. While the products of weights and values of one tile run, the softmax of the next
// one is computed (FlashAttention-3, Shah et al., arXiv 2407.08608).
//
// The problem P provides, in place of kWaves, kMapIsUsable and kDimPadded,
//   static constexpr int kGroups;    // warpgroups that multiply; kQueryTile is 64 of each
#pragma once

#include "causeway/kernels/gpu/attention_tile.h"
#include "causeway/kernels/gpu/hopper.h"

namespace attention_hopper {

using attention_tile::kInfinity;
using attention_tile::kLn2;
using attention_tile::kLog2E;

// Tiles lie in shared memory as the matrix unit wants them: boxes of 64 columns, lines of 128 bytes, of which pieces of
// 16 bytes are exchanged by the number of the line (the 128-byte swizzle).
template <class T>
CAUSEWAY_INLINE T* tile_piece(T* tile, int lines, int line, int piece) {
  return tile + (piece / 8 * lines + line) * 64 + ((piece % 8) ^ (line % 8)) * 8;
}

// What the copying warpgroup tells the others of a tile.
struct TileNote {
  int32_t key;    // the first; -1 when there are no more tiles
  int32_t kinds;  // two bits for each warpgroup
};

constexpr int kPlannedTiles = 128;

// What a block shares. codegen/gpu_attention_geometry.h counts its bytes.
template <class P>
struct Shared {
  using T = typename P::Operand;
  T queries[P::kQueryTile * P::kHeadDim];
  T keys[P::kStages][P::kKeyTile * P::kHeadDim];
  T values[P::kStages][P::kKeyTile * P::kHeadDim];
  TransferBarrier queries_full;
  TransferBarrier keys_full[P::kStages], keys_empty[P::kStages];
  TransferBarrier values_full[P::kStages], values_empty[P::kStages];
  TileNote notes[P::kStages];
  uint8_t plan[kPlannedTiles];  // of the next tiles, as TileNote::kinds
};

template <int kStages>
struct Ring {
  int stage = 0;
  int parity = 0;
  CAUSEWAY_INLINE void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

// Which queries a block has.
template <class P>
struct Place {
  int64_t first_query, b, h, kv_head;
  CAUSEWAY_INLINE Place(const P& p, int task) {
    const int64_t heads = p.batch * p.query_heads;
    const int64_t tiles = (p.query_length + P::kQueryTile - 1) / P::kQueryTile;
    // Later queries see more keys under a causal mask: they start first.
    first_query = (tiles - 1 - task / heads) * P::kQueryTile;
    b = task % heads / p.query_heads;
    h = task % heads % p.query_heads;
    kv_head = h / (p.query_heads / p.kv_heads);
  }
};

// The copying warpgroup.
template <class P>
class Copier {
  using T = typename P::Operand;

 public:
  CAUSEWAY_INLINE Copier(const P& problem, const Place<P>& place, Shared<P>& shared)
      : p(problem), at_(place), shared_(shared) {}

  CAUSEWAY_INLINE void run() {
    copy<P::kQueryTile, P::kDirectQ>(
        shared_.queries, at_.first_query, p.query_length, [&](int64_t t) { return p.q_row(at_.b, at_.h, t); },
        [&](int64_t t, int d) { return p.load_q(at_.b, at_.h, t, d); });
    announce(&shared_.queries_full);
    Ring<P::kStages> ring;
#pragma clang loop unroll(disable)
    for (int64_t key = 0; key < p.key_length; key += P::kKeyTile) {
      int kinds = kKindWithoutMap;
      if constexpr (P::kHasBlockMap) {
        if (key % kPlanned == 0) plan(key);
        kinds = shared_.plan[key % kPlanned / P::kKeyTile];
        if (kinds == 0) continue;
      }
      barrier_wait(&shared_.keys_empty[ring.stage], ring.parity ^ 1);
      note(ring.stage, static_cast<int32_t>(key), kinds);
      copy<P::kKeyTile, P::kDirectK>(
          shared_.keys[ring.stage], key, p.key_length, [&](int64_t s) { return p.k_row(at_.b, at_.kv_head, s); },
          [&](int64_t s, int d) { return p.load_k(at_.b, at_.kv_head, s, d); });
      announce(&shared_.keys_full[ring.stage]);
      barrier_wait(&shared_.values_empty[ring.stage], ring.parity ^ 1);
      copy<P::kKeyTile, P::kDirectV>(
          shared_.values[ring.stage], key, p.key_length, [&](int64_t s) { return p.v_row(at_.b, at_.kv_head, s); },
          [&](int64_t s, int d) { return p.load_v(at_.b, at_.kv_head, s, d); });
      announce(&shared_.values_full[ring.stage]);
      ring.advance();
    }
    barrier_wait(&shared_.keys_empty[ring.stage], ring.parity ^ 1);
    note(ring.stage, -1, 0);
    announce(&shared_.keys_full[ring.stage]);
    copy_async_wait<0>();
    fence_async_shared();
    barrier_arrive(before_);
  }

 private:
  CAUSEWAY_INLINE void note(int stage, int32_t key, int32_t kinds) {
    if (thread_index() == 0) shared_.notes[stage] = {key, kinds};
  }

  // Copies end late: those before the newest are waited for, so that two tiles are always on their way.
  CAUSEWAY_INLINE void announce(TransferBarrier* barrier) {
    copy_async_commit();
    if (before_ != nullptr) {
      copy_async_wait<1>();
      fence_async_shared();
      barrier_arrive(before_);
    }
    before_ = barrier;
  }

  template <int kLines, bool kDirect, class Row, class Element>
  CAUSEWAY_INLINE void copy(T* tile, int64_t first, int64_t limit, Row row, Element element) {
    constexpr int kPieces = P::kHeadDim / 8, kTogether = 128 / kPieces;
    const int piece = thread_index() % kPieces;
#pragma clang loop unroll_count(8)
    for (int round = 0; round < kLines / kTogether; ++round) {
      const int line = round * kTogether + thread_index() / kPieces;
      const bool valid = first + line < limit;
      const int64_t from = valid ? first + line : limit - 1;
      T* to = tile_piece(tile, kLines, line, piece);
      if constexpr (kDirect) {
        copy_async_16(to, row(from) + piece * 8, valid);
      } else {
#pragma clang loop unroll(full)
        for (int e = 0; e < 8; ++e)
          to[e] = attention_tile::to_operand<T>(valid ? element(from, piece * 8 + e) : 0.0f);
      }
    }
  }

  // The kinds of the next kPlannedTiles tiles: one each thread, since reading the map takes long.
  CAUSEWAY_INLINE void plan(int64_t first_key) {
    named_barrier(1 + P::kGroups, 128);  // the plan before has been read
    const int64_t key = first_key + thread_index() * P::kKeyTile;
    shared_.plan[thread_index()] = static_cast<uint8_t>(key < p.key_length ? tile_kinds(key) : 0);
    named_barrier(1 + P::kGroups, 128);
  }

  // For each warpgroup that multiplies, what the map says of all blocks that its part of the tile touches: 0 when
  // nothing attends, 2 when all does, 1 otherwise.
  CAUSEWAY_INLINE int tile_kinds(int64_t key) const {
    int kinds = 0;
#pragma clang loop unroll(full)
    for (int group = 0; group < P::kGroups; ++group) {
      const int64_t first = at_.first_query + 64 * group;
      const int64_t queries = first + 64 < p.query_length ? first + 64 : p.query_length;
      const int64_t keys = key + P::kKeyTile < p.key_length ? key + P::kKeyTile : p.key_length;
      bool any = false, all = true;
      for (int64_t q = first / P::kBlockQ; q * P::kBlockQ < queries; ++q) {
        for (int64_t k = key / P::kBlockK; k * P::kBlockK < keys; ++k) {
          const uint8_t block = p.block_kind(at_.b, at_.h, q, k);
          any = any || block != 0;
          all = all && block == 2;
        }
      }
      kinds |= (!any ? 0 : all ? 2 : 1) << 2 * group;
    }
    return kinds;
  }

  static constexpr int kPlanned = kPlannedTiles * P::kKeyTile;
  // Without a map: every position, or what the mask says.
  static constexpr int kKindWithoutMap = (P::kHasMask ? 0x55 : 0xaa) & ((1 << 2 * P::kGroups) - 1);

  const P& p;
  const Place<P>& at_;
  Shared<P>& shared_;
  TransferBarrier* before_ = nullptr;  // whose copies have begun and not been announced
};

// A warpgroup that multiplies: 64 queries.
template <class P>
class Multiplier {
  using T = typename P::Operand;
  static constexpr int kScores = P::kKeyTile / 2, kOutput = P::kHeadDim / 2;  // of this thread

 public:
  CAUSEWAY_INLINE Multiplier(const P& problem, const Place<P>& place, Shared<P>& shared, int group)
      : p(problem), at_(place), shared_(shared), group_(group), first_line_(place.first_query + 64 * group) {}

  CAUSEWAY_INLINE void run() {
    float scores[kScores], output[kOutput], maximum[2], sum[2], rescale[2];
    uint32_t weights[P::kKeyTile / 16][4];
#pragma clang loop unroll(full)
    for (int i = 0; i < kOutput; ++i) output[i] = 0.0f;
#pragma clang loop unroll(full)
    for (int slot = 0; slot < 2; ++slot) {
      maximum[slot] = -kInfinity;
      sum[slot] = 0.0f;
    }
    barrier_wait(&shared_.queries_full, 0);
    Ring<P::kStages> keys, values;
    barrier_wait(&shared_.keys_full[keys.stage], keys.parity);
    TileNote note = shared_.notes[keys.stage];
    if (note.key >= 0) {
      warpgroup_fence();
      multiply_keys(scores, keys.stage);
      warpgroup_commit();
      warpgroup_wait<0>();
      release(&shared_.keys_empty[keys.stage]);
      keys.advance();
      soften(scores, note, maximum, sum, rescale);
      pack(scores, weights);
#pragma clang loop unroll(disable)
      for (;;) {
        barrier_wait(&shared_.keys_full[keys.stage], keys.parity);
        note = shared_.notes[keys.stage];
        barrier_wait(&shared_.values_full[values.stage], values.parity);
        if (note.key < 0) break;
        warpgroup_fence();
        multiply_keys(scores, keys.stage);
        warpgroup_commit();
        multiply_values(output, weights, values.stage);
        warpgroup_commit();
        warpgroup_wait<1>();
        release(&shared_.keys_empty[keys.stage]);
        keys.advance();
        soften(scores, note, maximum, sum, rescale);
        warpgroup_wait<0>();
        release(&shared_.values_empty[values.stage]);
        values.advance();
#pragma clang loop unroll(full)
        for (int i = 0; i < kOutput; ++i) output[i] *= rescale[(i & 2) / 2];
        pack(scores, weights);
      }
      warpgroup_fence();
      multiply_values(output, weights, values.stage);
      warpgroup_commit();
      warpgroup_wait<0>();
    }
    finish(output, maximum, sum);
  }

 private:
  CAUSEWAY_INLINE void release(TransferBarrier* barrier) {
    if (lane_index() == 0) barrier_arrive(barrier);
  }

  CAUSEWAY_INLINE void multiply_keys(float (&scores)[kScores], int stage) {
    constexpr int kQueryBox = P::kQueryTile * 128, kKeyBox = P::kKeyTile * 128;  // bytes
    const uint64_t a =
        matrix_descriptor(reinterpret_cast<char*>(shared_.queries) + group_ * 64 * 128, kQueryBox, 1024, 128);
    const uint64_t b = matrix_descriptor(shared_.keys[stage], kKeyBox, 1024, 128);
#pragma clang loop unroll(full)
    for (int d = 0; d < P::kHeadDim; d += 16) {
      const int in_line = d % 64 * 2;
      warpgroup_multiply_add<T, P::kKeyTile, false, false>(
          scores, a + static_cast<uint64_t>((d / 64 * kQueryBox + in_line) / 16),
          b + static_cast<uint64_t>((d / 64 * kKeyBox + in_line) / 16), d > 0);
    }
  }

  CAUSEWAY_INLINE void multiply_values(float (&output)[kOutput], const uint32_t (&weights)[P::kKeyTile / 16][4],
                                       int stage) {
    const uint64_t b = matrix_descriptor(shared_.values[stage], P::kKeyTile * 128, 1024, 128);
#pragma clang loop unroll(full)
    for (int step = 0; step < P::kKeyTile / 16; ++step)
      warpgroup_multiply_add<T, P::kHeadDim, true>(output, weights[step], b + static_cast<uint64_t>(step * 16 * 128 / 16),
                                                   true);
  }

  // Scores to weights; what was summed before is to be multiplied by `rescale`.
  CAUSEWAY_INLINE void soften(float (&scores)[kScores], const TileNote& note, float (&maximum)[2], float (&sum)[2],
                              float (&rescale)[2]) {
    const bool masked = P::kHasMask && (note.kinds >> 2 * group_ & 3) != 2;
    float factor = p.scale * kLog2E;
    // Inside and unmasked, which most tiles are, positions do not matter.
    if (P::kHasScore || masked || note.key + P::kKeyTile > p.key_length) {
      modify(scores, note.key, masked);
      factor = 1.0f;
    }
    float shift[2];
#pragma clang loop unroll(full)
    for (int slot = 0; slot < 2; ++slot) {
      float largest = -kInfinity;
#pragma clang loop unroll(full)
      for (int i = 2 * slot; i < kScores; i += 4)
        largest = __builtin_fmaxf(largest, __builtin_fmaxf(scores[i], scores[i + 1]));
      if (p.scale < 0.0f && factor < 0.0f) {
        largest = kInfinity;
#pragma clang loop unroll(full)
        for (int i = 2 * slot; i < kScores; i += 4)
          largest = __builtin_fminf(largest, __builtin_fminf(scores[i], scores[i + 1]));
      }
      largest = attention_tile::over_line(largest * factor, [](float a, float b) { return __builtin_fmaxf(a, b); });
      largest = __builtin_fmaxf(largest, maximum[slot]);
      shift[slot] = largest == -kInfinity ? 0.0f : -largest;
      rescale[slot] = fast_exp2(maximum[slot] + shift[slot]);
      maximum[slot] = largest;
      sum[slot] *= rescale[slot];
    }
#pragma clang loop unroll(full)
    for (int i = 0; i < kScores; ++i) {
      scores[i] = fast_exp2(__builtin_fmaf(scores[i], factor, shift[(i & 2) / 2]));
      sum[(i & 2) / 2] += scores[i];
    }
  }

  CAUSEWAY_INLINE void modify(float (&scores)[kScores], int32_t key, bool masked) const {
    const int32_t line = static_cast<int32_t>(first_line_) + warpgroup_row(0), other = key + warpgroup_column(0);
#pragma clang loop unroll(full)
    for (int i = 0; i < kScores; ++i) {
      scores[i] = attention_tile::modified_score(p, scores[i], at_.b, at_.h, line + (i & 2) * 4,
                                                 other + i / 4 * 8 + (i & 1), masked);
      // What masks load must not be loaded for all columns at first: registers would not suffice.
      if (i % 4 == 3) asm volatile("" ::: "memory");
    }
  }

  // The product's registers of 16 columns are those of a left operand.
  CAUSEWAY_INLINE static void pack(const float (&scores)[kScores], uint32_t (&weights)[P::kKeyTile / 16][4]) {
#pragma clang loop unroll(full)
    for (int step = 0; step < P::kKeyTile / 16; ++step) {
#pragma clang loop unroll(full)
      for (int i = 0; i < 4; ++i) {
        const float low = scores[8 * step + 2 * i], high = scores[8 * step + 2 * i + 1];
        if constexpr (__is_same(T, bf16)) {
          weights[step][i] = pack_bf16(low, high);
        } else {
          weights[step][i] = attention_tile::pack_pair(to_f16(low), to_f16(high));
        }
      }
    }
  }

  CAUSEWAY_INLINE void finish(const float (&output)[kOutput], const float (&maximum)[2], const float (&sum)[2]) {
    // Results take the place of this warpgroup's queries, which its last products have read.
    named_barrier(1 + group_, 128);
    float inverse[2];
#pragma clang loop unroll(full)
    for (int slot = 0; slot < 2; ++slot) {
      const float all = attention_tile::over_line(sum[slot], [](float a, float b) { return a + b; });
      inverse[slot] = all == 0.0f ? 0.0f : 1.0f / all;
      const int64_t line = first_line_ + warpgroup_row(2 * slot);
      if (line < p.query_length && lane_index() % 4 == 0)
        p.store_lse(at_.b, at_.h, line, (maximum[slot] + fast_log2(all)) * kLn2);
    }
#pragma clang loop unroll(full)
    for (int i = 0; i < kOutput; i += 2) {
      const int line = group_ * 64 + warpgroup_row(i), column = warpgroup_column(i);
      T* to = tile_piece(shared_.queries, P::kQueryTile, line, column / 8) + column % 8;
      to[0] = attention_tile::to_operand<T>(output[i] * inverse[(i & 2) / 2]);
      to[1] = attention_tile::to_operand<T>(output[i + 1] * inverse[(i & 2) / 2]);
    }
    wave_barrier();
    constexpr int kPieces = P::kHeadDim / 8;
    const int first = thread_index() % 128 / 32 * 16;  // the wave's lines
    for (int at = lane_index(); at < 16 * kPieces; at += 32) {
      const int line = first + at / kPieces, piece = at % kPieces;
      if (first_line_ + line >= p.query_length) continue;
      const T* from = tile_piece(shared_.queries, P::kQueryTile, group_ * 64 + line, piece);
      float values[8];
#pragma clang loop unroll(full)
      for (int e = 0; e < 8; ++e) values[e] = to_float(from[e]);
#pragma clang loop unroll(full)
      for (int e = 0; e < 8; ++e) p.store_out(at_.b, at_.h, first_line_ + line, piece * 8 + e, values[e]);
    }
  }

  const P& p;
  const Place<P>& at_;
  Shared<P>& shared_;
  int group_;
  int64_t first_line_;
};

}  // namespace attention_hopper

// One block of a launch of batch * query_heads * ceil(query_length / kQueryTile), 128 (kGroups + 1) threads each.
template <class P>
CAUSEWAY_INLINE void hopper_attention_forward(const P& problem, int task) {
  using namespace attention_hopper;
  static_assert(sizeof(typename P::Operand) == 2 && (P::kHeadDim == 64 || P::kHeadDim == 128));
  static_assert(P::kQueryTile == 64 * P::kGroups && P::kKeyTile % 64 == 0);
  auto& shared = *reinterpret_cast<Shared<P>*>(shared_memory());
  if (thread_index() == 0) {
    barrier_init(&shared.queries_full, 128);
    for (int stage = 0; stage < P::kStages; ++stage) {
      barrier_init(&shared.keys_full[stage], 128);
      barrier_init(&shared.values_full[stage], 128);
      barrier_init(&shared.keys_empty[stage], 4 * P::kGroups);
      barrier_init(&shared.values_empty[stage], 4 * P::kGroups);
    }
    barrier_init_fence();
  }
  block_barrier();
  const Place<P> place(problem, task);
  // The registers of the block, 168 for each thread of three warpgroups, go to those that multiply.
  if (thread_index() < 128) {
    if constexpr (P::kGroups == 2) registers_decrease<56>();
    Copier<P>(problem, place, shared).run();
  } else {
    if constexpr (P::kGroups == 2) registers_increase<224>();
    Multiplier<P>(problem, place, shared, thread_index() / 128 - 1).run();
  }
}
