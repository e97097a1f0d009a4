// MDS datasets of token ids that are trained on where they are.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "causeway/data/document_packing.h"
#include "causeway/data/inspect.h"
#include "causeway/data/mds_decoding.h"
#include "causeway/data/token_dataset.h"
#include "causeway/formats/message_digest.h"
#include "tests/fixtures/data_test_support.h"

namespace causeway::data {
namespace {

using nlohmann::json;
using namespace std::string_literals;

std::filesystem::path fixture(const std::string& name) {
  return std::filesystem::path(CAUSEWAY_SOURCE_DIR) / "tests/fixtures/mds" / name;
}

// As the package mosaicml-streaming reads them.
std::vector<std::vector<int32_t>> samples_of(const std::string& name) {
  std::istringstream lines(read_text_file(fixture(name + ".jsonl")));
  std::vector<std::vector<int32_t>> samples;
  for (std::string line; std::getline(lines, line);)
    samples.push_back(json::parse(line)["tokens"].get<std::vector<int32_t>>());
  return samples;
}

std::vector<int32_t> joined(const std::vector<std::vector<int32_t>>& samples) {
  std::vector<int32_t> all;
  for (const std::vector<int32_t>& sample : samples) all.insert(all.end(), sample.begin(), sample.end());
  return all;
}

std::vector<int32_t> tokens_of(const TokenDataset& dataset) {
  std::vector<int32_t> ids(dataset.token_count());
  dataset.read(0, ids);
  return ids;
}

class MdsDatasetTest : public testing::Test {
 protected:
  // A copy of a fixture; `change` may write another index and other shards.
  std::filesystem::path copy(const std::string& name, const std::string& as) {
    std::filesystem::create_directories((directory_ / as).parent_path());
    std::filesystem::copy(fixture(name), directory_ / as);
    return directory_ / as;
  }
  // The same with its shards compressed.
  std::filesystem::path compressed(const std::string& name) {
    const std::filesystem::path dataset = copy(name, name + "-zstd");
    json index = json::parse(read_text_file(dataset / "index.json"));
    for (json& shard : index["shards"]) {
      const std::string basename = shard["raw_data"]["basename"];
      const std::string bytes = zstd(read_text_file(dataset / basename));
      directory_.write(name + "-zstd/" + basename + ".zstd", bytes);
      std::filesystem::remove(dataset / basename);
      shard["compression"] = "zstd:7";
      shard["zip_data"] = {{"basename", basename + ".zstd"}, {"bytes", bytes.size()}, {"hashes", json::object()}};
    }
    directory_.write(name + "-zstd/index.json", index.dump());
    return dataset;
  }
  // One shard of one column of these values.
  std::filesystem::path write(const std::string& encoding, const std::vector<std::string>& values,
                              const json& hashes = json::object()) {
    const std::string columns =
        fmt::format(R"({{"column_encodings": ["{}"], "column_names": ["tokens"], "column_sizes": [null]}})", encoding);
    std::string samples;
    std::vector<uint32_t> table = {static_cast<uint32_t>(values.size())};
    const auto position = [&] {
      return static_cast<uint32_t>(4 * (values.size() + 2) + columns.size() + samples.size());
    };
    for (const std::string& value : values) {
      table.push_back(position());
      const auto size = static_cast<uint32_t>(value.size());
      samples.append(reinterpret_cast<const char*>(&size), sizeof size);
      samples += value;
    }
    table.push_back(position());
    const std::string shard = std::string(as_text(std::span(table))) + columns + samples;
    json entry = json::parse(columns);
    entry.update({{"version", 2},
                  {"format", "mds"},
                  {"compression", nullptr},
                  {"raw_data", {{"basename", "shard.mds"}, {"bytes", shard.size()}, {"hashes", hashes}}},
                  {"samples", values.size()},
                  {"zip_data", nullptr}});
    directory_.write("written/shard.mds", shard);
    directory_.write("written/index.json", json{{"version", 2}, {"shards", {entry}}}.dump());
    return directory_ / "written";
  }

  TemporaryDirectory directory_;
};

TEST_F(MdsDatasetTest, TokensAreThoseThatThePackageReads) {
  for (const std::string name : {"tokens", "blocks", "json", "mixed"}) {
    SCOPED_TRACE(name);
    const std::vector<std::vector<int32_t>> samples = samples_of(name);
    const std::vector<int32_t> expected = joined(samples);
    const TokenDataset dataset = TokenDataset::open(fixture(name));
    ASSERT_EQ(tokens_of(dataset), expected);
    EXPECT_TRUE(dataset.knows_documents());
    std::vector<int32_t> documents(expected.size()), of_samples;
    dataset.read_document_numbers(0, documents);
    for (size_t i = 0; i < samples.size(); ++i)
      of_samples.insert(of_samples.end(), samples[i].size(), static_cast<int32_t>(i));
    EXPECT_EQ(documents, of_samples);
    std::mt19937 random(3);
    for (int i = 0; i < 200; ++i) {
      const size_t begin = random() % expected.size(), count = random() % (expected.size() - begin);
      std::vector<int32_t> ids(count);
      dataset.read(begin, ids);
      ASSERT_TRUE(std::equal(ids.begin(), ids.end(), expected.begin() + static_cast<ptrdiff_t>(begin)));
    }
  }
  const DocumentPacking packing(TokenDataset::open(fixture("blocks")), 0, 14);
  EXPECT_EQ(packing.windows(0).size(), 2u);
  EXPECT_EQ(packing.padding(), 0);
}

TEST_F(MdsDatasetTest, CompressedShardsAreDecompressedAndLeaveNothingBehind) {
  std::filesystem::create_directories(directory_ / "temporary");
  ::setenv("TMPDIR", (directory_ / "temporary").c_str(), 1);
  for (const std::string name : {"tokens", "mixed"}) {
    const std::filesystem::path path = compressed(name);
    const TokenDataset dataset = TokenDataset::open(path);
    EXPECT_EQ(tokens_of(dataset), joined(samples_of(name)));
    EXPECT_EQ(dataset.fingerprint(), TokenDataset::open(fixture(name)).fingerprint());
    EXPECT_EQ(dataset.shards()[0].path(), path / "shard.00000.mds.zstd");
    EXPECT_TRUE(std::filesystem::is_empty(directory_ / "temporary"));
  }
  // Their hashes are checked then.
  const std::filesystem::path shard = directory_ / "tokens-zstd/shard.00000.mds.zstd";
  const std::string good = read_text_file(fixture("tokens") / "shard.00000.mds");
  std::string damaged = good;
  damaged.back() ^= 1;
  const auto error_of = [&](const std::string& raw) {
    const std::string bytes = zstd(raw);
    directory_.write("tokens-zstd/shard.00000.mds.zstd", bytes);
    json index = json::parse(read_text_file(directory_ / "tokens-zstd/index.json"));
    index["shards"][0]["zip_data"]["bytes"] = bytes.size();
    directory_.write("tokens-zstd/index.json", index.dump());
    const Error error = caught([&] { TokenDataset::open(directory_ / "tokens-zstd"); });
    EXPECT_EQ(error.where(), shard.string());
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
    return error.message();
  };
  EXPECT_TRUE(contains(error_of(damaged), "the shard is damaged: its xxh64 is ")) << error_of(damaged);
  EXPECT_EQ(error_of(good.substr(0, 900)),
            "the shard is cut short: decompressed it has 900 bytes, and 903 by its index");
  EXPECT_TRUE(contains(error_of(good + "x"), "the shard is not the one of the index: decompressed it has 904 bytes"));
  EXPECT_TRUE(std::filesystem::is_empty(directory_ / "temporary"));
  ::setenv("TMPDIR", (directory_ / "nowhere").c_str(), 1);
  const Error error = caught([&] { TokenDataset::open(directory_ / "mixed-zstd"); });
  ::unsetenv("TMPDIR");
  EXPECT_EQ(error.kind(), ErrorKind::kIo);
  EXPECT_TRUE(contains(error.message(), "no temporary file of ")) << error.message();
}

// Of a process that is killed while it decompresses, nothing stays either.
TEST_F(MdsDatasetTest, AKilledProcessLeavesNoTemporaryFile) {
  const std::filesystem::path temporary = directory_ / "temporary";
  std::filesystem::create_directories(temporary);
  MdsShard shard;
  shard.raw.basename = "shard.mds";
  shard.raw.bytes = uint64_t{64} << 20;
  const std::filesystem::path file = directory_.write("shard.mds.zstd", zstd(std::string(shard.raw.bytes, 'x')));
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("TMPDIR", temporary.c_str(), 1);
    const PositionedFile decoded = open_mds_shard(file, shard);
    while (true) ::pause();
  }
  const std::filesystem::path descriptors = "/proc/" + std::to_string(child) + "/fd";
  for (bool seen = false; !seen;) {
    ASSERT_EQ(::waitpid(child, nullptr, WNOHANG), 0);
    std::error_code code;
    for (std::filesystem::directory_iterator entry(descriptors, code), end; !code && entry != end;
         entry.increment(code))
      seen = seen || std::filesystem::read_symlink(entry->path(), code).string().starts_with(temporary.string());
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(std::filesystem::is_empty(temporary));
}

TEST_F(MdsDatasetTest, DamagedShardsAreNamedOrLeftOut) {
  const std::filesystem::path path = copy("mixed", "mixed");
  const std::vector<int32_t> all = tokens_of(TokenDataset::open(path));
  const std::filesystem::path shard = path / "shard.00001.mds";
  const std::string bytes = read_text_file(shard);
  const auto expect_named = [&](ErrorKind kind, const std::string& message) {
    const Error error = caught([&] { TokenDataset::open(path); });
    EXPECT_EQ(error.kind(), kind);
    EXPECT_EQ(error.where(), shard.string());
    EXPECT_TRUE(contains(error.message(), message)) << error.message();
    EXPECT_TRUE(contains(error.hint(), "data.on_damaged_shard=skip leaves such shards out.")) << error.hint();
    const TokenDataset rest = TokenDataset::open(path, kTrainSplit, {.skip_damaged_shards = true});
    EXPECT_EQ(rest.left_out(), std::vector<std::string>{shard.string() + ": " + error.message()});
    EXPECT_EQ(rest.shards().size(), 3u);
    EXPECT_LT(rest.token_count(), all.size());
    EXPECT_NE(rest.fingerprint(), TokenDataset::open(fixture("mixed")).fingerprint());
  };
  directory_.write("mixed/shard.00001.mds", bytes.substr(0, bytes.size() - 1));
  expect_named(ErrorKind::kCorrupt, "the shard is cut short: it has ");
  std::string other = bytes;
  other[0] = static_cast<char>(other[0] + 1);
  directory_.write("mixed/shard.00001.mds", other);
  expect_named(ErrorKind::kCorrupt, " samples, and ");
  std::filesystem::remove(shard);
  expect_named(ErrorKind::kNotFound, "a shard of the index is missing");
  for (const auto& entry : std::filesystem::directory_iterator(path))
    if (entry.path().extension() == ".mds") std::filesystem::remove(entry.path());
  EXPECT_EQ(caught([&] { TokenDataset::open(path, kTrainSplit, {.skip_damaged_shards = true}); }).message(),
            "the MDS dataset has no shard with tokens that is whole");
}

TEST_F(MdsDatasetTest, HashesAreCheckedWhereAsked) {
  const std::string values = "\x04\x02\x05\0\x06\0"s;
  const std::string good = read_text_file(write("ndarray:uint16", {values}) / "shard.mds");
  for (const auto& [name, algorithm] : {std::pair{"sha1", formats::MessageDigest::Algorithm::kSha1},
                                        {"md5", formats::MessageDigest::Algorithm::kMd5}}) {
    formats::MessageDigest digest(algorithm);
    digest.add(good);
    write("ndarray:uint16", {values}, {{name, digest.hex()}});
    EXPECT_EQ(tokens_of(TokenDataset::open(directory_ / "written", kTrainSplit, {.check_hashes = true})),
              (std::vector<int32_t>{5, 6}));
    EXPECT_TRUE(inspect_dataset(directory_ / "written").splits[0].shards[0].hash_checked);
    write("ndarray:uint16", {"\x04\x02\x05\0\x07\0"s}, {{name, digest.hex()}});
    EXPECT_EQ(TokenDataset::open(directory_ / "written").token_count(), 2u);
    const Error error =
        caught([&] { TokenDataset::open(directory_ / "written", kTrainSplit, {.check_hashes = true}); });
    EXPECT_TRUE(contains(error.message(), fmt::format("the shard is damaged: its {} is ", name))) << error.message();
    EXPECT_EQ(caught([&] { inspect_dataset(directory_ / "written"); }).message(), error.message());
  }
  write("ndarray:uint16", {values}, {{"sha3_512", "00"}});
  EXPECT_FALSE(inspect_dataset(directory_ / "written").splits[0].shards[0].hash_checked);
}

// Of datasets that "causeway data prepare" wrote, too.
TEST_F(MdsDatasetTest, HashesOfOtherShardsAreCheckedToo) {
  TokenShardBuilder builder(1, false);
  builder.start_document();
  builder.append(std::vector<int32_t>{1, 2, 3});
  builder.write(directory_ / "a.tokens", {});
  std::string bytes = read_text_file(directory_ / "a.tokens");
  bytes[129] ^= 1;
  const std::filesystem::path path = directory_.write("a.tokens", bytes);
  EXPECT_EQ(TokenDataset::open(path).token_count(), 3u);
  EXPECT_TRUE(contains(caught([&] { TokenDataset::open(path, kTrainSplit, {.check_hashes = true}); }).message(),
                       "the shard's tokens are damaged"));
}

TEST_F(MdsDatasetTest, BytesAreTokensWhereTheirWidthIsSaid) {
  const std::vector<int64_t> first = {5, 70'000, 9}, second = {7};
  const std::filesystem::path path =
      write("bytes", {std::string(as_text(std::span(first))), "", std::string(as_text(std::span(second)))});
  const TokenDataset dataset = TokenDataset::open(path, kTrainSplit, {.token_bytes = 8});
  EXPECT_EQ(tokens_of(dataset), (std::vector<int32_t>{5, 70'000, 9, 7}));
  EXPECT_EQ(inspect_dataset(path, {}, {.token_bytes = 8}).splits[0].documents, 2u);
  const Error error = caught([&] { TokenDataset::open(path); });
  EXPECT_EQ(error.message(), "the column \"tokens\" holds bytes, and nothing says how wide the ids in them are");
  EXPECT_TRUE(contains(error.hint(), "data.token_bytes"));
  EXPECT_TRUE(contains(
      caught([&] { TokenDataset::open(write("bytes", {"12345"}), kTrainSplit, {.token_bytes = 4}); }).message(),
      "an array does not fit its bytes (sample 1)"));
}

TEST_F(MdsDatasetTest, WhatHoldsNoTokensIsRefused) {
  Error error = caught([] { TokenDataset::open(fixture("text")); });
  EXPECT_EQ(error.message(), "the samples have no column \"tokens\"");
  EXPECT_TRUE(contains(error.hint(), "\"text\" (str)")) << error.hint();
  EXPECT_TRUE(contains(error.hint(), "Text is prepared first: causeway data prepare DIRECTORY")) << error.hint();
  error = caught([] { TokenDataset::open(fixture("text"), kTrainSplit, {.column = "text"}); });
  EXPECT_EQ(error.message(), "the column \"text\" is encoded as str, which holds no token ids");
  EXPECT_TRUE(contains(error.hint(), "causeway data prepare DIRECTORY --output DATASET --text-key COLUMN"))
      << error.hint();
  error = caught([] { TokenDataset::open(fixture("mixed"), kTrainSplit, {.column = "blob"}); });
  EXPECT_EQ(error.message(), "the column \"blob\" is encoded as pkl, which holds no token ids");
  error = caught([&] { TokenDataset::open(write("ndarray", {"\x10\x04\x01\0\0"s, "\x20\x04\x01\0\0\0\0"s})); });
  EXPECT_EQ(error.message(), "the samples hold ids of different types");
  EXPECT_TRUE(error.where().ends_with("shard.mds, sample 2")) << error.where();
  error = caught([&] { tokens_of(TokenDataset::open(write("ndarray:int16", {"\x04\x01\xFF\xFF"s}))); });
  EXPECT_EQ(error.message(), "-1 is no token id");
  error = caught([&] { TokenDataset::open(write("ndarray:int16", {"\x04\0"s})); });
  EXPECT_EQ(error.message(), "the shard holds no token ids");
}

TEST_F(MdsDatasetTest, SplitsAreDirectories) {
  copy("tokens", "both/train");
  copy("blocks", "both/val");
  EXPECT_EQ(tokens_of(TokenDataset::open(directory_ / "both")), joined(samples_of("tokens")));
  EXPECT_EQ(tokens_of(TokenDataset::open(directory_ / "both", kValidationSplit)), joined(samples_of("blocks")));
  const Error none = caught([] { TokenDataset::open(fixture("tokens"), kValidationSplit); });
  EXPECT_EQ(none.kind(), ErrorKind::kNotFound);
  EXPECT_EQ(none.message(), "the MDS dataset has no split \"validation\"");
  EXPECT_EQ(inspect_dataset(directory_ / "both").splits.size(), 2u);
  copy("blocks", "both/valid");
  const Error two = caught([&] { TokenDataset::open(directory_ / "both", kValidationSplit); });
  EXPECT_EQ(two.kind(), ErrorKind::kInvalidArgument);
  EXPECT_EQ(two.message(), "the MDS dataset has two directories for the split \"validation\": val and valid");
  EXPECT_EQ(inspect_dataset(fixture("tokens")).splits.size(), 1u);
}

}  // namespace
}  // namespace causeway::data
