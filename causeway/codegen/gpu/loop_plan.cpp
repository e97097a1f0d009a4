#include "causeway/codegen/gpu/loop_plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/codegen/divide_up.h"
#include "causeway/codegen/expressions/kernel_writer.h"
#include "causeway/codegen/gpu/loop_nest.h"
#include "causeway/codegen/gpu/loops.h"
#include "causeway/device/gpu_architecture.h"
#include "causeway/graph/op.h"
#include "causeway/kernels/gpu/transpose_layout.h"

namespace causeway::codegen {
namespace {

// Rows that a team within a wave takes: of so many vectors, or of so many elements where each row has its own sums.
constexpr int kShortRow = 128, kShortRowElements = 1024;
constexpr int64_t kUnalignedRow = 1024;  // columns from which rows that begin within a vector are worth the trouble
constexpr int kMostHeldElements = 32;    // of one tensor in a thread's registers
// Of a row in shared memory, where a multiprocessor has room for two of them, and for one.
constexpr int kTeamOfTwo = 512, kTeamOfOne = 1024;
constexpr int kWidestTeam = 512;  // of a row that is not in shared memory, where there are many
constexpr int64_t kWidestHeldRow = int64_t{kWidestTeam} * kMostHeldElements;
constexpr size_t kMostLoadedTensors = 3;
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
constexpr size_t kManyArguments = 16;  // pointers to so many leave fewer registers than sums over rows need
constexpr int64_t kFewRows = 64;
constexpr int kWidestRowSumTeam = 256;  // wider ones leave a multiprocessor a row or two at a time
constexpr int kMostRowSumLanes = 4;     // more would leave more sums to each of fewer threads
constexpr GpuPartsLaunch kFinishOfRowSums = {.neighbours = 8, .unrolled = 8};  // there are many parts
// Half a wave's threads side by side along what is read, and pairs of vectors along what is written, fill whole sectors
// of memory.
constexpr int64_t kTile = 16;

// Where a large tensor's neighbouring elements lie along another axis than the result's.
std::optional<GpuLoopPlan::Tiles> find_tiles(const KernelInputs& inputs, const GpuLoopPlan& plan) {
  if (plan.has_reductions() || plan.unaligned_columns) return std::nullopt;
  const Dim count = inputs.request.rows * inputs.request.columns;
  const size_t written = plan.axes.size() - 2;
  std::optional<GpuLoopPlan::Tiles> found;
  for (const LoopLoad& load : plan.loads) {
    if (!(element_count(inputs.graph.shape(load.value)) == count)) continue;
    for (const Index::Term& term : load.at.terms)
      if (const auto axis = static_cast<size_t>(term.variable); term.coefficient.is_constant(1) && axis < written)
        found = {axis, written, kTile, load.value, load.at};
  }
  return found;
}

// Whether the kernel does nothing but move the elements of what is read across, in whole pieces of 16 bytes.
bool is_transposed_copy(const KernelInputs& inputs, const GpuLoopPlan& plan) {
  if (inputs.request.members.size() != 1) return false;
  const Value result = inputs.request.members.front();
  Value source = result;
  do {
    const Op op = inputs.graph.node(source).op;
    if (op != Op::kPermute && op != Op::kReshape) return false;
    source = inputs.graph.node(source).inputs[0];
  } while (!inputs.materialized.contains(source));
  const auto bytes = static_cast<int64_t>(size_bytes(inputs.graph.dtype(result)));
  const GpuLoopPlan::Tiles& tiles = *plan.tiles;
  if (bytes > 4 || tiles.read != source) return false;
  const auto whole = [&](const Dim& elements) { return elements.divide_exactly(16 / bytes).has_value(); };
  const auto written = static_cast<int>(tiles.written_axis);
  // Every stride but those of the innermost axes, and what the lanes and vectors cover.
  for (const Index* index : {&tiles.read_at, &plan.element})
    for (const Index::Term& term : index->terms)
      if (!term.coefficient.is_constant(1) && !(index == &plan.element && term.variable == written) &&
          !whole(term.coefficient))
        return false;
  return tiles.read_at.offset.is_constant(0) && whole(plan.axes[tiles.read_axis].extent) &&
         whole(plan.axes[tiles.written_axis].extent * Dim(plan.lanes)) &&
         coefficient(plan.element, written).is_constant(plan.lanes);
}

std::map<size_t, GpuLoopPlan::Reduction> plan_reductions(const KernelInputs& inputs, const GpuLoopPlan& plan) {
  using enum GpuLoopPlan::Reduction;
  std::map<size_t, GpuLoopPlan::Reduction> reductions;
  std::map<int, std::vector<size_t>> sums_by_phase;
  for (size_t i = 0; i < plan.members.size(); ++i) {
    if (plan.members[i].role == LoopRole::kRowSum) reductions[i] = kOverRows;
    if (plan.members[i].role != LoopRole::kReduction) continue;
    reductions[i] = plan.form == GpuLoopPlan::Form::kRowParts ? kParts : kTeam;
    sums_by_phase[plan.members[i].phase].push_back(i);
  }
  // Threads of one wave wait at no barriers.
  if (plan.form == GpuLoopPlan::Form::kRowParts || plan.team <= GpuLoopPlan::kWaveTeam) return reductions;
  for (const auto& [phase, sums] : sums_by_phase)
    for (size_t i = 0; i + 1 < sums.size(); i += 2) {
      const Node& first = inputs.graph.node(inputs.request.members[sums[i]]);
      const Node& second = inputs.graph.node(inputs.request.members[sums[i + 1]]);
      if (first.op != second.op || !is_float(first.outputs[0].dtype) || !is_float(second.outputs[0].dtype)) continue;
      reductions[sums[i]] = kTeamPair;
      reductions[sums[i + 1]] = kWithPair;
    }
  return reductions;
}

// What the kernel has pointers to, its workspace included.
size_t count_arguments(const KernelInputs& inputs, const GpuLoopPlan& plan) {
  std::set<Value> values;
  for (const LoopLoad& load : plan.loads) values.insert(load.value);
  for (const GpuLoopPlan::HeldRow& row : plan.held)
    if (row.where == GpuLoopPlan::HeldRow::Where::kLoaded) values.insert(row.value);
  for (size_t i = 0; i < plan.members.size(); ++i)
    if (plan.members[i].stored || plan.members[i].role == LoopRole::kRowSum) values.insert(inputs.request.members[i]);
  return values.size() + 1;
}

// Rows in shared memory, whose `vectors` are of `lanes` elements: of one block, or of the blocks of a cluster.
class SharedRows {
 public:
  SharedRows(const KernelInputs& inputs, int64_t vectors, int lanes)
      : graph_(inputs.graph), architecture_(inputs.target.architecture()), vectors_(vectors), lanes_(lanes) {}

  // A tensor that several passes read, unless a vector of it is not copied in whole pieces.
  void add(Value value) {
    const auto element_bytes = static_cast<int64_t>(size_bytes(graph_.dtype(value)));
    if (lanes_ * element_bytes % GpuLoopPlan::kCopiedBytes == 0) values_.push_back(value);
  }

  // Each of `cluster` blocks its part of those tensors that it has room for. Returns the bytes that they take, 0 where
  // there are none.
  int64_t hold(int cluster, std::vector<GpuLoopPlan::HeldRow>& held) const {
    const int64_t most = architecture_.shared_bytes - GpuLoopPlan::kSumsSharedBytes, sums = bytes_of_sums(cluster);
    int64_t bytes = sums;
    for (const Value value : values_) {
      const int64_t part = part_bytes(value, cluster);
      if (bytes + part > most) continue;
      held.push_back({value, GpuLoopPlan::HeldRow::Where::kShared, static_cast<int>(held.size()), bytes});
      bytes += part;
    }
    return bytes > sums ? bytes : 0;
  }

  // The fewest blocks of which a multiprocessor holds two, which computes with one row while it waits for another
  // one's.
  int best_cluster() const {
    int cluster = 2;
    while (cluster < GpuLoopPlan::kMostCluster && !fits_twice(all_bytes(cluster))) cluster *= 2;
    return cluster;
  }

  bool fits_twice(int64_t bytes) const {
    const int64_t reserved = architecture_.occupancy.shared_reserved;
    return 2 * (bytes + GpuLoopPlan::kSumsSharedBytes + reserved) <= architecture_.shared_bytes + reserved;
  }

 private:
  static int64_t bytes_of_sums(int cluster) { return cluster > 1 ? GpuLoopPlan::kClusterSharedBytes : 0; }
  int64_t part_bytes(Value value, int cluster) const {
    return divide_up(vectors_, cluster) * lanes_ * static_cast<int64_t>(size_bytes(graph_.dtype(value)));
  }
  int64_t all_bytes(int cluster) const {
    int64_t bytes = bytes_of_sums(cluster);
    for (const Value value : values_) bytes += part_bytes(value, cluster);
    return bytes;
  }

  const Graph& graph_;
  const GpuArchitecture& architecture_;
  const int64_t vectors_;
  const int lanes_;
  std::vector<Value> values_;
};

// Of a matrix of 8-bit numbers whose sides are whole pieces of 16 bytes, of which nothing is read across; the obstacle
// where it is another one.
std::optional<Obstacle> describe_both_orders(const KernelInputs& inputs, GpuLoopPlan& plan) {
  const KernelRequest& request = inputs.request;
  for (size_t i = 0; i < request.members.size(); ++i) {
    const std::optional<Value> source = transposed_member(inputs.graph, request, request.members[i]);
    if (!source) continue;
    const auto position = static_cast<size_t>(std::ranges::find(request.members, *source) - request.members.begin());
    plan.transposed.push_back({position, i});
    const Shape& shape = inputs.graph.shape(*source);
    Dim rows(1);
    for (plan.row_axes = 0; plan.row_axes < plan.axes.size() && !(rows == shape[0]); ++plan.row_axes)
      rows *= plan.axes[plan.row_axes].extent;
    const bool fits = size_bytes(inputs.graph.dtype(*source)) == 1 && shape == Shape{request.rows, request.columns} &&
                      shape[0].is_constant() && shape[1].is_constant() && shape[0].divide_exactly(16) &&
                      shape[1].divide_exactly(16) && rows == shape[0] && plan.row_axes + 2 <= plan.axes.size() &&
                      plan.lanes >= 4 && !plan.unaligned_columns && !plan.tiles;
    if (!fits) return Obstacle{Obstacle::Kind::kNotInBothOrders, *source};
  }
  constexpr int kSide = transpose_tile_elements(1);
  static_assert(kLoopThreads == kTransposeThreads);
  plan.rounds = kSide * kSide / (plan.lanes * kLoopThreads);
  plan.shared_bytes = static_cast<int>(plan.transposed.size()) * transpose_shared_bytes(1);
  return std::nullopt;
}

// A nest that learns from walks over it.
class GpuLoopPlanner : private GpuLoopNest {
 public:
  explicit GpuLoopPlanner(const KernelInputs& inputs)
      : GpuLoopNest(inputs), inputs_(inputs), architecture_(inputs.target.architecture()) {}

  // Cuts axes as on processors, then lanes from the innermost, and decides on teams, parts and what is held.
  GpuLoopPlan plan() {
    cut_axes();
    if (has_reductions() && !has_row_sums()) plan_parts();
    cut_lanes();
    plan_team();
    cut_axes();
    hold_loaded();
    hold_in_shared();
    for (const Value member : wanted_)
      held_.push_back({member, HeldRow::Where::kComputed,
                       static_cast<int>(std::ranges::find(request_.members, member) - request_.members.begin())});
    all_held_ = true;
    if (!held_.empty()) analyse();
    if (!obstacle_ && one_block_for_all()) obstacle_ = Obstacle{Obstacle::Kind::kFewLongRows, request_.members.front()};
    if (!obstacle_ && has_row_sums() && !can_hold())
      obstacle_ = Obstacle{Obstacle::Kind::kLongRowSums, request_.members.back()};
    describe_loops();
    if (plan_.form == Form::kBothOrders && !obstacle_) obstacle_ = describe_both_orders(inputs_, plan_);
    plan_.obstacle = obstacle_;
    if (has_reductions()) {
      describe_rows();
    } else {
      describe_elements();
    }
    return plan_;
  }

 private:
  using Form = GpuLoopPlan::Form;
  using HeldRow = GpuLoopPlan::HeldRow;
  using ColumnLoop = GpuLoopPlan::ColumnLoop;

  // --- Lanes, parts and teams.

  void cut_lanes() {
    const Dim count = request_.rows * request_.columns;
    const Dim extent = axes_.back().extent;
    // A single range can end within a vector; otherwise vectors must fit the innermost axis.
    const bool one_range = !has_reductions() && axes_.size() == 1;
    const int best = gpu_lanes(graph_, materialized_, request_, count, Dim(kLoopThreads));
    lanes_ = one_range ? best : gpu_lanes(graph_, materialized_, request_, count, extent);
    if (has_row_sums()) lanes_ = std::min(lanes_, kMostRowSumLanes);
    // Rows that stay in registers are loaded once: neighbours in a wave read whole sectors of the widest tensor.
    if (has_reductions() && request_.columns.is_constant() && request_.columns.constant() <= kWidestHeldRow)
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
      plan_.ends_within_vector = !vectors;
      // With a ragged end the number of vectors has no closed form; a bound serves index arithmetic as well.
      axes_.back() = {vectors.value_or(extent), !has_reductions()};
    }
    axes_.push_back({Dim(lanes_), false, true});
  }

  bool may_be_unaligned() const {
    const auto columns = std::count_if(axes_.begin(), axes_.end(), [](const Axis& axis) { return !axis.is_row; });
    return columns == 1 && parts_ == 1 && axes_.back().extent.is_constant() &&
           axes_.back().extent.constant() >= kUnalignedRow;
  }

  // Vectors of lanes in a row.
  Dim row_vectors() const {
    if (unaligned_columns_) return Dim(unaligned_columns_->constant() / lanes_ + 2);
    Dim vectors(1);
    for (const Axis& axis : axes_)
      if (!axis.is_row && !axis.is_lane) vectors *= axis.extent;
    return vectors;
  }

  bool sums_come_first() const {
    for (size_t i = 0; i < request_.members.size(); ++i)
      if (phases()[i] != 0 && role(request_.members[i]) != Role::kRow) return false;
    return true;
  }

  // Parts depend on sizes only, so that a result is the same on every device.
  void plan_parts() {
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

  void plan_team() {
    plan_.threads = kLoopThreads;
    if (!has_reductions()) return;
    int& team = plan_.team;
    team = kLoopThreads;
    const Dim vectors = row_vectors();
    if (parts_ > 1 || !vectors.is_constant()) return;
    if (vectors.constant() <= kShortRow || (!has_row_sums() && vectors.constant() * lanes_ <= kShortRowElements)) {
      team = 1;
      while (team < GpuLoopPlan::kWaveTeam && team < vectors.constant()) team *= 2;
      return;
    }
    team = 64;
    // Few rows leave most multiprocessors idle: then as many threads as there are vectors.
    const bool few_rows =
        request_.rows.is_constant() && request_.rows.constant() <= kFewRows && !has_row_sums() && !request_.fixed_order;
    while (team < kWidestTeam && team * (few_rows ? 1 : 4) < vectors.constant()) team *= 2;
    if (!few_rows && team == kWidestTeam && vectors.constant() < 8192 && !has_row_sums()) team = 256;
    // As many steps of all threads together by more of them: each has fewer sums to keep.
    const auto steps = [&](int threads) { return divide_up(vectors.constant(), threads) * threads; };
    if (has_row_sums())
      while (team < kWidestRowSumTeam && steps(team * 2) <= steps(team)) team *= 2;
    plan_.threads = team;
  }

  // The values belong in kernels of their own: one block takes 97 us for the largest of 2^20 elements and for what
  // follows from it, where three launches of many blocks take 8. No vocabulary is that large.
  bool one_block_for_all() const {
    constexpr int64_t kLargest = 1 << 18;
    if (!has_reductions() || parts_ > 1 || request_.members.size() == 1 || sums_come_first()) return false;
    return request_.rows.is_constant() && request_.rows.constant() < 16 && request_.columns.is_constant() &&
           request_.columns.constant() >= kLargest;
  }

  // --- What threads hold.

  // Whether a thread's share of a row is small enough to stay in registers from one pass to the next.
  bool can_hold() const {
    return axes_.back().is_lane && has_reductions() && parts_ == 1 && !unaligned_columns_ &&
           row_vectors().is_constant() && held_elements() <= kMostHeldElements;
  }

  int64_t held_elements() const { return divide_up(row_vectors().constant(), plan_.team) * lanes_; }

  bool hold(Value member) override {
    if (all_held_ || !can_hold()) return false;
    wanted_.insert(member);
    return true;
  }

  bool is_full(Value value) const { return element_count(graph_.shape(value)) == request_.rows * request_.columns; }

  // The phases that read a tensor's element at the loops' own position.
  std::map<Value, std::set<int>> reading_phases() const {
    std::map<Value, std::set<int>> phases;
    for (const LoopLoad& load : loads())
      if (is_full(load.value) && load.at == full_linear() && !request_.computes(load.value))
        phases[load.value].insert(load.phase);
    return phases;
  }

  // Tensors that several passes read; where few threads share a multiprocessor also others, so that the loads of a row
  // are under way together and not each after the stores before it.
  void hold_loaded() {
    if (!can_hold()) return;
    for (const auto& [value, phases] : reading_phases())
      if ((phases.size() > 1 || has_row_sums()) && held_.size() < kMostLoadedTensors)
        held_.push_back({value, HeldRow::Where::kLoaded, static_cast<int>(held_.size())});
  }

  // Rows that are too long for registers and would be read from memory by each pass.
  void hold_in_shared() {
    if (!architecture_.copies_asynchronously || !has_reductions() || has_row_sums() || request_.fixed_order ||
        parts_ > 1 || unaligned_columns_ || !row_vectors().is_constant() || held_elements() <= kMostHeldElements)
      return;
    SharedRows rows(inputs_, row_vectors().constant(), lanes_);
    for (const auto& [value, phases] : reading_phases())
      if (phases.size() >= 2) rows.add(value);
    int64_t bytes = rows.hold(1, held_);
    if (bytes == 0 && can_share_rows()) {
      plan_.cluster = rows.best_cluster();
      bytes = rows.hold(plan_.cluster, held_);
      if (bytes == 0) plan_.cluster = 1;
    }
    if (bytes == 0) return;
    in_shared_bytes_ = bytes;
    plan_.team = plan_.threads = rows.fits_twice(bytes) ? kTeamOfTwo : kTeamOfOne;
  }

  // Whether a cluster's blocks can exchange what they have of the row's sums: floats, of which each sum has its own
  // place.
  bool can_share_rows() const {
    if (!architecture_.has_clusters) return false;
    int64_t sums = 0;
    for (const Value member : request_.members) {
      if (role(member) != Role::kReduction) continue;
      if (!is_float(graph_.dtype(member))) return false;
      ++sums;
    }
    return sums * GpuLoopPlan::kClusterSumBytes <= GpuLoopPlan::kClusterSharedBytes;
  }

  // --- What comes of it.

  void describe_loops() {
    describe(plan_);
    plan_.index_type = gpu_index_type(graph_, materialized_, request_);
    plan_.lanes = lanes_;
    plan_.parts = parts_;
    plan_.held = held_;
    if (unaligned_columns_) plan_.unaligned_columns = unaligned_columns_->constant();
    plan_.row_vectors = row_vectors();
    for (const Axis& axis : axes_) plan_.axes.push_back({axis.extent});
    plan_.tiles = find_tiles(inputs_, plan_);
    plan_.form = plan_.has(LoopRole::kTransposed) ? Form::kBothOrders : find_form();
    for (size_t i = 0; i < axes_.size(); ++i) plan_.axes[i].mapping = mapping(i);
  }

  Form find_form() const {
    if (has_row_sums()) return Form::kRowSums;
    if (has_reductions()) return parts_ > 1 ? Form::kRowParts : Form::kRows;
    if (plan_.tiles) return is_transposed_copy(inputs_, plan_) ? Form::kTransposedCopy : Form::kTiles;
    return unaligned_columns_ ? Form::kUnalignedRows : Form::kElements;
  }

  AxisMapping mapping(size_t axis) const {
    if (axes_[axis].is_lane) return AxisMapping::kLane;
    if (plan_.form == Form::kBothOrders) return AxisMapping::kTile;
    if (!axes_[axis].is_row) return has_reductions() ? AxisMapping::kTeam : AxisMapping::kBlock;
    if (plan_.form == Form::kElements) return AxisMapping::kThread;
    const bool is_tile = plan_.tiles && (axis == plan_.tiles->read_axis || axis == plan_.tiles->written_axis);
    return is_tile ? AxisMapping::kTile : AxisMapping::kGrid;
  }

  void describe_elements() {
    const Dim count = request_.rows * request_.columns;
    plan_.fills_blocks =
        !plan_.ends_within_vector && count.is_constant() && count.constant() % (lanes_ * kLoopThreads) == 0;
    if (plan_.form != Form::kTransposedCopy) return;
    const auto element_bytes = static_cast<int>(size_bytes(graph_.dtype(request_.members.front())));
    plan_.tiles->extent = transpose_tile_elements(element_bytes);
    plan_.shared_bytes = transpose_shared_bytes(element_bytes);
  }

  void describe_rows() {
    const int team = plan_.team, rows_per_block = plan_.rows_per_block();
    plan_.fills_blocks =
        rows_per_block == 1 || (request_.rows.is_constant() && request_.rows.constant() % rows_per_block == 0);
    const bool in_registers = plan_.holds(HeldRow::Where::kLoaded) || plan_.holds(HeldRow::Where::kComputed);
    if (unaligned_columns_) {
      plan_.column_loop = ColumnLoop::kUnaligned;
    } else if (!in_registers && !has_row_sums()) {
      plan_.column_loop = ColumnLoop::kRolled;
      // The 64 registers that the widest block's threads have hold one vector's elements.
      plan_.unrolled = plan_.threads == kTeamOfOne ? 1 : lanes_ >= 4 ? 2 : 4;
      plan_.settles_comparisons = lanes_ > 1;
    } else if (row_vectors().is_constant()) {
      plan_.column_loop = ColumnLoop::kUnrolled;
      plan_.steps = divide_up(row_vectors().constant(), team);
      plan_.last_step_is_cut = row_vectors().constant() % team != 0 || !plan_.fills_blocks;
      plan_.held_elements = held_elements();
    }
    plan_.reductions = plan_reductions(inputs_, plan_);
    plan_.barrier_before_stores = plan_.stores_of_rows() && request_.rows.is_constant(1) && plan_.form == Form::kRows;
    plan_.shared_bytes =
        (team > GpuLoopPlan::kWaveTeam ? GpuLoopPlan::kSumsSharedBytes : 0) + static_cast<int>(in_shared_bytes_);
    if (plan_.form == Form::kRowParts) {
      plan_.finish_shared_bytes = GpuLoopPlan::kSumsSharedBytes;
      plan_.workspace_bytes = static_cast<int64_t>(plan_.reductions.size()) * request_.rows.constant() * plan_.parts *
                              GpuLoopPlan::kPartialBytes;
    }
    if (plan_.form == Form::kRowSums && !obstacle_) describe_row_sums();
  }

  void describe_row_sums() {
    for (size_t i = 0; i < plan_.members.size(); ++i)
      if (plan_.members[i].role == Role::kRowSum) plan_.row_sums.push_back(i);
    std::ranges::sort(plan_.row_sums, {},
                      [&](size_t position) { return std::pair(plan_.members[position].phase, position); });
    const int64_t elements = held_elements(), kept = elements * static_cast<int64_t>(plan_.row_sums.size());
    const int threads = kept <= kVeryFewSums && elements <= kVeryFewElements ? kThreadsOfVeryFewSums
                        : kept <= kFewSums                                   ? kThreadsOfFewSums
                                                                             : kThreadsOfManySums;
    const int blocks_per_unit = std::max(1, threads / plan_.threads), rows_per_block = plan_.rows_per_block();
    plan_.row_sum_blocks = int64_t{kRowSumUnits} * blocks_per_unit;
    if (request_.rows.is_constant()) {
      plan_.row_sum_blocks = std::min(plan_.row_sum_blocks, divide_up(request_.rows.constant(), rows_per_block));
      plan_.rows_to_next_load = plan_.row_sum_blocks * rows_per_block;
    }
    plan_.arguments = count_arguments(inputs_, plan_);
    plan_.blocks_per_unit = plan_.arguments > kManyArguments ? 1 : blocks_per_unit;
    if (rows_per_block > 1)
      plan_.shared_bytes =
          std::max(plan_.shared_bytes, static_cast<int>(plan_.threads * elements * GpuLoopPlan::kRowSumBytes));
    plan_.finish_shared_bytes = kLoopThreads * GpuLoopPlan::kRowSumBytes;
    plan_.finish = kFinishOfRowSums;
    plan_.workspace_bytes = static_cast<int64_t>(plan_.row_sums.size()) * plan_.row_sum_blocks *
                            request_.columns.constant() * GpuLoopPlan::kRowSumBytes;
  }

  const KernelInputs inputs_;
  const GpuArchitecture& architecture_;
  GpuLoopPlan plan_;
  std::set<Value> wanted_;  // members of an earlier pass
  bool all_held_ = false;   // what is not held by now is read from memory
  int64_t in_shared_bytes_ = 0;
};

}  // namespace

GpuLoopPlan plan_gpu_loop(const KernelInputs& inputs) { return GpuLoopPlanner(inputs).plan(); }

}  // namespace causeway::codegen
