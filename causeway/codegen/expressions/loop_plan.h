// What a loop kernel does, as data: planned before any text is written, asserted by tests and printed by writers, to
// which unrolling and the room for partial sums are left. Each family of targets adds what it has to say of its own
// (gpu/loop_plan.h, x86/loop_plan.h).
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "causeway/codegen/expressions/index.h"
#include "causeway/codegen/kernel.h"

namespace causeway::codegen {

// Where the variable of an axis gets its value from.
enum class AxisMapping {
  kGrid,    // the number of a row, which a task of a processor or a team of a GPU's threads has; or that of a block
  kThread,  // the number of a thread among all of the launch
  kTile,    // the tile of its block, and its place there
  kBlock,   // the part of a row that its block has, and its place there
  kTeam,    // a loop of which the threads of a team take turns
  kSerial,  // a loop
  kVector,  // the innermost loop, which the compiler may vectorize
  kLane,    // an unrolled loop over the neighbouring elements of a thread
};

// An axis of the loops. The one at position i has variable i of an Index.
struct LoopAxis {
  Dim extent;
  AxisMapping mapping = AxisMapping::kSerial;

  // An axis of rows is no loop of a GPU's thread; the others, lanes apart, are of the columns.
  bool is_row() const {
    return mapping == AxisMapping::kGrid || mapping == AxisMapping::kThread || mapping == AxisMapping::kTile;
  }
  bool is_lane() const { return mapping == AxisMapping::kLane; }
  bool operator==(const LoopAxis&) const = default;
};

// An element for each position or each row, a reduction of each row, a sum over all rows for each column, another
// member's elements in the other order.
enum class LoopRole { kFull, kRow, kReduction, kRowSum, kTransposed };

// A member of the request, by its position there.
struct LoopMember {
  LoopRole role = LoopRole::kFull;
  int phase = 0;  // the pass over the columns that computes it, or before which it is computed
  bool stored = false;
  bool operator==(const LoopMember&) const = default;
};

// An element that a pass reads from memory.
struct LoopLoad {
  int phase = 0;
  Value value;
  Index at;
};

struct LoopPlan {
  std::vector<LoopAxis> axes;  // outermost first
  std::vector<LoopMember> members;
  std::vector<LoopLoad> loads;  // in the order of the walk
  // Row-major positions of the element and of the row that the loops are at.
  Index element, row;
  // Why the kernel cannot be written.
  std::optional<Obstacle> obstacle;

  bool has(LoopRole role) const { return std::ranges::find(members, role, &LoopMember::role) != members.end(); }
  bool has_reductions() const { return has(LoopRole::kReduction) || has(LoopRole::kRowSum); }
  bool stores(LoopRole role) const {
    return std::ranges::any_of(members, [&](const LoopMember& member) { return member.stored && member.role == role; });
  }
};

}  // namespace causeway::codegen
