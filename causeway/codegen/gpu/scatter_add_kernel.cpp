// scatter_add on GPUs: the result starts as the base; the updates are sorted by their index, stably; teams of threads
// add neighbouring ones of the sorted list, and then what they have of indices that lie with several teams. In a fixed
// order a team adds all of an index.
#include <algorithm>
#include <bit>

#include "causeway/base/error.h"
#include "causeway/codegen/divide_up.h"
#include "causeway/codegen/expressions/kernel_writer.h"
#include "causeway/codegen/gpu/loops.h"
#include "causeway/kernels/gpu/scatter_add_layout.h"

namespace causeway::codegen {
namespace {

constexpr int kBaseVectors = 4;  // of one thread
constexpr int kMostColumns = 32;
constexpr int64_t kMostBlocksOfFew = 1024;               // in one launch
constexpr int64_t kMostShortUpdates = int64_t{1} << 30;  // numbered with 32 bits

Dim updates_of(const Graph& graph, const Node& node) { return element_count(graph.shape(node.inputs[1])); }

// What both ways of it have in common: the sizes, and how threads share columns.
class GpuScatterAddWriter : public KernelWriter {
 public:
  explicit GpuScatterAddWriter(const KernelInputs& inputs)
      : KernelWriter(inputs),
        index_dtype_(gpu_index_type(graph_, materialized_, request_)),
        member_(request_.members.front()),
        node_(graph_.node(member_)) {
    const Shape& shape = graph_.shape(node_.inputs[0]);
    const auto axis = static_cast<ptrdiff_t>(node_.attributes.axes[0]);
    outer_ = element_count(Shape(shape.begin(), shape.begin() + axis));
    rows_ = shape[static_cast<size_t>(axis)];
    inner_ = element_count(Shape(shape.begin() + axis + 1, shape.end()));
    updates_ = updates_of(graph_, node_);
    // A block's chunk may reach beyond the last update by its own length.
    if (!updates_.is_constant() || updates_.constant() > kMostShortUpdates) index_dtype_ = DType::kI64;
    index_type_ = compute_type(index_dtype_);
    lanes_ = gpu_lanes(graph_, materialized_, request_, outer_ * rows_ * inner_, inner_);
    vectors_ = *inner_.divide_exactly(lanes_);
    if (vectors_.is_constant() && vectors_.constant() < kMostColumns)
      columns_ = static_cast<int>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(vectors_.constant(), 1))));
  }

 protected:
  int add_loop_variable(const std::string& name, const Dim& extent, int depth) {
    variables_.push_back({name, extent, depth});
    return static_cast<int>(variables_.size()) - 1;
  }

  std::string type() const { return compute_type(graph_.dtype(member_)); }

  DType index_dtype_;  // of indices, and its text
  std::string index_type_;
  Value member_;
  const Node& node_;
  Dim outer_, rows_, inner_, updates_;
  int lanes_ = 1;
  Dim vectors_;                 // of lanes_ neighbouring columns
  int columns_ = kMostColumns;  // vectors of a team: a thread for each
};

// Few updates, in one launch.
class GpuFewUpdatesWriter : public GpuScatterAddWriter {
 public:
  using GpuScatterAddWriter::GpuScatterAddWriter;

  GeneratedKernel write() {
    const Dim rows = outer_ * rows_ * vectors_, updates = outer_ * updates_ * vectors_;
    const std::string body = few_text();
    GeneratedKernel kernel = finish("#include \"causeway/kernels/gpu/scatter_add.h\"\n" +
                                    gpu_kernel("kernel", kLoopThreads) + prologue() + body + "}\n");
    kernel.phases.push_back(
        gpu_phase("kernel", kLoopThreads, 0, [rows, updates, vectors = kBaseVectors](const SymbolBindings& bindings) {
          const int64_t of_rows = divide_up(rows.evaluate(bindings), int64_t{kLoopThreads} * vectors);
          return std::max(divide_up(updates.evaluate(bindings), kLoopThreads), std::min(of_rows, kMostBlocksOfFew));
        }));
    return kernel;
  }

 private:
  // One launch: every thread looks at all indices. In the base's place it computes the rows that updates go to, and the
  // thread of the first of those with one index adds them all; otherwise it computes every row.
  std::string few_text() {
    const DType dtype = graph_.dtype(member_);
    ExpressionEmitter of_updates(graph_, *this, variables_, symbols_), of_base(graph_, *this, variables_, symbols_);
    const int outer_variable = add_loop_variable("o", outer_, kThreadDepth);
    const int vector = add_loop_variable("c", vectors_, kThreadDepth);
    const int row = add_loop_variable("row", rows_, kThreadDepth);
    const int update = add_loop_variable("j", updates_, kElementDepth);
    const int lane = add_loop_variable("e", lanes_, kLaneDepth);
    ExpressionEmitter of_keys(graph_, *this, variables_, symbols_);
    for (ExpressionEmitter* const emitter : {&of_updates, &of_base, &of_keys}) emitter->set_index_type(index_type_);
    const auto position = [&](int line, const Dim& lines) {
      const Index column = add(scale(Index::of(vector), lanes_), Index::of(lane));
      return add(scale(add(scale(Index::of(outer_variable), lines), Index::of(line)), inner_), column);
    };
    const ElementValue key = of_keys.compute(node_.inputs[1], {Index::of(update), {}});
    const ElementValue value = of_updates.compute(node_.inputs[2], {position(update, updates_), {}});
    const ElementValue base = of_base.compute(node_.inputs[0], {position(row, rows_), {}});
    const std::string top = of_keys.take_statements(0) + of_updates.take_statements(0) + of_base.take_statements(0);
    const bool has_base = materialized_.contains(node_.inputs[0]);
    const std::string in_place = has_base ? fmt::format("static_cast<const void*>({}) == static_cast<const void*>({})",
                                                        pointer(node_.inputs[0]), pointer(member_))
                                          : std::string("false");
    std::string body =
        top + fmt::format(
                  "typedef {0} Index;\nconst Index rows = {1}, vectors = {2};\nconstexpr Index updates = {3};\n"
                  "const auto key_at = [&](Index j) {{\n{4}return {5} < 0 || {5} >= rows ? rows : "
                  "static_cast<Index>({5});\n}};\n",
                  index_type_, symbols_.text(rows_), symbols_.text(vectors_), updates_.constant(),
                  of_keys.take_statements(kElementDepth), key.name);
    const auto with_place = [&](const std::string& line, const std::string& lines) {
      return fmt::format("const Index c = item % vectors, {0} = item / vectors % {1}, o = item / vectors / {1};\n",
                         line, lines);
    };
    const std::string add_up = fmt::format(
        "for (Index j = first; j < updates; ++j) {{\nif (key_at(j) != row) continue;\n{0}{1}{2}"
        "sums[e] = SumOf()(sums[e], {3});\n}}\n}}\n",
        of_updates.take_statements(kElementDepth), lane_loop("e", lanes_), of_updates.take_statements(kLaneDepth),
        value.name);
    const std::string thread = of_updates.take_statements(kThreadDepth);
    const std::string store = fmt::format(
        "{0} stored[{1}];\n{2}stored[e] = {3};\n}}\nstore_lanes({4} + ((o * rows + row) * {5} + c * {1}), stored);\n",
        storage_type(dtype), lanes_, lane_loop("e", lanes_), to_storage(dtype, "sums[e]"), pointer(member_),
        symbols_.text(inner_));
    const std::string load = fmt::format("{0} sums[{1}];\n{2}{3}{4}sums[e] = {5};\n}}\n", type(), lanes_,
                                         of_base.take_statements(kThreadDepth), lane_loop("e", lanes_),
                                         of_base.take_statements(kLaneDepth), base.name);
    const std::string zeros = fmt::format("{0}sums[e] = 0;\n}}\n", lane_loop("e", lanes_));
    const bool replaces = node_.attributes.replaces;
    // Where rows are replaced, what lies in the base's place is not read.
    const std::string load_in_place = replaces ? fmt::format("{} sums[{}];\n{}", type(), lanes_, zeros) : load;
    const std::string clear =
        replaces
            ? "for (Index j = first; j < updates; ++j) {\nif (key_at(j) != row) continue;\n" + zeros + "break;\n}\n"
            : "";
    body += fmt::format("Index item = static_cast<Index>(task) * {} + thread_index();\n", kLoopThreads);
    body += fmt::format(
        "if ({0}) {{\nif (item >= {1} * updates * vectors) return;\n{2}const Index row = key_at(first);\n"
        "if (row == rows) return;\nfor (Index j = 0; j < first; ++j)\nif (key_at(j) == row) return;\n"
        "{3}{4}{5}{6}}} else {{\n",
        in_place, symbols_.text(outer_), with_place("first", "updates"), thread, load_in_place, add_up, store);
    return body + fmt::format(
                      "const Index first = 0;\nfor (; item < {0} * rows * vectors; item += static_cast<Index>("
                      "block_count()) * {1}) {{\n{2}{3}{4}{5}{6}{7}}}\n}}\n",
                      symbols_.text(outer_), kLoopThreads, with_place("row", "rows"), thread, load, clear, add_up,
                      store);
  }
};

// Any number, which are sorted first.
class GpuSortedUpdatesWriter : public GpuScatterAddWriter {
 public:
  using GpuScatterAddWriter::GpuScatterAddWriter;

  GeneratedKernel write() {
    struct Function {
      std::string name;
      int threads, shared_bytes;
      std::string body;
      SizeFunction tasks;
      bool has_lists = true;
    };
    const int passes = rows_.is_constant() ? sort_passes(rows_.constant()) : kSortMostPasses;
    // All pointers and sizes are known once every body is written.
    std::vector<Function> functions;
    functions.push_back({"kernel", kLoopThreads, 0, base_text(),
                         [count = outer_ * rows_ * inner_, lanes = lanes_](const SymbolBindings& bindings) {
                           return divide_up(count.evaluate(bindings), int64_t{lanes} * kLoopThreads * kBaseVectors);
                         },
                         false});
    for (int pass = 0; pass < passes; ++pass) {
      const SizeFunction blocks = [rows = rows_, updates = updates_, pass](const SymbolBindings& bindings) {
        return pass < sort_passes(rows.evaluate(bindings)) ? sort_blocks(updates.evaluate(bindings)) : 0;
      };
      functions.push_back(
          {fmt::format("kernel_count_{}", pass), kSortThreads, kSortSharedBytes, count_text(pass), blocks});
      functions.push_back(
          {fmt::format("kernel_order_{}", pass), kSortThreads, kSortSharedBytes, order_text(pass), blocks});
    }
    const SizeFunction teams = [outer = outer_, updates = updates_, vectors = vectors_,
                                columns = columns_](const SymbolBindings& bindings) {
      return divide_up(outer.evaluate(bindings) * sum_windows(updates.evaluate(bindings)) *
                           divide_up(vectors.evaluate(bindings), columns),
                       kSumThreads / columns);
    };
    functions.push_back({"kernel_add", kSumThreads, 0, add_text(), teams});
    functions.push_back({"kernel_finish", kSumThreads, 0, finish_text(), teams});
    const bool one_window = updates_.is_constant() && sum_windows(updates_.constant()) <= 1;
    if (one_window || request_.fixed_order) functions.pop_back();
    const std::string open = open_text();
    std::string source = "#include \"causeway/kernels/gpu/scatter_add.h\"\n";
    for (const Function& function : functions)
      source += gpu_kernel(function.name, function.threads) + prologue() + (function.has_lists ? open : "") +
                function.body + "}\n";
    GeneratedKernel kernel = finish(std::move(source));
    for (const Function& function : functions)
      kernel.phases.push_back(gpu_phase(function.name, function.threads, function.shared_bytes, function.tasks));
    kernel.workspace_bytes = [updates = updates_, row = outer_ * inner_, index_bytes = index_bytes(),
                              element_bytes = element_bytes()](const SymbolBindings& bindings) {
      return scatter_workspace_bytes(updates.evaluate(bindings), index_bytes, row.evaluate(bindings) * element_bytes);
    };
    return kernel;
  }

 private:
  int64_t index_bytes() const { return static_cast<int64_t>(size_bytes(index_dtype_)); }
  // Of type().
  int64_t element_bytes() const {
    return std::max<int64_t>(4, static_cast<int64_t>(size_bytes(graph_.dtype(member_))));
  }

  // What every function but the first begins with.
  std::string open_text() {
    const size_t workspace = arguments_.size();
    arguments_.push_back({KernelArgument::Kind::kWorkspace, {}, true});
    return fmt::format(
        "typedef {0} Index;\nconst Index updates = {1}, rows = {2};\nchar* workspace = {3};\n"
        "Index* lists = reinterpret_cast<Index*>(workspace);\nIndex* counts = lists + sort_counts(updates);\n",
        index_type_, symbols_.text(updates_), symbols_.text(rows_), buffer_pointer("char", workspace));
  }

  // The result starts as the base, and does already where it takes the base's place.
  std::string base_text() {
    ExpressionEmitter emitter(graph_, *this, variables_, symbols_);
    emitter.set_index_type(index_type_);
    const Dim count = outer_ * rows_ * inner_;
    const int vector = add_loop_variable("v", *count.divide_exactly(lanes_), kThreadDepth);
    const int lane = add_loop_variable("e", lanes_, kLaneDepth);
    const Index position = add(scale(Index::of(vector), lanes_), Index::of(lane));
    const DType dtype = graph_.dtype(member_);
    const ElementValue value = emitter.compute(node_.inputs[0], {position, {}});
    const std::string out = pointer(member_), text = emitter.index_text(position);
    std::string body;
    if (materialized_.contains(node_.inputs[0]))
      body += fmt::format("if (static_cast<const void*>({}) == static_cast<const void*>({})) return;\n",
                          pointer(node_.inputs[0]), out);
    body += emitter.take_statements(0);
    body += fmt::format(
        "#pragma clang loop unroll(full)\nfor (int part = 0; part < {0}; ++part) {{\n"
        "const {1} v = (static_cast<{1}>(task) * {0} + part) * {2} + thread_index();\nif (v * {3} >= {4}) return;\n"
        "{5}{6} values[{3}];\n",
        kBaseVectors, index_type_, kLoopThreads, lanes_, symbols_.text(count), emitter.take_statements(kThreadDepth),
        storage_type(dtype));
    body += lane_loop("e", lanes_) + emitter.take_statements(kLaneDepth) +
            fmt::format("values[e] = {};\n}}\n", to_storage(dtype, value.name));
    return body + lane_loop("e", lanes_) + fmt::format("{}[{}] = values[e];\n}}\n}}\n", out, text);
  }

  // key_at and update_at of scatter_add.h: of the list that the pass before has written, or of the updates as they
  // come.
  std::string list_text(int pass) {
    if (pass > 0)
      return fmt::format(
          "const Index* last_order = lists + sort_list(updates, {});\n"
          "const auto update_at = [&](Index i) {{ return last_order[i]; }};\n"
          "const auto key_at = [&](Index i) {{ return last_order[updates + i]; }};\n",
          (pass - 1) % 2);
    ExpressionEmitter emitter(graph_, *this, variables_, symbols_);
    emitter.set_index_type(index_type_);
    const int update = add_loop_variable("j", updates_, kElementDepth);
    const ElementValue where = emitter.compute(node_.inputs[1], {Index::of(update), {}});
    const std::string top = emitter.take_statements(0);
    return top + fmt::format(
                     "const auto update_at = [&](Index i) {{ return i; }};\nconst auto key_at = [&](Index j) {{\n"
                     "{0}return {1} < 0 || {1} >= {2} ? rows : static_cast<Index>({1});\n}};\n",
                     emitter.take_statements(kElementDepth), where.name, symbols_.text(rows_));
  }

  std::string count_text(int pass) {
    return list_text(pass) + fmt::format("count_digits(updates, task, {}, counts, key_at);\n", pass);
  }

  std::string order_text(int pass) {
    return list_text(pass) +
           fmt::format(
               "Index* order = lists + sort_list(updates, {});\n"
               "order_by_digit(updates, task, {}, counts, order, order + updates, key_at, update_at);\n",
               pass % 2, pass);
  }

  // The team's place: o, window, and c, its thread's vector of columns; the sorted list; how a row is written.
  std::string team_text(const std::string& row) {
    return fmt::format(
               "const Index column_blocks = ({0} + {1}) / {2}, windows = static_cast<Index>(sum_windows(updates));\n"
               "const Index team = static_cast<Index>(task) * {3} + thread_index() / {2};\n"
               "const Index c = team % column_blocks * {2} + thread_index() % {2};\n"
               "const Index window = team / column_blocks % windows, o = team / column_blocks / windows;\n"
               "if (o >= {4} || c >= {0}) return;\n"
               "const Index* order = lists + sort_list(updates, (sort_passes(rows) + 1) % 2);\n"
               "const Index* keys = order + updates;\n",
               symbols_.text(vectors_), columns_ - 1, columns_, kSumThreads / columns_, symbols_.text(outer_)) +
           fmt::format(
               "const PartialSums<{0}, Index> partials = {{reinterpret_cast<{0}*>(workspace + "
               "partial_sums_byte(updates, {1})) + o * windows * 2 * {2} + c * {3}, {2}}};\n",
               type(), index_bytes(), symbols_.text(inner_), lanes_) +
           fmt::format(
               "const auto store_row = [&](Index key, const {0} (&sums)[{1}]) {{\n{2} stored[{1}];\n{3}"
               "stored[e] = {4};\n}}\nstore_lanes({5}, stored);\n}};\n",
               type(), lanes_, storage_type(graph_.dtype(member_)), lane_loop("e", lanes_),
               to_storage(graph_.dtype(member_), "sums[e]"), row);
  }

  // Of o, key and c.
  std::string row_text() {
    return fmt::format("{} + ((o * rows + key) * {} + c * {})", pointer(member_), symbols_.text(inner_), lanes_);
  }

  std::string add_text() {
    ExpressionEmitter emitter(graph_, *this, variables_, symbols_);
    emitter.set_index_type(index_type_);
    const int outer_variable = add_loop_variable("o", outer_, kThreadDepth);
    const int vector = add_loop_variable("c", vectors_, kThreadDepth);
    const int update = add_loop_variable("j", updates_, kElementDepth);
    const int lane = add_loop_variable("e", lanes_, kLaneDepth);
    const Index column = add(scale(Index::of(vector), lanes_), Index::of(lane));
    const Index from = add(scale(add(scale(Index::of(outer_variable), updates_), Index::of(update)), inner_), column);
    const ElementValue value = emitter.compute(node_.inputs[2], {from, {}});
    const std::string row = row_text(), top = emitter.take_statements(0);
    std::string body = top + team_text(row) + emitter.take_statements(kThreadDepth);
    body += fmt::format(
        "const auto load_update = [&](Index j, {0} (&values)[{1}]) {{\n{2}{3}{4}values[e] = {5};\n}}\n}};\n", type(),
        lanes_, emitter.take_statements(kElementDepth), lane_loop("e", lanes_), emitter.take_statements(kLaneDepth),
        value.name);
    if (node_.attributes.replaces) {
      body += fmt::format("const auto load_row = [&](Index, {}(&values)[{}]) {{\n{}values[e] = 0;\n}}\n}};\n", type(),
                          lanes_, lane_loop("e", lanes_));
    } else {
      body += fmt::format(
          "const auto load_row = [&](Index key, {0} (&values)[{1}]) {{\nconst auto* row = {2};\n{3}"
          "values[e] = {4};\n}}\n}};\n",
          type(), lanes_, row, lane_loop("e", lanes_), from_storage(graph_.dtype(member_), "row[e]"));
    }
    return body + fmt::format("{}<{}, {}>(updates, window, rows, order, keys, {}load_update, load_row, store_row);\n",
                              request_.fixed_order ? "add_whole_runs" : "add_window", lanes_, type(),
                              request_.fixed_order ? "" : "partials, ");
  }

  std::string finish_text() {
    return team_text(row_text()) +
           fmt::format("add_partial_sums<{}, {}>(updates, window, rows, keys, partials, store_row);\n", lanes_, type());
  }
};

// Whether each thread can look at all indices.
bool has_few_updates(const KernelInputs& inputs) {
  const Dim updates = updates_of(inputs.graph, inputs.graph.node(inputs.request.members.front()));
  return updates.is_constant() && updates.constant() <= kFewUpdates;
}

}  // namespace

GeneratedKernel write_gpu_scatter_add_kernel(const KernelInputs& inputs) {
  if (has_few_updates(inputs)) return GpuFewUpdatesWriter(inputs).write();
  return GpuSortedUpdatesWriter(inputs).write();
}

}  // namespace causeway::codegen
