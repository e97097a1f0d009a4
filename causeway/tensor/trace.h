// What is being recorded: a graph, the tensors it captured as inputs, and the tensors that stand for its values. All of
// them belong to one context.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "causeway/program/context.h"
#include "causeway/tensor/tensor.h"

namespace causeway::tensor {

// What a Tensor refers to: a value of a trace, or memory, or both.
struct TensorState {
  std::shared_ptr<Context> context;
  TensorType type;         // of the whole
  Sharding sharding;       // of what is in memory
  Trace* trace = nullptr;  // while it stands for a value that is not in memory
  Value value;
  DeviceBuffer buffer;  // where on_host, memory of Device::allocate_host()
  bool on_host = false;
  bool halves = false;  // f32 that lies as split_weights() has it
  ~TensorState();
};

class Trace {
 public:
  // Which tensors of other traces become inputs: those with values (which are computed if need be), or any, as in a
  // function within another trace whose captured tensors are handed on to that trace.
  enum class Captures { kValues, kAnything };
  // Of the thread's current context.
  explicit Trace(Captures captures = Captures::kValues);
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;
  ~Trace();

  // The trace that ops are recorded in: the innermost Step's where it is of the current context, or the thread's eager
  // one of that context.
  static Trace& current();
  // The same for another context than the current one: where the tensors of `context` are recorded.
  static Trace& of(const std::shared_ptr<Context>& context);
  bool is_eager() const { return eager_; }
  std::shared_ptr<Context> context() const;

  // The tensor as a value of this trace; one that holds memory becomes an input. Throws Error(kInvalidArgument) for one
  // of another context, and in an eager trace for one that is cut over the mesh.
  Value use(const Tensor& tensor);
  // A new input that stands for a tensor to be given later (a Step's argument).
  Tensor add_argument(const std::string& name, TensorType type, Sharding sharding = {});
  void assign(const Tensor& target, Value value);
  void stop(Value value) { stopped_.push_back(value); }
  void register_state(TensorState* state) { live_.insert(state); }
  void forget_state(TensorState* state) {
    live_.erase(state);
    value_of_.erase(state);
  }
  // Whether the tensor is an input of this trace, and whether it was also given a new value.
  bool has_captured(TensorState* state) const { return value_of_.contains(state); }
  bool has_assigned(TensorState* state) const;
  // Computes what an eager trace has recorded once that is long, so that a long loop does not record forever.
  void flush_when_long();
  // Computes every tensor that still stands for a value of this eager trace, and starts afresh.
  void flush();

  // Where the context has a mesh, its first input is kMeshCoordinates.
  Graph graph;
  int64_t next_random_stream = 0;
  const std::vector<Value>& stopped() const { return stopped_; }
  // Tensors captured as inputs, in the order in which they were, with their inputs.
  struct Captured {
    Tensor tensor;
    Value input;
  };
  const std::vector<Captured>& captured() const { return captured_; }

 private:
  friend class TraceScope;

  void add_mesh_coordinates();

  // Not owned: a thread's eager trace is still there when its context is gone. Tensors, which everything that is
  // pending consists of, own it.
  std::weak_ptr<Context> context_;
  bool eager_ = true;
  Captures captures_;
  std::vector<Captured> captured_;
  std::map<TensorState*, Value> value_of_;  // captured tensors' present values: their input, or what was assigned
  std::set<TensorState*> live_;
  std::vector<Value> stopped_;
};

// Makes a trace the innermost Step's while it lives, and its context the current one.
class TraceScope {
 public:
  explicit TraceScope(Trace& trace);
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;
  ~TraceScope();

 private:
  ContextScope context_;
  Trace* previous_;
};

// Throws Error(kInvalidArgument) unless the tensor is of that context.
void require_context(const TensorState& state, const Context& context);

// Throws Error(kInvalidArgument) unless the tensor, which no trace computes, has memory.
void require_values(const TensorState& state);

// Sizes in bytes of a type without symbols.
size_t constant_bytes(const TensorType& type);

// Throws Error(kInvalidArgument) for a tensor that is cut; `action` says what was asked of it: "all values of".
void require_whole(const TensorState& state, const std::string& action);

}  // namespace causeway::tensor
