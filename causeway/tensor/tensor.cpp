#include "causeway/tensor/tensor.h"

#include "causeway/base/error.h"
#include "causeway/passes/gradient.h"
#include "causeway/tensor/runtime.h"
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

}  // namespace

Tensor::Tensor(Trace& trace, Value value) : state_(std::make_shared<TensorState>()) {
  state_->type = trace.graph.type(value);
  state_->trace = &trace;
  state_->value = value;
  trace.register_state(state_.get());
}

Tensor Tensor::in_memory(const std::vector<int64_t>& shape, DType dtype, bool zeroed) {
  auto state = std::make_shared<TensorState>();
  state->type = {dtype, constant_shape(shape)};
  state->buffer = Runtime::current().device().allocate(constant_bytes(state->type), zeroed);
  return Tensor(std::move(state));
}

Tensor Tensor::uninitialized(const std::vector<int64_t>& shape, DType dtype) { return in_memory(shape, dtype, false); }

Tensor Tensor::zeroed(const std::vector<int64_t>& shape, DType dtype) { return in_memory(shape, dtype, true); }

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

bool Tensor::holds_values() const { return state_ != nullptr && state_->trace == nullptr; }

void Tensor::evaluate() const {
  if (state_ == nullptr) throw Error(ErrorKind::kInvalidArgument, "an undefined tensor was used");
  // A tensor with values is still to be computed when it was assigned to in the present trace.
  Trace* trace = state_->trace;
  if (trace == nullptr && Trace::current().has_assigned(state_.get())) trace = &Trace::current();
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
  const DeviceBuffer& memory = buffer();
  if (bytes.size() != constant_bytes(state_->type))
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("{} bytes to read a tensor of type {}", bytes.size(), state_->type.text()));
  Runtime::current().device().copy_to_host(bytes.data(), memory.data(), bytes.size());
}

void Tensor::write_bytes(std::span<const std::byte> bytes) {
  // What was recorded with the old values is computed from them.
  if (state_ != nullptr && Trace::current().is_eager() && Trace::current().has_captured(state_.get()))
    Trace::current().flush();
  const DeviceBuffer& memory = buffer();
  if (bytes.size() != constant_bytes(state_->type))
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("{} bytes for a tensor of type {}", bytes.size(), state_->type.text()));
  Runtime::current().device().copy_to_device(memory.data(), bytes.data(), bytes.size());
}

std::vector<double> Tensor::values() const {
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

Tensor stop_gradient(const Tensor& x) {
  // A value of its own, so that other uses of x keep their gradient.
  Attributes attributes;
  attributes.shape = x.shape();
  const Tensor copy = apply(Op::kReshape, {x}, attributes);
  Trace::current().stop(copy.state()->value);
  return copy;
}

Scope::Scope(const std::string& name) {
  Graph& graph = Trace::current().graph;
  previous_ = graph.scope();
  graph.set_scope(previous_.empty() ? name : previous_ + "." + name);
}

Scope::~Scope() { Trace::current().graph.set_scope(previous_); }

int64_t next_random_stream() { return Trace::current().next_random_stream++; }

}  // namespace causeway::tensor
