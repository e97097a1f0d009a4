// Reductions whose input's last axis is kept, on GPUs: the threads of a block are rows of neighbouring columns; each
// walks its share of the reduced elements, and the rows are then added up in order. Long reductions are cut into parts
// that a second launch adds up. A request may have several reductions of one shape over the same axes, and elementwise
// values of that shape, which are stored on the way.
#include <algorithm>

#include "causeway/base/error.h"
#include "causeway/codegen/expressions/kernel_writer.h"
#include "causeway/codegen/gpu/loops.h"
#include "causeway/device/gpu_architecture.h"

namespace causeway::codegen {
namespace {

// Enough to keep a large GPU busy; constants, so that devices agree in results. Blocks that also store elements run
// longer and fewer at a time, and the last of them are not to leave most of the GPU idle: five rounds of three for each
// of so many multiprocessors, a few less where columns do not divide them.
constexpr int64_t kManyBlocks = 512, kManyStoringBlocks = 5 * 3 * device::kMeasuredUnits;
constexpr int kUnrolledSteps = 4;
constexpr int kGroupedSteps = 2;          // of a thread, whose loads all come before their stores
constexpr int kStoringBlocksPerUnit = 3;  // registers for less would leave too few loads under way
constexpr int64_t kLeastSteps = 8;        // of a thread in one part
constexpr int64_t kPartsOfUnknownColumns = 32;

class GpuColumnReduceWriter : public KernelWriter {
 public:
  using KernelWriter::KernelWriter;

  GeneratedKernel write() {
    for (const Value member : request_.members)
      (op_info(graph_.node(member).op).kind == OpKind::kReduce ? reductions_ : elements_).push_back(member);
    const Node& node = graph_.node(reductions_.front());
    index_type_ = compute_type(gpu_index_type(graph_, materialized_, request_));
    measure(node);
    axes_ = {{outer_, Group::kOuter}, {reduced_, Group::kReduced}, {inner_, Group::kColumn}};
    cut_axes();
    cut_lanes();
    cut_axes();
    plan();
    reset();
    write_body();
    CAUSEWAY_CHECK(!wanted_split_, "the loops want other axes than those they were planned with");
    return assemble();
  }

  void want_split(int variable, const Dim& inner) override {
    for (size_t i = 0; i < axes_.size(); ++i)
      if (axis_variables_[i] == variable && !wanted_split_ && axes_[i].group != Group::kLane)
        wanted_split_ = {i, inner};
  }

 private:
  // The input as [outer, reduced, inner], or with outer and reduced axes mixed.
  enum class Group { kOuter, kReduced, kColumn, kLane };
  struct Axis {
    Dim extent;
    Group group;
  };

  static bool is_reduced(const Node& node, size_t axis) {
    return std::binary_search(node.attributes.axes.begin(), node.attributes.axes.end(), static_cast<int64_t>(axis));
  }

  void measure(const Node& node) {
    const Shape& shape = graph_.shape(node.inputs[0]);
    trailing_ = shape.size();
    while (trailing_ > 0 && !is_reduced(node, trailing_ - 1)) inner_ *= shape[--trailing_];
    for (size_t i = 0; i < trailing_; ++i) (is_reduced(node, i) ? reduced_ : outer_) *= shape[i];
    const std::vector<int64_t>& axes = node.attributes.axes;
    adjacent_ = axes.back() - axes.front() + 1 == static_cast<int64_t>(axes.size());
  }

  // Until index arithmetic need not divide, as far as that is possible.
  void cut_axes() {
    do {
      reset();
      ElementWalk walk(graph_, *this, variables_);
      if (has_lanes()) walk.set_lanes(axis_variables_.back(), lanes_);
      const ElementPosition position = element_position(walk);
      for (const Value element : elements_) walk.define(element, position);
      for (const Value reduction : reductions_) walk.compute(graph_.node(reduction).inputs[0], position);
    } while (cut_wanted_axis());
  }

  bool has_lanes() const { return axes_.back().group == Group::kLane; }

  void reset() {
    variables_.clear();
    axis_variables_.clear();
    wanted_split_.reset();
    for (const Axis& axis : axes_) {
      const char* prefix = axis.group == Group::kOuter     ? "o"
                           : axis.group == Group::kReduced ? "k"
                           : axis.group == Group::kColumn  ? "c"
                                                           : "e";
      const int depth = axis.group == Group::kReduced ? kElementDepth
                        : axis.group == Group::kLane  ? kLaneDepth
                                                      : kThreadDepth;
      axis_variables_.push_back(static_cast<int>(variables_.size()));
      variables_.push_back({fmt::format("{}{}", prefix, variables_.size()), axis.extent, depth});
    }
  }

  bool cut_wanted_axis() {
    if (!wanted_split_) return false;
    const auto [axis, inner] = *wanted_split_;
    const Axis cut = axes_[axis];
    axes_[axis] = {inner, cut.group};
    axes_.insert(axes_.begin() + static_cast<ptrdiff_t>(axis), {*cut.extent.divide_exactly(inner), cut.group});
    return true;
  }

  void cut_lanes() {
    const Dim extent = axes_.back().extent;
    lanes_ = gpu_lanes(graph_, materialized_, request_, outer_ * reduced_ * inner_, extent);
    axes_.back().extent = *extent.divide_exactly(lanes_);
    axes_.push_back({Dim(lanes_), Group::kLane});
    vectors_ = *inner_.divide_exactly(lanes_);
  }

  // The running number of a group's axes; the lanes belong to the columns.
  Index group_linear(Group group) const {
    Index linear = Index::constant(0);
    Dim stride(1);
    for (size_t i = axes_.size(); i-- > 0;) {
      if (axes_[i].group != group && !(group == Group::kColumn && axes_[i].group == Group::kLane)) continue;
      linear = add(linear, scale(Index::of(axis_variables_[i]), stride));
      stride *= axes_[i].extent;
    }
    return linear;
  }

  // The position in the reductions' input that the loops are at.
  ElementPosition element_position(ElementWalk& walk) const {
    const Node& node = graph_.node(reductions_.front());
    const Shape& shape = graph_.shape(node.inputs[0]);
    const Index outer = group_linear(Group::kOuter), reduced = group_linear(Group::kReduced),
                column = group_linear(Group::kColumn);
    if (adjacent_) return {add(add(scale(outer, reduced_ * inner_), scale(reduced, inner_)), column), {}};
    Shape outer_shape, reduced_shape;
    for (size_t i = 0; i < trailing_; ++i) (is_reduced(node, i) ? reduced_shape : outer_shape).push_back(shape[i]);
    const std::vector<Index> outer_at = walk.delinearize(outer, outer_shape);
    const std::vector<Index> reduced_at = walk.delinearize(reduced, reduced_shape);
    const std::vector<Index> inner_at =
        walk.delinearize(column, Shape(shape.begin() + static_cast<ptrdiff_t>(trailing_), shape.end()));
    std::vector<Index> at;
    size_t next_outer = 0, next_reduced = 0;
    for (size_t i = 0; i < trailing_; ++i)
      at.push_back(is_reduced(node, i) ? reduced_at[next_reduced++] : outer_at[next_outer++]);
    at.insert(at.end(), inner_at.begin(), inner_at.end());
    return {{}, at};
  }

  void write_body() {
    ExpressionEmitter emitter(graph_, *this, variables_, symbols_);
    emitter.set_index_type(index_type_);
    emitter.set_lanes(axis_variables_.back(), lanes_);
    const ElementPosition position = element_position(emitter);
    std::string updates;
    for (size_t i = 0; i < elements_.size(); ++i) {
      CAUSEWAY_CHECK(adjacent_, "elements are stored in the order of the input");
      const DType dtype = graph_.dtype(elements_[i]);
      const std::string name = emitter.define(elements_[i], position).name;
      const std::string lane = variables_[static_cast<size_t>(axis_variables_.back())].name;
      group_arrays_ +=
          fmt::format("{0} v{1}[{2}][{3}];\n{0}* to{1}[{2}];\n", storage_type(dtype), i, kGroupedSteps, lanes_);
      updates += fmt::format("v{}[group][{}] = {};\n", i, lane, to_storage(dtype, name));
      Index first = *position.linear;
      std::erase_if(first.terms, [&](const Index::Term& term) { return term.variable == axis_variables_.back(); });
      updates += fmt::format("to{}[group] = {} + ({});\n", i, pointer(elements_[i]), emitter.index_text(first));
      stores_ += fmt::format("store_lanes(to{0}[group], v{0}[group]);\n", i);
    }
    for (const Value reduction : reductions_)
      inputs_.push_back(emitter.compute(graph_.node(reduction).inputs[0], position).name);
    top_ = emitter.take_statements(0);
    thread_text_ = emitter.take_statements(kThreadDepth);
    reduced_text_ = emitter.take_statements(kElementDepth);
    lane_text_ = emitter.take_statements(kLaneDepth) + updates;
    result_at_ = emitter.index_text(add(scale(group_linear(Group::kOuter), inner_), group_linear(Group::kColumn)));
  }

  // How threads and parts share the work; it depends on sizes only, and in a fixed order on none.
  void plan() {
    block_columns_ = 32;
    if (vectors_.is_constant() && !request_.fixed_order)
      while (block_columns_ > 1 && block_columns_ / 2 >= vectors_.constant()) block_columns_ /= 2;
    block_rows_ = kLoopThreads / block_columns_;
    parts_ = 1;
    if (!outer_.is_constant() || !vectors_.is_constant() || request_.fixed_order) return;
    const int64_t blocks = std::max<int64_t>(1, outer_.constant() * divide_up(vectors_.constant(), block_columns_));
    parts_ = std::max<int64_t>(1, (elements_.empty() ? kManyBlocks : kManyStoringBlocks) / blocks);
    const int64_t most =
        reduced_.is_constant() ? reduced_.constant() / (block_rows_ * kLeastSteps) : kPartsOfUnknownColumns;
    parts_ = std::clamp<int64_t>(parts_, 1, std::max<int64_t>(1, most));
  }

  std::string group_variables(Group group, const std::string& running) {
    std::vector<std::pair<std::string, std::string>> names;
    for (size_t i = 0; i < axes_.size(); ++i)
      if (axes_[i].group == group)
        names.emplace_back(variables_[static_cast<size_t>(axis_variables_[i])].name, symbols_.text(axes_[i].extent));
    return gpu_axis_variables(index_type_, running, names);
  }

  GpuAccumulator accumulator(size_t reduction) const {
    const Value member = reductions_[reduction];
    return {graph_.node(member).op, graph_.dtype(member)};
  }

  GeneratedKernel assemble() {
    const std::string lane = variables_[static_cast<size_t>(axis_variables_.back())].name;
    const std::string lanes = lane_loop(lane, lanes_);
    std::vector<std::string> out;
    for (const Value reduction : reductions_) out.push_back(pointer(reduction));
    const size_t workspace = arguments_.size();
    const std::string vectors = symbols_.text(vectors_), reduced = symbols_.text(reduced_),
                      outer = symbols_.text(outer_), inner = symbols_.text(inner_);
    const std::string count = fmt::format("{} * {}", outer, inner);  // of results
    std::string open_workspace;
    if (parts_ > 1) {
      arguments_.push_back({KernelArgument::Kind::kWorkspace, {}, true});
      const std::string type = accumulator(0).type();
      open_workspace = fmt::format("auto* partials = {};\n", buffer_pointer(type, workspace));
    }
    std::string body = open_workspace + top_;
    body += fmt::format(
        "const int x = thread_index() % {0}, y = thread_index() / {0};\n"
        "const {1} column_blocks = ({2} + {3}) / {0};\n"
        "const {1} vector = task % column_blocks * {0} + x;\n"
        "const {1} column = vector < {2} ? vector : {2} - 1;\n"
        "const {1} outer = task / column_blocks % {4};\nconst {1} part = task / column_blocks / {4};\n",
        block_columns_, index_type_, vectors, block_columns_ - 1, outer);
    body += group_variables(Group::kOuter, "outer") + group_variables(Group::kColumn, "column");
    body += thread_text_;
    body += fmt::format(
        "const {0} part_steps = ({1} + {2}) / {3};\nconst {0} part_end = (part + 1) * part_steps;\n"
        "const {0} last = part_end < {1} ? part_end : {1};\n",
        index_type_, reduced, parts_ - 1, parts_);
    std::string takes, results;
    for (size_t i = 0; i < reductions_.size(); ++i) {
      const GpuAccumulator sum = accumulator(i);
      const DType dtype = graph_.dtype(reductions_[i]);
      body +=
          fmt::format("{} sums{}[{}];\n{}sums{}[{}] = {};\n}}\n", sum.type(), i, lanes_, lanes, i, lane, sum.initial());
      // Of a step past the end, which repeats the last one, nothing is added.
      takes += sum.take(fmt::format("sums{}[{}]", i, lane),
                        elements_.empty() ? inputs_[i] : fmt::format("(counts ? {} : 0.0f)", inputs_[i]));
      const std::string value = fmt::format("sums{}[{}]", i, lane);
      results += fmt::format("reduce_rows<{}, {}, {}>(sums{}, {}());\nif (y == 0 && vector < {}) {{\n{}",
                             block_columns_, block_rows_, lanes_, i, sum.operation(), vectors, lanes) +
                 (parts_ == 1 ? fmt::format("{}[{}] = {};\n", out[i], result_at_, to_storage(dtype, sum.result(value)))
                              : fmt::format("partials[({} + part) * {} + outer * {} + vector * {} + {}] = {};\n",
                                            static_cast<int64_t>(i) * parts_, count, inner, lanes_, lane, value)) +
                 "}\n}\n";
    }
    const std::string steps = reduced_text_ + lanes + lane_text_ + takes + "}\n";
    if (elements_.empty()) {
      body += fmt::format(
                  "#pragma clang loop unroll_count({2})\n"
                  "for ({0} step = part * part_steps + y; step < last; step += {1}) {{\n",
                  index_type_, block_rows_, kUnrolledSteps) +
              group_variables(Group::kReduced, "step") + steps;
    } else {
      // A store may overwrite what is loaded after it for all the compiler knows.
      body += fmt::format(
                  "for ({0} first = part * part_steps + y; first < last; first += {1}) {{\n{2}"
                  "#pragma clang loop unroll(full)\nfor (int group = 0; group < {3}; ++group) {{\n"
                  "const bool counts = first + group * {4} < last;\n"
                  "const {0} step = counts ? first + group * {4} : last - 1;\n",
                  index_type_, block_rows_ * kGroupedSteps, group_arrays_, kGroupedSteps, block_rows_) +
              group_variables(Group::kReduced, "step") + steps +
              fmt::format(
                  "}}\nif (vector < {0}) {{\n#pragma clang loop unroll(full)\n"
                  "for (int group = 0; group < {1}; ++group) {{\nif (first + group * {2} >= last) break;\n{3}}}\n}}\n",
                  vectors, kGroupedSteps, block_rows_, stores_);
    }
    body += "}\n" + results;
    std::vector<GpuPartsOfSum> parts;
    for (size_t i = 0; i < reductions_.size(); ++i)
      parts.push_back({graph_.node(reductions_[i]).op, graph_.dtype(reductions_[i]), out[i]});
    const std::string finish_body =
        parts_ > 1 ? open_workspace + gpu_add_parts({}, index_type_, count, parts_, parts) : "";
    std::string source = "#include \"causeway/kernels/gpu/lanes.h\"\n#include \"causeway/kernels/gpu/reduce.h\"\n" +
                         gpu_kernel("kernel", kLoopThreads, elements_.empty() ? 1 : kStoringBlocksPerUnit) +
                         prologue() + body + "}\n";
    if (parts_ > 1) source += gpu_kernel("kernel_finish", kLoopThreads) + prologue() + finish_body + "}\n";
    GeneratedKernel kernel = finish(source);
    add_phases(kernel);
    return kernel;
  }

  void add_phases(GeneratedKernel& kernel) const {
    int bytes = 1;  // of a running result
    for (const Value reduction : reductions_) {
      const DType dtype = graph_.dtype(reduction);
      bytes = std::max(bytes, is_float(dtype) ? 4 : static_cast<int>(size_bytes(dtype)));
    }
    kernel.phases = {gpu_phase("kernel", kLoopThreads, block_rows_ > 1 ? kLoopThreads * lanes_ * bytes : 0,
                               [outer = outer_, vectors = vectors_, parts = parts_,
                                columns = int64_t{block_columns_}](const SymbolBindings& bindings) {
                                 return parts * outer.evaluate(bindings) *
                                        divide_up(vectors.evaluate(bindings), columns);
                               })};
    if (parts_ > 1) {
      const Dim results = outer_ * inner_;
      kernel.phases.push_back(
          gpu_phase("kernel_finish", kLoopThreads, kLoopThreads * bytes,
                    [results](const SymbolBindings& bindings) { return divide_up(results.evaluate(bindings), 32); }));
      const auto reductions = static_cast<int64_t>(reductions_.size());
      kernel.workspace_bytes = [results, bytes, parts = parts_ * reductions](const SymbolBindings& bindings) {
        return parts * results.evaluate(bindings) * bytes;
      };
    }
  }

  std::vector<Value> reductions_, elements_;  // the members
  std::string index_type_;
  Dim outer_{1}, reduced_{1}, inner_{1}, vectors_{1};
  size_t trailing_ = 0;    // the first axis of the kept ones at the end
  bool adjacent_ = false;  // the reduced axes follow one another
  std::vector<Axis> axes_;
  std::vector<int> axis_variables_;
  std::optional<std::pair<size_t, Dim>> wanted_split_;
  int lanes_ = 1, block_columns_ = 32, block_rows_ = 8;
  int64_t parts_ = 1;
  std::string top_, thread_text_, reduced_text_, lane_text_;  // statements of the kernel, and by depth
  std::string group_arrays_, stores_, result_at_;
  std::vector<std::string> inputs_;  // an element of each reduction's input
};

}  // namespace

GeneratedKernel write_gpu_column_reduce_kernel(const KernelInputs& inputs) {
  return GpuColumnReduceWriter(inputs).write();
}

}  // namespace causeway::codegen
