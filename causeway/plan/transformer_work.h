// The work of a step of a decoder-only transformer from its sizes alone, for what no program of ours can be traced for:
// published runs of other trainers, pipelines among them. Where both are possible, tests hold it to the program's
// graph.
//
// Methods: tensor parallelism, Shoeybi et al., arXiv 1909.08053; sequence parallelism and selective recomputation,
// Korthikanti et al., 2205.05198; pipelines, Narayanan et al., 2104.04473; cut weights, Rajbhandari et al., 1910.02054.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "causeway/plan/step_work.h"
#include "causeway/plan/work.h"

namespace causeway::plan {

struct TransformerShape {
  int64_t layers = 1;
  int64_t width = 1;
  int64_t heads = 1;
  int64_t kv_heads = 1;
  int64_t head_dim = 1;
  int64_t ffn_width = 1;
  bool gated = false;  // two GEMMs into the feed-forward width (SwiGLU), otherwise one (GELU)
  int64_t vocabulary = 1;
  int64_t sequence = 1;
  // Attention in one kernel, with half of the pairs computed (causal); otherwise as GEMMs and a softmax over all
  // pairs in memory.
  bool fused_attention = true;

  double parameters() const;
};

enum class Recomputation { kNone, kAttention, kLayer };

struct TransformerRun {
  int64_t dp = 1;    // ranks with the same weights
  int64_t fsdp = 1;  // ranks that share weights, gathered layer by layer
  int64_t tp = 1;
  bool sequence_parallel = false;
  int64_t cp = 1;  // ranks that share each sequence and have the same weights, which our own do not (held_share())
  int64_t pp = 1;
  int64_t virtual_stages = 1;  // chunks of layers that each stage holds, interleaved
  int64_t micro_batch = 1;     // sequences
  int64_t micro_batches = 1;   // of one rank in a step
  Recomputation recompute = Recomputation::kNone;
  double weight_bytes = 2;    // of an element as it is gathered
  double gradient_bytes = 4;  // of an element as it is reduced

  int64_t devices() const { return dp * fsdp * tp * cp * pp; }
  double tokens(const TransformerShape& shape) const {
    return static_cast<double>(micro_batch * micro_batches * dp * fsdp * shape.sequence);
  }
};

// One micro-batch forward and backward, of one rank, through that many layers, with the embedding, the output layer and
// the loss where `ends`. Weights that are cut are gathered a layer ahead.
std::vector<Work> micro_batch_work(const TransformerShape& shape, const TransformerRun& run, int64_t layers, bool ends,
                                   int64_t devices_per_node);

// On nodes of that many devices.
StepWork describe_step(const TransformerShape& shape, const TransformerRun& run, int64_t devices_per_node);

}  // namespace causeway::plan
