#include "causeway/codegen/gpu/gemm_epilogue_writer.h"

#include <algorithm>

namespace causeway::codegen {
namespace {

// The row or column that the result's element is in, or one at a fixed distance.
bool is_line(const Index& linear, int variable) {
  return linear.terms.size() == 1 && linear.terms.front().variable == variable &&
         linear.terms.front().coefficient.is_constant(1);
}

std::string element_loop(const std::string& inside, bool knows_column) {
  return "#pragma clang loop unroll(full)\nfor (int e = 0; e < kCount; ++e) {\n" +
         std::string(knows_column ? "const int64_t n_index = n_first + e;\n" : "") + inside + "}\n";
}

}  // namespace

std::optional<ElementValue> GpuGemmEpilogueWriter::variable(Value value, const Index& linear) {
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

GpuGemmEpilogue GpuGemmEpilogueWriter::epilogue_outline() const {
  GpuGemmEpilogue outline;
  for (const Value member : request_.members)
    if (request_.stores(member)) outline.members.push_back(graph_.dtype(member));
  for (const Value value : finished_) outline.stored.push_back(graph_.dtype(value));
  for (const Fetch& fetch : fetched_) outline.fetched.push_back(graph_.dtype(fetch.value));
  return outline;
}

std::vector<Value> GpuGemmEpilogueWriter::at_result() const {
  std::vector<Value> values = finished_;
  for (const Fetch& fetch : fetched_) values.push_back(fetch.value);
  return values;
}

// `lanes`, `lane`: what makes a member an array, and picks its element.
GpuGemmEpilogueWriter::FetchTexts GpuGemmEpilogueWriter::fetch_texts(const std::vector<Fetch>& fetches,
                                                                     const char* lanes, const char* lane,
                                                                     ExpressionEmitter& addresses) {
  FetchTexts texts;
  for (size_t i = 0; i < fetches.size(); ++i) {
    texts.members += fmt::format("{} value{}{};\n", storage_type(graph_.dtype(fetches[i].value)), i, lanes);
    texts.loads += fmt::format("to.value{}{} = {}[{}];\n", i, lane, pointer(fetches[i].value),
                               addresses.index_text(fetches[i].linear));
  }
  return texts;
}
std::string GpuGemmEpilogueWriter::fetch_function(const std::string& type, const std::string& signature,
                                                  const std::vector<Fetch>& fetches, ExpressionEmitter& addresses) {
  const auto [members, loads] = fetch_texts(fetches, "[kStoreLanes]", "[e]", addresses);
  return fmt::format(
      "struct {0} {{\nstatic constexpr int kTensors = {1};\n{2}}};\ntemplate <int kCount>\n"
      "CAUSEWAY_INLINE void {3}{0}& to) const {{\n{4}}}\n",
      type, fetches.size(), members, signature, fetches.empty() ? "" : element_loop(loads, true));
}

std::string GpuGemmEpilogueWriter::fetch_row_function(ExpressionEmitter& addresses) {
  const auto [members, loads] = fetch_texts(fetched_row_, "", "", addresses);
  return fmt::format(
      "struct FetchedRow {{\n{}}};\nCAUSEWAY_INLINE void fetch_row(int64_t m_index, FetchedRow& to) const {{\n{}}}\n",
      members, loads);
}

std::string GpuGemmEpilogueWriter::fetch_functions(ExpressionEmitter& addresses) {
  std::string visits;
  for (const Fetch& fetch : fetched_)
    visits += fmt::format("visit({} + {});\n", pointer(fetch.value), addresses.index_text(fetch.linear));
  std::string text =
      fetch_function("Fetched", "fetch(int64_t batch_index, int64_t m_index, int64_t n_first, ", fetched_, addresses);
  text += fetch_row_function(addresses);
  text += fetch_function("FetchedColumns", "fetch_columns(int64_t n_first, ", fetched_columns_, addresses);
  if (!fetched_.empty())
    text +=
        "template <class Visit>\nCAUSEWAY_INLINE void for_each_fetched(int64_t batch_index, int64_t m_index, int64_t "
        "n_index, Visit&& visit) const {\n" +
        visits + "}\n";
  return text;
}

// `compute`: statements that compute what is stored of the GEMM's element, in float.
std::string GpuGemmEpilogueWriter::finish_function(const std::string& compute, const std::vector<Stored>& stored) {
  const Value gemm = request_.members.front();
  std::string results;
  for (size_t i = 0; i < stored.size(); ++i)
    // The GEMM itself is rounded when it is stored.
    results += fmt::format("results[{}][e] = {};\n", i, stored[i].member == gemm ? "values[e]" : stored[i].result);
  const bool is_gemm_alone = stored.size() == 1 && stored.front().member == gemm;
  return fmt::format(
      "template <int kCount>\nCAUSEWAY_INLINE void finish(const float (&values)[kCount], const Fetched& fetched, "
      "const FetchedRow& row, const FetchedColumns& columns, float (&results)[{0}][kCount]) const {{\n{1}}}\n",
      stored.size(), element_loop((is_gemm_alone ? "" : compute) + results, false));
}

std::string GpuGemmEpilogueWriter::epilogue() {
  const DType dtype = graph_.dtype(request_.members.front());
  const std::string gemm = rounded_alone(dtype, "values[e]");
  nest_.begin_result();
  ExpressionEmitter addresses(graph_, *this, nest_.variables(), symbols_);
  const std::string index = addresses.index_text(nest_.result_linear());
  ExpressionEmitter emitter(graph_, *this, nest_.variables(), symbols_);
  emitter.set_rounds_alone();
  std::string arrays, keep, stores;
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
  std::string compute = fmt::format("const float result = {};\n", gemm) + body(emitter), finish;
  const bool knows_column = emitter.has_written(nest_.column_variable());
  const bool computes_floats =
      std::all_of(stored.begin(), stored.end(), [&](const Stored& one) { return is_float(graph_.dtype(one.member)); });
  const bool finishes = !stored.empty() && !emitter.has_written_variables() && computes_floats;
  if (finishes) {
    keep.clear();
    for (const Stored& one : stored) {
      keep += fmt::format("{}[e] = {};\n", one.array,
                          to_storage(graph_.dtype(one.member), fmt::format("results[{}][e]", finished_.size())));
      finished_.push_back(one.member);
    }
    finish = finish_function(compute, stored);
    arrays +=
        fmt::format("float results[{}][kCount];\nfinish(values, fetched, row, columns, results);\n", stored.size());
    compute.clear();
  }
  const std::string fetches = fetch_functions(addresses);
  if (!fetched_row_.empty() || finishes) arrays = "FetchedRow row;\nfetch_row(m_index, row);\n" + arrays;
  return fetches + finish +
         "template <int kCount>\nCAUSEWAY_INLINE void store(int64_t batch_index, int64_t m_index, int64_t n_first, "
         "const float (&values)[kCount], const Fetched& fetched, const FetchedColumns& columns) const {\n" +
         arrays + element_loop(compute + keep, knows_column) + element_loop(stores, !stored.empty()) + "}\n";
}

}  // namespace causeway::codegen
