#include "causeway/train/step/stage_trace.h"

#include <map>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/program/context.h"
#include "causeway/tensor/ops.h"
#include "causeway/tensor/stage_ops.h"

namespace causeway::train {
namespace {

constexpr int kStreams = 0, kGradients = 1, kTiedEmbeddings = 2;  // of messages: MeshCommunicators::channel()

class StageTrace {
 public:
  StageTrace(const LanguageModel& model, std::span<const MicroBatch> micro_batches, double z_loss)
      : model_(model),
        part_(model.part()),
        micro_batches_(micro_batches),
        z_loss_coefficient_(z_loss),
        last_piece_(part_.pieces() - 1),
        gradients_(model.parameters().size()) {
    const Tensor& tokens = micro_batches.front().inputs.tokens;
    stream_type_ = {DType::kF32, {tokens.size(0), tokens.size(1), Dim(model.config().width)}};
    stream_sharding_ = stream_sharding(stream_type_.shape, Context::current()->mesh());
  }

  void act(const StageAction& action) {
    Pass& pass = passes_[{action.piece, action.micro_batch}];
    switch (action.work) {
      case StageWork::kReceiveStream:
        pass.before = receive(action, action.piece - 1, kStreams);
        return;
      case StageWork::kForward:
        return forward(action, pass);
      case StageWork::kSendStream:
        return send(pass.after, action, action.piece + 1, kStreams);
      case StageWork::kReceiveGradient:
        pass.after_gradient = receive(action, action.piece + 1, kGradients);
        return;
      case StageWork::kBackward:
        return backward(action.piece, pass, true, true);
      case StageWork::kInputGradient:
        return backward(action.piece, pass, true, false);
      case StageWork::kWeightGradient:
        return backward(action.piece, pass, false, true);
      case StageWork::kSendGradient:
        return send(pass.before_gradient, action, action.piece - 1, kGradients);
    }
  }

  StageResults finish() {
    add_up_tied_embedding();
    if (!loss_.defined()) loss_ = constant_tensor(DType::kF32, {}, 0);
    if (z_loss_coefficient_ > 0 && !z_loss_.defined()) z_loss_ = constant_tensor(DType::kF32, {}, 0);
    std::vector<Tensor> of_trained;
    for (size_t i = 0; i < gradients_.size(); ++i)
      if (model_.parameters()[i].is_trained) of_trained.push_back(gradients_[i]);
    return {loss_, z_loss_, of_trained};
  }

 private:
  // One micro-batch's way through one piece.
  struct Pass {
    Tensor before, after;                    // the residual stream; `before` undefined for the first piece
    Tensor loss;                             // of the last piece: what is minimized
    Tensor before_gradient, after_gradient;  // of the loss, with respect to these
  };

  // Both ends give a message the same name.
  static std::string name_of(int stream, int64_t to_piece, int64_t micro_batch) {
    return fmt::format("{} of micro-batch {} to piece {}", stream == kStreams ? "stream" : "gradient", micro_batch,
                       to_piece);
  }

  Tensor receive(const StageAction& action, int64_t from_piece, int stream) {
    return receive_from_stage(stream_type_, part_.stage_of(from_piece), stream, stream_sharding_,
                              name_of(stream, action.piece, action.micro_batch));
  }

  void send(const Tensor& tensor, const StageAction& action, int64_t to_piece, int stream) {
    send_to_stage(tensor, part_.stage_of(to_piece), stream, stream_sharding_,
                  name_of(stream, to_piece, action.micro_batch));
  }

  void forward(const StageAction& action, Pass& pass) {
    const MicroBatch& batch = micro_batches_[static_cast<size_t>(action.micro_batch)];
    pass.after = model_.run_piece(action.piece, pass.before, batch.inputs);
    if (action.piece != last_piece_) return;
    const LossAndZLoss of_batch =
        model_.loss_of_stream(pass.after, batch.targets, batch.token_weights, z_loss_coefficient_);
    const auto add_up = [](Tensor& sum, const Tensor& part) { sum = sum.defined() ? sum + part : part; };
    pass.loss = of_batch.loss;
    add_up(loss_, of_batch.loss);
    if (!of_batch.z_loss.defined()) return;
    pass.loss = of_batch.loss + of_batch.z_loss;
    add_up(z_loss_, of_batch.z_loss);
  }

  // Nodes that a gradient of the input has made already serve that of the weights.
  void backward(int64_t piece, Pass& pass, bool of_input, bool of_weights) {
    std::vector<Tensor> wrt;
    const bool has_input = of_input && piece > 0;
    if (has_input) wrt.push_back(pass.before);
    std::vector<size_t> weights;
    for (size_t i = 0; of_weights && i < gradients_.size(); ++i)
      if (model_.parameters()[i].piece == piece && model_.parameters()[i].is_trained) weights.push_back(i);
    for (const size_t i : weights) wrt.push_back(model_.parameters()[i].tensor);
    if (wrt.empty()) return;
    const Tensor& output = piece == last_piece_ ? pass.loss : pass.after;
    const Tensor given = piece == last_piece_ ? constant_like(pass.loss, 1) : pass.after_gradient;
    const std::vector<Tensor> found = gradients(std::span(&output, 1), std::span(&given, 1), wrt);
    if (has_input) pass.before_gradient = found.front();
    for (size_t k = 0; k < weights.size(); ++k) add_gradient(weights[k], found[k + (has_input ? 1 : 0)]);
  }

  void add_gradient(size_t parameter, const Tensor& gradient) {
    const Tensor part = constrain_sharding(gradient, model_.parameters()[parameter].tensor.sharding());
    Tensor& sum = gradients_[parameter];
    sum = sum.defined() ? sum + part : part;
  }

  // The first stage and the last one send each other what they have, and add it up in the same order: same bits.
  void add_up_tied_embedding() {
    const int64_t first = 0, last = part_.stages() - 1;
    for (size_t i = 0; i < gradients_.size(); ++i) {
      const Parameter& parameter = model_.parameters()[i];
      if (!parameter.is_shared || !parameter.is_trained) continue;
      const int64_t own = parameter.is_copy ? last : first, other = parameter.is_copy ? first : last;
      const auto name = [&](int64_t stage) {
        return fmt::format("gradient of {} from stage {}", parameter.name, stage);
      };
      const Sharding& sharding = parameter.tensor.sharding();
      send_to_stage(gradients_[i], other, kTiedEmbeddings, sharding, name(own));
      const Tensor theirs = receive_from_stage(gradients_[i].type(), other, kTiedEmbeddings, sharding, name(other));
      gradients_[i] = parameter.is_copy ? theirs + gradients_[i] : gradients_[i] + theirs;
    }
  }

  const LanguageModel& model_;
  const ModelPart& part_;
  std::span<const MicroBatch> micro_batches_;
  double z_loss_coefficient_;
  int64_t last_piece_;
  TensorType stream_type_;
  Sharding stream_sharding_;
  std::map<std::pair<int64_t, int64_t>, Pass> passes_;  // by piece and micro-batch
  std::vector<Tensor> gradients_;
  Tensor loss_, z_loss_;
};

}  // namespace

StageResults trace_stage(const LanguageModel& model, std::span<const StageAction> schedule,
                         std::span<const MicroBatch> micro_batches, double z_loss) {
  StageTrace trace(model, micro_batches, z_loss);
  for (const StageAction& action : schedule) trace.act(action);
  return trace.finish();
}

}  // namespace causeway::train
