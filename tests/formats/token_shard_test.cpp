#include "causeway/formats/token_shard.h"

#include <cmath>
#include <cstring>
#include <random>

#include "causeway/data/token_dataset.h"
#include "tests/fixtures/data_test_support.h"

namespace causeway::formats {
namespace {

ShardMetadata metadata(int64_t vocabulary_size) {
  return {{"gpt2", "abc", vocabulary_size, 7}, {{"corpus.txt", 123, "00ff"}}};
}

std::vector<int32_t> all_tokens(const TokenShard& shard) {
  std::vector<int32_t> ids(shard.token_count());
  shard.read(0, ids);
  return ids;
}

std::string llm_c_file(int32_t magic, int32_t version, int32_t claimed, std::string_view tokens) {
  int32_t header[256] = {magic, version, claimed};
  return std::string(as_text(std::span<int32_t>(header))) + std::string(tokens);
}

// A valid shard of three documents in `path`.
void write_example(const std::filesystem::path& path) {
  TokenShardBuilder builder(2, false);
  builder.start_document();
  builder.append(std::vector<int32_t>{5, 6, 7});
  builder.start_document();
  builder.append(std::vector<int32_t>{65535});
  builder.start_document();
  builder.append(std::vector<int32_t>{0, 1, 2});
  builder.write(path, metadata(65536));
}

TEST(TokenShard, RoundTripsEveryWidth) {
  const TemporaryDirectory directory;
  for (const auto& [vocabulary, width, largest] : {std::tuple{int64_t{256}, 1, 255},
                                                   {int64_t{257}, 2, 256},
                                                   {int64_t{65536}, 2, 65535},
                                                   {int64_t{65537}, 4, 65536},
                                                   {int64_t{1} << 31, 4, 0x7FFFFFFF}}) {
    ASSERT_EQ(TokenShardBuilder::token_bytes_for(vocabulary), width);
    TokenShardBuilder builder(width, false);
    builder.start_document();
    const std::vector<int32_t> ids = {0, 1, largest, 2, 3};
    builder.append(ids);
    const Hash128 hash = builder.write(directory / "a.tokens", metadata(vocabulary)).tokens;
    const TokenShard shard = TokenShard::open(directory / "a.tokens");
    EXPECT_EQ(all_tokens(shard), ids);
    EXPECT_EQ(shard.token_bytes(), width);
    EXPECT_EQ(shard.stored_hash(), hash);
    EXPECT_EQ(shard.metadata()->tokenizer, metadata(vocabulary).tokenizer);
    EXPECT_EQ(shard.metadata()->sources, metadata(vocabulary).sources);
    shard.verify();
  }
}

TEST(TokenShard, RefusesATokenThatDoesNotFit) {
  TokenShardBuilder builder(1, false);
  EXPECT_THROW(builder.append(std::vector<int32_t>{256}), InternalError);
  EXPECT_THROW(builder.append(std::vector<int32_t>{-1}), InternalError);
}

TEST(TokenShard, KeepsDocumentBoundaries) {
  const TemporaryDirectory directory;
  write_example(directory / "a.tokens");
  const TokenShard shard = TokenShard::open(directory / "a.tokens");
  EXPECT_EQ(shard.document_count(), 3u);
  std::vector<bool> starts;
  for (uint64_t i = 0; i < 7; ++i) starts.push_back(shard.starts_document(i, -1));
  EXPECT_EQ(starts, (std::vector<bool>{true, false, false, true, true, false, false}));
}

TEST(TokenShard, EveryFlippedBitIsNoticed) {
  const TemporaryDirectory directory;
  write_example(directory / "a.tokens");
  const std::string good = read_text_file(directory / "a.tokens");
  for (size_t bit = 0; bit < good.size() * 8; bit += 3) {
    const size_t byte = bit / 8;
    const bool unused = (byte >= 96 && byte < 128) || (byte >= 142 && byte < 144);
    if (unused) continue;
    std::string damaged = good;
    damaged[byte] = static_cast<char>(damaged[byte] ^ 1 << bit % 8);
    directory.write("b.tokens", damaged);
    const Error error = caught([&] { TokenShard::open(directory / "b.tokens").verify(); });
    EXPECT_EQ(error.where(), (directory / "b.tokens").string()) << bit;
    if (byte >= 128 && byte < 142) {
      EXPECT_EQ(error.message(), "the shard's tokens are damaged: their hash is not the one in the header");
    }
  }
}

TEST(TokenShard, EveryTruncationIsNoticed) {
  const TemporaryDirectory directory;
  write_example(directory / "a.tokens");
  const std::string good = read_text_file(directory / "a.tokens");
  for (size_t size = 0; size < good.size(); ++size) {
    directory.write("b.tokens", good.substr(0, size));
    const std::string message = caught([&] { TokenShard::open(directory / "b.tokens"); }).message();
    if (size == 0) EXPECT_EQ(message, "the token file is empty");
    if (size >= 8 && size < 128) EXPECT_TRUE(contains(message, "the shard is cut short")) << message;
    if (size >= 128) EXPECT_TRUE(contains(message, "is not what its header claims (7 tokens, 3 documents")) << message;
  }
  directory.write("b.tokens", good + "x");
  EXPECT_TRUE(
      contains(caught([&] { TokenShard::open(directory / "b.tokens"); }).message(), "not what its header claims"));
}

TEST(TokenShard, NamesAnotherVersion) {
  const TemporaryDirectory directory;
  write_example(directory / "a.tokens");
  std::string text = read_text_file(directory / "a.tokens");
  text[8] = 9;
  directory.write("b.tokens", text);
  const Error error = caught([&] { TokenShard::open(directory / "b.tokens"); });
  EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
  EXPECT_EQ(error.message(), "the shard has format version 9; this build reads 1 to 3");
}

// Seven tokens, four of them targets.
const std::vector<uint8_t> kTargets = {0, 1, 1, 0, 0, 1, 1};

void write_example_with_targets(const std::filesystem::path& path) {
  TokenShardBuilder builder(2, false, true);
  builder.start_document();
  builder.append(std::vector<int32_t>{5, 6, 7}, std::span(kTargets).first(3));
  builder.start_document();
  builder.append(std::vector<int32_t>{65535, 0, 1, 2}, std::span(kTargets).subspan(3));
  builder.write(path, metadata(65536));
}

TEST(TokenShard, SaysWhichTokensAreTargets) {
  const TemporaryDirectory directory;
  write_example_with_targets(directory / "a.tokens");
  const TokenShard shard = TokenShard::open(directory / "a.tokens");
  ASSERT_TRUE(shard.has_targets());
  EXPECT_EQ(all_tokens(shard), (std::vector<int32_t>{5, 6, 7, 65535, 0, 1, 2}));
  std::vector<uint8_t> targets(7);
  shard.read_targets(0, targets);
  EXPECT_EQ(targets, kTargets);
  targets.resize(3);
  shard.read_targets(2, targets);
  EXPECT_EQ(targets, (std::vector<uint8_t>{1, 0, 0}));
  shard.verify();
  // Of a shard that does not say it all are, and nothing in it is another byte than before.
  write_example(directory / "b.tokens");
  const TokenShard all = TokenShard::open(directory / "b.tokens");
  EXPECT_FALSE(all.has_targets());
  all.read_targets(0, targets);
  EXPECT_EQ(targets, (std::vector<uint8_t>{1, 1, 1}));
  const std::string bytes = read_text_file(directory / "b.tokens");
  EXPECT_EQ(bytes[8], 1);
  EXPECT_EQ(bytes.substr(48, 16), std::string(16, '\0'));
}

TEST(TokenShard, TargetsHaveWeights) {
  const TemporaryDirectory directory;
  ShardMetadata weighted = metadata(65536);
  weighted.target_weights = {0, 1, 0.1f, 1e6f};
  TokenShardBuilder builder(2, false, true);
  builder.start_document();
  builder.append(std::vector<int32_t>{5, 6, 7, 8}, std::vector<uint8_t>{0, 2, 1, 3});
  builder.write(directory / "a.tokens", weighted);
  const TokenShard shard = TokenShard::open(directory / "a.tokens");
  ASSERT_TRUE(shard.has_target_weights());
  std::vector<float> weights(4);
  shard.read_target_weights(0, weights);
  EXPECT_EQ(weights, (std::vector<float>{0, 0.1f, 1, 1e6f}));
  std::vector<uint8_t> targets(3);
  shard.read_targets(1, targets);
  EXPECT_EQ(targets, (std::vector<uint8_t>{1, 1, 1}));
  shard.verify();
  EXPECT_EQ(read_text_file(directory / "a.tokens")[8], 3);
  // A byte that stands for none.
  std::string other = read_text_file(directory / "a.tokens");
  other[137] = 4;
  directory.write("b.tokens", other);
  EXPECT_EQ(caught([&] { TokenShard::open(directory / "b.tokens").read_target_weights(0, weights); }).message(),
            "the shard says 4 of whether token 1 is a target; 0 to 3 are possible");
  // Of a shard without them targets weigh 1.
  write_example_with_targets(directory / "c.tokens");
  weights.resize(7);
  TokenShard::open(directory / "c.tokens").read_target_weights(0, weights);
  EXPECT_EQ(weights, (std::vector<float>{0, 1, 1, 0, 0, 1, 1}));
  EXPECT_EQ(parse_shard_metadata(print_shard_metadata(weighted), "x").target_weights, weighted.target_weights);
  for (const char* list : {"[0, 1]", "[1, 0, 2]", "[0, 1, -2]", "[0, 1, 1e99]", "[0, 1, \"2\"]", "3"}) {
    std::string text = print_shard_metadata(weighted);
    const size_t begin = text.find("\"target_weights\":") + 17, end = text.find(']', begin) + 1;
    text.replace(begin, end - begin, list);
    EXPECT_EQ(caught([&] { parse_shard_metadata(text, "x"); }).kind(), ErrorKind::kCorrupt) << list;
  }
}

TEST(TokenShard, EveryFlippedBitOfTargetsIsNoticed) {
  const TemporaryDirectory directory;
  write_example_with_targets(directory / "a.tokens");
  const std::string good = read_text_file(directory / "a.tokens");
  // Tokens in 14 bytes at 128, targets in 7 at 144, then the table of documents.
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    const size_t byte = bit / 8;
    const bool unused = (byte >= 96 && byte < 128) || byte == 142 || byte == 143 || byte == 151;
    if (unused) continue;
    std::string damaged = good;
    damaged[byte] = static_cast<char>(damaged[byte] ^ 1 << bit % 8);
    directory.write("b.tokens", damaged);
    const Error error = caught([&] { TokenShard::open(directory / "b.tokens").verify(); });
    EXPECT_EQ(error.where(), (directory / "b.tokens").string()) << bit;
    if (byte >= 144 && byte < 151)
      EXPECT_EQ(error.message(), "what the shard says of targets is damaged: its hash is not the one in the header");
  }
  for (size_t size = 1; size < good.size(); ++size) {
    directory.write("b.tokens", good.substr(0, size));
    EXPECT_EQ(caught([&] { TokenShard::open(directory / "b.tokens"); }).where(), (directory / "b.tokens").string());
  }
  // Of what is read without a look at the hash no other value comes out.
  std::string other = good;
  other[146] = 3;
  directory.write("b.tokens", other);
  std::vector<uint8_t> targets(7);
  EXPECT_EQ(caught([&] { TokenShard::open(directory / "b.tokens").read_targets(0, targets); }).message(),
            "the shard says 3 of whether token 2 is a target; 0 and 1 are possible");
}

TEST(TokenShard, ReadsLlmC) {
  const TemporaryDirectory directory;
  const std::vector<uint16_t> gpt2 = {50256, 11, 12, 50256, 13};
  directory.write("gpt2.bin", llm_c_file(20240520, 1, 5, as_text(std::span(gpt2))));
  const TokenShard shard = TokenShard::open(directory / "gpt2.bin");
  EXPECT_EQ(shard.format(), ShardFormat::kLlmC);
  EXPECT_EQ(shard.token_bytes(), 2);
  EXPECT_EQ(all_tokens(shard), (std::vector<int32_t>{50256, 11, 12, 50256, 13}));
  EXPECT_EQ(shard.document_count(), 2u);
  EXPECT_TRUE(shard.starts_document(3, -1));
  EXPECT_FALSE(shard.starts_document(4, -1));
  EXPECT_EQ(shard.metadata(), nullptr);

  const std::vector<uint32_t> llama = {128000, 70000, 128000, 3};
  directory.write("llama.bin", llm_c_file(20240801, 7, 4, as_text(std::span(llama))));
  const TokenShard wide = TokenShard::open(directory / "llama.bin");
  EXPECT_EQ(wide.token_bytes(), 4);
  EXPECT_EQ(all_tokens(wide), (std::vector<int32_t>{128000, 70000, 128000, 3}));
  EXPECT_TRUE(wide.starts_document(2, -1));
}

TEST(TokenShard, RefusesBrokenLlmC) {
  const TemporaryDirectory directory;
  const auto message = [&](const std::string& content) {
    directory.write("x.bin", content);
    return caught([&] { TokenShard::open(directory / "x.bin"); }).message();
  };
  EXPECT_EQ(message(llm_c_file(20240520, 1, 3, "aabb")), "the llm.c file claims 3 tokens but holds 2");
  EXPECT_EQ(message(llm_c_file(20240520, 1, -3, "aabb")), "the llm.c file claims -3 tokens");
  EXPECT_EQ(message(llm_c_file(20240520, 1, 0, "")), "the llm.c file claims 0 tokens");
  EXPECT_EQ(message(llm_c_file(20240801, 1, 1, "aabb")),
            "the llm.c file has version 1; with the magic number 20240801 it must be 7");
  EXPECT_TRUE(contains(message(llm_c_file(20240522, 1, 1, "aa")), "llm.c evaluation set"));
  EXPECT_EQ(message(llm_c_file(20240520, 1, 3, "").substr(0, 100)),
            "the llm.c file is cut short: 100 bytes, less than its header of 1024");
}

TEST(TokenShard, ReadsNanoGpt) {
  const TemporaryDirectory directory;
  const std::vector<uint16_t> tokens = {11, 12, 50256, 13, 50256};
  const TokenShard shard = TokenShard::open(directory.write("train.bin", as_text(std::span(tokens))));
  EXPECT_EQ(shard.format(), ShardFormat::kNanoGpt);
  EXPECT_EQ(all_tokens(shard), (std::vector<int32_t>{11, 12, 50256, 13, 50256}));
  EXPECT_FALSE(shard.starts_document(2, -1));
  EXPECT_TRUE(shard.starts_document(3, -1));
  EXPECT_TRUE(shard.starts_document(0, 50256));
  EXPECT_FALSE(shard.starts_document(0, 4));
  EXPECT_EQ(caught([&] { TokenShard::open(directory.write("odd.bin", "abc")); }).message(),
            "the file has 3 bytes, an odd number; a nanoGPT file is a sequence of 16-bit tokens");
  EXPECT_TRUE(
      contains(caught([&] { TokenShard::open(directory.write("a.dat", "abcd")); }).message(), "is not a token shard"));
}

// Ids as a tokenizer gives them: small ones are frequent, none is beyond the vocabulary.
template <typename T>
std::vector<T> plausible_ids(size_t count, uint32_t vocabulary_size) {
  std::mt19937_64 generator(11);
  std::vector<T> ids(count);
  for (T& id : ids) {
    const double u = static_cast<double>(generator() >> 11) * 0x1p-53;
    id = static_cast<T>(std::min(std::pow(static_cast<double>(vocabulary_size), u), vocabulary_size - 1.0));
  }
  return ids;
}

TEST(TokenShard, DoesNotTakeWideIdsForNarrowOnes) {
  const TemporaryDirectory directory;
  const auto error_of = [&](const auto& ids) {
    return caught([&] { TokenShard::open(directory.write("a.bin", as_text(std::span(ids)))); });
  };
  // Small and large files, the latter looked at in samples; vocabularies of bytes, GPT-2 and Llama 3.
  for (const size_t count : {size_t{16}, size_t{1001}, size_t{300'000}}) {
    for (const uint32_t vocabulary : {uint32_t{256}, uint32_t{50257}, uint32_t{128'256}}) {
      const auto narrow = plausible_ids<uint16_t>(count, std::min(vocabulary, 65536u));
      EXPECT_EQ(all_tokens(TokenShard::open(directory.write("n.bin", as_text(std::span(narrow))))),
                std::vector<int32_t>(narrow.begin(), narrow.end()));
      const auto wide = plausible_ids<uint32_t>(count, vocabulary);
      const Error error = error_of(wide);
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
      EXPECT_TRUE(contains(error.message(), "the token ids are 32 bits wide by all appearance")) << error.message();
      EXPECT_EQ(error.hint(), "Set data.token_bytes to 4 if they are, or to 2 if they are not.");
      EXPECT_EQ(error.where(), (directory / "a.bin").string());
      EXPECT_EQ(all_tokens(TokenShard::open(directory / "a.bin", 4)), std::vector<int32_t>(wide.begin(), wide.end()));
      EXPECT_EQ(TokenShard::open(directory / "a.bin", 2).token_count(), 2 * count);
      EXPECT_TRUE(contains(error_of(plausible_ids<uint64_t>(count, vocabulary)).message(), "64 bits wide"));
      std::vector<uint32_t> swapped = wide;
      for (uint32_t& id : swapped) id = __builtin_bswap32(id);
      EXPECT_TRUE(contains(error_of(swapped).message(), "does not look like 16-bit token ids"));
    }
  }
  EXPECT_EQ(error_of(std::vector<uint16_t>(100, 0)).message(), "all token ids are zero");
  // Four letters, as in a genome: all ids are small, at even and at odd places.
  const auto genome = plausible_ids<uint16_t>(5000, 4);
  EXPECT_EQ(TokenShard::open(directory.write("g.bin", as_text(std::span(genome)))).token_count(), 5000u);
}

TEST(TokenShard, RefusesFilesOfOtherFormats) {
  const TemporaryDirectory directory;
  const auto message = [&](const std::string& content) {
    return caught([&] { TokenShard::open(directory.write("x.bin", content)); }).message();
  };
  EXPECT_TRUE(contains(message("PK\x03\x04" + std::string(100, 'x')), "the file is a zip archive"));
  EXPECT_TRUE(contains(message("\x93NUMPY\x01" + std::string(100, 'x')), "the file is a NumPy array"));
  EXPECT_TRUE(
      contains(message(std::string("\x40\0\0\0\0\0\0\0{\"", 10) + std::string(100, 'x')), "a safetensors file"));
  EXPECT_EQ(message("\x1F\x8B\x08" + std::string(99, 'x')), "the token file is compressed");
  EXPECT_EQ(message("This is a text, and somebody gave it the name of a file of token ids: .bin"),
            "the file is text, not a stream of token ids");
  EXPECT_TRUE(contains(
      caught([&] { TokenShard::open(directory.write("x.npy", "\x93NUMPY\x01" + std::string(99, 'x'))); }).message(),
      "a NumPy array"));
}

TEST(TokenShard, AWidthThatIsGivenIsBelievedUnlessTheFileSaysAnother) {
  const TemporaryDirectory directory;
  const std::vector<uint16_t> gpt2 = {50256, 11, 12};
  directory.write("gpt2.bin", llm_c_file(20240520, 1, 3, as_text(std::span(gpt2))));
  EXPECT_EQ(TokenShard::open(directory / "gpt2.bin", 2).token_count(), 3u);
  EXPECT_EQ(caught([&] { TokenShard::open(directory / "gpt2.bin", 4); }).message(),
            "the token ids are 2 bytes wide by what the file says of itself, not 4");
  EXPECT_EQ(caught([&] { TokenShard::open(directory.write("a.bin", "abcdef"), 4); }).message(),
            "the file has 6 bytes, which ids of 4 bytes do not divide");
  const TokenShard bytes = TokenShard::open(directory.write("bytes.dat", "abc"), 1);
  EXPECT_EQ(all_tokens(bytes), (std::vector<int32_t>{'a', 'b', 'c'}));
  EXPECT_FALSE(bytes.knows_documents());
  EXPECT_FALSE(bytes.starts_document(0, -1));
  EXPECT_EQ(bytes.document_count(), 0u);
}

// Megatron's index of sequences of these lengths, whose documents begin at the sequences given.
std::string megatron_index(uint8_t type, int token_bytes, const std::vector<int32_t>& lengths,
                           std::vector<int64_t> documents) {
  std::string text("MMIDIDX\0\0", 9);
  const auto add = [&](auto value) { text.append(reinterpret_cast<const char*>(&value), sizeof value); };
  add(uint64_t{1});
  add(type);
  add(uint64_t{lengths.size()});
  documents.push_back(static_cast<int64_t>(lengths.size()));
  add(uint64_t{documents.size()});
  for (const int32_t length : lengths) add(length);
  int64_t offset = 0;
  for (const int32_t length : lengths) {
    add(offset);
    offset += length * token_bytes;
  }
  for (const int64_t document : documents) add(document);
  return text;
}

TEST(TokenShard, ReadsMegatron) {
  const TemporaryDirectory directory;
  const std::vector<int32_t> ids = {70000, 1, 2, 3, 4, 5, 6};
  directory.write("corpus.bin", as_text(std::span(ids)));
  directory.write("corpus.idx", megatron_index(4, 4, {2, 1, 0, 4}, {0, 2, 3}));
  const TokenShard shard = TokenShard::open(directory / "corpus.bin");
  EXPECT_EQ(shard.format(), ShardFormat::kMegatron);
  EXPECT_EQ(shard.token_bytes(), 4);
  EXPECT_EQ(all_tokens(shard), ids);
  EXPECT_EQ(shard.document_count(), 2u) << "a document without tokens is none";
  EXPECT_TRUE(shard.starts_document(0, -1));
  EXPECT_FALSE(shard.starts_document(2, -1));
  EXPECT_TRUE(shard.starts_document(3, -1));
  EXPECT_TRUE(shard.knows_documents());

  const std::vector<uint16_t> narrow = {65535, 2};
  directory.write("corpus.bin", as_text(std::span(narrow)));
  directory.write("corpus.idx", megatron_index(8, 2, {2}, {0}));
  EXPECT_EQ(all_tokens(TokenShard::open(directory / "corpus.bin")), (std::vector<int32_t>{65535, 2}));

  const auto error_of = [&](const std::string& index) {
    directory.write("corpus.idx", index);
    return caught([&] { TokenShard::open(directory / "corpus.bin"); });
  };
  const Error other = error_of(megatron_index(8, 2, {3}, {0}));
  EXPECT_EQ(other.message(), "the index describes 3 tokens of 2 bytes, but corpus.bin has 4 bytes");
  EXPECT_EQ(other.where(), (directory / "corpus.idx").string());
  EXPECT_EQ(error_of(megatron_index(5, 8, {1}, {0})).message(), "the token ids are int64, which is not read");
  EXPECT_EQ(error_of(megatron_index(99, 2, {2}, {0})).message(), "the index has ids of the unknown type 99");
  EXPECT_EQ(error_of(megatron_index(8, 2, {2}, {5})).message(), "the index's documents are not in order");
  EXPECT_EQ(error_of(megatron_index(8, 4, {1, 1}, {0})).message(),
            "sequence 1 of the index does not begin where the one before it ends");
  const std::string good = megatron_index(8, 2, {2}, {0});
  for (size_t size = 9; size < good.size(); ++size)
    EXPECT_EQ(error_of(good.substr(0, size)).kind(), ErrorKind::kCorrupt);
  std::mt19937_64 generator(12);
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = good;
    for (int n = 0; n < 3; ++n) damaged[9 + generator() % (damaged.size() - 9)] = static_cast<char>(generator());
    directory.write("corpus.idx", damaged);
    try {
      all_tokens(TokenShard::open(directory / "corpus.bin"));
    } catch (const Error&) {
    }
  }
  EXPECT_EQ(caught([&] { TokenShard::open(directory.write("corpus.idx", good)); }).message(),
            "the file is Megatron's index of a token file, not a stream of token ids");
}

TEST(TokenShard, SurvivesRandomFiles) {
  const TemporaryDirectory directory;
  write_example(directory / "a.tokens");
  const std::string good = read_text_file(directory / "a.tokens");
  std::mt19937_64 generator(5);
  const auto random_text = [&](size_t size) {
    std::string text(size, '\0');
    for (char& byte : text) byte = static_cast<char>(generator());
    return text;
  };
  int refused = 0;
  for (int i = 0; i < 1500; ++i) {
    std::string text;
    if (i % 3 == 0) text = std::string("CAUSETOK\1\0\0\0\2\0\0\0", 16) + random_text(generator() % 200);
    if (i % 3 == 1)
      text = llm_c_file(i % 2 == 0 ? 20240520 : 20240801, i % 2 == 0 ? 1 : 7, static_cast<int32_t>(generator()),
                        random_text(generator() % 50));
    if (i % 3 == 2) {
      text = good;
      for (int n = 0; n < 4; ++n)
        text[16 + generator() % 32] = static_cast<char>(generator() % 4 == 0 ? generator() : 0);
    }
    directory.write("b.bin", text);
    try {
      const TokenShard shard = TokenShard::open(directory / "b.bin");
      all_tokens(shard);
      shard.verify();
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1400);
}

TEST(DatasetManifest, RoundTripsAndRefusesDamage) {
  DatasetManifest manifest{metadata(50257).tokenizer, metadata(50257).sources, {}};
  manifest.splits["train"] = {12, 3, {{"train-00000.tokens", 5, "aa"}, {"train-00001.tokens", 7, "bb"}}};
  const std::string text = print_manifest(manifest);
  const DatasetManifest back = parse_manifest(text, "dataset.json");
  EXPECT_EQ(back.tokenizer, manifest.tokenizer);
  EXPECT_EQ(back.sources, manifest.sources);
  EXPECT_EQ(print_manifest(back), text);

  const auto message = [&](std::string_view from, std::string_view to) {
    std::string damaged = text;
    const size_t position = damaged.find(from);
    EXPECT_NE(position, std::string::npos) << from;
    damaged.replace(position, from.size(), to);
    return caught([&] { parse_manifest(damaged, "dataset.json"); }).message();
  };
  EXPECT_EQ(message("causeway-tokens", "other"), "the format is \"other\", not \"causeway-tokens\"");
  EXPECT_EQ(message("\"version\": 1", "\"version\": 4"), "the dataset has format version 4; this build reads 1 to 3");
  EXPECT_EQ(message("\"version\": 1", "\"version\": 2"), "the dataset's description has no \"targets\"");
  EXPECT_EQ(message("\"tokens\": 12", "\"tokens\": 13"), "split \"train\" claims 13 tokens, its shards 12");
  EXPECT_EQ(message("\"tokens\": 12", "\"tokens\": -12"),
            "\"tokens\" of split \"train\" is not a whole number from 0 to 18446744073709551615");
  EXPECT_EQ(message("\"fingerprint\"", "\"finger\""), "the tokenizer has no \"fingerprint\"");
  EXPECT_EQ(message("train-00000.tokens", "../x"), "the shard \"../x\" is not a file name in the dataset's directory");
  EXPECT_TRUE(contains(message("{", "["), "the description is not valid JSON"));
  const std::string without_splits = print_manifest({manifest.tokenizer, manifest.sources, {}});
  EXPECT_EQ(caught([&] { parse_manifest(without_splits, "dataset.json"); }).message(), "\"splits\" names no split");

  std::mt19937_64 generator(6);
  for (int i = 0; i < 1000; ++i) {
    std::string damaged = text;
    for (int n = 0; n < 2; ++n) damaged[generator() % damaged.size()] = static_cast<char>(generator());
    try {
      parse_manifest(damaged, "dataset.json");
    } catch (const Error& error) {
      EXPECT_EQ(error.where(), "dataset.json");
    }
  }
}

TEST(TokenDataset, ReadsAcrossShards) {
  const TemporaryDirectory directory;
  const std::vector<std::vector<uint16_t>> files = {{1, 2, 50256}, {3}, {4, 50256, 5, 6}};
  for (size_t i = 0; i < files.size(); ++i) {
    directory.write(fmt::format("corpus_train_{:06}.bin", i), as_text(std::span(files[i])));
  }
  const std::vector<uint16_t> validation = {9, 9};
  directory.write("corpus_val_000000.bin", as_text(std::span(validation)));
  const data::TokenDataset dataset = data::TokenDataset::open(directory.path());
  ASSERT_EQ(dataset.token_count(), 8u);
  const std::vector<int32_t> all = {1, 2, 50256, 3, 4, 50256, 5, 6};
  const std::vector<int32_t> documents = {0, 0, 0, 1, 1, 1, 2, 2};
  for (uint64_t offset = 0; offset < 8; ++offset) {
    for (uint64_t length = 1; offset + length <= 8; ++length) {
      std::vector<int32_t> ids(length);
      std::vector<int32_t> numbers(length);
      dataset.read(offset, ids);
      dataset.read_document_numbers(offset, numbers);
      for (uint64_t i = 0; i < length; ++i) {
        EXPECT_EQ(ids[i], all[offset + i]);
        EXPECT_EQ(numbers[i], documents[offset + i] - documents[offset]);
      }
    }
  }
  EXPECT_EQ(dataset.locate(3).shard->path().filename(), "corpus_train_000001.bin");
  EXPECT_EQ(dataset.locate(6).position, 2u);
  EXPECT_EQ(data::TokenDataset::open(directory.path(), "validation").token_count(), 2u);
  EXPECT_EQ(data::TokenDataset::open(directory / "*_train_*.bin").token_count(), 8u);
  EXPECT_EQ(data::TokenDataset::open(directory / "corpus_train_000002.bin").token_count(), 4u);
  EXPECT_NE(dataset.fingerprint(), data::TokenDataset::open(directory.path(), "validation").fingerprint());
  EXPECT_TRUE(contains(caught([&] { dataset.load_tokenizer(); }).message(), "do not say which tokenizer"));
}

TEST(TokenDataset, NamesWhatIsMissing) {
  const TemporaryDirectory directory;
  EXPECT_EQ(caught([&] { data::TokenDataset::open(directory.path()); }).message(),
            "the directory holds neither dataset.json nor .bin files");
  directory.write("train.bin", "abcd");
  EXPECT_EQ(caught([&] { data::TokenDataset::open(directory.path(), "validation"); }).message(),
            "the directory has no .bin file with the word \"val\" or \"validation\" or \"valid\" in its name");
  const Error error = caught([&] { data::TokenDataset::open(directory / "trian.bin"); });
  EXPECT_EQ(error.message(), "the token data does not exist");
  EXPECT_EQ(error.hint(), fmt::format("Did you mean \"{}\"?", (directory / "train.bin").string()));
  EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
  write_example(directory / "a.tokens");
  EXPECT_TRUE(
      contains(caught([&] { data::TokenDataset::open(directory / "*"); }).message(), "the shards are not of one kind"));
}

TEST(TokenShard, CutUnderItsReaderIsAnErrorWithItsName) {
  const TemporaryDirectory directory;
  TokenShardBuilder builder(2, false);
  builder.start_document();
  builder.append(std::vector<int32_t>(100'000, 7));
  builder.write(directory / "a.tokens", {{"gpt2", "abc", 50257, 7}, {}});
  const TokenShard shard = TokenShard::open(directory / "a.tokens");
  EXPECT_EQ(shard.token(99'999), 7);
  std::filesystem::resize_file(directory / "a.tokens", 5000);
  EXPECT_TRUE(contains(caught([&] { shard.token(99'999); }).message(), "cut short while it was being read"));
  EXPECT_EQ(caught([&] { shard.verify(); }).where(), (directory / "a.tokens").string());
}

}  // namespace
}  // namespace causeway::formats
