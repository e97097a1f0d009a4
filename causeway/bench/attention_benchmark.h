// Attention by mask, head dimension and length: forward, and forward with backward, as Causeway compiles them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "causeway/bench/inputs.h"
#include "causeway/bench/result.h"
#include "causeway/bench/timing.h"
#include "causeway/device/device_peaks.h"
#include "causeway/graph/dtype.h"

namespace causeway::bench {

enum class AttentionPattern { kCausal, kFull, kSlidingWindow, kDocument, kAlibi, kSoftCap };

struct AttentionCase {
  AttentionPattern pattern = AttentionPattern::kCausal;
  int64_t batch = 1, length = 4096, heads = 32, key_heads = 8, head_dim = 128;
  int64_t value_dim = 0;  // of values and outputs; 0: as wide as queries and keys
  bool backward = false;  // forward and backward, else forward alone
  DType dtype = DType::kBF16;
  int64_t window = 1024;  // kSlidingWindow: keys seen, the query's own among them

  std::string group() const;     // "head dimension 128, forward"
  std::string workload() const;  // "causal 4x4096, 32/8 heads of 128, forward"
  std::string widths() const;    // "128", "192 and 128 for values"
  int64_t width_of_values() const { return value_dim == 0 ? head_dim : value_dim; }
};

// Whether the query sees the key. Causal but for kFull; kDocument also within documents of 5, 3, 4, 1, 2 and 1
// sixteenths of the length; kAlibi and kSoftCap see as kCausal does; scores are, of the one,
// score + slope (key - query), of the other 2 tanh(score / 2).
bool attends(const AttentionCase& attention, int64_t query, int64_t key);
// Of all pairs of query and key, the share that is seen. Counted by formula, exact.
double mask_density(const AttentionCase& attention);
// 2 B H T T (D + V) density forward, of two GEMMs, with V of values; with the backward pass 2 B H T T (3 D + 2 V)
// density more, of five.
double attention_flops(const AttentionCase& attention);

// Every pattern, forward and with backward, head dimensions 64 and 128, four query heads to a key head; on a GPU 16,384
// tokens in sequences of 4,096 and 8,192, what fits a device of so much memory; on a CPU one sequence of 512.
std::vector<AttentionCase> standard_attention_cases(bool is_gpu, DType dtype, int64_t memory_bytes);

// What to measure in place of the standard cases; what is left empty is all of a kind.
struct AttentionChoice {
  std::vector<std::string> patterns;    // "causal", "full", "window", "document", "alibi", "softcap"
  std::vector<std::string> directions;  // "forward", "backward" (with the forward pass that it needs)
  // "4x32x8x4096x128": batch, query heads, key heads, sequence length, head dimension, and after that, of values, where
  // it is another one; empty: the standard ones.
  std::vector<std::string> shapes;
  std::optional<int64_t> window;  // of the windowed pattern; without it 1,024 keys, of short sequences a quarter
};

// Throws Error(kInvalidArgument): a name that is none, with the nearest; a shape of another form, or whose key heads do
// not divide its query heads; a window that no chosen pattern has.
std::vector<AttentionCase> choose_attention_cases(const AttentionChoice& choice, bool is_gpu, DType dtype,
                                                  int64_t memory_bytes);

// Device pointers. q, dq [B, T, H, D]; dout, out [B, T, H, V]; k, dk [B, T, K, D]; v, dv [B, T, K, V]; gradients are
// null without backward. `extra`: i32 [B, T], the document of each position, for kDocument; f32 [H], the heads' slopes,
// for kAlibi; else null.
struct AttentionBuffers {
  void *q = nullptr, *k = nullptr, *v = nullptr, *dout = nullptr, *extra = nullptr;
  void *out = nullptr, *dq = nullptr, *dk = nullptr, *dv = nullptr;
};

struct AttentionSettings {
  InputDistribution inputs = InputDistribution::kNormal;
  TimingOptions timing;
};

struct AttentionProvider {
  std::string name;
  std::function<TimedWork(const AttentionCase& attention, const AttentionBuffers& buffers)> prepare;
};

// tensor/attention_ops.h in a step, on the current runtime's device.
AttentionProvider causeway_attention();

// One measurement for each provider, in TFLOP/s, of the current runtime's device. Before the timing and after each
// round, rows of out and dq are compared with a softmax in double; before and at the end, for one key head,
// sum_j dv_j with sum_i dout_i and sum_j k_j . dk_j with sum_i q_i . dq_i (equal for every mask: each query sees a
// key). Nothing, with a sentence in `skipped`, when the operands do not fit the memory. Throws Error(kInvalidArgument)
// when the key heads do not divide the query heads.
std::vector<Measurement> run_attention(Device& device, const AttentionCase& attention,
                                       const std::vector<AttentionProvider>& providers,
                                       const AttentionSettings& settings, const std::optional<DevicePeak>& peak,
                                       std::vector<std::string>& skipped);

}  // namespace causeway::bench
