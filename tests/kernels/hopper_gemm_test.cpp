// The Hopper gemm template: its results on the emulator (or on the device that CAUSEWAY_TEST_DEVICE names, "cuda"),
// and what the assembler makes of it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "causeway/codegen/compile/compiler.h"
#include "causeway/codegen/compile/kernel_resources.h"
#include "causeway/codegen/gpu/gemm_hopper_model.h"
#include "causeway/kernels/gpu/gemm_layout.h"
#include "causeway/kernels/types.h"
#include "causeway/kernels/x86/gemm_layout.h"
#include "tests/device/device_under_test.h"
#include "tests/mutation/planted_faults.h"

namespace causeway::program {
namespace {

// C[batch, m, n] = A B + residual, of bf16; what TMA stores is A B / 2 + residual, of bf16 or f32, and A B
// / 4 beside it where there are two results. `lines_add`: and n % 5 and m % 7 are added.
struct Case {
  int64_t batch = 1, m = 128, n = 128, k = 128;
  bool a_along_k = true, b_along_k = true;
  HopperGemmTile tile{128, 128, 4, 1};
  int blocks = 4;
  int splits = 1, whole_tiles = 0;
  bool half = false;  // f16 operands
  bool tf32 = false;  // f32 operands, B along k
  int lanes = 8;
  // What is added to the GEMM: so many tensors, of bf16 or f32.
  int residuals = 1;
  bool wide_residuals = false;
  int sent_bytes = 0;  // of an element that TMA stores, if it does
  int results = 1;
  bool lines_add = false;
  bool early = false;  // B is loaded before earlier launches have ended; `blocks` does not count

  int operand_bytes() const { return tf32 ? 4 : 2; }
  int residual_bytes() const { return wide_residuals ? 4 : 2; }
  // Of the boxes in which results leave.
  std::vector<int> sent_columns() const {
    if (sent_bytes == 0) return {};
    std::vector<int> columns = {hopper_gemm_stored_columns(sent_bytes)};
    if (const int last = hopper_gemm_last_stored_columns(tile, sent_bytes); last > 0) columns.push_back(last);
    return columns;
  }
  size_t maps() const { return 2 + sent_columns().size() * static_cast<size_t>(results + residuals); }
  std::string describe() const {
    return fmt::format(
        "batch {} {}x{}x{} along k: {} {}, tile {}x{} stages {} cluster {}x{} blocks {} ping-pong {} results in stages "
        "{}, swapped {}, splits {} "
        "after {} tiles, f16 {}, tf32 {}, lanes {}, residuals {} of {} bytes, sent {} of {} bytes, early {}",
        batch, m, n, k, a_along_k, b_along_k, tile.m, tile.n, tile.stages, tile.cluster_m, tile.cluster_n, blocks,
        tile.ping_pong, tile.results_in_stages, tile.swapped, splits, whole_tiles, half, tf32, lanes, residuals,
        residual_bytes(), results, sent_bytes, early);
  }
};

std::string side_text(const std::string& type, bool along_k) {
  return fmt::format(R"(
  struct {0} {{
    static constexpr bool kContiguousInK = {1};
    CAUSEWAY_INLINE void load(void* shared, const TensorMapBytes* map, Mbarrier* barrier, int contiguous,
                              int other, int64_t batch_index) const {{
      tensor_load(shared, map, barrier, contiguous, other, static_cast<int>(batch_index));
    }}
    CAUSEWAY_INLINE void load_multicast(void* shared, const TensorMapBytes* map, Mbarrier* barrier,
                                        int contiguous, int other, int64_t batch_index, uint16_t block_mask) const {{
      tensor_load_multicast(shared, map, barrier, contiguous, other, static_cast<int>(batch_index), block_mask);
    }}
  }};
)",
                     type, along_k);
}

std::string kernel_text(const Case& c) {
  std::string text = "#include \"causeway/kernels/gpu/gemm_hopper.h\"\nnamespace {\nstruct Problem {\n";
  text += fmt::format("using Operand = {};\n", c.tf32 ? "tf32" : c.half ? "f16" : "bf16");
  const bool swapped = c.tile.swapped;
  text += side_text("A", swapped ? c.b_along_k : c.a_along_k) + side_text("B", swapped ? c.a_along_k : c.b_along_k) +
          "A a;\nB b;\n";
  text += gemm_tile_text(c.tile);
  text +=
      fmt::format("\nstatic constexpr int kSplits = {};\nstatic constexpr int kStoreLanes = {};\n", c.splits, c.lanes);
  text += fmt::format(
      "static constexpr int kWholeTiles = {};\nstatic constexpr bool kLinesAdd = {};\n"
      "using Residual = {};\nusing Result = {};\n",
      c.whole_tiles, c.lines_add, c.wide_residuals ? "float" : "bf16", c.sent_bytes == 4 ? "float" : "bf16");
  if (c.early) text += "static constexpr bool kBeginsEarly = true;\n";
  std::string members, fetches, visits, sum = c.sent_bytes > 0 ? "values[e] / 2" : "values[e]";
  if (c.lines_add) sum += " + columns.value[e] + row.value[0]";
  for (int i = 0; i < c.residuals; ++i) {
    members += fmt::format("Residual residual{}[kStoreLanes];\n", i);
    fetches += fmt::format("to.residual{0}[e] = residual[{0} * batch * m * n + at + e];\n", i);
    visits += fmt::format("visit(residual + {} * batch * m * n + at);\n", i);
    sum += fmt::format(" + to_float(fetched.residual{}[e])", i);
  }
  text += R"(
  int64_t batch, m, n, k;
  const Residual* residual;
  Result* result;
  float* workspace;
  uint32_t* outside;  // becomes 1 if what lines add is asked for where C has none
  CAUSEWAY_INLINE Problem(void* const* buffers, const int64_t* sizes)
      : batch(sizes[0]), m(sizes[1]), n(sizes[2] * kStoreLanes), k(sizes[3]),
        residual(global_pointer<const Residual>(buffers[2])), result(global_pointer<Result>(buffers[3])),
        workspace(global_pointer<float>(buffers[4])), outside(global_pointer<uint32_t>(buffers[5]) + 1) {}
  struct FetchedRow {
    float value[kLinesAdd ? 1 : 0];
  };
  CAUSEWAY_INLINE void fetch_row(int64_t m_index, FetchedRow& to) const {
    if constexpr (kLinesAdd) {
      if (m_index >= (kTile.swapped ? n : m)) *outside = 1;
      to.value[0] = static_cast<float>(m_index % 7);
    }
  }
  struct FetchedColumns {
    float value[kLinesAdd ? 8 : 0];
  };
  template <int V>
  CAUSEWAY_INLINE void fetch_columns(int64_t n_index, FetchedColumns& to) const {
    if (kLinesAdd && n_index + V > (kTile.swapped ? m : n)) *outside = 1;
#pragma clang loop unroll(full)
    for (int e = 0; kLinesAdd && e < V; ++e) to.value[e] = static_cast<float>((n_index + e) % 5);
  }
)";
  text += fmt::format(R"(
  struct Fetched {{
    static constexpr int kTensors = {0};
    {1}
  }};
  template <class Visit>
  CAUSEWAY_INLINE void for_each_fetched(int64_t batch_index, int64_t m_index, int64_t n_index, Visit&& visit) const {{
    const int64_t at = (batch_index * m + m_index) * n + n_index;
    {2}
  }}
  template <int V>
  CAUSEWAY_INLINE void fetch(int64_t batch_index, int64_t m_index, int64_t n_index, Fetched& to) const {{
    const int64_t at = (batch_index * m + m_index) * n + n_index;
#pragma clang loop unroll(full)
    for (int e = 0; e < V; ++e) {{
      {3}
    }}
  }}
  template <int V>
  CAUSEWAY_INLINE void store(int64_t batch_index, int64_t m_index, int64_t n_index, const float (&values)[V],
                             const Fetched& fetched, const FetchedColumns& columns) const {{
    const int64_t at = (batch_index * m + m_index) * n + n_index;
    FetchedRow row;
    fetch_row(m_index, row);
    Result stored[V];
#pragma clang loop unroll(full)
    for (int e = 0; e < V; ++e) stored[e] = {5}({4});
#pragma clang loop unroll(full)
    for (int e = 0; e < V; ++e) result[at + e] = stored[e];
  }}
)",
                      c.residuals, members, visits, fetches, sum, c.sent_bytes == 4 ? "" : "to_bf16");
  if (c.sent_bytes > 0 && c.residuals > 0 && c.residual_bytes() != c.sent_bytes)
    text += "using TmaFetched = Residual;\n";
  if (c.sent_bytes > 0)
    text += fmt::format(R"(
  using TmaStored = Result;
  static constexpr int kTmaStored = {};
  template <int V>
  CAUSEWAY_INLINE void finish(const float (&values)[V], const Fetched& fetched, const FetchedRow& row,
                              const FetchedColumns& columns, float (&results)[kTmaStored][V]) const {{
#pragma clang loop unroll(full)
    for (int e = 0; e < V; ++e) {{
      results[0][e] = {};
      if constexpr (kTmaStored > 1) results[kTmaStored - 1][e] = values[e] / 4;
    }}
  }}
)",
                        c.results, sum);
  text += "};\n}\n";
  text += fmt::format("{}(kernel_run, {}, 1, 6, 4, {}) {{\n", c.early ? "CAUSEWAY_EARLY_KERNEL" : "CAUSEWAY_KERNEL",
                      hopper_gemm_threads(c.tile), c.maps()) +
          fmt::format("const Problem problem(buffers, sizes);\nhopper_gemm_run(problem, maps, {});\n}}\n",
                      c.early ? "task" : "static_cast<uint32_t*>(buffers[5])");
  if (c.splits > 1)
    text += fmt::format("CAUSEWAY_KERNEL(kernel_combine, {}, 1, 6, 4, {}) {{\n", kHopperGemmCombineThreads, c.maps()) +
            "const Problem problem(buffers, sizes);\nhopper_gemm_combine(problem, task);\n}\n";
  return text;
}

Device& device() {
  static const std::shared_ptr<Device> device = [] {
    return open_device_under_test(device_of_environment().value_or("emulator:sm_90a"));
  }();
  return *device;
}

TensorMap operand_map(const Case& c, int buffer, int64_t lines, bool along_k, int box_lines) {
  TensorMap map;
  map.buffer = buffer;
  map.rank = 3;
  const int bytes = c.operand_bytes();
  map.element_bytes = bytes;
  map.sizes = {along_k ? c.k : lines, along_k ? lines : c.k, c.batch};
  map.stride_bytes = {bytes, map.sizes[0] * bytes, lines * c.k * bytes};
  map.box = {hopper_gemm_slice_k(bytes), along_k ? box_lines : hopper_gemm_slice_k(bytes), 1};
  map.swizzle_bytes = 128;
  map.rounds_to_tf32 = c.tf32;
  return map;
}

// Of a result, or of what is added to it, of so many bytes an element. `before`: tensors in the buffer that come first.
TensorMap result_map(const Case& c, int columns, int buffer, int before, int bytes) {
  TensorMap map;
  map.buffer = buffer;
  map.offset = before * c.batch * c.m * c.n * bytes;
  map.element_bytes = bytes;
  map.rank = 3;
  map.sizes = {c.n, c.m, c.batch};
  map.stride_bytes = {bytes, c.n * bytes, c.m * c.n * bytes};
  map.box = {columns, kHopperGemmStoredRows, 1};
  map.swizzle_bytes = kHopperGemmBoxLine * bytes / c.sent_bytes;
  return map;
}

// Numbers of few bits as the operand has them in memory; of f32 others, which are rounded to them and not cut.
std::vector<char> in_memory(const std::vector<float>& numbers, const Case& c) {
  std::vector<char> bytes(numbers.size() * static_cast<size_t>(c.operand_bytes()));
  for (size_t i = 0; i < numbers.size(); ++i) {
    const float other = numbers[i] * (1 + (static_cast<float>(i % 3) - 1) * 0x1.8p-13F);
    const uint16_t bits = c.half ? __builtin_bit_cast(uint16_t, to_f16(numbers[i])) : to_bf16(numbers[i]).bits;
    if (c.tf32) {
      std::memcpy(bytes.data() + i * sizeof other, &other, sizeof other);
    } else {
      std::memcpy(bytes.data() + i * sizeof bits, &bits, sizeof bits);
    }
  }
  return bytes;
}

void expect_gemm(const Case& c) {
  SCOPED_TRACE(c.describe());
  std::mt19937 random(1);
  const auto draw = [&](int64_t count) {
    std::vector<float> numbers(static_cast<size_t>(count));
    for (float& number : numbers) number = static_cast<float>(static_cast<int>(random() % 33) - 16) / 8;
    return numbers;  // exact in every type
  };
  const std::vector<float> a = draw(c.batch * c.m * c.k), b = draw(c.batch * c.n * c.k);
  const auto count = static_cast<size_t>(c.batch * c.m * c.n);
  const std::vector<float> wide = draw(c.residuals * c.batch * c.m * c.n);
  std::vector<bf16> residual;
  for (const float number : wide) residual.push_back(to_bf16(number));
  const auto upload = [](const auto& values) {
    const size_t bytes = values.size() * sizeof(values[0]);
    DeviceBuffer buffer = device().allocate(bytes);
    device().copy_to_device(buffer.data(), values.data(), bytes);
    return buffer;
  };
  const DeviceBuffer a_buffer = upload(in_memory(a, c)), b_buffer = upload(in_memory(b, c));
  const DeviceBuffer residual_buffer = c.wide_residuals ? upload(wide) : upload(residual);
  const size_t result_bytes = c.sent_bytes == 4 ? 4 : 2;
  const auto results = static_cast<size_t>(c.results);
  const DeviceBuffer result_buffer = device().allocate(results * count * result_bytes);
  const int64_t rows = c.tile.swapped ? c.n : c.m, columns = c.tile.swapped ? c.m : c.n;
  const int64_t tiles = c.batch * gemm_ceil_div(rows, hopper_gemm_cluster_rows(c.tile)) *
                        gemm_ceil_div(columns, hopper_gemm_cluster_columns(c.tile));
  const int64_t split_tiles = c.splits > 1 ? tiles - c.whole_tiles : 0;
  const DeviceBuffer workspace = device().allocate(
      static_cast<size_t>(split_tiles * c.splits * c.tile.m * hopper_gemm_cluster(c.tile) * c.tile.n) * sizeof(float) +
      16);
  const DeviceBuffer task_counter = device().allocate(2 * sizeof(uint32_t), true);

  std::vector<TensorMap> maps = {
      operand_map(c, 0, c.m, c.a_along_k, hopper_gemm_loaded_lines(c.tile, c.tile.swapped)),
      operand_map(c, 1, c.n, c.b_along_k, hopper_gemm_loaded_lines(c.tile, !c.tile.swapped))};
  if (c.tile.swapped) std::swap(maps[0], maps[1]);
  for (const int columns : c.sent_columns()) {
    for (int i = 0; i < c.results; ++i) maps.push_back(result_map(c, columns, 3, i, c.sent_bytes));
    for (int i = 0; i < c.residuals; ++i) maps.push_back(result_map(c, columns, 2, i, c.residual_bytes()));
  }
  void* const buffers[] = {a_buffer.data(),      b_buffer.data(),  residual_buffer.data(),
                           result_buffer.data(), workspace.data(), task_counter.data()};
  const int64_t sizes[] = {c.batch, rows, columns / c.lanes, c.k};
  const auto module = device().load(compile_module(with_planted_fault(kernel_text(c)), device().target()));
  DeviceLaunch launch;
  launch.kernel = module->kernel("kernel_run");
  launch.buffers = buffers;
  launch.sizes = sizes;
  const int64_t clusters = tiles - split_tiles + split_tiles * c.splits;
  const int cluster = hopper_gemm_cluster(c.tile);
  // More blocks than tiles are not needed, and do no harm.
  launch.task_count = c.early       ? clusters * cluster
                      : cluster > 1 ? std::min<int64_t>(c.blocks, clusters * cluster)
                                    : c.blocks;
  launch.threads = hopper_gemm_threads(c.tile);
  launch.shared_bytes = hopper_gemm_shared_bytes(c.tile);
  launch.cluster = cluster;
  launch.tensor_maps = maps;
  device().launch(launch);
  if (c.splits > 1) {
    launch.kernel = module->kernel("kernel_combine");
    launch.task_count = split_tiles * hopper_gemm_combine_blocks(c.tile);
    launch.threads = kHopperGemmCombineThreads;
    launch.shared_bytes = kHopperGemmCombineShared;
    launch.cluster = 1;
    device().launch(launch);
  }
  uint32_t counters[] = {1, 1};
  device().copy_to_host(counters, task_counter.data(), sizeof counters);
  EXPECT_EQ(counters[0], 0u) << "not what the next launch needs";
  EXPECT_EQ(counters[1], 0u) << "what lines add was read outside of them";
  std::vector<char> result(results * count * result_bytes);
  device().copy_to_host(result.data(), result_buffer.data(), result.size());
  const auto result_at = [&](size_t at) {
    if (result_bytes == 2) {
      bf16 value;
      std::memcpy(&value, result.data() + at * 2, 2);
      return to_float(value);
    }
    float value = 0;
    std::memcpy(&value, result.data() + at * 4, 4);
    return value;
  };

  int wrong = 0;
  for (int64_t batch = 0; batch < c.batch; ++batch) {
    for (int64_t m = 0; m < c.m; ++m) {
      for (int64_t n = 0; n < c.n; ++n) {
        float sum = 0;  // exact: multiples of 1/64 below 2^18
        for (int64_t k = 0; k < c.k; ++k) {
          const int64_t in_a = c.a_along_k ? m * c.k + k : k * c.m + m, in_b = c.b_along_k ? n * c.k + k : k * c.n + n;
          sum += a[static_cast<size_t>(batch * c.m * c.k + in_a)] * b[static_cast<size_t>(batch * c.n * c.k + in_b)];
        }
        const auto at = static_cast<size_t>((batch * c.m + m) * c.n + n);
        const auto expect = [&](size_t place, float value) {
          const float expected = result_bytes == 4 ? value : to_float(to_bf16(value));
          if (!(result_at(place) == expected) && ++wrong <= 3)
            ADD_FAILURE() << "batch " << batch << " row " << m << " column " << n << ": " << result_at(place)
                          << " instead of " << expected;
        };
        if (c.results > 1) expect(count + at, sum / 4);
        if (c.sent_bytes > 0) sum /= 2;
        if (c.lines_add) sum += static_cast<float>(n % 5 + m % 7);
        for (int i = 0; i < c.residuals; ++i) sum += wide[i * count + at];
        expect(at, sum);
      }
    }
  }
  EXPECT_EQ(wrong, 0);
}

TEST(HopperGemm, EveryOrientation) {
  for (const bool a_along_k : {true, false})
    for (const bool b_along_k : {true, false})
      expect_gemm({.m = 128, .n = 128, .k = 192, .a_along_k = a_along_k, .b_along_k = b_along_k});
}

// Boxes of 128 bytes and of 64, of odd and even numbers in a tile's rows, beyond the result's ends, one tile after the
// other; and a result whose last tiles are split.
TEST(HopperGemm, ResultsAreStoredByTma) {
  for (const int bytes : {2, 4})
    for (const int residuals : {0, 1}) {
      const auto expect_sent = [&](Case c) {
        c.residuals = residuals;
        c.sent_bytes = bytes;
        c.wide_residuals = bytes == 4;
        c.lines_add = residuals == 0 || c.batch > 1;
        expect_gemm(c);
      };
      expect_sent({.batch = 2, .m = 152, .n = 136, .k = 88});
      for (const HopperGemmTile tile : {HopperGemmTile{64, 64, 3, 1},
                                        {128, 160, 2, 1},
                                        {256, 192, 3, 1},
                                        {128, 256, 4, 1},
                                        {128, 192, 2, 1},
                                        {128, 96, 2, 1, true},
                                        {128, 192, 4, 1, true},
                                        {128, 208, 4, 1, false, true},
                                        {64, 144, 3, 1},
                                        {128, 80, 3, 1, true, true}})
        expect_sent({.m = 328, .n = 360, .k = 200, .tile = tile, .blocks = 2});
      expect_sent({.m = 200, .n = 320, .k = 328, .tile = {128, 64, 3, 1}, .blocks = 3, .splits = 3, .whole_tiles = 6});
      expect_sent({.m = 384, .n = 256, .k = 200, .tile = {128, 128, 3, 2}});
    }
}

// A box for each of them, two parts of a tile at a time or one.
TEST(HopperGemm, TwoResultsAreStoredByTma) {
  for (const int bytes : {2, 4})
    for (const HopperGemmTile tile :
         {HopperGemmTile{64, 64, 3, 1}, {128, 160, 2, 1}, {128, 192, 2, 1, true}, {128, 256, 4, 1}, {256, 192, 3, 1}})
      expect_gemm({.batch = 2,
                   .m = 200,
                   .n = 360,
                   .k = 136,
                   .tile = tile,
                   .blocks = 2,
                   .residuals = 0,
                   .sent_bytes = bytes,
                   .results = 2});
}

HopperGemmTile swapped_tile(HopperGemmTile tile) {
  tile.swapped = true;
  return tile;
}

// Columns of C by 64, rows by 16: parts of 64 rows of it and the 16 to 48 that are left, for each 64 columns that a
// warpgroup has; one tile after the other, ping-pong, from stages, of shared lines, and one result or two.
TEST(HopperGemm, SwappedGemms) {
  for (const bool a_along_k : {true, false})
    for (const bool b_along_k : {true, false})
      expect_gemm({.batch = 2,
                   .m = 152,
                   .n = 136,
                   .k = 88,
                   .a_along_k = a_along_k,
                   .b_along_k = b_along_k,
                   .tile = swapped_tile({128, 64, 3, 1, false, a_along_k}),
                   .residuals = 0,
                   .sent_bytes = 2,
                   .lines_add = a_along_k});
  for (const int results : {1, 2})
    for (const HopperGemmTile tile : {HopperGemmTile{64, 80, 3, 1, false, true},
                                      {64, 128, 4, 1, true, true},
                                      {128, 96, 3, 1, true, true},
                                      {128, 112, 5, 1, false, true, true},
                                      {256, 160, 3, 1, false, true},
                                      {256, 192, 3, 1, false, true}})
      expect_gemm({.m = 328,
                   .n = 360,
                   .k = 200,
                   .tile = swapped_tile(tile),
                   .blocks = tile.results_in_stages ? 12 : 2,
                   .residuals = 0,
                   .sent_bytes = 2,
                   .results = results,
                   .lines_add = true});
  expect_gemm({.m = 283,
               .n = 136,
               .k = 72,
               .tile = swapped_tile({64, 96, 4, 1, false, true}),
               .lanes = 1,
               .residuals = 0,
               .sent_bytes = 2,
               .lines_add = true});
  for (const HopperGemmTile& cluster :
       {HopperGemmTile{128, 96, 4, 2, false, true, true, 4}, HopperGemmTile{64, 96, 4, 4, false, true, true, 2}})
    expect_gemm({.m = 328,
                 .n = 1000,
                 .k = 200,
                 .tile = swapped_tile(cluster),
                 .blocks = 32,
                 .half = true,
                 .residuals = 0,
                 .sent_bytes = 2,
                 .lines_add = true});
}

TEST(HopperGemm, EveryTile) {
  for (const int m : {64, 128})
    for (const int n : {64, 192, 256})
      expect_gemm({.m = 64, .n = 256, .k = 128, .b_along_k = n != 192, .tile = {m, n, 2, 1}});
  for (const int n : {160, 192})
    for (const bool a_along_k : {true, false})
      for (const bool b_along_k : {true, false})
        expect_gemm({.m = 344,
                     .n = 280,
                     .k = 136,
                     .a_along_k = a_along_k,
                     .b_along_k = b_along_k,
                     .tile = {192, n, 3, 1},
                     .blocks = 2});
  expect_gemm({.m = 328, .n = 280, .k = 520, .tile = {192, 112, 5, 1, false, true, true}, .blocks = 4});
  expect_gemm({.m = 200, .n = 248, .k = 328, .tile = {192, 96, 3, 1}, .splits = 3, .whole_tiles = 1});
  // The largest, whose sums leave fewest registers.
  for (const bool a_along_k : {true, false})
    for (const bool b_along_k : {true, false})
      expect_gemm(
          {.m = 280, .n = 344, .k = 136, .a_along_k = a_along_k, .b_along_k = b_along_k, .tile = {256, 208, 3, 1}});
  expect_gemm({.m = 264, .n = 440, .k = 328, .tile = {256, 208, 3, 1}, .splits = 3, .whole_tiles = 1});
}

TEST(HopperGemm, SizesThatNoTileDivides) {
  for (const bool a_along_k : {true, false})
    for (const bool b_along_k : {true, false})
      expect_gemm({.m = 152, .n = 136, .k = 88, .a_along_k = a_along_k, .b_along_k = b_along_k});
}

// Last pieces of 16 and of 48 columns, which are the GEMM's last ones or not.
TEST(HopperGemm, NarrowPieces) {
  for (const HopperGemmTile tile :
       {HopperGemmTile{256, 112, 3, 1}, HopperGemmTile{128, 208, 4, 1, false, true}, HopperGemmTile{128, 80, 3, 1},
        HopperGemmTile{64, 240, 3, 1, true}, HopperGemmTile{128, 208, 3, 1, true, true}})
    for (const bool a_along_k : {true, false})
      for (const bool b_along_k : {true, false})
        for (const int lanes : {1, 8})
          if (b_along_k || !tile.b_along_k)
            expect_gemm({.m = 400,
                         .n = 424,
                         .k = 136,
                         .a_along_k = a_along_k,
                         .b_along_k = b_along_k,
                         .tile = tile,
                         .blocks = 2,
                         .lanes = lanes,
                         .lines_add = true});
  for (const HopperGemmTile tile : {HopperGemmTile{256, 112, 3, 1}, HopperGemmTile{64, 80, 3, 1}})
    expect_gemm({.m = 200, .n = 248, .k = 328, .tile = tile, .splits = 3, .whole_tiles = 1});
}

// The ring goes around several times, across tiles, and the producer runs ahead of results that are being stored.
TEST(HopperGemm, BlocksComputeManyTiles) {
  expect_gemm({.m = 320, .n = 264, .k = 328, .tile = {128, 64, 3, 1}, .blocks = 2, .half = true});
}

// Each warpgroup passes over the stages of the other's tiles: odd numbers of them, more than the ring has.
TEST(HopperGemm, PingPongTiles) {
  for (const bool a_along_k : {true, false})
    for (const bool b_along_k : {true, false})
      expect_gemm({.m = 152,
                   .n = 136,
                   .k = 88,
                   .a_along_k = a_along_k,
                   .b_along_k = b_along_k,
                   .tile = {128, 128, 3, 1, true},
                   .blocks = 1});
  expect_gemm({.m = 320, .n = 264, .k = 328, .tile = {64, 64, 3, 1, true}, .blocks = 2, .half = true});
  expect_gemm({.m = 200, .n = 256, .k = 456, .tile = {128, 192, 2, 1, true}, .blocks = 2});
  expect_gemm({.m = 384, .n = 256, .k = 200, .tile = {128, 128, 3, 2, true}, .blocks = 4});
}

// Tiles of a single slice, of which several are under way at once; and blocks for which few tiles or none are left.
TEST(HopperGemm, BlocksTakeWhatIsLeft) {
  for (const bool ping_pong : {false, true}) {
    expect_gemm({.m = 832, .n = 64, .k = 64, .tile = {64, 64, 4, 1, ping_pong}, .blocks = 1});
    expect_gemm({.m = 192, .n = 64, .k = 72, .tile = {64, 64, 3, 1, ping_pong}, .blocks = 3});
    for (const int blocks : {1, 2, 3, 9})
      expect_gemm({.m = 64, .n = 192, .k = 136, .tile = {64, 64, 2, 1, ping_pong}, .blocks = blocks});
  }
}

// In the orders that the tile can have, whole and in two parts of k; and sent with and without what is added.
void expect_gemms(Case c) {
  for (const bool along_k : {true, false}) {
    c.a_along_k = along_k || (c.tile.cluster_n > 1 && c.tile.m / c.tile.cluster_n < 64);
    c.b_along_k = along_k || c.tile.b_along_k;
    for (const int splits : {1, 2}) {
      c.splits = splits;
      expect_gemm(c);
    }
  }
  c.splits = 1;
  for (const int residuals : {0, 1}) {
    c.residuals = residuals;
    c.sent_bytes = 2 + residuals * 2;
    c.wide_residuals = residuals > 0;
    expect_gemm(c);
  }
}

// Results leave from where slices were: of one tile for each block and of several, of fewer slices than stages and of
// more, with and without what is added to them, and parts of k.
TEST(HopperGemm, ResultsLeaveFromStages) {
  for (const HopperGemmTile tile :
       {HopperGemmTile{64, 96, 11, 1, false, true, true}, HopperGemmTile{128, 208, 4, 1, false, true, true},
        HopperGemmTile{256, 160, 3, 1, false, false, true}})
    for (const int blocks : {2, 32}) {
      Case c = {.m = 200, .n = 264, .k = blocks == 2 ? 136 : 520, .tile = tile, .blocks = blocks};
      expect_gemms(c);
      c.a_along_k = false;
      c.b_along_k = tile.b_along_k;
      c.residuals = 0;
      c.sent_bytes = 4;
      c.results = 2;
      expect_gemm(c);
    }
}

// Blocks that begin early have one tile or part of one each: of fewer slices than stages and of more, with and without
// what is added to the results, stored by TMA and otherwise, of transposes, of clusters, and of parts of k of which the
// last has fewer slices.
TEST(HopperGemm, BlocksThatBeginEarly) {
  for (const int64_t k : {64, 200, 1160}) {
    for (const HopperGemmTile tile : {HopperGemmTile{64, 48, 12, 1, false, true, true, 1, 1},
                                      HopperGemmTile{64, 224, 6, 1, false, true, true, 1, 1}}) {
      for (const int splits : {1, k > 200 ? 3 : 2}) {
        if (splits > 1 && k < 200) continue;
        Case c = {.m = 33, .n = 472, .k = k, .tile = tile, .splits = splits, .early = true};
        expect_gemm(c);
        c.residuals = 0;
        c.sent_bytes = 2;
        expect_gemm(c);
        c.residuals = 1;
        c.wide_residuals = true;
        c.sent_bytes = 4;
        c.m = 64;
        expect_gemm(c);
      }
    }
    expect_gemm({.m = 40,
                 .n = 472,
                 .k = k,
                 .tile = swapped_tile({64, 64, 7, 1, false, true, true}),
                 .residuals = 0,
                 .sent_bytes = 2,
                 .early = true});
    expect_gemm({.m = 200, .n = 328, .k = k, .tile = {64, 96, 4, 2, false, true, true, 2}, .early = true});
  }
}

// Blocks of a cluster that share rows of A, side by side, or columns of B, one above the other, and keep results where
// slices were: with tiles that are outside the result in part or as a whole, in one round and in several.
TEST(HopperGemm, ClustersShareEitherOperand) {
  for (const HopperGemmTile tile :
       {HopperGemmTile{128, 96, 7, 1, false, true, true, 2}, HopperGemmTile{128, 80, 4, 1, false, true, true, 4},
        HopperGemmTile{64, 208, 5, 2, false, true, true}, HopperGemmTile{256, 64, 4, 4, false, true, true},
        HopperGemmTile{128, 128, 3, 1, false, false, false, 2}, HopperGemmTile{64, 160, 4, 4, false, true, true, 2},
        HopperGemmTile{128, 96, 3, 2, false, true, false, 2}})
    for (const int blocks : {8, 32})
      expect_gemms({.m = 328, .n = 456, .k = blocks == 8 ? 136 : 520, .tile = tile, .blocks = blocks});
}

// Pairs of blocks that compute several tiles, the last of them outside the result: cooperative and ping-pong, of
// transposes, and where the last tiles are split.
TEST(HopperGemm, PairsOfBlocksComputeManyTiles) {
  for (const HopperGemmTile tile :
       {HopperGemmTile{128, 112, 4, 2, true, true}, HopperGemmTile{128, 96, 4, 1, true, true, false, 2},
        HopperGemmTile{256, 80, 4, 1, false, true, false, 2}, HopperGemmTile{192, 96, 4, 2, false, true}}) {
    for (const bool b_along_k : {true, false}) {
      if (!b_along_k && tile.cluster_m > 1) continue;  // half of a tile's columns would not be whole boxes
      HopperGemmTile with = tile;
      with.b_along_k = b_along_k;
      expect_gemm({.m = 328, .n = 456, .k = 200, .b_along_k = b_along_k, .tile = with, .blocks = 4});
    }
    expect_gemm({.m = 456,
                 .n = 328,
                 .k = 264,
                 .tile = swapped_tile(tile),
                 .blocks = 4,
                 .residuals = 0,
                 .sent_bytes = 2,
                 .lines_add = true});
  }
  for (const HopperGemmTile tile :
       {HopperGemmTile{128, 96, 4, 1, false, true, false, 2}, HopperGemmTile{64, 208, 5, 2, false, true, true}})
    expect_gemm({.m = 328, .n = 456, .k = 228, .tile = tile, .blocks = tile.results_in_stages ? 32 : 4, .tf32 = true});
  for (const int whole_tiles : {0, 2})
    expect_gemm({.m = 328,
                 .n = 456,
                 .k = 520,
                 .b_along_k = false,
                 .tile = {128, 128, 4, 1, false, false, false, 2},
                 .blocks = 4,
                 .splits = 2,
                 .whole_tiles = whole_tiles});
}

// Three rows of tiles in groups of two.
TEST(HopperGemm, TilesComeInGroupsOfRows) {
  for (const int blocks : {4, 64})
    for (const int splits : {1, 2})
      expect_gemm({.batch = splits == 1 ? 3 : 1,
                   .m = 328,
                   .n = 456,
                   .k = 520,
                   .tile = {128, 96, 5, 1, false, true, true, 1, 2},
                   .blocks = blocks,
                   .splits = splits});
}

// Tiles whose last piece of results, and last box of lines side by side, is half as wide as the others: where the
// result ends before, within and after that piece, and where tiles fit.
TEST(HopperGemm, TilesOf160Columns) {
  for (const HopperGemmTile tile : {HopperGemmTile{128, 160, 3, 1, true}, HopperGemmTile{128, 160, 3, 1},
                                    HopperGemmTile{256, 160, 2, 1}, HopperGemmTile{64, 160, 3, 1}})
    for (const bool a_along_k : {true, false})
      for (const bool b_along_k : {true, false})
        expect_gemm({.m = 280, .n = 344, .k = 136, .a_along_k = a_along_k, .b_along_k = b_along_k, .tile = tile});
  for (const int64_t n : {8, 72, 136, 152, 160, 168, 288, 320})
    for (const HopperGemmTile tile : {HopperGemmTile{128, 160, 4, 1, true}, HopperGemmTile{256, 160, 3, 1}})
      expect_gemm({.m = n == 160 ? 512 : 200, .n = n, .k = 72, .b_along_k = n % 16 == 0, .tile = tile, .blocks = 1});
  expect_gemm({.m = 144, .n = 1600, .k = 200, .b_along_k = false, .tile = {128, 160, 4, 1, true}, .blocks = 2});
}

TEST(HopperGemm, TilesOf160ColumnsInBatchesAndNarrowStores) {
  for (const int lanes : {4, 2, 1})
    expect_gemm({.batch = 2,
                 .m = 136,
                 .n = 328,
                 .k = 72,
                 .b_along_k = lanes != 2,
                 .tile = {128, 160, 2, 1, lanes != 4},
                 .blocks = 2,
                 .half = true,
                 .lanes = lanes});
}

TEST(HopperGemm, TilesOf160ColumnsAreSplit) {
  for (const HopperGemmTile tile :
       {HopperGemmTile{64, 160, 3, 1}, HopperGemmTile{128, 160, 3, 1}, HopperGemmTile{256, 160, 3, 1}})
    for (const int whole_tiles : {0, 1}) {
      const int64_t m = tile.m + 8;
      expect_gemm({.m = m, .n = 248, .k = 328, .tile = tile, .splits = 3, .whole_tiles = whole_tiles});
      expect_gemm({.batch = 2,
                   .m = m,
                   .n = 320,
                   .k = 200,
                   .a_along_k = false,
                   .b_along_k = false,
                   .tile = tile,
                   .blocks = 3,
                   .splits = 2,
                   .whole_tiles = 3 * whole_tiles,
                   .lanes = 4});
    }
}

// A slice is 32 of k; k that is no multiple of it, or of an instruction's 8.
TEST(HopperGemm, RoundsFloatsToTf32) {
  for (const int64_t k : {4, 8, 32, 36, 100, 328}) expect_gemm({.m = 152, .n = 136, .k = k, .tf32 = true});
  for (const HopperGemmTile tile : {HopperGemmTile{64, 80, 3, 1}, HopperGemmTile{128, 208, 4, 1, false, true},
                                    HopperGemmTile{256, 208, 3, 1}, HopperGemmTile{128, 208, 4, 1, true},
                                    HopperGemmTile{128, 208, 4, 1, false, true, true}, HopperGemmTile{128, 128, 3, 2}})
    for (const int residuals : {0, 1})
      expect_gemm({.batch = 2,
                   .m = 200,
                   .n = 344,
                   .k = 140,
                   .tile = tile,
                   .blocks = 2,
                   .tf32 = true,
                   .lanes = 4,
                   .residuals = residuals,
                   .wide_residuals = true,
                   .sent_bytes = tile.cluster_m == 1 ? 4 : 0});
  for (const int whole_tiles : {0, 1})
    expect_gemm({.batch = 2,
                 .m = 200,
                 .n = 248,
                 .k = 228,
                 .tile = {128, 160, 3, 1},
                 .splits = 3,
                 .whole_tiles = whole_tiles,
                 .tf32 = true});
}

// Lines of A side by side, which pass through registers.
TEST(HopperGemm, TakesFloatsFromRegisters) {
  for (const int64_t k : {4, 8, 32, 36, 100, 328})
    expect_gemm({.m = 152, .n = 136, .k = k, .a_along_k = false, .tf32 = true});
  for (const HopperGemmTile tile : {HopperGemmTile{64, 80, 3, 1}, HopperGemmTile{128, 208, 4, 1, false, true},
                                    HopperGemmTile{128, 256, 2, 1}, HopperGemmTile{128, 208, 4, 1, false, true, true}})
    for (const int residuals : {0, 1})
      expect_gemm({.batch = 2,
                   .m = 204,
                   .n = 344,
                   .k = 140,
                   .a_along_k = false,
                   .tile = tile,
                   .blocks = 2,
                   .tf32 = true,
                   .lanes = 4,
                   .residuals = residuals,
                   .wide_residuals = true,
                   .sent_bytes = 4});
  for (const int whole_tiles : {0, 1})
    expect_gemm({.m = 200,
                 .n = 248,
                 .k = 228,
                 .a_along_k = false,
                 .tile = {128, 160, 3, 1},
                 .splits = 3,
                 .whole_tiles = whole_tiles,
                 .tf32 = true});
}

// What is added to results of f32 that TMA stores, of one tensor of bf16 or of two, comes through boxes beside theirs:
// with parts of 32 columns and a last one of 16, beyond the result's ends, one tile after the other and where the last
// are split.
TEST(HopperGemm, StoresAddTensorsOfHalfTheBytes) {
  for (const HopperGemmTile tile :
       {HopperGemmTile{128, 128, 4, 1, true}, HopperGemmTile{128, 112, 4, 1, true}, HopperGemmTile{256, 80, 3, 1},
        HopperGemmTile{64, 80, 6, 1, false, true, true}, HopperGemmTile{128, 208, 3, 1, false, true},
        HopperGemmTile{128, 96, 3, 2, false, true}})
    for (const int residuals : {1, 2}) {
      const int blocks = tile.results_in_stages ? 32 : 2;
      expect_gemm({.batch = 2,
                   .m = 200,
                   .n = 264,
                   .k = 136,
                   .tile = tile,
                   .blocks = blocks,
                   .residuals = residuals,
                   .sent_bytes = 4,
                   .lines_add = true});
    }
  expect_gemm({.m = 200,
               .n = 264,
               .k = 520,
               .tile = {128, 96, 4, 1, false, true},
               .blocks = 4,
               .splits = 2,
               .whole_tiles = 2,
               .residuals = 2,
               .sent_bytes = 4});
}

// What stores add comes through shared memory where it is one tensor, 16 bytes of each lane: of bf16 and eight lanes,
// as everywhere else here, or of f32 and four. With four stages of 128 x 256 there is no room for it.
TEST(HopperGemm, StoresAddTensors) {
  for (const HopperGemmTile tile :
       {HopperGemmTile{128, 128, 3, 1, true}, HopperGemmTile{128, 160, 4, 1, true}, HopperGemmTile{256, 160, 3, 1},
        HopperGemmTile{128, 192, 4, 1}, HopperGemmTile{128, 256, 4, 1}, HopperGemmTile{64, 64, 3, 1}})
    for (const int lanes : {4, 8})
      for (const int residuals : {1, 2})
        for (const bool wide : {false, true})
          expect_gemm({.batch = 2,
                       .m = 200,
                       .n = 344,
                       .k = 72,
                       .tile = tile,
                       .blocks = 2,
                       .lanes = lanes,
                       .residuals = residuals,
                       .wide_residuals = wide});
}

TEST(HopperGemm, ClustersShareB) {
  for (const bool b_along_k : {true, false})
    expect_gemm({.m = 384, .n = 256, .k = 200, .b_along_k = b_along_k, .tile = {128, 128, 3, 2}, .blocks = 4});
}

TEST(HopperGemm, BatchesAndNarrowStores) {
  expect_gemm({.batch = 3,
               .m = 72,
               .n = 76 * 2,
               .k = 72,
               .b_along_k = false,
               .tile = {64, 128, 2, 1},
               .blocks = 4,
               .lanes = 4});
}

TEST(HopperGemm, SplitsOfKAreAddedInOrder) {
  expect_gemm({.batch = 2,
               .m = 64,
               .n = 64,
               .k = 456,
               .a_along_k = false,
               .b_along_k = false,
               .tile = {64, 64, 3, 1},
               .splits = 4});
}

// The first tiles are computed whole, the others in parts of which the last has fewer slices.
TEST(HopperGemm, TheLastTilesAreSplit) {
  for (const int whole_tiles : {0, 1, 4, 11})
    expect_gemm({.m = 200, .n = 264, .k = 456, .tile = {64, 128, 3, 1}, .splits = 3, .whole_tiles = whole_tiles});
  expect_gemm({.batch = 2,
               .m = 152,
               .n = 136,
               .k = 328,
               .b_along_k = false,
               .tile = {128, 64, 3, 1},
               .blocks = 3,
               .splits = 2,
               .whole_tiles = 7,
               .lanes = 4});
  expect_gemm({.m = 384, .n = 256, .k = 328, .tile = {128, 128, 3, 2}, .blocks = 4, .splits = 2, .whole_tiles = 1});
}

// A C75xx note means that the assembler lets matrix instructions run one after the other, or ignores setmaxnreg.
void expect_no_spills(const Case& c) {
  SCOPED_TRACE(c.describe());
  const Target target = gpu_target("sm_90a");
  const std::string image = compile_module(kernel_text(c), target);
  EXPECT_NE(image.find("wgmma.mma_async"), std::string::npos);
  EXPECT_NE(image.find("cp.async.bulk.tensor"), std::string::npos);
  const auto resources = kernel_resources(image, target);
  ASSERT_TRUE(resources.has_value());
  for (const KernelResources& kernel : *resources) {
    EXPECT_EQ(kernel.spill_bytes, 0);
    EXPECT_EQ(kernel.stack_bytes, 0);
    EXPECT_TRUE(kernel.notes.empty()) << kernel.notes.front();
    if (c.tile.m >= 128) EXPECT_EQ(kernel.registers, c.tile.m == 192 ? 128 : 168);
  }
}

TEST(HopperGemm, AssemblesWithoutSpillsOrNotes) {
  if (find_ptxas().empty()) GTEST_SKIP() << "What ptxas makes of the kernels is not tested. " << how_to_get_ptxas();
  for (const bool a_along_k : {true, false}) {
    for (const HopperGemmTile tile :
         {HopperGemmTile{128, 256, 4, 2}, HopperGemmTile{64, 256, 4, 1}, HopperGemmTile{128, 128, 6, 1, true},
          HopperGemmTile{128, 128, 5, 1, true}, HopperGemmTile{64, 256, 4, 1, true},
          HopperGemmTile{128, 160, 4, 1, true}, HopperGemmTile{128, 160, 4, 1}, HopperGemmTile{256, 160, 3, 1},
          HopperGemmTile{128, 208, 4, 1}, HopperGemmTile{128, 224, 4, 1}, HopperGemmTile{64, 240, 5, 1},
          HopperGemmTile{256, 144, 3, 1}, HopperGemmTile{256, 192, 3, 1}, HopperGemmTile{192, 160, 3, 1},
          HopperGemmTile{192, 176, 4, 1, false, false, true}, HopperGemmTile{192, 192, 3, 1},
          HopperGemmTile{128, 192, 5, 1, false, false, true}}) {
      // The fullest epilogue takes the most registers; those without are compiled in one order.
      if (a_along_k) expect_no_spills({.a_along_k = true, .b_along_k = false, .tile = tile});
      expect_no_spills({.a_along_k = a_along_k,
                        .b_along_k = !a_along_k,
                        .tile = tile,
                        .residuals = 1,
                        .wide_residuals = true,
                        .sent_bytes = 4});
    }
    if (a_along_k)
      for (const HopperGemmTile tile :
           {HopperGemmTile{128, 256, 4, 1}, HopperGemmTile{256, 208, 3, 1}, HopperGemmTile{128, 160, 4, 1, true}})
        expect_no_spills({.tile = tile, .tf32 = true, .wide_residuals = true, .sent_bytes = 4});
    if (a_along_k)
      for (const int columns : {48, 64, 160, 224, 256})
        for (const int splits : {1, 2})
          expect_no_spills({.tile = {64, columns, 5, 1, false, true, true, 1, 1},
                            .splits = splits,
                            .wide_residuals = true,
                            .sent_bytes = 4,
                            .early = true});
    if (a_along_k)
      for (const HopperGemmTile tile :
           {HopperGemmTile{128, 256, 4, 2, false, true, true, 4}, HopperGemmTile{256, 144, 4, 2, false, true, true, 4}})
        for (const int residuals : {0, 1})
          expect_no_spills({.tile = tile, .residuals = residuals, .wide_residuals = true, .sent_bytes = 4});
    if (a_along_k)
      for (const HopperGemmTile tile :
           {HopperGemmTile{256, 192, 3, 1, false, true, false, 2}, HopperGemmTile{256, 192, 3, 2, false, true},
            HopperGemmTile{128, 208, 4, 2, true, true}, HopperGemmTile{192, 192, 3, 1, false, true, false, 2}})
        expect_no_spills({.tile = tile, .residuals = 0, .sent_bytes = 2});
    for (const HopperGemmTile tile : {HopperGemmTile{128, 256, 4, 1}, HopperGemmTile{64, 256, 4, 1},
                                      HopperGemmTile{128, 192, 4, 1, false, true, true}})
      for (const int residuals : {0, 1})
        expect_no_spills({.a_along_k = false,
                          .tile = tile,
                          .tf32 = true,
                          .residuals = residuals,
                          .wide_residuals = true,
                          .sent_bytes = 4});
    for (const HopperGemmTile tile : {HopperGemmTile{128, 208, 4, 1, true}, HopperGemmTile{256, 208, 3, 1}})
      for (const int results : {1, 2})
        expect_no_spills({.a_along_k = a_along_k,
                          .b_along_k = !a_along_k,
                          .tile = tile,
                          .residuals = 0,
                          .sent_bytes = 2,
                          .results = results});
    expect_no_spills({.a_along_k = a_along_k,
                      .b_along_k = !a_along_k,
                      .tile = {128, 192, 4, 1, true},
                      .residuals = 1,
                      .wide_residuals = true,
                      .sent_bytes = 4});
    for (const HopperGemmTile tile : {HopperGemmTile{128, 192, 4, 1, true}, HopperGemmTile{256, 128, 3, 1},
                                      HopperGemmTile{64, 256, 4, 1, true}, HopperGemmTile{128, 256, 3, 1}})
      expect_no_spills(
          {.a_along_k = a_along_k, .b_along_k = !a_along_k, .tile = tile, .residuals = 2, .sent_bytes = 4});
  }
}

TEST(HopperGemm, SwappedGemmsAssembleWithoutSpills) {
  if (find_ptxas().empty()) GTEST_SKIP() << "What ptxas makes of the kernels is not tested. " << how_to_get_ptxas();
  for (const HopperGemmTile tile : {HopperGemmTile{256, 208, 3, 1, false, true},
                                    {256, 144, 4, 2, false, true, true, 4},
                                    {192, 192, 3, 1, false, true},
                                    {192, 160, 5, 1, false, true, true},
                                    {128, 256, 4, 1, false, true, true},
                                    {128, 208, 4, 1, true, true},
                                    {64, 256, 4, 1, true, true}})
    for (const int results : {1, 2})
      expect_no_spills(
          {.b_along_k = results == 1, .tile = swapped_tile(tile), .residuals = 0, .sent_bytes = 2, .results = results});
}

}  // namespace
}  // namespace causeway::program
