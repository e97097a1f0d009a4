// GEMMs through kernels/gpu/gemm.h: operands are read from memory as they lie there, and elementwise values
// of the result are computed while a block has it in shared memory.
#include <algorithm>
#include <limits>

#include "causeway/codegen/expressions/problem_writer.h"
#include "causeway/codegen/gpu/gemm_geometry.h"
#include "causeway/codegen/gpu/gemm_nest.h"
#include "causeway/codegen/gpu/loops.h"
#include "causeway/device/gpu_architecture.h"
#include "causeway/graph/op.h"
#include "causeway/kernels/gpu/skinny_gemm_layout.h"

namespace causeway::codegen {
namespace {

int64_t known_size(const Dim& size) { return size.is_constant() ? size.constant() : kUnknownSize; }

// What is multiplied, where it is not pairs of 8-bit operands: every value of the 8-bit types is a bf16.
std::string operand_type(DType dtype) { return size_bytes(dtype) == 1 ? "bf16" : storage_type(dtype); }
// float in memory, rounded on the way into matrix instructions.
constexpr const char* kRoundedOperand = "tf32";

class GpuDotWriter : public ProblemWriter {
 public:
  explicit GpuDotWriter(const KernelInputs& inputs) : ProblemWriter(inputs), nest_(inputs) {}

  GeneratedKernel write() {
    const Node& node = graph_.node(request_.members.front());
    const auto& [batch_shape, batch, m, n, all_k] = nest_.sizes();
    Dim k = all_k;
    std::string operand = operand_type(graph_.dtype(node.inputs[0]));

    nest_.find_operands();
    check_no_obstacle(nest_.obstacle());
    if (computes_rows()) {
      row_function_ = find_rows();
      CAUSEWAY_CHECK(row_function_, "a product cannot compute the rows of its operand");
    }
    DirectOperand a = nest_.a(), b = nest_.b();
    if (a.value != node.inputs[0] && !computes_rows()) pointer(a.value);
    if (b.value != node.inputs[1]) pointer(b.value);
    std::string store = epilogue();
    check_no_obstacle(nest_.obstacle());

    if (multiplies_pairs(a, b, m, n)) {
      operand = fmt::format("F8Pair<{}, {}>", a.element, b.element);
      a = paired(a, operand);
      b = paired(b, operand);
      k = a.k;
    }
    if (operand == "float" && node.attributes.tf32 && target_.architecture().has_tf32_matrix)
      operand = a.element = b.element = kRoundedOperand;
    // Which of the templates serves a GEMM depends on sizes that its sums do not run over: in a fixed order, one
    // does.
    const bool any = !request_.fixed_order;
    const bool tma = any && serves_tma(a) && serves_tma(b) && !has_skinny_tiles(m, n) &&
                     (operand != kRoundedOperand || b.contiguous_in_k);
    Plan plan = tma                                      ? hopper_plan(a, b, batch, m, n, k)
                : any && streams(a, b, operand, m, n, k) ? skinny_plan(batch, m, n, k)
                                                         : portable_plan(a, b, operand, batch, m, n, k);
    const int lanes = store_lanes(n);
    const bool sends = tma && may_send(n);
    if (sends) {
      store += fmt::format("using Sent = {};\nstatic constexpr int kSent = {};\n",
                           storage_type(graph_.dtype(finished_.front())), finished_.size());
      plan.tensor_maps = static_cast<int>(2 + (finished_.size() + fetched_.size()) *
                                                  sent_columns(graph_.dtype(finished_.front())).size());
    }
    const bool transposed = tma && hopper_tile_.transposed;
    if (transposed) std::swap(a, b);
    std::string members, initialisation;
    declare_size("batch", batch, members, initialisation);
    declare_size("m", transposed ? n : m, members, initialisation);
    declare_size("n", transposed ? m : n, members, initialisation);
    declare_size("k", k, members, initialisation);
    if (node.op == Op::kScaledDot) {
      // Scales of columns are read in pairs.
      const bool in_pairs = graph_.shape(node.inputs[3])[1] != n || n.divide_exactly(2).has_value();
      if (!tma || !operand.starts_with("F8Pair") || !in_pairs)
        throw Error(ErrorKind::kUnsupported,
                    fmt::format("{} has no kernel for this scaled_dot", target_.architecture().processor), node.scope,
                    "Multiply on sm_90a, with a constant k and an even number of columns, or scale operands of a dot.");
      declare_scales("a", node.inputs[2], m, members, initialisation);
      declare_scales("b", node.inputs[3], n, members, initialisation);
    }
    members += fmt::format("static constexpr int kStoreLanes = {};\n{}\nstatic constexpr int kSplits = {};\n", lanes,
                           plan.tile, plan.splits);
    const std::string operands =
        operand_struct("A", "a", a, tma, initialisation) + operand_struct("B", "b", b, tma, initialisation);
    if (plan.splits > 1) {
      members += "float* workspace;\n";
      initialisation += fmt::format("workspace = {};\n", buffer_pointer("float", arguments_.size()));
      arguments_.push_back({KernelArgument::Kind::kWorkspace, {}, true});
    }
    if (tma) plan.call = fmt::format("hopper_gemm_run(problem, maps, {});", task_counter());
    const std::string problem = fmt::format("struct Problem {{\nusing Operand = {};\n", operand) + operands +
                                problem_members(members, initialisation) + store + "};\n";
    if (row_function_) {
      plan.call = fmt::format("skinny_gemm_run(problem, task, [&] {{ compute_rows(buffers + {}, sizes); }});",
                              arguments_.size());
      arguments_.insert(arguments_.end(), row_function_->arguments.begin(), row_function_->arguments.end());
    }
    std::string source =
        fmt::format("#include \"{}\"\nnamespace {{\n", plan.include) + problem + "}\n" +
        (row_function_ ? row_function_->text : "") +
        gpu_kernel("kernel_run", plan.phase.threads, plan.blocks_per_unit, plan.tensor_maps, plan.begins_early) +
        "const Problem problem(buffers, sizes);\n" + plan.call + "\n}\n";
    if (plan.splits > 1)
      source +=
          gpu_kernel("kernel_combine", tma ? kHopperGemmCombineThreads : kGpuGemmCombineThreads, 1, plan.tensor_maps) +
          fmt::format("const Problem problem(buffers, sizes);\n{}(problem, task);\n}}\n",
                      tma ? "hopper_gemm_combine" : "gemm_combine");
    GeneratedKernel kernel = finish(std::move(source));
    kernel.phases.push_back(plan.phase);
    if (plan.splits > 1) {
      if (tma) {
        add_hopper_combine(kernel, plan.splits, plan.split_tiles);
      } else {
        add_combine(kernel, plan.splits, lanes, batch, m, n);
      }
    }
    if (tma) kernel.tensor_maps = tensor_maps(a, b, sends);
    return kernel;
  }

  // What is in the way of computing the first operand's rows.
  std::optional<Obstacle> find_rows_obstacle() {
    nest_.find_operands();
    if (nest_.obstacle() || find_rows()) return nest_.obstacle();
    return Obstacle{Obstacle::Kind::kRowsElsewhere, graph_.node(request_.members.front()).inputs[0]};
  }

  bool is_stored(Value value) override { return nest_.is_stored(value); }
  std::optional<ElementValue> variable(Value value, const Index& linear) override {
    if (const std::optional<ElementValue> own = nest_.variable(value, linear)) return own;
    if (!fetches_) return std::nullopt;
    const bool of_result = linear == nest_.result_linear();
    const bool of_row = !of_result && is_line(linear, nest_.row_variable());
    if (!of_result && !of_row && !is_line(linear, nest_.column_variable())) return std::nullopt;
    std::vector<Fetch>& fetches = of_result ? fetched_ : of_row ? fetched_row_ : fetched_columns_;
    const auto found = std::find(fetches.begin(), fetches.end(), Fetch{value, linear});
    const auto position = found - fetches.begin();
    if (found == fetches.end()) fetches.push_back({value, linear});
    const std::string element = of_row ? fmt::format("row.value{}", position)
                                       : fmt::format("{}.value{}[e]", of_result ? "fetched" : "columns", position);
    return ElementValue{from_storage(graph_.dtype(value), element), kBodyDepth};
  }

 private:
  // The launch of the GEMM's blocks.
  struct Plan {
    std::string tile;  // the Problem's kTile, and kWholeTiles of TMA's GEMMs
    int splits = 1;
    int64_t split_tiles = 0;  // of TMA's GEMMs
    std::string include, call;
    KernelPhase phase;
    int blocks_per_unit = 1;
    int tensor_maps = 0;
    bool begins_early = false;
  };

  bool computes_rows() const { return !request_.row_members.empty(); }

  // Where a few short rows lie one after the other, each block can compute them sooner than a launch of its own.
  std::optional<GpuRowFunction> find_rows() const {
    constexpr int64_t kMostRows = 2;
    const auto& [batch_shape, batch, m, n, k] = nest_.sizes();
    const DirectOperand &a = nest_.a(), &b = nest_.b();
    const bool is_row_member =
        std::find(request_.row_members.begin(), request_.row_members.end(), a.value) != request_.row_members.end();
    if (!is_row_member || !batch.is_constant(1) || !streams(a, b, operand_type(graph_.dtype(a.value)), m, n, k) ||
        m.constant() > kMostRows || !a.offset.is_constant(0) || !(m.is_constant(1) || a.stride == k) ||
        !(element_count(graph_.shape(a.value)) == m * k))
      return std::nullopt;
    const int64_t bytes = skinny_gemm_row_bytes(static_cast<int>(m.constant()), k.constant());
    if (bytes > kSkinnyGemmMostRowBytes) return std::nullopt;
    KernelRequest loop;
    loop.members = request_.row_members;
    for (const Value member : loop.members) loop.stored.push_back(member == a.value);
    loop.rows = request_.rows;
    loop.columns = request_.columns;
    std::optional<GpuRowFunction> function =
        write_gpu_row_function({graph_, materialized_, loop, target_}, a.value, kSkinnyGemmSumsOfRows);
    const int most_threads = kSkinnyGemmWavesPerUnit / 2 * target_.architecture().wave_width;
    if (!function || !function->sizes.empty() || function->threads > most_threads) return std::nullopt;
    return function;
  }

  // Of an operand's blocks, as gemm.h asks for them.
  void declare_scales(const std::string& operand, Value scales, const Dim& lines, std::string& members,
                      std::string& initialisation) {
    const Dim& in_block = graph_.shape(scales)[1];
    declare_size(operand + "_scale_count", in_block, members, initialisation);
    members += fmt::format(
        "const float* {0}_scales;\nstatic constexpr int k{1}LinesOfScale = {2};\n"
        "CAUSEWAY_INLINE const float* {0}_scale(int64_t line, int64_t block) const {{\n"
        "return {0}_scales + block * {0}_scale_count + line / k{1}LinesOfScale;\n}}\n",
        operand, operand == "a" ? "A" : "B", in_block == lines ? 1 : kScaledBlock);
    initialisation += fmt::format("{}_scales = {};\n", operand, pointer(scales));
  }

  // Whether other templates have tiles for so few rows or columns. None of them scales blocks.
  bool has_skinny_tiles(const Dim& m, const Dim& n) const {
    return graph_.node(request_.members.front()).op != Op::kScaledDot &&
           (GpuGemmNest::is_skinny(m) || GpuGemmNest::is_skinny(n));
  }

  // Whether there are matrix instructions for 8-bit operands that take these as they lie.
  bool multiplies_pairs(const DirectOperand& a, const DirectOperand& b, const Dim& m, const Dim& n) const {
    if (request_.fixed_order || a.element_bytes != 1 || b.element_bytes != 1 || !a.contiguous_in_k ||
        !b.contiguous_in_k)
      return false;
    const GpuArchitecture& architecture = target_.architecture();
    if (architecture.has_warpgroup_matrix)
      return a.is_multiple(16) && b.is_multiple(16) && a.batch.size() + 2 <= TensorMap::kMaxRank &&
             b.batch.size() + 2 <= TensorMap::kMaxRank && a.k.is_constant() && a.k.constant() > 0 &&
             !has_skinny_tiles(m, n);
    return architecture.has_f8_matrix && a.is_multiple(2) && b.is_multiple(2);
  }

  // The operand in elements of two neighbours along k.
  static DirectOperand paired(DirectOperand operand, const std::string& pair) {
    const auto half = [](const Dim& dim) { return *dim.divide_exactly(2); };
    operand.element = pair;
    operand.element_bytes = 2;
    operand.offset = half(operand.offset);
    operand.stride = half(operand.stride);
    operand.k = half(operand.k);
    for (auto& dimension : operand.batch) dimension.stride = half(dimension.stride);
    operand.aligned = operand.is_multiple(8);
    return operand;
  }

  std::string operand_struct(const std::string& type, const std::string& name, const DirectOperand& operand, bool tma,
                             std::string& initialisation) {
    std::string members, body, coordinates;
    const auto declare = [&](const std::string& member, const Dim& value) {
      if (value.is_constant()) {
        members += fmt::format("static constexpr int64_t {} = {};\n", member, value.constant());
      } else {
        members += fmt::format("int64_t {};\n", member);
        initialisation += fmt::format("{}.{} = {};\n", name, member, symbols_.text(value));
      }
    };
    members += fmt::format(
        "using Element = {};\nstatic constexpr bool kContiguousInK = {};\nstatic constexpr bool kAligned = {};\n"
        "const Element* data;\n",
        operand.element, operand.contiguous_in_k, operand.aligned);
    // As an argument, so that the parts of one tensor share a kernel.
    const std::string offset = operand.offset.is_constant(0) ? "" : " + " + size_argument(operand.offset);
    const std::string data =
        name == "a" && computes_rows()
            ? fmt::format("reinterpret_cast<const {}*>(shared_memory() + {})", operand.element, kSkinnyGemmSumsOfRows)
        : operand.element == storage_type(graph_.dtype(operand.value))
            ? pointer(operand.value)
            : fmt::format("reinterpret_cast<const {}*>({})", operand.element, pointer(operand.value));
    initialisation += fmt::format("{}.data = {}{};\n", name, data, offset);
    declare("stride", operand.stride);
    std::string rest = "batch_index";
    for (size_t i = operand.batch.size(); i-- > 0;) {
      declare(fmt::format("batch_stride{}", i), operand.batch[i].stride);
      std::string index = rest;
      if (i != 0) {
        declare(fmt::format("batch_extent{}", i), operand.batch[i].extent);
        index = fmt::format("{} % batch_extent{}", rest, i);
        rest = fmt::format("{} / batch_extent{}", rest, i);
      }
      body += fmt::format("{}({}) * batch_stride{}", body.empty() ? "" : " + ", index, i);
      coordinates += fmt::format(", static_cast<int>({})", index);
    }
    std::string functions =
        fmt::format("CAUSEWAY_INLINE int64_t batch_offset(int64_t batch_index) const {{ return {}; }}\n",
                    body.empty() ? "0" : body);
    if (tma) {
      const std::string parameters =
          "(void* shared, const TensorMapBytes* map, Mbarrier* barrier, int contiguous, int other, "
          "int64_t batch_index";
      const std::string arguments = "(shared, map, barrier, contiguous, other" + coordinates;
      functions += fmt::format("static constexpr int kMapRank = {};\n", 2 + operand.batch.size());
      functions += "CAUSEWAY_INLINE void load" + parameters + ") const { tensor_load" + arguments + "); }\n";
      if (operand.batch.size() <= 1)
        functions += "CAUSEWAY_INLINE void load_multicast" + parameters +
                     ", uint16_t block_mask) const { tensor_load_multicast" + arguments + ", block_mask); }\n";
    }
    return fmt::format("struct {} {{\n{}{}}};\n{} {};\n", type, members, functions, type, name);
  }

  // How many neighbouring elements of a row are stored together: the narrowest stored member fills 16 bytes.
  int store_lanes(const Dim& n) const {
    int64_t lanes = 4;
    for (const Value member : request_.members)
      if (request_.stores(member))
        lanes =
            std::max<int64_t>(lanes, std::min<int64_t>(8, 16 / static_cast<int64_t>(size_bytes(graph_.dtype(member)))));
    while (lanes > 1 && !n.divide_exactly(lanes)) lanes /= 2;
    return static_cast<int>(lanes);
  }

  // The row or column that the result's element is in, or one at a fixed distance.
  static bool is_line(const Index& linear, int variable) {
    return linear.terms.size() == 1 && linear.terms.front().variable == variable &&
           linear.terms.front().coefficient.is_constant(1);
  }

  static std::string element_loop(const std::string& inside, bool knows_column) {
    return "#pragma clang loop unroll(full)\nfor (int e = 0; e < kCount; ++e) {\n" +
           std::string(knows_column ? "const int64_t n_index = n_first + e;\n" : "") + inside + "}\n";
  }

  struct Fetch {
    Value value;
    Index linear;
    bool operator==(const Fetch&) const = default;
  };
  struct FetchTexts {
    std::string members, loads;
  };
  // `lanes`, `lane`: what makes a member an array, and picks its element.
  FetchTexts fetch_texts(const std::vector<Fetch>& fetches, const char* lanes, const char* lane,
                         ExpressionEmitter& addresses) {
    FetchTexts texts;
    for (size_t i = 0; i < fetches.size(); ++i) {
      texts.members += fmt::format("{} value{}{};\n", storage_type(graph_.dtype(fetches[i].value)), i, lanes);
      texts.loads += fmt::format("to.value{}{} = {}[{}];\n", i, lane, pointer(fetches[i].value),
                                 addresses.index_text(fetches[i].linear));
    }
    return texts;
  }
  std::string fetch_function(const std::string& type, const std::string& signature, const std::vector<Fetch>& fetches,
                             ExpressionEmitter& addresses) {
    const auto [members, loads] = fetch_texts(fetches, "[kStoreLanes]", "[e]", addresses);
    return fmt::format(
        "struct {0} {{\nstatic constexpr int kTensors = {1};\n{2}}};\ntemplate <int kCount>\n"
        "CAUSEWAY_INLINE void {3}{0}& to) const {{\n{4}}}\n",
        type, fetches.size(), members, signature, loads.empty() ? "" : element_loop(loads, true));
  }

  std::string fetch_row_function(ExpressionEmitter& addresses) {
    const auto [members, loads] = fetch_texts(fetched_row_, "", "", addresses);
    return fmt::format(
        "struct FetchedRow {{\n{}}};\nCAUSEWAY_INLINE void fetch_row(int64_t m_index, FetchedRow& to) const {{\n{}}}\n",
        members, loads);
  }

  std::string epilogue() {
    const DType dtype = graph_.dtype(request_.members.front());
    const std::string product = rounded_alone(dtype, "values[e]");
    nest_.begin_result();
    ExpressionEmitter addresses(graph_, *this, nest_.variables(), symbols_);
    const std::string index = addresses.index_text(nest_.result_linear());
    ExpressionEmitter emitter(graph_, *this, nest_.variables(), symbols_);
    emitter.set_rounds_alone();
    std::string arrays, keep, stores;
    struct Stored {
      Value member;
      std::string array, result;
    };
    std::vector<Stored> stored;
    fetches_ = true;
    nest_.walk_result(emitter, [&](size_t position, const ElementValue& value) {
      const Value member = request_.members[position];
      if (!request_.stores(member)) return;
      const std::string array = fmt::format("stored{}", position);
      stored.push_back({member, array, value.name});
      arrays += fmt::format("{} {}[kCount];\n", storage_type(graph_.dtype(member)), array);
      keep += fmt::format("{}[e] = {};\n", array, to_storage(graph_.dtype(member), value.name));
      stores += fmt::format("{}[{}] = {}[e];\n", pointer(member), index, array);
    });
    fetches_ = false;
    std::string compute = fmt::format("const float result = {};\n", product) + body(emitter), finish;
    const bool knows_column = emitter.has_written(nest_.column_variable());
    const bool computes_floats = std::all_of(stored.begin(), stored.end(), [&](const Stored& one) {
      return compute_type(graph_.dtype(one.member)) == "float";
    });
    if (!stored.empty() && !emitter.has_written_variables() && computes_floats) {
      std::string results;
      keep.clear();
      for (const auto& [member, array, result] : stored) {
        // The GEMM itself is rounded when it is stored.
        const bool is_gemm = member == request_.members.front();
        results += fmt::format("results[{}][e] = {};\n", finished_.size(), is_gemm ? std::string("values[e]") : result);
        keep += fmt::format("{}[e] = {};\n", array,
                            to_storage(graph_.dtype(member), fmt::format("results[{}][e]", finished_.size())));
        finished_.push_back(member);
      }
      const bool is_gemm_alone = stored.size() == 1 && stored.front().member == request_.members.front();
      finish = fmt::format(
          "template <int kCount>\nCAUSEWAY_INLINE void finish(const float (&values)[kCount], const Fetched& fetched, "
          "const FetchedRow& row, const FetchedColumns& columns, float (&results)[{0}][kCount]) const {{\n{1}}}\n",
          stored.size(), element_loop((is_gemm_alone ? "" : compute) + results, false));
      arrays +=
          fmt::format("float results[{}][kCount];\nfinish(values, fetched, row, columns, results);\n", stored.size());
      compute.clear();
    }
    std::string visits;
    for (const Fetch& fetch : fetched_)
      visits += fmt::format("visit({} + {});\n", pointer(fetch.value), addresses.index_text(fetch.linear));
    const std::string for_each_fetched =
        "template <class Visit>\nCAUSEWAY_INLINE void for_each_fetched(int64_t batch_index, int64_t m_index, int64_t "
        "n_index, Visit&& visit) const {\n" +
        visits + "}\n";
    const std::string fetches =
        fetch_function("Fetched", "fetch(int64_t batch_index, int64_t m_index, int64_t n_first, ", fetched_,
                       addresses) +
        fetch_row_function(addresses) +
        fetch_function("FetchedColumns", "fetch_columns(int64_t n_first, ", fetched_columns_, addresses);
    if (!fetched_row_.empty() || !finish.empty()) arrays = "FetchedRow row;\nfetch_row(m_index, row);\n" + arrays;
    return fetches + (fetched_.empty() ? "" : for_each_fetched) + finish +
           "template <int kCount>\nCAUSEWAY_INLINE void store(int64_t batch_index, int64_t m_index, int64_t n_first, "
           "const float (&values)[kCount], const Fetched& fetched, const FetchedColumns& columns) const {\n" +
           arrays + element_loop(compute + keep, knows_column) + element_loop(stores, !stores.empty()) + "}\n";
  }

  // Whether TMA can store what is computed: one tensor over what is read at its place, or two.
  bool may_send(const Dim& n) const {
    if (finished_.empty() || finished_.size() + fetched_.size() > 2) return false;
    const DType dtype = graph_.dtype(finished_.front());
    const auto has_its_type = [&](Value value) { return graph_.dtype(value) == dtype; };
    if (!fetched_.empty() && size_bytes(graph_.dtype(fetched_.front().value)) != size_bytes(dtype)) return false;
    return std::all_of(finished_.begin(), finished_.end(), has_its_type) &&
           (dtype == DType::kBF16 || dtype == DType::kF16 || dtype == DType::kF32) &&
           n.divide_exactly(16 / static_cast<int64_t>(size_bytes(dtype)));
  }

  // Whether TMA and warpgroup matrices are there and take the operand as it lies.
  bool serves_tma(const DirectOperand& operand) const {
    return target_.architecture().has_warpgroup_matrix &&
           (operand.element_bytes == 2 || operand.element == kRoundedOperand) && operand.fits_tma();
  }

  // Whether skinny_gemm.h takes the operands as they lie.
  bool streams(const DirectOperand& a, const DirectOperand& b, const std::string& operand, const Dim& m, const Dim& n,
               const Dim& k) const {
    return target_.architecture().vendor == GpuArchitecture::Vendor::kNvidia && GpuGemmNest::is_skinny(m) &&
           m.constant() > 0 && (operand == "bf16" || operand == "f16") && a.element == operand &&
           b.element == operand && a.aligned && b.aligned && a.contiguous_in_k && b.contiguous_in_k &&
           k.is_constant() && k.constant() > 0 && k.constant() % kSkinnyGemmSlice == 0 && lies_within_reach(a, m) &&
           lies_within_reach(b, n) && never_changes(b.value);
  }

  // Whether 32 bits number the elements of a matrix.
  static bool lies_within_reach(const DirectOperand& operand, const Dim& lines) {
    return lines.is_constant() && operand.stride.is_constant() &&
           lines.constant() <= std::numeric_limits<uint32_t>::max() / std::max<int64_t>(1, operand.stride.constant());
  }

  // Whether it is the program's from its beginning to its end.
  bool never_changes(Value value) const {
    return graph_.node(value).op == Op::kInput &&
           std::none_of(graph_.assignments.begin(), graph_.assignments.end(),
                        [&](const Assignment& assignment) { return assignment.target == value; });
  }

  Plan skinny_plan(const Dim& batch, const Dim& m, const Dim& n, const Dim& k) const {
    SkinnyGemmTile tile =
        choose_skinny_gemm(target_.architecture(), known_size(batch), m.constant(), known_size(n), k.constant());
    if (row_function_) {
      tile.waves = row_function_->threads / target_.architecture().wave_width;
      tile.row_bytes = static_cast<int>(skinny_gemm_row_bytes(static_cast<int>(m.constant()), k.constant()));
    }
    Plan plan;
    plan.tile = fmt::format("static constexpr SkinnyGemmTile kTile = {{{}, {}, {}, {}}};", tile.columns, tile.waves,
                            tile.parts, tile.row_bytes);
    plan.include = "causeway/kernels/gpu/skinny_gemm.h";
    plan.call = "skinny_gemm_run(problem, task, [] {});";
    plan.begins_early = true;
    plan.blocks_per_unit = kSkinnyGemmWavesPerUnit / tile.waves;
    plan.phase =
        phase("kernel_run", tile.waves * target_.architecture().wave_width, [=](const SymbolBindings& bindings) {
          return batch.evaluate(bindings) * divide_up(n.evaluate(bindings), tile.columns) * tile.parts;
        });
    plan.phase.shared_bytes = skinny_gemm_shared_bytes(tile, static_cast<int>(m.constant()), k.constant());
    plan.phase.cluster = tile.parts;
    return plan;
  }

  Plan portable_plan(const DirectOperand& a, const DirectOperand& b, const std::string& operand, const Dim& batch,
                     const Dim& m, const Dim& n, const Dim& k) const {
    const GpuArchitecture& architecture = target_.architecture();
    const GemmOperand kind = operand == "float"           ? GemmOperand::kFloat
                             : operand == kRoundedOperand ? GemmOperand::kTf32
                                                          : GemmOperand::kHalf;
    const GpuGemmPlan chosen =
        request_.fixed_order
            ? choose_gpu_gemm(architecture, kind, kUnknownSize, kUnknownSize, kUnknownSize, known_size(k))
            : choose_gpu_gemm(architecture, kind, known_size(batch), known_size(m), known_size(n), known_size(k));
    const GpuGemmTile tile = chosen.tile;
    const Dim matrices = batch * Dim(chosen.splits);
    Plan plan;
    plan.tile = gemm_tile_text(tile);
    plan.splits = chosen.splits;
    plan.include = tile.ping_pong ? "causeway/kernels/gpu/gemm_cdna.h" : "causeway/kernels/gpu/gemm.h";
    plan.call = tile.ping_pong ? "cdna_gemm_run(problem, task);" : "gemm_run(problem, task);";
    plan.blocks_per_unit = tile.blocks_per_unit;
    plan.phase =
        phase("kernel_run", gpu_gemm_waves(tile) * architecture.wave_width, [=](const SymbolBindings& bindings) {
          return matrices.evaluate(bindings) * divide_up(m.evaluate(bindings), tile.m) *
                 divide_up(n.evaluate(bindings), tile.n);
        });
    // Copies that pass through registers transpose what is not contiguous in k.
    const bool k_major = !architecture.copies_asynchronously;
    plan.phase.shared_bytes =
        gpu_gemm_shared_bytes(tile, k_major || a.contiguous_in_k, k_major || b.contiguous_in_k, operand_bytes(kind));
    return plan;
  }

  Plan hopper_plan(const DirectOperand& a, const DirectOperand& b, const Dim& batch, const Dim& m, const Dim& n,
                   const Dim& k) {
    const Node& node = graph_.node(request_.members.front());
    const bool f8_pairs = size_bytes(graph_.dtype(a.value)) == 1;
    HopperGemmSums sums = f8_pairs ? HopperGemmSums::kTwo : HopperGemmSums::kOne;
    if (node.op == Op::kScaledDot) {
      const bool by_column = graph_.shape(node.inputs[3])[1] == n;
      sums = by_column ? HopperGemmSums::kOfSlicesByColumn : HopperGemmSums::kOfSlices;
    }
    const auto stores = !may_send(n)       ? HopperGemmStores::kOther
                        : fetched_.empty() ? HopperGemmStores::kSent
                                           : HopperGemmStores::kAdded;
    // Slices count, of so many bytes and GEMMs of instructions whatever they hold.
    const int64_t halves_of_k = k.constant() * a.element_bytes / 2;
    const HopperGemmPlan chosen = choose_hopper_gemm(
        target_.architecture(), sums, stores, known_size(batch), known_size(m), known_size(n), halves_of_k,
        {a.contiguous_in_k, b.contiguous_in_k, a.element_bytes == 4 && !a.contiguous_in_k,
         a.batch.size() <= 1 && b.batch.size() <= 1,
         stores == HopperGemmStores::kSent && sums == HopperGemmSums::kOne && a.element_bytes == 2 &&
             size_bytes(graph_.dtype(finished_.front())) == 2,
         finished_.size() == 1});
    const HopperGemmTile tile = chosen.tile;
    hopper_tile_ = tile;
    const Dim &rows = tile.transposed ? n : m, &columns = tile.transposed ? m : n;
    const auto tiles = [=](const SymbolBindings& bindings) {
      return batch.evaluate(bindings) * divide_up(rows.evaluate(bindings), hopper_gemm_cluster_rows(tile)) *
             divide_up(columns.evaluate(bindings), hopper_gemm_cluster_columns(tile));
    };
    Plan plan;
    plan.tile = gemm_tile_text(tile);
    plan.splits = chosen.splits;
    plan.tile += fmt::format("\nstatic constexpr int kWholeTiles = {};", chosen.whole_tiles);
    if (chosen.splits > 1) plan.split_tiles = tiles({}) - chosen.whole_tiles;
    plan.include = "causeway/kernels/gpu/gemm_hopper.h";
    plan.tensor_maps = 2;
    plan.phase = phase("kernel_run", hopper_gemm_threads(tile),
                       [tiles, cluster = hopper_gemm_cluster(tile), more = plan.split_tiles * (chosen.splits - 1)](
                           const SymbolBindings& bindings) { return (tiles(bindings) + more) * cluster; });
    plan.phase.persistent = true;
    plan.phase.shared_bytes = hopper_gemm_shared_bytes(tile);
    plan.phase.cluster = hopper_gemm_cluster(tile);
    return plan;
  }

  static KernelPhase phase(const std::string& function, int threads, SizeFunction tasks) {
    KernelPhase result;
    result.function = function;
    result.threads = threads;
    result.tasks = std::move(tasks);
    result.scratch_bytes = [](const SymbolBindings&) { return int64_t{0}; };
    return result;
  }

  static void add_combine(GeneratedKernel& kernel, int splits, int lanes, const Dim& batch, const Dim& m,
                          const Dim& n) {
    const Dim count = batch * m * n;
    kernel.phases.push_back(phase("kernel_combine", kGpuGemmCombineThreads, [=](const SymbolBindings& bindings) {
      return divide_up(count.evaluate(bindings) / lanes, kGpuGemmCombineThreads);
    }));
    kernel.workspace_bytes = [=](const SymbolBindings& bindings) {
      return count.evaluate(bindings) * splits * static_cast<int64_t>(sizeof(float));
    };
  }

  void add_hopper_combine(GeneratedKernel& kernel, int splits, int64_t split_tiles) const {
    const HopperGemmTile tile = hopper_tile_;
    kernel.phases.push_back(phase("kernel_combine", kHopperGemmCombineThreads, [=](const SymbolBindings&) {
      return split_tiles * hopper_gemm_combine_blocks(tile);
    }));
    kernel.phases.back().shared_bytes = kHopperGemmCombineShared;
    kernel.workspace_bytes = [bytes = split_tiles * splits * hopper_gemm_cluster(tile) * tile.m * tile.n *
                                      static_cast<int64_t>(sizeof(float))](const SymbolBindings&) { return bytes; };
  }

  // Of the boxes in which results leave: of whole ones, and of a tile's last ones where they have fewer.
  std::vector<int> sent_columns(DType sent) const {
    const auto bytes = static_cast<int>(size_bytes(sent));
    std::vector<int> columns = {hopper_gemm_sent_columns(bytes)};
    if (const int last = hopper_gemm_last_sent_columns(hopper_tile_, bytes); last > 0) columns.push_back(last);
    return columns;
  }

  // As gemm.h asks for them.
  TensorMapFunction tensor_maps(const DirectOperand& a, const DirectOperand& b, bool sends) const {
    const auto argument = [&](Value value) {
      const auto found = std::find_if(arguments_.begin(), arguments_.end(), [&](const KernelArgument& candidate) {
        return candidate.kind == KernelArgument::Kind::kValue && candidate.value == value;
      });
      return static_cast<int>(found - arguments_.begin());
    };
    const auto map = [](const DirectOperand& operand, int buffer, int box_lines, const SymbolBindings& bindings) {
      const int64_t element_bytes = operand.element_bytes;
      // The device refuses empty dimensions; nothing is launched then.
      const auto size = [&](const Dim& dim) { return std::max<int64_t>(1, dim.evaluate(bindings)); };
      TensorMap result;
      result.buffer = buffer;
      result.offset = operand.offset.evaluate(bindings) * element_bytes;
      result.element_bytes = static_cast<int>(element_bytes);
      result.rank = 2;
      result.sizes[0] = size(operand.contiguous_in_k ? operand.k : operand.lines);
      result.sizes[1] = size(operand.contiguous_in_k ? operand.lines : operand.k);
      result.stride_bytes[0] = element_bytes;
      // Of a dimension of one element the stride does not count, but it has to be a valid one.
      result.stride_bytes[1] = std::max<int64_t>(16, operand.stride.evaluate(bindings) * element_bytes);
      result.box[0] = hopper_gemm_slice_k(result.element_bytes);
      result.box[1] = operand.contiguous_in_k ? box_lines : hopper_gemm_slice_k(result.element_bytes);
      for (size_t i = operand.batch.size(); i-- > 0;) {
        const auto rank = static_cast<size_t>(result.rank++);
        result.sizes[rank] = size(operand.batch[i].extent);
        result.stride_bytes[rank] = operand.batch[i].stride.evaluate(bindings) * element_bytes;
        result.box[rank] = 1;
      }
      result.swizzle_bytes = 128;
      result.rounds_to_tf32 = operand.element == kRoundedOperand;
      return result;
    };
    const int a_argument = argument(a.value), b_argument = argument(b.value);
    const int a_lines = hopper_gemm_loaded_lines(hopper_tile_, false);
    const int b_lines = hopper_gemm_loaded_lines(hopper_tile_, true);
    // Of the result, and of what is read at its place.
    std::vector<int> at_result, of_boxes;
    int bytes = 0;
    if (sends) {
      for (const Value value : finished_) at_result.push_back(argument(value));
      for (const Fetch& fetch : fetched_) at_result.push_back(argument(fetch.value));
      bytes = static_cast<int>(size_bytes(graph_.dtype(finished_.front())));
      of_boxes = sent_columns(graph_.dtype(finished_.front()));
    }
    const auto result_map = [bytes, sizes = nest_.sizes()](int buffer, int columns, const SymbolBindings& bindings) {
      const auto size = [&](const Dim& dim) { return std::max<int64_t>(1, dim.evaluate(bindings)); };
      TensorMap result;
      result.buffer = buffer;
      result.element_bytes = bytes;
      result.rank = 3;
      result.sizes = {size(sizes.n), size(sizes.m), size(sizes.batch)};
      const int64_t row = std::max<int64_t>(16, result.sizes[0] * bytes);
      result.stride_bytes = {bytes, row, row * result.sizes[1]};
      result.box = {columns, kHopperGemmSentRows, 1};
      result.swizzle_bytes = kHopperGemmBoxLine;
      return result;
    };
    return [=](const SymbolBindings& bindings) {
      std::vector<TensorMap> maps = {map(a, a_argument, a_lines, bindings), map(b, b_argument, b_lines, bindings)};
      for (const int columns : of_boxes)
        for (const int buffer : at_result) maps.push_back(result_map(buffer, columns, bindings));
      return maps;
    };
  }

  GpuGemmNest nest_;
  // What the epilogue reads at the result's own element, of its row and of its column.
  std::vector<Fetch> fetched_, fetched_row_, fetched_columns_;
  bool fetches_ = false;         // while the epilogue is walked
  std::vector<Value> finished_;  // what is stored, where it is computed in float and not from an element's place
  std::optional<GpuRowFunction> row_function_;  // computes A
  HopperGemmTile hopper_tile_;
};

}  // namespace

GeneratedKernel write_gpu_dot_kernel(const KernelInputs& inputs) { return GpuDotWriter(inputs).write(); }

std::optional<Obstacle> find_gpu_dot_obstacle(const KernelInputs& inputs) {
  if (!inputs.request.row_members.empty())
    if (const auto obstacle = GpuDotWriter(inputs).find_rows_obstacle()) return obstacle;
  GpuGemmNest nest(inputs);
  nest.find_operands();
  nest.begin_result();
  ElementWalk analysis(inputs.graph, nest, nest.variables());
  nest.walk_result(analysis, [](size_t, const ElementValue&) {});
  return nest.obstacle();
}

}  // namespace causeway::codegen
