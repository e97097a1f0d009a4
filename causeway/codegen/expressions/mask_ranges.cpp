#include "causeway/codegen/expressions/mask_ranges.h"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "causeway/graph/op.h"

namespace causeway::codegen {
namespace {

constexpr size_t kPositions = 4;

std::optional<std::string_view> function_of(const Node& node, bool of_truths) {
  switch (node.op) {
    case Op::kNeg:
      return "range_neg";
    case Op::kAbs:
      return "range_abs";
    case Op::kAdd:
      return "range_add";
    case Op::kSub:
      return "range_sub";
    case Op::kMul:
      return "range_mul";
    case Op::kMax:
      return "interval_max";
    case Op::kMin:
      return "interval_min";
    case Op::kLt:
      return "interval_lt";
    case Op::kLe:
      return "interval_le";
    case Op::kEq:
      return "interval_eq";
    case Op::kSelect:
      return "interval_select";
    case Op::kAnd:
      return of_truths ? std::optional("interval_and") : std::nullopt;
    case Op::kOr:
      return of_truths ? std::optional("interval_or") : std::nullopt;
    case Op::kXor:
      return of_truths ? std::optional("range_xor") : std::nullopt;
    default:
      return std::nullopt;
  }
}

class RangeText {
 public:
  RangeText(const Graph& mask, const std::function<std::string(Value)>& pointer,
            const std::function<std::string(const Dim&)>& size)
      : mask_(mask), pointer_(pointer), size_(size) {}

  std::string write() {
    std::string statements;
    for (int32_t i = 0; i < static_cast<int32_t>(mask_.nodes().size()); ++i) {
      const Value value{i, 0};
      if (has_range(value)) statements += fmt::format("const Range r{} = {};\n", i, range(value));
    }
    return "CAUSEWAY_INLINE Range mask_range(int64_t b, int64_t h, Range t, Range s) const {\n" + statements +
           "return " + name(mask_.outputs[0]) + ";\n}\n";
  }

 private:
  bool is_integer(Value value) const { return mask_.dtype(value) == DType::kI32 || mask_.dtype(value) == DType::kBool; }
  bool has_range(Value value) const { return is_integer(value) && mask_.shape(value).empty(); }
  std::string name(Value value) const {
    return has_range(value) ? fmt::format("r{}", value.node) : std::string("kAnyInt32");
  }

  std::string range(Value value) const {
    const Node& node = mask_.node(value);
    const bool truth = mask_.dtype(value) == DType::kBool;
    const std::string anything = truth ? "kAnyTruth" : "kAnyInt32";
    if (node.op == Op::kInput) {
      static constexpr std::string_view kNames[kPositions] = {"{b, b}", "{h, h}", "t", "s"};
      for (size_t i = 0; i < kPositions; ++i)
        if (mask_.inputs()[i] == value) return std::string(kNames[i]);
      return anything;
    }
    if (node.op == Op::kConstant) {
      const auto number = static_cast<int64_t>(node.attributes.value);
      return fmt::format("{{{}, {}}}", number, number);
    }
    for (const Value input : node.inputs)
      if (!is_integer(input)) return anything;
    if (node.op == Op::kGather) return elements(value).value_or(anything);
    if (node.op == Op::kReshape || node.op == Op::kBroadcast) return name(node.inputs[0]);
    if (node.op == Op::kCast)  // the truth of a number is another one
      return truth && mask_.dtype(node.inputs[0]) != DType::kBool ? anything : name(node.inputs[0]);
    const std::optional<std::string_view> function = function_of(node, truth);
    if (!function) return anything;
    std::string arguments;
    for (const Value input : node.inputs) arguments += (arguments.empty() ? "" : ", ") + name(input);
    return fmt::format("{}({})", *function, arguments);
  }

  // Of tensor[index]...[index], where all indices but the last are one.
  std::optional<std::string> elements(Value value) const {
    std::vector<Value> indices;
    Value tensor = value;
    while (mask_.node(tensor).op == Op::kGather) {
      const Node& node = mask_.node(tensor);
      if (node.attributes.axes[0] != 0 || !has_range(node.inputs[1])) return std::nullopt;
      indices.insert(indices.begin(), node.inputs[1]);
      tensor = node.inputs[0];
    }
    const Shape& shape = mask_.shape(tensor);
    if (mask_.node(tensor).op != Op::kInput || mask_.dtype(tensor) != DType::kI32 || shape.size() != indices.size())
      return std::nullopt;
    const auto found_from = [&](const std::string& start) {
      return fmt::format("range_of_elements({}, {}, {})", start, name(indices.back()), size_(shape.back()));
    };
    if (indices.size() == 1) return found_from(pointer_(tensor));
    const auto is_one = [&](size_t i) {
      return fmt::format("is_one_index({}, {})", name(indices[i]), size_(shape[i]));
    };
    std::string conditions = is_one(0), row = name(indices[0]) + ".low";
    for (size_t i = 1; i + 1 < indices.size(); ++i) {
      conditions += " && " + is_one(i);
      row = fmt::format("({}) * {} + {}.low", row, size_(shape[i]), name(indices[i]));
    }
    return fmt::format("{} ? {} : kAnyInt32", conditions,
                       found_from(fmt::format("{} + ({}) * {}", pointer_(tensor), row, size_(shape.back()))));
  }

  const Graph& mask_;
  const std::function<std::string(Value)>& pointer_;
  const std::function<std::string(const Dim&)>& size_;
};

}  // namespace

std::string mask_range_function(const Graph& mask, const std::function<std::string(Value)>& pointer,
                                const std::function<std::string(const Dim&)>& size) {
  return RangeText(mask, pointer, size).write();
}

}  // namespace causeway::codegen
