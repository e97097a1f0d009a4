#include "causeway/formats/box.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>

namespace causeway::formats {
namespace {

std::span<const std::byte> bytes_of_list(const std::vector<int32_t>& values) {
  return std::as_bytes(std::span(values));
}
std::span<std::byte> bytes_of_list(std::vector<int32_t>& values) { return std::as_writable_bytes(std::span(values)); }

TEST(Box, VolumeIsCheckedForOverflow) {
  const std::vector<int64_t> scalar;
  EXPECT_EQ(checked_volume(scalar, 4), 4u);
  EXPECT_EQ(checked_volume(std::vector<int64_t>{2, 3}, 4), 24u);
  EXPECT_EQ(checked_volume(std::vector<int64_t>{INT64_MAX, INT64_MAX, 0}), 0u);
  EXPECT_EQ(checked_volume(std::vector<int64_t>{INT64_MAX, 2}), std::nullopt);
  EXPECT_EQ(checked_volume(std::vector<int64_t>{int64_t{1} << 32, int64_t{1} << 32}), std::nullopt);
  EXPECT_EQ(checked_volume(std::vector<int64_t>{-1}), std::nullopt);
  EXPECT_EQ(checked_volume(std::vector<int64_t>{0, -1}), std::nullopt);
}

TEST(Box, Inside) {
  const std::vector<int64_t> shape{4, 6};
  EXPECT_TRUE(box_inside({{0, 0}, {4, 6}}, shape));
  EXPECT_TRUE(box_inside({{4, 0}, {0, 6}}, shape));
  EXPECT_FALSE(box_inside({{1, 0}, {4, 6}}, shape));
  EXPECT_FALSE(box_inside({{-1, 0}, {1, 6}}, shape));
  EXPECT_FALSE(box_inside({{0}, {4}}, shape));
  EXPECT_FALSE(box_inside({{1, 0}, {INT64_MAX, 6}}, shape));
}

TEST(Box, TilingProblemsAreNamed) {
  const std::vector<int64_t> shape{4, 6};
  const auto problem = [&](std::vector<Box> boxes) { return tiling_problem(shape, boxes).value_or("none"); };
  EXPECT_EQ(problem({{{0, 0}, {4, 3}}, {{0, 3}, {2, 3}}, {{2, 3}, {2, 3}}}), "none");
  EXPECT_EQ(problem({{{0, 0}, {2, 6}}, {{2, 0}, {2, 6}}, {{1, 1}, {0, 3}}}), "none");
  EXPECT_EQ(problem({{{0, 0}, {2, 6}}, {{1, 0}, {2, 6}}}), "boxes [0:2, 0:6] and [1:3, 0:6] overlap");
  EXPECT_EQ(problem({{{0, 0}, {3, 6}}}), "18 of 24 elements are covered");
  EXPECT_EQ(problem({{{0, 0}, {5, 6}}}), "box [0:5, 0:6] lies outside the tensor");
  const std::vector<int64_t> scalar;
  EXPECT_EQ(tiling_problem(scalar, std::vector<Box>{{}}), std::nullopt);
  EXPECT_EQ(tiling_problem(scalar, std::vector<Box>{{}, {}}), "boxes [] and [] overlap");
  EXPECT_EQ(tiling_problem(scalar, {}), "0 of 1 elements are covered");
}

TEST(Box, SplittingGivesConsecutivePiecesWithinTheLimit) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 300; ++trial) {
    Box box;
    for (unsigned d = random() % 4; d > 0; --d) {
      box.offset.push_back(random() % 5);
      box.shape.push_back(1 + random() % 6);
    }
    const uint64_t limit = 4 + random() % 200;
    uint64_t position = 0;
    for (const Box& part : split_box(box, 4, limit)) {
      const uint64_t bytes = checked_volume(part.shape, 4).value();
      EXPECT_TRUE(bytes <= limit || bytes == 4);
      EXPECT_EQ(contiguous_position(box, part), position / 4) << describe_box(box) << " " << describe_box(part);
      position += bytes;
    }
    EXPECT_EQ(position, checked_volume(box.shape, 4));
  }
}

TEST(Box, ContiguousPosition) {
  const Box outer{{2, 0, 0}, {4, 5, 6}};
  EXPECT_EQ(contiguous_position(outer, {{3, 0, 0}, {2, 5, 6}}), 30u);
  EXPECT_EQ(contiguous_position(outer, {{3, 1, 0}, {1, 2, 6}}), 36u);
  EXPECT_EQ(contiguous_position(outer, {{3, 1, 2}, {1, 1, 3}}), 38u);
  EXPECT_EQ(contiguous_position(outer, {{3, 1, 0}, {2, 2, 6}}), std::nullopt);
  EXPECT_EQ(contiguous_position(outer, {{1, 0, 0}, {1, 5, 6}}), std::nullopt);
}

TEST(Box, CopyMovesExactlyTheCommonElements) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 300; ++trial) {
    const size_t rank = random() % 4;
    const auto draw = [&] {
      Box box;
      for (size_t d = 0; d < rank; ++d) {
        box.offset.push_back(random() % 4);
        box.shape.push_back(1 + random() % 5);
      }
      return box;
    };
    const Box from = draw(), to = draw();
    std::vector<int32_t> source(checked_volume(from.shape).value());
    std::iota(source.begin(), source.end(), 1);
    std::vector<int32_t> target(checked_volume(to.shape).value(), -1);
    copy_common_box(bytes_of_list(std::as_const(source)), from, bytes_of_list(target), to, 4);

    for (size_t linear = 0; linear < target.size(); ++linear) {
      size_t rest = linear;
      std::vector<int64_t> index(rank);
      for (size_t d = rank; d-- > 0;) {
        index[d] = to.offset[d] + static_cast<int64_t>(rest % to.shape[d]);
        rest /= to.shape[d];
      }
      bool inside = true;
      int64_t position = 0;
      for (size_t d = 0; d < rank; ++d) {
        inside = inside && index[d] >= from.offset[d] && index[d] < from.offset[d] + from.shape[d];
        position = position * from.shape[d] + index[d] - from.offset[d];
      }
      EXPECT_EQ(target[linear], inside ? source[position] : -1);
    }
  }
}

}  // namespace
}  // namespace causeway::formats
