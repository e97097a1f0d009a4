// The rule of each kind of ops, and those of elementwise ops, reductions and what ranks send each other.
#include <algorithm>

#include "causeway/base/error.h"
#include "causeway/graph/op.h"
#include "causeway/graph/type_inference_node.h"

namespace causeway::graph {
namespace {

std::vector<TensorType> source_types(const NodeTypes& given) {
  given.require_sizes(given.attributes.shape);
  if (given.op == Op::kIota) {
    given.require(given.attributes.axes.size() == 1 && given.attributes.axes[0] >= 0 &&
                      static_cast<size_t>(given.attributes.axes[0]) < given.attributes.shape.size(),
                  "takes one axis of its shape");
    given.require(given.attributes.dtype != DType::kBool, "takes a number type");
  }
  return {{given.attributes.dtype, given.attributes.shape}};
}

std::vector<TensorType> unary_types(const NodeTypes& given) {
  if (given.op == Op::kNeg || given.op == Op::kAbs) {
    given.require(given.dtype(0) != DType::kBool, "takes numbers");
  } else {
    given.require(is_float(given.dtype(0)), "takes floats");
  }
  return {given.inputs[0]};
}

std::vector<TensorType> convert_types(const NodeTypes& given) {
  if (given.op == Op::kBitcast)
    given.require(size_bytes(given.dtype(0)) == size_bytes(given.attributes.dtype) && given.dtype(0) != DType::kBool &&
                      given.attributes.dtype != DType::kBool,
                  fmt::format("to {} takes elements of the same size", dtype_name(given.attributes.dtype)));
  return {{given.attributes.dtype, given.inputs[0].shape}};
}

std::vector<TensorType> binary_types(const NodeTypes& given) {
  given.require_same_inputs();
  switch (given.op) {
    case Op::kPow:
      given.require(is_float(given.dtype(0)), "takes floats");
      break;
    case Op::kShl:
    case Op::kShr:
      given.require(is_integer(given.dtype(0)), "takes integers");
      break;
    case Op::kAnd:
    case Op::kOr:
    case Op::kXor:
      given.require(!is_float(given.dtype(0)), "takes integers or bools");
      break;
    default:
      given.require(given.dtype(0) != DType::kBool, "takes numbers");
      break;
  }
  return {given.inputs[0]};
}

std::vector<TensorType> reduce_types(const NodeTypes& given) {
  given.require(given.dtype(0) != DType::kBool, "takes numbers");
  given.require(std::is_sorted(given.attributes.axes.begin(), given.attributes.axes.end()) &&
                    std::adjacent_find(given.attributes.axes.begin(), given.attributes.axes.end()) ==
                        given.attributes.axes.end() &&
                    !given.attributes.axes.empty() && given.attributes.axes.front() >= 0 &&
                    static_cast<size_t>(given.attributes.axes.back()) < given.shape(0).size(),
                "takes ascending axes of its input");
  Shape result;
  for (size_t i = 0; i < given.shape(0).size(); ++i)
    if (!std::binary_search(given.attributes.axes.begin(), given.attributes.axes.end(), static_cast<int64_t>(i)))
      result.push_back(given.shape(0)[i]);
  return {{given.dtype(0), result}};
}

std::vector<TensorType> argmax_types(const NodeTypes& given) {
  Shape result = given.shape(0);
  result.erase(result.begin() + static_cast<ptrdiff_t>(given.axis()));
  return {{DType::kI32, result}};
}

std::vector<TensorType> collective_types(const NodeTypes& given) {
  const int64_t count = given.attributes.count;
  given.require(!given.attributes.group.empty() && count >= 1, "takes a group of ranks and their number");
  given.require(given.dtype(0) == DType::kF32 || given.dtype(0) == DType::kBF16, "takes f32 or bf16");
  TensorType result = given.inputs[0];
  if (given.op == Op::kAllGather) {
    result.shape.insert(result.shape.begin(), Dim(count));
  } else if (given.op != Op::kAllReduce) {
    given.require(!given.shape(0).empty() && given.shape(0)[0].is_constant(count),
                  fmt::format("takes a part for each of {} ranks along the first axis", count));
    if (given.op == Op::kReduceScatter) result.shape.erase(result.shape.begin());
  }
  return {result};
}

std::vector<TensorType> message_types(const NodeTypes& given) {
  given.require(
      !given.attributes.group.empty() && given.attributes.peer >= 0 && given.attributes.peer < given.attributes.count,
      "takes a group of ranks and one of them");
  const TensorType sent =
      given.op == Op::kSend ? given.inputs[0] : TensorType{given.attributes.dtype, given.attributes.shape};
  given.require(sent.dtype == DType::kF32 || sent.dtype == DType::kBF16, "is of f32 or bf16");
  return {given.op == Op::kSend ? TensorType{DType::kI32, {}} : sent};
}

}  // namespace

void NodeTypes::require(bool condition, const std::string& what) const {
  if (condition) return;
  std::string types;
  for (const TensorType& input : inputs) types += (types.empty() ? "" : ", ") + input.text();
  throw Error(ErrorKind::kInvalidArgument, fmt::format("{} {}; it was given ({})", op_name(op), what, types));
}

void NodeTypes::require_sizes(const Shape& sizes) const {
  for (const Dim& dim : sizes)
    require(!dim.is_constant() || dim.constant() >= 0,
            fmt::format("takes sizes that are not negative, unlike {}", shape_text(sizes)));
}

void NodeTypes::require_same_inputs() const {
  for (const TensorType& input : inputs) require(input == inputs[0], "takes inputs of one type and shape");
}

size_t NodeTypes::axis() const {
  require(attributes.axes.size() == 1 && attributes.axes[0] >= 0 &&
              static_cast<size_t>(attributes.axes[0]) < shape(0).size(),
          "takes one axis of its first input");
  return static_cast<size_t>(attributes.axes[0]);
}

std::vector<TensorType> infer_types(Op op, const std::vector<TensorType>& inputs, const Attributes& attributes) {
  const NodeTypes given{op, inputs, attributes};
  const OpInfo& info = op_info(op);
  given.require(info.arity < 0 || inputs.size() == static_cast<size_t>(info.arity),
                fmt::format("takes {} inputs", info.arity));
  switch (info.kind) {
    case OpKind::kSource:
      return source_types(given);
    case OpKind::kRandom:
      given.require(inputs[0] == TensorType{DType::kI64, {2}}, "takes an i64[2] of seed and step");
      given.require_sizes(attributes.shape);
      return {{DType::kI32, attributes.shape}};
    case OpKind::kUnary:
      return unary_types(given);
    case OpKind::kConvert:
      return convert_types(given);
    case OpKind::kBinary:
      return binary_types(given);
    case OpKind::kCompare:
      given.require_same_inputs();
      given.require(given.dtype(0) != DType::kBool || op == Op::kEq, "takes numbers");
      return {{DType::kBool, inputs[0].shape}};
    case OpKind::kSelect:
      given.require(given.dtype(0) == DType::kBool, "takes a bool condition first");
      given.require(inputs[1] == inputs[2] && inputs[0].shape == inputs[1].shape,
                    "takes a condition and two values of one type and shape");
      return {inputs[1]};
    case OpKind::kTernary:
      given.require_same_inputs();
      given.require(is_float(given.dtype(0)), "takes floats");
      return {inputs[0]};
    case OpKind::kReduce:
      return reduce_types(given);
    case OpKind::kArgmax:
      return argmax_types(given);
    case OpKind::kScan:
      given.axis();
      given.require(given.dtype(0) != DType::kBool, "takes numbers");
      return {inputs[0]};
    case OpKind::kMovement:
      return movement_types(given);
    case OpKind::kIndexing:
      return indexing_types(given);
    case OpKind::kTemplate:
      return template_types(given);
    case OpKind::kCollective:
      return collective_types(given);
    case OpKind::kMessage:
      return message_types(given);
  }
  return {};
}

}  // namespace causeway::graph
