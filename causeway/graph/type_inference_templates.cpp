// Type rules of ops with a kernel of their own: GEMMs, attention, the loss of the output layer, kernels that users
// write.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <memory>
#include <optional>

#include "causeway/base/error.h"
#include "causeway/graph/op.h"
#include "causeway/graph/type_inference_node.h"
#include "causeway/graph/user_kernel.h"

namespace causeway::graph {
namespace {

std::vector<TensorType> user_kernel_types(const NodeTypes& given) {
  given.require(given.attributes.user_kernel != nullptr, "takes a specification");
  const UserKernelSpec& spec = *given.attributes.user_kernel;
  const auto starts_a_name = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  given.require(!spec.name.empty() && starts_a_name(spec.name[0]) &&
                    std::all_of(spec.name.begin(), spec.name.end(),
                                [&](char c) { return starts_a_name(c) || (c >= '0' && c <= '9'); }),
                fmt::format("takes the name of a C++ function, not '{}'", spec.name));
  given.require(!spec.outputs.empty(), "takes at least one output");
  given.require(spec.threads >= 64 && spec.threads <= 1024 && spec.threads % 64 == 0,
                fmt::format("takes a number of threads that is a multiple of 64, at most 1024, not {}", spec.threads));
  given.require(spec.shared_bytes >= 0 && spec.shared_bytes <= 48 * 1024,
                fmt::format("takes 0 to {} bytes of shared memory, not {}", 48 * 1024, spec.shared_bytes));
  return spec.outputs;
}

std::vector<TensorType> dot_types(const NodeTypes& given) {
  const size_t rank = given.shape(0).size();
  given.require(rank >= 2 && given.shape(1).size() == rank, "takes two inputs of one rank, at least 2");
  const auto is_f8 = [](DType type) { return type == DType::kF8E4M3 || type == DType::kF8E5M2; };
  given.require(is_float(given.dtype(0)) &&
                    (given.dtype(0) == given.dtype(1) || (is_f8(given.dtype(0)) && is_f8(given.dtype(1)))),
                "takes floats of one type, or of the two 8-bit types");
  given.require(is_float(given.attributes.dtype), "gives floats");
  for (size_t i = 0; i + 2 < rank; ++i)
    given.require(given.shape(0)[i] == given.shape(1)[i], "takes equal batch dimensions");
  const Dim& m = given.shape(0)[given.attributes.transpose_a ? rank - 1 : rank - 2];
  const Dim& ka = given.shape(0)[given.attributes.transpose_a ? rank - 2 : rank - 1];
  const Dim& kb = given.shape(1)[given.attributes.transpose_b ? rank - 1 : rank - 2];
  const Dim& n = given.shape(1)[given.attributes.transpose_b ? rank - 2 : rank - 1];
  given.require(ka == kb, fmt::format("contracts dimensions of one size ({} and {})", ka.text(), kb.text()));
  Shape result(given.shape(0).begin(), given.shape(0).end() - 2);
  result.push_back(m);
  result.push_back(n);
  return {{given.attributes.dtype, result}};
}

std::vector<TensorType> scaled_dot_types(const NodeTypes& given) {
  const auto is_f8 = [](DType type) { return type == DType::kF8E4M3 || type == DType::kF8E5M2; };
  given.require(
      given.shape(0).size() == 2 && given.shape(1).size() == 2 && is_f8(given.dtype(0)) && is_f8(given.dtype(1)),
      "takes two matrices of 8-bit floats");
  given.require(is_float(given.attributes.dtype), "gives floats");
  const Dim& k = given.shape(0)[1];
  given.require(k == given.shape(1)[1],
                fmt::format("contracts dimensions of one size ({} and {})", k.text(), given.shape(1)[1].text()));
  const std::optional<Dim> blocks = k.divide_exactly(kScaledBlock);
  given.require(blocks.has_value(), fmt::format("contracts a multiple of {}, not {}", kScaledBlock, k.text()));
  for (size_t i = 0; i < 2; ++i) {
    const Dim& lines = given.shape(i)[0];
    const std::optional<Dim> shared = lines.divide_exactly(kScaledBlock);
    given.require(
        given.inputs[i + 2] == TensorType{DType::kF32, {*blocks, lines}} ||
            (shared && given.inputs[i + 2] == TensorType{DType::kF32, {*blocks, *shared}}),
        fmt::format("takes f32 scales of each {} of k and of each line, or {} lines", kScaledBlock, kScaledBlock));
  }
  return {{given.attributes.dtype, {given.shape(0)[0], given.shape(1)[0]}}};
}

// Sizes have to be equal where they are said to be, so that a message names the operand that does not fit.
std::vector<TensorType> grouped_dot_types(const NodeTypes& given) {
  const auto& [transpose_a, transpose_b] = std::pair(given.attributes.transpose_a, given.attributes.transpose_b);
  const Shape &a = given.shape(0), &b = given.shape(1), &offsets = given.shape(2);
  given.require(a.size() == 3 && b.size() == 3, "takes rows [P, R, K] and matrices [E, K, N], or two tensors of rows");
  given.require(is_float(given.dtype(0)) && given.dtype(0) == given.dtype(1) && size_bytes(given.dtype(0)) > 1,
                "takes floats of one type that is wider than 8 bits");
  given.require(is_float(given.attributes.dtype), "gives floats");
  given.require(!transpose_a || !transpose_b, "takes two tensors of rows as they lie: without transpose_b");
  given.require(given.dtype(2) == DType::kI32 && offsets.size() == 2, "takes i32 offsets [P, E + 1]");
  given.require(offsets[0] == a[0],
                fmt::format("takes offsets of each of its {} slabs, not of {}", a[0].text(), offsets[0].text()));
  given.require(
      offsets[1].is_constant() && offsets[1].constant() >= 2,
      fmt::format("takes a constant number of groups, at least 1: offsets [P, E + 1], not [P, {}]", offsets[1].text()));
  const Dim groups = offsets[1] - Dim(1);
  if (transpose_a) {
    given.require(a[0] == b[0] && a[1] == b[1], "takes two tensors of as many slabs and rows");
    return {{given.attributes.dtype, {groups, a[2], b[2]}}};
  }
  given.require(b[0] == groups, fmt::format("takes a matrix for each of the {} groups that offsets has, not {} of them",
                                            groups.text(), b[0].text()));
  const Dim& k = b[transpose_b ? 2 : 1];
  given.require(a[2] == k, fmt::format("contracts dimensions of one size ({} and {})", a[2].text(), k.text()));
  return {{given.attributes.dtype, {a[0], a[1], b[transpose_b ? 1 : 2]}}};
}

void check_function(const NodeTypes& given, const std::shared_ptr<const Graph>& function, const char* name,
                    bool has_score, DType result, size_t first_captured) {
  if (function == nullptr) return;
  const size_t fixed = has_score ? 5 : 4;
  for (size_t i = 0; i < std::min(fixed, function->inputs().size()); ++i)
    given.require(
        function->type(function->inputs()[i]) == TensorType{i == 4 ? DType::kF32 : DType::kI32, {}},
        fmt::format("takes a {} function of i32[] positions{}", name, has_score ? " and an f32[] score" : ""));
  given.require(
      function->inputs().size() == fixed + given.inputs.size() - first_captured && function->outputs.size() == 1,
      fmt::format("takes a {} function of its positions and captured tensors", name));
  for (size_t i = first_captured; i < given.inputs.size(); ++i)
    given.require(function->type(function->inputs()[fixed + i - first_captured]) == given.inputs[i],
                  fmt::format("captures tensors as its {} function declares them", name));
  given.require(function->type(function->outputs[0]) == TensorType{result, {}},
                fmt::format("takes a {} function that gives a scalar {}", name, dtype_name(result)));
}

// ceil(T / block) as a dimension: exact for constants; a symbolic length must be a multiple of the block.
Dim block_count(const NodeTypes& given, const Dim& length, int64_t block) {
  if (length.is_constant()) return length.is_constant(0) ? 0 : (length.constant() - 1) / block + 1;
  const std::optional<Dim> blocks = length.divide_exactly(block);
  given.require(blocks.has_value(),
                fmt::format("takes a symbolic length ({}) that its block size {} divides", length.text(), block));
  return *blocks;
}

bool depends_on_input(const Graph& graph, size_t input) {
  std::vector<bool> reaches(graph.nodes().size());
  reaches[static_cast<size_t>(graph.inputs()[input].node)] = true;
  for (size_t i = 0; i < graph.nodes().size(); ++i)
    for (const Value value : graph.nodes()[i].inputs)
      if (reaches[static_cast<size_t>(value.node)]) reaches[i] = true;
  return reaches[static_cast<size_t>(graph.outputs[0].node)];
}

Shape block_map_shape(const NodeTypes& given, const AttentionSpec& spec, const Shape& sizes) {
  return {depends_on_input(*spec.mask, 0) ? sizes[0] : Dim(1), depends_on_input(*spec.mask, 1) ? sizes[1] : Dim(1),
          block_count(given, sizes[2], spec.block_q), block_count(given, sizes[3], spec.block_k)};
}

std::vector<TensorType> attention_types(const NodeTypes& given) {
  given.require(given.attributes.attention != nullptr, "takes a specification");
  const AttentionSpec& spec = *given.attributes.attention;
  given.require(spec.block_q >= 1 && spec.block_k >= 1, "takes blocks of at least 1");
  if (given.op == Op::kAttentionBlockMap) {
    given.require(spec.mask != nullptr && given.attributes.shape.size() == 4,
                  "takes a mask and {batch, heads, queries, keys}");
    given.require_sizes(given.attributes.shape);
    check_function(given, spec.mask, "mask", false, DType::kBool, 0);
    return {{DType::kU8, block_map_shape(given, spec, given.attributes.shape)}};
  }
  const bool backward = given.op == Op::kAttentionGradient;
  const size_t tensors = backward ? 6 : 3;
  const size_t captured = tensors + (spec.has_block_map ? 1 : 0);
  given.require(given.inputs.size() >= captured, fmt::format("takes at least {} inputs", captured));
  for (size_t i = 0; i < (backward ? 4u : 3u); ++i)
    given.require(given.shape(i).size() == 4 && is_float(given.dtype(i)), "takes float tensors of rank 4");
  const Shape &q = given.shape(0), &k = given.shape(1), &v = given.shape(2);
  given.require(given.dtype(1) == given.dtype(2) && Shape(k.begin(), k.end() - 1) == Shape(v.begin(), v.end() - 1),
                "takes keys and values of one type, batch size, length and head count");
  given.require(q[0] == k[0] && q[3] == k[3], "takes queries and keys of one batch size and head dimension");
  given.require(q[2].is_constant() && k[2].is_constant() && q[3].is_constant() && v[3].is_constant(),
                "takes constant head counts and dimensions");
  given.require(k[2].constant() >= 1 && q[2].constant() % k[2].constant() == 0,
                fmt::format("takes a number of query heads ({}) that the number of key heads ({}) divides", q[2].text(),
                            k[2].text()));
  given.require(given.dtype(0) == given.dtype(1), "takes queries and keys of one type");
  if (spec.has_block_map)
    given.require(given.dtype(captured - 1) == DType::kU8 && given.shape(captured - 1).size() == 4,
                  "takes a u8 block map of rank 4");
  check_function(given, spec.score, "score", true, DType::kF32, captured);
  check_function(given, spec.mask, "mask", false, DType::kBool, captured);
  const TensorType statistics{DType::kF32, {q[0], q[2], q[1]}};
  const TensorType result{given.dtype(0), {q[0], q[1], q[2], v[3]}};
  if (!backward) return {result, statistics};
  check_function(given, spec.score_gradient, "score gradient", true, DType::kF32, captured);
  given.require((spec.score == nullptr) == (spec.score_gradient == nullptr), "takes a score with its gradient");
  given.require(given.shape(3) == result.shape && given.inputs[4] == statistics && given.inputs[5] == statistics,
                "takes dout shaped as the output, and lse and delta as f32 [B, H, T]");
  return {given.inputs[0], given.inputs[1], given.inputs[2]};
}

}  // namespace

std::vector<TensorType> template_types(const NodeTypes& given) {
  switch (given.op) {
    case Op::kDot:
      return dot_types(given);
    case Op::kScaledDot:
      return scaled_dot_types(given);
    case Op::kGroupedDot:
      return grouped_dot_types(given);
    case Op::kLinearCrossEntropy: {
      given.require(given.shape(0).size() == 2 && given.shape(1).size() == 2 &&
                        given.shape(0)[1] == given.shape(1)[1] && is_float(given.dtype(0)) && is_float(given.dtype(1)),
                    "takes x [N, C] and weight [V, C] of floats");
      given.require(given.shape(2) == Shape{given.shape(0)[0]} &&
                        (given.dtype(2) == DType::kI32 || given.dtype(2) == DType::kI64),
                    "takes i32 or i64 targets [N]");
      given.require(given.inputs[3] == TensorType{DType::kF32, {given.shape(0)[0]}}, "takes f32 token weights [N]");
      given.require(given.attributes.value >= 0 && std::isfinite(given.attributes.value),
                    "takes a cap of its logits above 0, or none");
      given.require(given.attributes.z_loss >= 0 && std::isfinite(given.attributes.z_loss),
                    "takes a coefficient of its z-loss above 0, or none");
      std::vector<TensorType> outputs = {
          {DType::kF32, {}}, given.inputs[0], {DType::kF32, given.shape(1)}, {DType::kF32, {given.shape(0)[0]}}};
      if (given.attributes.z_loss > 0) outputs.push_back({DType::kF32, {}});
      return outputs;
    }
    case Op::kUserKernel:
      return user_kernel_types(given);
    default:
      return attention_types(given);
  }
}

}  // namespace causeway::graph
