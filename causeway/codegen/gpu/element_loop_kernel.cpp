// Loops without sums on GPUs: each thread computes a vector of neighbouring elements, or a few of a tile that is stored
// in both orders.
#include "causeway/codegen/divide_up.h"
#include "causeway/codegen/gpu/loop_writer.h"
#include "causeway/kernels/gpu/transpose_layout.h"

namespace causeway::codegen {
namespace {

class GpuElementLoopWriter : public GpuLoopWriter {
 public:
  using GpuLoopWriter::GpuLoopWriter;

  GeneratedKernel write() {
    write_passes();
    switch (plan_.form) {
      case Form::kTiles:
        return write_tiles();
      case Form::kTransposedCopy:
        return write_transposed_copy();
      case Form::kBothOrders:
        return write_both_orders();
      case Form::kUnalignedRows:
        return write_unaligned_rows();
      default:
        return write_elements();
    }
  }

 private:
  GeneratedKernel write_elements() {
    const Dim count = request_.rows * request_.columns;
    std::string body =
        fmt::format("const {} position = {} * {} + thread_index();\n", index_type_, task_text(), kLoopThreads);
    const std::string total = symbols_.text(count);
    const std::string limit = fmt::format("position * {}", plan_.lanes);
    if (!plan_.fills_blocks) body += fmt::format("if ({} >= {}) return;\n", limit, total);
    body += axis_variables(AxisMapping::kThread, "position") + top_ + text_;
    if (plan_.ends_within_vector) {
      body += fmt::format("if ({} + {} <= {}) {{\n{}}} else {{\nconst int lanes = static_cast<int>({} - {});\n", limit,
                          plan_.lanes, total, whole(vector_), total, limit) +
              cut(vector_, lane_name() + " >= lanes") + "}\n";
    } else {
      body += whole(vector_);
    }
    GeneratedKernel kernel = finish(source("kernel", kLoopThreads, body));
    const int64_t per_block = int64_t{plan_.lanes} * kLoopThreads;
    kernel.phases = {gpu_phase("kernel", kLoopThreads, 0, [count, per_block](const SymbolBindings& bindings) {
      return divide_up(count.evaluate(bindings), per_block);
    })};
    return kernel;
  }

  // A block takes kLoopThreads vectors of one row.
  GeneratedKernel write_unaligned_rows() {
    const int64_t chunks = divide_up(plan_.row_vectors.constant(), kLoopThreads);
    std::string body =
        fmt::format("const {0} row = task / {1};\nconst {0} vector = task % {1} * {2} + thread_index();\n", index_type_,
                    chunks, kLoopThreads);
    body += unaligned_row();
    body +=
        fmt::format("if (row_vector + vector * {} >= row_start + {}) return;\n", plan_.lanes, *plan_.unaligned_columns);
    body += axis_variables(AxisMapping::kGrid, "row") + top_ + text_ + unaligned_vector(vector_);
    const Dim rows = extent_of(AxisMapping::kGrid);
    GeneratedKernel kernel = finish(source("kernel", kLoopThreads, body));
    kernel.phases = {gpu_phase("kernel", kLoopThreads, 0, [rows, chunks](const SymbolBindings& bindings) {
      return rows.evaluate(bindings) * chunks;
    })};
    return kernel;
  }

  // Threads are neighbours along what is read.
  GeneratedKernel write_tiles() {
    const GpuLoopPlan::Tiles& tiles = *plan_.tiles;
    const Dim read_extent = plan_.axes[tiles.read_axis].extent, written_extent = plan_.axes[tiles.written_axis].extent;
    std::string body = fmt::format(
        "const {0} read_tiles = ({1} + {3}) / {4}, written_tiles = ({2} + {3}) / {4};\n"
        "const {0} {5} = task % written_tiles * {4} + thread_index() / {4};\n"
        "const {0} {6} = task / written_tiles % read_tiles * {4} + thread_index() % {4};\n"
        "if ({6} >= {1} || {5} >= {2}) return;\n",
        index_type_, symbols_.text(read_extent), symbols_.text(written_extent), tiles.extent - 1, tiles.extent,
        axis_name(tiles.written_axis), axis_name(tiles.read_axis));
    body += other_axes() + top_ + text_ + whole(vector_);
    GeneratedKernel kernel = finish(source("kernel", kLoopThreads, body));
    kernel.phases = {gpu_phase("kernel", kLoopThreads, 0, tasks_of_tiles(read_extent, written_extent))};
    return kernel;
  }

  GeneratedKernel write_transposed_copy() {
    const GpuLoopPlan::Tiles& tiles = *plan_.tiles;
    const Value result = request_.members.front();
    const Dim read_extent = plan_.axes[tiles.read_axis].extent,
              written_extent = plan_.axes[tiles.written_axis].extent * Dim(plan_.lanes);
    const std::string &read = axis_name(tiles.read_axis), &written = axis_name(tiles.written_axis);
    std::string body = fmt::format(
        "const {0} read_tiles = ({1} + {3}) / {4}, written_tiles = ({2} + {3}) / {4};\n"
        "const {0} first = task % written_tiles * {4};\nconst {0} {5} = first / {6};\n"
        "const {0} {7} = task / written_tiles % read_tiles * {4};\nconst {0} {8} = 0;\n",
        index_type_, symbols_.text(read_extent), symbols_.text(written_extent), tiles.extent - 1, tiles.extent, written,
        plan_.lanes, read, lane_name());
    body += other_axes();
    const auto read_variable = static_cast<int>(tiles.read_axis);
    body += fmt::format("transpose_tile({} + ({}), {}, {} + ({}), {}, {} - {}, {} - first);\n", pointer(tiles.read),
                        copied_from_, symbols_.text(coefficient(tiles.read_at, nest_.lane_variable())), pointer(result),
                        copied_to_, symbols_.text(coefficient(plan_.element, read_variable)),
                        symbols_.text(read_extent), read, symbols_.text(written_extent));
    GeneratedKernel kernel =
        finish("#include \"causeway/kernels/gpu/transpose.h\"\n" + kernel_text("kernel", kLoopThreads, body));
    static_assert(kLoopThreads == kTransposeThreads);
    kernel.phases = {
        gpu_phase("kernel", kLoopThreads, plan_.shared_bytes, tasks_of_tiles(read_extent, written_extent))};
    return kernel;
  }

  // A block has a square tile. All of it is computed, and so loaded, before anything is stored.
  GeneratedKernel write_both_orders() {
    constexpr int kSide = transpose_tile_elements(1);
    const int vectors = kSide / plan_.lanes, rows_of_round = kLoopThreads / vectors;
    const std::string rows = symbols_.text(request_.rows), columns = symbols_.text(request_.columns);
    const std::string round = fmt::format(
        "#pragma clang loop unroll(full)\nfor (int round = 0; round < {1}; ++round) {{\n"
        "const int tile_row = thread_index() / {2} + round * {3};\nconst {0} row = first_row + tile_row;\n"
        "const {0} vector = first_column / {4} + thread_index() % {2};\n"
        "if (row >= {5} || vector * {4} >= {6}) continue;\n",
        index_type_, plan_.rounds, vectors, rows_of_round, plan_.lanes, rows, columns);
    std::string stores, transposes;
    for (size_t i = 0; i < request_.members.size(); ++i)
      if (plan_.members[i].role == LoopRole::kFull && plan_.members[i].stored)
        stores += fmt::format("store_lanes({} + (row * {} + vector * {}), v{}[round]);\n", pointer(request_.members[i]),
                              columns, plan_.lanes, i);
    for (size_t i = 0; i < plan_.transposed.size(); ++i) {
      const GpuLoopPlan::Transposed& one = plan_.transposed[i];
      const std::string tile = fmt::format("shared_memory() + {}", static_cast<int>(i) * transpose_shared_bytes(1));
      stores += fmt::format("put_in_tile({}, tile_row, thread_index() % {} * {}, v{}[round]);\n", tile, vectors,
                            plan_.lanes, one.source);
      transposes += fmt::format(
          "store_transposed_tile({0}, {1} + (first_column * {2} + first_row), {2}, {3} - first_column, "
          "{2} - first_row);\n",
          tile, pointer(request_.members[one.result]), rows, columns);
    }
    const std::string body =
        fmt::format(
            "const {0} column_tiles = ({1} + {2}) / {3};\nconst {0} first_row = task / column_tiles * {3};\n"
            "const {0} first_column = task % column_tiles * {3};\n",
            index_type_, columns, kSide - 1, kSide) +
        top_ + round_arrays_ + round + tile_axes(0, plan_.row_axes, "row") +
        tile_axes(plan_.row_axes, plan_.axes.size() - 1, "vector") + text_ +
        vector_.inside.text(lane_name(), plan_.lanes) + "}\n" + round + stores + "}\nblock_barrier();\n" + transposes;
    GeneratedKernel kernel =
        finish("#include \"causeway/kernels/gpu/transpose.h\"\n" + source("kernel", kLoopThreads, body));
    static_assert(kLoopThreads == kTransposeThreads);
    const int64_t tiles = divide_up(request_.rows.constant(), kSide) * divide_up(request_.columns.constant(), kSide);
    kernel.phases = {
        gpu_phase("kernel", kLoopThreads, plan_.shared_bytes, [tiles](const SymbolBindings&) { return tiles; })};
    return kernel;
  }

  // The axes from `first` to before `end`, of a running number.
  std::string tile_axes(size_t first, size_t end, const std::string& running) {
    std::vector<std::pair<std::string, std::string>> axes;
    for (size_t i = first; i < end; ++i) axes.emplace_back(axis_name(i), symbols_.text(plan_.axes[i].extent));
    return gpu_axis_variables(index_type_, running, axes);
  }

  // The axes beside those of the tiles.
  std::string other_axes() { return axis_variables(AxisMapping::kGrid, "(task / written_tiles / read_tiles)"); }

  SizeFunction tasks_of_tiles(const Dim& read_extent, const Dim& written_extent) const {
    return [others = extent_of(AxisMapping::kGrid), read_extent, written_extent,
            extent = plan_.tiles->extent](const SymbolBindings& bindings) {
      return others.evaluate(bindings) * divide_up(read_extent.evaluate(bindings), extent) *
             divide_up(written_extent.evaluate(bindings), extent);
    };
  }

  // Of all axes of the mapping together.
  Dim extent_of(AxisMapping mapping) const {
    Dim extent(1);
    for (const LoopAxis& axis : plan_.axes)
      if (axis.mapping == mapping) extent *= axis.extent;
    return extent;
  }
};

}  // namespace

GeneratedKernel write_gpu_element_loop(const KernelInputs& inputs, const GpuLoopPlan& plan) {
  return GpuElementLoopWriter(inputs, plan).write();
}

}  // namespace causeway::codegen
