#include "causeway/data/batch_loader.h"

#include <numeric>

#include "tests/fixtures/data_test_support.h"

namespace causeway::data {
namespace {

// A dataset of the tokens 0, 1, 2, ... in nanoGPT's format, two files of it.
TokenDataset counting_dataset(const TemporaryDirectory& directory, uint16_t count) {
  std::vector<uint16_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), uint16_t{0});
  const size_t half = count / 2;
  directory.write("train_0.bin", as_text(std::span(tokens).first(half)));
  directory.write("train_1.bin", as_text(std::span(tokens).subspan(half)));
  return TokenDataset::open(directory.path());
}

BatchOptions batch_options(int64_t sequence_length, int64_t global_batch_size) {
  BatchOptions options;
  options.sequence_length = sequence_length;
  options.global_batch_size = global_batch_size;
  return options;
}

TEST(BatchLoader, TargetsAreTheNextInputs) {
  const TemporaryDirectory directory;
  const TokenDataset dataset = counting_dataset(directory, 1000);
  const SampleOrder order(dataset.token_count(), 10, 3);
  BatchLoader loader(dataset, order, batch_options(10, 4));
  for (uint64_t step = 0; step < 60; ++step) {
    const Batch& batch = loader.next();
    EXPECT_EQ(batch.first_sample, step * 4);
    EXPECT_EQ(batch.valid_targets, 40);
    for (uint64_t row = 0; row < 4; ++row) {
      const SampleWindow window = order.window(step * 4 + row);
      for (uint64_t t = 0; t < 10; ++t) {
        ASSERT_EQ(batch.inputs[row * 10 + t], static_cast<int32_t>(window.offset + t));
        ASSERT_EQ(batch.targets[row * 10 + t], static_cast<int32_t>(window.offset + t + 1));
      }
    }
    EXPECT_EQ(loader.cursor(), (step + 1) * 4);
  }
  EXPECT_GE(loader.data_wait_seconds(), 0);
}

TEST(BatchLoader, ResumesFromTheCursorAndIgnoresReadAhead) {
  const TemporaryDirectory directory;
  const TokenDataset dataset = counting_dataset(directory, 1000);
  const SampleOrder order(dataset.token_count(), 10, 3);
  BatchOptions options = batch_options(10, 4);
  BatchLoader whole(dataset, order, options);
  std::vector<std::vector<int32_t>> inputs;
  for (int i = 0; i < 50; ++i) inputs.push_back(whole.next().inputs);
  for (const int read_ahead : {0, 1, 5}) {
    options.read_ahead = read_ahead;
    options.first_sample = 30 * 4;
    BatchLoader resumed(dataset, order, options);
    for (size_t i = 30; i < 50; ++i) ASSERT_EQ(resumed.next().inputs, inputs[i]);
  }
}

TEST(BatchLoader, RanksShareTheGlobalBatch) {
  const TemporaryDirectory directory;
  const TokenDataset dataset = counting_dataset(directory, 1000);
  const SampleOrder order(dataset.token_count(), 10, 3);
  BatchLoader whole(dataset, order, batch_options(10, 6));
  BatchOptions options = batch_options(10, 6);
  options.rows = 2;
  std::vector<std::unique_ptr<BatchLoader>> ranks;
  for (options.first_row = 0; options.first_row < 6; options.first_row += 2) {
    ranks.push_back(std::make_unique<BatchLoader>(dataset, order, options));
  }
  for (int step = 0; step < 20; ++step) {
    std::vector<int32_t> joined;
    for (const auto& rank : ranks) {
      const Batch& batch = rank->next();
      joined.insert(joined.end(), batch.inputs.begin(), batch.inputs.end());
      EXPECT_EQ(rank->cursor(), static_cast<uint64_t>(step + 1) * 6);
    }
    EXPECT_EQ(joined, whole.next().inputs);
  }
}

TEST(BatchLoader, MarksDocumentsAndIgnoresTargetsAcrossThem) {
  const TemporaryDirectory directory;
  const std::vector<uint16_t> tokens = {1, 2, 50256, 3, 4, 50256, 5, 6, 7};
  const TokenDataset dataset = TokenDataset::open(directory.write("train.bin", as_text(std::span(tokens))));
  BatchOptions options = batch_options(8, 1);
  options.document_numbers = true;
  options.ignore_targets_across_documents = true;
  BatchLoader loader(dataset, SampleOrder(9, 8, 0), options);
  std::vector<int64_t> inputs(8), targets(8), documents(8);
  EXPECT_EQ(loader.next_into<int64_t>(inputs, targets, documents), 6);
  EXPECT_EQ(inputs, (std::vector<int64_t>{1, 2, 50256, 3, 4, 50256, 5, 6}));
  EXPECT_EQ(targets, (std::vector<int64_t>{2, 50256, -1, 4, 50256, -1, 6, 7}));
  EXPECT_EQ(documents, (std::vector<int64_t>{0, 0, 0, 3, 3, 3, 6, 6}));
}

// Two documents of 4 and 5 tokens, 1 to 9, of which 2, 4, 5, 7 and 8 are targets.
TokenDataset dataset_with_targets(const TemporaryDirectory& directory) {
  const TokenizerIdentity tokenizer{"numbers", "0123456789abcdef", 16, std::nullopt};
  TokenShardBuilder builder(1, false, true);
  builder.start_document();
  builder.append(std::vector<int32_t>{1, 2, 3, 4}, std::vector<uint8_t>{0, 1, 0, 1});
  builder.start_document();
  builder.append(std::vector<int32_t>{5, 6, 7, 8, 9}, std::vector<uint8_t>{1, 0, 1, 1, 0});
  builder.write(directory / "train.tokens", {tokenizer, {}});
  return TokenDataset::open(directory / "train.tokens");
}

TEST(BatchLoader, WhatIsNoTargetIsIgnored) {
  const TemporaryDirectory directory;
  const TokenDataset dataset = dataset_with_targets(directory);
  ASSERT_TRUE(dataset.has_targets());
  EXPECT_EQ(dataset.count_targets(dataset.sources().front()), 5u);
  BatchOptions options = batch_options(8, 1);
  BatchLoader loader(dataset, SampleOrder(9, 8, 0), options);
  const Batch& batch = loader.next();
  EXPECT_EQ(batch.inputs, (std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7, 8}));
  // The first token of the second document is a target by what the shard says, where documents are not told apart.
  EXPECT_EQ(batch.targets, (std::vector<int32_t>{2, -1, 4, 5, -1, 7, 8, -1}));
  EXPECT_EQ(batch.valid_targets, 5);
  EXPECT_EQ(batch.global_valid_targets, 5);
  EXPECT_EQ(batch.global_tokens, 8);
  options.ignore_targets_across_documents = true;
  BatchLoader apart(dataset, SampleOrder(9, 8, 0), options);
  EXPECT_EQ(apart.next().targets, (std::vector<int32_t>{2, -1, 4, -1, -1, 7, 8, -1}));
}

// Every rank divides by the targets of all rows, also of those it does not read.
TEST(BatchLoader, RanksCountTheTargetsOfAllRows) {
  const TemporaryDirectory directory;
  const TokenDataset dataset = dataset_with_targets(directory);
  BatchOptions options = batch_options(4, 2);
  options.rows = 1;
  std::vector<int64_t> own;
  for (options.first_row = 0; options.first_row < 2; ++options.first_row) {
    BatchLoader loader(dataset, SequentialOrder(9, 4), options);
    const Batch& batch = loader.next();
    own.push_back(batch.valid_targets);
    EXPECT_EQ(batch.global_valid_targets, 5);
  }
  EXPECT_EQ(own, (std::vector<int64_t>{3, 2}));
}

TEST(BatchLoader, PackedDocumentsKeepTheirTargets) {
  const TemporaryDirectory directory;
  const TokenDataset dataset = dataset_with_targets(directory);
  // Of the longer document the last piece, 9 alone, has no target.
  const DocumentPacking packing(dataset, 0, 3);
  EXPECT_EQ(packing.pieces_without_target(), 1u);
  EXPECT_EQ(packing.sample_count(), 2u);
  const MixtureOrder order(dataset, std::vector<double>{1}, 8, 0, Packing::kDocuments);
  BatchOptions options = batch_options(8, 1);
  options.document_numbers = true;
  options.ignore_targets_across_documents = true;
  BatchLoader loader(dataset, order, options);
  const Batch& batch = loader.next();
  // Longest first; what begins a document is never predicted from another one.
  EXPECT_EQ(batch.inputs, (std::vector<int32_t>{5, 6, 7, 8, 1, 2, 3, 0}));
  EXPECT_EQ(batch.targets, (std::vector<int32_t>{-1, 7, 8, -1, 2, -1, 4, -1}));
  EXPECT_EQ(batch.global_valid_targets, 4);
  // An evaluation takes each sample once.
  const DocumentPacking once(dataset, 0, 8);
  BatchLoader evaluation(dataset, once, 1, options);
  EXPECT_EQ(evaluation.next().targets, (std::vector<int32_t>{-1, 7, 8, -1, 2, -1, 4, -1}));
  EXPECT_EQ(evaluation.next().global_valid_targets, 0);
}

TEST(BatchLoader, SequentialOrderPadsItsEnd) {
  const TemporaryDirectory directory;
  const TokenDataset dataset = counting_dataset(directory, 24);
  const SequentialOrder order(dataset.token_count(), 10);
  BatchLoader loader(dataset, order, batch_options(10, 2));
  EXPECT_EQ(loader.next().valid_targets, 20);
  const Batch& last = loader.next();
  EXPECT_EQ(last.valid_targets, 3);
  EXPECT_EQ(last.inputs, (std::vector<int32_t>{20, 21, 22, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(last.targets,
            (std::vector<int32_t>{21, 22, 23, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}));
}

TEST(BatchLoader, NamesATokenBeyondTheVocabulary) {
  const TemporaryDirectory directory;
  std::vector<uint16_t> tokens(5050, 1);
  tokens[4550] = 777;  // not among the first of its file
  directory.write("train_0.bin", as_text(std::span(tokens).first(50)));
  directory.write("train_1.bin", as_text(std::span(tokens).subspan(50)));
  const TokenDataset dataset = TokenDataset::open(directory.path());
  for (const int read_ahead : {0, 2}) {
    BatchOptions options = batch_options(8, 1);
    options.vocabulary_size = 777;
    options.read_ahead = read_ahead;
    BatchLoader loader(dataset, SequentialOrder(5050, 8), options);
    for (int i = 0; i < 568; ++i) loader.next();
    for (int again = 0; again < 2; ++again) {
      const Error error = caught([&] { loader.next(); });
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
      EXPECT_EQ(error.message(), "token id 777 is beyond the model's vocabulary of 777");
      EXPECT_EQ(error.where(), (directory / "train_1.bin").string() + ", token 4500");
    }
    options.vocabulary_size = 778;
    BatchLoader wide(dataset, SequentialOrder(5050, 8), options);
    for (int i = 0; i < 600; ++i) wide.next();
  }
}

TEST(BatchLoader, LooksAtTheFirstTokensBeforeTheRun) {
  const TemporaryDirectory directory;
  const std::vector<uint16_t> good(90, 1);
  std::vector<uint16_t> bad(90, 1);
  bad[57] = 777;
  directory.write("train_0.bin", as_text(std::span(good)));
  directory.write("train_1.bin", as_text(std::span(bad)));
  const TokenDataset dataset = TokenDataset::open(directory.path());
  BatchOptions options = batch_options(8, 1);
  options.vocabulary_size = 777;
  const Error error = caught([&] { BatchLoader(dataset, SequentialOrder(180, 8), options); });
  EXPECT_EQ(error.message(), "token id 777 is beyond the model's vocabulary of 777");
  EXPECT_EQ(error.where(), (directory / "train_1.bin").string() + ", token 57");
}

TEST(BatchLoader, RefusesADocumentMaskWhereNothingTellsOfDocuments) {
  const TemporaryDirectory directory;
  const std::vector<uint32_t> tokens(90, 70000);
  const TokenDataset dataset =
      TokenDataset::open(directory.write("train.bin", as_text(std::span(tokens))), kTrainSplit, {.token_bytes = 4});
  BatchOptions options = batch_options(8, 1);
  options.document_numbers = true;
  EXPECT_EQ(caught([&] { BatchLoader(dataset, SampleOrder(90, 8, 0), options); }).message(),
            "the token file does not tell where documents begin, which a document mask needs");
}

TEST(BatchLoader, NamesATokenizerLargerThanTheModel) {
  const TemporaryDirectory directory;
  TokenShardBuilder builder(2, false);
  builder.start_document();
  builder.append(std::vector<int32_t>(100, 1));
  builder.write(directory / "a.tokens", {{"gpt2", "f", 50257, 50256}, {}});
  const TokenDataset dataset = TokenDataset::open(directory / "a.tokens");
  BatchOptions options = batch_options(8, 1);
  options.vocabulary_size = 256;
  const Error error = caught([&] { BatchLoader(dataset, SampleOrder(100, 8, 0), options); });
  EXPECT_EQ(error.message(), "the data's tokenizer \"gpt2\" has 50257 tokens, the model's vocabulary only 256");
  EXPECT_EQ(error.hint(), "Give the model a vocabulary of at least 50257.");
  options.vocabulary_size = 50304;
  BatchLoader(dataset, SampleOrder(100, 8, 0), options).next();
}

TEST(BatchLoader, RefusesImpossibleShapes) {
  const TemporaryDirectory directory;
  const TokenDataset dataset = counting_dataset(directory, 100);
  const SampleOrder order(100, 8, 0);
  const auto message = [&](BatchOptions options) {
    return caught([&] { BatchLoader(dataset, order, options); }).message();
  };
  EXPECT_EQ(message(batch_options(0, 1)), "the sequence length is 0");
  EXPECT_EQ(message(batch_options(8, 0)), "the global batch size is 0");
  BatchOptions options = batch_options(8, 4);
  options.first_row = 3;
  options.rows = 2;
  EXPECT_EQ(message(options), "rows 3 to 5 are not inside the global batch of 4");
  options = batch_options(8, 4);
  options.read_ahead = -1;
  EXPECT_EQ(message(options), "read_ahead is -1");
}

}  // namespace
}  // namespace causeway::data
