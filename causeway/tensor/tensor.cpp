#include "causeway/tensor/tensor.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/graph/op.h"
#include "causeway/passes/gradient.h"
#include "causeway/program/memory_plan.h"
#include "causeway/tensor/halves.h"
#include "causeway/tensor/trace.h"

namespace causeway::tensor {
namespace {

Shape constant_shape(const std::vector<int64_t>& sizes) {
  Shape shape;
  for (const int64_t size : sizes) {
    if (size < 0) throw Error(ErrorKind::kInvalidArgument, fmt::format("a tensor dimension of {}", size));
    shape.emplace_back(size);
  }
  return shape;
}

std::string described(const TensorState& state) {
  if (state.sharding.replicated()) return fmt::format("a tensor of type {}", state.type.text());
  return fmt::format("the rank's part, {}, of a tensor of type {}",
                     shape_text(graph::local_shape(state.type.shape, state.sharding, state.context->mesh())),
                     state.type.text());
}

}  // namespace

Tensor::Tensor(Trace& trace, Value value) : state_(std::make_shared<TensorState>()) {
  state_->context = trace.context();
  state_->type = trace.graph.type(value);
  state_->trace = &trace;
  state_->value = value;
  trace.register_state(state_.get());
}

Tensor Tensor::in_memory(const std::vector<int64_t>& shape, DType dtype, const Sharding& sharding, bool zeroed,
                         bool on_host) {
  auto state = std::make_shared<TensorState>();
  state->context = Context::current();
  state->type = {dtype, constant_shape(shape)};
  if (!sharding.partial.empty())
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("a tensor in memory cannot hold terms of a sum ('{}')", sharding.text()));
  check_sharding(sharding, state->type.shape, state->context->mesh(), "a tensor");
  state->sharding = sharding;
  const TensorType local = {dtype, graph::local_shape(state->type.shape, sharding, state->context->mesh())};
  Device& device = state->context->device();
  if (on_host) {
    HostBuffer memory = device.allocate_host(constant_bytes(local), zeroed);
    state->buffer = {std::move(memory.memory), memory.bytes};
    state->on_host = true;
  } else {
    state->buffer = device.allocate(constant_bytes(local), zeroed);
  }
  return Tensor(std::move(state));
}

Tensor Tensor::uninitialized(const std::vector<int64_t>& shape, DType dtype, const Sharding& sharding) {
  return in_memory(shape, dtype, sharding, false);
}

Tensor Tensor::uninitialized_halves(const std::vector<int64_t>& shape, const Sharding& sharding) {
  Tensor tensor = in_memory(shape, DType::kF32, sharding, false);
  tensor.state_->halves = tensor.local_bytes() / 2 % kArenaAlignment == 0;
  return tensor;
}

Tensor Tensor::zeroed(const std::vector<int64_t>& shape, DType dtype, const Sharding& sharding) {
  return in_memory(shape, dtype, sharding, true);
}

Tensor Tensor::zeroed_on_host(const std::vector<int64_t>& shape, DType dtype, const Sharding& sharding) {
  return in_memory(shape, dtype, sharding, true, true);
}

bool Tensor::lies_on_host() const { return state_ != nullptr && state_->on_host; }

void Tensor::move_to_host() {
  evaluate();
  CAUSEWAY_CHECK(!state_->halves && state_->trace == nullptr);
  if (state_->on_host) return;
  Device& device = state_->context->device();
  HostBuffer memory = device.allocate_host(state_->buffer.bytes);
  device.queue_copy_to_host(memory.data(), state_->buffer.data(), memory.bytes, kComputeQueue);
  device.synchronize();
  state_->buffer = {std::move(memory.memory), memory.bytes};
  state_->on_host = true;
}

// What was queued before may still write to the host's memory.
void Tensor::copy_from_memory(void* to, size_t offset, size_t bytes) const {
  Device& device = state_->context->device();
  const std::byte* const from = state_->buffer.data() + offset;
  if (!state_->on_host) return device.copy_to_host(to, from, bytes);
  device.synchronize();
  if (bytes != 0) std::memcpy(to, from, bytes);
}

void Tensor::copy_to_memory(const void* from, size_t bytes) {
  Device& device = state_->context->device();
  if (!state_->on_host) return device.copy_to_device(state_->buffer.data(), from, bytes);
  device.synchronize();
  if (bytes != 0) std::memcpy(state_->buffer.data(), from, bytes);
}

Tensor Tensor::from_bytes(std::span<const std::byte> bytes, const std::vector<int64_t>& shape, DType dtype) {
  Tensor tensor = uninitialized(shape, dtype);
  tensor.write_bytes(bytes);
  return tensor;
}

Tensor Tensor::from_values(std::span<const double> values, const std::vector<int64_t>& shape, DType dtype) {
  std::vector<std::byte> bytes(values.size() * size_bytes(dtype));
  for (size_t i = 0; i < values.size(); ++i) write_element(dtype, bytes.data(), i, values[i]);
  return from_bytes(bytes, shape, dtype);
}

Tensor Tensor::from_values(std::initializer_list<double> values, const std::vector<int64_t>& shape, DType dtype) {
  return from_values(std::span<const double>(values.begin(), values.size()), shape, dtype);
}

const TensorType& Tensor::type() const {
  if (state_ == nullptr) throw Error(ErrorKind::kInvalidArgument, "an undefined tensor was used");
  return state_->type;
}

Dim Tensor::size(int64_t axis) const {
  const int64_t index = axis < 0 ? axis + rank() : axis;
  if (index < 0 || index >= rank())
    throw Error(ErrorKind::kInvalidArgument, fmt::format("axis {} of a tensor of type {}", axis, type().text()));
  return shape()[static_cast<size_t>(index)];
}

const Sharding& Tensor::sharding() const {
  if (state_ == nullptr) throw Error(ErrorKind::kInvalidArgument, "an undefined tensor was used");
  return state_->sharding;
}

std::vector<int64_t> Tensor::local_shape() const {
  return graph::evaluate(graph::local_shape(shape(), sharding(), state_->context->mesh()), {});
}

std::vector<int64_t> Tensor::local_start() const {
  return shard_start(shape(), sharding(), state_->context->mesh(), state_->context->rank());
}

int64_t Tensor::local_bytes() const {
  auto bytes = static_cast<int64_t>(size_bytes(dtype()));
  for (const int64_t size : local_shape()) bytes *= size;
  return bytes;
}

const std::shared_ptr<Context>& Tensor::context() const {
  if (state_ == nullptr) throw Error(ErrorKind::kInvalidArgument, "an undefined tensor was used");
  return state_->context;
}

bool Tensor::holds_values() const { return state_ != nullptr && state_->trace == nullptr; }

void Tensor::evaluate() const {
  if (state_ == nullptr) throw Error(ErrorKind::kInvalidArgument, "an undefined tensor was used");
  // A tensor with values is still to be computed when it was assigned to in the present trace.
  Trace* trace = state_->trace;
  if (trace == nullptr && Trace::of(state_->context).has_assigned(state_.get())) trace = &Trace::of(state_->context);
  if (trace == nullptr) return require_values(*state_);
  if (!trace->is_eager())
    throw Error(ErrorKind::kInvalidArgument, "a tensor's values were asked for while its step was being traced", {},
                "Return the tensor from the step's function and read it from the step's result.");
  trace->flush();
}

const DeviceBuffer& Tensor::buffer() const {
  evaluate();
  return state_->buffer;
}

void Tensor::read_bytes(std::span<std::byte> bytes) const {
  evaluate();
  if (static_cast<int64_t>(bytes.size()) != local_bytes())
    throw Error(ErrorKind::kInvalidArgument, fmt::format("{} bytes to read {}", bytes.size(), described(*state_)));
  read_bytes_from(0, bytes);
}

void Tensor::read_bytes_from(size_t offset, std::span<std::byte> bytes) const {
  evaluate();
  const auto all = static_cast<size_t>(local_bytes());
  if (offset + bytes.size() > all)
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("{} bytes from {} on to read {}", bytes.size(), offset, described(*state_)));
  if (!state_->halves) return copy_from_memory(bytes.data(), offset, bytes.size());
  std::vector<std::byte> halves(bytes.size());
  const size_t half = bytes.size() / 2;
  copy_from_memory(halves.data(), offset / 2, half);
  copy_from_memory(halves.data() + half, all / 2 + offset / 2, half);
  join_halves(halves, 0, bytes);
}

bool Tensor::lies_in_halves() const { return state_ != nullptr && state_->halves; }

void Tensor::write_bytes(std::span<const std::byte> bytes) {
  // What was recorded with the old values is computed from them.
  if (state_ != nullptr)
    if (Trace& trace = Trace::of(state_->context); trace.is_eager() && trace.has_captured(state_.get())) trace.flush();
  evaluate();
  if (static_cast<int64_t>(bytes.size()) != local_bytes())
    throw Error(ErrorKind::kInvalidArgument, fmt::format("{} bytes for {}", bytes.size(), described(*state_)));
  if (state_->halves) {
    const std::vector<std::byte> halves = split_halves(bytes);
    return copy_to_memory(halves.data(), halves.size());
  }
  copy_to_memory(bytes.data(), bytes.size());
}

std::vector<double> Tensor::values() const {
  if (state_ != nullptr) require_whole(*state_, "all values of");
  std::vector<std::byte> bytes(constant_bytes(type()));
  read_bytes(bytes);
  std::vector<double> result(bytes.size() / size_bytes(dtype()));
  for (size_t i = 0; i < result.size(); ++i) result[i] = read_element(dtype(), bytes.data(), i);
  return result;
}

double Tensor::item() const {
  const std::vector<double> all = values();
  if (all.size() != 1)
    throw Error(ErrorKind::kInvalidArgument, fmt::format("item() of a tensor of type {}", type().text()), {},
                "item() reads a tensor of one element; use values().");
  return all.front();
}

void Tensor::assign(const Tensor& value) {
  if (!(type() == value.type()))
    throw Error(ErrorKind::kInvalidArgument, fmt::format("a tensor of type {} cannot be assigned to one of type {}",
                                                         value.type().text(), type().text()));
  Trace& trace = Trace::current();
  if (state_->trace != nullptr && trace.is_eager()) evaluate();
  trace.assign(*this, trace.use(value));
}

std::vector<Tensor> apply_all(Op op, std::span<const Tensor> inputs, Attributes attributes) {
  Trace& trace = Trace::current();
  trace.flush_when_long();
  std::vector<Value> values;
  values.reserve(inputs.size());
  for (const Tensor& input : inputs) values.push_back(trace.use(input));
  const Value first = trace.graph.add(op, std::move(values), std::move(attributes));
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < trace.graph.node(first).outputs.size(); ++i)
    outputs.emplace_back(trace, Value{first.node, static_cast<int32_t>(i)});
  return outputs;
}

Tensor apply(Op op, std::span<const Tensor> inputs, Attributes attributes) {
  return apply_all(op, inputs, std::move(attributes)).front();
}

Tensor apply(Op op, std::initializer_list<Tensor> inputs, Attributes attributes) {
  return apply(op, std::span<const Tensor>(inputs.begin(), inputs.size()), std::move(attributes));
}

std::vector<Tensor> gradients(const Tensor& loss, std::span<const Tensor> wrt) {
  if (loss.holds_values())
    throw Error(ErrorKind::kInvalidArgument, "gradients of a loss whose values have already been computed", {},
                "Ask for gradients before reading the loss, or compute both in a Step.");
  Trace& trace = Trace::current();
  const Value loss_value = trace.use(loss);
  std::vector<Value> values;
  for (const Tensor& tensor : wrt) values.push_back(trace.use(tensor));
  const std::vector<Value> results = add_gradients(trace.graph, loss_value, values, trace.stopped());
  std::vector<Tensor> tensors;
  for (const Value result : results) tensors.emplace_back(trace, result);
  return tensors;
}

std::vector<Tensor> gradients(std::span<const Tensor> outputs, std::span<const Tensor> output_gradients,
                              std::span<const Tensor> wrt) {
  Trace& trace = Trace::current();
  const auto values_of = [&](std::span<const Tensor> tensors) {
    std::vector<Value> values;
    for (const Tensor& tensor : tensors) values.push_back(trace.use(tensor));
    return values;
  };
  const std::vector<Value> values = values_of(outputs), given = values_of(output_gradients), of = values_of(wrt);
  std::vector<Tensor> tensors;
  for (const Value result : add_gradients(trace.graph, values, given, of, trace.stopped()))
    tensors.emplace_back(trace, result);
  return tensors;
}

Tensor stop_gradient(const Tensor& x) {
  // A value of its own, so that other uses of x keep their gradient.
  Attributes attributes;
  attributes.shape = x.shape();
  const Tensor copy = apply(Op::kReshape, {x}, attributes);
  Trace::current().stop(copy.state()->value);
  return copy;
}

Scope::Scope(const std::string& name) : trace_(Trace::current()), previous_(trace_.graph.scope()) {
  trace_.graph.set_scope(previous_.empty() ? name : previous_ + "." + name);
}

Scope::~Scope() { trace_.graph.set_scope(previous_); }

RandomStreams::RandomStreams(int64_t first)
    : trace_(Trace::current()), previous_(std::exchange(trace_.next_random_stream, first)) {}

// Whoever draws afterwards draws other numbers than what was drawn here.
RandomStreams::~RandomStreams() { trace_.next_random_stream = std::max(previous_, trace_.next_random_stream); }

int64_t next_random_stream() { return Trace::current().next_random_stream++; }

}  // namespace causeway::tensor
