// The loops of a loop kernel on a GPU, and how threads share them. Without sums, each thread computes a few
// neighbouring elements. With sums, a row belongs to a team of threads: part of a wave for short rows, a block for
// longer ones. What several passes over a row read stays in registers or, of a longer row, in shared memory, where the
// architecture copies past registers. A few very long rows are cut into parts that a second launch adds up. With sums
// over rows, a fixed number of blocks share the rows, each thread keeps the sums of its columns in registers, and a
// second launch adds up what blocks have.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "causeway/codegen/expressions/loop_nest.h"
#include "causeway/device/gpu_architecture.h"

namespace causeway::codegen {

class GpuLoopNest : public LoopNest {
 public:
  static constexpr int kWaveTeam = 32;          // the widest team that shares a wave on every architecture
  static constexpr int kSumsSharedBytes = 256;  // for the sums of a block's waves
  static constexpr int kCopiedBytes = 16;       // from memory to shared memory, at a time
  // Of a row in shared memory, where a multiprocessor has room for two of them, and for one.
  static constexpr int kTeamOfTwo = 512, kTeamOfOne = 1024;

  explicit GpuLoopNest(const KernelInputs& inputs) : LoopNest(inputs), architecture_(inputs.target.architecture()) {}

  // Cuts axes as on CPUs, then lanes from the innermost, and decides on teams, parts and registers. obstacle() is also
  // about rows that are too few and too long.
  void plan();

  void reset() override;
  void walk(ElementWalk& walk, LoopVisitor& visitor) override;
  // The second launch of a nest in parts, after walk(): the sums get their names, and what follows from them is
  // computed.
  void walk_finish(ElementWalk& walk, LoopVisitor& visitor);

  std::optional<ElementValue> variable(Value value, const Index& linear) override;
  void note_load(Value value, const Index& linear) override;

  // Neighbouring elements of one thread.
  int lanes() const { return lanes_; }
  const std::string& lane_name() const { return axis_name(axes_.size() - 1); }
  int lane_variable() const { return axis_variables_.back(); }
  // The single range of elements ends within a vector of lanes.
  bool ragged() const { return ragged_; }
  // Rows of this many elements, whose ends may lie within vectors.
  const std::optional<Dim>& unaligned_columns() const { return unaligned_columns_; }
  // Vectors of lanes in a row.
  Dim row_vectors() const;
  // Threads that share a row, and threads of a block.
  int team() const { return team_; }
  int threads() const { return threads_; }
  int rows_per_block() const { return threads_ / team_; }
  bool rows_fill_blocks() const;
  // Of a row; more than one is a block each, and a second launch.
  int64_t parts() const { return parts_; }
  // With sums over rows: how many blocks share them, taking rows_per_block() rows at a time.
  int64_t row_sum_blocks() const;
  // As many of them as are to run at a time on a multiprocessor.
  int row_sum_blocks_per_unit() const;

  // A thread's elements of its row, where they stay in registers from one pass to the next: tensors and members, by the
  // names of their arrays.
  const std::map<Value, std::string>& cached() const { return cached_; }
  const std::set<Value>& kept() const { return kept_; }
  std::string kept_name(Value member) const;
  int64_t kept_elements() const;
  // Where in such an array the element is that the loops are at.
  std::string register_position() const;

  // Tensors whose row the team copies to shared memory before the first pass, each thread the vectors that it takes in
  // every pass: the bytes from the start of the row's room on.
  const std::map<Value, int64_t>& in_shared() const { return in_shared_; }
  int64_t in_shared_bytes() const;
  std::string in_shared_name(Value value) const;

  // A large tensor that is read across the lanes' direction, and the axis along which its elements are neighbours.
  struct Transposed {
    size_t axis = 0;
    Value value;
    Index linear;
  };
  const std::optional<Transposed>& transposed() const { return transposed_; }
  // Whether the kernel does nothing but move the elements of that tensor, in whole pieces of 16 bytes.
  bool is_transposed_copy() const;

 private:
  void analyse() override;
  void cut_lanes();
  bool may_be_unaligned() const;
  bool sums_come_first() const;
  void plan_parts();
  void plan_team();
  bool one_block_for_all() const;
  bool can_keep() const;
  void choose_cached();
  void choose_in_shared();
  int64_t row_bytes(Value value) const;

  const GpuArchitecture& architecture_;
  int lanes_ = 1;
  bool lanes_cut_ = false, ragged_ = false;
  int team_ = 1, threads_ = 1;
  int64_t parts_ = 1;
  int phase_ = 0;
  std::optional<Transposed> transposed_;
  std::map<Value, std::set<int>> loads_;  // phases that read a tensor's element at the loops' own position
  std::map<Value, std::string> cached_;
  std::map<Value, int64_t> in_shared_;
  std::set<Value> kept_, wanted_kept_;
};

// The factor of the variable in the index; 0 where it is absent.
Dim coefficient(const Index& index, int variable);

}  // namespace causeway::codegen
