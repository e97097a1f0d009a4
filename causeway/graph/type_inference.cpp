// Type rules of the ops, in the order of ops.def.
#include <algorithm>
#include <cctype>
#include <cmath>

#include "causeway/base/error.h"
#include "causeway/graph/graph.h"
#include "causeway/graph/op.h"
#include "causeway/graph/user_kernel.h"

namespace causeway::graph {
namespace {

class Rule {
 public:
  Rule(Op op, const std::vector<TensorType>& inputs, const Attributes& attributes)
      : op_(op), inputs_(inputs), attributes_(attributes) {}

  std::vector<TensorType> infer() const {
    const OpInfo& info = op_info(op_);
    require(info.arity < 0 || inputs_.size() == static_cast<size_t>(info.arity),
            fmt::format("takes {} inputs", info.arity));
    switch (info.kind) {
      case OpKind::kSource:
        return source();
      case OpKind::kRandom:
        require(inputs_[0] == TensorType{DType::kI64, {2}}, "takes an i64[2] of seed and step");
        require_sizes(attributes_.shape);
        return {{DType::kI32, attributes_.shape}};
      case OpKind::kUnary:
        return unary();
      case OpKind::kConvert:
        return convert();
      case OpKind::kBinary:
        return binary();
      case OpKind::kCompare:
        require_same_inputs();
        require(dtype(0) != DType::kBool || op_ == Op::kEq, "takes numbers");
        return {{DType::kBool, inputs_[0].shape}};
      case OpKind::kSelect:
        require(dtype(0) == DType::kBool, "takes a bool condition first");
        require(inputs_[1] == inputs_[2] && inputs_[0].shape == inputs_[1].shape,
                "takes a condition and two values of one type and shape");
        return {inputs_[1]};
      case OpKind::kTernary:
        require_same_inputs();
        require(is_float(dtype(0)), "takes floats");
        return {inputs_[0]};
      case OpKind::kReduce:
        return reduce();
      case OpKind::kArgmax:
        return {{DType::kI32, without_axis(axis(inputs_[0]))}};
      case OpKind::kScan:
        axis(inputs_[0]);
        require(dtype(0) != DType::kBool, "takes numbers");
        return {inputs_[0]};
      case OpKind::kMovement:
        return movement();
      case OpKind::kIndexing:
        return indexing();
      case OpKind::kTemplate:
        return templates();
      case OpKind::kCollective:
        return collective();
      case OpKind::kMessage:
        return message();
    }
    return {};
  }

 private:
  void require(bool condition, const std::string& what) const {
    if (condition) return;
    std::string types;
    for (const TensorType& input : inputs_) types += (types.empty() ? "" : ", ") + input.text();
    throw Error(ErrorKind::kInvalidArgument, fmt::format("{} {}; it was given ({})", op_name(op_), what, types));
  }

  DType dtype(size_t input) const { return inputs_[input].dtype; }
  const Shape& shape(size_t input) const { return inputs_[input].shape; }

  void require_sizes(const Shape& shape) const {
    for (const Dim& dim : shape)
      require(!dim.is_constant() || dim.constant() >= 0,
              fmt::format("takes sizes that are not negative, unlike {}", shape_text(shape)));
  }

  void require_same_inputs() const {
    for (const TensorType& input : inputs_) require(input == inputs_[0], "takes inputs of one type and shape");
  }

  size_t axis(const TensorType& type) const {
    require(attributes_.axes.size() == 1 && attributes_.axes[0] >= 0 &&
                static_cast<size_t>(attributes_.axes[0]) < type.shape.size(),
            "takes one axis of its first input");
    return static_cast<size_t>(attributes_.axes[0]);
  }

  Shape without_axis(size_t removed) const {
    Shape result = shape(0);
    result.erase(result.begin() + static_cast<ptrdiff_t>(removed));
    return result;
  }

  std::vector<TensorType> source() const {
    require_sizes(attributes_.shape);
    if (op_ == Op::kIota) {
      require(attributes_.axes.size() == 1 && attributes_.axes[0] >= 0 &&
                  static_cast<size_t>(attributes_.axes[0]) < attributes_.shape.size(),
              "takes one axis of its shape");
      require(attributes_.dtype != DType::kBool, "takes a number type");
    }
    return {{attributes_.dtype, attributes_.shape}};
  }

  std::vector<TensorType> unary() const {
    if (op_ == Op::kNeg || op_ == Op::kAbs) {
      require(dtype(0) != DType::kBool, "takes numbers");
    } else {
      require(is_float(dtype(0)), "takes floats");
    }
    return {inputs_[0]};
  }

  std::vector<TensorType> convert() const {
    if (op_ == Op::kBitcast)
      require(size_bytes(dtype(0)) == size_bytes(attributes_.dtype) && dtype(0) != DType::kBool &&
                  attributes_.dtype != DType::kBool,
              fmt::format("to {} takes elements of the same size", dtype_name(attributes_.dtype)));
    return {{attributes_.dtype, inputs_[0].shape}};
  }

  std::vector<TensorType> binary() const {
    require_same_inputs();
    switch (op_) {
      case Op::kPow:
        require(is_float(dtype(0)), "takes floats");
        break;
      case Op::kShl:
      case Op::kShr:
        require(is_integer(dtype(0)), "takes integers");
        break;
      case Op::kAnd:
      case Op::kOr:
      case Op::kXor:
        require(!is_float(dtype(0)), "takes integers or bools");
        break;
      default:
        require(dtype(0) != DType::kBool, "takes numbers");
        break;
    }
    return {inputs_[0]};
  }

  std::vector<TensorType> reduce() const {
    require(dtype(0) != DType::kBool, "takes numbers");
    require(std::is_sorted(attributes_.axes.begin(), attributes_.axes.end()) &&
                std::adjacent_find(attributes_.axes.begin(), attributes_.axes.end()) == attributes_.axes.end() &&
                !attributes_.axes.empty() && attributes_.axes.front() >= 0 &&
                static_cast<size_t>(attributes_.axes.back()) < shape(0).size(),
            "takes ascending axes of its input");
    Shape result;
    for (size_t i = 0; i < shape(0).size(); ++i)
      if (!std::binary_search(attributes_.axes.begin(), attributes_.axes.end(), static_cast<int64_t>(i)))
        result.push_back(shape(0)[i]);
    return {{dtype(0), result}};
  }

  std::vector<TensorType> movement() const {
    if (op_ == Op::kConcat) return concat();
    if (op_ == Op::kConstrainSharding) return {inputs_[0]};
    const Shape& in = shape(0);
    const size_t rank = in.size();
    switch (op_) {
      case Op::kReshape:
        require_sizes(attributes_.shape);
        require(element_count(in) == element_count(attributes_.shape),
                fmt::format("to {} keeps the number of elements", shape_text(attributes_.shape)));
        return {{dtype(0), attributes_.shape}};
      case Op::kPermute: {
        std::vector<int64_t> sorted = attributes_.axes;
        std::sort(sorted.begin(), sorted.end());
        Shape result;
        require(sorted.size() == rank, "takes a permutation of its axes");
        for (size_t i = 0; i < rank; ++i) {
          require(sorted[i] == static_cast<int64_t>(i), "takes a permutation of its axes");
          result.push_back(in[static_cast<size_t>(attributes_.axes[i])]);
        }
        return {{dtype(0), result}};
      }
      case Op::kBroadcast: {
        const Shape& out = attributes_.shape;
        require_sizes(out);
        require(attributes_.axes.size() == rank, "takes one output axis for each input axis");
        for (size_t i = 0; i < rank; ++i) {
          const int64_t to = attributes_.axes[i];
          require(to >= 0 && static_cast<size_t>(to) < out.size() && (i == 0 || to > attributes_.axes[i - 1]),
                  "takes ascending output axes");
          require(in[i] == out[static_cast<size_t>(to)] || in[i].is_constant(1),
                  fmt::format("to {} takes sizes that are equal or 1", shape_text(out)));
        }
        return {{dtype(0), out}};
      }
      case Op::kSlice: {
        require(
            attributes_.start.size() == rank && attributes_.limit.size() == rank && attributes_.strides.size() == rank,
            "takes a start, limit and stride for each axis");
        Shape result;
        for (size_t i = 0; i < rank; ++i) {
          const Dim &start = attributes_.start[i], &limit = attributes_.limit[i];
          const int64_t stride = attributes_.strides[i];
          require(stride >= 1, "takes strides of at least 1");
          if (start.is_constant() && limit.is_constant()) {
            require(start.constant() >= 0 && start.constant() <= limit.constant() &&
                        (!in[i].is_constant() || limit.constant() <= in[i].constant()),
                    fmt::format("from {} to {} on axis {} lies within the input", start.text(), limit.text(), i));
            const int64_t length = limit.constant() - start.constant();
            result.push_back(length == 0 ? 0 : (length - 1) / stride + 1);
          } else {
            require(stride == 1, "takes stride 1 on a symbolic axis");
            result.push_back(limit - start);
          }
        }
        return {{dtype(0), result}};
      }
      default: {  // pad
        require(attributes_.start.size() == rank && attributes_.limit.size() == rank,
                "takes padding before and after each axis");
        require_sizes(attributes_.start);
        require_sizes(attributes_.limit);
        Shape result;
        for (size_t i = 0; i < rank; ++i) result.push_back(attributes_.start[i] + in[i] + attributes_.limit[i]);
        return {{dtype(0), result}};
      }
    }
  }

  std::vector<TensorType> concat() const {
    require(!inputs_.empty(), "takes at least one input");
    const size_t along = axis(inputs_[0]);
    TensorType result = inputs_[0];
    for (size_t i = 1; i < inputs_.size(); ++i) {
      require(dtype(i) == dtype(0) && shape(i).size() == shape(0).size(), "takes inputs of one type and rank");
      for (size_t d = 0; d < shape(0).size(); ++d)
        require(d == along || shape(i)[d] == shape(0)[d], "takes inputs that differ along its axis only");
      result.shape[along] += shape(i)[along];
    }
    return {result};
  }

  std::vector<TensorType> indexing() const {
    const size_t rank = shape(0).size();
    if (op_ == Op::kTopk) {
      require(rank >= 1 && attributes_.count >= 1 && dtype(0) != DType::kBool, "takes a count and numbers");
      require(!shape(0).back().is_constant() || attributes_.count <= shape(0).back().constant(),
              fmt::format("takes a count (here {}) of at most the last axis", attributes_.count));
      Shape result = shape(0);
      result.back() = attributes_.count;
      return {{dtype(0), result}, {DType::kI32, result}};
    }
    const size_t along = axis(inputs_[0]);
    require(dtype(1) == DType::kI32 || dtype(1) == DType::kI64, "takes i32 or i64 indices");
    Shape gathered(shape(0).begin(), shape(0).begin() + static_cast<ptrdiff_t>(along));
    gathered.insert(gathered.end(), shape(1).begin(), shape(1).end());
    gathered.insert(gathered.end(), shape(0).begin() + static_cast<ptrdiff_t>(along) + 1, shape(0).end());
    if (op_ == Op::kGather) return {{dtype(0), gathered}};
    require(dtype(2) == dtype(0) && shape(2) == gathered, "takes updates shaped as gather would give");
    require(dtype(0) != DType::kBool, "takes numbers");
    return {inputs_[0]};
  }

  std::vector<TensorType> templates() const {
    switch (op_) {
      case Op::kDot:
        return dot();
      case Op::kScaledDot:
        return scaled_dot();
      case Op::kLinearCrossEntropy: {
        require(shape(0).size() == 2 && shape(1).size() == 2 && shape(0)[1] == shape(1)[1] && is_float(dtype(0)) &&
                    is_float(dtype(1)),
                "takes x [N, C] and weight [V, C] of floats");
        require(shape(2) == Shape{shape(0)[0]} && (dtype(2) == DType::kI32 || dtype(2) == DType::kI64),
                "takes i32 or i64 targets [N]");
        require(inputs_[3] == TensorType{DType::kF32, {shape(0)[0]}}, "takes f32 token weights [N]");
        require(attributes_.value >= 0 && std::isfinite(attributes_.value),
                "takes a cap of its logits above 0, or none");
        return {{DType::kF32, {}}, inputs_[0], {DType::kF32, shape(1)}, {DType::kF32, {shape(0)[0]}}};
      }
      case Op::kUserKernel:
        return user_kernel();
      default:
        return attention();
    }
  }

  std::vector<TensorType> user_kernel() const {
    require(attributes_.user_kernel != nullptr, "takes a specification");
    const UserKernelSpec& spec = *attributes_.user_kernel;
    const auto starts_a_name = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; };
    require(!spec.name.empty() && starts_a_name(spec.name[0]) &&
                std::all_of(spec.name.begin(), spec.name.end(),
                            [&](char c) { return starts_a_name(c) || (c >= '0' && c <= '9'); }),
            fmt::format("takes the name of a C++ function, not '{}'", spec.name));
    require(!spec.outputs.empty(), "takes at least one output");
    require(spec.threads >= 64 && spec.threads <= 1024 && spec.threads % 64 == 0,
            fmt::format("takes a number of threads that is a multiple of 64, at most 1024, not {}", spec.threads));
    require(spec.shared_bytes >= 0 && spec.shared_bytes <= 48 * 1024,
            fmt::format("takes 0 to {} bytes of shared memory, not {}", 48 * 1024, spec.shared_bytes));
    return spec.outputs;
  }

  std::vector<TensorType> dot() const {
    const size_t rank = shape(0).size();
    require(rank >= 2 && shape(1).size() == rank, "takes two inputs of one rank, at least 2");
    const auto is_f8 = [](DType type) { return type == DType::kF8E4M3 || type == DType::kF8E5M2; };
    require(is_float(dtype(0)) && (dtype(0) == dtype(1) || (is_f8(dtype(0)) && is_f8(dtype(1)))),
            "takes floats of one type, or of the two 8-bit types");
    require(is_float(attributes_.dtype), "gives floats");
    for (size_t i = 0; i + 2 < rank; ++i) require(shape(0)[i] == shape(1)[i], "takes equal batch dimensions");
    const Dim& m = shape(0)[attributes_.transpose_a ? rank - 1 : rank - 2];
    const Dim& ka = shape(0)[attributes_.transpose_a ? rank - 2 : rank - 1];
    const Dim& kb = shape(1)[attributes_.transpose_b ? rank - 1 : rank - 2];
    const Dim& n = shape(1)[attributes_.transpose_b ? rank - 2 : rank - 1];
    require(ka == kb, fmt::format("contracts dimensions of one size ({} and {})", ka.text(), kb.text()));
    Shape result(shape(0).begin(), shape(0).end() - 2);
    result.push_back(m);
    result.push_back(n);
    return {{attributes_.dtype, result}};
  }

  std::vector<TensorType> scaled_dot() const {
    const auto is_f8 = [](DType type) { return type == DType::kF8E4M3 || type == DType::kF8E5M2; };
    require(shape(0).size() == 2 && shape(1).size() == 2 && is_f8(dtype(0)) && is_f8(dtype(1)),
            "takes two matrices of 8-bit floats");
    require(is_float(attributes_.dtype), "gives floats");
    const Dim& k = shape(0)[1];
    require(k == shape(1)[1],
            fmt::format("contracts dimensions of one size ({} and {})", k.text(), shape(1)[1].text()));
    const std::optional<Dim> blocks = k.divide_exactly(kScaledBlock);
    require(blocks.has_value(), fmt::format("contracts a multiple of {}, not {}", kScaledBlock, k.text()));
    for (size_t i = 0; i < 2; ++i) {
      const Dim& lines = shape(i)[0];
      const std::optional<Dim> shared = lines.divide_exactly(kScaledBlock);
      require(
          inputs_[i + 2] == TensorType{DType::kF32, {*blocks, lines}} ||
              (shared && inputs_[i + 2] == TensorType{DType::kF32, {*blocks, *shared}}),
          fmt::format("takes f32 scales of each {} of k and of each line, or {} lines", kScaledBlock, kScaledBlock));
    }
    return {{attributes_.dtype, {shape(0)[0], shape(1)[0]}}};
  }

  void check_function(const std::shared_ptr<const Graph>& function, const char* name, bool has_score, DType result,
                      size_t first_captured) const {
    if (function == nullptr) return;
    const size_t fixed = has_score ? 5 : 4;
    for (size_t i = 0; i < std::min(fixed, function->inputs().size()); ++i)
      require(function->type(function->inputs()[i]) == TensorType{i == 4 ? DType::kF32 : DType::kI32, {}},
              fmt::format("takes a {} function of i32[] positions{}", name, has_score ? " and an f32[] score" : ""));
    require(function->inputs().size() == fixed + inputs_.size() - first_captured && function->outputs.size() == 1,
            fmt::format("takes a {} function of its positions and captured tensors", name));
    for (size_t i = first_captured; i < inputs_.size(); ++i)
      require(function->type(function->inputs()[fixed + i - first_captured]) == inputs_[i],
              fmt::format("captures tensors as its {} function declares them", name));
    require(function->type(function->outputs[0]) == TensorType{result, {}},
            fmt::format("takes a {} function that gives a scalar {}", name, dtype_name(result)));
  }

  std::vector<TensorType> attention() const {
    require(attributes_.attention != nullptr, "takes a specification");
    const AttentionSpec& spec = *attributes_.attention;
    require(spec.block_q >= 1 && spec.block_k >= 1, "takes blocks of at least 1");
    if (op_ == Op::kAttentionBlockMap) {
      require(spec.mask != nullptr && attributes_.shape.size() == 4, "takes a mask and {batch, heads, queries, keys}");
      require_sizes(attributes_.shape);
      check_function(spec.mask, "mask", false, DType::kBool, 0);
      return {{DType::kU8, block_map_shape(spec, attributes_.shape)}};
    }
    const bool backward = op_ == Op::kAttentionGradient;
    const size_t tensors = backward ? 6 : 3;
    const size_t captured = tensors + (spec.has_block_map ? 1 : 0);
    require(inputs_.size() >= captured, fmt::format("takes at least {} inputs", captured));
    for (size_t i = 0; i < (backward ? 4u : 3u); ++i)
      require(shape(i).size() == 4 && is_float(dtype(i)), "takes float tensors of rank 4");
    const Shape &q = shape(0), &k = shape(1), &v = shape(2);
    require(dtype(1) == dtype(2) && Shape(k.begin(), k.end() - 1) == Shape(v.begin(), v.end() - 1),
            "takes keys and values of one type, batch size, length and head count");
    require(q[0] == k[0] && q[3] == k[3], "takes queries and keys of one batch size and head dimension");
    require(q[2].is_constant() && k[2].is_constant() && q[3].is_constant() && v[3].is_constant(),
            "takes constant head counts and dimensions");
    require(k[2].constant() >= 1 && q[2].constant() % k[2].constant() == 0,
            fmt::format("takes a number of query heads ({}) that the number of key heads ({}) divides", q[2].text(),
                        k[2].text()));
    require(dtype(0) == dtype(1), "takes queries and keys of one type");
    if (spec.has_block_map)
      require(dtype(captured - 1) == DType::kU8 && shape(captured - 1).size() == 4, "takes a u8 block map of rank 4");
    check_function(spec.score, "score", true, DType::kF32, captured);
    check_function(spec.mask, "mask", false, DType::kBool, captured);
    const TensorType statistics{DType::kF32, {q[0], q[2], q[1]}};
    const TensorType result{dtype(0), {q[0], q[1], q[2], v[3]}};
    if (!backward) return {result, statistics};
    check_function(spec.score_gradient, "score gradient", true, DType::kF32, captured);
    require((spec.score == nullptr) == (spec.score_gradient == nullptr), "takes a score with its gradient");
    require(shape(3) == result.shape && inputs_[4] == statistics && inputs_[5] == statistics,
            "takes dout shaped as the output, and lse and delta as f32 [B, H, T]");
    return {inputs_[0], inputs_[1], inputs_[2]};
  }

  // ceil(T / block) as a dimension: exact for constants; a symbolic length must be a multiple of the block.
  Dim block_count(const Dim& length, int64_t block) const {
    if (length.is_constant()) return length.is_constant(0) ? 0 : (length.constant() - 1) / block + 1;
    const std::optional<Dim> blocks = length.divide_exactly(block);
    require(blocks.has_value(),
            fmt::format("takes a symbolic length ({}) that its block size {} divides", length.text(), block));
    return *blocks;
  }

  static bool depends_on_input(const Graph& graph, size_t input) {
    std::vector<bool> reaches(graph.nodes().size());
    reaches[static_cast<size_t>(graph.inputs()[input].node)] = true;
    for (size_t i = 0; i < graph.nodes().size(); ++i)
      for (const Value value : graph.nodes()[i].inputs)
        if (reaches[static_cast<size_t>(value.node)]) reaches[i] = true;
    return reaches[static_cast<size_t>(graph.outputs[0].node)];
  }

  Shape block_map_shape(const AttentionSpec& spec, const Shape& sizes) const {
    return {depends_on_input(*spec.mask, 0) ? sizes[0] : Dim(1), depends_on_input(*spec.mask, 1) ? sizes[1] : Dim(1),
            block_count(sizes[2], spec.block_q), block_count(sizes[3], spec.block_k)};
  }

  std::vector<TensorType> collective() const {
    const int64_t count = attributes_.count;
    require(!attributes_.group.empty() && count >= 1, "takes a group of ranks and their number");
    require(dtype(0) == DType::kF32 || dtype(0) == DType::kBF16, "takes f32 or bf16");
    TensorType result = inputs_[0];
    if (op_ == Op::kAllGather) {
      result.shape.insert(result.shape.begin(), Dim(count));
    } else if (op_ != Op::kAllReduce) {
      require(!shape(0).empty() && shape(0)[0].is_constant(count),
              fmt::format("takes a part for each of {} ranks along the first axis", count));
      if (op_ == Op::kReduceScatter) result.shape.erase(result.shape.begin());
    }
    return {result};
  }

  std::vector<TensorType> message() const {
    require(!attributes_.group.empty() && attributes_.peer >= 0 && attributes_.peer < attributes_.count,
            "takes a group of ranks and one of them");
    const TensorType sent = op_ == Op::kSend ? inputs_[0] : TensorType{attributes_.dtype, attributes_.shape};
    require(sent.dtype == DType::kF32 || sent.dtype == DType::kBF16, "is of f32 or bf16");
    return {op_ == Op::kSend ? TensorType{DType::kI32, {}} : sent};
  }

  Op op_;
  const std::vector<TensorType>& inputs_;
  const Attributes& attributes_;
};

}  // namespace

std::vector<TensorType> infer_types(Op op, const std::vector<TensorType>& inputs, const Attributes& attributes) {
  return Rule(op, inputs, attributes).infer();
}

}  // namespace causeway::graph
