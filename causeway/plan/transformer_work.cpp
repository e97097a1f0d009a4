#include "causeway/plan/transformer_work.h"

#include <algorithm>

namespace causeway::plan {
namespace {

// Bytes that elementwise kernels, norms and dropout move for each element of a layer's values, in 16 bits, where no
// compiler fuses them: forward two norms and two residual sums with dropout over the width, biases of three GEMMs,
// and the activation over the feed-forward width.
constexpr double kWidthBytes = 2 * 14, kFfnBytes = 2 * 4;
// Of each pair of an attention that is not fused: scores, mask and softmax, dropout, each read and written.
constexpr double kPairBytes = 2 * 8;
// Of each parameter: gradient, weight and two moments in f32 read, three written, and the 16-bit copy.
constexpr double kOptimizerBytes = 30;
// Of each logit, forward and backward.
constexpr double kLogitBytes = 16;

class LayerWriter {
 public:
  LayerWriter(const TransformerShape& shape, const TransformerRun& run, int64_t devices_per_node)
      : shape_(shape), run_(run), devices_per_node_(devices_per_node) {
    tokens_ = real(run.micro_batch * shape.sequence) / real(run.cp);
  }

  std::vector<Work> write(int64_t layers, bool ends) {
    for (int64_t layer = 0; layer < layers; ++layer) {
      gather(layer_parameters(), layer == 0 ? kNothing : begins_.back());
      begin();
      forward(true);
    }
    if (ends) output_layer();
    for (int64_t layer = 0; layer < layers; ++layer) {
      if (run_.fsdp > 1 && (layer > 0 || ends)) gather(layer_parameters(), begins_.back());
      begin();
      if (run_.recompute == Recomputation::kLayer) forward(false);
      if (run_.recompute == Recomputation::kAttention) attention_core(1);
      backward();
      reduce(layer_parameters());
    }
    return std::move(list_);
  }

 private:
  double layer_parameters() const {
    const double attention = real(shape_.width * shape_.head_dim) * 2 * real(shape_.heads + shape_.kv_heads);
    return (attention + real(shape_.width * shape_.ffn_width) * (shape_.gated ? 3 : 2)) / real(run_.tp);
  }

  // Compute and the collectives that it waits for run one after the other.
  void in_turn(Work work) {
    if (last_ >= 0) work.after.push_back(last_);
    last_ = static_cast<int>(list_.size());
    list_.push_back(std::move(work));
  }
  void begin() {
    begins_.push_back(last_);
    if (gathered_ >= 0) pending_.push_back(gathered_);
    gathered_ = -1;
  }

  void add_compute(Work work) {
    work.after.insert(work.after.end(), pending_.begin(), pending_.end());
    pending_.clear();
    in_turn(std::move(work));
  }

  void gemm(double m, double n, double k, double times = 1) {
    Work work;
    work.kind = WorkKind::kGemm;
    work.m = m, work.n = n, work.k = k, work.batch = times;
    work.flops = 2 * m * n * k * times;
    add_compute(std::move(work));
  }
  void memory(double bytes) {
    Work work;
    work.bytes = bytes;
    add_compute(std::move(work));
  }

  Work collective(WorkKind kind, double bytes, int64_t ranks, int64_t stride) const {
    Work work;
    work.kind = kind;
    work.queue = kBesideCompute;
    work.bytes = bytes;
    work.ranks = ranks;
    work.ranks_in_node = std::clamp<int64_t>(devices_per_node_ / stride, 1, ranks);
    return work;
  }

  // Of weights over fsdp; not before `after` has ended.
  void gather(double parameters, int after) {
    if (run_.fsdp <= 1) return;
    Work work = collective(WorkKind::kAllGather, parameters * run_.weight_bytes, run_.fsdp, run_.tp * run_.cp);
    if (after >= 0) work.after.push_back(after);
    gathered_ = static_cast<int>(list_.size());
    list_.push_back(std::move(work));
  }
  void reduce(double parameters) {
    if (run_.fsdp <= 1) return;
    Work work = collective(WorkKind::kReduceScatter, parameters * run_.gradient_bytes, run_.fsdp, run_.tp * run_.cp);
    work.after.push_back(last_);
    list_.push_back(std::move(work));
  }

  // Around each of a layer's two halves, of the residual stream.
  void tensor_parallel(bool begins) {
    if (run_.tp <= 1) return;
    const double bytes = tokens_ * real(shape_.width) * 2;
    if (run_.sequence_parallel)
      in_turn(collective(begins ? WorkKind::kAllGather : WorkKind::kReduceScatter, bytes, run_.tp, 1));
    else if (!begins)
      in_turn(collective(WorkKind::kAllReduce, bytes, run_.tp, 1));
  }

  double qkv_width() const { return real((shape_.heads + 2 * shape_.kv_heads) * shape_.head_dim) / real(run_.tp); }
  double heads_width() const { return real(shape_.heads * shape_.head_dim) / real(run_.tp); }
  double ffn_width() const { return real(shape_.ffn_width) / real(run_.tp); }
  double norm_share() const { return run_.sequence_parallel ? 1 / real(run_.tp) : 1; }

  // Scores and what is weighted by them, `passes` times the forward's work.
  void attention_core(double passes) {
    const double pairs = real(run_.micro_batch) * real(shape_.heads) / real(run_.tp) * real(shape_.sequence) *
                         real(shape_.sequence) / real(run_.cp);
    if (shape_.fused_attention) {
      Work work;
      work.kind = WorkKind::kAttention;
      work.head_dim = real(shape_.head_dim);
      work.flops = 4 * pairs * work.head_dim / 2 * passes;
      add_compute(std::move(work));
      return;
    }
    const double batch = real(run_.micro_batch * shape_.heads) / real(run_.tp);
    for (double pass = 0; pass < passes; ++pass) {
      gemm(real(shape_.sequence), real(shape_.sequence), real(shape_.head_dim), batch);
      memory(pairs * kPairBytes);
      gemm(real(shape_.sequence), real(shape_.head_dim), real(shape_.sequence), batch);
    }
  }

  void gather_keys() {
    if (run_.cp <= 1) return;
    const double bytes = real(run_.micro_batch * shape_.sequence * 2 * shape_.kv_heads * shape_.head_dim) * 2;
    in_turn(collective(WorkKind::kAllGather, bytes / real(run_.tp), run_.cp, run_.tp));
  }

  // Where it is run again for the backward pass, nothing of the last GEMM's sum over tp is needed.
  void forward(bool first) {
    const double width = real(shape_.width);
    tensor_parallel(true);
    gemm(tokens_, qkv_width(), width);
    gather_keys();
    attention_core(1);
    gemm(tokens_, width, heads_width());
    tensor_parallel(false);
    memory(tokens_ * width * kWidthBytes * norm_share());
    tensor_parallel(true);
    gemm(tokens_, ffn_width() * (shape_.gated ? 2 : 1), width);
    memory(tokens_ * ffn_width() * kFfnBytes * (shape_.gated ? 1.5 : 1));
    gemm(tokens_, width, ffn_width());
    if (first) tensor_parallel(false);
  }

  // Of y = x w: dx and dw.
  void gemm_backward(double m, double n, double k) {
    gemm(m, k, n);
    gemm(k, n, m);
  }

  void backward() {
    const double width = real(shape_.width);
    tensor_parallel(true);
    gemm_backward(tokens_, width, ffn_width());
    memory(tokens_ * ffn_width() * kFfnBytes * (shape_.gated ? 1.5 : 1) * 1.5);
    gemm_backward(tokens_, ffn_width() * (shape_.gated ? 2 : 1), width);
    tensor_parallel(false);
    memory(tokens_ * width * kWidthBytes * norm_share() * 1.5);
    tensor_parallel(true);
    gemm_backward(tokens_, width, heads_width());
    attention_core(shape_.fused_attention ? 2.5 : 2);
    gather_keys();
    gemm_backward(tokens_, qkv_width(), width);
    tensor_parallel(false);
  }

  void output_layer() {
    const double vocabulary = real(shape_.vocabulary) / real(run_.tp), width = real(shape_.width);
    gather(vocabulary * width, begins_.empty() ? kNothing : begins_.back());
    begin();
    tensor_parallel(true);
    gemm(tokens_, vocabulary, width);
    memory(tokens_ * vocabulary * kLogitBytes);
    gemm_backward(tokens_, vocabulary, width);
    tensor_parallel(false);
    reduce(vocabulary * width);
  }

  static constexpr int kNothing = -1;
  const TransformerShape& shape_;
  const TransformerRun& run_;
  int64_t devices_per_node_;
  double tokens_;
  std::vector<Work> list_;
  int last_ = kNothing;      // of what runs in turn
  int gathered_ = kNothing;  // the gather of the layer that begins next
  std::vector<int> pending_;
  std::vector<int> begins_;  // what had ended when each layer began
};

constexpr int64_t kFewLayersOfStage = 3;

LayeredWork describe_stage(const TransformerShape& shape, const TransformerRun& run, int64_t node, bool ends) {
  const double layers = real(shape.layers) / real(run.pp);
  return {micro_batch_work(shape, run, kFewLayersOfStage, ends, node),
          micro_batch_work(shape, run, kFewLayersOfStage + 1, ends, node), layers - real(kFewLayersOfStage)};
}

std::vector<Work> once_a_step(const TransformerShape& shape, const TransformerRun& run, int64_t devices_per_node) {
  const double own = shape.parameters() / real(run.tp * run.pp * run.fsdp);
  Work sum;
  sum.kind = WorkKind::kAllReduce;
  sum.bytes = own * run.gradient_bytes;
  sum.ranks = run.dp;
  sum.ranks_in_node = std::clamp<int64_t>(devices_per_node / (run.tp * run.cp * run.fsdp), 1, run.dp);
  Work optimizer;
  optimizer.bytes = own * kOptimizerBytes;
  optimizer.after = {0};
  return {sum, optimizer};
}

// Values to the next stage and gradients back, for each of a stage's chunks; each rank of tp sends its part.
std::vector<Work> sends(const TransformerShape& shape, const TransformerRun& run, int64_t devices_per_node) {
  Work send;
  send.kind = WorkKind::kSend;
  send.bytes = real(run.micro_batch * shape.sequence * shape.width) * 2 / real(run.cp * run.tp);
  send.ranks = 2;
  send.ranks_in_node = run.tp * run.cp < devices_per_node ? 2 : 1;
  return std::vector<Work>(static_cast<size_t>(2 * run.virtual_stages), send);
}

}  // namespace

double TransformerShape::parameters() const {
  const double attention = real(width * head_dim) * 2 * real(heads + kv_heads);
  return real(layers) * (attention + real(width * ffn_width) * (gated ? 3 : 2)) + real(vocabulary * width);
}

std::vector<Work> micro_batch_work(const TransformerShape& shape, const TransformerRun& run, int64_t layers, bool ends,
                                   int64_t devices_per_node) {
  return LayerWriter(shape, run, devices_per_node).write(layers, ends);
}

StepWork describe_step(const TransformerShape& shape, const TransformerRun& run, int64_t devices_per_node) {
  StepWork step;
  step.micro_batch = describe_stage(shape, run, devices_per_node, true);
  if (run.pp > 1) {
    step.others = {describe_stage(shape, run, devices_per_node, false)};
    step.neighbours = sends(shape, run, devices_per_node);
  }
  step.once.few = once_a_step(shape, run, devices_per_node);
  step.micro_batches = real(run.micro_batches);
  step.stages = real(run.pp);
  step.bubble = (step.stages - 1) / real(run.virtual_stages);
  step.devices = run.devices();
  return step;
}

}  // namespace causeway::plan
