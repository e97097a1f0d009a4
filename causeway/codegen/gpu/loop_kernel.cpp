// Loop kernels on GPUs, as gpu_loop_nest.h plans them.
#include <algorithm>
#include <set>

#include "causeway/base/error.h"
#include "causeway/codegen/expressions/loop_writer.h"
#include "causeway/codegen/gpu/loop_nest.h"
#include "causeway/codegen/gpu/loops.h"
#include "causeway/kernels/gpu/transpose_layout.h"

namespace causeway::codegen {
namespace {

constexpr GpuPartsLaunch kRowSumParts = {.neighbours = 8, .unrolled = 8};  // there are many parts
constexpr const char* kIncludes =
    "#include \"causeway/kernels/gpu/lanes.h\"\n#include \"causeway/kernels/gpu/reduce.h\"\n";
constexpr const char* kSharedResult = "shared_result";
constexpr size_t kManyArguments = 16;  // pointers to so many leave fewer registers than sums over rows need

class GpuLoopWriter : public LoopWriter<GpuLoopNest> {
 public:
  using LoopWriter::LoopWriter;

  GeneratedKernel write() {
    index_type_ = gpu_index_type(graph_, materialized_, request_);
    nest_.plan();
    const std::optional<Obstacle> planned = nest_.obstacle();
    nest_.reset();
    write_body();
    check_written(planned);
    return nest_.has_reductions() ? (nest_.parts() > 1 ? assemble_parts() : assemble_rows()) : assemble_elements();
  }

  std::optional<GpuRowFunction> write_row_function(Value result, int shared_offset) {
    shared_result_ = result;
    index_type_ = gpu_index_type(graph_, materialized_, request_);
    nest_.plan();
    const std::optional<Obstacle> planned = nest_.obstacle();
    nest_.reset();
    if (planned || !nest_.has_reductions() || nest_.has_row_sums() || nest_.parts() > 1 ||
        !request_.rows.is_constant() || !nest_.in_shared().empty() || shared_offset < GpuLoopNest::kSumsSharedBytes)
      return std::nullopt;
    write_body();
    check_written(planned);
    const std::string body = row_body();
    const int64_t tasks = divide_up(request_.rows.constant(), nest_.rows_per_block());
    GpuRowFunction function;
    function.text =
        std::string(kIncludes) + "CAUSEWAY_INLINE void compute_rows(void* const* buffers, const int64_t* sizes) {\n" +
        prologue() +
        fmt::format(
            "auto* {} = reinterpret_cast<{}*>(shared_memory() + {});\nfor (int task = 0; task < {}; ++task) {{\n",
            kSharedResult, storage_type(graph_.dtype(result)), shared_offset, tasks) +
        body + "}\n}\n";
    function.threads = nest_.threads();
    const GeneratedKernel all = finish("");
    function.arguments = all.arguments;
    function.sizes = all.sizes;
    return function;
  }

  std::string pointer(Value value) override {
    return value == shared_result_ ? kSharedResult : LoopWriter::pointer(value);
  }

  std::optional<std::string> known_index(const Index& linear) override {
    if (!nest_.unaligned_columns() || !(linear == nest_.full_linear())) return std::nullopt;
    return fmt::format("aligned + {}", nest_.lane_name());
  }

 private:
  // --- The text of the passes.

  void write_body() {
    ExpressionEmitter emitter(graph_, *this, nest_.variables(), symbols_);
    emitter_ = &emitter;
    emitter.set_index_type(index_type_);
    emitter.set_lanes(nest_.lane_variable(), nest_.lanes());
    if (nest_.has_reductions() && rolls_columns() && nest_.lanes() > 1 && !nest_.unaligned_columns())
      emitter.set_settles_comparisons();
    if (!nest_.cached().empty()) text_ += load_cached();
    if (!nest_.in_shared().empty()) text_ += copy_to_shared();
    for (const Value member : nest_.kept())
      text_ += fmt::format("{} {}[{}];\n", compute_type(graph_.dtype(member)), nest_.kept_name(member),
                           nest_.kept_elements());
    nest_.walk(emitter, *this);
    top_ = emitter.take_statements(0);
    if (nest_.transposed()) {
      copied_from_ = emitter.index_text(nest_.transposed()->linear);
      copied_to_ = emitter.index_text(nest_.full_linear());
    }
    if (nest_.parts() > 1) {
      in_finish_ = true;
      row_stores_.clear();
      std::swap(text_, finish_text_);
      nest_.walk_finish(emitter, *this);
      std::swap(text_, finish_text_);
      finish_top_ = emitter.take_statements(0);
    }
    emitter_ = nullptr;
  }

  void row_value(Value member, const ElementValue& value) override {
    text_ += emitter_->take_statements(kRowDepth);
    row_stores_ += store_statement(member, emitter_->index_text(nest_.row_linear()), value.name);
  }

  void begin_phase() override {
    arrays_.clear();
    initial_.clear();
    updates_.clear();
    stores_.clear();
    lane_stores_.clear();
    sums_.clear();
  }

  void element(size_t position, const ElementValue& value) override {
    const Value member = request_.members[position];
    if (nest_.kept().contains(member))
      updates_ += fmt::format("{}[{}] = {};\n", nest_.kept_name(member), nest_.register_position(), value.name);
    if (!request_.stores(member)) return;
    const DType dtype = graph_.dtype(member);
    const std::string& lane = nest_.lane_name();
    arrays_ += fmt::format("{} v{}[{}];\n", storage_type(dtype), position, nest_.lanes());
    updates_ += fmt::format("v{}[{}] = {};\n", position, lane, to_storage(dtype, value.name));
    stores_ += fmt::format("store_lanes({} + ({}), v{});\n", pointer(member), first_lane_text(), position);
    lane_stores_ +=
        fmt::format("{}[{}] = v{}[{}];\n", pointer(member), emitter_->index_text(nest_.full_linear()), position, lane);
  }

  void summand(size_t position, const ElementValue& value) override {
    sums_.push_back(position);
    const GpuAccumulator sum = accumulator(position);
    initial_ += fmt::format("{} a{} = {};\n", sum.type, position, sum.initial);
    updates_ += sum.take(fmt::format("a{}", position), value.name);
  }

  void row_summand(size_t position, const ElementValue& value) override {
    row_sums_.push_back(position);
    updates_ +=
        accumulator(position).take(row_sum(position) + fmt::format("[{}]", nest_.register_position()), value.name);
  }

  void end_pass() override {
    // All loads before the stores, which may overwrite what is loaded for all the compiler knows: so loads merge.
    Statements inside = emitter_->take(kRowDepth + 1);
    inside.add(arrays_);
    inside.add_for_each_lane(emitter_->take_statements(kLaneDepth) + updates_);
    text_ += emitter_->take_statements(kRowDepth) + initial_;
    Statements one_by_one;
    if (!nest_.has_reductions() || !lane_stores_.empty()) one_by_one.add_for_each_lane(lane_stores_);
    if (!nest_.has_reductions()) {
      element_ = std::move(inside);
      element_stores_ = stores_;
      one_by_one_ = std::move(one_by_one);
      return;
    }
    text_ += nest_.unaligned_columns() ? unaligned_loop(inside, stores_, one_by_one)
                                       : column_loop(settled_or_not(all_lanes(inside) + stores_));
    if (nest_.parts() == 1) {
      if (nest_.team() > GpuLoopNest::kWaveTeam) reduce_pairs();
      return;
    }
    for (size_t i = 0; i < sums_.size(); ++i)
      text_ += fmt::format("{{\nconst {} total = {};\nif (thread_index() == 0) {}[task] = total;\n}}\n",
                           accumulator(sums_[i]).type, reduced(sums_[i]), partials(sums_[i], i));
  }

  void result(size_t position, const std::string& name) override {
    const Value member = request_.members[position];
    const GpuAccumulator sum = accumulator(position);
    if (in_finish_)
      text_ += fmt::format(
          "{0} a{1} = {2};\nfor (int part = thread_index(); part < {3}; part += {4}) {{\n"
          "const {0} partial = {5}[task * {3} + part];\n{6}}}\n",
          sum.type, position, sum.initial, nest_.parts(), kLoopThreads, partials(position, finished_sums_++),
          sum.take(fmt::format("a{}", position), "partial"));
    row_stores_ += store_statement(member, emitter_->index_text(nest_.row_linear()), name);
    text_ +=
        fmt::format("const {} {} = {};\n", compute_type(graph_.dtype(member)), name, sum.result(reduced(position)));
  }

  std::string all_lanes(const Statements& statements) const {
    return statements.text(nest_.lane_name(), nest_.lanes());
  }

  // The statements for the lanes for which the condition does not hold.
  std::string but_lanes(const Statements& statements, const std::string& condition) const {
    return statements.text(nest_.lane_name(), nest_.lanes(), condition);
  }

  // The loop's position with the lane taken out: a multiple of the lanes.
  std::string first_lane_text() const {
    if (nest_.unaligned_columns()) return "aligned";
    Index first = nest_.full_linear();
    std::erase_if(first.terms, [&](const Index::Term& term) { return term.variable == nest_.lane_variable(); });
    return emitter_->index_text(first);
  }

  std::string load_cached() {
    std::string text, loads;
    for (const auto& [value, name] : nest_.cached()) {
      text += fmt::format("{} {}[{}];\n", storage_type(graph_.dtype(value)), name, nest_.kept_elements());
      loads += fmt::format("{}[{}] = {}[{}];\n", name, nest_.register_position(), pointer(value),
                           emitter_->index_text(nest_.full_linear()));
    }
    return text + column_loop(lane_loop(nest_.lane_name(), nest_.lanes()) + loads + "}\n" + ask_for_next_row());
  }

  // No barrier: threads read what they have copied themselves.
  std::string copy_to_shared() {
    std::string text, copies;
    for (const auto& [value, offset] : nest_.in_shared()) {
      const std::string name = nest_.in_shared_name(value);
      text += fmt::format("auto* {} = static_cast<{}*>(__builtin_assume_aligned(shared_memory() + {}, 16));\n", name,
                          storage_type(graph_.dtype(value)), GpuLoopNest::kSumsSharedBytes + offset);
      const int per_copy = GpuLoopNest::kCopiedBytes / static_cast<int>(size_bytes(graph_.dtype(value)));
      for (int lane = 0; lane < nest_.lanes(); lane += per_copy)
        copies += fmt::format("copy_async_16({0} + vector * {1} + {2}, {3} + ({4}) + {2}, true);\n", name,
                              nest_.lanes(), lane, pointer(value), first_lane_text());
    }
    return text + column_loop(copies) + "copy_async_commit();\ncopy_async_wait<0>();\n";
  }

  // Of a block's rows, the next one's vector is brought into the second-level cache beside this one's sums.
  std::string ask_for_next_row() {
    if (!nest_.has_row_sums() || !request_.rows.is_constant()) return {};
    const int64_t next = nest_.row_sum_blocks() * nest_.rows_per_block();
    std::string text;
    for (const auto& [value, name] : nest_.cached())
      text += fmt::format("prefetch_line({} + {} + {});\n", pointer(value), first_lane_text(),
                          next * request_.columns.constant());
    return fmt::format("if (row + {} < {}) {{\n{}}}\n", next, request_.rows.constant(), text);
  }

  // The axes for which `chosen` holds, by name and extent.
  template <class Chosen>
  std::vector<std::pair<std::string, std::string>> axis_texts(Chosen&& chosen) {
    std::vector<std::pair<std::string, std::string>> texts;
    for (size_t i = 0; i < nest_.axes().size(); ++i)
      if (chosen(i)) texts.emplace_back(nest_.axis_name(i), symbols_.text(nest_.axes()[i].extent));
    return texts;
  }

  // A vector's statements, written once more for vectors in which comparisons of positions are settled.
  std::string settled_or_not(const std::string& vector) {
    const std::string condition = emitter_->take_settled_condition();
    if (condition.empty()) return vector;
    return fmt::format(
        "if ({0}) {{\nconstexpr bool settled = true;\n{1}}} else {{\nconstexpr bool settled = false;\n{1}}}\n",
        condition, vector);
  }

  // Whether passes over a row are loops at run time: nothing of the row stays in registers.
  bool rolls_columns() const { return nest_.cached().empty() && nest_.kept().empty() && !nest_.has_row_sums(); }

  // One pass of a team over the vectors of its row.
  std::string column_loop(const std::string& inside) {
    const auto columns = axis_texts([&](size_t i) { return !nest_.axes()[i].is_row && !nest_.axes()[i].is_lane; });
    const std::string body = gpu_axis_variables(index_type_, "vector", columns) + inside;
    const int team = nest_.team();
    // The 64 registers that the widest block's threads have hold one vector's elements.
    const int unrolled = nest_.threads() == GpuLoopNest::kTeamOfOne ? 1 : nest_.lanes() >= 4 ? 2 : 4;
    if (rolls_columns())
      return fmt::format(
                 "#pragma clang loop unroll_count({})\nfor ({} vector = first; vector < last; vector += {}) {{\n",
                 unrolled, index_type_, team) +
             body + "}\n";
    const int64_t vectors = nest_.row_vectors().constant();
    std::string text = fmt::format(
        "#pragma clang loop unroll(full)\nfor (int step = 0; step < {}; ++step) {{\n"
        "const {} vector = first + step * {};\n",
        divide_up(vectors, team), index_type_, team);
    if (vectors % team == 0 && nest_.rows_fill_blocks()) return text + body + "}\n";
    return text + "if (vector < last) {\n" + body + "}\n}\n";
  }

  int64_t unaligned_columns() const { return nest_.unaligned_columns()->constant(); }

  // Where a row begins in the tensors that are as large as the loop, and the vector in which it does.
  std::string unaligned_row() const {
    return fmt::format("const {0} row_start = row * {1};\nconst {0} row_vector = row_start & ~{0}({2});\n", index_type_,
                       unaligned_columns(), nest_.lanes() - 1);
  }

  // A vector at a multiple of the lanes, all of it or the part that is in the row.
  std::string unaligned_vector(const Statements& inside, const std::string& stores, const Statements& one_by_one) {
    const std::string& column = nest_.axis_name(nest_.axes().size() - 2);
    const std::string outside =
        fmt::format("{0} + {1} < 0 || {0} + {1} >= {2}", column, nest_.lane_name(), unaligned_columns());
    return fmt::format(
               "const {0} aligned = row_vector + vector * {1};\nconst {0} {2} = aligned - row_start;\n"
               "if ({2} >= 0 && {2} + {1} <= {3}) {{\n",
               index_type_, nest_.lanes(), column, unaligned_columns()) +
           all_lanes(inside) + stores + "} else {\n" + but_lanes(inside, outside) + but_lanes(one_by_one, outside) +
           "}\n";
  }

  std::string unaligned_loop(const Statements& inside, const std::string& stores, const Statements& one_by_one) {
    return fmt::format("for ({0} vector = first; vector < row_last; vector += {1}) {{\n", index_type_, nest_.team()) +
           unaligned_vector(inside, stores, one_by_one) + "}\n";
  }

  GpuAccumulator accumulator(size_t position) const {
    const Value member = request_.members[position];
    return {graph_.node(member).op, graph_.dtype(member)};
  }

  // The array of a thread's columns of a sum over rows.
  static std::string row_sum(size_t position) { return fmt::format("sums{}", position); }

  // Sums of the pass that are alike, two at a time: each alone would wait at barriers of its own.
  void reduce_pairs() {
    for (size_t i = 0; i + 1 < sums_.size(); i += 2) {
      const GpuAccumulator first = accumulator(sums_[i]), second = accumulator(sums_[i + 1]);
      if (first.type != "float" || second.type != "float" || first.operation != second.operation) continue;
      text_ +=
          fmt::format("team_reduce_two<{}>(a{}, a{}, {}());\n", nest_.team(), sums_[i], sums_[i + 1], first.operation);
      reduced_.insert({sums_[i], sums_[i + 1]});
    }
  }

  // The sum's value over the whole team.
  std::string reduced(size_t position) const {
    if (reduced_.contains(position)) return fmt::format("a{}", position);
    return fmt::format("team_reduce<{}>(a{}, {}())", nest_.team(), position, accumulator(position).operation);
  }

  // The partial results of the i-th sum: one for each row and part.
  std::string partials(size_t position, size_t i) const {
    return fmt::format("reinterpret_cast<{}*>(workspace + {})", accumulator(position).type,
                       static_cast<int64_t>(i) * request_.rows.constant() * nest_.parts() * 8);
  }

  // --- Whole kernels.

  std::string row_variables(const std::string& running) {
    return gpu_axis_variables(index_type_, running, axis_texts([&](size_t i) { return nest_.axes()[i].is_row; }));
  }

  // A launch's position as an index: task * count + more.
  std::string position_text(const std::string& count, const std::string& more) const {
    return fmt::format("{} * {} + {}", task_text(), count, more);
  }
  std::string task_text() const { return fmt::format("static_cast<{}>(task)", index_type_); }

  GeneratedKernel assemble_elements() {
    const Dim count = request_.rows * request_.columns;
    if (nest_.transposed()) return nest_.is_transposed_copy() ? assemble_transposed_copy() : assemble_transposing();
    if (nest_.unaligned_columns()) return assemble_unaligned();
    std::string body = fmt::format("const {} position = {};\n", index_type_,
                                   position_text(std::to_string(kLoopThreads), "thread_index()"));
    const std::string total = symbols_.text(count);
    const std::string limit = fmt::format("position * {}", nest_.lanes());
    const bool fills = !nest_.ragged() && count.is_constant() && count.constant() % (nest_.lanes() * kLoopThreads) == 0;
    if (!fills) body += fmt::format("if ({} >= {}) return;\n", limit, total);
    body += row_variables("position") + top_ + text_;
    if (nest_.ragged()) {
      body += fmt::format("if ({} + {} <= {}) {{\n{}}} else {{\nconst int lanes = static_cast<int>({} - {});\n", limit,
                          nest_.lanes(), total, all_lanes(element_) + element_stores_, total, limit) +
              but_lanes(element_, nest_.lane_name() + " >= lanes") +
              but_lanes(one_by_one_, nest_.lane_name() + " >= lanes") + "}\n";
    } else {
      body += all_lanes(element_) + element_stores_;
    }
    GeneratedKernel kernel = finish(source("kernel", kLoopThreads, body));
    const int64_t per_block = int64_t{nest_.lanes()} * kLoopThreads;
    kernel.phases = {gpu_phase("kernel", kLoopThreads, 0, [count, per_block](const SymbolBindings& bindings) {
      return divide_up(count.evaluate(bindings), per_block);
    })};
    return kernel;
  }

  // A block takes kLoopThreads vectors of one row.
  GeneratedKernel assemble_unaligned() {
    const int64_t chunks = divide_up(nest_.row_vectors().constant(), kLoopThreads);
    std::string body =
        fmt::format("const {0} row = task / {1};\nconst {0} vector = task % {1} * {2} + thread_index();\n", index_type_,
                    chunks, kLoopThreads);
    body += unaligned_row();
    body +=
        fmt::format("if (row_vector + vector * {} >= row_start + {}) return;\n", nest_.lanes(), unaligned_columns());
    body += row_variables("row") + top_ + text_ + unaligned_vector(element_, element_stores_, one_by_one_);
    Dim rows(1);
    for (const Axis& axis : nest_.axes())
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
    const size_t read = nest_.transposed()->axis, written = nest_.axes().size() - 2;
    const auto name = [&](size_t axis) { return nest_.axis_name(axis); };
    const Dim read_extent = nest_.axes()[read].extent, written_extent = nest_.axes()[written].extent;
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
      others.emplace_back(name(i), symbols_.text(nest_.axes()[i].extent));
      other_count *= nest_.axes()[i].extent;
    }
    body += gpu_axis_variables(index_type_, "(task / written_tiles / read_tiles)", others) + top_ + text_ +
            all_lanes(element_) + element_stores_;
    GeneratedKernel kernel = finish(source("kernel", kLoopThreads, body));
    kernel.phases = {gpu_phase("kernel", kLoopThreads, 0, [=](const SymbolBindings& bindings) {
      return other_count.evaluate(bindings) * divide_up(read_extent.evaluate(bindings), kTile) *
             divide_up(written_extent.evaluate(bindings), kTile);
    })};
    return kernel;
  }

  GeneratedKernel assemble_transposed_copy() {
    const size_t read = nest_.transposed()->axis, written = nest_.axes().size() - 2;
    const auto name = [&](size_t axis) { return nest_.axis_name(axis); };
    const Value result = request_.members.front();
    const int element_bytes = static_cast<int>(size_bytes(graph_.dtype(result)));
    const int64_t tile = transpose_tile_elements(element_bytes);
    const Dim read_extent = nest_.axes()[read].extent,
              written_extent = nest_.axes()[written].extent * Dim(nest_.lanes());
    std::string body = fmt::format(
        "const {0} read_tiles = ({1} + {3}) / {4}, written_tiles = ({2} + {3}) / {4};\n"
        "const {0} first = task % written_tiles * {4};\nconst {0} {5} = first / {6};\n"
        "const {0} {7} = task / written_tiles % read_tiles * {4};\nconst {0} {8} = 0;\n",
        index_type_, symbols_.text(read_extent), symbols_.text(written_extent), tile - 1, tile, name(written),
        nest_.lanes(), name(read), nest_.lane_name());
    std::vector<std::pair<std::string, std::string>> others;
    Dim other_count(1);
    for (size_t i = 0; i < written; ++i) {
      if (i == read) continue;
      others.emplace_back(name(i), symbols_.text(nest_.axes()[i].extent));
      other_count *= nest_.axes()[i].extent;
    }
    body += gpu_axis_variables(index_type_, "(task / written_tiles / read_tiles)", others);
    body += fmt::format("transpose_tile({} + ({}), {}, {} + ({}), {}, {} - {}, {} - first);\n",
                        pointer(nest_.transposed()->value), copied_from_,
                        symbols_.text(coefficient(nest_.transposed()->linear, nest_.lane_variable())), pointer(result),
                        copied_to_, symbols_.text(coefficient(nest_.full_linear(), nest_.axis_variable(read))),
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

  // The row of a thread, its first vector, and where its vectors end; for the group of rows numbered `group`, or the
  // one numbered as the task.
  std::string row_of_thread(const std::string& group = "") {
    const std::string vectors = symbols_.text(nest_.row_vectors());
    std::string body;
    if (nest_.rows_per_block() == 1) {
      body = fmt::format("const {0} row = {2};\nconst {0} first = thread_index();\nconst {0} last = {1};\n",
                         index_type_, vectors, group.empty() ? "task" : group);
    } else {
      body = fmt::format("const {} team = {} * {} + thread_index() / {};\n", index_type_,
                         group.empty() ? task_text() : group, nest_.rows_per_block(), nest_.team());
      if (nest_.rows_fill_blocks()) {
        body += fmt::format("const {0} row = team;\nconst {0} last = {1};\n", index_type_, vectors);
      } else {
        // A team without a row takes part in the sums, on no columns.
        const std::string total = symbols_.text(request_.rows);
        body += fmt::format("const {0} row = team < {1} ? team : {1} - 1;\nconst {0} last = team < {1} ? {2} : 0;\n",
                            index_type_, total, vectors);
      }
      body += fmt::format("const {} first = thread_index() % {};\n", index_type_, nest_.team());
    }
    return body;
  }

  // What is stored of a row, by one thread of its team.
  std::string stores_of_row() {
    std::string condition = nest_.team() == 1 ? "" : "first == 0";
    if (!nest_.rows_fill_blocks())
      condition += fmt::format("{}team < {}", condition.empty() ? "" : " && ", symbols_.text(request_.rows));
    return condition.empty() || row_stores_.empty() ? row_stores_
                                                    : fmt::format("if ({}) {{\n{}}}\n", condition, row_stores_);
  }

  std::string row_body() {
    std::string body = row_of_thread();
    if (nest_.unaligned_columns())
      body += unaligned_row() + fmt::format("const {} row_last = (row_start - row_vector + {}) / {};\n", index_type_,
                                            unaligned_columns() + nest_.lanes() - 1, nest_.lanes());
    body += row_variables("row") + top_ + text_;
    // A value of a single row may take the place of one that other threads still have to read.
    if (!row_stores_.empty() && request_.rows.is_constant(1)) body += "block_barrier();\n";
    return body + stores_of_row();
  }

  GeneratedKernel assemble_rows() {
    if (nest_.has_row_sums()) return assemble_row_sums();
    const Dim rows = request_.rows;
    const std::string body = row_body();
    GeneratedKernel kernel = finish(source("kernel", nest_.threads(), body));
    const int64_t per_block = nest_.rows_per_block();
    const int shared_bytes = (nest_.team() > GpuLoopNest::kWaveTeam ? GpuLoopNest::kSumsSharedBytes : 0) +
                             static_cast<int>(nest_.in_shared_bytes());
    kernel.phases = {gpu_phase(
        "kernel", nest_.threads(), shared_bytes,
        [rows, per_block](const SymbolBindings& bindings) { return divide_up(rows.evaluate(bindings), per_block); })};
    return kernel;
  }

  // Blocks take groups of rows round-robin, and in the end leave their sums over rows for a second launch.
  GeneratedKernel assemble_row_sums() {
    std::vector<GpuPartsOfSum> sums;
    for (const size_t position : row_sums_) {
      const Value member = request_.members[position];
      sums.push_back({graph_.node(member).op, graph_.dtype(member), pointer(member)});
    }
    const size_t workspace = arguments_.size();
    arguments_.push_back({KernelArgument::Kind::kWorkspace, {}, true});
    const std::string open_workspace =
        fmt::format("auto* partials = {};\n", buffer_pointer(accumulator(row_sums_.front()).type, workspace));
    const std::string columns = symbols_.text(request_.columns);
    const int64_t blocks = nest_.row_sum_blocks(), elements = nest_.kept_elements();
    const int per_block = nest_.rows_per_block();
    std::string body = open_workspace + top_, left;
    for (size_t i = 0; i < row_sums_.size(); ++i) {
      const std::string name = row_sum(row_sums_[i]);
      const GpuAccumulator sum = accumulator(row_sums_[i]);
      body += fmt::format("{} {}[{}];\n#pragma clang loop unroll(full)\nfor (int i = 0; i < {}; ++i) {}[i] = {};\n",
                          sum.type, name, elements, elements, name, sum.initial);
      left +=
          fmt::format("reduce_rows<{}, {}, {}>({}, {}());\n", nest_.team(), per_block, elements, name, sum.operation);
      left += fmt::format(
          "#pragma clang loop unroll(full)\nfor (int i = 0; i < {0}; ++i) {{\n"
          "const int column = (thread_index() + i / {1} * {2}) * {1} + i % {1};\n"
          "if (thread_index() < {2} && column < {3}) partials[({4} + task) * {3} + column] = {5}[i];\n}}\n",
          elements, nest_.lanes(), nest_.team(), columns, static_cast<int64_t>(i) * blocks, name);
    }
    const std::string rows = symbols_.text(request_.rows);
    body += fmt::format(
        "#pragma clang loop unroll(disable)\n"
        "for ({0} group = task; group < ({1} + {2}) / {3}; group += {4}) {{\n",
        index_type_, rows, per_block - 1, per_block, blocks);
    body += row_of_thread("group") + row_variables("row") + text_ + stores_of_row() + "}\n" + left;
    const int blocks_per_unit = arguments_.size() > kManyArguments ? 1 : nest_.row_sum_blocks_per_unit();
    GeneratedKernel kernel =
        finish(source("kernel", nest_.threads(), body, blocks_per_unit) +
               kernel_text("kernel_finish", kLoopThreads,
                           open_workspace + gpu_add_parts(kRowSumParts, index_type_, columns, blocks, sums)));
    constexpr int kBytes = 4;  // of a sum
    const int64_t shared = std::max<int64_t>(nest_.team() > GpuLoopNest::kWaveTeam ? GpuLoopNest::kSumsSharedBytes : 0,
                                             per_block > 1 ? nest_.threads() * elements * kBytes : 0);
    const int64_t results = request_.columns.constant();
    kernel.phases = {gpu_phase("kernel", nest_.threads(), static_cast<int>(shared),
                               [blocks](const SymbolBindings&) { return blocks; }),
                     gpu_phase("kernel_finish", kLoopThreads, kLoopThreads * kBytes, [results](const SymbolBindings&) {
                       return divide_up(results, kRowSumParts.neighbours);
                     })};
    kernel.workspace_bytes = [bytes = static_cast<int64_t>(sums.size()) * blocks * results *
                                      kBytes](const SymbolBindings&) { return bytes; };
    return kernel;
  }

  GeneratedKernel assemble_parts() {
    const size_t workspace = arguments_.size();
    arguments_.push_back({KernelArgument::Kind::kWorkspace, {}, true});
    const std::string open_workspace = "char* workspace = " + buffer_pointer("char", workspace) + ";\n";
    const std::string vectors = symbols_.text(nest_.row_vectors());
    const std::string part_body =
        open_workspace +
        fmt::format(
            "const int row = task / {0};\nconst {1} part = task % {0};\nconst {1} part_vectors = ({2} + {3}) / {0};\n"
            "const {1} first = part * part_vectors + thread_index();\n"
            "const {1} part_end = (part + 1) * part_vectors;\nconst {1} last = part_end < {2} ? part_end : {2};\n",
            nest_.parts(), index_type_, vectors, nest_.parts() - 1) +
        row_variables("row") + top_ + text_;
    const std::string finish_body = open_workspace + "const int row = task;\n" + row_variables("row") + finish_top_ +
                                    finish_text_ + "block_barrier();\nif (thread_index() == 0) {\n" + row_stores_ +
                                    "}\n";
    GeneratedKernel kernel =
        finish(source("kernel", kLoopThreads, part_body) + kernel_text("kernel_finish", kLoopThreads, finish_body));
    const int64_t rows = request_.rows.constant(), parts = nest_.parts();
    kernel.phases = {gpu_phase("kernel", kLoopThreads, GpuLoopNest::kSumsSharedBytes,
                               [rows, parts](const SymbolBindings&) { return rows * parts; }),
                     gpu_phase("kernel_finish", kLoopThreads, GpuLoopNest::kSumsSharedBytes,
                               [rows](const SymbolBindings&) { return rows; })};
    int64_t sums = 0;
    for (const Value member : request_.members) sums += nest_.role(member) == Role::kReduction;
    kernel.workspace_bytes = [bytes = sums * rows * parts * 8](const SymbolBindings&) { return bytes; };
    return kernel;
  }

  std::string source(const std::string& name, int threads, const std::string& body, int blocks_per_unit = 1) {
    return kIncludes + kernel_text(name, threads, body, blocks_per_unit);
  }

  std::string kernel_text(const std::string& name, int threads, const std::string& body, int blocks_per_unit = 1) {
    return gpu_kernel(name, threads, blocks_per_unit) + prologue() + body + "}\n";
  }

  std::optional<Value> shared_result_;  // of a row function
  std::string index_type_;
  ExpressionEmitter* emitter_ = nullptr;  // while the nest is walked
  std::string top_, text_;                // statements of the kernel, and of a row
  std::string row_stores_;                // results of a row, stored last
  // Of a phase: arrays for a vector of elements, sums before the first element, what is done with each element, and
  // the stores of a vector, whole or one by one.
  std::string arrays_, initial_, updates_, stores_, lane_stores_;
  std::vector<size_t> sums_;      // of the phase
  std::set<size_t> reduced_;      // sums whose variables have the team's value
  std::vector<size_t> row_sums_;  // of all phases
  Statements element_, one_by_one_;
  std::string element_stores_;
  std::string copied_from_, copied_to_;  // places of a transposed tensor and of the result, in elements
  bool in_finish_ = false;
  size_t finished_sums_ = 0;
  std::string finish_top_, finish_text_;
};

}  // namespace

GeneratedKernel write_gpu_loop_kernel(const KernelInputs& inputs) { return GpuLoopWriter(inputs).write(); }

std::optional<GpuRowFunction> write_gpu_row_function(const KernelInputs& inputs, Value result, int shared_offset) {
  return GpuLoopWriter(inputs).write_row_function(result, shared_offset);
}

std::optional<Obstacle> find_gpu_loop_obstacle(const KernelInputs& inputs) {
  GpuLoopNest nest(inputs);
  nest.plan();
  return nest.obstacle();
}

}  // namespace causeway::codegen
