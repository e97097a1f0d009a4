// The gemm tests, compiled once for each vector level by the gemm_*_test.cpp beside it. Such a file defines
// CAUSEWAY_X86_LEVEL, MATMUL_TEST_SUITE, a function gemm_level_supported, MATMUL_TEST_MATRIX_TILES where GEMMs of
// bf16 are to go through matrix registers, and turns the machine features on for what follows; the headers below it
// must have been included before. What has nothing to do with matrix registers, floats and skinny paths, is left to the
// files without them: it is three quarters of what a file takes to compile.
#include "causeway/kernels/x86/gemm.h"
#include "causeway/kernels/x86/gemm_amx.h"
#include "causeway/kernels/x86/gemm_grouped.h"
#include "causeway/kernels/x86/gemm_skinny.h"

namespace {

#ifdef MATMUL_TEST_MATRIX_TILES
template <class T>
constexpr bool kByMatrixTiles = gemm::kIsBf16<T>;
#else
template <class T>
constexpr bool kByMatrixTiles = false;
#endif
template <class T>
constexpr int kRowsOf = kByMatrixTiles<T> ? 2 * kMatrixTileRows : gemm::kTileRows;
template <class T>
constexpr int kColumnsOf = kByMatrixTiles<T> ? 2 * kMatrixTileRows : gemm::kTileColumns;

template <class T>
CAUSEWAY_INLINE void convert(float value, T& to) {
  if constexpr (std::is_same_v<T, float>) {
    to = value;
  } else {
    to = to_bf16(value);
  }
}

// A matrix in 64-byte aligned memory with a guard behind it.
template <class T>
class Guarded {
 public:
  explicit Guarded(int64_t count) : count_(count), bytes_(gemm_round_up(count * sizeof(T) + 64, 64)) {
    data_ = static_cast<T*>(std::aligned_alloc(64, bytes_));
    std::memset(static_cast<void*>(data_), 0xff, bytes_);
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() { std::free(data_); }
  T* data() const { return data_; }
  int64_t count() const { return count_; }
  bool intact() const {
    const unsigned char* end = reinterpret_cast<const unsigned char*>(data_ + count_);
    const unsigned char* guard_end = reinterpret_cast<const unsigned char*>(data_) + bytes_;
    return std::all_of(end, guard_end, [](unsigned char byte) { return byte == 0xff; });
  }

 private:
  int64_t count_;
  size_t bytes_;
  T* data_;
};

template <class T>
void fill_random(std::mt19937& random, Guarded<T>& matrix) {
  std::uniform_real_distribution<float> values(-1.0f, 1.0f);
  for (int64_t i = 0; i < matrix.count(); ++i) convert(values(random), matrix.data()[i]);
}

// A plain GEMM, every size known only at run time.
template <class T, bool kTransposedA, bool kTransposedB, GemmBlocks kChosen>
struct Plain {
  using Operand = T;
  static constexpr bool kAContiguousInK = !kTransposedA;
  static constexpr bool kOperandsAreRounded = true;
  static constexpr bool kBContiguousInN = !kTransposedB;
  static constexpr GemmBlocks kBlocks = kChosen;
  int64_t batch, m, n, k;
  const T* a;
  const T* b;
  float* c;
  void* workspace;
  CAUSEWAY_INLINE int64_t a_at(int64_t at_batch, int64_t i, int64_t t) const {
    return at_batch * m * k + (kTransposedA ? t * m + i : i * k + t);
  }
  CAUSEWAY_INLINE int64_t b_at(int64_t at_batch, int64_t t, int64_t j) const {
    return at_batch * n * k + (kTransposedB ? j * k + t : t * n + j);
  }
  CAUSEWAY_INLINE float load_a(int64_t at_batch, int64_t i, int64_t t) const {
    return to_float(a[a_at(at_batch, i, t)]);
  }
  CAUSEWAY_INLINE float load_b(int64_t at_batch, int64_t t, int64_t j) const {
    return to_float(b[b_at(at_batch, t, j)]);
  }
  CAUSEWAY_INLINE void store(int64_t at_batch, int64_t i, int64_t j, float value) const {
    c[(at_batch * m + i) * n + j] = value;
  }
};

// The same with the addresses of the operands offered for prefetching.
template <class T, bool kTransposedA, bool kTransposedB, GemmBlocks kChosen>
struct Prefetching : Plain<T, kTransposedA, kTransposedB, kChosen> {
  static constexpr int64_t kALine = 64 / sizeof(T), kBLine = kALine;
  CAUSEWAY_INLINE void prefetch_a(int64_t at_batch, int64_t i, int64_t t) const {
    __builtin_prefetch(this->a + this->a_at(at_batch, i, t));
  }
  CAUSEWAY_INLINE void prefetch_b(int64_t at_batch, int64_t t, int64_t j) const {
    __builtin_prefetch(this->b + this->b_at(at_batch, t, j));
  }
};

template <class T>
constexpr bool kPaired = gemm::kIsBf16<T> && (kHasPairDot || kByMatrixTiles<T>);

// Blocks far smaller than the real ones, so that small problems have several of each.
template <class T>
constexpr GemmBlocks small_blocks(GemmPath path, int64_t row_tiles, int64_t column_tiles, int64_t k) {
  return {path, kPaired<T>,       kRowsOf<T>, kColumnsOf<T>, row_tiles * kRowsOf<T>, column_tiles * kColumnsOf<T>,
          k,    kByMatrixTiles<T>};
}

template <class T>
constexpr GemmBlocks skinny_blocks(GemmPath path, int64_t rows, int64_t columns, int64_t terms = 64) {
  bool swapped = path == GemmPath::kSkinnySwapped;
  return {path, kPaired<T>, gemm::kTileRows, gemm::kTileColumns, swapped ? columns : rows, swapped ? rows : columns,
          terms};
}

enum class TaskOrder { kForward, kBackward, kShuffled };

std::vector<int64_t> task_list(int64_t count, TaskOrder order) {
  std::vector<int64_t> tasks(count);
  std::iota(tasks.begin(), tasks.end(), 0);
  if (order == TaskOrder::kBackward) std::reverse(tasks.begin(), tasks.end());
  if (order == TaskOrder::kShuffled) std::shuffle(tasks.begin(), tasks.end(), std::mt19937(7));
  return tasks;
}

// Runs both phases, the scratch poisoned before each task.
template <class P>
void run_gemm(P& p, TaskOrder order = TaskOrder::kForward) {
  constexpr GemmBlocks kBlocks = P::kBlocks;
  Guarded<char> workspace(gemm_workspace_bytes(kBlocks, p.batch, p.m, p.n, p.k));
  Guarded<char> scratch(gemm_scratch_bytes(kBlocks, p.m, p.n, p.k));
  p.workspace = workspace.data();
  if constexpr (!gemm_is_skinny(kBlocks)) {
    for (int64_t task : task_list(gemm_pack_tasks(kBlocks, p.batch, p.m, p.n, p.k), order)) gemm_pack(p, task);
  }
  for (int64_t task : task_list(gemm_run_tasks(kBlocks, p.batch, p.m, p.n), order)) {
    std::memset(scratch.data(), 0xff, scratch.count());
    if constexpr (gemm_is_skinny(kBlocks)) {
      gemm_skinny_run(p, task, scratch.data());
    } else {
      gemm_run(p, task, scratch.data());
    }
  }
  EXPECT_TRUE(workspace.intact());
  EXPECT_TRUE(scratch.intact());
}

double rounded(float value, bool to_bf16_first) { return to_bf16_first ? to_float(to_bf16(value)) : value; }

// Checks every element against a sum in f64 of the operands as they are rounded. A sum of k products in f32, in any
// order, is off by at most (k + 1) roundings of the sum of magnitudes.
template <class P>
void expect_gemm(const P& p, const std::vector<float>& c) {
  constexpr bool kRounded = gemm::kIsBf16<typename P::Operand>;
  int failures = 0;
  for (int64_t batch = 0; batch < p.batch; ++batch) {
    for (int64_t i = 0; i < p.m; ++i) {
      for (int64_t j = 0; j < p.n; ++j) {
        double sum = 0;
        double magnitude = 0;
        for (int64_t t = 0; t < p.k; ++t) {
          double term = rounded(p.load_a(batch, i, t), kRounded) * rounded(p.load_b(batch, t, j), kRounded);
          sum += term;
          magnitude += std::abs(term);
        }
        double got = c[(batch * p.m + i) * p.n + j];
        double tolerance = static_cast<double>(p.k + 1) * 0x1p-24 * magnitude;
        if (!(std::abs(got - sum) <= tolerance) && ++failures <= 3) {
          ADD_FAILURE() << "batch " << batch << " row " << i << " column " << j << ": got " << got << ", want " << sum
                        << " within " << tolerance << "; m " << p.m << " n " << p.n << " k " << p.k;
        }
      }
    }
  }
}

template <template <class, bool, bool, GemmBlocks> class Problem, class T, bool kTransposedA, bool kTransposedB,
          GemmBlocks kChosen>
std::vector<float> check_one(int64_t batch, int64_t m, int64_t n, int64_t k, TaskOrder order = TaskOrder::kForward) {
  std::mt19937 random(static_cast<uint32_t>(m * 10007 + n * 101 + k));
  Guarded<T> a(batch * m * k);
  Guarded<T> b(batch * k * n);
  Guarded<float> c(batch * m * n);
  fill_random(random, a);
  fill_random(random, b);
  Problem<T, kTransposedA, kTransposedB, kChosen> p{};
  p.batch = batch;
  p.m = m;
  p.n = n;
  p.k = k;
  p.a = a.data();
  p.b = b.data();
  p.c = c.data();
  run_gemm(p, order);
  EXPECT_TRUE(c.intact());
  std::vector<float> values(c.data(), c.data() + c.count());
  expect_gemm(p, values);
  return values;
}

// Shapes for the packed paths: edges of tiles, blocks and words of k, then random ones.
template <class T>
std::vector<std::array<int64_t, 4>> packed_shapes() {
  constexpr int kRows = kRowsOf<T>, kColumns = kColumnsOf<T>;
  std::vector<std::array<int64_t, 4>> shapes = {
      {1, 1, 1, 1},
      {1, kRows, kColumns, 32},
      {2, kRows + 1, kColumns + 1, 33},
      {1, 3 * kRows, 3 * kColumns, 31},
      {1, 5, kLanes, 64},
      {1, 2 * kRows - 1, 2 * kLanes, 2},
      {3, 7, kLanes + 1, 65},
      {1, 4, 2 * kColumns - 1, 96},
      {1, 200, 7, 5},
      {1, 9, 400, 3},
      {2, 3, 5, 0},
  };
  std::mt19937 random(20);
  for (int i = 0; i < 8; ++i) {
    shapes.push_back({static_cast<int64_t>(1 + random() % 2), static_cast<int64_t>(1 + random() % 90),
                      static_cast<int64_t>(1 + random() % 150), static_cast<int64_t>(1 + random() % 120)});
  }
  return shapes;
}

template <class T, bool kTransposedA, bool kTransposedB>
void check_packed() {
  for (auto [batch, m, n, k] : packed_shapes<T>()) {
    constexpr GemmBlocks kA = small_blocks<T>(GemmPath::kPackA, 2, 2, 32);
    constexpr GemmBlocks kB = small_blocks<T>(GemmPath::kPackB, 3, 1, 32);
    constexpr GemmBlocks kOneBlock = small_blocks<T>(GemmPath::kPackB, 1, 2, 1024);
    auto packed_a = check_one<Plain, T, kTransposedA, kTransposedB, kA>(batch, m, n, k);
    auto packed_b = check_one<Plain, T, kTransposedA, kTransposedB, kB>(batch, m, n, k, TaskOrder::kBackward);
    check_one<Prefetching, T, kTransposedA, kTransposedB, kOneBlock>(batch, m, n, k);
    // Blocks of m and n and the path change no bits, and neither does the order of tasks.
    EXPECT_EQ(std::memcmp(packed_a.data(), packed_b.data(), packed_a.size() * sizeof(float)), 0)
        << "m " << m << " n " << n << " k " << k;
  }
}

class MATMUL_TEST_SUITE : public testing::Test {
 protected:
  void SetUp() override {
    if (!gemm_level_supported()) GTEST_SKIP() << "this machine lacks the vector instructions";
  }
};

#ifndef MATMUL_TEST_MATRIX_TILES
TEST_F(MATMUL_TEST_SUITE, FloatGemmsOfEveryOrientation) {
  check_packed<float, false, false>();
  check_packed<float, false, true>();
  check_packed<float, true, false>();
  check_packed<float, true, true>();
}
#endif

TEST_F(MATMUL_TEST_SUITE, Bf16GemmsOfEveryOrientation) {
  check_packed<bf16, false, false>();
  check_packed<bf16, false, true>();
  check_packed<bf16, true, false>();
  check_packed<bf16, true, true>();
}

// Blocks of more columns and terms than matrix registers take together, one of k and several.
TEST_F(MATMUL_TEST_SUITE, WideAndDeepBlocks) {
  const auto check = []<bool kTransposedA, bool kTransposedB>() {
    constexpr GemmBlocks kOneBlock = small_blocks<bf16>(GemmPath::kPackB, 3, 11, 1024);
    constexpr GemmBlocks kSeveral = small_blocks<bf16>(GemmPath::kPackB, 2, 12, 512);
    constexpr GemmBlocks kSeveralOfA = small_blocks<bf16>(GemmPath::kPackA, 3, 10, 512);
    for (const int64_t n : {256, 330}) {
      for (const int64_t k : {256, 257, 650}) {
        check_one<Plain, bf16, kTransposedA, kTransposedB, kOneBlock>(1, 70, n, k);
        const auto packed_b = check_one<Plain, bf16, kTransposedA, kTransposedB, kSeveral>(1, 70, n, k);
        EXPECT_EQ(packed_b, (check_one<Plain, bf16, kTransposedA, kTransposedB, kSeveralOfA>(1, 70, n, k)));
      }
    }
  };
  check.operator()<false, false>();
  check.operator()<true, true>();
}

#ifndef MATMUL_TEST_MATRIX_TILES
template <class T, bool kTransposedA, bool kTransposedB, int kSkinny>
void check_skinny() {
  std::mt19937 random(30);
  std::vector<std::array<int64_t, 2>> shapes = {{1, 1}, {64, 16}, {65, 17}, {3, 0}, {130, 8}, {70, 64}, {66, 137}};
  for (int i = 0; i < 5; ++i) {
    shapes.push_back({static_cast<int64_t>(1 + random() % 300), static_cast<int64_t>(1 + random() % 100)});
  }
  constexpr GemmBlocks kFewRows = skinny_blocks<T>(GemmPath::kSkinny, kSkinny, 64);
  constexpr GemmBlocks kFewColumns = skinny_blocks<T>(GemmPath::kSkinnySwapped, kSkinny, 64);
  for (auto [wide, k] : shapes) {
    auto forward = check_one<Prefetching, T, kTransposedA, kTransposedB, kFewRows>(2, kSkinny, wide, k);
    auto shuffled =
        check_one<Prefetching, T, kTransposedA, kTransposedB, kFewRows>(2, kSkinny, wide, k, TaskOrder::kShuffled);
    EXPECT_EQ(forward, shuffled);
    check_one<Plain, T, kTransposedA, kTransposedB, kFewColumns>(2, wide, kSkinny, k);
  }
}

TEST_F(MATMUL_TEST_SUITE, SkinnyGemms) {
  check_skinny<float, false, false, 1>();
  check_skinny<float, false, true, 2>();
  check_skinny<float, true, false, 3>();
  check_skinny<float, true, true, 4>();
  check_skinny<bf16, false, false, 4>();
  check_skinny<bf16, false, true, 1>();
  check_skinny<bf16, true, false, 2>();
  check_skinny<bf16, true, true, 3>();
}

// More rows than registers hold the sums of.
TEST_F(MATMUL_TEST_SUITE, SkinnyGemmsOfManyRows) {
  check_skinny<float, false, false, 5>();
  check_skinny<float, false, true, 8>();
  check_skinny<float, true, true, 13>();
  check_skinny<float, false, false, 16>();
  check_skinny<float, false, true, 17>();
  check_skinny<float, true, false, 32>();
  check_skinny<bf16, false, true, 7>();
  check_skinny<bf16, false, false, 9>();
  check_skinny<bf16, true, true, 16>();
}

// Terms that wait in scratch are taken in several blocks, the last one not whole; a row's sums have the same bits
// however many rows there are beside it.
template <class T, bool kTransposedA, int kSkinny>
void check_skinny_blocks() {
  constexpr int kFew = 2;
  constexpr GemmBlocks kBlocks = skinny_blocks<T>(GemmPath::kSkinny, kSkinny, 96, 200);
  constexpr GemmBlocks kFewBlocks = skinny_blocks<T>(GemmPath::kSkinny, kFew, 160, 1024);
  constexpr std::array<std::array<int64_t, 2>, 5> kShapes = {{{96, 200}, {100, 199}, {49, 130}, {17, 465}, {150, 601}}};
  for (auto [wide, k] : kShapes) {
    check_one<Plain, T, kTransposedA, false, kBlocks>(2, kSkinny, wide, k);
    std::mt19937 random(50);
    Guarded<T> a(kSkinny * k), b(k * wide);
    fill_random(random, a);
    fill_random(random, b);
    const auto run = [&](auto& p, int64_t rows) {
      Guarded<float> c(rows * wide);
      p.batch = 1;
      p.m = rows;
      p.n = wide;
      p.k = k;
      p.a = a.data();
      p.b = b.data();
      p.c = c.data();
      run_gemm(p);
      EXPECT_TRUE(c.intact());
      return std::vector<float>(c.data(), c.data() + c.count());
    };
    Prefetching<T, false, false, kBlocks> all{};
    Prefetching<T, false, false, kFewBlocks> few{};
    std::vector<float> of_all = run(all, kSkinny);
    const std::vector<float> of_few = run(few, kFew);
    of_all.resize(of_few.size());
    EXPECT_EQ(of_all, of_few) << "of " << kSkinny << " rows; n " << wide << " k " << k;
    EXPECT_NE(of_few, std::vector<float>(of_few.size()));
  }
}

TEST_F(MATMUL_TEST_SUITE, SkinnyGemmsOfManyRowsAndTerms) {
  check_skinny_blocks<float, false, 5>();
  check_skinny_blocks<float, false, 8>();
  check_skinny_blocks<float, true, 11>();
  check_skinny_blocks<float, false, 16>();
  check_skinny_blocks<bf16, false, 7>();
  check_skinny_blocks<bf16, true, 16>();
}
#endif

// Operands computed while they are packed, sizes known when it is compiled, an epilogue with two outputs of which one
// accumulates.
template <class T, GemmBlocks kChosen, bool kConstantSizes>
struct Fused {
  using Operand = T;
  static constexpr bool kAContiguousInK = true;
  static constexpr bool kBContiguousInN = false;
  static constexpr GemmBlocks kBlocks = kChosen;
  static constexpr int64_t batch = 1, m = 37, n = 101, k = 75;
  const float* a;
  const float* gain;
  const bf16* b;
  const float* bias;
  float* total;
  bf16* activated;
  void* workspace;
  CAUSEWAY_INLINE float load_a(int64_t, int64_t i, int64_t t) const { return a[i * 75 + t] * gain[t] + 0.25f; }
  CAUSEWAY_INLINE float load_b(int64_t, int64_t t, int64_t j) const { return j < t ? 0.0f : to_float(b[j * 75 + t]); }
  CAUSEWAY_INLINE void store(int64_t, int64_t i, int64_t j, float value) const {
    float biased = value + bias[j];
    total[i * 101 + j] += biased;
    activated[i * 101 + j] = to_bf16(biased > 0.0f ? biased : 0.0f);
  }
};

template <class T, GemmBlocks kChosen>
struct Fused<T, kChosen, false> : Fused<T, kChosen, true> {
  int64_t batch = 1, m = 37, n = 101, k = 75;
};

template <class T, GemmBlocks kChosen>
void check_fused() {
  std::mt19937 random(40);
  Guarded<float> a(37 * 75), gain(75), bias(101);
  Guarded<bf16> b(101 * 75);
  fill_random(random, a);
  fill_random(random, gain);
  fill_random(random, bias);
  fill_random(random, b);
  auto run = [&](auto& p) {
    std::vector<float> total(37 * 101, 2.0f);
    std::vector<bf16> activated(37 * 101);
    p.a = a.data();
    p.gain = gain.data();
    p.b = b.data();
    p.bias = bias.data();
    p.total = total.data();
    p.activated = activated.data();
    run_gemm(p);
    return std::pair(total, activated);
  };
  Fused<T, kChosen, true> constant{};
  auto [total, activated] = run(constant);
  Fused<T, kChosen, false> run_time{};
  auto [run_time_total, run_time_activated] = run(run_time);
  EXPECT_EQ(total, run_time_total);
  EXPECT_EQ(std::memcmp(activated.data(), run_time_activated.data(), activated.size() * sizeof(bf16)), 0);

  constexpr bool kRounded = gemm::kIsBf16<T>;
  int failures = 0;
  for (int64_t i = 0; i < 37; ++i) {
    for (int64_t j = 0; j < 101; ++j) {
      double sum = 0;
      double magnitude = 1;
      for (int64_t t = 0; t < 75; ++t) {
        double left = rounded(constant.load_a(0, i, t), kRounded);
        double term = left * rounded(constant.load_b(0, t, j), kRounded);
        sum += term;
        // A prologue contracted to one rounding may land on the neighbouring bf16, or on the neighbouring float.
        magnitude += std::abs(term);
      }
      double biased = sum + static_cast<double>(bias.data()[j]);
      double tolerance = magnitude * (kRounded ? 0x1p-8 / 8 : 100 * 0x1p-23);
      double got = total[i * 101 + j] - 2.0;
      double got_activated = to_float(activated[i * 101 + j]);
      double activated_tolerance = tolerance + std::abs(biased) * 0x1p-8;
      if (!(std::abs(got - biased) <= tolerance) ||
          !(std::abs(got_activated - std::max(biased, 0.0)) <= activated_tolerance)) {
        if (++failures <= 3) {
          ADD_FAILURE() << "row " << i << " column " << j << ": got " << got << " and " << got_activated << ", want "
                        << biased;
        }
      }
    }
  }
}

TEST_F(MATMUL_TEST_SUITE, ProloguesAndEpilogues) {
#ifndef MATMUL_TEST_MATRIX_TILES
  check_fused<float, small_blocks<float>(GemmPath::kPackA, 3, 1, 32)>();
  check_fused<float, small_blocks<float>(GemmPath::kPackB, 2, 2, 1024)>();
#endif
  check_fused<bf16, small_blocks<bf16>(GemmPath::kPackA, 1, 2, 1024)>();
  check_fused<bf16, small_blocks<bf16>(GemmPath::kPackB, 2, 1, 32)>();
}

TEST_F(MATMUL_TEST_SUITE, AnEmptySumIsZeroInTheEpilogue) {
  Plain<float, false, false, small_blocks<float>(GemmPath::kPackB, 1, 1, 32)> p{};
  std::vector<float> c(3 * 5, 9.0f);
  p.batch = 1;
  p.m = 3;
  p.n = 5;
  p.c = c.data();
  run_gemm(p);
  EXPECT_EQ(c, std::vector<float>(15, 0.0f));
}

TEST_F(MATMUL_TEST_SUITE, NaNAndInfinityReachOnlyTheirOwnRow) {
  std::vector<bf16> a(20 * 7, to_bf16(1.0f)), b(7 * 9, to_bf16(1.0f));
  a[3 * 7 + 6] = to_bf16(std::numeric_limits<float>::quiet_NaN());
  a[4 * 7 + 2] = to_bf16(std::numeric_limits<float>::infinity());
  std::vector<float> c(20 * 9);
  Plain<bf16, false, false, small_blocks<bf16>(GemmPath::kPackB, 1, 1, 32)> p{};
  p.batch = 1;
  p.m = 20;
  p.n = 9;
  p.k = 7;
  p.a = a.data();
  p.b = b.data();
  p.c = c.data();
  run_gemm(p);
  for (int64_t i = 0; i < 20; ++i) {
    for (int64_t j = 0; j < 9; ++j) {
      float got = c[i * 9 + j];
      EXPECT_TRUE(i == 3 ? std::isnan(got) : i == 4 ? std::isinf(got) : got == 7.0f) << i << " " << j << " " << got;
    }
  }
}

// Rows in groups: `offsets` has a line of groups + 1 for each slab. Where rows are summed up, n is that of B's rows.
template <class T, bool kSums, bool kTransposedB, GemmBlocks kChosen>
struct Grouped {
  using Operand = T;
  static constexpr bool kAContiguousInK = !kSums, kBContiguousInN = !kTransposedB, kSumsRows = kSums;
  static constexpr bool kOperandsAreRounded = true;
  static constexpr GemmBlocks kBlocks = kChosen;
  int64_t slabs, groups, m, n, k;
  const int32_t* offsets;
  const T* a;
  const T* b;
  float* c;
  CAUSEWAY_INLINE int64_t offset(int64_t slab, int64_t i) const { return offsets[slab * (groups + 1) + i]; }
  CAUSEWAY_INLINE float load_a(int64_t slab, int64_t i, int64_t t) const {
    return to_float(a[slab * m * k + (kSums ? t * m + i : i * k + t)]);
  }
  CAUSEWAY_INLINE float load_b(int64_t batch, int64_t t, int64_t j) const {
    return to_float(b[batch * n * k + (kTransposedB ? j * k + t : t * n + j)]);
  }
  CAUSEWAY_INLINE void store(int64_t batch, int64_t i, int64_t j, float value) const {
    c[(batch * m + i) * n + j] = value;
  }
};

// `sizes`: of each slab's groups, of at most `rows` rows, the rest of which are no numbers.
template <class T, bool kSums, bool kTransposedB, GemmBlocks kChosen>
std::vector<float> check_grouped(const std::vector<std::vector<int32_t>>& sizes, int64_t rows, int64_t width,
                                 int64_t columns, TaskOrder order = TaskOrder::kForward) {
  const auto slabs = static_cast<int64_t>(sizes.size()), groups = static_cast<int64_t>(sizes[0].size());
  std::vector<int32_t> offsets;
  for (const std::vector<int32_t>& slab : sizes) {
    offsets.push_back(0);
    for (const int32_t size : slab) offsets.push_back(offsets.back() + size);
  }
  const auto group_of = [&](int64_t slab, int64_t row) {
    int64_t group = 0;
    while (group < groups && row >= offsets[slab * (groups + 1) + group + 1]) ++group;
    return group;
  };
  std::mt19937 random(static_cast<uint32_t>(rows * 101 + width));
  Guarded<T> a(slabs * rows * width), b(kSums ? slabs * rows * columns : groups * width * columns);
  fill_random(random, a);
  fill_random(random, b);
  for (int64_t slab = 0; slab < slabs; ++slab) {
    for (int64_t row = offsets[slab * (groups + 1) + groups]; row < rows; ++row) {
      for (int64_t i = 0; i < width; ++i) convert(NAN, a.data()[(slab * rows + row) * width + i]);
      for (int64_t j = 0; kSums && j < columns; ++j) convert(NAN, b.data()[(slab * rows + row) * columns + j]);
    }
  }
  Guarded<float> c((kSums ? groups * width : slabs * rows) * columns);
  std::vector<double> expected(c.count()), magnitudes(c.count());
  for (int64_t slab = 0; slab < slabs; ++slab) {
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t group = group_of(slab, row);
      if (group == groups) continue;
      for (int64_t i = 0; i < width; ++i) {
        for (int64_t j = 0; j < columns; ++j) {
          const double left = to_float(a.data()[(slab * rows + row) * width + i]);
          const double right = to_float(b.data()[kSums          ? (slab * rows + row) * columns + j
                                                 : kTransposedB ? (group * columns + j) * width + i
                                                                : (group * width + i) * columns + j]);
          const int64_t at = (kSums ? group * width + i : slab * rows + row) * columns + j;
          expected[at] += left * right;
          magnitudes[at] += std::abs(left * right);
        }
      }
    }
  }
  Grouped<T, kSums, kTransposedB, kChosen> p{};
  p.slabs = slabs;
  p.groups = groups;
  p.m = kSums ? width : rows;
  p.n = columns;
  p.k = kSums ? rows : width;
  p.offsets = offsets.data();
  p.a = a.data();
  p.b = b.data();
  p.c = c.data();
  const int64_t tasks =
      kSums ? gemm_run_tasks(kChosen, groups, p.m, p.n) : grouped_gemm_row_tasks(kChosen, slabs, groups, p.m, p.n);
  Guarded<char> scratch(grouped_gemm_scratch_bytes(kChosen, p.k));
  for (const int64_t task : task_list(tasks, order)) {
    std::memset(scratch.data(), 0xff, scratch.count());
    grouped_gemm_run(p, task, scratch.data());
  }
  EXPECT_TRUE(scratch.intact() && c.intact());
  int failures = 0;
  for (int64_t at = 0; at < c.count(); ++at) {
    const double tolerance = static_cast<double>(slabs * p.k + 1) * 0x1p-24 * magnitudes[at];
    if (!(std::abs(c.data()[at] - expected[at]) <= tolerance) && ++failures <= 3)
      ADD_FAILURE() << "element " << at << " is " << c.data()[at] << " instead of " << expected[at] << "; rows " << rows
                    << " width " << width << " columns " << columns;
  }
  return {c.data(), c.data() + c.count()};
}

template <class T>
void check_grouped_forms() {
  constexpr GemmBlocks kSmall = small_blocks<T>(GemmPath::kPackB, 1, 1, 32);
  constexpr GemmBlocks kLarge = small_blocks<T>(GemmPath::kPackB, 3, 2, 32);
  const std::vector<std::vector<std::vector<int32_t>>> cases = {
      {{0, 5, 0, 41}}, {{70, 0, 0}}, {{0, 0, 33}}, {{0, 0}}, {{3, 34, 2}, {0, 1, 0}}, {{0, 0}, {25, 0}, {0, 64}}};
  for (const auto& sizes : cases) {
    for (const auto& [width, columns] : {std::pair(1, 1), std::pair(33, 50), std::pair(70, 7), std::pair(64, 97)}) {
      const auto rows = check_grouped<T, false, false, kSmall>(sizes, 71, width, columns);
      const auto sums = check_grouped<T, true, false, kSmall>(sizes, 71, width, columns);
      check_grouped<T, false, true, kSmall>(sizes, 71, width, columns);
      // Neither blocks nor the order of tasks change a bit.
      EXPECT_EQ(rows, (check_grouped<T, false, false, kLarge>(sizes, 71, width, columns, TaskOrder::kBackward)));
      EXPECT_EQ(sums, (check_grouped<T, true, false, kLarge>(sizes, 71, width, columns, TaskOrder::kShuffled)));
    }
  }
}

#ifndef MATMUL_TEST_MATRIX_TILES
TEST_F(MATMUL_TEST_SUITE, FloatGemmsOfGroups) { check_grouped_forms<float>(); }
#endif

TEST_F(MATMUL_TEST_SUITE, Bf16GemmsOfGroups) { check_grouped_forms<bf16>(); }

TEST_F(MATMUL_TEST_SUITE, LanesOfSeveralVectorsAreSummedAsThoseOfOne) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> values(-1.0f, 1.0f);
  FloatLanes vectors[kLanes];
  float expected[kLanes];
  for (int v = 0; v < kLanes; ++v) {
    for (int lane = 0; lane < kLanes; ++lane) vectors[v][lane] = values(random);
    expected[v] = sum_lanes(vectors[v]);
  }
  const FloatLanes found = sum_lanes_of(vectors);
  for (int v = 0; v < kLanes; ++v) EXPECT_EQ(found[v], expected[v]) << v;
}

TEST_F(MATMUL_TEST_SUITE, TransposeWordsMovesEveryWord) {
  constexpr int kCount = gemm::kTileRows;
  WordLanes rows[kCount];
  for (int i = 0; i < kCount; ++i) {
    for (int lane = 0; lane < kLanes; ++lane) rows[i][lane] = static_cast<uint32_t>(100 * i + lane);
  }
  transpose_words<kCount>(rows);
  uint32_t words[kCount * kLanes];
  for (int i = 0; i < kCount; ++i) store_lanes(words + i * kLanes, rows[i]);
  for (int i = 0; i < kCount; ++i) {
    for (int lane = 0; lane < kLanes; ++lane)
      EXPECT_EQ(words[lane * kCount + i], static_cast<uint32_t>(100 * i + lane));
  }
}

}  // namespace
