#include "causeway/data/document_packing.h"

#include <numeric>
#include <random>
#include <set>

#include "causeway/data/batch_loader.h"
#include "causeway/data/mixture_order.h"
#include "tests/fixtures/data_test_support.h"

namespace causeway::data {
namespace {

const TokenizerIdentity kTokenizer{"numbers", "0123456789abcdef", 1 << 16, std::nullopt};

// Documents of these lengths in shards of so many tokens; the tokens are 0, 1, 2, ... through all of them.
TokenDataset numbered_documents(const TemporaryDirectory& directory, const std::string& name,
                                const std::vector<size_t>& lengths, size_t tokens_per_shard = 1 << 20) {
  std::filesystem::create_directories(directory / name);
  int shards = 0;
  std::optional<TokenShardBuilder> builder;
  const auto write = [&] {
    builder->write(directory / (name + fmt::format("/{:05}.tokens", shards++)), {kTokenizer, {}});
  };
  int32_t token = 0;
  for (const size_t length : lengths) {
    for (size_t i = 0; i < length; ++i) {
      if (builder && builder->token_count() == tokens_per_shard) {
        write();
        builder.reset();
      }
      if (!builder) builder.emplace(2, i > 0);
      if (i == 0) builder->start_document();
      builder->append(std::vector<int32_t>{token++ % (1 << 16)});
    }
  }
  write();
  return TokenDataset::open(directory / (name + "/*.tokens"));
}

std::vector<size_t> random_lengths(size_t count, double mean, uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::vector<size_t> lengths(count);
  for (size_t& length : lengths)
    length = 1 + static_cast<size_t>(mean * std::lognormal_distribution<double>(-0.5, 1)(generator));
  return lengths;
}

using Pieces = std::vector<std::pair<uint64_t, uint64_t>>;  // offsets and tokens

Pieces pieces_of(const std::vector<SampleWindow>& windows) {
  Pieces pieces;
  for (const SampleWindow& window : windows) pieces.emplace_back(window.offset, window.length);
  return pieces;
}

TEST(DocumentPacking, EachTakesTheSampleWithTheLeastRoomLongestFirst) {
  const TemporaryDirectory directory;
  // Positions: 3, 6, 4, 1, 7, 2 and 8.
  const DocumentPacking packing(numbered_documents(directory, "a", {4, 7, 5, 1, 2, 8, 3, 9}), 0, 10);
  ASSERT_EQ(packing.sample_count(), 4u);
  EXPECT_EQ(pieces_of(packing.windows(0)), (Pieces{{30, 9}, {27, 3}}));
  EXPECT_EQ(pieces_of(packing.windows(1)), (Pieces{{19, 8}, {0, 4}}));
  EXPECT_EQ(pieces_of(packing.windows(2)), (Pieces{{4, 7}, {11, 5}}));
  EXPECT_EQ(pieces_of(packing.windows(3)), (Pieces{{17, 2}}));
  EXPECT_EQ(packing.documents(), 7u);
  EXPECT_EQ(packing.cut_documents(), 0u);
  EXPECT_NEAR(packing.padding(), 9.0 / 40, 1e-12);
}

TEST(DocumentPacking, LongDocumentsAreCutAndNoTargetIsLost) {
  const TemporaryDirectory directory;
  const DocumentPacking packing(numbered_documents(directory, "a", {26, 11, 3}), 0, 10);
  EXPECT_EQ(packing.cut_documents(), 1u);
  std::vector<Pieces> samples;
  for (uint64_t i = 0; i < packing.sample_count(); ++i) samples.push_back(pieces_of(packing.windows(i)));
  EXPECT_EQ(samples, (std::vector<Pieces>{{{0, 11}}, {{10, 11}}, {{26, 11}}, {{20, 6}, {37, 3}}}));
}

TEST(DocumentPacking, EveryTargetOfEveryDocumentIsInOneSample) {
  const TemporaryDirectory directory;
  for (const size_t tokens_per_shard : {97, 100'000}) {
    const std::vector<size_t> lengths = random_lengths(1500, 40, tokens_per_shard);
    const TokenDataset dataset =
        numbered_documents(directory, fmt::format("a{}", tokens_per_shard), lengths, tokens_per_shard);
    const uint64_t tokens = std::accumulate(lengths.begin(), lengths.end(), uint64_t{0});
    ASSERT_EQ(dataset.token_count(), tokens);
    std::vector<int> expected(tokens, 1), visits(tokens, 0);
    for (uint64_t begin = 0; const size_t length : lengths) {
      expected[begin] = 0;
      begin += length;
    }
    constexpr uint64_t kLength = 128;
    const DocumentPacking packing(dataset, 0, kLength);
    uint64_t filled = 0;
    for (uint64_t sample = 0; sample < packing.sample_count(); ++sample) {
      uint64_t positions = 0;
      for (const SampleWindow& window : packing.windows(sample)) {
        positions += window.length - 1;
        for (uint64_t t = 1; t < window.length; ++t) ++visits[window.offset + t];
      }
      ASSERT_GT(positions, 0u);
      ASSERT_LE(positions, kLength);
      filled += positions;
    }
    EXPECT_EQ(visits, expected);
    EXPECT_NEAR(packing.padding(),
                1 - static_cast<double>(filled) / static_cast<double>(kLength * packing.sample_count()), 1e-12);
    EXPECT_LT(packing.padding(), 0.01);
  }
}

// Several groups, the last of them small.
TEST(DocumentPacking, GroupsAreBounded) {
  const TemporaryDirectory directory;
  const std::vector<size_t> lengths = random_lengths(DocumentPacking::kLeastGroupPieces * 2 + 5000, 10, 1);
  const DocumentPacking packing(numbered_documents(directory, "a", lengths, 1 << 30), 0, 512);
  EXPECT_LT(packing.padding(), 0.002);
  EXPECT_EQ(packing.documents(), static_cast<uint64_t>(std::ranges::count_if(lengths, [](size_t n) { return n > 1; })));
}

TEST(DocumentPacking, ReadsDocumentsOfFilesWithoutATable) {
  const TemporaryDirectory directory;
  const std::vector<uint16_t> first = {1, 2, 50256, 3}, second = {4, 50256, 5, 6, 7, 50256};
  directory.write("train_0.bin", as_text(std::span(first)));
  directory.write("train_1.bin", as_text(std::span(second)));
  const DocumentPacking packing(TokenDataset::open(directory.path()), 0, 3);
  std::vector<Pieces> samples;
  for (uint64_t i = 0; i < packing.sample_count(); ++i) samples.push_back(pieces_of(packing.windows(i)));
  EXPECT_EQ(samples, (std::vector<Pieces>{{{6, 4}}, {{0, 3}}, {{3, 3}}}));
}

TEST(DocumentPacking, SaysWhyDocumentsCannotBePacked) {
  const TemporaryDirectory directory;
  const TokenDataset unknown =
      TokenDataset::open(directory.write("letters.bin", std::string(100, 'a')), kTrainSplit, {.token_bytes = 1});
  Error error = caught([&] { DocumentPacking(unknown, 0, 8); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_EQ(error.message(), "the token file does not tell where documents begin, which packing them needs");
  EXPECT_EQ(error.where(), (directory / "letters.bin").string());
  EXPECT_TRUE(contains(error.hint(), "data.packing=windows"));
  const TokenDataset single = numbered_documents(directory, "a", {1, 1, 1});
  EXPECT_EQ(caught([&] { DocumentPacking(single, 0, 8); }).message(),
            "no document has two tokens: there is nothing to predict");
  EXPECT_EQ(caught([&] { DocumentPacking(single, 0, 0); }).message(), "the sequence length is 0");
  EXPECT_EQ(caught([&] { DocumentPacking(single, 0, int64_t{1} << 31); }).hint(), "It must be from 1 to 2147483647.");
  // Of a mixture the source that has the fault is named.
  std::vector<TokenDataset> datasets;
  datasets.push_back(
      TokenDataset::open(directory.write("text.bin", std::string(100, 'b')), kTrainSplit, {.token_bytes = 1}));
  datasets.push_back(TokenDataset::open(directory / "letters.bin", kTrainSplit, {.token_bytes = 1}));
  const TokenDataset joined = TokenDataset::join(std::move(datasets));
  EXPECT_EQ(caught([&] { MixtureOrder(joined, std::vector<double>{1, 1}, 8, 0, Packing::kDocuments); }).where(),
            (directory / "text.bin").string());
}

TEST(PackedOrder, EveryEpochVisitsTheSameSamplesInAnotherOrder) {
  const TemporaryDirectory directory;
  const TokenDataset dataset = numbered_documents(directory, "a", random_lengths(500, 40, 2));
  const PackedOrder order(dataset, 0, 64, 7), same(dataset, 0, 64, 7), other(dataset, 0, 64, 8);
  const uint64_t samples = order.samples_per_epoch();
  std::set<std::vector<Pieces>> orders;
  for (uint64_t epoch = 0; epoch < 5; ++epoch) {
    std::vector<Pieces> visited;
    int as_other = 0;
    for (uint64_t i = 0; i < samples; ++i) {
      const std::vector<SampleWindow> windows = order.windows(epoch * samples + i);
      for (const SampleWindow& window : windows) ASSERT_EQ(window.epoch, epoch);
      visited.push_back(pieces_of(windows));
      ASSERT_EQ(visited.back(), pieces_of(same.windows(epoch * samples + i)));
      as_other += visited.back() == pieces_of(other.windows(epoch * samples + i));
    }
    EXPECT_LT(as_other, 10);
    orders.insert(visited);
    std::ranges::sort(visited);
    EXPECT_EQ(std::set<Pieces>(visited.begin(), visited.end()).size(), samples);
  }
  EXPECT_EQ(orders.size(), 5u);
}

// What a checkpoint's one integer means must never change.
TEST(PackedOrder, TheOrderIsWrittenDown) {
  const TemporaryDirectory directory;
  const PackedOrder order(numbered_documents(directory, "a", {4, 7, 5, 1, 2, 8, 3, 9, 26}), 0, 10, 1);
  std::string offsets;
  for (uint64_t sample = 0; sample < 14; ++sample) {
    for (const SampleWindow& window : order.windows(sample)) offsets += fmt::format("{} ", window.offset);
    offsets += "| ";
  }
  EXPECT_EQ(offsets, "39 | 49 | 30 27 | 4 11 | 19 0 | 59 17 | 59 17 | 19 0 | 4 11 | 30 27 | 39 | 49 | 39 | 49 | ");
}

TEST(PackedDocuments, FillRowsAndPadTheRest) {
  const TemporaryDirectory directory;
  const TokenDataset dataset = numbered_documents(directory, "a", {4, 6, 1, 3});
  const MixtureOrder order(dataset, std::vector<double>{1}, 10, 3, Packing::kDocuments);
  ASSERT_NE(order.packing(0), nullptr);
  ASSERT_EQ(order.samples_per_epoch(), 1u);
  BatchOptions options;
  options.sequence_length = 12;  // longer than the samples
  options.global_batch_size = 2;
  options.document_numbers = true;
  options.ignore_targets_across_documents = true;
  BatchLoader loader(dataset, order, options);
  const Batch& batch = loader.next();
  const std::vector<int32_t> inputs = {4, 5, 6, 7, 8, 0, 1, 2, 11, 12, 0, 0};
  const std::vector<int32_t> targets = {5, 6, 7, 8, 9, 1, 2, 3, 12, 13, -1, -1};
  const std::vector<int32_t> documents = {0, 0, 0, 0, 0, 5, 5, 5, 8, 8, 10, 10};
  for (const size_t row : {0, 1}) {
    const auto of_row = [&](const std::vector<int32_t>& all) {
      return std::vector<int32_t>(all.begin() + static_cast<ptrdiff_t>(row * 12),
                                  all.begin() + static_cast<ptrdiff_t>(row * 12 + 12));
    };
    EXPECT_EQ(of_row(batch.inputs), inputs);
    EXPECT_EQ(of_row(batch.targets), targets);
    EXPECT_EQ(of_row(batch.documents), documents);
  }
  EXPECT_EQ(batch.valid_targets, 20);
  EXPECT_EQ(batch.global_valid_targets, 20);
  EXPECT_EQ(batch.global_tokens, 20);
}

TEST(PackedDocuments, AnyNumberOfReadersResumesFromOneInteger) {
  const TemporaryDirectory directory;
  std::vector<TokenDataset> datasets;
  for (const char* name : {"a", "b", "c"})
    datasets.push_back(numbered_documents(directory, name, random_lengths(100, 20, static_cast<uint64_t>(*name))));
  const TokenDataset dataset = TokenDataset::join(std::move(datasets));
  const MixtureOrder order(dataset, std::vector<double>{3, 2, 1}, 32, 3, Packing::kDocuments);
  BatchOptions options;
  options.sequence_length = 32;
  options.global_batch_size = 12;
  options.document_numbers = true;
  options.ignore_targets_across_documents = true;
  BatchLoader whole(dataset, order, options);
  for (int i = 0; i < 7; ++i) whole.next();
  options.first_sample = whole.cursor();
  const Batch all = whole.next();
  EXPECT_EQ(all.global_valid_targets, std::ranges::count_if(all.targets, [](int32_t target) { return target >= 0; }));
  for (const int64_t rows : {1, 3, 4}) {
    Batch joined;
    options.rows = rows;
    for (options.first_row = 0; options.first_row < 12; options.first_row += rows) {
      BatchLoader rank(dataset, order, options);
      const Batch& batch = rank.next();
      joined.inputs.insert(joined.inputs.end(), batch.inputs.begin(), batch.inputs.end());
      joined.targets.insert(joined.targets.end(), batch.targets.begin(), batch.targets.end());
      joined.documents.insert(joined.documents.end(), batch.documents.begin(), batch.documents.end());
      EXPECT_EQ(batch.global_valid_targets, all.valid_targets);
      EXPECT_EQ(batch.global_tokens, all.global_tokens);
    }
    EXPECT_EQ(joined.inputs, all.inputs);
    EXPECT_EQ(joined.targets, all.targets);
    EXPECT_EQ(joined.documents, all.documents);
  }
}

// A sample is of one source.
TEST(PackedDocuments, StayInTheirSources) {
  const TemporaryDirectory directory;
  std::vector<TokenDataset> datasets;
  for (const char* name : {"a", "b"})
    datasets.push_back(numbered_documents(directory, name, random_lengths(100, 20, static_cast<uint64_t>(*name))));
  const TokenDataset dataset = TokenDataset::join(std::move(datasets));
  const MixtureOrder order(dataset, std::vector<double>{3, 1}, 32, 3, Packing::kDocuments);
  std::vector<uint64_t> counts(2);
  for (uint64_t sample = 0; sample < 400; ++sample) {
    const size_t source = order.shares().turn(sample).source;
    const TokenDataset::Source& of = dataset.sources()[source];
    for (const SampleWindow& window : order.windows(sample)) {
      ASSERT_GE(window.offset, of.offset);
      ASSERT_LE(window.offset + window.length, of.offset + of.token_count);
      ASSERT_EQ(window.epoch, counts[source] / order.samples_per_epoch(source));
    }
    ++counts[source];
  }
  EXPECT_EQ(counts, (std::vector<uint64_t>{300, 100}));
}

}  // namespace
}  // namespace causeway::data
