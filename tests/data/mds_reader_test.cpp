// Datasets that mosaicml-streaming wrote (tools/make_mds_fixtures.py), and such with something wrong.
#include "causeway/data/mds_reader.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

#include "causeway/data/prepare.h"
#include "causeway/data/token_dataset.h"
#include "tests/fixtures/data_test_support.h"

namespace causeway::data {
namespace {

std::filesystem::path reader_fixture(const std::string& name) {
  return std::filesystem::path(CAUSEWAY_SOURCE_DIR) / "tests/fixtures/mds" / name;
}

std::vector<nlohmann::json> expected_samples(const std::string& name) {
  std::istringstream lines(read_text_file(reader_fixture(name + ".jsonl")));
  std::vector<nlohmann::json> samples;
  for (std::string line; std::getline(lines, line);) samples.push_back(nlohmann::json::parse(line));
  return samples;
}

// One dataset of one column of text, written by the format's description.
struct Written {
  std::string shard(const std::vector<std::string>& texts) const {
    std::string samples, table;
    std::vector<uint32_t> offsets;
    const auto append = [](std::string& to, uint32_t value) {
      to.append(reinterpret_cast<char*>(&value), sizeof value);
    };
    const size_t begin = 4 * (texts.size() + 2) + columns.size();
    for (const std::string& text : texts) {
      offsets.push_back(static_cast<uint32_t>(begin + samples.size()));
      append(samples, static_cast<uint32_t>(text.size()));
      samples += text;
    }
    offsets.push_back(static_cast<uint32_t>(begin + samples.size()));
    append(table, static_cast<uint32_t>(texts.size()));
    for (const uint32_t offset : offsets) append(table, offset);
    return table + columns + samples;
  }
  nlohmann::json index(const std::string& name, size_t bytes, size_t samples) const {
    nlohmann::json shard = nlohmann::json::parse(columns);
    shard.update({{"version", 2},
                  {"format", "mds"},
                  {"compression", nullptr},
                  {"hashes", nlohmann::json::array()},
                  {"raw_data", {{"basename", name}, {"bytes", bytes}, {"hashes", nlohmann::json::object()}}},
                  {"samples", samples},
                  {"size_limit", nullptr},
                  {"zip_data", nullptr}});
    return {{"version", 2}, {"shards", {shard}}};
  }
  std::string columns = R"({"column_encodings": ["str"], "column_names": ["text"], "column_sizes": [null]})";
};

class MdsReaderTest : public testing::Test {
 protected:
  // Prepares the directory's dataset and gives its texts.
  std::vector<std::string> prepare(const std::filesystem::path& input) {
    options_.inputs = {input};
    options_.output = directory_ / "out";
    options_.overwrite = true;
    summary_ = prepare_dataset(options_, ByteTokenizer());
    const TokenDataset dataset = TokenDataset::open(directory_ / "out");
    std::vector<int32_t> ids(dataset.token_count()), documents(ids.size());
    dataset.read(0, ids);
    dataset.read_document_numbers(0, documents);
    std::vector<std::string> texts(static_cast<size_t>(documents.back()) + 1);
    for (size_t i = 0; i < ids.size(); ++i) texts[static_cast<size_t>(documents[i])] += static_cast<char>(ids[i]);
    return texts;
  }
  Error error_of(const std::filesystem::path& input) {
    return caught([&] { prepare(input); });
  }
  std::filesystem::path copy(const std::string& name) {
    std::filesystem::copy(reader_fixture(name), directory_ / name);
    return directory_ / name;
  }
  // A dataset of one shard with these bytes, of which its index says so much.
  std::filesystem::path write(const std::string& shard, size_t samples, size_t bytes = 0) {
    directory_.write("mds/shard.mds", shard);
    directory_.write("mds/index.json", Written().index("shard.mds", bytes == 0 ? shard.size() : bytes, samples).dump());
    return directory_ / "mds";
  }
  // The same with the index changed.
  template <typename Change>
  Error error_with_index(Change&& change) {
    const std::string shard = Written().shard({"one", "two"});
    nlohmann::json index = Written().index("shard.mds", shard.size(), 2);
    change(index);
    directory_.write("mds/shard.mds", shard);
    directory_.write("mds/index.json", index.dump());
    return error_of(directory_ / "mds");
  }

  TemporaryDirectory directory_;
  PrepareOptions options_;
  PrepareSummary summary_;
};

TEST_F(MdsReaderTest, TextsAreThoseThatThePackageReads) {
  for (const std::string name : {"text", "zstd", "json", "mixed"}) {
    std::vector<std::string> expected;
    for (const nlohmann::json& sample : expected_samples(name)) expected.push_back(sample["text"]);
    EXPECT_EQ(prepare(reader_fixture(name)), expected) << name;
    EXPECT_GT(summary_.manifest.sources.size(), 1u);
    // "json" has an md5 alone, "mixed" has none.
    EXPECT_EQ(summary_.unverified_shards, 0u) << name;
  }
}

TEST_F(MdsReaderTest, TokensAreThoseThatThePackageReads) {
  options_.text_key = "tokens";
  for (const std::string name : {"tokens", "blocks", "json", "mixed"}) {
    std::vector<std::string> expected;
    for (const nlohmann::json& sample : expected_samples(name)) {
      expected.emplace_back();
      for (const nlohmann::json& id : sample["tokens"]) expected.back() += static_cast<char>(id.get<int>());
    }
    EXPECT_EQ(prepare(reader_fixture(name)), expected) << name;
  }
  // The tokenizer's name is believed where the ids fit.
  const MdsShard shard = read_mds_index(reader_fixture("tokens")).shards.front();
  MdsReader reader(find_mds_file(reader_fixture("tokens"), shard), shard, "tokens");
  std::vector<int32_t> ids;
  ASSERT_TRUE(reader.next_tokens(ids));
  EXPECT_EQ(ids, expected_samples("tokens").front()["tokens"].get<std::vector<int32_t>>());
}

TEST_F(MdsReaderTest, TokensThatAreNoneAreNamed) {
  options_.text_key = "tokens";
  const auto error = [&](const std::string& encoding, const std::string& value) {
    const std::string columns =
        fmt::format(R"({{"column_encodings": ["{}"], "column_names": ["tokens"], "column_sizes": [null]}})", encoding);
    const std::string shard = Written{columns}.shard({value});
    directory_.write("mds/shard.mds", shard);
    directory_.write("mds/index.json", Written{columns}.index("shard.mds", shard.size(), 1).dump());
    return error_of(directory_ / "mds");
  };
  using namespace std::string_literals;
  for (const char* encoding :
       {"ndarray:float32", "ndarray:int", "ndarray:int32:0", "ndarray:int32:4x", "ndarray:int32:"})
    EXPECT_EQ(error(encoding, "abcd").message(),
              fmt::format("the column \"tokens\" is encoded as {}, which holds no token ids", encoding));
  for (const std::string& value : {""s, "\x04"s, "\x04\x02\x01\0\0\0"s, "\x04\x01\x01\0\0"s,
                                   "\x07\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"s, "\x08\x01\x02\x01\0\0\0"s})
    EXPECT_EQ(error("ndarray:int32", value).message(), "an array does not fit its bytes (sample 1)");
  EXPECT_EQ(error("ndarray:int32", "\x04\x01\xFF\xFF\xFF\xFF"s).message(), "-1 is no token id");
  EXPECT_EQ(error("ndarray:uint32", "\x04\x01\xFF\xFF\xFF\xFF"s).message(), "4294967295 is no token id");
  EXPECT_EQ(error("ndarray", "\x22\x04\x01\0\0\x80\x3F"s).message(), "an array holds no integers (its dtype is 34)");
  const Error beyond = error("ndarray:uint16", "\x04\x02\x05\0\0\x01"s);
  EXPECT_EQ(beyond.message(), "token id 256 is beyond the vocabulary of the tokenizer \"bytes\", 256");
  EXPECT_TRUE(beyond.where().ends_with("shard.mds, sample 1")) << beyond.where();
  EXPECT_EQ(beyond.hint(), "Say with --tokenizer which tokenizer made the tokens.");
}

TEST_F(MdsReaderTest, TheSameSplitAsOfJsonLines) {
  options_.validation_fraction = 0.3;
  const std::vector<std::string> of_shards = prepare(reader_fixture("text"));
  std::string lines = read_text_file(reader_fixture("text.jsonl"));
  EXPECT_EQ(prepare(directory_.write("text.jsonl", lines)), of_shards);
}

TEST_F(MdsReaderTest, ColumnsWithoutTextAreRefusedByNameAndLeftAloneElsewhere) {
  options_.text_key = "blob";
  const Error pickle = error_of(reader_fixture("mixed"));
  EXPECT_EQ(pickle.kind(), ErrorKind::kUnsupported);
  EXPECT_TRUE(
      contains(pickle.message(), "the column \"blob\" is encoded as pkl (Python's pickle), which is not decoded"));
  EXPECT_TRUE(contains(pickle.where(), "shard.00000.mds"));
  options_.text_key = "u8";
  EXPECT_EQ(error_of(reader_fixture("mixed")).message(),
            "the column \"u8\" is encoded as uint8, which is neither text nor token ids");
  options_.text_key = "meta";
  EXPECT_EQ(error_of(reader_fixture("mixed")).message(),
            "\"meta\" is a JSON object, not a string; none of the first 13 here is a document");
  options_.text_key = "txet";
  const Error absent = error_of(reader_fixture("mixed"));
  EXPECT_EQ(absent.message(), "the samples have no column \"txet\"");
  EXPECT_EQ(absent.hint(), "Did you mean the column \"text\"? Say with --text-key COLUMN which column holds the text.");
  options_.text_key = "nothing_of_the_kind";
  EXPECT_TRUE(contains(error_of(reader_fixture("text")).hint(),
                       "They have: \"id\" (int), \"score\" (float32), \"text\" (str)."));
}

TEST_F(MdsReaderTest, DamagedShardsAreNamed) {
  for (const std::string name : {"text", "zstd"}) {
    const std::filesystem::path dataset = copy(name);
    const std::filesystem::path shard = dataset / (name == "text" ? "shard.00001.mds" : "shard.00001.mds.zstd");
    const std::string bytes = read_text_file(shard);
    std::string damaged = bytes;
    damaged[name == "text" ? damaged.size() - 2 : damaged.size() / 2] ^= 1;
    directory_.write(std::filesystem::relative(shard, directory_.path()).string(), damaged);
    Error error = error_of(dataset);
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
    EXPECT_EQ(error.where(), shard.string()) << error.what();
    EXPECT_TRUE(contains(error.message(), "damaged")) << error.message();
    directory_.write(std::filesystem::relative(shard, directory_.path()).string(), bytes.substr(0, bytes.size() - 3));
    error = error_of(dataset);
    EXPECT_TRUE(error.message().starts_with("the shard is cut short: it has ")) << error.message();
    EXPECT_EQ(error.where(), shard.string());
    std::filesystem::remove(shard);
    error = error_of(dataset);
    EXPECT_EQ(error.message(), "a shard of the index is missing");
    EXPECT_EQ(error.where(), shard.string());
    EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
  }
}

TEST_F(MdsReaderTest, AShardThatIsNotTheOneOfItsIndexIsNamed) {
  const std::string shard = Written().shard({"one", "two", "three"});
  EXPECT_EQ(prepare(write(shard, 3)), (std::vector<std::string>{"one", "two", "three"}));
  EXPECT_EQ(error_of(write(shard, 2)).message(), "the shard has 3 samples, and 2 by its index");
  EXPECT_TRUE(contains(error_of(write(shard + "x", 3)).message(), "the shard's samples end at byte "));
  const auto changed = [&](size_t at, uint32_t value) {
    std::string bytes = shard;
    std::memcpy(bytes.data() + at, &value, sizeof value);
    return error_of(write(bytes, 3)).message();
  };
  const uint32_t first = 4 * 5 + static_cast<uint32_t>(Written().columns.size());
  EXPECT_EQ(changed(8, first - 1), "the shard's samples overlap by its table");
  EXPECT_EQ(changed(4, 1), "the shard's samples overlap by its table");
  EXPECT_EQ(changed(first, 100), "a sample's columns are longer than the sample (sample 1)");
  EXPECT_EQ(changed(first, 0), "a sample is longer than its columns (sample 1)");
  EXPECT_EQ(changed(first, 0xFFFFFFFF), "a sample's columns are longer than the sample (sample 1)");
  std::string other = shard;
  other.replace(other.find("text"), 4, "body");
  EXPECT_EQ(error_of(write(other, 3)).message(), "the shard has other columns than its index says");
  // One that is no text is left out.
  EXPECT_EQ(prepare(write(Written().shard({"fine", "\xFF", "too"}), 3)), (std::vector<std::string>{"fine", "too"}));
  options_.strict = true;
  EXPECT_EQ(error_of(write(Written().shard({"fine", "\xFF"}), 2)).where(),
            (directory_ / "mds/shard.mds").string() + ", sample 2");
}

// 559,903 samples begin a shard with the bytes that begin a gzip file.
TEST_F(MdsReaderTest, AShardMayBeginAsACompressedFileDoes) {
  const std::vector<std::string> texts(0x088B1F, "x");
  const std::string shard = Written().shard(texts);
  ASSERT_EQ(compression_of(shard), Compression::kGzip);
  EXPECT_EQ(prepare(write(shard, texts.size())).size(), texts.size());
}

TEST_F(MdsReaderTest, WhatIsWrongWithAnIndexIsSaid) {
  using nlohmann::json;
  const auto message = [&](auto&& change) { return error_with_index(change).message(); };
  EXPECT_EQ(message([](json& index) { index["version"] = 3; }), "the index has version 3; version 2 is read");
  EXPECT_EQ(message([](json& index) { index["shards"] = json::array(); }), "the index names no shard");
  EXPECT_EQ(message([](json& index) { index["shards"] = 7; }), "the index has no list of shards");
  EXPECT_EQ(message([](json& index) { index["shards"][0]["format"] = "xsv"; }),
            "the shards are of the format \"xsv\", not mds");
  EXPECT_EQ(message([](json& index) { index["shards"][0].erase("raw_data"); }),
            "a shard's description has no \"raw_data\"");
  EXPECT_EQ(message([](json& index) { index["shards"][0]["column_sizes"] = json::array(); }),
            "the names, encodings and sizes of a shard's columns are not equally many");
  EXPECT_EQ(message([](json& index) { index["shards"][0]["samples"] = -1; }),
            "\"samples\" of a shard is not a whole number");
  for (const char* name : {"../shard.mds", "/etc/passwd", "a/../../b", "", "a/"}) {
    EXPECT_EQ(message([&](json& index) { index["shards"][0]["raw_data"]["basename"] = name; }),
              fmt::format("the shard \"{}\" is not a file in the directory", name));
  }
  EXPECT_EQ(message([](json& index) {
              index["shards"][0]["zip_data"] = {{"basename", "shard.mds.br"}, {"bytes", 4}, {"hashes", json::object()}};
              index["shards"][0]["compression"] = "br:11";
              index["shards"][0]["raw_data"]["basename"] = "absent.mds";
            }),
            "a shard of the index is missing");
  directory_.write("mds/shard.mds.br", "abcd");
  EXPECT_EQ(message([](json& index) {
              index["shards"][0]["zip_data"] = {{"basename", "shard.mds.br"}, {"bytes", 4}, {"hashes", json::object()}};
              index["shards"][0]["compression"] = "br:11";
              index["shards"][0]["raw_data"]["basename"] = "absent.mds";
            }),
            "the shard is compressed with br; zstd and gz are read");
  EXPECT_EQ(message([](json& index) {
              index["shards"][0]["raw_data"]["hashes"]["xxh64"] = "0123456789abcdef";
            }).substr(0, 35),
            "the shard is damaged: its xxh64 is ");
  const Error named = error_of(directory_ / "mds/shard.mds");
  EXPECT_EQ(named.hint(), "Give the directory that its index.json is in.");
}

}  // namespace
}  // namespace causeway::data
