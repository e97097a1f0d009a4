#include "causeway/data/text_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "causeway/base/utf8.h"
#include "causeway/data/prepare.h"
#include "causeway/data/token_dataset.h"
#include "causeway/formats/tokenizer/gpt2_tokenizer.h"
#include "causeway/formats/tokenizer/unicode_classes.h"
#include "tests/fixtures/data_test_support.h"

namespace causeway::data {
namespace {

using namespace std::string_literals;
using namespace std::string_view_literals;

TextReaderOptions bytes_options() {
  TextReaderOptions options;
  options.cut_position = [](std::string_view text, size_t from) { return std::min(from, text.size()); };
  return options;
}

// All of the text, which must come in blocks of one document.
std::string read_all(const TextFile& file, const TextReaderOptions& options) {
  TextReader reader(file, options);
  std::string text;
  while (const std::optional<TextBlock> block = reader.next()) {
    EXPECT_EQ(block->starts_document, text.empty());
    text += block->text;
    EXPECT_LE(block->text.size(), 3 * kTextBlockBytes);
  }
  return text;
}

TEST(TextReader, DropsAByteOrderMark) {
  const TemporaryDirectory directory;
  const TextReaderOptions options = bytes_options();
  EXPECT_EQ(read_all({directory.write("a.txt", "\xEF\xBB\xBFtext"), {}}, options), "text");
  EXPECT_EQ(read_all({directory.write("a.txt", gzip("\xEF\xBB\xBFtext")), {}}, options), "text");
  EXPECT_EQ(read_all({directory.write("a.txt", "te\xEF\xBB\xBFxt"), {}}, options), "te\xEF\xBB\xBFxt");
  TextReader lines({directory.write("a.jsonl", "\xEF\xBB\xBF{\"text\":\"x\"}\n"), TextFormat::kJsonLines}, options);
  EXPECT_EQ(parse_json_line(lines.next()->lines().at(0), "text", "a.jsonl").text, "x");
}

TEST(TextReader, NamesWhatIsNotText) {
  const TemporaryDirectory directory;
  const auto message = [&](std::string_view content, const std::string& name = "a.txt") {
    const std::filesystem::path path = directory.write(name, content);
    const Error error = caught([&] { read_all({path, {}}, bytes_options()); });
    EXPECT_TRUE(error.where().starts_with(path.string())) << error.where();
    return error.message();
  };
  EXPECT_EQ(message("PAR1\x15\x04\x15"), "the file is a Parquet table, not text");
  EXPECT_EQ(message("\x89PNG\r\n\x1A\n...."), "the file is a PNG image, not text");
  EXPECT_EQ(message("\x7F"
                    "ELF\x02\x01\x01"),
            "the file is a program (ELF), not text");
  EXPECT_EQ(message("\x93NUMPY\x01"), "the file is a NumPy array (.npy), not text");
  EXPECT_EQ(message("PK\x03\x04rest"), "the file is a zip archive (or a checkpoint or document that is one), not text");
  EXPECT_EQ(message("CAUSETOK\x01"), "the file is a Causeway token shard, not text");
  EXPECT_EQ(message(gzip("PAR1\x15\x04\x15")), "the file is a Parquet table, not text");
  EXPECT_EQ(message(gzip(zstd("text"))), "the file is compressed twice");
  EXPECT_EQ(message("\x14\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"F32\"}"sv), "the file is a safetensors file, not text");
  // MosaicML's: two samples of 5 and 6 bytes, the columns as JSON.
  const std::string columns = "{\"column_names\":[\"text\"]}";
  std::string mds;
  const uint32_t begin = static_cast<uint32_t>(4 * 4 + columns.size());
  for (const uint32_t number : {uint32_t{2}, begin, begin + 5, begin + 11})
    mds.append(reinterpret_cast<const char*>(&number), 4);
  mds += columns + "Hello" + "world!";
  EXPECT_EQ(message(mds), "the file is an MDS shard (MosaicML's streaming format), not text");
  EXPECT_EQ(message("\xFF\xFEt\0e\0x\0t\0"sv), "the text is UTF-16, not UTF-8");

  // A text about formats begins with their names, and is a text.
  for (const char* text : {"GGUF is a format", "PAR1", "Convert WEBP images", "II*"})
    EXPECT_EQ(read_all({directory.write("a.txt", text), {}}, bytes_options()), text);
  EXPECT_EQ(message("%PDF-1.4\n"), "the file is a PDF document, not text");

  directory.write("table.csv", "a,b\n1,2\n\0\1\2"sv);
  const Error binary = caught([&] { read_all({directory / "table.csv", {}}, bytes_options()); });
  EXPECT_EQ(binary.message(), "the file is binary, not text: it holds a zero byte");
  EXPECT_EQ(binary.where(), (directory / "table.csv").string() + ", line 3 (byte 8)");
  // Far behind the first block.
  directory.write("latin1.txt", std::string(1'000'000, 'x') + "\n" + std::string(1'000'000, 'y') + "caf\xE9 au lait");
  const Error latin = caught([&] { read_all({directory / "latin1.txt", {}}, bytes_options()); });
  EXPECT_EQ(latin.message(), "the text is not UTF-8: byte 0x20 cannot be where it is");
  EXPECT_EQ(latin.where(), (directory / "latin1.txt").string() + ", line 2 (byte 2000005)");
  EXPECT_TRUE(contains(latin.hint(), "--any-bytes"));
  EXPECT_EQ(message("cut within a character \xE4\xBD"), "the text is not UTF-8: it ends within a character");

  TextReaderOptions any = bytes_options();
  any.any_bytes = true;
  EXPECT_EQ(read_all({directory / "table.csv", {}}, any), "a,b\n1,2\n\0\1\2"sv);
  EXPECT_EQ(read_all({directory.write("m.txt", "\xEF\xBB\xBF\xFF"), {}}, any), "\xEF\xBB\xBF\xFF");
}

TEST(TextReader, NamesDamagedCompression) {
  const TemporaryDirectory directory;
  std::mt19937_64 generator(3);
  std::string text(300'000, 'x');
  for (char& c : text) c = static_cast<char>('a' + generator() % 26);
  for (const auto& [format, good] : {std::pair{"gzip"s, gzip(text)}, {"zstd"s, zstd(text)}}) {
    const auto message = [&](const std::string& content) {
      const std::filesystem::path path = directory.write("a.txt", content);
      const Error error = caught([&] { read_all({path, {}}, bytes_options()); });
      EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
      EXPECT_EQ(error.where(), path.string());
      return error.message();
    };
    for (const size_t size : {size_t{8}, size_t{1000}, good.size() - 1})
      EXPECT_EQ(message(good.substr(0, size)), fmt::format("the {} data is cut short", format)) << size;
    std::string flipped = good;
    flipped[good.size() / 2] ^= 0x10;
    EXPECT_TRUE(contains(message(flipped), fmt::format("the {} data is damaged", format)));
    EXPECT_TRUE(contains(message(good + "garbage"), fmt::format("the {} data is damaged", format)));
  }
}

TEST(TextReader, GzipMayEndInZeros) {
  const TemporaryDirectory directory;
  const auto read = [&](const std::string& content) {
    return read_all({directory.write("a.txt", content), {}}, bytes_options());
  };
  const std::string zeros(1'000'000, '\0');
  EXPECT_EQ(read(gzip("one ") + zeros), "one ");
  EXPECT_EQ(read(gzip("one ") + gzip("two ") + zeros.substr(0, 1) + gzip("three") + zeros), "one two three");
  EXPECT_EQ(caught([&] { read(gzip("one ") + zeros.substr(0, 512) + "x"); }).kind(), ErrorKind::kCorrupt);
}

// As "zstd --long=31" writes.
TEST(TextReader, ReadsZstdOfLongWindows) {
  const TemporaryDirectory directory;
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, 31);
  std::string compressed(1000, '\0');
  ZSTD_inBuffer in{"some words", 10, 0};
  ZSTD_outBuffer out{compressed.data(), compressed.size(), 0};
  // A size that is not known beforehand leaves the window as it is.
  ASSERT_EQ(ZSTD_isError(ZSTD_compressStream2(context, &out, &in, ZSTD_e_flush)), 0u);
  ASSERT_EQ(ZSTD_compressStream2(context, &out, &in, ZSTD_e_end), 0u);
  ZSTD_freeCCtx(context);
  compressed.resize(out.pos);
  const std::filesystem::path path = directory.write("a.txt.zst", compressed);
  EXPECT_EQ(read_all({path, {}}, bytes_options()), "some words");
  // What is longer still is said to be so. The fifth byte after the number has the window: 2^(10 + exponent).
  compressed[5] = static_cast<char>(25 << 3);
  directory.write("a.txt.zst", compressed);
  const Error error = caught([&] { read_all({path, {}}, bytes_options()); });
  EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
  EXPECT_EQ(error.message(), "the zstd data was compressed with a window of more than 2 GiB, the most that is read");
}

TEST(TextReader, TakesWhatHasNoNameByItsFirstLine) {
  const TemporaryDirectory directory;
  const auto format = [&](std::string_view content) {
    return TextReader({directory.write("corpus", content), {}}, bytes_options()).format();
  };
  EXPECT_EQ(format("{\"text\": \"x\"}\n{"), TextFormat::kJsonLines);
  EXPECT_EQ(format("\n {\"text\":\"x\"}"), TextFormat::kJsonLines);
  EXPECT_EQ(format("{\"text\":\"\\ud800\",\"score\":NaN}\n"), TextFormat::kJsonLines);
  EXPECT_EQ(format("{\"text\": \"" + std::string(200'000, 'x') + "\"}"), TextFormat::kJsonLines);
  EXPECT_EQ(format("{ is an opening brace"), TextFormat::kPlainText);
  EXPECT_EQ(format("[1]\n"), TextFormat::kPlainText);
  EXPECT_EQ(format("Once upon a time"), TextFormat::kPlainText);
  EXPECT_EQ(format(""), TextFormat::kPlainText);
  EXPECT_EQ(find_text_files({"-"}).files.at(0).format, std::nullopt);
  EXPECT_EQ(find_text_files({directory.write("a.ndjson.zst", "")}).files.at(0).format, TextFormat::kJsonLines);
  EXPECT_EQ(find_text_files({directory.write("a.txt", "{}")}).files.at(0).format, TextFormat::kPlainText);
  EXPECT_EQ(find_text_files({directory.write("a.json", "{}")}).files.at(0).format, std::nullopt);
  EXPECT_EQ(find_text_files({directory / "a.json"}, TextFormat::kJsonLines).files.at(0).format, TextFormat::kJsonLines);
}

TEST(TextReader, LinesComeInBlocksWithTheirNumbers) {
  const TemporaryDirectory directory;
  std::mt19937_64 generator(4);
  std::string text;
  std::vector<std::string> expected;
  for (int i = 0; i < 3000; ++i) {
    const std::string line = generator() % 5 == 0 ? " " : "{" + std::string(generator() % 900, 'x') + "}";
    if (line != " ") expected.push_back(fmt::format("{}:{}", i + 1, line));
    text += line + (i == 2999 ? "" : i % 7 == 0 ? "\r\n" : "\n");
  }
  TextReader reader({directory.write("a.jsonl", text), TextFormat::kJsonLines}, bytes_options());
  std::vector<std::string> found;
  int blocks = 0;
  uint64_t stored = 0;
  for (; const std::optional<TextBlock> block = reader.next(); ++blocks) {
    for (const JsonLine& line : block->lines()) {
      std::string_view bytes = line.bytes;
      if (bytes.ends_with('\r')) bytes.remove_suffix(1);
      found.push_back(fmt::format("{}:{}", line.number, bytes));
    }
    stored += block->stored_bytes;
  }
  EXPECT_EQ(found, expected);
  EXPECT_GT(blocks, 2);
  EXPECT_EQ(stored, text.size());
  EXPECT_EQ(reader.stream().stored_hash(), hash_text(text));
}

TEST(TextReader, ALineTooLongIsAnErrorThatNamesIt) {
  const TemporaryDirectory directory;
  TextReaderOptions options = bytes_options();
  options.most_bytes_at_once = 1 << 20;
  const std::string line = "{\"text\":\"" + std::string(1 << 22, 'x') + "\"}\n";
  const auto read = [&](const TextFile& file) {
    TextReader reader(file, options);
    while (reader.next()) {
    }
  };
  const Error error =
      caught([&] { read({directory.write("a.jsonl", "{}\n\n" + line + "{}\n"), TextFormat::kJsonLines}); });
  EXPECT_EQ(error.message(), "the line is longer than 1048576 bytes, the most that is read");
  EXPECT_EQ(error.where(), (directory / "a.jsonl").string() + ", line 3");
  // Text in which a tokenizer finds no place to cut.
  options.cut_position = [](std::string_view text, size_t) { return text.size(); };
  const Error run = caught([&] { read({directory.write("a.txt", line), TextFormat::kPlainText}); });
  EXPECT_TRUE(contains(run.message(), "without a place where the tokenizer could cut them")) << run.message();
}

TEST(TextReader, ReadsAFifo) {
  const TemporaryDirectory directory;
  const std::filesystem::path fifo = directory / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const std::string text = "some words, and more of them, " + std::string(300'000, '.');
  std::jthread writer([&] {
    std::ofstream out(fifo, std::ios::binary);
    out << text.substr(0, 10) << std::flush;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    out << text.substr(10);
  });
  EXPECT_EQ(read_all({fifo, {}}, bytes_options()), text);
}

TEST(TextReader, StopsWhileItWaits) {
  const TemporaryDirectory directory;
  const std::filesystem::path fifo = directory / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const int writer = ::open(fifo.c_str(), O_RDWR);  // open, and silent
  ASSERT_GE(writer, 0);
  std::stop_source stop;
  std::jthread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    stop.request_stop();
  });
  TextReader reader({fifo, {}}, bytes_options(), stop.get_token());
  EXPECT_FALSE(reader.next().has_value());
  ::close(writer);
}

TEST(TextReader, ChineseIsCutAtItsLines) {
  const TemporaryDirectory directory;
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += "道可道，非常道。名可名，非常名。\n　";
  const Gpt2Tokenizer tokenizer = Gpt2Tokenizer::load(gpt2_directory());
  TextReaderOptions options;
  options.cut_position = [&](std::string_view part, size_t from) { return tokenizer.cut_position(part, from); };
  TextReader reader({directory.write("a.txt", text), {}}, options);
  std::vector<int32_t> ids;
  int blocks = 0;
  for (; const std::optional<TextBlock> block = reader.next(); ++blocks) tokenizer.encode_to(block->text, ids);
  EXPECT_GT(blocks, 8);
  EXPECT_EQ(ids, tokenizer.encode(text));
}

TEST(Utf8Checker, AgreesWithTheDecoderHoweverTheBytesArrive) {
  std::mt19937_64 generator(9);
  const std::vector<std::string> parts = {"a",
                                          "plain words of text",
                                          "é",
                                          "你",
                                          "😀",
                                          "\x80",
                                          "\xC0\x80",
                                          "\xED\xA0\x80",
                                          "\xF4\x90\x80\x80",
                                          "\xE4\xBD",
                                          "\xFF",
                                          "\xF0\x8F\xBF\xBF",
                                          "\xEF\xBF\xBF"};
  for (int i = 0; i < 4000; ++i) {
    std::string text;
    for (uint64_t n = generator() % 8; n > 0; --n)
      text += parts[generator() % (generator() % 3 == 0 ? parts.size() : 5)];
    bool valid = true;
    for (size_t position = 0; position < text.size();) {
      const Utf8Character character = decode_utf8(text, position);
      valid = valid && character.code_point != kInvalidCodePoint;
      position += character.size;
    }
    Utf8Checker checker;
    bool accepted = true;
    for (size_t position = 0; position < text.size() && accepted;) {
      const size_t count = std::min<size_t>(1 + generator() % 20, text.size() - position);
      accepted = checker.add(std::string_view(text).substr(position, count)) == count;
      position += count;
    }
    EXPECT_EQ(accepted && checker.is_complete(), valid) << text;
  }
}

}  // namespace
}  // namespace causeway::data
