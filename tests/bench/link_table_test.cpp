#include "causeway/bench/link_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace causeway::bench {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Measurement link(const std::string& pair, double seconds) {
  Measurement m;
  m.benchmark = "collectives";
  m.work = 1e9;
  m.unit = "GB/s";
  m.rounds = {{seconds, seconds, seconds}};
  if (!pair.empty()) m.details["pair"] = pair;
  return m;
}

TEST(LinkTable, HasEachPairOnce) {
  const std::vector<CollectiveCase> cases = link_cases(3, DType::kBF16, 4096);
  std::vector<std::string> pairs;
  for (const CollectiveCase& one : cases) {
    EXPECT_EQ(one.kind, CollectiveKind::kSendReceive);
    EXPECT_EQ(one.ranks, 3);
    EXPECT_EQ(one.moved_bytes(), 4096);
    pairs.push_back(fmt::format("{} {}", one.pair->first, one.pair->second));
  }
  EXPECT_THAT(pairs, testing::ElementsAre("0 1", "0 2", "1 2"));
}

TEST(LinkTable, NamesTheSlowestAndThoseThatAreFarBelowTheOthers) {
  const std::vector<Measurement> measurements = {link("0 1", 0.1), link("0 2", 0.125), link("1 2", 0.5),
                                                 link("", 0.01)};
  EXPECT_EQ(format_link_table(measurements),
            "GB/s one way, both ways at once\n"
            " rank        0        1        2\n"
            "    0        -    10.00     8.00\n"
            "    1    10.00        -     2.00\n"
            "    2     8.00     2.00        -\n"
            "slowest: 2.00 GB/s between 1 and 2; median 8.00 GB/s\n"
            "less than half of the median: 2.00 GB/s between 1 and 2\n");
  EXPECT_THAT(format_link_table(std::vector{link("0 1", 0.1)}),
              AllOf(HasSubstr("slowest: 10.00 GB/s between 0 and 1"), Not(HasSubstr("less than half"))));
  EXPECT_EQ(format_link_table(std::vector{link("", 1)}), "");
}

}  // namespace
}  // namespace causeway::bench
