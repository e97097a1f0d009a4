// Loop kernels on CPUs, as their plans have them.
#include "causeway/codegen/divide_up.h"
#include "causeway/codegen/expressions/loop_writer.h"
#include "causeway/codegen/x86/loop_plan.h"

namespace causeway::codegen {
namespace {

class CpuLoopWriter : public LoopWriter<CpuLoopPlan, LoopNest> {
 public:
  using LoopWriter::LoopWriter;

  GeneratedKernel write() {
    ExpressionEmitter emitter(graph_, *this, nest_.variables(), symbols_);
    emitter_ = &emitter;
    nest_.walk(emitter, *this);
    top_ = emitter.take_statements(0);
    check_written();
    return assemble();
  }

 private:
  void row_value(Value member, const ElementValue& value) override {
    rows_ += emitter_->take_statements(kRowDepth);
    rows_ += store_rounded(member, emitter_->index_text(plan_.row), value.name);
  }

  void begin_phase() override {
    initial_.clear();
    innermost_.clear();
    results_.clear();
    phase_ = phases_++;
  }

  void element(size_t position, const ElementValue& value) override {
    innermost_ += store_rounded(request_.members[position], emitter_->index_text(plan_.element), value.name);
  }

  void summand(size_t position, const ElementValue& value) override {
    const Value member = request_.members[position];
    const DType dtype = graph_.dtype(member);
    const std::string accumulator = fmt::format("a{}", position);
    std::string result = accumulator, initial = "0", type = compute_type(dtype);
    switch (plan_.reductions.at(position)) {
      case CpuLoopPlan::Reduction::kLargestKey:
        type = "int32_t";
        initial = "kLowestOrderKey";
        innermost_ += fmt::format("{{ const int32_t key = order_key({1}); {0} = key > {0} ? key : {0}; }}\n",
                                  accumulator, value.name);
        result = fmt::format("from_order_key({})", accumulator);
        break;
      case CpuLoopPlan::Reduction::kLargest:
        initial = fmt::format("lowest_value<{}>()", type);
        innermost_ += fmt::format("{0} = {1} > {0} ? {1} : {0};\n", accumulator, value.name);
        break;
      case CpuLoopPlan::Reduction::kReassociated:
        innermost_ +=
            fmt::format("{{\n_Pragma(\"clang fp reassociate(on)\")\n{} += {};\n}}\n", accumulator, value.name);
        break;
      case CpuLoopPlan::Reduction::kInOrder:
        innermost_ += fmt::format("{} = {};\n", accumulator, sum_text(dtype, accumulator, value.name));
        break;
    }
    initial_ += fmt::format("{} {} = {};\n", type, accumulator, initial);
    results_[position] = result;
  }

  void end_pass() override {
    rows_ += emitter_->take_statements(kRowDepth) + initial_;
    rows_ += column_loops();
  }

  std::string result(size_t position) override {
    const std::string name = new_result_name();
    const Value member = request_.members[position];
    const DType dtype = graph_.dtype(member);
    const std::string& value = results_.at(position);
    rows_ += fmt::format("const {} {} = {};\n", compute_type(dtype), name, rounded(dtype, value));
    rows_ += store_rounded(member, emitter_->index_text(plan_.row), name);
    return name;
  }

  std::string column_loops() {
    std::string text, closing;
    int depth = kRowDepth;
    for (size_t i = 0; i < plan_.axes.size(); ++i) {
      if (plan_.axes[i].is_row()) continue;
      const std::string& name = nest_.axis_name(i);
      // A kernel without rows is cut into tasks along its only loop.
      std::string begin = plan_.is_flat ? "begin" : "0",
                  end = plan_.is_flat ? "end" : symbols_.text(plan_.axes[i].extent);
      if (i + 1 == plan_.axes.size() && prefetches()) {
        const std::string block = name + "_block";
        text += fmt::format(
            "for (int64_t {0}_block = {1}; {0}_block < {2}; {0}_block += {3}) {{\n"
            "{4}const int64_t {0}_end = minimum({0}_block + {3}, {2});\n",
            name, begin, end, CpuLoopPlan::kBlock, prefetch_text(block));
        closing += "}\n";
        begin = block;
        end = name + "_end";
      }
      if (const std::vector<int64_t> cuts = pieces(i, begin); !cuts.empty()) {
        const std::string body = emitter_->take_statements(++depth) + innermost_;
        for (size_t piece = 0; piece + 1 < cuts.size(); ++piece)
          text += fmt::format(
              "#pragma clang loop vectorize(assume_safety)\nfor (int64_t {0} = {1}; {0} < {2}; ++{0}) {{\n{3}}}\n",
              name, cuts[piece], cuts[piece + 1], body);
        return text + closing;
      }
      if (plan_.axes[i].mapping == AxisMapping::kVector) text += "#pragma clang loop vectorize(assume_safety)\n";
      text += fmt::format("for (int64_t {0} = {1}; {0} < {2}; ++{0}) {{\n", name, begin, end);
      text += emitter_->take_statements(++depth);
      closing += "}\n";
    }
    return text + innermost_ + closing;
  }

  // Where an innermost loop that stores each element is cut, with its begin and its end, or nothing. Of vectors without
  // masks: where elements are chosen by their place, a loop for each choice has vectors, and one for all of them none
  // if the elements are narrower than 32 bits.
  std::vector<int64_t> pieces(size_t axis, const std::string& begin) {
    constexpr int64_t kShortest = 8;
    constexpr size_t kMost = 4;
    const bool whole = axis + 1 == plan_.axes.size() && plan_.is_vectorized() && begin == "0" &&
                       plan_.axes[axis].extent.is_constant() && initial_.empty();
    if (!whole || target_.has_avx512()) return {};
    const int64_t extent = plan_.axes[axis].extent.constant();
    std::vector<int64_t> cuts = {0};
    for (int64_t turn : emitter_->turns(static_cast<int>(axis)))
      if (turn > 0 && turn < extent) cuts.push_back(turn);
    cuts.push_back(extent);
    if (cuts.size() == 2 || cuts.size() > kMost + 1) return {};
    for (size_t i = 0; i + 1 < cuts.size(); ++i)
      if (cuts[i + 1] - cuts[i] < kShortest) return {};
    return cuts;
  }

  bool prefetches() const { return phase_ < plan_.prefetches.size() && !plan_.prefetches[phase_].empty(); }

  // Of the block after the one that begins at `block`.
  std::string prefetch_text(const std::string& block) {
    std::string text;
    for (const auto& [value, first] : plan_.prefetches[phase_]) {
      const std::string at = first == Index::constant(0) ? block : emitter_->index_text(first) + " + " + block;
      text += fmt::format("prefetch_elements({} + {} + {}, {});\n", pointer(value), at, CpuLoopPlan::kBlock,
                          CpuLoopPlan::kBlock);
    }
    return text;
  }

  GeneratedKernel assemble() {
    std::string loop =
        fmt::format("const int64_t begin = task * {0};\nconst int64_t end = minimum(begin + {0}, {1});\n",
                    plan_.per_task, size_argument(plan_.count));
    loop += plan_.is_flat ? rows_ : "for (int64_t row = begin; row < end; ++row) {\n" + row_variables() + rows_ + "}\n";
    const std::string source =
        "#include \"causeway/kernels/elementwise.h\"\n"
        "extern \"C\" void kernel(void* const* buffers, const int64_t* sizes, int64_t task, void* scratch) {\n" +
        prologue() + top_ + loop + "}\n";
    GeneratedKernel kernel = finish(source);
    kernel.phases = {{"kernel",
                      [count = plan_.count, per_task = plan_.per_task](const SymbolBindings& bindings) {
                        return divide_up(count.evaluate(bindings), per_task);
                      },
                      [](const SymbolBindings&) { return int64_t{0}; }}};
    return kernel;
  }

  // The row variables from the running row number.
  std::string row_variables() {
    std::vector<size_t> rows;
    for (size_t i = 0; i < plan_.axes.size(); ++i)
      if (plan_.axes[i].is_row()) rows.push_back(i);
    std::string text;
    std::string rest = "row";
    for (size_t i = rows.size(); i-- > 0;) {
      const std::string& name = nest_.axis_name(rows[i]);
      if (i == 0) {
        text += fmt::format("const int64_t {} = {};\n", name, rest);
        continue;
      }
      const std::string extent = symbols_.text(plan_.axes[rows[i]].extent);
      text += fmt::format("const int64_t {} = {} % {};\n", name, rest, extent);
      text += fmt::format("const int64_t {}_above = {} / {};\n", name, rest, extent);
      rest = name + "_above";
    }
    return text;
  }

  ExpressionEmitter* emitter_ = nullptr;   // while the nest is walked
  std::string top_, rows_;                 // statements of the kernel, and of a row
  std::string initial_, innermost_;        // of a phase: what comes before its loops, and inside the innermost
  std::map<size_t, std::string> results_;  // its sums, by the member's position
  size_t phase_ = 0, phases_ = 0;          // the one that is being written, and those begun
};

}  // namespace

GeneratedKernel write_loop_kernel(const KernelInputs& inputs) {
  return CpuLoopWriter(inputs, plan_cpu_loop(inputs)).write();
}

std::optional<Obstacle> find_loop_obstacle(const KernelInputs& inputs) { return plan_cpu_loop(inputs).obstacle; }

}  // namespace causeway::codegen
