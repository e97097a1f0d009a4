#include "causeway/data/sample_order.h"

#include <cmath>
#include <set>
#include <vector>

#include "tests/fixtures/data_test_support.h"

namespace causeway::data {
namespace {

TEST(KeyedPermutation, IsAPermutationOfEverySize) {
  for (uint64_t size = 1; size < 300; ++size) {
    const KeyedPermutation permutation(size, 42, size);
    std::vector<bool> seen(size, false);
    for (uint64_t i = 0; i < size; ++i) {
      const uint64_t image = permutation(i);
      ASSERT_LT(image, size);
      ASSERT_FALSE(seen[image]);
      seen[image] = true;
    }
  }
  const uint64_t huge = (uint64_t{1} << 63) + 12345;
  const KeyedPermutation permutation(huge, 1, 2);
  std::set<uint64_t> images;
  for (uint64_t i = 0; i < 1000; ++i) images.insert(permutation(i));
  EXPECT_EQ(images.size(), 1000u);
  EXPECT_LT(*images.rbegin(), huge);
}

TEST(KeyedPermutation, DependsOnSeedAndStream) {
  const auto images = [](uint64_t seed, uint64_t stream) {
    const KeyedPermutation permutation(1000, seed, stream);
    std::vector<uint64_t> result;
    for (uint64_t i = 0; i < 1000; ++i) result.push_back(permutation(i));
    return result;
  };
  EXPECT_EQ(images(1, 1), images(1, 1));
  for (const auto& other : {images(2, 1), images(1, 2), images(0, 0)}) {
    const std::vector<uint64_t> first = images(1, 1);
    int equal = 0;
    for (size_t i = 0; i < first.size(); ++i) equal += first[i] == other[i];
    EXPECT_LT(equal, 10);
  }
}

TEST(KeyedPermutation, LooksUniform) {
  // Where 16 consecutive indices of 64 land in sixteenths, over 2000 keys: chi-squared with 255 degrees of freedom has
  // mean 255 and standard deviation 22.6.
  std::vector<double> counts(16 * 16, 0);
  constexpr int kKeys = 2000;
  for (uint64_t key = 0; key < kKeys; ++key) {
    const KeyedPermutation permutation(64, key, 0);
    for (uint64_t i = 0; i < 16; ++i) counts[i * 16 + permutation(i) / 4] += 1;
  }
  double chi_squared = 0;
  const double expected = kKeys / 16.0;
  for (const double count : counts) chi_squared += (count - expected) * (count - expected) / expected;
  EXPECT_LT(chi_squared, 255 + 5 * 22.6);
}

TEST(SampleOrder, AnEpochVisitsEachTargetOnce) {
  for (const uint64_t tokens : {9u, 10u, 100u, 129u, 1000u, 1001u}) {
    const SampleOrder order(tokens, 8, 5);
    const uint64_t samples = order.samples_per_epoch();
    EXPECT_GE(samples * 8 + 2 * 8, tokens - 1);
    std::set<uint64_t> shifts;
    for (uint64_t epoch = 0; epoch < 20; ++epoch) {
      std::vector<int> visits(tokens, 0);
      uint64_t first = tokens;
      for (uint64_t i = 0; i < samples; ++i) {
        const SampleWindow window = order.window(epoch * samples + i);
        ASSERT_EQ(window.epoch, epoch);
        ASSERT_EQ(window.length, 9u);
        ASSERT_LE(window.offset + window.length, tokens);
        first = std::min(first, window.offset);
        for (uint64_t t = 1; t < window.length; ++t) ++visits[window.offset + t];
      }
      for (uint64_t t = 0; t < tokens; ++t) ASSERT_EQ(visits[t], t > first && t <= first + samples * 8) << t;
      shifts.insert(first);
    }
    if (samples >= 16) EXPECT_GT(shifts.size(), 4u) << "each epoch cuts the text elsewhere";
    if (tokens == 10) EXPECT_EQ(samples, 1u);
  }
}

TEST(SampleOrder, IsAPureFunctionOfSeedAndSample) {
  const SampleOrder a(100000, 16, 7);
  const SampleOrder b(100000, 16, 7);
  const SampleOrder c(100000, 16, 8);
  int equal = 0;
  for (uint64_t i = 0; i < 20000; i += 7) {
    EXPECT_EQ(a.window(i).offset, b.window(i).offset);
    equal += a.window(i).offset == c.window(i).offset;
  }
  EXPECT_LT(equal, 10);
}

TEST(SampleOrder, NamesTooLittleText) {
  EXPECT_EQ(caught([] { SampleOrder(8, 8, 0); }).message(),
            "8 tokens do not fill one sample of 9 (sequence length 8 and its last target)");
  EXPECT_EQ(SampleOrder(9, 8, 0).samples_per_epoch(), 1u);
  EXPECT_EQ(caught([] { SampleOrder(8, 0, 0); }).message(), "the sequence length is 0");
  EXPECT_EQ(caught([] { SequentialOrder(1, 8); }).message(), "1 tokens leave nothing to predict");
}

TEST(SequentialOrder, CoversEveryTargetOnceInOrder) {
  for (uint64_t tokens = 2; tokens < 40; ++tokens) {
    const SequentialOrder order(tokens, 8);
    uint64_t next = 0;
    for (uint64_t i = 0; i < order.sample_count(); ++i) {
      const SampleWindow window = order.window(i);
      EXPECT_EQ(window.offset, next);
      EXPECT_GE(window.length, 2u);
      next = window.offset + window.length - 1;
    }
    EXPECT_EQ(next, tokens - 1);
    EXPECT_EQ(order.window(order.sample_count()).length, 0u);
  }
}

}  // namespace
}  // namespace causeway::data
