#include "causeway/train/step/training_step.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "causeway/base/byte_size.h"
#include "causeway/base/error.h"
#include "causeway/base/hash.h"
#include "causeway/graph/op.h"
#include "causeway/model/experts.h"
#include "causeway/model/parameter_sharding.h"
#include "causeway/model/quantized_weight.h"
#include "causeway/passes/eliminate_common_subexpressions.h"
#include "causeway/passes/optimizer_scope.h"
#include "causeway/passes/recompute.h"
#include "causeway/program/arena.h"
#include "causeway/program/program_memory.h"
#include "causeway/tensor/ops.h"
#include "causeway/tensor/stage_ops.h"
#include "causeway/tensor/trace.h"
#include "causeway/train/ranks.h"
#include "causeway/train/step/batch_tensor.h"
#include "causeway/train/step/recomputation.h"

namespace causeway::train {
namespace {

// Positions in the `hyper` argument, f32.
enum Hyper : int64_t { kLearningRate, kStep, kHyperCount };

Tensor scalar_at(const Tensor& vector, int64_t index) { return reshape(narrow(vector, 0, index, 1), {}); }

template <class T>
std::span<const std::byte> bytes_of(std::span<const T> values) {
  return std::as_bytes(values);
}

Tensor zeros_in_memory(const Shape& shape, const Sharding& sharding = {}, DType dtype = DType::kF32,
                       bool on_host = false) {
  const std::vector<int64_t> sizes = evaluate(shape, {});
  return on_host ? Tensor::zeroed_on_host(sizes, dtype, sharding) : Tensor::zeroed(sizes, dtype, sharding);
}

// While it lives, tensors are traced as if they lay on the host, or on the device.
class TracedOnHost {
 public:
  TracedOnHost(std::span<const TrainingStep::StateTensor> tensors, bool on_host) {
    for (const TrainingStep::StateTensor& one : tensors) {
      const std::shared_ptr<TensorState>& state = one.tensor.state();
      was_.emplace_back(state, state->on_host);
      state->on_host = on_host;
    }
  }
  TracedOnHost(const TracedOnHost&) = delete;
  TracedOnHost& operator=(const TracedOnHost&) = delete;
  ~TracedOnHost() {
    for (const auto& [state, on_host] : was_) state->on_host = on_host;
  }

 private:
  std::vector<std::pair<std::shared_ptr<TensorState>, bool>> was_;
};

// The number in the name of a layer's parameter.
std::optional<int64_t> layer_of(std::string_view parameter) {
  const std::string_view block = block_of_scope(parameter);
  if (block.empty()) return std::nullopt;
  return std::stoll(std::string(block.substr(block.rfind('.') + 1)));
}

// By "sender>receiver stream", the messages in their order: those that the stage sends, or those that it receives.
std::map<std::string, std::string> messages_of(const Graph& graph, int64_t stage, Op op) {
  std::map<std::string, std::string> lists;
  for (const Node& node : graph.nodes()) {
    if (node.op != op) continue;
    const int64_t peer = node.attributes.peer;
    const TensorType& type = op == Op::kSend ? graph.type(node.inputs[0]) : node.outputs[0];
    lists[fmt::format("{}>{} {}", op == Op::kSend ? stage : peer, op == Op::kSend ? peer : stage,
                      node.attributes.stream)] += fmt::format("{} {}\n", node.attributes.name, type.text());
  }
  return lists;
}

Fp8Scales fp8_scales(const Recipe& recipe) {
  if (recipe.train.precision == Precision::kFp8) return Fp8Scales::kTensor;
  return recipe.train.precision == Precision::kFp8Block ? Fp8Scales::kBlock : Fp8Scales::kNone;
}

bool multiplies_narrow(const Recipe& recipe) {
  return recipe.train.precision == Precision::kBf16 || fp8_scales(recipe) != Fp8Scales::kNone;
}

// Gradients of matrices that are only multiplied, to bf16.
bool rounds_gradients(const Recipe& recipe) {
  return recipe.train.gradients == GradientType::kAuto && multiplies_narrow(recipe) && recipe.micro_batches() == 1;
}

// How many layers of the mean take as long as the output layer, by the multiply-adds of a token: of weights, and of a
// query with the keys and values before it.
double output_in_layers(const Recipe& recipe) {
  ModelConfig none = recipe.model;
  none.layers = 0;
  const double attended = static_cast<double>(recipe.data.sequence_length) / 2;
  const double layer = static_cast<double>(active_parameter_count(recipe.model) - active_parameter_count(none)) /
                           static_cast<double>(recipe.model.layers) +
                       2 * attended * static_cast<double>(recipe.model.heads * recipe.model.head_dim);
  return static_cast<double>(recipe.model.vocabulary_size * recipe.model.width) / layer;
}

PipelineShape pipeline_shape(const Recipe& recipe) {
  return {recipe.mesh.pp, recipe.train.pipeline_chunks, recipe.micro_batches()};
}

}  // namespace

PipelineOptions pipeline_options(const Recipe& recipe) {
  PipelineOptions options;
  const bool narrow = multiplies_narrow(recipe);
  options.mixed_precision.compute = narrow ? DType::kBF16 : DType::kF32;
  options.fp8_gemms = fp8_scales(recipe);
  options.tf32_gemms = recipe.train.precision == Precision::kTf32;
  options.recompute = recomputation_of(recipe);
  options.narrow_logits = narrow;
  options.narrow_reductions = rounds_gradients(recipe);
  options.mesh_independent = recipe.train.mesh_independent;
  return options;
}

StepOptions step_options(const Recipe& recipe) {
  StepOptions options;
  options.program.pipeline = pipeline_options(recipe);
  return options;
}

WeightStorage weight_storage(const Recipe& recipe) {
  const bool in_halves = recipe.optimizer.weights == HeldWeights::kF32 && multiplies_narrow(recipe) &&
                         Context::current()->device().target().has_gemms_of_halves();
  return in_halves ? WeightStorage::kHalves : WeightStorage::kElements;
}

NewWeights new_weights(const Recipe& recipe, std::optional<uint64_t> seed) {
  NewWeights weights{.seed = seed, .storage = weight_storage(recipe), .adapter = recipe.adapter};
  weights.frozen_type = multiplies_narrow(recipe) ? DType::kBF16 : DType::kF32;
  weights.trained_type = recipe.optimizer.weights == HeldWeights::kF32 ? DType::kF32 : DType::kBF16;
  if (recipe.adapter.is_used()) {
    weights.is_trained = [](const std::string&) { return false; };
  } else if (!recipe.optimizer.groups.empty()) {
    weights.is_trained = [optimizer = recipe.optimizer](const std::string& name) { return !optimizer.is_frozen(name); };
  }
  return weights;
}

std::string has_memory_text(const Device& device) {
  const std::string has = format_bytes(device.memory_limit());
  return device.told_limit() > 0 && device.memory_limit() == device.told_limit()
             ? fmt::format("device_memory_limit lets it take {} of {}", has, device.name())
             : fmt::format("{} has {}", device.name(), has);
}

NewWeights new_reference_weights(const Recipe& recipe) {
  NewWeights frozen = new_weights(recipe);
  frozen.is_trained = [](const std::string&) { return false; };
  return frozen;
}

ModelPart part_of_stage(const Recipe& recipe, int64_t stage) {
  return {recipe.model.layers, recipe.mesh.pp, recipe.train.pipeline_chunks, stage, output_in_layers(recipe)};
}

ModelPart own_part(const Recipe& recipe) {
  const Context& context = *Context::current();
  return part_of_stage(recipe, context.mesh().stage(context.rank()));
}

double pipeline_bubble(const Recipe& recipe) {
  if (recipe.mesh.pp == 1) return 0;
  return bubble_share(recipe.train.pipeline_schedule, pipeline_shape(recipe));
}

void require_memory_for_weights(const Device& device, const Recipe& recipe) {
  const auto elements = static_cast<int64_t>(static_cast<double>(parameter_count(recipe.model)) *
                                             held_share(make_mesh(recipe.mesh)) / static_cast<double>(recipe.mesh.pp));
  // Weights, and sums of gradients over micro-batches. Where some are frozen, as if all were.
  const NewWeights weights = new_weights(recipe);
  const int64_t others = static_cast<int64_t>(size_bytes(weights.trained_type)) +
                         (recipe.micro_batches() > 1 ? static_cast<int64_t>(sizeof(float)) : 0);
  const bool keeps_state = !device.target().has_own_memory() || recipe.offload.optimizer == Offload::kFalse;
  const int64_t bytes =
      recipe.adapter.is_used() || std::ranges::any_of(recipe.optimizer.groups, &ParameterGroup::frozen)
          ? std::min(elements * static_cast<int64_t>(size_bytes(weights.trained_type)),
                     least_bytes_of_base(recipe.adapter, elements, weights.frozen_type))
          : elements * others +
                (keeps_state ? find_optimizer(recipe.optimizer.name).least_state_bytes(elements, recipe.optimizer) : 0);
  if (device.memory_limit() == 0 || bytes <= device.memory_limit()) return;
  throw Error(
      ErrorKind::kResource,
      fmt::format("weights and optimizer need {}, and {}", format_bytes(bytes), has_memory_text(device)), "model",
      keeps_state && device.target().has_own_memory() && recipe.mesh.pp == 1
          ? "Keep the optimizer's state in the host's memory (offload.optimizer=true), train a smaller model, or "
            "on a device with more memory."
          : "Train a smaller model, or on a device with more memory.");
}

TrainingStep::TrainingStep(LanguageModel& model, const Recipe& recipe)
    : model_(model),
      recipe_(recipe),
      optimizer_(find_optimizer(recipe.optimizer.name)),
      objective_(make_objective(recipe)),
      context_(model.parameters().front().tensor.context()) {
  const ContextScope scope(context_);
  order_ = batch_order(recipe);
  const bool on_host = begins_on_host();
  for (const Parameter& parameter : model.parameters()) {
    weights_.push_back(parameter.tensor);
    if (!parameter.is_trained) continue;
    trained_.push_back(weights_.size() - 1);
    CAUSEWAY_CHECK(parameter.tensor.rank() < 2 ||
                       (parameter.tensor.dtype() == DType::kBF16) == (recipe.optimizer.weights != HeldWeights::kF32),
                   "{} lies in {}, and optimizer.weights is {}", parameter.name, dtype_name(parameter.tensor.dtype()),
                   name_of(recipe.optimizer.weights));
    for (const OptimizerState& kept : optimizer_.state_of(parameter, recipe.optimizer)) {
      // The same bits on every mesh take exchanges of what is kept, which are of 2 and 4 bytes an element.
      if (size_bytes(kept.dtype) == 1 && recipe.train.mesh_independent && !context_->mesh().empty())
        throw Error(ErrorKind::kInvalidArgument, "does not go with an optimizer that keeps bytes, over a mesh",
                    "train.mesh_independent", "Set optimizer.moments=bf16 or f32.");
      state_.push_back({kept.name + "." + parameter.name,
                        zeros_in_memory(kept.shape(parameter), kept.sharding(parameter), kept.dtype, on_host),
                        weights_.size() - 1, parameter.is_copy});
    }
    if (accumulates())
      gradient_sums_.push_back(zeros_in_memory(parameter.tensor.shape(), parameter.tensor.sharding(), DType::kF32));
  }
  for (int64_t i = 0; i < batches_in_one(); ++i) arguments_.push_back(make_arguments());
  target_weight_ = Tensor::uninitialized({}, DType::kF32);
  hyper_ = Tensor::uninitialized({kHyperCount}, DType::kF32);
  for (const NumbersOf of : objective_->numbers())
    numbers_.push_back(of == NumbersOf::kRows ? make_row_tensor(recipe.train.micro_batch_size)
                                              : make_batch_tensor(recipe.train.micro_batch_size,
                                                                  recipe.data.sequence_length, DType::kF32));
  for (size_t i = 0; accumulates() && i <= objective_->figure_names().size(); ++i)
    value_sums_.push_back(zeros_in_memory({}));
  if (context_->device().target().runs_asynchronously() && recipe.train.on_non_finite == FaultPolicy::kStop)
    frozen_ = zeros_in_memory({});

  options_.program.pipeline = pipeline_options(recipe);
  options_.program.offloads_activations = memory_choice_of(recipe, context_->device().target()).offloads_activations;
  make_programs();
}

// With auto, where the device could not even hold it beside the weights: later it can only go there.
bool TrainingStep::begins_on_host() const {
  const Device& device = context_->device();
  if (!device.target().has_own_memory() || recipe_.offload.optimizer == Offload::kFalse) return false;
  if (recipe_.offload.optimizer == Offload::kTrue) return true;
  int64_t bytes = 0;
  for (const Parameter& parameter : model_.parameters()) {
    bytes += parameter.tensor.local_bytes();
    if (!parameter.is_trained) continue;
    bytes += optimizer_.state_bytes(parameter, recipe_.optimizer);
    if (accumulates()) bytes += parameter.tensor.local_bytes();
  }
  const int64_t limit = device.memory_limit();
  return limit > 0 && static_cast<double>(bytes) > kMostOfMemory * static_cast<double>(limit);
}

MemoryChoice TrainingStep::memory_choice() const {
  return {recomputation(), !state_.empty() && state_.front().tensor.lies_on_host(),
          options_.program.offloads_activations};
}

void TrainingStep::take(const MemoryChoice& choice) {
  options_.program.pipeline.recompute = choice.recompute;
  options_.program.offloads_activations = choice.offloads_activations;
  for (StateTensor& kept : state_)
    if (choice.offloads_optimizer) kept.tensor.move_to_host();
  make_programs();
}

TrainingStep::TrainingStep(LanguageModel& model, const Recipe& recipe, const StagePlace& place)
    : TrainingStep(model, recipe) {
  place_ = place;
}

void TrainingStep::make_programs() {
  main_ = std::make_unique<Step>(
      [this](const std::vector<Tensor>& arguments) {
        const MainArguments main = named(arguments);
        return is_stage() ? staged(main) : accumulates() ? accumulate(main) : fused(main);
      },
      options_);
  if (accumulates())
    apply_ =
        std::make_unique<Step>([this](const std::vector<Tensor>& arguments) { return apply(arguments[0]); }, options_);
}

void TrainingStep::fit_memory(int64_t limit, const std::function<int64_t(const Bytes&)>& most) {
  const Target& target = context_->device().target();
  if (!has_memory_choice(recipe_, target) || limit == 0) return;
  const auto usable = static_cast<int64_t>(kMostOfMemory * static_cast<double>(limit));
  // What nearly always fits is compiled at once, and not planned before.
  const auto compiled_bytes = [&] {
    const StepCost cost = this->cost();
    return std::max(cost.total_bytes(), cost.reserved_bytes);
  };
  const MemoryChoice present = memory_choice();
  // What could not be on the device when the step was made is not asked for again.
  Recipe recipe = recipe_;
  if (recipe.offload.optimizer == Offload::kAuto && most([&] { return int64_t{present.offloads_optimizer}; }) > 0)
    recipe.offload.optimizer = Offload::kTrue;
  const int64_t state = most([&] { return state_bytes() + host_state_bytes(); });
  const MemoryChoice chosen =
      choose_memory(recipe, target, memory_prices(recipe, target, state), usable, [&](const MemoryChoice& choice) {
        MemoryNeed need;
        need.device = most([&] { return choice == MemoryChoice{} ? compiled_bytes() : planned_need(choice).device; });
        if (choice.offloads_activations)
          need.host_activations = most([&] { return planned_need(choice).host_activations; });
        return need;
      });
  if (chosen == MemoryChoice{}) return;
  take(chosen);
}

void TrainingStep::fit_memory(const Ranks& ranks, int64_t beside) {
  if (!has_memory_choice(recipe_, context_->device().target())) return;
  // Where nobody knows, 0.
  const int64_t least = std::ranges::min(ranks.gather_numbers(context_->device().memory_limit()));
  fit_memory(least == 0 ? 0 : std::max<int64_t>(least - beside, 1), [&](const Bytes& bytes) {
    int64_t here = 0;
    ranks.together([&] { here = bytes(); });
    return std::ranges::max(ranks.gather_numbers(here));
  });
}

int64_t TrainingStep::planned_bytes(const Recomputation& recomputation) const {
  MemoryChoice choice = memory_choice();
  choice.recompute = recomputation;
  return planned_need(choice).device;
}

MemoryNeed TrainingStep::planned_need(const MemoryChoice& choice) const {
  const TracedOnHost placed(state_, choice.offloads_optimizer);
  const auto given = [&](int64_t bytes) { return context_->device().target().reserved_bytes(bytes); };
  int64_t state = 0;
  for (const Tensor& weight : weights_) state += given(weight.local_bytes());
  for (const StateTensor& kept : state_)
    if (!choice.offloads_optimizer) state += given(kept.tensor.local_bytes());
  for (const Tensor& sum : gradient_sums_) state += given(sum.local_bytes());
  ProgramOptions options = options_.program;
  options.pipeline.recompute = choice.recompute;
  options.offloads_activations = choice.offloads_activations;
  int64_t arena = 0;
  std::vector<ProgramMemory> programs;
  for (const Graph& graph : trace()) {
    programs.push_back(context_->plan_memory(graph, options));
    arena = std::max(arena, programs.back().arena_bytes);
  }
  const ProgramMemory &first = programs.front(), &last = programs.back();
  return {state + given(arena) + first.input_bytes - weight_bytes() - bytes_of_state_in_main() +
              first.task_counter_bytes + last.output_bytes + frozen_bytes_aside(),
          first.host_arena_bytes};
}

TrainingStep::Arguments TrainingStep::make_arguments() const {
  const int64_t rows = recipe_.train.micro_batch_size, length = recipe_.data.sequence_length;
  // Without a mask nothing reads documents.
  return {
      make_batch_tensor(rows, length), make_batch_tensor(rows, length),
      recipe_.data.masks_documents() ? make_batch_tensor(rows, length) : Tensor::uninitialized({rows, 1}, DType::kI32),
      Tensor::uninitialized({2}, DType::kI64),
      recipe_.data.weighs_targets ? make_batch_tensor(rows, length, DType::kF32) : Tensor()};
}

// Of a stage: the arguments of micro-batches, one after another, stand before the others.
std::vector<Tensor> TrainingStep::argument_list() const {
  const Arguments& first = arguments_.front();
  std::vector<Tensor> list;
  if (!is_stage()) {
    list = {first.tokens, first.targets, first.documents, target_weight_, first.key, hyper_};
    list.insert(list.end(), numbers_.begin(), numbers_.end());
    if (first.weights.defined()) list.push_back(first.weights);
    return list;
  }
  for (const Arguments& one : arguments_) {
    for (const Tensor& tensor : {one.tokens, one.targets, one.documents, one.key}) list.push_back(tensor);
    if (one.weights.defined()) list.push_back(one.weights);
  }
  list.push_back(target_weight_);
  list.push_back(hyper_);
  return list;
}

// As argument_list() has them.
TrainingStep::MainArguments TrainingStep::named(const std::vector<Tensor>& list) const {
  const bool has_weights = recipe_.data.weighs_targets;
  if (!is_stage())
    return {.batches = {{.tokens = list[0],
                         .targets = list[1],
                         .documents = list[2],
                         .key = list[4],
                         .weights = has_weights ? list.back() : Tensor()}},
            .target_weight = list[3],
            .hyper = list[5],
            .numbers = {list.begin() + 6, list.end() - (has_weights ? 1 : 0)}};
  MainArguments arguments{.batches = {}, .target_weight = list[list.size() - 2], .hyper = list.back(), .numbers = {}};
  const size_t of_batch = has_weights ? 5 : 4;
  for (size_t at = 0; at + 2 < list.size(); at += of_batch)
    arguments.batches.push_back({.tokens = list[at],
                                 .targets = list[at + 1],
                                 .documents = list[at + 2],
                                 .key = list[at + 3],
                                 .weights = has_weights ? list[at + 4] : Tensor()});
  return arguments;
}

std::vector<StepArgument> TrainingStep::main_arguments() const {
  const std::vector<Tensor> list = argument_list();
  return {list.begin(), list.end()};
}

void TrainingStep::prepare() {
  main_->prepare(main_arguments());
  if (apply_ != nullptr) apply_->prepare({hyper_});
}

int64_t TrainingStep::arena_bytes() {
  const int64_t bytes = main_->prepare(main_arguments()).memory().arena_bytes;
  return apply_ == nullptr ? bytes : std::max(bytes, apply_->prepare({hyper_}).memory().arena_bytes);
}

int64_t TrainingStep::scratch_bytes() {
  const int workers = context_->device().scratch_workers();
  if (workers == 0) return 0;
  int64_t most = 0;
  const auto look_at = [&](const LoweredProgram& program) {
    for (const Instruction& instruction : program.instructions)
      if (const auto* launch = std::get_if<Launch>(&instruction.work))
        for (const Launch::Phase& phase : launch->phases) most = std::max(most, phase.scratch_bytes);
  };
  look_at(main_->prepare(main_arguments()).lowered());
  if (apply_ != nullptr) look_at(apply_->prepare({hyper_}).lowered());
  return most * workers;
}

int64_t TrainingStep::reserved_bytes() {
  const auto rounded = [&](int64_t bytes) { return context_->device().target().reserved_bytes(bytes); };
  int64_t bytes = rounded(arena_bytes());
  const auto add = [&](Program& program, ProgramBuffer::Place place) {
    for (const ProgramBuffer& buffer : program.lowered().buffers)
      if (buffer.place == place && !buffer.on_host) bytes += rounded(buffer.bytes);
  };
  Program& main = main_->prepare(main_arguments());
  bytes += rounded(main.memory().task_counter_bytes);
  add(main, ProgramBuffer::Place::kInput);
  add(apply_ == nullptr ? main : apply_->prepare({hyper_}), ProgramBuffer::Place::kOutput);
  // Those are read by what applies the gradients.
  for (size_t i = 0; accumulates() && i < state_.size(); ++i)
    if (!read_at_gradient_point_.contains(i) && !state_[i].tensor.lies_on_host())
      bytes += rounded(state_[i].tensor.local_bytes());
  return bytes + rounded(frozen_bytes_aside());
}

// Of `frozen_`, where the program that reads it is not the one that reads all else.
int64_t TrainingStep::frozen_bytes_aside() const {
  return accumulates() && frozen_.defined() ? frozen_.local_bytes() : 0;
}

int64_t TrainingStep::weight_bytes() const {
  int64_t bytes = 0;
  for (const Tensor& weight : weights_) bytes += weight.local_bytes();
  return bytes;
}

int64_t TrainingStep::state_bytes() const {
  int64_t bytes = 0;
  for (const StateTensor& kept : state_) bytes += kept.tensor.lies_on_host() ? 0 : kept.tensor.local_bytes();
  return bytes;
}

int64_t TrainingStep::host_state_bytes() const {
  int64_t bytes = 0;
  for (const StateTensor& kept : state_) bytes += kept.tensor.lies_on_host() ? kept.tensor.local_bytes() : 0;
  return bytes;
}

int64_t TrainingStep::bytes_of_state_in_main() const {
  if (!accumulates()) return state_bytes();
  int64_t bytes = gradient_sum_bytes();
  for (const size_t i : read_at_gradient_point_)
    bytes += state_[i].tensor.lies_on_host() ? 0 : state_[i].tensor.local_bytes();
  return bytes;
}

int64_t TrainingStep::gradient_sum_bytes() const {
  int64_t bytes = 0;
  for (const Tensor& sum : gradient_sums_) bytes += sum.local_bytes();
  return bytes;
}

StepCost TrainingStep::cost() {
  StepCost cost;
  cost.parameter_bytes = weight_bytes();
  cost.optimizer_bytes = state_bytes() + gradient_sum_bytes();
  cost.arena_bytes = arena_bytes();
  cost.scratch_bytes = scratch_bytes();
  const ProgramMemory main = main_->prepare(main_arguments()).memory();
  const ProgramMemory last = apply_ == nullptr ? main : apply_->prepare({hyper_}).memory();
  cost.batch_bytes = main.input_bytes - cost.parameter_bytes - bytes_of_state_in_main() + last.output_bytes +
                     main.task_counter_bytes + frozen_bytes_aside();
  if (context_->device().target().has_own_memory()) cost.reserved_bytes = reserved_bytes();
  cost.host_optimizer_bytes = host_state_bytes();
  cost.host_activation_bytes = main.host_arena_bytes;
  cost.flops = flops_of_all_stages_ ? *flops_of_all_stages_ : own_flops();
  return cost;
}

FlopCount TrainingStep::own_flops() {
  const Graph& traced = main_->traced_graph(main_arguments());
  // Where gradients of inputs and of weights are traced one after the other, nodes are there twice.
  if (is_stage()) return count_flops(eliminate_common_subexpressions(traced));
  FlopCount count = count_flops(traced).scaled(static_cast<double>(recipe_.micro_batches()));
  if (apply_ != nullptr) count.optimizer = count_flops(apply_->traced_graph({hyper_})).optimizer;
  return count;
}

void TrainingStep::meet_other_stages(const Ranks& ranks) {
  if (!is_stage()) return;
  const Mesh& mesh = context_->mesh();
  const Graph& traced = main_->traced_graph(main_arguments());
  const int64_t own = mesh.stage(context_->rank());
  const FlopCount flops = own_flops();
  const nlohmann::json mine = {{"sends", messages_of(traced, own, Op::kSend)},
                               {"receives", messages_of(traced, own, Op::kReceive)},
                               {"forward", flops.forward},
                               {"backward", flops.backward},
                               {"optimizer", flops.optimizer},
                               {"attended", flops.attended_pairs},
                               {"pairs", flops.attention_pairs},
                               {"by_operand", flops.by_operand},
                               {"at_most", flops.at_most},
                               {"sampled", flops.sampled}};
  FlopCount sum;
  std::map<std::string, std::string> sent, received;
  const std::vector<std::string> of_ranks = ranks.gather(mine.dump());
  for (int64_t stage = 0; stage < mesh.stages(); ++stage) {
    const auto one = nlohmann::json::parse(of_ranks[static_cast<size_t>(stage * mesh.stage_axis()->stride)]);
    sent.merge(one["sends"].get<std::map<std::string, std::string>>());
    received.merge(one["receives"].get<std::map<std::string, std::string>>());
    sum.forward += one["forward"].get<double>();
    sum.backward += one["backward"].get<double>();
    sum.optimizer += one["optimizer"].get<double>();
    sum.attended_pairs += one["attended"].get<double>();
    sum.attention_pairs += one["pairs"].get<double>();
    for (const auto& [operand, count] : one["by_operand"].items()) sum.by_operand[operand] += count.get<double>();
    sum.at_most = sum.at_most || one["at_most"].get<bool>();
    sum.sampled = sum.sampled || one["sampled"].get<bool>();
  }
  CAUSEWAY_CHECK(sent == received, "stages expect other messages than they are sent");
  flops_of_all_stages_ = sum;
}

std::vector<Graph> TrainingStep::trace() const {
  std::vector<Graph> graphs = {main_->trace(main_arguments())};
  if (apply_ != nullptr) graphs.push_back(apply_->trace({hyper_}));
  return graphs;
}

std::string TrainingStep::program_hash() {
  std::string hash = main_->prepare(main_arguments()).hash().hex();
  if (apply_ != nullptr) hash += apply_->prepare({hyper_}).hash().hex();
  return hash;
}

std::map<std::string, double> TrainingStep::operand_shares() {
  FlopCount count = count_flops(main_->prepare(main_arguments()).graph());
  PipelineOptions options = options_.program.pipeline;
  // What is computed twice counts once. It matters where there are several types to be weighed.
  if (count.by_operand.size() > 1 && options.recompute.policy != RecomputePolicy::kNone) {
    options.recompute = {};
    count = count_flops(context_->run_passes(main_->traced_graph(main_arguments()), options));
  }
  std::map<std::string, double> shares = count.by_operand;
  for (auto& [operand, share] : shares) share /= count.total();
  return shares;
}

MicroBatch TrainingStep::micro_batch(const Arguments& arguments, const MainArguments& main) const {
  MicroBatch batch;
  batch.inputs.tokens = arguments.tokens;
  batch.inputs.order = order_;
  if (recipe_.data.masks_documents()) batch.inputs.documents = arguments.documents;
  batch.inputs.positions_restart = recipe_.data.packs_documents();
  if (model_.config().dropout > 0 || model_.adapter().dropout > 0) batch.inputs.dropout_key = arguments.key;
  batch.targets = arguments.targets;
  batch.target_weight = main.target_weight;
  const Tensor share = broadcast_to(main.target_weight, batch.targets.shape());
  batch.token_weights = where(ge(batch.targets, 0.0), share, 0.0);
  if (arguments.weights.defined()) batch.token_weights = batch.token_weights * arguments.weights;
  batch.numbers = main.numbers;
  return batch;
}

std::vector<Tensor> TrainingStep::values(const MainArguments& arguments) const {
  return objective_->trace(model_, micro_batch(arguments.batches.front(), arguments));
}

std::vector<Tensor> TrainingStep::staged(const MainArguments& arguments) {
  std::vector<MicroBatch> batches;
  for (const Arguments& one : arguments.batches) batches.push_back(micro_batch(one, arguments));
  const PipelineSchedule kind = recipe_.train.pipeline_schedule;
  const int64_t stage = context_->mesh().stage(context_->rank());
  const std::vector<StageAction> schedule = place_ ? stage_schedule_at(kind, pipeline_shape(recipe_), stage, *place_)
                                                   : stage_schedule(kind, pipeline_shape(recipe_), stage);
  const std::vector<Tensor> weights = enter_gradient_point(arguments.hyper);
  const StageResults of_stage = trace_stage(model_, schedule, batches, recipe_.train.z_loss);
  leave_gradient_point(weights);
  std::vector<Tensor> results = update(of_stage.loss, of_stage.gradients, arguments.hyper);
  if (of_stage.z_loss.defined()) results.push_back(sum_over_stages(of_stage.z_loss));
  return results;
}

std::vector<Tensor> TrainingStep::trained_weights() const {
  std::vector<Tensor> trained;
  for (const size_t i : trained_) trained.push_back(weights_[i]);
  return trained;
}

std::vector<Tensor> TrainingStep::kept_of(size_t parameter) const {
  std::vector<Tensor> kept;
  for (const StateTensor& one : state_)
    if (one.parameter == parameter) kept.push_back(one.tensor);
  return kept;
}

int64_t TrainingStep::seed_of(const Parameter& parameter) const {
  const std::string text = fmt::format("{} {}", recipe_.train.seed, parameter.name);
  return static_cast<int64_t>(hash_text(text).low >> 12);
}

std::vector<Tensor> TrainingStep::enter_gradient_point(const Tensor& hyper) {
  std::vector<Tensor> weights;
  const bool has_point = optimizer_.has_gradient_point(recipe_.optimizer);
  if (!has_point && recipe_.optimizer.weights == HeldWeights::kF32) return weights;
  Trace& trace = Trace::current();
  for (const size_t i : trained_) {
    // A handle of its own, which goes on to mean the weight's value.
    Parameter parameter = model_.parameters()[i];
    parameter.tensor = weights.emplace_back(trace, trace.use(weights_[i]));
    const Tensor point = has_point ? optimizer_.gradient_point_of(
                                         {parameter, {}, kept_of(i), {}, scalar_at(hyper, kStep)}, recipe_.optimizer)
                                   : parameter.tensor;
    // In f32 also where the weight lies in bf16, for a gradient has its value's type.
    trace.assign(weights_[i], trace.use(cast(point, DType::kF32)));
  }
  for (size_t i = 0; i < state_.size(); ++i)
    if (trace.has_captured(state_[i].tensor.state().get())) read_at_gradient_point_.insert(i);
  return weights;
}

void TrainingStep::leave_gradient_point(const std::vector<Tensor>& weights) {
  for (size_t k = 0; k < weights.size(); ++k) weights_[trained_[k]].assign(weights[k]);
}

std::vector<Tensor> TrainingStep::fused(const MainArguments& arguments) {
  const std::vector<Tensor> weights = enter_gradient_point(arguments.hyper);
  const std::vector<Tensor> value = values(arguments);
  const std::vector<Tensor> gradient = gradients(objective_->minimized(value), trained_weights());
  leave_gradient_point(weights);
  std::vector<Tensor> results = update(value.front(), gradient, arguments.hyper);
  results.insert(results.end(), value.begin() + 1, value.end());
  return results;
}

std::vector<Tensor> TrainingStep::accumulate(const MainArguments& arguments) {
  const std::vector<Tensor> weights = enter_gradient_point(arguments.hyper);
  const std::vector<Tensor> value = values(arguments);
  const std::vector<Tensor> gradient = gradients(objective_->minimized(value), trained_weights());
  leave_gradient_point(weights);
  for (size_t i = 0; i < gradient.size(); ++i) gradient_sums_[i].assign(gradient_sums_[i] + gradient[i]);
  for (size_t i = 0; i < value.size(); ++i) value_sums_[i].assign(value_sums_[i] + value[i]);
  return {};
}

std::vector<Tensor> TrainingStep::apply(const Tensor& hyper) {
  std::vector<Tensor> results = update(value_sums_.front() * 1.0, gradient_sums_, hyper);
  for (size_t i = 1; i < value_sums_.size(); ++i) results.push_back(value_sums_[i] * 1.0);
  for (Tensor& sum : gradient_sums_) sum.assign(zeros_like(sum));
  for (Tensor& sum : value_sums_) sum.assign(zeros_like(sum));
  return results;
}

// Of the gradients of each layer the sum of squares, f32 [layers + 2]: what comes before the layers is the first, what
// comes after them the last. 0 for what another stage has.
Tensor TrainingStep::squares_by_layer(std::span<const Tensor> gradients) const {
  const auto last = static_cast<size_t>(recipe_.model.layers + 1);
  std::vector<Tensor> squares(last + 1, constant_tensor(DType::kF32, {}, 0));
  // Parameters that are not trained count for the order, and have no gradient: `of_trained` is the next one.
  bool behind_layers = false;
  size_t of_trained = 0;
  for (const Parameter& parameter : model_.parameters()) {
    const std::optional<int64_t> layer = layer_of(parameter.name);
    behind_layers = behind_layers || (layer && !parameter.is_copy);
    if (!parameter.is_trained) continue;
    const size_t i = of_trained++;
    if (parameter.is_copy) continue;
    Tensor& sum_of_layer = squares[layer ? static_cast<size_t>(*layer + 1) : behind_layers ? last : 0];
    sum_of_layer = sum_of_layer + sum_of_squares(gradients.subspan(i, 1));
  }
  for (Tensor& one : squares) one = reshape(one, {Dim(1)});
  return cat(squares, 0);
}

// Of all gradients, f32 []. Those that the same axes cut are added up first, so that ranks exchange one number for all
// of them.
Tensor TrainingStep::squares_by_axes(std::span<const Tensor> gradients) const {
  std::map<std::set<std::string>, std::vector<Tensor>> cut_by;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (model_.parameters()[trained_[i]].is_copy) continue;
    std::set<std::string> axes;
    for (const std::vector<std::string>& of_dim : weights_[trained_[i]].sharding().dims)
      axes.insert(of_dim.begin(), of_dim.end());
    cut_by[axes].push_back(gradients[i]);
  }
  Tensor total = constant_tensor(DType::kF32, {}, 0);
  for (const auto& [axes, alike] : cut_by) total = total + sum_of_squares(alike);
  return total;
}

// Adds up the loss and the squares of the gradients over the stages, in one go. Where bits are not to depend on the
// mesh, a layer's squares are a term of their own: stages that do not have it add 0.
Tensor TrainingStep::norm_of_all_stages(std::span<const Tensor> gradients, Tensor& loss) const {
  if (!is_stage() && !recipe_.train.mesh_independent) return sqrt(squares_by_axes(gradients));
  const Tensor squares =
      recipe_.train.mesh_independent ? squares_by_layer(gradients) : reshape(squares_by_axes(gradients), {Dim(1)});
  const Tensor sums = sum_over_stages(cat({reshape(loss, {Dim(1)}), squares}, 0));
  loss = scalar_at(sums, 0);
  return sqrt(sum(narrow(sums, 0, 1, sums.size(0).constant() - 1)));
}

std::vector<Tensor> TrainingStep::update(Tensor loss, std::vector<Tensor> gradients, const Tensor& hyper) {
  const Scope scope(kOptimizerScope);
  // Each rank updates what it holds of the weights, so no more of a gradient has to be summed up there.
  for (size_t i = 0; i < gradients.size(); ++i) {
    gradients[i] = constrain_sharding(gradients[i], weights_[trained_[i]].sharding());
    if (rounds_gradients(recipe_) && model_.parameters()[trained_[i]].only_multiplied)
      gradients[i] = cast(cast(gradients[i], DType::kBF16), DType::kF32);
  }
  const OptimizerConfig& config = recipe_.optimizer;
  const Tensor norm = norm_of_all_stages(gradients, loss);
  Tensor finite = logical_and(isfinite(loss), isfinite(norm));
  if (frozen_.defined()) {
    finite = logical_and(finite, eq(frozen_, 0.0));
    frozen_.assign(where(finite, frozen_, ones_like(frozen_)));
  }
  const bool by_norm = config.gradient_clip > 0 && config.gradient_clip_by == GradientClip::kNorm;
  const Tensor scale = by_norm ? clip_scale(norm, config.gradient_clip) : ones_like(norm);
  const auto clipped = [&](const Tensor& gradient) {
    return config.gradient_clip_by == GradientClip::kNorm
               ? gradient * scale
               : clamp(gradient, -config.gradient_clip, config.gradient_clip);
  };
  const Tensor rate = scalar_at(hyper, kLearningRate), step = scalar_at(hyper, kStep);
  const bool leaves_steps_out = recipe_.train.on_non_finite == FaultPolicy::kSkip;
  const auto keep_unless_finite = [&](Tensor& target, const Tensor& value) {
    target.assign(where(broadcast_to(finite, value.shape()), value, target));
  };
  std::vector<ParameterUpdate> updates;
  for (size_t k = 0; k < trained_.size(); ++k) {
    const Parameter& parameter = model_.parameters()[trained_[k]];
    const double factor = optimizer_.rate_factor_of(parameter, config);
    updates.push_back({parameter, clipped(gradients[k]), kept_of(trained_[k]), factor == 1 ? rate : rate * factor, step,
                       config.decay_of(parameter.name, parameter.decays), seed_of(parameter)});
  }
  optimizer_.update_each(updates, config, [&](size_t k, const UpdatedParameter& updated) {
    Tensor& weight = weights_[trained_[k]];
    const ParameterUpdate& of = updates[k];
    const Tensor before(Trace::current(), Trace::current().use(weight));  // a handle of its own: `weight` is assigned
    keep_unless_finite(weight, updated.parameter);
    CAUSEWAY_CHECK(updated.state.size() == of.state.size(), "{} keeps {} tensors of {} and updates {}", optimizer_.name,
                   of.state.size(), of.parameter.name, updated.state.size());
    std::vector<Tensor> kept = of.state;
    const std::vector<OptimizerState> described = optimizer_.state_of(of.parameter, config);
    for (size_t j = 0; j < kept.size(); ++j) {
      if (leaves_steps_out && described[j].begins_as_parameter) {
        const Tensor left_out =
            where(broadcast_to(le(step, 1.0), before.shape()), cast(before, kept[j].dtype()), kept[j]);
        kept[j].assign(where(broadcast_to(finite, before.shape()), updated.state[j], left_out));
      } else {
        keep_unless_finite(kept[j], updated.state[j]);
      }
    }
  });
  return {loss, norm, cast(finite, DType::kF32)};
}

void TrainingStep::write_whole_batch(const TrainingBatch& batch, int64_t step) {
  for (int64_t i = 0; i < recipe_.micro_batches(); ++i) write_batch(batch, i, step, static_cast<size_t>(i));
}

void TrainingStep::write_batch(const TrainingBatch& batch, int64_t micro_batch, int64_t step, size_t place) {
  Arguments& arguments = arguments_[place];
  const size_t count = static_cast<size_t>(own_rows().count * recipe_.data.sequence_length);
  const size_t first = static_cast<size_t>(micro_batch) * count;
  CAUSEWAY_CHECK(first + count <= batch.inputs.size() && batch.inputs.size() == batch.targets.size());
  write_own_rows(arguments.tokens, batch.inputs.subspan(first, count), order_);
  write_own_rows(arguments.targets, batch.targets.subspan(first, count), order_);
  if (recipe_.data.masks_documents())
    write_own_rows(arguments.documents, batch.documents.subspan(first, count), order_);
  CAUSEWAY_CHECK(batch.numbers.size() == numbers_.size());
  for (size_t i = 0; i < numbers_.size(); ++i) {
    const bool of_rows = numbers_[i].shape().size() == 1;
    const size_t of_micro_batch = of_rows ? static_cast<size_t>(own_rows().count) : count;
    const std::span<const float> own =
        batch.numbers[i].subspan(static_cast<size_t>(micro_batch) * of_micro_batch, of_micro_batch);
    of_rows ? numbers_[i].write_bytes(bytes_of(own)) : write_own_rows(numbers_[i], own, order_);
  }
  if (arguments.weights.defined()) {
    CAUSEWAY_CHECK(batch.target_weights.size() == batch.targets.size(), "{} targets have {} weights",
                   batch.targets.size(), batch.target_weights.size());
    write_own_rows(arguments.weights, batch.target_weights.subspan(first, count), order_);
  }
  const double weighed =
      arguments.weights.defined() ? batch.target_weight : static_cast<double>(objective_->weighed_targets(batch));
  const float weight = weighed > 0 ? 1.0f / static_cast<float>(weighed) : 0.0f;
  target_weight_.write_bytes(bytes_of(std::span<const float>(&weight, 1)));
  const int64_t key[] = {recipe_.train.seed, step * recipe_.micro_batches() + micro_batch};
  arguments.key.write_bytes(bytes_of(std::span<const int64_t>(key)));
}

void TrainingStep::write_hyper(int64_t step, double learning_rate) {
  float hyper[kHyperCount];
  hyper[kLearningRate] = static_cast<float>(learning_rate);
  hyper[kStep] = static_cast<float>(step + 1);
  hyper_.write_bytes(bytes_of(std::span<const float>(hyper)));
}

void TrainingStep::begin(const TrainingBatch& batch, int64_t step, double learning_rate, std::vector<TracedRun>* runs) {
  CAUSEWAY_CHECK(begun_ - finished_ < (may_run_ahead() ? kMostBegun : 1), "{} steps are not finished",
                 begun_ - finished_);
  const auto run_program = [&](Step& one, const std::vector<Tensor>& arguments) {
    if (runs == nullptr) return one.run(arguments);
    TracedRun& traced = runs->emplace_back();
    std::vector<Tensor> results = one.run_traced(arguments, traced.times);
    traced.program = &one.prepare({arguments.begin(), arguments.end()});
    return results;
  };
  write_hyper(step, learning_rate);
  // At once for both programs: an arena that grows leaves the one before to the driver's pool.
  if (accumulates()) context_->arena().reserve(arena_bytes());
  const std::vector<Tensor> arguments = argument_list();
  std::vector<Tensor> results;
  if (is_stage()) {
    write_whole_batch(batch, step);
    updating_ = true;
    results = run_program(*main_, arguments);
  }
  for (int64_t micro_batch = 0; !is_stage() && micro_batch < recipe_.micro_batches(); ++micro_batch) {
    write_batch(batch, micro_batch, step);
    updating_ = !accumulates();
    results = run_program(*main_, arguments);
  }
  updating_ = true;
  if (apply_ != nullptr) results = run_program(*apply_, {hyper_});
  // Before the next step writes there.
  Device& device = context_->device();
  Landing& landing = landings_[static_cast<size_t>(begun_ % kMostBegun)];
  if (landing.event == nullptr)
    landing = {device.allocate_host(results.size() * sizeof(float)), device.make_event(), {}};
  for (size_t i = 0; i < results.size(); ++i)
    device.queue_copy_to_host(landing.figures.data() + i * sizeof(float), results[i].buffer().data(), sizeof(float),
                              kComputeQueue);
  device.signal(*landing.event, kComputeQueue);
  if (may_run_ahead()) landing.end = device.mark();
  updating_ = false;
  ++begun_;
}

StepFigures TrainingStep::finish() {
  CAUSEWAY_CHECK(finished_ < begun_, "no step has begun");
  Landing& landing = landings_[static_cast<size_t>(finished_ % kMostBegun)];
  Device& device = context_->device();
  device.wait_on_host(*landing.event);
  std::vector<float> figures(3 + objective_->figure_names().size());
  std::memcpy(figures.data(), landing.figures.data(), figures.size() * sizeof(float));
  ++finished_;
  const double seconds = last_end_ == nullptr ? 0 : device.seconds_between(*last_end_, *landing.end);
  last_end_ = std::move(landing.end);
  return {figures[0], figures[1], figures[2] != 0, seconds, {figures.begin() + 3, figures.end()}};
}

std::vector<double> TrainingStep::run_timed(const TrainingBatch& batch, int64_t step, double learning_rate) {
  write_hyper(step, learning_rate);
  is_stage() ? write_whole_batch(batch, step) : write_batch(batch, 0, step);
  return main_->run_timed(argument_list());
}

std::optional<NonFiniteValue> TrainingStep::find_non_finite(const TrainingBatch& batch, int64_t step,
                                                            double learning_rate) {
  write_hyper(step, learning_rate);
  const std::vector<Tensor> arguments = argument_list();
  if (is_stage()) {
    write_whole_batch(batch, step);
    return main_->find_non_finite(arguments);
  }
  std::optional<NonFiniteValue> found;
  for (int64_t micro_batch = 0; micro_batch < recipe_.micro_batches() && !found; ++micro_batch) {
    write_batch(batch, micro_batch, step);
    found = main_->find_non_finite(arguments);
  }
  // What the search added up must not reach the next step.
  for (Tensor& sum : gradient_sums_) sum.write_bytes(std::vector<std::byte>(static_cast<size_t>(sum.local_bytes())));
  for (Tensor& sum : value_sums_) sum.write_bytes(std::vector<std::byte>(sizeof(float)));
  return found;
}

}  // namespace causeway::train
