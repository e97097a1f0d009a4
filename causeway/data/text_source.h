// The text that a dataset is prepared from: documents in plain text, in JSON Lines, in a JSON list and in CSV, in
// files, directories or from standard input, compressed or not. It is read from front to back in blocks, so that memory
// does not grow with it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/base/content_hasher.h"
#include "causeway/base/error.h"
#include "causeway/data/input_stream.h"
#include "causeway/data/json_line.h"
#include "causeway/data/json_list.h"
#include "causeway/data/utf8_checker.h"
#include "causeway/formats/csv_record.h"
#include "causeway/formats/mds_index.h"

namespace causeway::data {

enum class TextFormat { kPlainText, kJsonLines, kJsonList, kCsv, kMds };

// The name of a format as --format takes it: "text", "jsonl", "json" or "csv".
TextFormat parse_text_format(std::string_view name);

struct TextFile {
  std::filesystem::path path;
  std::optional<TextFormat> format;                 // nothing: as the first line says
  std::shared_ptr<const MdsShard> shard = nullptr;  // of kMds, which MdsReader reads
};

struct FoundText {
  std::vector<TextFile> files;
  // Files in directories that are not among them, by extension.
  std::map<std::string, uint64_t> left_out;
};

// The files that `inputs` name, "-" for standard input. A file that is named is taken, whatever it is called: .jsonl
// and .ndjson are JSON Lines, .csv is CSV, .txt and .md plain text; a .json that begins with a bracket is one list of
// objects; of others the first line decides between JSON Lines and plain text, unless `format` does. Of a directory,
// all .txt, .jsonl, .ndjson and .csv files beneath it are taken, and .json files that are a list of objects or JSON
// Lines by their first two lines (the first one alone of a compressed file), in order of name; or, where it holds the
// index of an MDS dataset (mds_index.h), the shards of that. Any may have .gz, .gzip, .zst or .zstd after its name.
// Throws Error when an input does not exist, is a directory that holds no such file, or has the name of a format that
// is not text (.parquet, .zip, ...).
FoundText find_text_files(const std::vector<std::filesystem::path>& inputs, std::optional<TextFormat> format = {});

// No line of JSON and no run of text that the tokenizer cannot cut may be longer: it has to be in memory at once.
constexpr size_t kMostBytesAtOnce = size_t{1} << 28;
// What a block holds where the text can be cut there, about.
constexpr size_t kTextBlockBytes = size_t{1} << 18;
// Text in memory for each thread that works on it: what it has at hand, and what waits before and after.
constexpr size_t kBytesInFlightPerThread = 8 * kTextBlockBytes;

struct TextReaderOptions {
  // Takes the bytes as they are; otherwise text must be UTF-8 without zero bytes, and not of a known binary format.
  bool any_bytes = false;
  // Where plain text may be cut in two: Tokenizer::cut_position.
  std::function<size_t(std::string_view text, size_t from)> cut_position;
  // Plain text: the position where another document begins.
  std::optional<uint64_t> second_document_at;
  // CSV: the column of the text.
  std::string column = "text";
  // CSV: records of another number of fields than the header, or that are not UTF-8, are put aside
  // (TextBlock::skipped); otherwise an error.
  bool skip_records = false;
  size_t most_bytes_at_once = kMostBytesAtOnce;
};

// Where a document ends in its block's text, which begins where the one before it ends; `number` is that of its first
// line (CSV) or of its sample (MDS), from 1.
struct BlockDocument {
  size_t end = 0;
  uint64_t number = 0;
};

// Some of an input's text: a part of a document of plain text, lines of JSON, or documents one after another.
struct TextBlock {
  std::string text;
  bool starts_document = true;  // plain text
  bool ends_document = true;
  bool is_second_document = false;
  Hash128 document_hash;                 // plain text that ends its document: of all of it
  uint64_t first_line = 1;               // JSON Lines: the number of the text's first line
  uint64_t stored_bytes = 0;             // of the input, read for this block
  std::vector<BlockDocument> documents;  // CSV and MDS
  std::vector<ListedSample> samples;     // of a JSON list
  std::vector<Error> skipped;            // CSV and MDS: what is no document, each with its place

  // JSON Lines: those that are not blank. A JSON list: its samples.
  std::vector<JsonLine> lines() const;
};

class TextReader {
 public:
  // Throws Error naming the input when it cannot be read or is not text, by its first bytes; or neither JSON Lines nor
  // a list, where it is called .json and `file` has no format.
  TextReader(const TextFile& file, TextReaderOptions options, std::stop_token stop = {});

  TextFormat format() const { return format_; }
  const InputStream& stream() const { return stream_; }
  // The next block; nothing at the end, and when `stop` was requested. Throws Error naming the input and the line where
  // it is not text or a line or record is too long, where CSV is malformed (csv_record.h), has records of other numbers
  // of fields than its header (unless such are skipped), or a header without the column or with two of its name.
  std::optional<TextBlock> next();

 private:
  // Of which each sample is checked when it is parsed.
  bool is_json_text() const { return format_ == TextFormat::kJsonLines || format_ == TextFormat::kJsonList; }
  // Each record by itself, in place of all of the text.
  bool checks_records() const { return format_ == TextFormat::kCsv && options_.skip_records; }
  bool read_more();
  void check(std::string_view bytes);
  [[noreturn]] void refuse_bytes(std::string_view bytes, size_t position, const std::string& what,
                                 std::string_view hint);
  std::optional<TextBlock> next_plain();
  std::optional<TextBlock> next_lines();
  std::optional<TextBlock> next_samples();
  std::optional<TextBlock> next_records();
  // What a record of these bytes is wrong with.
  std::optional<Error> problem_of(const CsvRecord& record, std::string_view bytes) const;
  // The record that the buffer goes on with after `begin`, once enough of it has been read; nothing at the end.
  std::optional<CsvRecord> read_record(size_t begin);
  void read_header(const CsvRecord& record);

  InputStream stream_;
  TextReaderOptions options_;
  std::stop_token stop_;
  TextFormat format_ = TextFormat::kPlainText;
  std::string buffer_;
  bool ended_ = false;
  std::optional<JsonListCutter> list_;
  bool starts_document_ = true;
  bool in_second_document_ = false;
  uint64_t position_ = 0;  // in the text, of the buffer's start
  uint64_t line_ = 1;      // there
  size_t column_ = 0;      // CSV: of the text, among so many; none before the header has been read
  size_t columns_ = 0;
  uint64_t checked_bytes_ = 0;
  uint64_t checked_lines_ = 0;
  Utf8Checker utf8_;
  std::optional<ContentHasher> document_hasher_;
  uint64_t stored_bytes_told_ = 0;
};

// Where the last part of one plain text begins: after the first line break from (1 - fraction) of it on, or where the
// text may be cut, if no line ends there. A compressed file is read twice for it. Throws Error when either part would
// be empty, and for an input that can be read only once.
uint64_t second_part_position(const TextFile& file, double fraction, const TextReaderOptions& options);

}  // namespace causeway::data
