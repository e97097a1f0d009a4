// Between the sources of type inference: what an op is given, and the rules that files of their own have.
#pragma once

#include <string>
#include <vector>

#include "causeway/graph/graph.h"

namespace causeway::graph {

struct NodeTypes {
  Op op;
  const std::vector<TensorType>& inputs;
  const Attributes& attributes;

  DType dtype(size_t input) const { return inputs[input].dtype; }
  const Shape& shape(size_t input) const { return inputs[input].shape; }

  // Throw Error(kInvalidArgument) that says what the op takes ("takes floats") and what it was given.
  void require(bool condition, const std::string& what) const;
  void require_sizes(const Shape& sizes) const;  // none is negative
  void require_same_inputs() const;
  size_t axis() const;  // the only one, of the first input
};

// Of OpKind::kMovement, kIndexing and kTemplate.
std::vector<TensorType> movement_types(const NodeTypes& given);
std::vector<TensorType> indexing_types(const NodeTypes& given);
std::vector<TensorType> template_types(const NodeTypes& given);

}  // namespace causeway::graph
