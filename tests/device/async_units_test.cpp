// The emulator's asynchronous units, driven by one thread: no kernels, no fibers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <stdexcept>

#include "causeway/base/error.h"
#include "causeway/device/emulator/async_copy.h"
#include "causeway/device/emulator/matrix_unit.h"
#include "causeway/device/emulator/mbarrier.h"
#include "causeway/device/emulator/warpgroup_unit.h"

namespace causeway::device {
namespace {

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class OneThread : public AsyncHost {
 public:
  explicit OneThread(int blocks = 1, uint32_t seed = 1) : random_(seed), shared_(static_cast<size_t>(blocks)) {
    for (auto& memory : shared_) {
      memory.reset(static_cast<std::byte*>(std::aligned_alloc(1024, kBytes)));
      std::memset(memory.get(), 0xff, kBytes);
    }
  }
  int cluster_size() const override { return static_cast<int>(shared_.size()); }
  int block_rank() const override { return rank; }
  int thread() const override { return thread_index; }
  std::span<std::byte> shared(int block_rank) override {
    return {shared_[static_cast<size_t>(block_rank)].get(), kBytes};
  }
  uint64_t random(uint64_t bound) override { return random_() % bound; }
  void wait_until(const std::function<bool()>& ready, const std::function<std::string()>& what) override {
    while (!ready()) {
      if (effects.empty()) fail("deadlock: " + what());
      effects.apply_one(*this);
    }
  }
  void fail(const std::string& what) override { throw Failure(what); }

  static constexpr size_t kBytes = 64 << 10;
  int rank = 0;
  int thread_index = 0;
  DelayedEffects effects;

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::mt19937 random_;
  std::vector<std::unique_ptr<std::byte, Free>> shared_;
};

struct Units {
  explicit Units(int blocks = 1, uint32_t seed = 1) : host(blocks, seed) {}
  std::byte* shared(int offset = 0) { return host.shared(host.rank).data() + offset; }

  OneThread host;
  AsyncView view{host};
  Mbarriers barriers{host};
  ThreadCopies copies{host, view};
  TensorCopies tensors{host, host.effects, barriers, view};
  WarpgroupUnit warpgroups{host, host.effects, view};
};

template <class Work>
std::string failure(const Work& work) {
  try {
    work();
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "no failure";
}

uint16_t bf16_bits(float value) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16); }

// Small integers are exact in every type, and so are their sums.
float small(std::mt19937& random) { return static_cast<float>(static_cast<int>(random() % 15) - 7); }

TensorMap map_2d(int64_t columns, int64_t rows, int64_t stride_elements, int box_columns, int box_rows, int swizzle,
                 int element_bytes = 2) {
  TensorMap map;
  map.element_bytes = element_bytes;
  map.rank = 2;
  map.sizes = {columns, rows};
  map.stride_bytes = {element_bytes, stride_elements * element_bytes};
  map.box = {box_columns, box_rows};
  map.swizzle_bytes = swizzle;
  return map;
}

TEST(ThreadCopies, AppearAtTheWaitAtTheLatest) {
  alignas(16) std::array<uint32_t, 4 * 64> from;
  std::iota(from.begin(), from.end(), 1);
  Units units;
  for (int i = 0; i < 64; ++i) {
    units.copies.copy_16(units.shared(16 * i), from.data() + 4 * i, i % 8 != 7);
    if (i == 31) units.copies.commit();
  }
  units.copies.commit();
  const auto poisoned = [&](int first, int last) {
    int count = 0;
    for (int i = first; i < last; ++i) count += units.shared(16 * i)[5] == kPoison;
    return count;
  };
  EXPECT_GT(poisoned(0, 32), 16);
  EXPECT_LT(poisoned(0, 64), 64) << "some copies are early";
  units.copies.wait(1);
  EXPECT_EQ(poisoned(0, 32), 0);
  EXPECT_GT(poisoned(32, 64), 16);
  units.copies.wait(0);
  for (int i = 0; i < 64; ++i) {
    std::array<uint32_t, 4> expected{};
    if (i % 8 != 7) std::copy_n(from.data() + 4 * i, 4, expected.data());
    EXPECT_EQ(std::memcmp(units.shared(16 * i), expected.data(), 16), 0) << i;
  }
  EXPECT_NE(failure([&] { units.copies.copy_16(units.shared(8), from.data(), true); }).find("misaligned"),
            std::string::npos);
}

TEST(Mbarriers, PhaseEndsWithArrivalsAndBytes) {
  Units units;
  void* barrier = units.shared(64);
  EXPECT_NE(failure([&] { units.barriers.wait(barrier, 0); }).find("not initialised"), std::string::npos);
  units.barriers.init(barrier, 2);
  units.barriers.init_fence();
  units.barriers.wait(barrier, 1);
  units.barriers.arrive(barrier, 0);
  units.barriers.expect_bytes(barrier, 96);
  units.barriers.complete_bytes(0, 64, 64);
  const std::string report = failure([&] { units.barriers.wait(barrier, 0); });
  EXPECT_NE(report.find("deadlock: barrier_wait() for parity 0"), std::string::npos) << report;
  EXPECT_NE(report.find("0 of 2 arrivals missing, 32 bytes outstanding"), std::string::npos) << report;
  EXPECT_NE(failure([&] { units.barriers.arrive(barrier, 0); }).find("too many arrivals"), std::string::npos);
  units.barriers.complete_bytes(0, 64, 32);
  units.barriers.wait(barrier, 0);
  // The next phase counts again from the start, and bytes may come before they are announced.
  units.barriers.complete_bytes(0, 64, 16);
  units.barriers.expect_bytes(barrier, 16);
  EXPECT_NE(failure([&] { units.barriers.wait(barrier, 1); }).find("1 of 2 arrivals missing"), std::string::npos);
  units.barriers.arrive(barrier, 0);
  units.barriers.wait(barrier, 1);
}

TEST(TensorCopies, BoxesLieInThePatternsOfTheSwizzle) {
  constexpr int kColumns = 100, kRows = 40, kStride = 104;
  alignas(16) static std::array<uint16_t, kRows * kStride> tensor;
  std::iota(tensor.begin(), tensor.end(), uint16_t{1});
  constexpr int box_rows = 16;
  // Rows that are shorter than the swizzle are as far apart as it is wide.
  for (const auto& [swizzle, box_columns] :
       {std::pair{0, 24}, {32, 16}, {64, 32}, {128, 64}, {64, 16}, {128, 16}, {128, 48}}) {
    const int row_bytes = swizzle == 0 ? box_columns * 2 : swizzle;
    for (const auto& [c0, c1] : {std::pair{0, 0}, {-8, 30}, {90, -3}, {37, 5}}) {
      Units units;
      alignas(64) const EmulatedTensorMap map =
          encode_tensor_map(map_2d(kColumns, kRows, kStride, box_columns, box_rows, swizzle), tensor.data());
      units.barriers.init(units.shared(), 1);
      units.barriers.init_fence();
      units.barriers.expect_bytes(units.shared(), box_columns * box_rows * 2);
      const int at = 1024 + 128 * 3;
      units.tensors.load(units.shared(at), &map, units.shared(), {c0, c1}, 2, 0);
      EXPECT_EQ(units.shared(at)[7], kPoison);
      units.barriers.wait(units.shared(), 0);
      for (int row = 0; row < box_rows; ++row) {
        for (int column = 0; column < box_columns; ++column) {
          // By hand: 16-byte pieces; the piece's bits are combined with address bits 7 and up.
          const int address = at + row * row_bytes + column * 2;
          const int bits = swizzle == 0 ? 0 : swizzle / 16 - 1;
          const int place = (address & ~(bits << 4)) | (((address >> 4) ^ (address >> 7)) & bits) << 4;
          const int y = c1 + row, x = c0 + column;
          const bool inside = x >= 0 && x < kColumns && y >= 0 && y < kRows;
          uint16_t value = 0;
          std::memcpy(&value, units.shared(place), 2);
          ASSERT_EQ(value, inside ? tensor[static_cast<size_t>(y * kStride + x)] : 0)
              << "swizzle " << swizzle << " of rows of " << box_columns << ", row " << row << " column " << column;
        }
      }
      // Back into another tensor: only what lies inside is written.
      alignas(16) std::array<uint16_t, kRows * kStride> back{};
      alignas(64) const EmulatedTensorMap back_map =
          encode_tensor_map(map_2d(kColumns, kRows, kStride, box_columns, box_rows, swizzle), back.data());
      units.tensors.store(&back_map, units.shared(at), {c0, c1}, 2);
      units.tensors.store_commit();
      EXPECT_EQ(failure([&] { units.tensors.thread_ended(); }),
                "ends before tensor_store_wait<0>() has covered its tensor stores");
      units.tensors.store_wait(0);
      std::memset(units.shared(at), 0, static_cast<size_t>(row_bytes * box_rows));
      units.host.effects.apply_all(units.host);
      units.tensors.thread_ended();
      for (int y = 0; y < kRows; ++y) {
        for (int x = 0; x < kStride; ++x) {
          const bool inside = x < kColumns && x >= c0 && x < c0 + box_columns && y >= c1 && y < c1 + box_rows;
          const auto place = static_cast<size_t>(y * kStride + x);
          ASSERT_EQ(back[place], inside ? tensor[place] : 0) << x << ' ' << y;
        }
      }
    }
  }
}

TEST(TensorCopies, MulticastWritesAndCountsInEveryBlock) {
  alignas(16) static std::array<uint8_t, 4 * 32> tensor;
  std::iota(tensor.begin(), tensor.end(), uint8_t{1});
  Units units(3);
  for (units.host.rank = 0; units.host.rank < 3; ++units.host.rank) units.barriers.init(units.shared(8), 1);
  units.host.rank = 0;
  EXPECT_NE(failure([&] { units.barriers.arrive(units.shared(8), 2); }).find("before barrier_init_fence()"),
            std::string::npos);
  for (units.host.rank = 0; units.host.rank < 3; ++units.host.rank) {
    units.barriers.init_fence();
    units.barriers.expect_bytes(units.shared(8), units.host.rank == 1 ? 16 : 64);
  }
  units.host.rank = 0;
  alignas(64) const EmulatedTensorMap map = encode_tensor_map(map_2d(32, 4, 32, 16, 4, 0, 1), tensor.data());
  units.tensors.load(units.shared(256), &map, units.shared(8), {16, 0}, 2, 0b101);
  EXPECT_NE(failure([&] {
              units.tensors.load(units.shared(256), &map, units.shared(8), {0, 0}, 2, 0b1000);
            }).find("of a cluster of 3"),
            std::string::npos);
  for (const int rank : {2, 0}) {
    units.host.rank = rank;
    units.barriers.wait(units.shared(8), 0);
    EXPECT_EQ(std::to_integer<int>(units.shared(256)[16]), 1 + 32 + 16);
  }
  units.host.rank = 1;
  EXPECT_EQ(units.shared(256)[16], kPoison);
  EXPECT_NE(failure([&] { units.barriers.wait(units.shared(8), 0); }).find("16 bytes outstanding"), std::string::npos);
}

TEST(TensorCopies, RefusesWhatTheEngineRefuses) {
  alignas(16) static std::array<uint16_t, 64 * 64> tensor;
  alignas(64) const EmulatedTensorMap map = encode_tensor_map(map_2d(64, 64, 64, 64, 8, 128), tensor.data());
  Units units;
  units.barriers.init(units.shared(), 1);
  const auto load = [&](int offset, const void* bytes, int rank) {
    return failure([&] { units.tensors.load(units.shared(offset), bytes, units.shared(), {0, 0}, rank, 0); });
  };
  EXPECT_NE(load(1024, &map, 2).find("before barrier_init_fence()"), std::string::npos);
  units.barriers.init_fence();
  EXPECT_NE(load(64, &map, 2).find("not a multiple of 128"), std::string::npos);
  EXPECT_NE(load(64 * 1024 - 512, &map, 2).find("leaves the block's 65536 bytes"), std::string::npos);
  EXPECT_NE(load(1024, &map, 3).find("3 coordinates for a tensor map of rank 2"), std::string::npos);
  EXPECT_NE(load(1024, tensor.data(), 2).find("not a tensor map"), std::string::npos);

  const auto encode_error = [&](const TensorMap& bad) -> std::string {
    try {
      encode_tensor_map(bad, tensor.data());
    } catch (const Error& error) {
      return error.message();
    }
    return "no error";
  };
  EXPECT_EQ(encode_error(map_2d(64, 64, 63, 64, 8, 128)),
            "stride 126 of dimension 1 is not a positive multiple of 16 below 2^40");
  EXPECT_EQ(encode_error(map_2d(64, 64, 64, 64, 300, 128)), "box 300 of dimension 1 is not in 1..256");
  EXPECT_EQ(encode_error(map_2d(64, 64, 64, 64, 8, 64)), "a row of the box has 128 bytes, its swizzle 64");
  EXPECT_EQ(encode_error(map_2d(64, 64, 64, 4, 8, 0)), "a row of the box has 8 bytes, not a multiple of 16");
}

TEST(TensorCopies, BulkStoresAndSumsArriveWithTheirWait) {
  for (const uint32_t seed : {1u, 2u, 3u}) {
    alignas(16) std::array<float, 12> memory{};
    Units units(1, seed);
    const auto fill = [&](float first) {
      for (int i = 0; i < 8; ++i) {
        const float value = first + static_cast<float>(i);
        std::memcpy(units.shared(64 + 4 * i), &value, 4);
      }
      units.view.publish();
    };
    fill(1);
    units.tensors.store(memory.data() + 4, units.shared(64), 32, false);
    units.tensors.store_commit();
    units.tensors.store_wait(0);
    fill(100);  // what was read may be written to, whether it has arrived or not
    units.tensors.store(memory.data() + 4, units.shared(64), 32, true);
    units.tensors.store_commit();
    units.tensors.write_wait(1);
    if (memory[4] != 101.0f) {
      EXPECT_EQ(memory[4], 1.0f);
    }
    units.tensors.write_wait(0);
    for (size_t i = 0; i < memory.size(); ++i)
      EXPECT_EQ(memory[i], i < 4 ? 0.0f : 101.0f + 2 * static_cast<float>(i - 4)) << i;
    EXPECT_EQ(failure([&] { units.tensors.thread_ended(); }), "no failure");

    const auto refusal = [&](float* to, int offset, int bytes) {
      return failure([&] { units.tensors.store(to, units.shared(offset), bytes, true); });
    };
    EXPECT_NE(refusal(memory.data() + 1, 64, 16).find("have to be multiples of 16"), std::string::npos);
    EXPECT_NE(refusal(memory.data(), 72, 16).find("have to be multiples of 16"), std::string::npos);
    EXPECT_NE(refusal(memory.data(), 64, 24).find("have to be multiples of 16"), std::string::npos);
    EXPECT_NE(refusal(memory.data(), 64 * 1024 - 16, 32).find("of 65536 bytes"), std::string::npos);
  }
}

TEST(AsyncView, StoresNeedAFenceBeforeTheEngineReadsThem) {
  alignas(16) static std::array<uint16_t, 64 * 64> tensor;
  alignas(64) const EmulatedTensorMap map = encode_tensor_map(map_2d(64, 64, 64, 64, 8, 128), tensor.data());
  Units units;
  std::memset(units.shared(1024), 1, 1024);
  units.tensors.store(&map, units.shared(1024), {0, 0}, 2);
  units.tensors.store_commit();
  EXPECT_NE(failure([&] {
              units.tensors.store_wait(0);
            }).find("reads shared memory 0x400, where ordinary stores wrote after the last fence_async_shared()"),
            std::string::npos);
  units.view.publish();
  units.tensors.store_wait(0);
}

TEST(AsyncView, WithReportedStoresAFenceIsItsThreads) {
  Units units;
  const auto check = [&] { return failure([&] { units.view.check(0, 0, 64, "a reader"); }); };
  std::memset(units.shared(16), 1, 16);
  units.view.stored(16, 16);
  units.host.thread_index = 1;
  std::memset(units.shared(32), 2, 8);
  units.view.stored(32, 8);
  units.view.publish();
  EXPECT_NE(check().find("a reader reads shared memory 0x10"), std::string::npos);
  units.host.thread_index = 0;
  units.view.publish();
  EXPECT_EQ(check(), "no failure");
}

// A copy is a store of the moment at which it ends, however early it was asked for.
TEST(AsyncView, CopiesArePublishedByAFenceAfterTheirEnd) {
  alignas(16) static std::array<uint32_t, 64> from{};
  Units units;
  from.fill(7);
  const auto check = [&] { return failure([&] { units.view.check(0, 0, 256, "a reader"); }); };
  units.view.stored(512, 4);  // stores are reported
  for (int i = 0; i < 16; ++i) units.copies.copy_16(units.shared(16 * i), from.data() + 4 * i, true);
  units.copies.commit();
  units.view.publish();
  units.copies.wait(0);
  EXPECT_NE(check().find("where ordinary stores wrote after the last fence_async_shared()"), std::string::npos);
  units.view.publish();
  EXPECT_EQ(check(), "no failure");
}

// One MMA of 64 x kColumns with the operands laid out by hand.
struct Product {
  std::array<std::array<float, 128>, kWarpgroupThreads> c{};
  std::array<std::array<uint32_t, 4>, kWarpgroupThreads> a_registers{};
  std::array<LaneWarpgroupMultiply, kWarpgroupThreads> operands{};
  std::array<void*, kWarpgroupThreads> lanes{};

  void issue(Units& units, uint64_t a, uint64_t b, MatrixElement element, int columns, bool a_transposed,
             bool b_transposed, bool accumulate, bool from_registers = false) {
    for (size_t i = 0; i < kWarpgroupThreads; ++i) {
      operands[i] = {c[i].data(),
                     from_registers ? a_registers[i].data() : nullptr,
                     a,
                     b,
                     static_cast<int>(element),
                     static_cast<int>(element),
                     columns,
                     a_transposed,
                     b_transposed,
                     accumulate};
      lanes[i] = &operands[i];
    }
    units.warpgroups.multiply(lanes.data());
  }
};

uint64_t descriptor(int start, int leading, int stride, int swizzle) {
  const uint64_t mode = swizzle == 128 ? 1 : swizzle == 64 ? 2 : swizzle == 32 ? 3 : 0;
  return static_cast<uint64_t>(start >> 4) | static_cast<uint64_t>(leading >> 4) << 16 |
         static_cast<uint64_t>(stride >> 4) << 32 | mode << 62;
}

// The layouts as TMA makes them: boxes one swizzle width wide. K-major: rows of the box are lines;
// transposed: rows of the box are k.
TEST(WarpgroupUnit, OperandsInEverySwizzleAndMajor) {
  constexpr int kColumns = 128, kDepth = 64, kLines = 128;
  std::mt19937 random(7);
  for (const int swizzle : {32, 64, 128}) {
    for (const bool a_transposed : {false, true}) {
      for (const bool b_transposed : {false, true}) {
        Units units(1, static_cast<uint32_t>(swizzle));
        static std::array<float, kLines * kDepth> a, b;
        alignas(16) static std::array<uint16_t, kLines * kDepth> a_tensor, b_tensor;
        const auto fill = [&](auto& values, auto& tensor, bool transposed, int lines) {
          for (int line = 0; line < lines; ++line) {
            for (int k = 0; k < kDepth; ++k) {
              const float value = small(random);
              values[static_cast<size_t>(line * kDepth + k)] = value;
              tensor[static_cast<size_t>(transposed ? k * lines + line : line * kDepth + k)] = bf16_bits(value);
            }
          }
        };
        fill(a, a_tensor, a_transposed, 64);
        fill(b, b_tensor, b_transposed, kColumns);
        units.barriers.init(units.shared(), 1);
        units.barriers.init_fence();
        units.barriers.expect_bytes(units.shared(), (64 + kColumns) * kDepth * 2);
        const int width = swizzle / 2;
        const auto load = [&](auto& tensor, bool transposed, int lines, int at) {
          const int fast = transposed ? lines : kDepth, slow = transposed ? kDepth : lines;
          alignas(64) const EmulatedTensorMap map =
              encode_tensor_map(map_2d(fast, slow, fast, width, slow, swizzle), tensor.data());
          for (int x = 0; x < fast; x += width) {
            units.tensors.load(units.shared(at + x / width * slow * swizzle), &map, units.shared(), {x, 0}, 2, 0);
          }
        };
        const int a_at = 1024, b_at = 1024 + 64 * kDepth * 2;
        load(a_tensor, a_transposed, 64, a_at);
        load(b_tensor, b_transposed, kColumns, b_at);
        units.barriers.wait(units.shared(), 0);

        Product product;
        units.warpgroups.fence();
        for (int k = 0; k < kDepth; k += 16) {
          const auto operand = [&](int at, bool transposed, int lines) {
            if (transposed) return descriptor(at + k * swizzle, kDepth * swizzle, 8 * swizzle, swizzle);
            return descriptor(at + k / width * lines * swizzle + k % width * 2, 0, 8 * swizzle, swizzle);
          };
          product.issue(units, operand(a_at, a_transposed, 64), operand(b_at, b_transposed, kColumns),
                        MatrixElement::kBF16, kColumns, a_transposed, b_transposed, k > 0);
        }
        units.warpgroups.commit();
        EXPECT_TRUE(std::isnan(product.c[3][5]));
        units.warpgroups.wait(0);
        units.warpgroups.thread_ended();
        for (int thread = 0; thread < kWarpgroupThreads; ++thread) {
          for (int i = 0; i < kColumns / 2; ++i) {
            // PTX ISA, figure of the accumulator of m64nNk16.
            const int row = thread / 32 * 16 + thread % 32 / 4 + i % 4 / 2 * 8;
            const int column = i / 4 * 8 + thread % 4 * 2 + i % 2;
            float sum = 0;
            for (int k = 0; k < kDepth; ++k) {
              sum += a[static_cast<size_t>(row * kDepth + k)] * b[static_cast<size_t>(column * kDepth + k)];
            }
            ASSERT_EQ(product.c[static_cast<size_t>(thread)][static_cast<size_t>(i)], sum)
                << swizzle << a_transposed << b_transposed << " thread " << thread << " element " << i;
          }
        }
      }
    }
  }
}

TEST(WarpgroupUnit, OperandsWithoutSwizzle) {
  constexpr int kColumns = 16, kDepth = 16;
  std::mt19937 random(3);
  for (const bool transposed : {false, true}) {
    Units units;
    std::array<float, 64 * kDepth> a{};
    std::array<float, kColumns * kDepth> b{};
    const int leading = 4096, stride = 256;
    const auto put = [&](auto& values, int lines, int at) {
      for (int line = 0; line < lines; ++line) {
        for (int k = 0; k < kDepth; ++k) {
          const float value = small(random);
          values[static_cast<size_t>(line * kDepth + k)] = value;
          // Pieces of eight by eight: rows are lines (K-major) or k (transposed).
          const int within = transposed ? k % 8 * 16 + line % 8 * 2 : line % 8 * 16 + k % 8 * 2;
          const uint16_t bits = bf16_bits(value);
          std::memcpy(units.shared(at + line / 8 * stride + k / 8 * leading + within), &bits, 2);
        }
      }
    };
    put(a, 64, 128);
    put(b, kColumns, 16384 + 128);
    units.view.publish();
    Product product;
    for (auto& lane : product.c) lane.fill(1);
    units.warpgroups.fence();
    product.issue(units, descriptor(128, leading, stride, 0), descriptor(16384 + 128, leading, stride, 0),
                  MatrixElement::kBF16, kColumns, transposed, transposed, true);
    units.warpgroups.commit();
    units.warpgroups.wait(0);
    for (int thread = 0; thread < kWarpgroupThreads; ++thread) {
      for (int i = 0; i < kColumns / 2; ++i) {
        const int row = warpgroup_accumulator_row(thread, i), column = warpgroup_accumulator_column(thread, i);
        float sum = 1;
        for (int k = 0; k < kDepth; ++k) {
          sum += a[static_cast<size_t>(row * kDepth + k)] * b[static_cast<size_t>(column * kDepth + k)];
        }
        ASSERT_EQ(product.c[static_cast<size_t>(thread)][static_cast<size_t>(i)], sum);
      }
    }
  }
}

TEST(WarpgroupUnit, EightBitElementsAndOperandFromRegisters) {
  constexpr int kColumns = 8, kDepth = 32;
  std::mt19937 random(5);
  for (const MatrixElement element : {MatrixElement::kF8E4M3, MatrixElement::kF8E5M2}) {
    Units units;
    std::array<uint8_t, 64 * kDepth> a{};
    std::array<uint8_t, kColumns * kDepth> b{};
    for (uint8_t& code : a) code = static_cast<uint8_t>(random() % 0x78);
    for (uint8_t& code : b) code = static_cast<uint8_t>(random() % 0x78 | 0x80);
    for (int line = 0; line < kColumns; ++line) {
      for (int k = 0; k < kDepth; ++k) {
        // 32-byte swizzle: the upper four lines have their halves exchanged.
        units.shared(256 + line * 32 + (k ^ (line >= 4 ? 16 : 0)))[0] =
            std::byte{b[static_cast<size_t>(line * kDepth + k)]};
      }
    }
    units.view.publish();
    Product product;
    for (int thread = 0; thread < kWarpgroupThreads; ++thread) {
      for (int i = 0; i < 16; ++i) {
        // PTX ISA, figure of A of m64nNk32.
        const int row = thread / 32 * 16 + thread % 32 / 4 + (i / 4 % 2) * 8;
        const int k = thread % 4 * 4 + i % 4 + i / 8 * 16;
        auto* registers = reinterpret_cast<uint8_t*>(product.a_registers[static_cast<size_t>(thread)].data());
        registers[i] = a[static_cast<size_t>(row * kDepth + k)];
      }
    }
    units.warpgroups.fence();
    product.issue(units, 0, descriptor(256, 0, 256, 32), element, kColumns, false, false, false, true);
    units.warpgroups.commit();
    units.warpgroups.wait(0);
    for (int thread = 0; thread < kWarpgroupThreads; ++thread) {
      for (int i = 0; i < kColumns / 2; ++i) {
        const int row = warpgroup_accumulator_row(thread, i), column = warpgroup_accumulator_column(thread, i);
        float sum = 0;
        for (int k = 0; k < kDepth; ++k) {
          sum += matrix_element(element, a.data(), row * kDepth + k) *
                 matrix_element(element, b.data(), column * kDepth + k);
        }
        ASSERT_EQ(product.c[static_cast<size_t>(thread)][static_cast<size_t>(i)], sum);
      }
    }
  }
}

TEST(WarpgroupUnit, FaultsAreFound) {
  const uint64_t good = descriptor(1024, 0, 1024, 128);
  const auto issue = [&](Units& units, Product& product, uint64_t a, uint64_t b) {
    product.issue(units, a, b, MatrixElement::kBF16, 16, false, false, false);
  };
  Product product;
  {
    Units units;
    EXPECT_NE(failure([&] { issue(units, product, good, good); }).find("without warpgroup_fence()"), std::string::npos);
  }
  {
    Units units;
    units.warpgroups.fence();
    EXPECT_NE(failure([&] {
                issue(units, product, descriptor(1024 + 128, 0, 1024, 128), good);
              }).find("inside the pattern of 1024 bytes of its 128-byte swizzle"),
              std::string::npos);
    issue(units, product, good, descriptor(64 * 1024 - 1024, 0, 1024, 128));
    units.warpgroups.commit();
    EXPECT_EQ(failure([&] { units.warpgroups.thread_ended(); }),
              "ends before warpgroup_wait<0>() has covered its wgmma");
    EXPECT_NE(failure([&] { units.warpgroups.wait(0); }).find("outside of the block's 65536 bytes"), std::string::npos);
  }
  {
    Units units;
    units.warpgroups.fence();
    std::memset(units.shared(1024), 0, 8192);
    issue(units, product, good, good);
    units.warpgroups.commit();
    EXPECT_NE(failure([&] {
                units.warpgroups.wait(0);
              }).find("operand A, reads shared memory 0x400, where ordinary stores wrote after the last"),
              std::string::npos);
  }
  {
    Units units;
    std::memset(units.shared(1024), 0, 8192);
    units.view.publish();
    units.warpgroups.fence();
    issue(units, product, good, good);
    units.warpgroups.commit();
    issue(units, product, good, good);
    units.warpgroups.commit();
    units.warpgroups.wait(1);
    EXPECT_TRUE(std::isnan(product.c[0][0])) << "the second product is still on its way";
    units.warpgroups.wait(0);
    EXPECT_EQ(product.c[0][0], 0.0f);
    EXPECT_NE(failure([&] { issue(units, product, good, good); }).find("without warpgroup_fence()"), std::string::npos);
  }
}

TEST(NamedBarriers, CountThreads) {
  Units units;
  for (int i = 0; i < 32; ++i) units.barriers.named_arrive(3, 64);
  EXPECT_NE(failure([&] { units.barriers.named_sync(3, 96); }).find("for 64 and for 96 threads at once"),
            std::string::npos);
  for (int i = 0; i < 31; ++i) units.barriers.named_arrive(3, 64);
  units.barriers.named_sync(3, 64);
  EXPECT_NE(failure([&] { units.barriers.named_sync(3, 64); }).find("deadlock: named_barrier(3, 64), 1 arrived"),
            std::string::npos);
  EXPECT_NE(failure([&] { units.barriers.named_sync(0, 64); }).find("0 is block_barrier()'s"), std::string::npos);
}

}  // namespace
}  // namespace causeway::device
