#include "causeway/codegen/gpu/loop_writer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "causeway/codegen/divide_up.h"

namespace causeway::codegen {

GpuLoopWriter::GpuLoopWriter(const KernelInputs& inputs, GpuLoopPlan plan)
    : LoopWriter(inputs, std::move(plan)), index_type_(compute_type(plan_.index_type)) {}

std::optional<ElementValue> GpuLoopWriter::variable(Value value, const Index& linear) {
  std::optional<ElementValue> found = nest_.variable(value, linear);
  const HeldRow* row = nest_.held(value, linear);
  if (row == nullptr) return found;
  const std::string place = row->where == HeldRow::Where::kShared
                                ? fmt::format("vector * {} + {}", plan_.lanes, lane_name())
                                : register_position();
  found->name = fmt::format("{}[{}]", held_name(*row), place);
  if (row->where != HeldRow::Where::kComputed) found->name = from_storage(graph_.dtype(value), found->name);
  return found;
}

std::optional<std::string> GpuLoopWriter::known_index(const Index& linear) {
  if (!plan_.unaligned_columns || !(linear == plan_.element)) return std::nullopt;
  return fmt::format("aligned + {}", lane_name());
}

std::string GpuLoopWriter::held_name(const HeldRow& row) {
  const char* prefix = row.where == HeldRow::Where::kComputed ? "m"
                       : row.where == HeldRow::Where::kShared ? "row"
                                                              : "k";
  return fmt::format("{}{}", prefix, row.number);
}

std::string GpuLoopWriter::register_position() const { return fmt::format("step * {} + {}", plan_.lanes, lane_name()); }

void GpuLoopWriter::write_passes() {
  ExpressionEmitter emitter(graph_, *this, nest_.variables(), symbols_);
  emitter_ = &emitter;
  emitter.set_index_type(index_type_);
  emitter.set_lanes(nest_.lane_variable(), plan_.lanes);
  if (plan_.settles_comparisons) emitter.set_settles_comparisons();
  if (plan_.holds(HeldRow::Where::kLoaded)) text_ += load_held();
  if (plan_.holds(HeldRow::Where::kShared)) text_ += copy_to_shared();
  for (const HeldRow& row : plan_.held)
    if (row.where == HeldRow::Where::kComputed)
      text_ += fmt::format("{} {}[{}];\n", compute_type(graph_.dtype(row.value)), held_name(row), plan_.held_elements);
  nest_.walk(emitter, *this);
  top_ = emitter.take_statements(0);
  if (plan_.tiles) {
    copied_from_ = emitter.index_text(plan_.tiles->read_at);
    copied_to_ = emitter.index_text(plan_.element);
  }
  if (plan_.form == Form::kRowParts) {
    in_finish_ = true;
    row_stores_.clear();
    std::swap(text_, finish_text_);
    nest_.walk_finish(emitter, *this);
    std::swap(text_, finish_text_);
    finish_top_ = emitter.take_statements(0);
  }
  emitter_ = nullptr;
  check_written();
}

// --- Along the walk.

void GpuLoopWriter::row_value(Value member, const ElementValue& value) {
  text_ += emitter_->take_statements(kRowDepth);
  row_stores_ += store_statement(member, emitter_->index_text(plan_.row), value.name);
}

void GpuLoopWriter::begin_phase() {
  arrays_.clear();
  initial_.clear();
  updates_.clear();
  stores_.clear();
  lane_stores_.clear();
  stores_elements_ = false;
  sums_.clear();
}

void GpuLoopWriter::element(size_t position, const ElementValue& value) {
  const Value member = request_.members[position];
  for (const HeldRow& row : plan_.held)
    if (row.value == member) updates_ += fmt::format("{}[{}] = {};\n", held_name(row), register_position(), value.name);
  if (!plan_.members[position].stored && !plan_.is_transposed(position)) return;
  stores_elements_ = true;
  const DType dtype = graph_.dtype(member);
  if (plan_.form == Form::kBothOrders) {
    round_arrays_ += fmt::format("{} v{}[{}][{}];\n", storage_type(dtype), position, plan_.rounds, plan_.lanes);
    updates_ += fmt::format("v{}[round][{}] = {};\n", position, lane_name(), to_storage(dtype, value.name));
    return;
  }
  arrays_ += fmt::format("{} v{}[{}];\n", storage_type(dtype), position, plan_.lanes);
  updates_ += fmt::format("v{}[{}] = {};\n", position, lane_name(), to_storage(dtype, value.name));
  stores_ += fmt::format("store_lanes({} + ({}), v{});\n", pointer(member), first_lane_text(), position);
  lane_stores_ +=
      fmt::format("{}[{}] = v{}[{}];\n", pointer(member), emitter_->index_text(plan_.element), position, lane_name());
}

void GpuLoopWriter::summand(size_t position, const ElementValue& value) {
  sums_.push_back(position);
  const GpuAccumulator sum = accumulator(position);
  initial_ += fmt::format("{} a{} = {};\n", sum.type(), position, sum.initial());
  updates_ += sum.take(fmt::format("a{}", position), value.name);
}

void GpuLoopWriter::row_summand(size_t position, const ElementValue& value) {
  updates_ += accumulator(position).take(row_sum(position) + fmt::format("[{}]", register_position()), value.name);
}

void GpuLoopWriter::end_pass() {
  // All loads before the stores, which may overwrite what is loaded for all the compiler knows: so loads merge.
  Vector vector;
  vector.inside = emitter_->take(kRowDepth + 1);
  vector.inside.add(arrays_);
  vector.inside.add_for_each_lane(emitter_->take_statements(kLaneDepth) + updates_);
  vector.stores = stores_;
  text_ += emitter_->take_statements(kRowDepth) + initial_;
  if (!plan_.has_reductions() || stores_elements_) vector.lane_stores.add_for_each_lane(lane_stores_);
  if (!plan_.has_reductions()) {
    vector_ = std::move(vector);
    return;
  }
  text_ += column_loop(plan_.unaligned_columns ? unaligned_vector(vector) : settled_or_not(whole(vector)));
  for (size_t i = 0; i < sums_.size(); ++i) {
    const size_t position = sums_[i];
    const GpuAccumulator sum = accumulator(position);
    if (plan_.reductions.at(position) == GpuLoopPlan::Reduction::kTeamPair) {
      const size_t other = sums_[i + 1];
      text_ += fmt::format("team_reduce_two<{}>(a{}, a{}, {}());\n", plan_.team, position, other, sum.operation());
      if (plan_.cluster > 1)
        text_ += fmt::format("cluster_reduce_two<{}>(a{}, {}, a{}, {}, {}());\n", plan_.cluster, position,
                             cluster_sums(position), other, cluster_sums(other), sum.operation());
    }
    if (plan_.reductions.at(position) == GpuLoopPlan::Reduction::kParts)
      text_ += fmt::format("{{\nconst {} total = {};\nif (thread_index() == 0) {}[task] = total;\n}}\n", sum.type(),
                           reduced(position), partials(position, i));
  }
}

std::string GpuLoopWriter::result(size_t position) {
  const Value member = request_.members[position];
  const GpuAccumulator sum = accumulator(position);
  if (in_finish_)
    text_ += fmt::format(
        "{0} a{1} = {2};\nfor (int part = thread_index(); part < {3}; part += {4}) {{\n"
        "const {0} partial = {5}[task * {3} + part];\n{6}}}\n",
        sum.type(), position, sum.initial(), plan_.parts, kLoopThreads, partials(position, finished_sums_++),
        sum.take(fmt::format("a{}", position), "partial"));
  const std::string name = new_result_name();
  row_stores_ += store_statement(member, emitter_->index_text(plan_.row), name);
  text_ += fmt::format("const {} {} = {};\n", compute_type(graph_.dtype(member)), name, sum.result(reduced(position)));
  return name;
}

GpuAccumulator GpuLoopWriter::accumulator(size_t position) const {
  const Value member = request_.members[position];
  return {graph_.node(member).op, graph_.dtype(member)};
}

// The sum's value over the whole team.
std::string GpuLoopWriter::reduced(size_t position) const {
  const GpuLoopPlan::Reduction how = plan_.reductions.at(position);
  if (how == GpuLoopPlan::Reduction::kTeamPair || how == GpuLoopPlan::Reduction::kWithPair)
    return fmt::format("a{}", position);
  const std::string operation = accumulator(position).operation();
  const std::string of_block = fmt::format("team_reduce<{}>(a{}, {}())", plan_.team, position, operation);
  if (plan_.cluster == 1) return of_block;
  return fmt::format("cluster_reduce<{}>({}, {}, {}())", plan_.cluster, of_block, cluster_sums(position), operation);
}

// Where a cluster's blocks have theirs of the sum.
std::string GpuLoopWriter::cluster_sums(size_t position) const {
  const auto number = std::distance(plan_.reductions.begin(), plan_.reductions.find(position));
  return fmt::format("reinterpret_cast<float*>(shared_memory() + {})",
                     GpuLoopPlan::kSumsSharedBytes + number * GpuLoopPlan::kClusterSumBytes);
}

// The partial results of the i-th sum: one for each row and part.
std::string GpuLoopWriter::partials(size_t position, size_t i) const {
  return fmt::format("reinterpret_cast<{}*>(workspace + {})", accumulator(position).type(),
                     static_cast<int64_t>(i) * request_.rows.constant() * plan_.parts * GpuLoopPlan::kPartialBytes);
}

// --- Vectors.

std::string GpuLoopWriter::whole(const Vector& vector) const {
  return vector.inside.text(lane_name(), plan_.lanes) + vector.stores;
}

std::string GpuLoopWriter::cut(const Vector& vector, const std::string& outside) const {
  return vector.inside.text(lane_name(), plan_.lanes, outside) +
         vector.lane_stores.text(lane_name(), plan_.lanes, outside);
}

// The loops' position with the lane taken out: a multiple of the lanes.
std::string GpuLoopWriter::first_lane_text() const {
  if (plan_.unaligned_columns) return "aligned";
  Index first = plan_.element;
  std::erase_if(first.terms, [&](const Index::Term& term) { return term.variable == nest_.lane_variable(); });
  return emitter_->index_text(first);
}

std::string GpuLoopWriter::unaligned_row() const {
  return fmt::format("const {0} row_start = row * {1};\nconst {0} row_vector = row_start & ~{0}({2});\n", index_type_,
                     *plan_.unaligned_columns, plan_.lanes - 1);
}

std::string GpuLoopWriter::unaligned_vector(const Vector& vector) const {
  const std::string& column = axis_name(plan_.axes.size() - 2);
  const int64_t columns = *plan_.unaligned_columns;
  return fmt::format(
             "const {0} aligned = row_vector + vector * {1};\nconst {0} {2} = aligned - row_start;\n"
             "if ({2} >= 0 && {2} + {1} <= {3}) {{\n",
             index_type_, plan_.lanes, column, columns) +
         whole(vector) + "} else {\n" +
         cut(vector, fmt::format("{0} + {1} < 0 || {0} + {1} >= {2}", column, lane_name(), columns)) + "}\n";
}

// A vector's statements, written once more for vectors in which comparisons of positions are settled.
std::string GpuLoopWriter::settled_or_not(const std::string& vector) {
  const std::optional<std::string> condition = emitter_->take_settled_condition();
  if (!condition) return vector;
  return fmt::format(
      "if ({0}) {{\nconstexpr bool settled = true;\n{1}}} else {{\nconstexpr bool settled = false;\n{1}}}\n",
      *condition, vector);
}

// --- Rows.

std::string GpuLoopWriter::load_held() {
  std::string text, loads;
  for (const HeldRow& row : plan_.held) {
    if (row.where != HeldRow::Where::kLoaded) continue;
    text += fmt::format("{} {}[{}];\n", storage_type(graph_.dtype(row.value)), held_name(row), plan_.held_elements);
    loads += fmt::format("{}[{}] = {}[{}];\n", held_name(row), register_position(), pointer(row.value),
                         emitter_->index_text(plan_.element));
  }
  return text + column_loop(lane_loop(lane_name(), plan_.lanes) + loads + "}\n" + ask_for_next_row());
}

// Of a block's rows, the next one's vector is brought into the second-level cache beside this one's sums.
std::string GpuLoopWriter::ask_for_next_row() {
  if (!plan_.rows_to_next_load) return {};
  const int64_t next = *plan_.rows_to_next_load;
  std::string text;
  for (const HeldRow& row : plan_.held)
    if (row.where == HeldRow::Where::kLoaded)
      text += fmt::format("prefetch_line({} + {} + {});\n", pointer(row.value), first_lane_text(),
                          next * request_.columns.constant());
  return fmt::format("if (row + {} < {}) {{\n{}}}\n", next, request_.rows.constant(), text);
}

// No barrier: threads read what they have copied themselves. Of a part of a row, whose end is not constant, the static
// check of copies does not see that.
std::string GpuLoopWriter::copy_to_shared() {
  std::string text, copies;
  for (const HeldRow& row : plan_.held) {
    if (row.where != HeldRow::Where::kShared) continue;
    const std::string name = held_name(row);
    const DType dtype = graph_.dtype(row.value);
    text += fmt::format("auto* {} = static_cast<{}*>(__builtin_assume_aligned(shared_memory() + {}, 16));\n", name,
                        storage_type(dtype), GpuLoopPlan::kSumsSharedBytes + row.offset);
    const int per_copy = GpuLoopPlan::kCopiedBytes / static_cast<int>(size_bytes(dtype));
    for (int lane = 0; lane < plan_.lanes; lane += per_copy)
      copies += fmt::format("copy_async_16({0} + vector * {1} + {2}, {3} + ({4}) + {2}, true);\n", name, plan_.lanes,
                            lane, pointer(row.value), first_lane_text());
  }
  text += column_loop(copies) + "copy_async_commit();\n";
  if (plan_.cluster == 1) return text + "copy_async_wait<0>();\n";
  return text + "cluster_begin();\ncopy_async_wait<0>();\nblock_barrier();\n";
}

// One pass of a team over the vectors of its row.
std::string GpuLoopWriter::column_loop(const std::string& inside) {
  using enum GpuLoopPlan::ColumnLoop;
  if (plan_.column_loop == kUnaligned)
    return fmt::format("for ({0} vector = first; vector < row_last; vector += {1}) {{\n", index_type_, plan_.team) +
           inside + "}\n";
  const std::string body =
      axis_variables(AxisMapping::kTeam, plan_.cluster > 1 ? "(part_begin + vector)" : "vector") + inside;
  if (plan_.column_loop == kRolled)
    return fmt::format("#pragma clang loop unroll_count({})\nfor ({} vector = first; vector < last; vector += {}) {{\n",
                       plan_.unrolled, index_type_, plan_.team) +
           body + "}\n";
  const std::string text = fmt::format(
      "#pragma clang loop unroll(full)\nfor (int step = 0; step < {}; ++step) {{\n"
      "const {} vector = first + step * {};\n",
      plan_.steps, index_type_, plan_.team);
  if (!plan_.last_step_is_cut) return text + body + "}\n";
  return text + "if (vector < last) {\n" + body + "}\n}\n";
}

std::string GpuLoopWriter::axis_variables(AxisMapping mapping, const std::string& running) {
  std::vector<std::pair<std::string, std::string>> axes;
  for (size_t i = 0; i < plan_.axes.size(); ++i)
    if (plan_.axes[i].mapping == mapping) axes.emplace_back(axis_name(i), symbols_.text(plan_.axes[i].extent));
  return gpu_axis_variables(index_type_, running, axes);
}

std::string GpuLoopWriter::row_of_team(const std::string& group, const std::string& group_index) {
  const std::string vectors = symbols_.text(plan_.row_vectors);
  if (plan_.cluster > 1)
    return fmt::format(
        "const {0} row = {1} / {2};\nconst {0} part_begin = cluster_rank() * {3};\n"
        "const {0} first = thread_index();\nconst {0} last = {4} - part_begin < {3} ? {4} - part_begin : {3};\n",
        index_type_, group, plan_.cluster, divide_up(plan_.row_vectors.constant(), plan_.cluster), vectors);
  if (plan_.rows_per_block() == 1)
    return fmt::format("const {0} row = {2};\nconst {0} first = thread_index();\nconst {0} last = {1};\n", index_type_,
                       vectors, group);
  std::string body = fmt::format("const {} team = {} * {} + thread_index() / {};\n", index_type_, group_index,
                                 plan_.rows_per_block(), plan_.team);
  if (plan_.fills_blocks) {
    body += fmt::format("const {0} row = team;\nconst {0} last = {1};\n", index_type_, vectors);
  } else {
    // A team without a row takes part in the sums, on no columns.
    body += fmt::format("const {0} row = team < {1} ? team : {1} - 1;\nconst {0} last = team < {1} ? {2} : 0;\n",
                        index_type_, symbols_.text(request_.rows), vectors);
  }
  return body + fmt::format("const {} first = thread_index() % {};\n", index_type_, plan_.team);
}

std::string GpuLoopWriter::stores_of_row() {
  std::vector<std::string> conditions;
  if (plan_.team > 1) conditions.push_back("first == 0");
  if (plan_.cluster > 1) conditions.push_back("part_begin == 0");
  if (!plan_.fills_blocks) conditions.push_back(fmt::format("team < {}", symbols_.text(request_.rows)));
  if (conditions.empty() || !plan_.stores_of_rows()) return row_stores_;
  return fmt::format("if ({}) {{\n{}}}\n", fmt::join(conditions, " && "), row_stores_);
}

// --- Frames.

std::string GpuLoopWriter::source(const std::string& name, int threads, const std::string& body, int blocks_per_unit) {
  return kIncludes +
         std::string(plan_.cluster > 1 ? "#include \"causeway/kernels/gpu/hopper_cluster_reduce.h\"\n" : "") +
         kernel_text(name, threads, body, blocks_per_unit);
}

std::string GpuLoopWriter::kernel_text(const std::string& name, int threads, const std::string& body,
                                       int blocks_per_unit) {
  return gpu_kernel(name, threads, blocks_per_unit) + prologue() + body + "}\n";
}

}  // namespace causeway::codegen
