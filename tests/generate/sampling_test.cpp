#include "causeway/generate/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "causeway/base/error.h"

namespace causeway::generate {
namespace {

// Probabilities 0.4, 0.3, 0.2 and 0.1 of tokens 2, 0, 3 and 1.
const std::vector<float> kLogits = {std::log(0.3F), std::log(0.1F), std::log(0.4F), std::log(0.2F)};

// How often each token is drawn, of a thousand numbers evenly over [0, 1).
std::map<int32_t, int> counts(const SamplingOptions& options, const std::vector<int32_t>& before = {}) {
  std::map<int32_t, int> found;
  for (int i = 0; i < 1000; ++i) ++found[draw_token(kLogits, before, options, (i + 0.5) / 1000)];
  return found;
}

TEST(Sampling, EachTokenComesAsOftenAsItsProbabilitySays) {
  EXPECT_EQ(counts({}), (std::map<int32_t, int>{{0, 300}, {1, 100}, {2, 400}, {3, 200}}));
}

TEST(Sampling, TemperatureSharpens) {
  EXPECT_EQ(counts({.temperature = 0}), (std::map<int32_t, int>{{2, 1000}}));
  // Squares: 0.09, 0.01, 0.16, 0.04 of 0.3.
  EXPECT_EQ(counts({.temperature = 0.5}), (std::map<int32_t, int>{{0, 300}, {1, 33}, {2, 534}, {3, 133}}));
}

TEST(Sampling, OfEqualLogitsTheFirstIsTheLikeliest) {
  const std::vector<float> equal = {1, 3, 3, 2};
  EXPECT_EQ(draw_token(equal, {}, {.temperature = 0}, 0.9), 1);
  EXPECT_EQ(draw_token(equal, {}, {.top_k = 1}, 0.9), 1);
}

TEST(Sampling, TopKLeavesThatMany) {
  EXPECT_EQ(counts({.top_k = 1}), (std::map<int32_t, int>{{2, 1000}}));
  EXPECT_EQ(counts({.top_k = 2}), (std::map<int32_t, int>{{0, 429}, {2, 571}}));
  EXPECT_EQ(counts({.top_k = 4}), (std::map<int32_t, int>{{0, 300}, {1, 100}, {2, 400}, {3, 200}}));
}

TEST(Sampling, TopPLeavesTheFewestThatReachIt) {
  EXPECT_EQ(counts({.top_p = 0.39}), (std::map<int32_t, int>{{2, 1000}}));
  EXPECT_EQ(counts({.top_p = 0.69}), (std::map<int32_t, int>{{0, 429}, {2, 571}}));
  EXPECT_EQ(counts({.top_p = 0.71}), (std::map<int32_t, int>{{0, 334}, {2, 444}, {3, 222}}));
  // Of the three that top_k leaves 0.7 of 0.9 are 0.77.
  EXPECT_EQ(counts({.top_k = 3, .top_p = 0.77}), (std::map<int32_t, int>{{0, 429}, {2, 571}}));
}

TEST(Sampling, MinPLeavesWhatIsLikelyEnough) {
  EXPECT_EQ(counts({.min_p = 0.49}), (std::map<int32_t, int>{{0, 333}, {2, 445}, {3, 222}}));
  EXPECT_EQ(counts({.min_p = 1}), (std::map<int32_t, int>{{2, 1000}}));
}

TEST(Sampling, RepetitionPenaltyTakesFromWhatIsThere) {
  const std::vector<float> logits = {2, 1.5, -1, -1.5};
  const SamplingOptions options = {.repetition_penalty = 2, .temperature = 0};
  EXPECT_EQ(draw_token(logits, {}, options, 0.5), 0);
  EXPECT_EQ(draw_token(logits, std::vector<int32_t>{0, 0}, options, 0.5), 1);
  // What is negative becomes more so: -2 and -1.5.
  EXPECT_EQ(draw_token(std::vector<float>{-1, -1.5}, std::vector<int32_t>{0}, options, 0.5), 1);
}

TEST(Sampling, OptionsOutOfTheirRangeAreNamed) {
  const auto message = [](const SamplingOptions& options) -> std::string {
    try {
      check_sampling(options);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message({}), "");
  EXPECT_NE(message({.top_p = 0}).find("top_p"), std::string::npos);
  EXPECT_NE(message({.top_p = 1.5}).find("above 0 and at most 1"), std::string::npos);
  EXPECT_NE(message({.min_p = -0.1}).find("min_p"), std::string::npos);
  EXPECT_NE(message({.repetition_penalty = 0}).find("repetition_penalty"), std::string::npos);
  EXPECT_NE(message({.temperature = std::numeric_limits<double>::quiet_NaN()}).find("temperature"), std::string::npos);
}

}  // namespace
}  // namespace causeway::generate
