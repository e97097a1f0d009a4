// Loop kernels on GPUs. Without sums, each thread computes a few neighbouring elements. With sums, a row belongs to a
// team of threads: part of a wave for short rows, a block for longer ones. A few very long rows are cut into parts that
// a second launch adds up.
#include <algorithm>

#include "causeway/base/error.h"
#include "causeway/codegen/expressions/loop_writer.h"
#include "causeway/codegen/gpu/loops.h"
#include "causeway/kernels/gpu/transpose_layout.h"

namespace causeway::codegen {
namespace {

constexpr int kWaveTeam = 32;            // the widest team that shares a wave on every architecture
constexpr int kShortRow = 128;           // vectors of a row that such a team takes
constexpr int64_t kUnalignedRow = 1024;  // columns from which rows that begin within a vector are worth the trouble
constexpr int kSharedBytes = 256;        // for the sums of a block
constexpr int kMostKeptElements = 32;    // of one tensor in a thread's registers
constexpr size_t kMostCachedTensors = 3;
constexpr int64_t kLongRow = 65536;  // columns from which a row is cut into parts
constexpr int64_t kPartColumns = 16384;
constexpr int64_t kMostParts = 1024;      // of all rows
constexpr int64_t kPartsOfUnknown = 128;  // of all rows, when their length is not known

class GpuLoopWriter : public LoopWriter {
 public:
  using LoopWriter::LoopWriter;

  GeneratedKernel write(bool& conflict) {
    index_type_ = gpu_index_type(graph_, materialized_, request_);
    start_axes();
    // As on CPUs, axes are cut until index arithmetic need not divide; the lanes are then cut from the innermost.
    do {
      reset();
      write_body();
    } while (cut_wanted_axis());
    if (has_reductions()) plan_parts();
    cut_lanes();
    if (has_reductions()) plan_team();
    do {
      reset();
      write_body();
    } while (cut_wanted_axis());
    choose_cached();
    kept_ = wanted_kept_;
    if (!cached_.empty() || !kept_.empty()) {
      reset();
      write_body();
    }
    conflict = conflict_ || one_block_for_all();
    return has_reductions() ? (parts_ > 1 ? assemble_parts() : assemble_rows()) : assemble_elements();
  }

  std::optional<EmittedValue> variable(Value value, const Index& linear) override {
    const auto entry = cached_.find(value);
    if (entry != cached_.end() && linear == full_linear_)
      return EmittedValue{from_storage(graph_.dtype(value), fmt::format("{}[{}]", entry->second, register_position())),
                          kLaneDepth};
    if (is_member(value) && linear == full_linear_ && !member_variables_.contains(value) && can_keep()) {
      wanted_kept_.insert(value);
      return EmittedValue{fmt::format("{}[{}]", kept_name(value), register_position()), kLaneDepth};
    }
    return LoopWriter::variable(value, linear);
  }

  std::optional<std::string> known_index(const Index& linear) override {
    if (!unaligned_columns_ || !(linear == full_linear_)) return std::nullopt;
    return fmt::format("aligned + {}", lane_name());
  }

  void note_load(Value value, const Index& linear) override {
    const bool is_full = element_count(graph_.shape(value)) == request_.rows * request_.columns;
    if (is_full && linear == full_linear_ && !is_member(value)) loads_[value].insert(phase_);
    // A large tensor whose neighbouring elements lie along another axis than the result's.
    if (has_reductions() || !axes_.back().is_lane || !is_full || unaligned_columns_) return;
    for (const Index::Term& term : linear.terms) {
      const auto axis = std::find(axis_variables_.begin(), axis_variables_.end(), term.variable);
      const size_t position = static_cast<size_t>(axis - axis_variables_.begin());
      if (!term.coefficient.is_constant(1) || position + 2 >= axes_.size()) continue;
      transposed_axis_ = position;
      transposed_ = {value, linear};
    }
  }

 private:
  // --- What is decided before the text is written.

  void cut_lanes() {
    const Dim count = request_.rows * request_.columns;
    const Dim extent = axes_.back().extent;
    // A single range can end within a vector; otherwise vectors must fit the innermost axis.
    const bool one_range = !has_reductions() && axes_.size() == 1;
    const int best = gpu_lanes(graph_, materialized_, request_, count, Dim(kLoopThreads));
    lanes_ = one_range ? best : gpu_lanes(graph_, materialized_, request_, count, extent);
    if (!one_range && lanes_ == 1 && best > 1 && may_be_unaligned()) {
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

  bool may_be_unaligned() const {
    const auto columns = std::count_if(axes_.begin(), axes_.end(), [](const Axis& axis) { return !axis.is_row; });
    return columns == 1 && parts_ == 1 && axes_.back().extent.is_constant() &&
           axes_.back().extent.constant() >= kUnalignedRow;
  }

  Dim row_vectors() const {
    if (unaligned_columns_) return Dim(unaligned_columns_->constant() / lanes_ + 2);
    Dim vectors(1);
    for (const Axis& axis : axes_)
      if (!axis.is_row && !axis.is_lane) vectors *= axis.extent;
    return vectors;
  }

  bool sums_come_first() const {
    const std::map<Value, int> phases = assign_phases();
    return std::all_of(phases.begin(), phases.end(),
                       [&](const auto& entry) { return entry.second == 0 || role(entry.first) == Role::kRow; });
  }

  // Parts depend on sizes only, so that a result is the same on every device.
  void plan_parts() {
    parts_ = 1;
    if (!request_.rows.is_constant() || request_.rows.is_constant(0) || !sums_come_first()) return;
    const int64_t rows = request_.rows.constant();
    if (!request_.columns.is_constant()) {
      parts_ = std::max<int64_t>(1, kPartsOfUnknown / rows);
    } else if (request_.columns.constant() >= kLongRow) {
      parts_ = std::clamp<int64_t>(divide_up(request_.columns.constant(), kPartColumns), 1,
                                   std::max<int64_t>(1, kMostParts / rows));
    }
  }

  // Rows too few and too long for one block each, that cannot be cut: the values belong in kernels of their own.
  bool one_block_for_all() const {
    constexpr int64_t kLargest = 1 << 20;
    if (!has_reductions() || parts_ > 1 || request_.members.size() == 1 || sums_come_first()) return false;
    return request_.rows.is_constant() && request_.rows.constant() < 16 && request_.columns.is_constant() &&
           request_.columns.constant() >= kLargest;
  }

  void plan_team() {
    threads_ = kLoopThreads;
    team_ = kLoopThreads;
    const Dim vectors = row_vectors();
    if (parts_ > 1 || !vectors.is_constant()) return;
    if (vectors.constant() <= kShortRow) {
      team_ = 1;
      while (team_ < kWaveTeam && team_ < vectors.constant()) team_ *= 2;
      return;
    }
    team_ = 64;
    while (team_ < 512 && team_ * 4 < vectors.constant()) team_ *= 2;
    if (team_ == 512 && vectors.constant() < 8192) team_ = 256;
    threads_ = team_;
  }

  // Whether a thread's share of a row is small enough to stay in registers from one pass to the next.
  bool can_keep() const {
    return lanes_cut_ && has_reductions() && parts_ == 1 && !unaligned_columns_ && row_vectors().is_constant() &&
           kept_elements() <= kMostKeptElements;
  }
  int64_t kept_elements() const { return divide_up(row_vectors().constant(), team_) * lanes_; }

  // Tensors that several passes read.
  void choose_cached() {
    if (!can_keep()) return;
    for (const auto& [value, phases] : loads_)
      if (phases.size() > 1 && cached_.size() < kMostCachedTensors) cached_[value] = fmt::format("k{}", cached_.size());
  }

  // --- The text of the passes.

  std::string lane_name() const { return variables_[static_cast<size_t>(axis_variables_.back())].name; }
  std::string register_position() const { return fmt::format("step * {} + {}", lanes_, lane_name()); }

  void write_body() {
    ExpressionEmitter emitter(graph_, *this, variables_, symbols_);
    emitter.set_index_type(index_type_);
    if (lanes_cut_) emitter.set_lanes(axis_variables_.back(), lanes_);
    loads_.clear();
    row_stores_.clear();
    text_.clear();
    transposed_axis_.reset();
    const std::map<Value, int> phases = assign_phases();
    int last_phase = 0;
    for (const auto& [member, phase] : phases) last_phase = std::max(last_phase, phase);
    if (!cached_.empty()) text_ += load_cached(emitter);
    for (const Value member : kept_)
      text_ += fmt::format("{} {}[{}];\n", compute_type(graph_.dtype(member)), kept_name(member), kept_elements());
    for (phase_ = 0; phase_ <= last_phase; ++phase_) {
      for (const Value member : request_.members)
        if (phases.at(member) == phase_ && role(member) == Role::kRow) write_row_member(emitter, member, text_);
      text_ += write_phase(emitter, phases);
      if (wanted_split_) return;
      if (parts_ > 1) break;
    }
    top_ = emitter.take_statements(0);
    if (transposed_axis_) {
      copied_from_ = emitter.index_text(transposed_.second);
      copied_to_ = emitter.index_text(full_linear_);
    }
    if (parts_ > 1) write_finish(emitter);
  }

  void write_row_member(ExpressionEmitter& emitter, Value member, std::string& text) {
    const EmittedValue value = emitter.define(member, {row_linear_, {}});
    text += emitter.take_statements(kRowDepth);
    row_stores_ += store_statement(member, emitter.index_text(row_linear_), value.name);
    member_variables_[member] = {value, row_linear_};
  }

  std::string kept_name(Value member) const {
    const auto position = std::find(request_.members.begin(), request_.members.end(), member);
    return fmt::format("m{}", position - request_.members.begin());
  }

  // The loop's position with the lane taken out: a multiple of the lanes.
  std::string first_lane_text(ExpressionEmitter& emitter) const {
    if (unaligned_columns_) return "aligned";
    Index first = full_linear_;
    std::erase_if(first.terms, [&](const Index::Term& term) { return term.variable == axis_variables_.back(); });
    return emitter.index_text(first);
  }

  std::string load_cached(ExpressionEmitter& emitter) {
    const int64_t elements = kept_elements();
    std::string text, loads;
    for (const auto& [value, name] : cached_) {
      text += fmt::format("{} {}[{}];\n", storage_type(graph_.dtype(value)), name, elements);
      loads += fmt::format("{}[{}] = {}[{}];\n", name, register_position(), pointer(value),
                           emitter.index_text(full_linear_));
    }
    return text + column_loop(gpu_lane_loop(lane_name(), lanes_) + loads + "}\n");
  }

  // One pass of a team over the vectors of its row.
  std::string column_loop(const std::string& inside) {
    std::vector<std::pair<std::string, std::string>> columns;
    for (size_t i = 0; i < axes_.size(); ++i)
      if (!axes_[i].is_row && !axes_[i].is_lane)
        columns.emplace_back(variables_[static_cast<size_t>(axis_variables_[i])].name, symbols_.text(axes_[i].extent));
    const std::string body = gpu_axis_variables(index_type_, "vector", columns) + inside;
    if (cached_.empty() && kept_.empty())
      return fmt::format(
                 "#pragma clang loop unroll_count({})\nfor ({} vector = first; vector < last; vector += {}) {{\n",
                 lanes_ >= 4 ? 2 : 4, index_type_, team_) +
             body + "}\n";
    const int64_t vectors = row_vectors().constant();
    std::string text = fmt::format(
        "#pragma clang loop unroll(full)\nfor (int step = 0; step < {}; ++step) {{\n"
        "const {} vector = first + step * {};\n",
        divide_up(vectors, team_), index_type_, team_);
    if (vectors % team_ == 0 && rows_fill_blocks()) return text + body + "}\n";
    return text + "if (vector < last) {\n" + body + "}\n}\n";
  }

  // Where a row begins in the tensors that are as large as the loop, and the vector in which it does.
  std::string unaligned_row() const {
    return fmt::format("const {0} row_start = row * {1};\nconst {0} row_vector = row_start & ~{0}({2});\n", index_type_,
                       unaligned_columns_->constant(), lanes_ - 1);
  }

  // A vector at a multiple of the lanes, all of it or the part that is in the row.
  std::string unaligned_vector(const std::string& inside, const std::string& stores, const std::string& lane_stores) {
    const std::string column = variables_[static_cast<size_t>(axis_variables_[axes_.size() - 2])].name;
    const int64_t columns = unaligned_columns_->constant();
    return fmt::format(
               "const {0} aligned = row_vector + vector * {1};\nconst {0} {2} = aligned - row_start;\n"
               "if ({2} >= 0 && {2} + {1} <= {3}) {{\n",
               index_type_, lanes_, column, columns) +
           inside + stores + "} else {\n" +
           guarded(inside + lane_stores,
                   fmt::format("{0} + {1} < 0 || {0} + {1} >= {2}", column, lane_name(), columns)) +
           "}\n";
  }

  std::string unaligned_loop(const std::string& inside, const std::string& stores, const std::string& lane_stores) {
    return fmt::format("for ({0} vector = first; vector < row_last; vector += {1}) {{\n", index_type_, team_) +
           unaligned_vector(inside, stores, lane_stores) + "}\n";
  }

  // The text with every loop over lanes passing over those for which the condition holds.
  std::string guarded(std::string text, const std::string& condition) const {
    const std::string full = gpu_lane_loop(lane_name(), lanes_);
    const std::string partial = full + fmt::format("if ({}) continue;\n", condition);
    for (size_t at = text.find(full); at != std::string::npos; at = text.find(full, at + partial.size()))
      text.replace(at, full.size(), partial);
    return text;
  }

  struct Sum {
    Value member;
    std::string name;
    GpuAccumulator accumulator;
  };

  Sum sum_at(size_t position) const {
    const Value member = request_.members[position];
    return {member, fmt::format("a{}", position), GpuAccumulator(graph_.node(member).op, graph_.dtype(member))};
  }

  std::string write_phase(ExpressionEmitter& emitter, const std::map<Value, int>& phases) {
    std::string arrays, before, updates, stores, lane_stores;
    std::vector<Sum> sums;
    bool any = false;
    const std::string lane = lane_name();
    for (size_t position = 0; position < request_.members.size(); ++position) {
      const Value member = request_.members[position];
      const Role member_role = role(member);
      if (phases.at(member) != phase_ || member_role == Role::kRow) continue;
      any = true;
      if (member_role == Role::kFull) {
        const EmittedValue value = emitter.define(member, {full_linear_, {}});
        member_variables_[member] = {value, full_linear_};
        if (kept_.contains(member))
          updates += fmt::format("{}[{}] = {};\n", kept_name(member), register_position(), value.name);
        if (!member_stored(member)) continue;
        const DType dtype = graph_.dtype(member);
        arrays += fmt::format("{} v{}[{}];\n", storage_type(dtype), position, lanes_);
        updates += fmt::format("v{}[{}] = {};\n", position, lane, to_storage(dtype, value.name));
        stores += fmt::format("store_lanes({} + ({}), v{});\n", pointer(member), first_lane_text(emitter), position);
        lane_stores +=
            fmt::format("{}[{}] = v{}[{}];\n", pointer(member), emitter.index_text(full_linear_), position, lane);
        continue;
      }
      const Node& node = graph_.node(member);
      const EmittedValue value = emitter.emit(node.inputs[0], reduction_input(emitter, node));
      sums.push_back(sum_at(position));
      const Sum& sum = sums.back();
      before += fmt::format("{} {} = {};\n", sum.accumulator.type, sum.name, sum.accumulator.initial);
      updates += sum.accumulator.take(sum.name, value.name);
    }
    if (!any) return {};
    // All loads before the stores, which may overwrite what is loaded for all the compiler knows: so loads merge.
    std::string inside = emitter.take_statements(kRowDepth + 1) + arrays + gpu_lane_loop(lane, lanes_) +
                         emitter.take_statements(kLaneDepth) + updates + "}\n";
    std::string text = emitter.take_statements(kRowDepth) + before;
    if (!has_reductions()) {
      element_text_ = inside;
      element_stores_ = stores;
      lane_stores_ = gpu_lane_loop(lane, lanes_) + lane_stores + "}\n";
      return text;
    }
    if (unaligned_columns_) {
      const std::string one_by_one = lane_stores.empty() ? "" : gpu_lane_loop(lane, lanes_) + lane_stores + "}\n";
      text += unaligned_loop(inside, stores, one_by_one);
    } else {
      text += column_loop(inside + stores);
    }
    // Elements of this pass are gone when the loop ends.
    emitter.leave_loops(kRowDepth + 1);
    std::erase_if(member_variables_, [&](const auto& entry) { return entry.second.value.depth > kRowDepth; });
    for (size_t i = 0; i < sums.size(); ++i) {
      const Sum& sum = sums[i];
      const std::string total = reduced(sum);
      if (parts_ > 1) {
        text += fmt::format("{{\nconst {} total = {};\nif (thread_index() == 0) {}[task] = total;\n}}\n",
                            sum.accumulator.type, total, partials(sum, i));
      } else {
        text += define_result(emitter, sum, total);
      }
    }
    return text;
  }

  std::string define_result(ExpressionEmitter& emitter, const Sum& sum, const std::string& total) {
    const DType dtype = graph_.dtype(sum.member);
    const std::string name = fmt::format("s{}", next_result_++);
    row_stores_ += store_statement(sum.member, emitter.index_text(row_linear_), name);
    member_variables_[sum.member] = {{name, kRowDepth}, row_linear_};
    return fmt::format("const {} {} = {};\n", compute_type(dtype), name, sum.accumulator.result(total));
  }

  // The sum's value over the whole team.
  std::string reduced(const Sum& sum) const {
    return fmt::format("team_reduce<{}>({}, {}())", team_, sum.name, sum.accumulator.operation);
  }

  // The partial results of the i-th sum: one for each row and part.
  std::string partials(const Sum& sum, size_t i) const {
    return fmt::format("reinterpret_cast<{}*>(workspace + {})", sum.accumulator.type,
                       static_cast<int64_t>(i) * request_.rows.constant() * parts_ * 8);
  }

  // The second launch: one block for each row adds the parts, and computes what follows from the sums.
  void write_finish(ExpressionEmitter& emitter) {
    emitter.leave_loops(0);
    member_variables_.clear();
    row_stores_.clear();
    finish_text_.clear();
    size_t count = 0;
    for (size_t position = 0; position < request_.members.size(); ++position) {
      if (role(request_.members[position]) != Role::kReduction) continue;
      const Sum sum = sum_at(position);
      finish_text_ += fmt::format(
          "{0} {1} = {2};\nfor (int part = thread_index(); part < {3}; part += {4}) {{\n"
          "const {0} partial = {5}[task * {3} + part];\n{6}}}\n",
          sum.accumulator.type, sum.name, sum.accumulator.initial, parts_, kLoopThreads, partials(sum, count++),
          sum.accumulator.take(sum.name, "partial"));
      finish_text_ += define_result(emitter, sum, reduced(sum));
    }
    for (const Value member : request_.members)
      if (role(member) == Role::kRow) write_row_member(emitter, member, finish_text_);
    finish_top_ = emitter.take_statements(0);
  }

  // --- Whole kernels.

  std::string row_variables(const std::string& running) {
    std::vector<std::pair<std::string, std::string>> rows;
    for (size_t i = 0; i < axes_.size(); ++i)
      if (axes_[i].is_row)
        rows.emplace_back(variables_[static_cast<size_t>(axis_variables_[i])].name, symbols_.text(axes_[i].extent));
    return gpu_axis_variables(index_type_, running, rows);
  }

  // A launch's position as an index: task * count + more.
  std::string position_text(const std::string& count, const std::string& more) const {
    return fmt::format("static_cast<{}>(task) * {} + {}", index_type_, count, more);
  }

  GeneratedKernel assemble_elements() {
    const Dim count = request_.rows * request_.columns;
    if (transposed_axis_) return is_transposed_copy() ? assemble_transposed_copy() : assemble_transposing();
    if (unaligned_columns_) return assemble_unaligned();
    std::string body = fmt::format("const {} position = {};\n", index_type_,
                                   position_text(std::to_string(kLoopThreads), "thread_index()"));
    const std::string total = symbols_.text(count);
    const std::string limit = fmt::format("position * {}", lanes_);
    const bool fills = !ragged_ && count.is_constant() && count.constant() % (lanes_ * kLoopThreads) == 0;
    if (!fills) body += fmt::format("if ({} >= {}) return;\n", limit, total);
    body += row_variables("position") + top_ + text_;
    if (ragged_) {
      body += fmt::format("if ({} + {} <= {}) {{\n{}}} else {{\nconst int lanes = static_cast<int>({} - {});\n", limit,
                          lanes_, total, element_text_ + element_stores_, total, limit) +
              guarded(element_text_ + lane_stores_, lane_name() + " >= lanes") + "}\n";
    } else {
      body += element_text_ + element_stores_;
    }
    GeneratedKernel kernel = finish(source("kernel", kLoopThreads, body));
    const int64_t per_block = int64_t{lanes_} * kLoopThreads;
    kernel.phases = {gpu_phase("kernel", kLoopThreads, 0, [count, per_block](const SymbolBindings& bindings) {
      return divide_up(count.evaluate(bindings), per_block);
    })};
    return kernel;
  }

  // A block takes kLoopThreads vectors of one row.
  GeneratedKernel assemble_unaligned() {
    const int64_t chunks = divide_up(row_vectors().constant(), kLoopThreads);
    std::string body =
        fmt::format("const {0} row = task / {1};\nconst {0} vector = task % {1} * {2} + thread_index();\n", index_type_,
                    chunks, kLoopThreads);
    body += unaligned_row();
    body += fmt::format("if (row_vector + vector * {} >= row_start + {}) return;\n", lanes_,
                        unaligned_columns_->constant());
    body += row_variables("row") + top_ + text_ + unaligned_vector(element_text_, element_stores_, lane_stores_);
    Dim rows(1);
    for (const Axis& axis : axes_)
      if (axis.is_row) rows *= axis.extent;
    GeneratedKernel kernel = finish(source("kernel", kLoopThreads, body));
    kernel.phases = {gpu_phase("kernel", kLoopThreads, 0, [rows, chunks](const SymbolBindings& bindings) {
      return rows.evaluate(bindings) * chunks;
    })};
    return kernel;
  }

  // Blocks are tiles over the innermost axes of the result and of a tensor that is read: half a wave's threads side by
  // side along the latter, and pairs of vectors along the former, so that both fill whole sectors of memory.
  GeneratedKernel assemble_transposing() {
    constexpr int64_t kTile = 16;
    const size_t read = *transposed_axis_, written = axes_.size() - 2;
    const auto name = [&](size_t axis) { return variables_[static_cast<size_t>(axis_variables_[axis])].name; };
    const Dim read_extent = axes_[read].extent, written_extent = axes_[written].extent;
    std::string body = fmt::format(
        "const {0} read_tiles = ({1} + {3}) / {4}, written_tiles = ({2} + {3}) / {4};\n"
        "const {0} {5} = task % written_tiles * {4} + thread_index() / {4};\n"
        "const {0} {6} = task / written_tiles % read_tiles * {4} + thread_index() % {4};\n"
        "if ({6} >= {1} || {5} >= {2}) return;\n",
        index_type_, symbols_.text(read_extent), symbols_.text(written_extent), kTile - 1, kTile, name(written),
        name(read));
    std::vector<std::pair<std::string, std::string>> others;
    Dim other_count(1);
    for (size_t i = 0; i < written; ++i) {
      if (i == read) continue;
      others.emplace_back(name(i), symbols_.text(axes_[i].extent));
      other_count *= axes_[i].extent;
    }
    body += gpu_axis_variables(index_type_, "(task / written_tiles / read_tiles)", others) + top_ + text_ +
            element_text_ + element_stores_;
    GeneratedKernel kernel = finish(source("kernel", kLoopThreads, body));
    kernel.phases = {gpu_phase("kernel", kLoopThreads, 0, [=](const SymbolBindings& bindings) {
      return other_count.evaluate(bindings) * divide_up(read_extent.evaluate(bindings), kTile) *
             divide_up(written_extent.evaluate(bindings), kTile);
    })};
    return kernel;
  }

  // Whether the kernel does nothing but move the elements of the transposed tensor, in whole pieces of 16 bytes.
  bool is_transposed_copy() const {
    const Value result = request_.members.front();
    if (request_.members.size() != 1 || wanted_split_) return false;
    Value source = result;
    do {
      const Op op = graph_.node(source).op;
      if (op != Op::kPermute && op != Op::kReshape) return false;
      source = graph_.node(source).inputs[0];
    } while (!materialized_.contains(source));
    const int64_t bytes = static_cast<int64_t>(size_bytes(graph_.dtype(result)));
    if (bytes > 4 || transposed_.first != source) return false;
    const auto whole = [&](const Dim& elements) { return elements.divide_exactly(16 / bytes).has_value(); };
    const size_t read = *transposed_axis_, written = axes_.size() - 2;
    // Every stride but those of the innermost axes, and what the lanes and vectors cover.
    for (const Index* index : {&transposed_.second, static_cast<const Index*>(&full_linear_)})
      for (const Index::Term& term : index->terms)
        if (!term.coefficient.is_constant(1) &&
            !(index == &full_linear_ && term.variable == axis_variables_[written]) && !whole(term.coefficient))
          return false;
    return transposed_.second.offset.is_constant(0) && whole(axes_[read].extent) &&
           whole(axes_[written].extent * Dim(lanes_)) &&
           coefficient(full_linear_, axis_variables_[written]).is_constant(lanes_);
  }

  static Dim coefficient(const Index& index, int variable) {
    for (const Index::Term& term : index.terms)
      if (term.variable == variable) return term.coefficient;
    return Dim(0);
  }

  GeneratedKernel assemble_transposed_copy() {
    const size_t read = *transposed_axis_, written = axes_.size() - 2;
    const auto name = [&](size_t axis) { return variables_[static_cast<size_t>(axis_variables_[axis])].name; };
    const Value result = request_.members.front();
    const int element_bytes = static_cast<int>(size_bytes(graph_.dtype(result)));
    const int64_t tile = transpose_tile_elements(element_bytes);
    const Dim read_extent = axes_[read].extent, written_extent = axes_[written].extent * Dim(lanes_);
    std::string body = fmt::format(
        "const {0} read_tiles = ({1} + {3}) / {4}, written_tiles = ({2} + {3}) / {4};\n"
        "const {0} first = task % written_tiles * {4};\nconst {0} {5} = first / {6};\n"
        "const {0} {7} = task / written_tiles % read_tiles * {4};\nconst {0} {8} = 0;\n",
        index_type_, symbols_.text(read_extent), symbols_.text(written_extent), tile - 1, tile, name(written), lanes_,
        name(read), lane_name());
    std::vector<std::pair<std::string, std::string>> others;
    Dim other_count(1);
    for (size_t i = 0; i < written; ++i) {
      if (i == read) continue;
      others.emplace_back(name(i), symbols_.text(axes_[i].extent));
      other_count *= axes_[i].extent;
    }
    body += gpu_axis_variables(index_type_, "(task / written_tiles / read_tiles)", others);
    body +=
        fmt::format("transpose_tile({} + ({}), {}, {} + ({}), {}, {} - {}, {} - first);\n", pointer(transposed_.first),
                    copied_from_, symbols_.text(coefficient(transposed_.second, axis_variables_.back())),
                    pointer(result), copied_to_, symbols_.text(coefficient(full_linear_, axis_variables_[read])),
                    symbols_.text(read_extent), name(read), symbols_.text(written_extent));
    GeneratedKernel kernel =
        finish("#include \"causeway/kernels/gpu/transpose.h\"\n" + kernel_text("kernel", kLoopThreads, body));
    static_assert(kLoopThreads == kTransposeThreads);
    const int shared_bytes = transpose_shared_bytes(element_bytes);
    kernel.phases = {gpu_phase("kernel", kLoopThreads, shared_bytes, [=](const SymbolBindings& bindings) {
      return other_count.evaluate(bindings) * divide_up(read_extent.evaluate(bindings), tile) *
             divide_up(written_extent.evaluate(bindings), tile);
    })};
    return kernel;
  }

  int rows_per_block() const { return threads_ / team_; }
  bool rows_fill_blocks() const {
    return rows_per_block() == 1 || (request_.rows.is_constant() && request_.rows.constant() % rows_per_block() == 0);
  }

  GeneratedKernel assemble_rows() {
    const Dim rows = request_.rows;
    const std::string vectors = symbols_.text(row_vectors());
    std::string body;
    if (rows_per_block() == 1) {
      body = fmt::format("const {0} row = task;\nconst {0} first = thread_index();\nconst {0} last = {1};\n",
                         index_type_, vectors);
    } else {
      body = fmt::format("const {} team = {};\n", index_type_,
                         position_text(std::to_string(rows_per_block()), fmt::format("thread_index() / {}", team_)));
      if (rows_fill_blocks()) {
        body += fmt::format("const {0} row = team;\nconst {0} last = {1};\n", index_type_, vectors);
      } else {
        // A team without a row takes part in the sums, on no columns.
        const std::string total = symbols_.text(rows);
        body += fmt::format("const {0} row = team < {1} ? team : {1} - 1;\nconst {0} last = team < {1} ? {2} : 0;\n",
                            index_type_, total, vectors);
      }
      body += fmt::format("const {} first = thread_index() % {};\n", index_type_, team_);
    }
    if (unaligned_columns_)
      body += unaligned_row() + fmt::format("const {} row_last = (row_start - row_vector + {}) / {};\n", index_type_,
                                            unaligned_columns_->constant() + lanes_ - 1, lanes_);
    body += row_variables("row") + top_ + text_;
    if (!row_stores_.empty()) {
      // A value of a single row may take the place of one that other threads still have to read.
      if (rows.is_constant(1)) body += "block_barrier();\n";
      std::string condition = team_ == 1 ? "" : "first == 0";
      if (!rows_fill_blocks())
        condition += fmt::format("{}team < {}", condition.empty() ? "" : " && ", symbols_.text(rows));
      body += condition.empty() ? row_stores_ : fmt::format("if ({}) {{\n{}}}\n", condition, row_stores_);
    }
    GeneratedKernel kernel = finish(source("kernel", threads_, body));
    const int64_t per_block = rows_per_block();
    kernel.phases = {gpu_phase(
        "kernel", threads_, team_ > kWaveTeam ? kSharedBytes : 0,
        [rows, per_block](const SymbolBindings& bindings) { return divide_up(rows.evaluate(bindings), per_block); })};
    return kernel;
  }

  GeneratedKernel assemble_parts() {
    const size_t workspace = arguments_.size();
    arguments_.push_back({KernelArgument::Kind::kWorkspace, {}, true});
    const std::string open_workspace = "char* workspace = " + buffer_pointer("char", workspace) + ";\n";
    const std::string vectors = symbols_.text(row_vectors());
    const std::string part_body =
        open_workspace +
        fmt::format(
            "const int row = task / {0};\nconst {1} part = task % {0};\nconst {1} part_vectors = ({2} + {3}) / {0};\n"
            "const {1} first = part * part_vectors + thread_index();\n"
            "const {1} part_end = (part + 1) * part_vectors;\nconst {1} last = part_end < {2} ? part_end : {2};\n",
            parts_, index_type_, vectors, parts_ - 1) +
        row_variables("row") + top_ + text_;
    const std::string finish_body = open_workspace + "const int row = task;\n" + row_variables("row") + finish_top_ +
                                    finish_text_ + "block_barrier();\nif (thread_index() == 0) {\n" + row_stores_ +
                                    "}\n";
    GeneratedKernel kernel =
        finish(source("kernel", kLoopThreads, part_body) + kernel_text("kernel_finish", kLoopThreads, finish_body));
    const int64_t rows = request_.rows.constant(), parts = parts_;
    kernel.phases = {
        gpu_phase("kernel", kLoopThreads, kSharedBytes, [rows, parts](const SymbolBindings&) { return rows * parts; }),
        gpu_phase("kernel_finish", kLoopThreads, kSharedBytes, [rows](const SymbolBindings&) { return rows; })};
    int64_t sums = 0;
    for (const Value member : request_.members) sums += role(member) == Role::kReduction;
    kernel.workspace_bytes = [bytes = sums * rows * parts * 8](const SymbolBindings&) { return bytes; };
    return kernel;
  }

  std::string source(const std::string& name, int threads, const std::string& body) {
    return "#include \"causeway/kernels/gpu/lanes.h\"\n#include \"causeway/kernels/gpu/reduce.h\"\n" +
           kernel_text(name, threads, body);
  }

  std::string kernel_text(const std::string& name, int threads, const std::string& body) {
    return gpu_kernel(name, threads) + prologue() + body + "}\n";
  }

  std::string index_type_;
  int lanes_ = 1;
  bool lanes_cut_ = false, ragged_ = false;
  int team_ = 1, threads_ = kLoopThreads;
  int64_t parts_ = 1;
  int phase_ = 0;
  std::optional<size_t> transposed_axis_;
  std::pair<Value, Index> transposed_;        // the tensor that lies so, and where it is read
  std::string copied_from_, copied_to_;       // its place and the result's, in elements
  std::map<Value, std::set<int>> loads_;      // phases that read a tensor's element at the loop's own position
  std::map<Value, std::string> cached_;       // those kept in registers
  std::set<Value> kept_, wanted_kept_;        // members kept in registers for later passes
  std::string top_, text_, element_text_;     // statements of the kernel, of a row, of a vector of elements
  std::string element_stores_, lane_stores_;  // its stores, as a vector or one by one
  std::string row_stores_;                    // results of a row, stored last
  std::string finish_top_, finish_text_;
};

}  // namespace

GeneratedKernel generate_gpu_loop_kernel(const Graph& graph, const MaterializedValues& materialized,
                                         const KernelRequest& request, const Target& target, bool& conflict) {
  return GpuLoopWriter(graph, materialized, request, target).write(conflict);
}

}  // namespace causeway::codegen
