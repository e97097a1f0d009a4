#include "causeway/codegen/gpu/loop_nest.h"

#include <fmt/format.h>

#include <algorithm>

#include "causeway/base/error.h"
#include "causeway/codegen/expressions/expression_emitter.h"
#include "causeway/codegen/expressions/kernel_writer.h"
#include "causeway/codegen/gpu/loops.h"
#include "causeway/graph/op.h"

namespace causeway::codegen {
namespace {

// Rows that a team within a wave takes: of so many vectors, or of so many elements where each row has its own sums.
constexpr int kShortRow = 128, kShortRowElements = 1024;
constexpr int64_t kUnalignedRow = 1024;  // columns from which rows that begin within a vector are worth the trouble
constexpr int kMostKeptElements = 32;    // of one tensor in a thread's registers
constexpr int kWidestTeam = 512;         // of a row that is not in shared memory, where there are many
constexpr int64_t kWidestKeptRow = int64_t{kWidestTeam} * kMostKeptElements;
constexpr size_t kMostCachedTensors = 3;
constexpr int64_t kLongRow = 65536;  // columns from which a row is cut into parts
constexpr int64_t kPartColumns = 16384;
constexpr int64_t kMostParts = 1024;          // of all rows
constexpr int64_t kPartsOfUnknownRows = 128;  // of all rows, when their length is not known
// Blocks that share the rows of sums over rows fill this many multiprocessors; a constant, so that devices agree in
// results.
constexpr int kRowSumUnits = device::kMeasuredUnits;
// Threads of a multiprocessor by the sums that each of them keeps: with 80 registers for it, where it has few elements
// of its row besides, 128 and 168.
constexpr int64_t kVeryFewSums = 24, kVeryFewElements = 8, kFewSums = 40;
constexpr int kThreadsOfVeryFewSums = 768, kThreadsOfFewSums = 512, kThreadsOfManySums = 384;
constexpr int64_t kFewRows = 64;
constexpr int kWidestRowSumTeam = 256;  // wider ones leave a multiprocessor a row or two at a time
constexpr int kMostRowSumLanes = 4;     // more would leave more sums to each of fewer threads

}  // namespace

Dim coefficient(const Index& index, int variable) {
  for (const Index::Term& term : index.terms)
    if (term.variable == variable) return term.coefficient;
  return Dim(0);
}

void GpuLoopNest::plan() {
  LoopNest::plan();
  if (has_reductions() && !has_row_sums()) plan_parts();
  cut_lanes();
  plan_team();
  LoopNest::plan();
  choose_cached();
  choose_in_shared();
  kept_ = wanted_kept_;
  if (!cached_.empty() || !in_shared_.empty() || !kept_.empty()) analyse();
  if (!obstacle_ && one_block_for_all()) obstacle_ = Obstacle{Obstacle::Kind::kFewLongRows, request_.members.front()};
  if (!obstacle_ && has_row_sums() && !can_keep())
    obstacle_ = Obstacle{Obstacle::Kind::kLongRowSums, request_.members.back()};
}

void GpuLoopNest::analyse() {
  reset();
  ElementWalk analysis(graph_, *this, variables_);
  if (lanes_cut_) analysis.set_lanes(lane_variable(), lanes_);
  LoopVisitor nobody;
  walk(analysis, nobody);
  if (parts_ > 1 && !wanted_split_) walk_finish(analysis, nobody);
}

void GpuLoopNest::reset() {
  LoopNest::reset();
  loads_.clear();
  transposed_.reset();
}

void GpuLoopNest::walk(ElementWalk& walk, LoopVisitor& visitor) {
  for (phase_ = 0; phase_ <= last_phase(); ++phase_) {
    walk_phase(walk, visitor, phase_, parts_ == 1);
    if (wanted_split_ || parts_ > 1) return;
  }
}

void GpuLoopNest::walk_finish(ElementWalk& walk, LoopVisitor& visitor) {
  walk.leave_loops(0);
  member_variables_.clear();
  for (size_t i = 0; i < request_.members.size(); ++i)
    if (role(request_.members[i]) == Role::kReduction) name_sum(visitor, i);
  for (const Value member : request_.members)
    if (role(member) == Role::kRow) walk_row_member(walk, visitor, member);
}

std::optional<ElementValue> GpuLoopNest::variable(Value value, const Index& linear) {
  const auto entry = cached_.find(value);
  if (entry != cached_.end() && linear == full_linear())
    return ElementValue{from_storage(graph_.dtype(value), fmt::format("{}[{}]", entry->second, register_position())),
                        kLaneDepth};
  if (in_shared_.contains(value) && linear == full_linear())
    return ElementValue{from_storage(graph_.dtype(value),
                                     fmt::format("{}[vector * {} + {}]", in_shared_name(value), lanes_, lane_name())),
                        kLaneDepth};
  if (request_.computes(value) && linear == full_linear() && !member_variables_.contains(value) && can_keep()) {
    wanted_kept_.insert(value);
    return ElementValue{fmt::format("{}[{}]", kept_name(value), register_position()), kLaneDepth};
  }
  return LoopNest::variable(value, linear);
}

void GpuLoopNest::note_load(Value value, const Index& linear) {
  const bool is_full = element_count(graph_.shape(value)) == request_.rows * request_.columns;
  if (is_full && linear == full_linear() && !request_.computes(value)) loads_[value].insert(phase_);
  // A large tensor whose neighbouring elements lie along another axis than the result's.
  if (has_reductions() || !axes_.back().is_lane || !is_full || unaligned_columns_) return;
  for (const Index::Term& term : linear.terms) {
    const auto axis = std::find(axis_variables_.begin(), axis_variables_.end(), term.variable);
    const size_t position = static_cast<size_t>(axis - axis_variables_.begin());
    if (!term.coefficient.is_constant(1) || position + 2 >= axes_.size()) continue;
    transposed_ = Transposed{position, value, linear};
  }
}

void GpuLoopNest::cut_lanes() {
  const Dim count = request_.rows * request_.columns;
  const Dim extent = axes_.back().extent;
  // A single range can end within a vector; otherwise vectors must fit the innermost axis.
  const bool one_range = !has_reductions() && axes_.size() == 1;
  const int best = gpu_lanes(graph_, materialized_, request_, count, Dim(kLoopThreads));
  lanes_ = one_range ? best : gpu_lanes(graph_, materialized_, request_, count, extent);
  if (has_row_sums()) lanes_ = std::min(lanes_, kMostRowSumLanes);
  // Rows that stay in registers are loaded once: neighbours in a wave read whole sectors of the widest tensor.
  if (has_reductions() && request_.columns.is_constant() && request_.columns.constant() <= kWidestKeptRow)
    lanes_ = std::min(lanes_, gpu_lanes(graph_, materialized_, request_, count, extent, LanesBy::kWidest));
  // What else the loop reads would decide which elements a thread adds up.
  const bool one_by_one = request_.fixed_order && has_reductions();
  if (one_by_one) lanes_ = 1;
  if (!one_by_one && !one_range && lanes_ == 1 && best > 1 && may_be_unaligned()) {
    lanes_ = best;
    unaligned_columns_ = extent;
    // The first column of a vector that lies within the row; both ends of a row may cut a vector.
    axes_.back() = {extent - Dim(lanes_ - 1), false};
  } else {
    const std::optional<Dim> vectors = extent.divide_exactly(lanes_);
    ragged_ = !vectors;
    // With a ragged end the number of vectors has no closed form; a bound serves index arithmetic as well.
    axes_.back() = {vectors.value_or(extent), !has_reductions()};
  }
  axes_.push_back({Dim(lanes_), false, true});
  lanes_cut_ = true;
}

bool GpuLoopNest::may_be_unaligned() const {
  const auto columns = std::count_if(axes_.begin(), axes_.end(), [](const Axis& axis) { return !axis.is_row; });
  return columns == 1 && parts_ == 1 && axes_.back().extent.is_constant() &&
         axes_.back().extent.constant() >= kUnalignedRow;
}

Dim GpuLoopNest::row_vectors() const {
  if (unaligned_columns_) return Dim(unaligned_columns_->constant() / lanes_ + 2);
  Dim vectors(1);
  for (const Axis& axis : axes_)
    if (!axis.is_row && !axis.is_lane) vectors *= axis.extent;
  return vectors;
}

bool GpuLoopNest::rows_fill_blocks() const {
  return rows_per_block() == 1 || (request_.rows.is_constant() && request_.rows.constant() % rows_per_block() == 0);
}

bool GpuLoopNest::sums_come_first() const {
  for (size_t i = 0; i < request_.members.size(); ++i)
    if (phases()[i] != 0 && role(request_.members[i]) != Role::kRow) return false;
  return true;
}

// Parts depend on sizes only, so that a result is the same on every device.
void GpuLoopNest::plan_parts() {
  if (request_.fixed_order) return;
  if (!request_.rows.is_constant() || request_.rows.is_constant(0) || !sums_come_first()) return;
  const int64_t rows = request_.rows.constant();
  if (!request_.columns.is_constant()) {
    parts_ = std::max<int64_t>(1, kPartsOfUnknownRows / rows);
  } else if (request_.columns.constant() >= kLongRow) {
    parts_ = std::clamp<int64_t>((request_.columns.constant() + kPartColumns - 1) / kPartColumns, 1,
                                 std::max<int64_t>(1, kMostParts / rows));
  }
}

void GpuLoopNest::plan_team() {
  threads_ = kLoopThreads;
  if (!has_reductions()) return;
  team_ = kLoopThreads;
  const Dim vectors = row_vectors();
  if (parts_ > 1 || !vectors.is_constant()) return;
  if (vectors.constant() <= kShortRow || (!has_row_sums() && vectors.constant() * lanes_ <= kShortRowElements)) {
    team_ = 1;
    while (team_ < kWaveTeam && team_ < vectors.constant()) team_ *= 2;
    return;
  }
  team_ = 64;
  // Few rows leave most multiprocessors idle: then as many threads as there are vectors.
  const bool few_rows =
      request_.rows.is_constant() && request_.rows.constant() <= kFewRows && !has_row_sums() && !request_.fixed_order;
  while (team_ < kWidestTeam && team_ * (few_rows ? 1 : 4) < vectors.constant()) team_ *= 2;
  if (!few_rows && team_ == kWidestTeam && vectors.constant() < 8192 && !has_row_sums()) team_ = 256;
  // As many steps of all threads together by more of them: each has fewer sums to keep.
  const auto steps = [&](int team) { return divide_up(vectors.constant(), team) * team; };
  if (has_row_sums())
    while (team_ < kWidestRowSumTeam && steps(team_ * 2) <= steps(team_)) team_ *= 2;
  threads_ = team_;
}

// The values belong in kernels of their own.
bool GpuLoopNest::one_block_for_all() const {
  constexpr int64_t kLargest = 1 << 20;
  if (!has_reductions() || parts_ > 1 || request_.members.size() == 1 || sums_come_first()) return false;
  return request_.rows.is_constant() && request_.rows.constant() < 16 && request_.columns.is_constant() &&
         request_.columns.constant() >= kLargest;
}

// Whether a thread's share of a row is small enough to stay in registers from one pass to the next.
bool GpuLoopNest::can_keep() const {
  return lanes_cut_ && has_reductions() && parts_ == 1 && !unaligned_columns_ && row_vectors().is_constant() &&
         kept_elements() <= kMostKeptElements;
}

int64_t GpuLoopNest::kept_elements() const { return (row_vectors().constant() + team_ - 1) / team_ * lanes_; }

int GpuLoopNest::row_sum_blocks_per_unit() const {
  const std::vector<Value>& members = request_.members;
  const int64_t sums =
      std::count_if(members.begin(), members.end(), [&](Value member) { return role(member) == Role::kRowSum; });
  const int64_t elements = kept_elements(), kept = elements * sums;
  const int threads = kept <= kVeryFewSums && elements <= kVeryFewElements ? kThreadsOfVeryFewSums
                      : kept <= kFewSums                                   ? kThreadsOfFewSums
                                                                           : kThreadsOfManySums;
  return std::max(1, threads / threads_);
}

int64_t GpuLoopNest::row_sum_blocks() const {
  const int64_t most = int64_t{kRowSumUnits} * row_sum_blocks_per_unit();
  return request_.rows.is_constant() ? std::min(most, divide_up(request_.rows.constant(), rows_per_block())) : most;
}

// Tensors that several passes read; where few threads share a multiprocessor also others, so that the loads of a row
// are under way together and not each after the stores before it.
void GpuLoopNest::choose_cached() {
  if (!can_keep()) return;
  for (const auto& [value, phases] : loads_)
    if ((phases.size() > 1 || has_row_sums()) && cached_.size() < kMostCachedTensors)
      cached_[value] = fmt::format("k{}", cached_.size());
}

// Rows that are too long for registers and would be read from memory by each pass.
void GpuLoopNest::choose_in_shared() {
  if (!architecture_.copies_asynchronously || !has_reductions() || has_row_sums() || request_.fixed_order ||
      parts_ > 1 || unaligned_columns_ || !row_vectors().is_constant() || kept_elements() <= kMostKeptElements)
    return;
  const int64_t most = architecture_.shared_bytes - kSumsSharedBytes;
  int64_t bytes = 0;
  for (const auto& [value, phases] : loads_) {
    if (phases.size() < 2 || lanes_ * size_bytes(graph_.dtype(value)) % kCopiedBytes != 0 ||
        bytes + row_bytes(value) > most)
      continue;
    in_shared_[value] = bytes;
    bytes += row_bytes(value);
  }
  if (in_shared_.empty()) return;
  const int64_t block = bytes + kSumsSharedBytes + architecture_.occupancy.shared_reserved;
  const bool two_fit = 2 * block <= architecture_.shared_bytes + architecture_.occupancy.shared_reserved;
  team_ = threads_ = two_fit ? kTeamOfTwo : kTeamOfOne;
}

int64_t GpuLoopNest::row_bytes(Value value) const {
  return row_vectors().constant() * lanes_ * static_cast<int64_t>(size_bytes(graph_.dtype(value)));
}

int64_t GpuLoopNest::in_shared_bytes() const {
  int64_t bytes = 0;
  for (const auto& [value, offset] : in_shared_) bytes += row_bytes(value);
  return bytes;
}

std::string GpuLoopNest::in_shared_name(Value value) const {
  return fmt::format("row{}", std::distance(in_shared_.begin(), in_shared_.find(value)));
}

std::string GpuLoopNest::kept_name(Value member) const {
  const auto position = std::find(request_.members.begin(), request_.members.end(), member);
  return fmt::format("m{}", position - request_.members.begin());
}

std::string GpuLoopNest::register_position() const { return fmt::format("step * {} + {}", lanes_, lane_name()); }

bool GpuLoopNest::is_transposed_copy() const {
  const Value result = request_.members.front();
  if (request_.members.size() != 1) return false;
  Value source = result;
  do {
    const Op op = graph_.node(source).op;
    if (op != Op::kPermute && op != Op::kReshape) return false;
    source = graph_.node(source).inputs[0];
  } while (!materialized_.contains(source));
  const int64_t bytes = static_cast<int64_t>(size_bytes(graph_.dtype(result)));
  if (bytes > 4 || transposed_->value != source) return false;
  const auto whole = [&](const Dim& elements) { return elements.divide_exactly(16 / bytes).has_value(); };
  const size_t written = axes_.size() - 2;
  // Every stride but those of the innermost axes, and what the lanes and vectors cover.
  for (const Index* index : {&transposed_->linear, &full_linear()})
    for (const Index::Term& term : index->terms)
      if (!term.coefficient.is_constant(1) && !(index == &full_linear() && term.variable == axis_variables_[written]) &&
          !whole(term.coefficient))
        return false;
  return transposed_->linear.offset.is_constant(0) && whole(axes_[transposed_->axis].extent) &&
         whole(axes_[written].extent * Dim(lanes_)) &&
         coefficient(full_linear(), axis_variables_[written]).is_constant(lanes_);
}

}  // namespace causeway::codegen
