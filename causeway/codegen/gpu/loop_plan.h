// The plan of a loop kernel on a GPU: how threads share its loops, what they hold between passes, how they sum. Without
// sums, each thread computes a few neighbouring elements, or several such vectors of a tile that is stored in both
// orders. With sums, a row belongs to a team of threads: part of a wave for short rows, a block for longer ones. What
// several passes over a row read stays in registers or, of a longer row, in shared memory, where the architecture
// copies past registers; of a row that no block has room for in the shared memory of a cluster's blocks, each of which
// has a part of it, where there are clusters. A few very long rows are cut into parts that a second launch adds up.
// With sums over rows, a fixed number of blocks share the rows, each thread keeps the sums of its columns in registers,
// and a second launch adds up what blocks have.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "causeway/codegen/expressions/loop_plan.h"
#include "causeway/codegen/gpu/loops.h"
#include "causeway/codegen/kernel_writers.h"

namespace causeway::codegen {

struct GpuLoopPlan : LoopPlan {
  static constexpr int kWaveTeam = 32;          // the widest team that shares a wave on every architecture
  static constexpr int kSumsSharedBytes = 256;  // for the sums of a block's waves
  static constexpr int kCopiedBytes = 16;       // from memory to shared memory, at a time
  static constexpr int kRowSumBytes = 4;        // of a sum over rows
  static constexpr int kMostCluster = 8;        // blocks that share a row
  // For what a cluster's blocks have of a sum, and for all of a row's sums, in each block after the sums of its waves.
  static constexpr int kClusterSumBytes = 4 * kMostCluster;
  static constexpr int kClusterSharedBytes = 256;
  static constexpr int kPartialBytes = 8;  // of the sum of a part of a row

  // What blocks are.
  enum class Form {
    kElements,        // threads of neighbouring vectors, anywhere
    kUnalignedRows,   // vectors of a row whose ends may lie within vectors
    kTiles,           // tiles over the innermost axes of the result and of a tensor that is read across it
    kTransposedCopy,  // such tiles, through shared memory (kernels/gpu/transpose.h), where nothing is computed
    kBothOrders,      // tiles of a matrix that are stored as they are computed and, through shared memory, transposed
    kRows,            // one team or several, each with a row
    kRowParts,        // a team with a part of a row; a second launch adds up
    kRowSums,         // teams that take rows in turn; a second launch adds up their sums over rows
  };

  // How a team goes over the vectors of its row.
  enum class ColumnLoop {
    kRolled,     // at run time
    kUnrolled,   // so that what is held of the row is in registers
    kUnaligned,  // at run time, vectors at multiples of the lanes, of which the first and last may be cut
  };

  // How threads come to the sum, or the maximum, of what each of them has.
  enum class Reduction {
    kTeam,      // the team's threads exchange theirs
    kTeamPair,  // the same, of this sum and the next one of its pass at once: each alone would wait at barriers
    kWithPair,  // the other one of such a pair
    kParts,     // the team's is left in memory for the second launch
    kOverRows,  // each thread's columns stay with it; blocks leave theirs for the second launch
  };

  // What a team holds of its row from one pass to the next.
  struct HeldRow {
    enum class Where {
      kLoaded,    // a tensor, in registers, loaded before the first pass
      kShared,    // a tensor, in shared memory, copied there before the first pass
      kComputed,  // a member, in registers, since the pass that computes it
    };
    Value value;
    Where where = Where::kLoaded;
    int number = 0;      // in its name: of a tensor, among those of its kind; of a member, its position
    int64_t offset = 0;  // in shared memory, after the sums
  };

  // The tiles of kTiles and kTransposedCopy, and what is read across the result's innermost axis.
  struct Tiles {
    size_t read_axis = 0, written_axis = 0;
    int64_t extent = 0;  // of either side, in elements of a copy, and else in steps of the axes
    Value read;
    Index read_at;
  };

  Form form = Form::kElements;
  DType index_type = DType::kI64;
  int threads = 1;  // of a block
  int lanes = 1;    // neighbouring elements of one thread
  // Without sums: no thread is past the last element; with them: no team is past the last row.
  bool fills_blocks = false;
  // Without sums: the last vector may be cut.
  bool ends_within_vector = false;
  // Rows of this many elements, whose ends may lie within vectors.
  std::optional<int64_t> unaligned_columns;
  Dim row_vectors{1};  // vectors of lanes in a row, those that its ends cut included
  std::optional<Tiles> tiles;

  // Of kBothOrders: positions of members, what is transposed and its transpose; the leading axes, which make up the
  // matrix's rows; and how many vectors of a tile each thread computes.
  struct Transposed {
    size_t source = 0, result = 0;
    bool operator==(const Transposed&) const = default;
  };
  std::vector<Transposed> transposed;
  size_t row_axes = 0;
  int rounds = 0;

  // With sums.
  int team = 1;       // threads that share a row, or a block's part of one
  int cluster = 1;    // blocks that share a row, of whose vectors each has as many, the last one what is left
  int64_t parts = 1;  // of a row
  ColumnLoop column_loop = ColumnLoop::kRolled;
  int unrolled = 1;                  // steps of a rolled loop that are written side by side
  int64_t steps = 0;                 // of an unrolled one
  bool last_step_is_cut = false;     // some threads have no vector in it, or no row
  bool settles_comparisons = false;  // ExpressionEmitter::set_settles_comparisons()
  std::vector<HeldRow> held;
  int64_t held_elements = 0;               // a thread's, of each that is in registers
  std::map<size_t, Reduction> reductions;  // by the member's position
  bool barrier_before_stores = false;      // other threads may still read what is stored over
  int shared_bytes = 0;

  // With sums over rows.
  std::vector<size_t> row_sums;  // their positions, in the order of phases
  int64_t row_sum_blocks = 0;
  int blocks_per_unit = 1;                   // of these, at a time on a multiprocessor
  size_t arguments = 0;                      // pointers to tensors and the workspace
  std::optional<int64_t> rows_to_next_load;  // of a block's next row, which is fetched to the second-level cache

  // Where a second launch adds up.
  int finish_shared_bytes = 0;
  int64_t workspace_bytes = 0;  // of what it adds up
  GpuPartsLaunch finish;        // of sums over rows

  bool stores_of_rows() const { return stores(LoopRole::kRow) || stores(LoopRole::kReduction); }
  int rows_per_block() const { return threads / team; }
  bool is_transposed(size_t source) const {
    return std::ranges::find(transposed, source, &Transposed::source) != transposed.end();
  }
  bool holds(HeldRow::Where where) const { return std::ranges::find(held, where, &HeldRow::where) != held.end(); }
};

// The plan, or what of it there is when there is an obstacle: also rows that are too few and too long.
GpuLoopPlan plan_gpu_loop(const KernelInputs& inputs);

}  // namespace causeway::codegen
