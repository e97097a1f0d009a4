#include "causeway/train/run_checkpoint.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/tensor/runtime.h"

namespace causeway {
namespace {

NamedTensorSpec spec_of(const std::string& name, const Tensor& tensor) {
  std::vector<int64_t> shape;
  for (const int64_t size : evaluate(tensor.shape(), {})) shape.push_back(size);
  return {name, tensor.dtype(), shape};
}

size_t byte_size(const Tensor& tensor) {
  return static_cast<size_t>(element_count(tensor.shape()).constant()) * size_bytes(tensor.dtype());
}

void add_tensor(CheckpointWriter& writer, const std::string& name, const Tensor& tensor) {
  writer.add(spec_of(name, tensor), [tensor](uint64_t offset, std::span<std::byte> bytes) {
    Runtime::current().device().copy_to_host(bytes.data(), tensor.buffer().data() + offset, bytes.size());
  });
}

void read_tensor(const CheckpointReader& checkpoint, const std::string& name, Tensor tensor) {
  std::vector<std::byte> bytes(byte_size(tensor));
  checkpoint.read(name, bytes);
  tensor.write_bytes(bytes);
}

}  // namespace

std::filesystem::path save_run(const Recipe& recipe, const LanguageModel& model, const TrainingStep& step,
                               const RunPosition& position, const std::string& dataset_fingerprint,
                               const std::string& tokenizer_fingerprint) {
  CheckpointState state;
  state.step = position.step;
  state.model = to_hugging_face(model.config());
  state.optimizer = "adamw";
  state.tokenizer_fingerprint = tokenizer_fingerprint;
  state.rng_seed = static_cast<uint64_t>(recipe.train.seed);
  state.rng_step = static_cast<uint64_t>(position.step);
  state.data = {{"samples_consumed", position.data_cursor}, {"dataset", dataset_fingerprint}};
  state.schedule = {{"kind", schedule_kind_name(recipe.schedule.kind)}, {"step", position.step}};
  state.trainer = {{"skipped_steps", position.skipped_steps}, {"recipe", recipe_text(recipe)}};
  CheckpointOptions options;
  options.keep_last = recipe.checkpoint.keep;
  CheckpointWriter writer(recipe.run_directory, state, options);
  for (const Parameter& parameter : model.parameters()) add_tensor(writer, parameter.name, parameter.tensor);
  for (const TrainingStep::StateTensor& tensor : step.optimizer_state()) add_tensor(writer, tensor.name, tensor.tensor);
  return writer.commit();
}

RunPosition restore_run(const CheckpointReader& checkpoint, LanguageModel& model, TrainingStep& step,
                        const std::string& dataset_fingerprint) {
  checkpoint.require_model(to_hugging_face(model.config()));
  std::vector<NamedTensorSpec> specs;
  for (const Parameter& parameter : model.parameters()) specs.push_back(spec_of(parameter.name, parameter.tensor));
  for (const TrainingStep::StateTensor& tensor : step.optimizer_state())
    specs.push_back(spec_of(tensor.name, tensor.tensor));
  checkpoint.require_tensors(specs);
  const CheckpointState& state = checkpoint.state();
  RunPosition position;
  position.step = state.step;
  position.data_cursor = state.data.value("samples_consumed", uint64_t{0});
  position.skipped_steps = state.trainer.value("skipped_steps", int64_t{0});
  if (const std::string dataset = state.data.value("dataset", std::string()); dataset != dataset_fingerprint)
    throw Error(ErrorKind::kInvalidArgument, "the checkpoint was trained on another dataset",
                checkpoint.directory().string(), "Give the same data.path, or start a new run with another name.");
  for (const Parameter& parameter : model.parameters()) read_tensor(checkpoint, parameter.name, parameter.tensor);
  for (const TrainingStep::StateTensor& tensor : step.optimizer_state())
    read_tensor(checkpoint, tensor.name, tensor.tensor);
  return position;
}

void restore_weights(const CheckpointReader& checkpoint, LanguageModel& model) {
  checkpoint.require_model(to_hugging_face(model.config()));
  for (const Parameter& parameter : model.parameters()) read_tensor(checkpoint, parameter.name, parameter.tensor);
}

}  // namespace causeway
