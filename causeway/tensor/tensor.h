// Tensors as a model author uses them.
//
// An operation on tensors records a node; nothing is computed until values are asked for (eager use) or until the
// surrounding Step has been traced (tensor/step.h). Both go through the same passes, kernels and programs.
//
// A Tensor is a handle: copies refer to the same tensor. A tensor that was given or has computed values holds them in
// device memory. assign() gives such a tensor new values; inside a Step the update happens in place, in the same
// program. Not thread-safe: a thread works on its own tensors.
//
// A tensor belongs to a context (program/context.h): to the thread's current one when it was made. Operations happen in
// the current context, and those on a tensor of another one throw Error(kInvalidArgument). Its values are read and
// written wherever the thread is.
//
// Where the context is a rank's of a mesh, a tensor may be cut over it: its type is that of the whole, its memory holds
// the rank's part. Only a Step computes with such tensors; eager operations on one throw Error(kInvalidArgument).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "causeway/device/device.h"
#include "causeway/graph/graph.h"

namespace causeway::program {
class Context;
}

namespace causeway::tensor {

class Trace;
struct TensorState;

class Tensor {
 public:
  Tensor() = default;  // no tensor; only assignment and defined() are allowed

  // Values converted to `dtype` as write_element() does.
  static Tensor from_values(std::span<const double> values, const std::vector<int64_t>& shape,
                            DType dtype = DType::kF32);
  static Tensor from_values(std::initializer_list<double> values, const std::vector<int64_t>& shape,
                            DType dtype = DType::kF32);
  // Packed elements of `dtype`, row-major.
  static Tensor from_bytes(std::span<const std::byte> bytes, const std::vector<int64_t>& shape, DType dtype);
  // Memory with undefined contents, to be filled by write_bytes() or fill_normal(). With a sharding, of the rank's part
  // of that shape; throws Error(kInvalidArgument) where it does not fit the context's mesh (check_sharding()).
  static Tensor uninitialized(const std::vector<int64_t>& shape, DType dtype, const Sharding& sharding = {});
  // The same in f32 with the upper halves of all elements before the lower ones, so that GEMMs in bf16 read them
  // as they lie (passes/split_weights.h); as uninitialized() where a rank has no multiple of 32 elements, as its lower
  // halves would not be aligned. Bytes that are read and written are those of f32 all the same.
  static Tensor uninitialized_halves(const std::vector<int64_t>& shape, const Sharding& sharding = {});
  bool lies_in_halves() const;
  // Memory of zeros, without a kernel.
  static Tensor zeroed(const std::vector<int64_t>& shape, DType dtype, const Sharding& sharding = {});
  // The same in the host's memory, from where programs that compute with it bring it a piece at a time, and where they
  // take what is assigned to it (program/host_offload.h).
  static Tensor zeroed_on_host(const std::vector<int64_t>& shape, DType dtype, const Sharding& sharding = {});
  bool lies_on_host() const;
  // Takes a tensor that holds values from the device's memory to the host's. Steps that were traced with it before must
  // not run any more.
  void move_to_host();

  bool defined() const { return state_ != nullptr; }
  const TensorType& type() const;
  DType dtype() const { return type().dtype; }
  const Shape& shape() const { return type().shape; }
  int64_t rank() const { return static_cast<int64_t>(shape().size()); }
  // How a tensor in memory lies over its context's mesh: replicated unless it was made otherwise.
  const Sharding& sharding() const;
  bool is_cut() const { return !sharding().replicated(); }
  // The shape of what this rank holds: shape() unless the tensor is cut. Of constant sizes.
  std::vector<int64_t> local_shape() const;
  // The index of its first element in the whole.
  std::vector<int64_t> local_start() const;
  int64_t local_bytes() const;
  // The size of an axis; negative axes count from the end. Throws Error(kInvalidArgument) when there is none.
  Dim size(int64_t axis) const;

  // Computes the tensor if need be and returns its elements as doubles, or its only element. Throws
  // Error(kInvalidArgument) inside a Step, where values do not exist yet, and for a tensor that is cut.
  std::vector<double> values() const;
  double item() const;
  // The same as packed elements, of a tensor that is cut the rank's part; `bytes` has local_bytes().
  void read_bytes(std::span<std::byte> bytes) const;
  // Of those bytes so many from one on, at elements.
  void read_bytes_from(size_t offset, std::span<std::byte> bytes) const;
  // Overwrites a tensor that holds values, or the rank's part of one that is cut.
  void write_bytes(std::span<const std::byte> bytes);
  // Computes the tensor now, if it has not been.
  void evaluate() const;

  // Gives this tensor the value of `value`, which has the same type. What was computed from the old value keeps it.
  void assign(const Tensor& value);

  const std::shared_ptr<Context>& context() const;
  // The memory of a tensor that holds values: the device's, or the host's where it lies there.
  const DeviceBuffer& buffer() const;
  bool holds_values() const;

  // For the op library and Step.
  Tensor(Trace& trace, Value value);
  const std::shared_ptr<TensorState>& state() const { return state_; }

 private:
  explicit Tensor(std::shared_ptr<TensorState> state) : state_(std::move(state)) {}
  static Tensor in_memory(const std::vector<int64_t>& shape, DType dtype, const Sharding& sharding, bool zeroed,
                          bool on_host = false);
  void copy_from_memory(void* to, size_t offset, size_t bytes) const;
  void copy_to_memory(const void* from, size_t bytes);

  std::shared_ptr<TensorState> state_;
};

// Records one graph op on tensors; `output` chooses among several outputs.
Tensor apply(Op op, std::span<const Tensor> inputs, Attributes attributes = {});
Tensor apply(Op op, std::initializer_list<Tensor> inputs, Attributes attributes = {});
std::vector<Tensor> apply_all(Op op, std::span<const Tensor> inputs, Attributes attributes = {});

// d loss / d wrt[i] for a scalar loss; zeros where it does not depend on wrt[i]. Inside a Step, or on a loss whose
// values have not been asked for yet: values that have been computed have forgotten how.
std::vector<Tensor> gradients(const Tensor& loss, std::span<const Tensor> wrt);
// The same of sum_i <outputs[i], output_gradients[i]>, of equal types.
std::vector<Tensor> gradients(std::span<const Tensor> outputs, std::span<const Tensor> output_gradients,
                              std::span<const Tensor> wrt);

// A value that gradients treat as a constant.
Tensor stop_gradient(const Tensor& x);

// While it lives, what is recorded carries the name of the layer: scopes nest as "layers.3.mlp".
class Scope {
 public:
  explicit Scope(const std::string& name);
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  ~Scope();

 private:
  Trace& trace_;
  std::string previous_;
};

// A new number for each random op of a trace, so that ops draw different numbers from one key.
int64_t next_random_stream();

// While it lives, those numbers count from `first`.
class RandomStreams {
 public:
  explicit RandomStreams(int64_t first);
  RandomStreams(const RandomStreams&) = delete;
  RandomStreams& operator=(const RandomStreams&) = delete;
  ~RandomStreams();

 private:
  Trace& trace_;
  int64_t previous_;
};

}  // namespace causeway::tensor
