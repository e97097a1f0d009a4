// What fusion asks code generation for, and what it gets back.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/device/device.h"
#include "causeway/device/target.h"
#include "causeway/graph/graph.h"

namespace causeway::codegen {

enum class KernelKind {
  // Rows x columns: elementwise values, reductions over the columns, and what follows from them. On a GPU also sums
  // over
  // the rows, which no other member reads, beside reductions.
  kLoop,
  kColumnReduce,  // a reduction whose input's last axis is kept; on a GPU several, and elementwise values of that shape
  kArgmax,
  kCumsum,
  kTopk,
  kScatterAdd,
  kDot,         // one dot, and elementwise values of its result
  kGroupedDot,  // one grouped_dot, and nothing else
  kAttentionBlockMap,
  kAttention,
  kAttentionGradient,
  kUser,        // C++ text of the user's
  kCollective,  // one collective: no text, the communicator does it
  kMessage,     // one send or receive, likewise
};
std::string_view kernel_kind_name(KernelKind kind);

// A set of graph values computed by one kernel.
struct KernelRequest {
  KernelKind kind = KernelKind::kLoop;
  // The values it computes, in topological order. For templates the template's own outputs come first.
  std::vector<Value> members;
  // Which members are written to memory; the others live in registers only.
  std::vector<bool> stored;
  // kLoop: each row has `columns` elements. A kernel of elementwise values only has one row of all elements; where a
  // member is the transpose of another one, they are that one's.
  Dim rows = 1;
  Dim columns = 1;
  // kDot on a GPU: the members of a loop of `rows` and `columns` that the kernel does first, in every block, for the
  // sake of the dot's first operand, which is one of them or a reshape of it. None of them is written to memory.
  std::vector<Value> row_members;
  // Sums are added up in an order that only their own length decides, and GEMMs rounded before they are added. Slow.
  bool fixed_order = false;
  // kLoop on a GPU: the members of further loops that the same launch does, each with blocks of its own. Stored, rows,
  // columns and kernel text are those of `members`, sizes are constant, and no loop reads what another one computes.
  std::vector<std::vector<Value>> alike;

  bool computes(Value value) const;  // as a member
  // Whether it computes the value and writes it to memory.
  bool stores(Value value) const;
};

// Of a member that is the transpose of another one, a matrix, that one: a GPU's loop stores both as it computes
// elements.
std::optional<Value> transposed_member(const Graph& graph, const KernelRequest& request, Value member);

// Values that are in memory when a kernel runs; everything else is computed inside the kernels that need it.
class MaterializedValues {
 public:
  explicit MaterializedValues(const Graph& graph);
  bool contains(Value value) const {
    return flags_[static_cast<size_t>(value.node)][static_cast<size_t>(value.output)];
  }
  void insert(Value value) { flags_[static_cast<size_t>(value.node)][static_cast<size_t>(value.output)] = true; }

 private:
  std::vector<std::vector<bool>> flags_;
};

// What a collective or a message sends: its input, seen through reshapes to what is in memory.
Value collective_source(const Graph& graph, const MaterializedValues& materialized, const Node& node);

// One argument of a kernel: buffers[i].
struct KernelArgument {
  // kTaskCounter: four bytes of a device's memory that are 0 when a phase begins, are 0 again when it has ended, and
  // that no other launch uses between. Blocks take their tasks from it.
  enum class Kind { kValue, kWorkspace, kTaskCounter };
  Kind kind = Kind::kValue;
  Value value;
  bool written = false;
};

// A quantity that depends on the sizes of one run.
using SizeFunction = std::function<int64_t(const SymbolBindings&)>;

struct KernelPhase {
  std::string function;        // extern "C" name in the source
  SizeFunction tasks;          // GPU: blocks of threads that have something to do
  SizeFunction scratch_bytes;  // CPU: per worker
  // GPU: what DeviceLaunch calls by these names. They are fixed when the text is written.
  int threads = 1;
  int shared_bytes = 0;
  int cluster = 1;
  // GPU: each block goes on until nothing is left to do, so that fewer than `tasks` may be launched: no more than run
  // at the same time, one on a multiprocessor. Results depend neither on how many nor on which of them does what.
  bool persistent = false;
};

// What a kernel's tensor maps are for given sizes. TensorMap::buffer counts the kernel's arguments.
using TensorMapFunction = std::function<std::vector<TensorMap>(const SymbolBindings&)>;

struct GeneratedKernel {
  // Equal work gives equal text, so that layers share compiled kernels. Empty for a collective, which has one argument
  // that it reads and one that it writes, and no phases, and for a message, which has one of the two.
  std::string source;
  std::vector<KernelArgument> arguments;
  std::vector<Dim> sizes;           // sizes[i]
  std::vector<KernelPhase> phases;  // run in order
  SizeFunction workspace_bytes;     // of each workspace argument; null when there is none
  TensorMapFunction tensor_maps;    // of all phases; null when there are none
};

// Why a set of values cannot be one kernel.
struct Obstacle {
  enum class Kind {
    kOwnValueElsewhere,  // reads `value`, which it computes itself, at another position
    kNotInBothOrders,    // `value`, whose transpose is a member too, has no tiles that are stored in both orders
    kFewLongRows,        // rows too few and too long for one block each, that cannot be cut into parts
    kLongRowSums,        // no registers for the columns of a thread, which `value` adds up over rows
    kDividedIndex,       // `value` is found by an index that would have to be divided for every element
    kComputedOperand,    // an operand, `value`, is no tensor in memory seen through movement
    kScatteredOperand,   // an operand, `value`, has no axis along which it is contiguous, or no single place in memory
    kOperandAcrossK,     // matrix instructions want `value` along k
    kRowsElsewhere,      // `value` is no operand whose rows each block can compute for itself
  };
  Kind kind = Kind::kOwnValueElsewhere;
  Value value;

  std::string text(const Graph& graph) const;
};

// Why the request cannot be generated, from the indices that its values would be read at; nothing is written. Nothing
// when it can. Only kLoop, kDot, kGroupedDot and a GPU's kAttention and kAttentionGradient have obstacles: a member
// that another member needs at a different position belongs in another kernel, an operand that cannot be read as it
// lies is stored beforehand. Attention can be written all the same, with operands computed element by element for every
// block that reads them, which takes several times as long.
std::optional<Obstacle> find_obstacle(const Graph& graph, const MaterializedValues& materialized,
                                      const KernelRequest& request, const Target& target);

// Whether a GEMM's kernel computes `value`, made of its result, at no cost beside the GEMM itself. Of the request its
// members and the order of sums count.
bool hides_epilogue(const Graph& graph, const KernelRequest& gemm, Value value, const Target& target);

// Writes the kernel. The arguments of loops that are alike follow each other. Throws InternalError when there is an
// obstacle, and when loops that are to be alike are not.
GeneratedKernel generate_kernel(const Graph& graph, const MaterializedValues& materialized,
                                const KernelRequest& request, const Target& target);

}  // namespace causeway::codegen
