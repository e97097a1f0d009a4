#include "causeway/evaluation/python_random.h"

#include <gtest/gtest.h>

namespace causeway::evaluation {
namespace {

using Sample = std::vector<size_t>;

// What random.Random(seed).sample(range(size), count) gave in Python 3.11, call after call.
TEST(PythonRandom, DrawsWhatPythonDraws) {
  PythonRandom random(1234);
  EXPECT_EQ(random.sample(10, 3), (Sample{7, 1, 0}));
  EXPECT_EQ(random.sample(10, 3), (Sample{1, 0, 9}));
  EXPECT_EQ(random.sample(2376, 5), (Sample{403, 1452, 969, 71, 126}));
  EXPECT_EQ(random.sample(2376, 5), (Sample{64, 1417, 1983, 1898, 608}));
  EXPECT_EQ(random.sample(100, 6), (Sample{11, 23, 91, 14, 1, 64}));
  EXPECT_EQ(random.sample(1838, 3), (Sample{996, 1803, 511}));
}

TEST(PythonRandom, SeedsMayBeZeroOrTakeTwoWords) {
  PythonRandom zero(0);
  EXPECT_EQ(zero.sample(5, 5), (Sample{3, 4, 0, 1, 2}));
  EXPECT_EQ(zero.sample(30, 6), (Sample{12, 25, 26, 9, 15, 11}));
  PythonRandom large((uint64_t{1} << 40) + 7);
  EXPECT_EQ(large.sample(1000, 4), (Sample{628, 765, 834, 960}));
}

}  // namespace
}  // namespace causeway::evaluation
