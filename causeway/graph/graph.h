// The typed graph that everything between the tensor front end and the kernels works on.
//
// A graph is a list of nodes in topological order; a value is one output of one node. Types are inferred when a node
// is added, so a graph that exists is well typed; verify() checks it again between passes.
//
// Meaning of the ops (x: first input; all elementwise inputs have one shape, broadcasting is explicit):
//   input          a named argument of the graph; on_host: it and what is assigned to it lie in the host's memory
//   constant       `value` in every element of `shape`
//   iota           element index along `axes[0]` of `shape`
//   random_bits    i32 of `shape`: word 0 of Philox-4x32-10 (Salmon et al., SC11) with key = x[0] (seed, i64) and
//                  counter = {element index low, high, `stream`, low 32 bits of x[1]}; x is i64 [2] = {seed, step}
//   exp2 log2      base two; recip 1/x; erf, tanh, sqrt, rsqrt, sin, cos, floor as in C. Floats only.
//   neg abs add sub mul max min   floats and integers. max and min return NaN when an operand is NaN.
//   div rem        floats: IEEE division, C fmod; integers: truncating, 0 where the divisor is 0
//   pow            floats: C pow. and or xor shl shr: integers (and or xor also bool); shr is arithmetic, counts wrap
//   lt le eq       bool; false when an operand is NaN
//   select         x (bool) ? second : third.  fma: x * second + third, rounded once or twice
//   cast           to `dtype`; rounding as write_element() in dtype.h. bitcast: same element size, same bits
//   reduce_sum reduce_max   over `axes` (ascending, removed from the shape); float sums accumulate in f32 or wider
//   argmax         i32 index of the first maximum along axes[0] (removed)
//   cumsum         inclusive along axes[0]
//   reshape        to `shape`, row-major order kept.  permute: output dim i is input dim axes[i]
//   broadcast      to `shape`: input dim i goes to output dim axes[i] (ascending) and has that size or is 1
//   slice          start[i] <= index < limit[i], every strides[i]-th (strides >= 1)
//   pad            start[i] copies of `value` before and limit[i] after, per dim.  concat: along axes[0]
//   gather         x[..., indices, ...] along axes[0]: shape x[:axis] + indices + x[axis+1:]; i32 or i64 indices,
//                  each in [0, size) (an index outside reads element 0 of the axis or its last, whichever is nearer)
//   scatter_add    base x plus updates added at indices along axes[0] (shapes as gather); repeated indices add up in
//                  index order; an index outside is ignored. replaces: rows that updates go to begin at 0
//                  permutes (both): along axis 0, and indices are [n, R] whose row p has each number from p R to
//                  p R + R - 1 once, for x has n R rows. It is a promise: values do not depend on it, but ranks that
//                  have whole rows of the indices need nothing of each other, and the gradient is a gather too
//   topk           outputs: the `count` largest along the last axis in descending order, and their i32 indices
//   dot            [batch..., m, k] x [batch..., k, n] -> [batch..., m, n] of `dtype`; transpose_a: x is [..., k, m];
//                  transpose_b: second is [..., n, k]; accumulates in f32; tf32: where a device multiplies faster
//                  so, it may round f32 operands to tf32 (8 bits of exponent, 10 of mantissa)
//   scaled_dot     [m, k] x [n, k] -> [m, n] of `dtype`, 8-bit floats, k a multiple of 128: products of each 128 of k
//                  times the scale of their row and of their column there. Scales are f32 [k / 128, m] and [k / 128,
//                  n], or m / 128 and n / 128 where 128 lines share one; accumulates in f32
//   grouped_dot    a GEMM for each group of rows. The third input, offsets i32 [p, e + 1], says for each of p slabs
//   where
//                  its e groups begin and end among r rows: each line begins with 0, never falls and ends at r at most.
//                  [p, r, k] x [e, k, n] -> [p, r, n]: rows of group g times matrix g, rows of no group give 0;
//                  transpose_b: second is [e, n, k]. transpose_a: [p, r, m] x [p, r, n] -> [e, m, n]: matrix g is the
//                  sum over the rows of group g of x^T second, in the order of slabs and rows, 0 without rows. Rows of
//                  no group are not read. `dtype`, accumulation and tf32 as dot; no 8-bit floats
//   attention*     see AttentionSpec
//   user_kernel    any inputs; what graph/user_kernel.h says
//   linear_cross_entropy   inputs x [N, C], weight [V, C], targets [N] (i32 or i64; negative = ignored), token
//                  weights f32 [N]. outputs: loss f32 [] = sum_i weight_i * -log softmax(x_i . W^T)[target_i], the
//                  gradients of that loss, dx [N, C] (dtype of x) and dW [V, C] f32, and the loss's terms f32 [N] (of
//                  ignored targets 0). With `z_loss` above 0 there is a fifth, f32 [] = z_loss x sum_i weight_i x
//                  log(Z_i)^2 over the same targets, where Z_i is the sum that softmax divides by, and dx and dW are
//                  the gradients of the first and the fifth together. Unused outputs cost nothing.
//
// Collectives are what one rank does of something that all ranks of `group` (axes of the mesh: sharding.h) do, in the
// same order; `count` is their number n, x f32 or bf16:
//   all_reduce      the sum over the ranks, of x's type, rounded once or more
//   all_gather      every rank's x, in the group's order: [n, shape of x]
//   reduce_scatter  x is [n, shape]: the sum over the ranks of their part of that rank's position: `shape`
//   all_to_all      x is [n, shape]: part r of the result is what rank r of the group has at this rank's position
// constrain_sharding  x, which is to lie over the mesh as `sharding` says
// Messages go from one rank of `group` to another one, whose graph differs (the stages of a pipeline). f32 or bf16.
// Nobody uses what a send gives, and it happens nevertheless (is_effect()); no two messages are one.
//   send            x, of which this rank has the part that `sharding` says, to rank `peer` of the group; i32 [] of no
//                   meaning. `stream`: messages of one stream between the same two ranks arrive in order
//   receive         what rank `peer` sent: `dtype` and `shape`, to lie as `sharding` says
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/base/fields.h"
#include "causeway/graph/dim.h"
#include "causeway/graph/dtype.h"
#include "causeway/graph/sharding.h"

namespace causeway::graph {

enum class Op : uint8_t;  // op.h

// Of k, and of lines where they share scales: what one scale of a scaled_dot is for.
inline constexpr int64_t kScaledBlock = 128;

enum class OpKind : uint8_t {
  kSource,
  kRandom,
  kUnary,
  kConvert,
  kBinary,
  kCompare,
  kSelect,
  kTernary,
  kReduce,
  kArgmax,
  kScan,
  kMovement,
  kIndexing,
  kTemplate,
  kCollective,
  kMessage,
};

struct OpInfo {
  Op op;
  std::string_view name;
  OpKind kind;
  int arity;  // -1: any number
};
std::span<const OpInfo> all_ops();
const OpInfo& op_info(Op op);
inline std::string_view op_name(Op op) { return op_info(op).name; }
// The op of that name. Throws Error(kInvalidArgument) where there is none.
Op op_named(std::string_view name);
// One output element depends on the same element of each input, and on nothing else.
bool is_elementwise(Op op);
// Whether it is there for what it does, so that a graph keeps it though nothing uses its results.
bool is_effect(Op op);
bool is_input(Op op);

struct TensorType {
  DType dtype = DType::kF32;
  Shape shape;
  bool operator==(const TensorType&) const = default;
  std::string text() const;  // "bf16[B, T, 64]"
};

// One output of one node.
struct Value {
  int32_t node = -1;
  int32_t output = 0;
  bool valid() const { return node >= 0; }
  auto operator<=>(const Value&) const = default;
};

class Graph;

// Queries, or keys, of a block of the map (AttentionSpec) where nobody chooses: a figure that kernels are tuned for, in
// graph.cpp.
int64_t preferred_attention_block();

// What attention computes: for batch b, query head h, query position i and key position j,
//   s = score(b, h, i, j, scale * q[b,i,h,:] . k[b,j,h/group,:])    where mask(b, h, i, j), else -infinity
//   out[b,i,h,:] = sum_j softmax_j(s) v[b,j,h/group,:],   lse[b,h,i] = log sum_j exp(s)   (out 0, lse -inf when empty)
// attention           inputs q [B,T,H,D], k [B,S,Hk,D], v [B,S,Hk,V], block map when has_block_map, captured
//                     tensors...; outputs out [B,T,H,V] of q's dtype, lse f32 [B,H,T]
// attention_gradient  inputs q, k, v, dout [B,T,H,V], lse, delta f32 [B,H,T] (sum_d out*dout, minus the gradient of
//                     lse), block map when has_block_map, captured...; outputs dq, dk, dv, types of q, k, v
// attention_block_map inputs captured...; output u8 [B or 1, H or 1, ceil(T/block_q), ceil(S/block_k)] given by
//                     attributes.shape = {B, H, T, S}: 0 no pair in the block attends, 2 all do, 1 some do. The batch
//                     (head) dim is 1 when the mask does not depend on it.
// score and mask are graphs of scalars. Inputs of both, in order: b, h, i, j (i32 []), for score then the score
// (f32 []), then the captured tensors with their own types. One output: f32 [] and bool [].
struct AttentionSpec {
  std::shared_ptr<const Graph> score;           // null: identity
  std::shared_ptr<const Graph> score_gradient;  // d score / d s, inputs as score; set in attention_gradient
  std::shared_ptr<const Graph> mask;            // null: every pair attends
  double scale = 1.0;
  int64_t block_q = preferred_attention_block();
  int64_t block_k = preferred_attention_block();
  bool has_block_map = false;

  // By the names in a graph's text.
  static constexpr auto fields() {
    return std::tuple{
        ListedField{"scale", &AttentionSpec::scale},     ListedField{"block_q", &AttentionSpec::block_q},
        ListedField{"block_k", &AttentionSpec::block_k}, ListedField{"block_map", &AttentionSpec::has_block_map},
        ListedField{"score", &AttentionSpec::score},     ListedField{"score_gradient", &AttentionSpec::score_gradient},
        ListedField{"mask", &AttentionSpec::mask}};
  }
};
static_assert(lists_every_field<AttentionSpec>);

struct UserKernelSpec;

// What a node needs beside its inputs; which fields an op reads is said at its meaning above. fields() drives equality,
// hash, printer and parser, each of which knows types of fields and no names.
struct Attributes {
  std::vector<int64_t> axes;
  Shape shape;
  Shape start;
  Shape limit;
  std::vector<int64_t> strides;
  double value = 0;
  double z_loss = 0;          // linear_cross_entropy
  DType dtype = DType::kF32;  // constant, iota, cast, bitcast, dot, grouped_dot, input
  bool transpose_a = false;
  bool transpose_b = false;
  bool tf32 = false;      // dot, grouped_dot, attention, attention_gradient
  bool replaces = false;  // scatter_add
  bool permutes = false;  // gather, scatter_add
  int64_t count = 0;      // topk; collectives, messages: ranks of the group
  int64_t stream = 0;     // random_bits, messages
  int64_t peer = 0;       // messages: a position in the group
  std::string name;       // input; messages: what is sent, different for each
  Sharding sharding;      // input, constrain_sharding, messages
  std::string group;      // collectives, messages
  bool on_host = false;   // input: it lies in the host's memory, and programs bring it and take it back
  std::shared_ptr<const AttentionSpec> attention;
  std::shared_ptr<const UserKernelSpec> user_kernel;

  static constexpr auto fields() {
    return std::tuple{ListedField{"axes", &Attributes::axes},
                      ListedField{"shape", &Attributes::shape},
                      ListedField{"start", &Attributes::start},
                      ListedField{"limit", &Attributes::limit},
                      ListedField{"strides", &Attributes::strides},
                      ListedField{"value", &Attributes::value},
                      ListedField{"z_loss", &Attributes::z_loss},
                      ListedField{"dtype", &Attributes::dtype},
                      ListedField{"transpose_a", &Attributes::transpose_a},
                      ListedField{"transpose_b", &Attributes::transpose_b},
                      ListedField{"tf32", &Attributes::tf32},
                      ListedField{"replaces", &Attributes::replaces},
                      ListedField{"permutes", &Attributes::permutes},
                      ListedField{"count", &Attributes::count},
                      ListedField{"stream", &Attributes::stream},
                      ListedField{"peer", &Attributes::peer},
                      ListedField{"name", &Attributes::name},
                      ListedField{"sharding", &Attributes::sharding},
                      ListedField{"group", &Attributes::group},
                      ListedField{"on_host", &Attributes::on_host},
                      ListedField{"attention", &Attributes::attention},
                      ListedField{"user_kernel", &Attributes::user_kernel}};
  }
  // The same computation: numbers by their bits (0 and -0 differ, NaN equals NaN), specifications by content.
  bool operator==(const Attributes& other) const;
};
static_assert(lists_every_field<Attributes>);

// Equal for equal attributes; within a process.
uint64_t hash_value(const Attributes& attributes);

struct Node {
  Op op{};
  std::vector<Value> inputs;
  Attributes attributes;
  std::vector<TensorType> outputs;
  std::string scope;      // the layer that created it, e.g. "layers.3.mlp"
  bool backward = false;  // made by add_gradients(), or a forward node cloned for it
};

// A persistent input (parameter, optimizer state) and the value it takes after the graph has run.
struct Assignment {
  Value target;  // an input
  Value value;   // of the same type
};

// The output types of `op`; throws Error(kInvalidArgument) that names the op and the types when they do not fit.
std::vector<TensorType> infer_types(Op op, const std::vector<TensorType>& inputs, const Attributes& attributes);

class Graph {
 public:
  // Appends a node and returns its first output.
  Value add(Op op, std::vector<Value> inputs, Attributes attributes = {});
  Value add_input(std::string name, TensorType type, Sharding sharding = {}, bool on_host = false);

  const std::vector<Node>& nodes() const { return nodes_; }
  const Node& node(Value value) const { return nodes_[static_cast<size_t>(value.node)]; }
  const Node& node(int32_t index) const { return nodes_[static_cast<size_t>(index)]; }
  const TensorType& type(Value value) const { return node(value).outputs[static_cast<size_t>(value.output)]; }
  const Shape& shape(Value value) const { return type(value).shape; }
  DType dtype(Value value) const { return type(value).dtype; }

  const std::vector<Value>& inputs() const { return inputs_; }
  std::vector<Value> outputs;
  std::vector<Assignment> assignments;

  // Nodes added from now on carry this scope.
  void set_scope(std::string scope) { scope_ = std::move(scope); }
  const std::string& scope() const { return scope_; }
  // Nodes added from now on are marked as backward.
  void set_backward(bool backward) { backward_ = backward; }
  bool backward() const { return backward_; }

  // Checks order, arity, types, outputs and assignments; throws InternalError naming `stage` and the node.
  void verify(std::string_view stage) const;

 private:
  std::vector<Node> nodes_;
  std::vector<Value> inputs_;
  std::string scope_;
  bool backward_ = false;
};

bool structurally_equal(const Graph& a, const Graph& b);

}  // namespace causeway::graph
