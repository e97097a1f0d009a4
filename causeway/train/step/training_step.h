// One optimizer step of a language model: forward, loss, gradients, clipping and the optimizer in one program; or, when
// the batch is worked through in several micro-batches, one program that adds up gradients and one that applies them. A
// stage of a pipeline has one program again, for all micro-batches (stage_trace.h).
//
// The loss is an Objective's (objective.h), a mean over the whole batch however it is split. A step whose loss or
// gradient norm is not finite changes no weight, and nothing of the optimizer's state but what begins as the parameter
// (OptimizerState).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "causeway/model/language_model.h"
#include "causeway/optimizer/optimizer.h"
#include "causeway/passes/count_flops.h"
#include "causeway/passes/pipeline_options.h"
#include "causeway/program/context.h"
#include "causeway/program/program.h"
#include "causeway/tensor/step.h"
#include "causeway/train/recipe/recipe.h"
#include "causeway/train/step/batch_tensor.h"
#include "causeway/train/step/memory_choice.h"
#include "causeway/train/step/objective.h"
#include "causeway/train/step/stage_schedule.h"
#include "causeway/train/step/stage_trace.h"

namespace causeway::train {

class Ranks;

struct StepFigures {
  double loss = 0;       // nats per target, or their weighted mean; of preference pairs, per pair
  double grad_norm = 0;  // before clipping
  bool finite = true;
  // By the device's clock, from the end of the step that was finished before to the end of this one; 0 where steps do
  // not run ahead, and of the first.
  double seconds_after_last = 0;
  std::vector<double> figures = {};  // as Objective::figure_names() names them
};

// One run of a program within a step. The program is the step's.
struct TracedRun {
  Program* program = nullptr;
  std::vector<InstructionTime> times;
};

// A batch on the host, row-major [rows, sequence_length]: all of train.batch_size, or over a mesh the rank's rows of
// each micro-batch, one after another (TrainingStep::own_rows()), with whole sequences.
struct TrainingBatch {
  std::span<const int32_t> inputs;
  std::span<const int32_t> targets;    // negative: ignored
  std::span<const int32_t> documents;  // as data::Batch has them; empty unless attention stays within documents
  int64_t valid_targets = 0;           // of the whole batch, over all ranks
  int64_t chosen_targets = 0;          // of preference pairs: targets of the chosen sides, likewise
  // As Objective::numbers() lists them, of the same rows.
  std::vector<std::span<const float>> numbers = {};
  // Where the data says what each target weighs in the loss (Recipe::Data::weighs_targets): that, laid out as the
  // targets, and the sum of the whole batch, over all ranks.
  std::span<const float> target_weights = {};
  double target_weight = 0;
};

// What a step costs, known before it runs: bytes of one rank, FLOPs of all.
struct StepCost {
  int64_t parameter_bytes = 0;  // weights
  int64_t optimizer_bytes = 0;  // its state on the device, and gradients when they are added up
  int64_t arena_bytes = 0;      // activations, gradients and workspaces
  int64_t scratch_bytes = 0;    // of a processor's workers, beside the arena
  int64_t batch_bytes = 0;      // tokens of a micro-batch, what else the step reads (tables of angles), its results
  // All that a run allocates on the device for its steps, to the byte: Device::peak_bytes() of a run that does nothing
  // else there.
  int64_t total_bytes() const { return parameter_bytes + optimizer_bytes + arena_bytes + scratch_bytes + batch_bytes; }
  // The same as the device's driver gives it (Target::reserved_bytes()). 0 where buffers are in the process's memory.
  int64_t reserved_bytes = 0;
  // Of the host's memory: the optimizer's state, and activations between forward and backward, where they lie there.
  int64_t host_optimizer_bytes = 0;
  int64_t host_activation_bytes = 0;
  int64_t host_bytes() const { return host_optimizer_bytes + host_activation_bytes; }
  FlopCount flops;  // of one optimizer step
};

// Throws Error(kResource) where the device cannot hold what a rank at least has of a model's weights and optimizer
// state: before anything is allocated that would not fit in the end.
void require_memory_for_weights(const Device& device, const Recipe& recipe);

// Over a mesh every rank makes the same calls, each with its own rows. Figures are those of all ranks, the same on
// each.
class TrainingStep {
 public:
  // Both outlive the step, which belongs to the model's context. Optimizer state starts at zero.
  TrainingStep(LanguageModel& model, const Recipe& recipe);
  // A stage that works as one at another place of a pipeline would, to be traced and not to be run.
  TrainingStep(LanguageModel& model, const Recipe& recipe, const StagePlace& place);

  Context& context() const { return *context_; }
  const Objective& objective() const { return *objective_; }

  // With train.recompute, offload.optimizer or offload.activations auto, and before anything else is compiled: makes
  // the choice that lets a step take at most kMostOfMemory of `limit` bytes (choose_memory(); 0: no limit). `most`
  // gives the largest that what it is called with gives on any rank.
  using Bytes = std::function<int64_t()>;
  void fit_memory(
      int64_t limit, const std::function<int64_t(const Bytes&)>& most = [](const Bytes& bytes) { return bytes(); });
  // The same on all ranks, whose programs and memory may differ: to the memory of the device that has least, but for
  // the bytes that each rank holds `beside` the step.
  void fit_memory(const Ranks& ranks, int64_t beside = 0);
  // What a step that computes so much again takes (as cost() will say, on a GPU as its driver gives it), with nothing
  // compiled.
  int64_t planned_bytes(const Recomputation& recomputation) const;
  MemoryNeed planned_need(const MemoryChoice& choice) const;
  // What is computed again, and what else the step does about memory.
  const Recomputation& recomputation() const { return options_.program.pipeline.recompute; }
  MemoryChoice memory_choice() const;

  // Compiles everything a step needs.
  void prepare();
  StepCost cost();
  // Called by all ranks where the model is cut into stages: from then on cost() knows the FLOPs of all of them, and
  // otherwise of this rank's. Throws ErrorOfAllRanks where the messages that a stage expects are not those that another
  // one sends.
  void meet_other_stages(const Ranks& ranks);
  // The graphs of its programs as traced, with nothing compiled: of one micro-batch, or of the whole step; and where
  // gradients are added up, of what applies them.
  std::vector<Graph> trace() const;
  // Of all programs of a step: equal on ranks of one stage that compute alike and exchange alike (Program::hash()).
  std::string program_hash();
  // Of the FLOPs of a step, which share multiplies operands of which type once the passes have chosen them: "bf16",
  // "fp8", "tf32", "f32" (see FlopCount::by_operand).
  std::map<std::string, double> operand_shares();

  // The rows of a micro-batch that this rank works on.
  RowRange own_rows() const { return train::own_rows(arguments_.front().tokens); }

  // `step` counts from 0; the learning rate is that of this step. With `runs` the programs are launched one by one, not
  // replayed, and it gets what they did: the same bits, on a GPU in more time.
  StepFigures run(const TrainingBatch& batch, int64_t step, double learning_rate,
                  std::vector<TracedRun>* runs = nullptr) {
    begin(batch, step, learning_rate, runs);
    return finish();
  }
  // The same in two parts. On a GPU a step may begin before the one before it is finished, one at a time: it is queued
  // behind it, so that nothing waits for the host. Steps finish in the order in which they began. What began behind a
  // step whose loss or gradient is not finite, where the recipe says to stop then, changes nothing, and neither does
  // any step after it.
  void begin(const TrainingBatch& batch, int64_t step, double learning_rate, std::vector<TracedRun>* runs = nullptr);
  StepFigures finish();
  bool may_run_ahead() const { return frozen_.defined(); }
  // After a run that was not finite, on the same batch: the first value that is not.
  std::optional<NonFiniteValue> find_non_finite(const TrainingBatch& batch, int64_t step, double learning_rate);

  // Whether weights and the optimizer's state are all of one step: false after a run that threw while they were being
  // updated, and while a step is not finished.
  bool state_is_whole() const { return !updating_ && begun_ == finished_; }

  // Runs the main step's program and returns the seconds each of its kernels took; updates happen as in run().
  std::vector<double> run_timed(const TrainingBatch& batch, int64_t step, double learning_rate);

  // What the optimizer keeps, in the order of the parameters, by names such as "moment1.NAME" (OptimizerState).
  struct StateTensor {
    std::string name;
    Tensor tensor;
    size_t parameter = 0;  // its index in the model
    bool is_copy = false;  // of a parameter that is one
  };
  const std::vector<StateTensor>& optimizer_state() const { return state_; }
  // The rank's bytes of it on the device and on the host, and of the sums of gradients over micro-batches.
  int64_t state_bytes() const;
  int64_t host_state_bytes() const;
  int64_t gradient_sum_bytes() const;
  // The rank's bytes on the device of what the main step reads beside weights and the batch: what the optimizer keeps;
  // or sums of gradients, and that of which it takes the weights at which gradients are taken. Known after trace() or
  // prepare().
  int64_t bytes_of_state_in_main() const;

  // The step that holds the forward and backward pass, and the types of its arguments: for `causeway explain`.
  Step& main_step() { return *main_; }
  std::vector<StepArgument> main_arguments() const;

 private:
  // What a micro-batch is given.
  struct Arguments {
    Tensor tokens, targets, documents, key;
    Tensor weights = {};  // of the targets; undefined where all weigh 1
  };
  Arguments make_arguments() const;
  // What the main step is given; traced and run as a list.
  struct MainArguments {
    std::vector<Arguments> batches;  // several of a stage
    Tensor target_weight, hyper;
    std::vector<Tensor> numbers;
  };
  std::vector<Tensor> argument_list() const;
  MainArguments named(const std::vector<Tensor>& list) const;
  std::vector<Tensor> trained_weights() const;
  FlopCount own_flops();
  MicroBatch micro_batch(const Arguments& arguments, const MainArguments& main) const;
  std::vector<Tensor> staged(const MainArguments& arguments);
  std::vector<Tensor> fused(const MainArguments& arguments);
  std::vector<Tensor> accumulate(const MainArguments& arguments);
  std::vector<Tensor> apply(const Tensor& hyper);
  // In a trace: until leave_gradient_point() weights are those at which the optimizer takes gradients, in f32. Gives
  // the weights themselves; nothing where these are the same.
  std::vector<Tensor> enter_gradient_point(const Tensor& hyper);
  void leave_gradient_point(const std::vector<Tensor>& weights);
  std::vector<Tensor> kept_of(size_t parameter) const;
  int64_t seed_of(const Parameter& parameter) const;
  // What the objective gives of a micro-batch.
  std::vector<Tensor> values(const MainArguments& arguments) const;
  // Clips and applies the gradients; returns the loss and the gradient norm, of all stages, and whether all is finite
  // (1 or 0).
  std::vector<Tensor> update(Tensor loss, std::vector<Tensor> gradients, const Tensor& hyper);
  Tensor squares_by_layer(std::span<const Tensor> gradients) const;
  Tensor squares_by_axes(std::span<const Tensor> gradients) const;
  Tensor norm_of_all_stages(std::span<const Tensor> gradients, Tensor& loss) const;
  // Into the arguments at `place`.
  void write_batch(const TrainingBatch& batch, int64_t micro_batch, int64_t step, size_t place = 0);
  void write_whole_batch(const TrainingBatch& batch, int64_t step);
  void write_hyper(int64_t step, double learning_rate);
  // A program of its own for each micro-batch, and one that applies what they added up.
  bool accumulates() const { return recipe_.micro_batches() > 1 && !is_stage(); }
  bool is_stage() const { return !model_.part().is_whole(); }
  // How many micro-batches the main step is of.
  int64_t batches_in_one() const { return is_stage() ? recipe_.micro_batches() : 1; }
  void make_programs();
  // Whether the optimizer's state begins in the host's memory.
  bool begins_on_host() const;
  void take(const MemoryChoice& choice);
  // Of StepCost.
  int64_t arena_bytes();
  int64_t scratch_bytes();
  int64_t reserved_bytes();
  int64_t frozen_bytes_aside() const;
  int64_t weight_bytes() const;

  LanguageModel& model_;
  const Recipe& recipe_;
  const Optimizer& optimizer_;
  const std::unique_ptr<Objective> objective_;
  std::shared_ptr<Context> context_;
  std::vector<Tensor> weights_;  // of all parameters
  std::vector<size_t> trained_;  // which of them are trained; gradients, their sums and state are of those
  std::vector<Tensor> gradient_sums_;
  std::vector<Tensor> value_sums_;  // of what the objective gives
  // 1 from a step on that was not finite: nothing is updated any more. Undefined where steps do not run ahead.
  Tensor frozen_;
  std::vector<StateTensor> state_;
  std::set<size_t> read_at_gradient_point_;  // of state_; known once the main step is traced
  SequenceOrder order_;
  // Arguments, rewritten in place for each call.
  std::vector<Arguments> arguments_;  // of the micro-batches that the main step is of
  Tensor target_weight_, hyper_;
  std::vector<Tensor> numbers_;
  std::optional<FlopCount> flops_of_all_stages_;
  StepOptions options_;
  std::unique_ptr<Step> main_;   // fused, accumulate or staged
  std::unique_ptr<Step> apply_;  // only when gradients are added up
  bool updating_ = false;
  // What steps that are not finished leave in the host's memory, by turns, and when it is there.
  static constexpr int64_t kMostBegun = 2;
  struct Landing {
    HostBuffer figures;
    std::shared_ptr<DeviceEvent> event;
    std::shared_ptr<DeviceMoment> end;
  };
  std::array<Landing, kMostBegun> landings_;
  int64_t begun_ = 0, finished_ = 0;
  std::shared_ptr<DeviceMoment> last_end_;
  std::optional<StagePlace> place_;  // of a stage that is traced as one elsewhere
};

// What a stage holds of the recipe's model, the output layer weighed by its FLOPs; and what this context's rank holds.
ModelPart part_of_stage(const Recipe& recipe, int64_t stage);
ModelPart own_part(const Recipe& recipe);

// The share of a step that a stage of the recipe's pipeline waits (bubble_share()); 0 without stages.
double pipeline_bubble(const Recipe& recipe);

// How weights lie for the recipe's steps in the current context.
WeightStorage weight_storage(const Recipe& recipe);
// How they are made: which are trained, in which type the others lie, and which adapters there are.
NewWeights new_weights(const Recipe& recipe, std::optional<uint64_t> seed = {});
// Likewise, of a second model that nothing changes (holds_reference_model()).
NewWeights new_reference_weights(const Recipe& recipe);

// "cuda:0 has 139 GiB", or what device_memory_limit says.
std::string has_memory_text(const Device& device);

// The pipeline options that a recipe asks for.
PipelineOptions pipeline_options(const Recipe& recipe);
// The same for a Step beside the training step: evaluation, or a pass over preference pairs.
StepOptions step_options(const Recipe& recipe);

}  // namespace causeway::train
