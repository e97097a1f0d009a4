#include "causeway/data/mixture_order.h"

#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "causeway/data/batch_loader.h"
#include "tests/fixtures/data_test_support.h"

namespace causeway::data {
namespace {

// Of tokens that are all `token`, as the bytes of a file without a header.
TokenDataset constant_dataset(const TemporaryDirectory& directory, char token, size_t count) {
  return TokenDataset::open(directory.write(fmt::format("{}.bin", token), std::string(count, token)), kTrainSplit,
                            {.token_bytes = 1});
}

double sum(std::span<const double> weights) { return std::accumulate(weights.begin(), weights.end(), 0.0); }

TEST(SourceShares, EveryPrefixHasTheWeights) {
  std::mt19937_64 generator(5);
  std::vector<std::vector<double>> cases = {
      {1}, {1, 1}, {3, 1}, {0.7, 0.2, 0.1}, {1e-9, 1}, {1e15, 1e-15, 1}, std::vector<double>(37, 1)};
  for (int i = 0; i < 20; ++i) {
    cases.emplace_back(2 + generator() % 12);
    for (double& weight : cases.back()) weight = std::exp(std::normal_distribution<double>(0, 2)(generator));
  }
  for (const std::vector<double>& weights : cases) {
    const SourceShares shares(weights);
    ASSERT_EQ(shares.source_count(), weights.size());
    const double bound = weights.size() == 1 ? 0 : weights.size() == 2 ? 0.5 : 2;
    std::vector<uint64_t> counts(weights.size());
    for (uint64_t sample = 0; sample < 5000; ++sample) {
      ASSERT_EQ(shares.counts(sample), counts);
      const SourceShares::Turn turn = shares.turn(sample);
      ASSERT_EQ(turn.number, counts.at(turn.source)++) << "each source's samples come in order, none left out";
      for (size_t i = 0; i < weights.size(); ++i) {
        const double due = static_cast<double>(sample + 1) * weights[i] / sum(weights);
        ASSERT_LE(std::abs(static_cast<double>(counts[i]) - due), bound + 1e-9) << i << " after " << sample;
      }
    }
  }
}

TEST(SourceShares, HoldsAtTheEndOfALongRun) {
  const std::vector<double> weights = {5, 2, 1};
  const SourceShares shares(weights);
  constexpr uint64_t kFar = uint64_t{1} << 50;
  std::vector<uint64_t> counts = shares.counts(kFar);
  for (size_t i = 0; i < 3; ++i)
    EXPECT_NEAR(static_cast<double>(counts[i]), static_cast<double>(kFar) * weights[i] / 8, 2);
  for (uint64_t sample = kFar; sample < kFar + 1000; ++sample) {
    const SourceShares::Turn turn = shares.turn(sample);
    ASSERT_EQ(turn.number, counts.at(turn.source)++);
  }
}

// What a checkpoint's one integer means must never change.
TEST(SourceShares, TheOrderIsWrittenDown) {
  const SourceShares shares(std::vector<double>{5, 2, 1});
  std::string order;
  for (uint64_t sample = 0; sample < 24; ++sample) order += static_cast<char>('a' + shares.turn(sample).source);
  EXPECT_EQ(order, "abaacabaabaacabaabaacaba");
}

TEST(MixtureOrder, OneSourceHasTheOrderItHasAlone) {
  const TemporaryDirectory directory;
  const TokenDataset dataset = constant_dataset(directory, 'a', 1000);
  const SampleOrder alone(1000, 7, 3);
  const MixtureOrder order(dataset, std::vector<double>{0.3}, 7, 3);
  EXPECT_EQ(order.samples_per_epoch(), alone.samples_per_epoch());
  for (uint64_t sample = 0; sample < 1000; ++sample) {
    ASSERT_EQ(order.windows(sample).size(), 1u);
    ASSERT_EQ(order.windows(sample)[0].offset, alone.window(sample).offset);
    ASSERT_EQ(order.windows(sample)[0].epoch, alone.window(sample).epoch);
  }
}

TEST(MixtureOrder, EverySourceHasItsOwnEpochs) {
  const TemporaryDirectory directory;
  std::vector<TokenDataset> datasets;
  datasets.push_back(constant_dataset(directory, 'a', 1000));
  datasets.push_back(constant_dataset(directory, 'b', 1000));
  datasets.push_back(constant_dataset(directory, 'c', 90));
  const TokenDataset dataset = TokenDataset::join(std::move(datasets));
  ASSERT_EQ(dataset.token_count(), 2090u);
  ASSERT_EQ(dataset.sources().size(), 3u);
  const MixtureOrder order(dataset, std::vector<double>{2, 1, 1}, 10, 3);
  std::vector<std::vector<uint64_t>> offsets(3);
  std::vector<int32_t> ids(11);
  for (uint64_t sample = 0; sample < 400; ++sample) {
    const size_t source = order.shares().turn(sample).source;
    const SampleWindow window = order.windows(sample).at(0);
    EXPECT_EQ(window.epoch, offsets[source].size() / order.samples_per_epoch(source));
    dataset.read(window.offset, ids);
    ASSERT_EQ(ids, std::vector<int32_t>(11, "abc"[source])) << "a window never crosses into another source";
    offsets[source].push_back(window.offset - dataset.sources()[source].offset);
  }
  // Every epoch visits everything once, in an order of its own.
  std::set<std::vector<uint64_t>> small;
  for (size_t i = 0; i + 8 <= offsets[2].size(); i += 8) {
    std::vector<uint64_t> epoch(offsets[2].begin() + static_cast<ptrdiff_t>(i),
                                offsets[2].begin() + static_cast<ptrdiff_t>(i) + 8);
    small.insert(epoch);
    std::sort(epoch.begin(), epoch.end());
    EXPECT_EQ(epoch, (std::vector<uint64_t>{0, 10, 20, 30, 40, 50, 60, 70}));
  }
  EXPECT_EQ(small.size(), 12u);
  // Sources of one size are not read in step.
  int equal = 0;
  for (size_t i = 0; i < 98; ++i) equal += offsets[0][i] == offsets[1][i];
  EXPECT_LT(equal, 10);
}

TEST(MixtureOrder, AnyNumberOfReadersResumesFromOneInteger) {
  const TemporaryDirectory directory;
  std::vector<TokenDataset> datasets;
  for (const char token : {'a', 'b', 'c'}) datasets.push_back(constant_dataset(directory, token, 500));
  const TokenDataset dataset = TokenDataset::join(std::move(datasets));
  const MixtureOrder order(dataset, std::vector<double>{3, 2, 1}, 10, 3);
  BatchOptions options;
  options.sequence_length = 10;
  options.global_batch_size = 12;
  BatchLoader whole(dataset, order, options);
  for (int i = 0; i < 7; ++i) whole.next();
  options.first_sample = whole.cursor();
  EXPECT_EQ(options.first_sample, 7u * 12);
  const std::vector<int32_t> inputs = whole.next().inputs;
  EXPECT_EQ(std::count(inputs.begin(), inputs.end(), 'a'), 60);
  EXPECT_EQ(std::count(inputs.begin(), inputs.end(), 'c'), 20);
  for (const int64_t rows : {3, 4}) {
    std::vector<int32_t> joined;
    options.rows = rows;
    for (options.first_row = 0; options.first_row < 12; options.first_row += rows) {
      BatchLoader rank(dataset, order, options);
      const Batch& batch = rank.next();
      joined.insert(joined.end(), batch.inputs.begin(), batch.inputs.end());
      EXPECT_EQ(batch.global_valid_targets, 120);
    }
    EXPECT_EQ(joined, inputs);
  }
}

TEST(MixtureOrder, ASourceThatDoesNotFillASampleIsNamed) {
  const TemporaryDirectory directory;
  std::vector<TokenDataset> datasets;
  datasets.push_back(constant_dataset(directory, 'a', 1000));
  datasets.push_back(constant_dataset(directory, 'b', 10));
  const TokenDataset dataset = TokenDataset::join(std::move(datasets));
  const Error error = caught([&] { MixtureOrder(dataset, std::vector<double>{1, 1}, 10, 3); });
  EXPECT_TRUE(contains(error.message(), "10 tokens do not fill one sample of 11"));
  EXPECT_EQ(error.where(), (directory / "b.bin").string());
}

TEST(JoinedDataset, IsNotTheSameAsItsShardsInOneSource) {
  const TemporaryDirectory directory;
  const auto pair = [&](const char* first, const char* second) {
    std::vector<TokenDataset> datasets;
    for (const char* name : {first, second})
      datasets.push_back(TokenDataset::open(directory / name, kTrainSplit, {.token_bytes = 1}));
    return TokenDataset::join(std::move(datasets));
  };
  for (const char* name : {"x1.bin", "x2.bin", "y.bin"}) directory.write(name, std::string(100, 'a'));
  const std::string shards = TokenDataset::open(directory / "x*.bin", kTrainSplit, {.token_bytes = 1}).fingerprint();
  EXPECT_NE(pair("x1.bin", "x2.bin").fingerprint(), shards);
  EXPECT_NE(pair("x*.bin", "y.bin").fingerprint(), pair("y.bin", "x*.bin").fingerprint());
}

TEST(JoinedDataset, SourcesOfDifferentTokenizersAreNamed) {
  const TemporaryDirectory directory;
  const auto error_of = [](TokenDataset first, TokenDataset second) {
    std::vector<TokenDataset> datasets;
    datasets.push_back(std::move(first));
    datasets.push_back(std::move(second));
    return caught([&] { TokenDataset::join(std::move(datasets)); });
  };
  const auto shard = [&](const std::string& name, const TokenizerIdentity& tokenizer) {
    TokenShardBuilder builder(1, false);
    builder.start_document();
    builder.append(std::vector<int32_t>{1, 2, 3});
    builder.write(directory / name, {tokenizer, {}});
    return TokenDataset::open(directory / name);
  };
  const TokenizerIdentity bytes{"bytes", "0123456789abcdef", 256, std::nullopt};
  const TokenizerIdentity gpt2{"gpt2", "fedcba9876543210", 50257, 50256};
  Error error = error_of(shard("a", bytes), shard("b", gpt2));
  EXPECT_EQ(error.message(),
            fmt::format("the tokenizer is \"gpt2\" (50257 tokens, fedcba98), and that of {} is \"bytes\" (256 tokens, "
                        "01234567)",
                        (directory / "a").string()));
  EXPECT_EQ(error.where(), (directory / "b").string());
  EXPECT_TRUE(contains(error.hint(), "with one tokenizer"));
  error = error_of(shard("a", bytes), constant_dataset(directory, 'c', 100));
  EXPECT_TRUE(contains(error.message(), "the tokenizer is one that its files do not name, and that of "));
  const std::vector<int32_t> wide(100, 70'000);
  error = error_of(
      constant_dataset(directory, 'c', 100),
      TokenDataset::open(directory.write("wide.bin", as_text(std::span(wide))), kTrainSplit, {.token_bytes = 4}));
  EXPECT_EQ(error.message(), fmt::format("the token ids are 4 bytes wide, those of {} 1: they are not of one tokenizer",
                                         (directory / "c.bin").string()));
}

}  // namespace
}  // namespace causeway::data
