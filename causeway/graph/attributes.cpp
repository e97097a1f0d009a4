// Equality and hash of attributes, from their list of fields.
#include <bit>
#include <cmath>
#include <functional>

#include "causeway/graph/graph.h"
#include "causeway/graph/user_kernel.h"

namespace causeway::graph {
namespace {

template <ListsFields Struct>
bool same_fields(const Struct& a, const Struct& b);

template <class Type>
bool same(const Type& a, const Type& b) {
  return a == b;
}

bool same(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b) || (std::isnan(a) && std::isnan(b));
}

bool same(const std::shared_ptr<const Graph>& a, const std::shared_ptr<const Graph>& b) {
  return a == b || (a != nullptr && b != nullptr && structurally_equal(*a, *b));
}

template <ListsFields Spec>
bool same(const std::shared_ptr<const Spec>& a, const std::shared_ptr<const Spec>& b) {
  return a == b || (a != nullptr && b != nullptr && same_fields(*a, *b));
}

// A function that appends nodes has no part in what is computed.
template <class Signature>
bool same(const std::function<Signature>&, const std::function<Signature>&) {
  return true;
}

template <ListsFields Struct>
bool same_fields(const Struct& a, const Struct& b) {
  return all_fields<Struct>([&](const auto& field) { return same(a.*field.member, b.*field.member); });
}

class Hasher {
 public:
  uint64_t result() const { return hash_; }

  void add(uint64_t value) { hash_ ^= value + 0x9e3779b97f4a7c15u + (hash_ << 6) + (hash_ >> 2); }
  void add(int64_t value) { add(static_cast<uint64_t>(value)); }
  void add(int value) { add(static_cast<uint64_t>(value)); }
  void add(bool value) { add(uint64_t{value}); }
  void add(DType value) { add(static_cast<uint64_t>(value)); }
  void add(double value) { add(std::isnan(value) ? uint64_t{1} : std::bit_cast<uint64_t>(value)); }
  void add(const std::string& value) { add(uint64_t{std::hash<std::string>{}(value)}); }
  void add(const Dim& value) {
    add(value.constant_term());
    for (const Dim::Term& term : value.terms()) {
      add(term.coefficient);
      for (const int32_t symbol : term.symbols) add(symbol);
    }
  }
  void add(const Sharding& value) { add(value.text()); }
  void add(const TensorType& value) {
    add(value.dtype);
    add(value.shape);
  }
  void add(const Value& value) {
    add(value.node);
    add(value.output);
  }
  template <class Type>
  void add(const std::vector<Type>& values) {
    add(uint64_t{values.size()});
    for (const Type& value : values) add(value);
  }
  template <class Type>
  void add(const std::shared_ptr<const Type>& value) {
    add(value != nullptr);
    if (value != nullptr) add(*value);
  }
  template <class Signature>
  void add(const std::function<Signature>&) {}
  void add(const Graph& graph) {
    add(graph.outputs);
    for (const Node& node : graph.nodes()) {
      add(static_cast<uint64_t>(node.op));
      add(node.inputs);
      add(node.attributes);
    }
  }
  template <ListsFields Struct>
  void add(const Struct& object) {
    for_each_field<Struct>([&](const auto& field) { add(object.*field.member); });
  }

 private:
  uint64_t hash_ = 0;
};

}  // namespace

bool Attributes::operator==(const Attributes& other) const { return same_fields(*this, other); }

bool same_computation(const UserKernelSpec& a, const UserKernelSpec& b) { return same_fields(a, b); }

uint64_t hash_value(const Attributes& attributes) {
  Hasher hasher;
  hasher.add(attributes);
  return hasher.result();
}

}  // namespace causeway::graph
