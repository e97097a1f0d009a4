#include "causeway/passes/attention_positions.h"

#include <algorithm>
#include <utility>

#include "causeway/graph/op.h"
#include "causeway/graph/rewrite.h"
#include "causeway/passes/builder.h"

namespace causeway::passes {
namespace {

constexpr const char* kOffsetNames[] = {"batch_offset", "head_offset", "query_offset"};

std::shared_ptr<const Graph> with_offsets(const std::shared_ptr<const Graph>& function,
                                          const std::vector<size_t>& positions) {
  if (function == nullptr) return nullptr;
  auto result = std::make_shared<Graph>();
  std::vector<std::vector<Value>> mapped(function->nodes().size());
  for (const Value input : function->inputs())
    mapped[static_cast<size_t>(input.node)] = {
        result->add_input(function->node(input).attributes.name, function->type(input))};
  for (size_t i = 0; i < positions.size(); ++i) {
    const Value offset = result->add_input(kOffsetNames[positions[i]], {DType::kI32, {}});
    Value& position = mapped[static_cast<size_t>(function->inputs()[positions[i]].node)][0];
    position = result->add(Op::kAdd, {position, offset});
  }
  for (size_t i = 0; i < function->nodes().size(); ++i) {
    const Node& node = function->nodes()[i];
    if (node.op == Op::kInput) continue;
    std::vector<Value> inputs;
    for (const Value input : node.inputs)
      inputs.push_back(mapped[static_cast<size_t>(input.node)][static_cast<size_t>(input.output)]);
    mapped[i] = copy_node(*result, node, std::move(inputs));
  }
  for (const Value output : function->outputs)
    result->outputs.push_back(mapped[static_cast<size_t>(output.node)][static_cast<size_t>(output.output)]);
  return result;
}

bool reads(const std::shared_ptr<const Graph>& function, size_t position) {
  if (function == nullptr) return false;
  const Value input = function->inputs()[position];
  return count_uses(*function)[static_cast<size_t>(input.node)][0] > 0;
}

}  // namespace

bool reads_position(const AttentionSpec& spec, size_t position) {
  return reads(spec.score, position) || reads(spec.score_gradient, position) || reads(spec.mask, position);
}

AttentionSpec with_position_offsets(const AttentionSpec& spec, const std::vector<size_t>& positions) {
  AttentionSpec result = spec;
  result.score = with_offsets(spec.score, positions);
  result.score_gradient = with_offsets(spec.score_gradient, positions);
  result.mask = with_offsets(spec.mask, positions);
  return result;
}

std::shared_ptr<const Graph> mask_at_query_offset(const AttentionSpec& spec, int64_t offset) {
  if (spec.mask == nullptr) return nullptr;
  const Graph& mask = *spec.mask;
  const auto is_offset = [&](Value value) {
    const Node& node = mask.node(value);
    return node.op == Op::kInput && node.attributes.name == kOffsetNames[2];
  };
  if (std::ranges::none_of(mask.inputs(), is_offset)) return nullptr;
  return std::make_shared<Graph>(
      rebuild_graph(mask, [&](Graph& target, const Node& node, const std::vector<Value>& inputs) {
        std::vector<Value> known = inputs;
        for (size_t i = 0; i < known.size(); ++i)
          if (is_offset(node.inputs[i]))
            known[i] = Builder(target).constant(DType::kI32, {}, static_cast<double>(offset));
        return copy_node(target, node, std::move(known));
      }));
}

}  // namespace causeway::passes
