// Type rules of ops that move elements, and of those that look elements up by index.
#include <algorithm>

#include "causeway/base/error.h"
#include "causeway/graph/op.h"
#include "causeway/graph/type_inference_node.h"

namespace causeway::graph {
namespace {

std::vector<TensorType> concat_types(const NodeTypes& given) {
  given.require(!given.inputs.empty(), "takes at least one input");
  const size_t along = given.axis();
  TensorType result = given.inputs[0];
  for (size_t i = 1; i < given.inputs.size(); ++i) {
    given.require(given.dtype(i) == given.dtype(0) && given.shape(i).size() == given.shape(0).size(),
                  "takes inputs of one type and rank");
    for (size_t d = 0; d < given.shape(0).size(); ++d)
      given.require(d == along || given.shape(i)[d] == given.shape(0)[d],
                    "takes inputs that differ along its axis only");
    result.shape[along] += given.shape(i)[along];
  }
  return {result};
}

}  // namespace

std::vector<TensorType> movement_types(const NodeTypes& given) {
  if (given.op == Op::kConcat) return concat_types(given);
  if (given.op == Op::kConstrainSharding) return {given.inputs[0]};
  const Shape& in = given.shape(0);
  const size_t rank = in.size();
  switch (given.op) {
    case Op::kReshape:
      given.require_sizes(given.attributes.shape);
      given.require(element_count(in) == element_count(given.attributes.shape),
                    fmt::format("to {} keeps the number of elements", shape_text(given.attributes.shape)));
      return {{given.dtype(0), given.attributes.shape}};
    case Op::kPermute: {
      std::vector<int64_t> sorted = given.attributes.axes;
      std::sort(sorted.begin(), sorted.end());
      Shape result;
      given.require(sorted.size() == rank, "takes a permutation of its axes");
      for (size_t i = 0; i < rank; ++i) {
        given.require(sorted[i] == static_cast<int64_t>(i), "takes a permutation of its axes");
        result.push_back(in[static_cast<size_t>(given.attributes.axes[i])]);
      }
      return {{given.dtype(0), result}};
    }
    case Op::kBroadcast: {
      const Shape& out = given.attributes.shape;
      given.require_sizes(out);
      given.require(given.attributes.axes.size() == rank, "takes one output axis for each input axis");
      for (size_t i = 0; i < rank; ++i) {
        const int64_t to = given.attributes.axes[i];
        given.require(to >= 0 && static_cast<size_t>(to) < out.size() && (i == 0 || to > given.attributes.axes[i - 1]),
                      "takes ascending output axes");
        given.require(in[i] == out[static_cast<size_t>(to)] || in[i].is_constant(1),
                      fmt::format("to {} takes sizes that are equal or 1", shape_text(out)));
      }
      return {{given.dtype(0), out}};
    }
    case Op::kSlice: {
      given.require(given.attributes.start.size() == rank && given.attributes.limit.size() == rank &&
                        given.attributes.strides.size() == rank,
                    "takes a start, limit and stride for each axis");
      Shape result;
      for (size_t i = 0; i < rank; ++i) {
        const Dim &start = given.attributes.start[i], &limit = given.attributes.limit[i];
        const int64_t stride = given.attributes.strides[i];
        given.require(stride >= 1, "takes strides of at least 1");
        if (start.is_constant() && limit.is_constant()) {
          given.require(start.constant() >= 0 && start.constant() <= limit.constant() &&
                            (!in[i].is_constant() || limit.constant() <= in[i].constant()),
                        fmt::format("from {} to {} on axis {} lies within the input", start.text(), limit.text(), i));
          const int64_t length = limit.constant() - start.constant();
          result.push_back(length == 0 ? 0 : (length - 1) / stride + 1);
        } else {
          given.require(stride == 1, "takes stride 1 on a symbolic axis");
          result.push_back(limit - start);
        }
      }
      return {{given.dtype(0), result}};
    }
    default: {  // pad
      given.require(given.attributes.start.size() == rank && given.attributes.limit.size() == rank,
                    "takes padding before and after each axis");
      given.require_sizes(given.attributes.start);
      given.require_sizes(given.attributes.limit);
      Shape result;
      for (size_t i = 0; i < rank; ++i) result.push_back(given.attributes.start[i] + in[i] + given.attributes.limit[i]);
      return {{given.dtype(0), result}};
    }
  }
}

std::vector<TensorType> indexing_types(const NodeTypes& given) {
  const size_t rank = given.shape(0).size();
  if (given.op == Op::kTopk) {
    given.require(rank >= 1 && given.attributes.count >= 1 && given.dtype(0) != DType::kBool,
                  "takes a count and numbers");
    given.require(!given.shape(0).back().is_constant() || given.attributes.count <= given.shape(0).back().constant(),
                  fmt::format("takes a count (here {}) of at most the last axis", given.attributes.count));
    Shape result = given.shape(0);
    result.back() = given.attributes.count;
    return {{given.dtype(0), result}, {DType::kI32, result}};
  }
  const size_t along = given.axis();
  given.require(given.dtype(1) == DType::kI32 || given.dtype(1) == DType::kI64, "takes i32 or i64 indices");
  if (given.attributes.permutes)
    given.require(along == 0 && given.shape(1).size() == 2 && element_count(given.shape(1)) == given.shape(0)[0],
                  "permutes along axis 0, by indices [n, R] for n R rows");
  Shape gathered(given.shape(0).begin(), given.shape(0).begin() + static_cast<ptrdiff_t>(along));
  gathered.insert(gathered.end(), given.shape(1).begin(), given.shape(1).end());
  gathered.insert(gathered.end(), given.shape(0).begin() + static_cast<ptrdiff_t>(along) + 1, given.shape(0).end());
  if (given.op == Op::kGather) return {{given.dtype(0), gathered}};
  given.require(given.dtype(2) == given.dtype(0) && given.shape(2) == gathered,
                "takes updates shaped as gather would give");
  given.require(given.dtype(0) != DType::kBool, "takes numbers");
  return {given.inputs[0]};
}

}  // namespace causeway::graph
