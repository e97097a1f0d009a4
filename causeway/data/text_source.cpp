#include "causeway/data/text_source.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/base/positioned_file.h"
#include "causeway/base/printable.h"
#include "causeway/data/mds_reader.h"

namespace causeway::data {
namespace {

constexpr std::array<std::string_view, 23> kNotText = {
    ".xz",      ".bz2", ".zip",  ".tar", ".tgz", ".parquet",     ".pq",  ".arrow",
    ".feather", ".orc", ".avro", ".mds", ".npy", ".npz",         ".bin", ".idx",
    ".tokens",  ".pdf", ".docx", ".h5",  ".pkl", ".safetensors", ".epub"};

constexpr std::string_view kTakenOfDirectories =
    ".txt, .jsonl, .ndjson, .json (with an object a line, or one list of objects) or .csv";

// As binary_format() names it.
constexpr std::string_view kParquet = "a Parquet table";

constexpr std::string_view kFormatsHint =
    "Give plain text (.txt), JSON Lines (.jsonl, one object with a text a line) or CSV (.csv)";
constexpr std::string_view kConvertHint = "Convert it to UTF-8 (iconv -f LATIN1 -t UTF-8, for example)";

// Other columns than the text are converted with it; --text-key says which one is read. The path is quoted for the
// shell.
std::string parquet_hint(const std::string& path) {
  std::string quoted;
  for (const char c : path) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return fmt::format(
      "Convert it: python3 -c \"import sys, pandas; pandas.read_parquet(sys.argv[1]).to_json(sys.argv[1] + '.jsonl', "
      "orient='records', lines=True)\" '{0}', and prepare '{0}.jsonl'.",
      quoted);
}

// A mark comes on top of the head.
constexpr size_t kHeadBytesWithMark = kFormatHeadBytes + kUtf8ByteOrderMark.size();

void drop_byte_order_mark(std::string& head) {
  if (head.starts_with(kUtf8ByteOrderMark)) head.erase(0, kUtf8ByteOrderMark.size());
}

constexpr std::array<std::string_view, 4> kCompressed = {".gz", ".gzip", ".zst", ".zstd"};

// Without .gz, .zst and the like.
std::filesystem::path name_of_content(const std::filesystem::path& path) {
  return std::ranges::find(kCompressed, path.extension().string()) != kCompressed.end() ? path.stem() : path.filename();
}

// JSON Lines, one list, or another value over many lines.
bool is_called_json(const std::filesystem::path& path) { return name_of_content(path).extension() == ".json"; }

std::optional<TextFormat> format_of_name(const std::filesystem::path& path) {
  const std::string extension = name_of_content(path).extension().string();
  if (extension == ".jsonl" || extension == ".ndjson") return TextFormat::kJsonLines;
  if (extension == ".csv") return TextFormat::kCsv;
  if (extension == ".txt" || extension == ".md") return TextFormat::kPlainText;
  return std::nullopt;
}

TextFile text_file(const std::filesystem::path& path, std::optional<TextFormat> format) {
  if (format) return {path, format};
  const std::string extension = name_of_content(path).extension().string();
  if (std::find(kNotText.begin(), kNotText.end(), extension) != kNotText.end()) {
    throw Error(ErrorKind::kUnsupported, fmt::format("a {} file is not an input that can be tokenized", extension),
                path.string(),
                extension == ".parquet" || extension == ".pq" ? parquet_hint(path.string())
                : extension == ".mds"
                    ? "Give the directory that its index.json is in."
                    : "Convert it to plain text (.txt) or to JSON Lines (.jsonl, one object with a text a line).");
  }
  return {path, format_of_name(path)};
}

void add_mds_directory(const std::filesystem::path& directory, FoundText& found) {
  for (const MdsShard& shard : read_mds_index(directory).shards)
    found.files.push_back({find_mds_file(directory, shard), TextFormat::kMds, std::make_shared<const MdsShard>(shard)});
}

// JSON Lines where the first line is a JSON object.
TextFormat format_of_content(std::string_view head) {
  const size_t begin = head.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos || head[begin] != '{') return TextFormat::kPlainText;
  const size_t end = head.find('\n', begin);
  const std::string_view line = head.substr(begin, end - begin);
  if (is_json(line)) return TextFormat::kJsonLines;
  // A first line longer than what is at hand.
  const bool begins_an_object = line.size() > 1 && line.find_first_not_of(" \t", 1) != std::string_view::npos &&
                                line[line.find_first_not_of(" \t", 1)] == '"';
  return end == std::string_view::npos && head.size() >= kFormatHeadBytes && begins_an_object ? TextFormat::kJsonLines
                                                                                              : TextFormat::kPlainText;
}

bool begins_list(std::string_view head) {
  const size_t begin = head.find_first_not_of(" \t\r\n");
  return begin != std::string_view::npos && head[begin] == '[';
}

bool begins_list_of_objects(std::string_view head) {
  if (!begins_list(head)) return false;
  const size_t first = head.find_first_not_of(" \t\r\n", head.find('[') + 1);
  return first != std::string_view::npos && head[first] == '{';
}

// Of a file called .json in a directory, beside which there may be others that describe the data: a list of objects, or
// a second object follows the first one. What is compressed describes nothing; what cannot be read is named when it is
// to be.
bool holds_json_samples(const std::filesystem::path& path) {
  try {
    InputStream stream(path);
    std::string head(kHeadBytesWithMark, '\0');
    head.resize(stream.read(head));
    drop_byte_order_mark(head);
    if (begins_list_of_objects(head)) return true;
    if (format_of_content(head) != TextFormat::kJsonLines) return false;
    if (stream.compression() != Compression::kNone) return true;
    const size_t end = head.find('\n', head.find('{'));
    if (end == std::string::npos) return head.size() >= kFormatHeadBytes;
    const size_t second = head.find_first_not_of(" \t\r\n", end);
    return second != std::string::npos && head[second] == '{';
  } catch (const Error&) {
    return true;
  }
}

bool is_taken_of_directory(const std::filesystem::path& path, std::optional<TextFormat> format) {
  if (is_called_json(path))
    return format ? format == TextFormat::kJsonLines || format == TextFormat::kJsonList : holds_json_samples(path);
  return format_of_name(path) && name_of_content(path).extension() != ".md";
}

void add_directory(const std::filesystem::path& directory, std::optional<TextFormat> format, FoundText& found) {
  std::vector<std::filesystem::path> paths;
  std::error_code code;
  for (std::filesystem::recursive_directory_iterator entry(directory, code), end; !code && entry != end;
       entry.increment(code)) {
    std::error_code ignored;
    if (entry->is_directory(ignored) && !entry->is_symlink(ignored)) continue;
    const std::string extension = name_of_content(entry->path()).extension().string();
    if (entry->is_regular_file(ignored) && is_taken_of_directory(entry->path(), format)) {
      paths.push_back(entry->path());
    } else {
      ++found.left_out[entry->is_directory(ignored) ? "linked directory"
                       : extension.empty()          ? "no extension"
                                                    : extension];
    }
  }
  if (code)
    throw Error(ErrorKind::kIo, fmt::format("cannot list the directory: {}", code.message()), directory.string());
  if (paths.empty()) {
    throw Error(ErrorKind::kNotFound, fmt::format("the directory holds no file of {}", kTakenOfDirectories),
                directory.string(), "Name the text files themselves if they have other extensions.");
  }
  std::sort(paths.begin(), paths.end());
  for (const std::filesystem::path& path : paths) found.files.push_back(text_file(path, format));
}

std::string nearest_sibling(const std::filesystem::path& path) {
  std::vector<std::string> names;
  std::error_code code;
  const std::filesystem::path directory = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  for (std::filesystem::directory_iterator entry(directory, code), end; !code && entry != end; entry.increment(code)) {
    names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  const std::string nearest = nearest_name(path.filename().string(), names);
  return nearest.empty() ? "" : (path.parent_path() / nearest).string();
}

uint64_t count_lines(std::string_view text) {
  return static_cast<uint64_t>(std::count(text.begin(), text.end(), '\n'));
}

// Looks for the place that second_part_position() gives, in pieces of the text.
class SecondPartSearch {
 public:
  SecondPartSearch(double fraction, const TextReaderOptions& options) : fraction_(fraction), options_(options) {}

  void set_size(uint64_t size) {
    size_ = size;
    from_ = static_cast<uint64_t>(static_cast<double>(size) * (1 - fraction_));
  }
  uint64_t size() const { return size_; }
  // Where looking must begin: the tokenizer looks at the character before a cut.
  uint64_t first_position() const { return from_ - std::min<uint64_t>(from_, kLongestCharacter); }

  void look_at(uint64_t position, std::string_view text) {
    if (position + text.size() <= from_) return;
    const size_t begin = from_ > position ? static_cast<size_t>(from_ - position) : 0;
    if (!cut_) {
      const size_t place = options_.cut_position(text, begin);
      if (place < text.size()) cut_ = position + place;
    }
    if (const size_t end = text.find('\n', begin); end != std::string_view::npos) line_end_ = position + end + 1;
  }
  bool is_done() const { return line_end_.has_value(); }
  uint64_t result() const { return line_end_ ? *line_end_ : cut_.value_or(size_); }

 private:
  static constexpr uint64_t kLongestCharacter = 4;

  double fraction_;
  const TextReaderOptions& options_;
  uint64_t size_ = 0;
  uint64_t from_ = 0;
  std::optional<uint64_t> line_end_;
  std::optional<uint64_t> cut_;
};

}  // namespace

TextFormat parse_text_format(std::string_view name) {
  if (name == "text") return TextFormat::kPlainText;
  if (name == "jsonl") return TextFormat::kJsonLines;
  if (name == "json") return TextFormat::kJsonList;
  CAUSEWAY_CHECK(name == "csv", "{}", name);
  return TextFormat::kCsv;
}

FoundText find_text_files(const std::vector<std::filesystem::path>& inputs, std::optional<TextFormat> format) {
  FoundText found;
  for (const std::filesystem::path& input : inputs) {
    std::error_code code;
    if (input == kStandardInput) {
      found.files.push_back({input, format});
    } else if (is_mds_directory(input)) {
      add_mds_directory(input, found);
    } else if (std::filesystem::is_directory(input, code)) {
      add_directory(input, format, found);
    } else if (std::filesystem::exists(input, code)) {
      found.files.push_back(text_file(input, format));
    } else {
      const std::string nearest = nearest_sibling(input);
      throw Error(ErrorKind::kNotFound, "the text does not exist", input.string(),
                  nearest.empty() ? "Check the path." : fmt::format("Did you mean \"{}\"?", nearest));
    }
  }
  return found;
}

std::vector<JsonLine> TextBlock::lines() const {
  std::vector<JsonLine> found;
  for (const ListedSample& sample : samples)
    found.push_back({std::string_view(text).substr(sample.begin, sample.end - sample.begin), sample.line, sample.number,
                     sample.column});
  if (!samples.empty()) return found;
  uint64_t number = first_line;
  for (std::string_view rest = text; !rest.empty(); ++number) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) found.push_back({line, number});
  }
  return found;
}

TextReader::TextReader(const TextFile& file, TextReaderOptions options, std::stop_token stop)
    : stream_(file.path, stop), options_(std::move(options)), stop_(std::move(stop)) {
  buffer_.resize(kHeadBytesWithMark);
  buffer_.resize(stream_.read(buffer_));
  std::error_code code;
  const bool size_is_known =
      stream_.compression() == Compression::kNone && std::filesystem::is_regular_file(file.path, code);
  if (!options_.any_bytes) {
    const std::string hint = std::string(kFormatsHint) + ".";
    const uint64_t bytes = size_is_known ? std::filesystem::file_size(file.path, code) : 0;
    if (const std::string_view format = binary_format(buffer_, bytes); !format.empty()) {
      throw Error(ErrorKind::kUnsupported, fmt::format("the file is {}, not text", format), stream_.name(),
                  format == kParquet ? parquet_hint(stream_.name()) : hint);
    }
    if (stream_.compression() != Compression::kNone && compression_of(buffer_) != Compression::kNone)
      throw Error(ErrorKind::kUnsupported, "the file is compressed twice", stream_.name(), "Decompress it once.");
    if (const std::string_view encoding = wide_text_encoding(buffer_); !encoding.empty()) {
      throw Error(ErrorKind::kUnsupported, fmt::format("the text is {}, not UTF-8", encoding), stream_.name(),
                  fmt::format("Convert it: iconv -f {} -t UTF-8.", encoding));
    }
    drop_byte_order_mark(buffer_);
  }
  format_ = file.format ? *file.format : format_of_content(buffer_);
  if (!file.format && is_called_json(file.path)) {
    if (begins_list(buffer_)) format_ = TextFormat::kJsonList;
    if (format_ == TextFormat::kPlainText)
      throw Error(ErrorKind::kUnsupported,
                  "the file is JSON, but neither a list of objects nor an object a line (JSON Lines)", stream_.name(),
                  "Convert it and prepare what comes of it; where the list stands under a key: jq -c '.KEY[]' FILE > "
                  "NEW.jsonl. To take it as plain text, say --format text.");
  }
  if (format_ == TextFormat::kJsonList) list_.emplace(stream_.name(), options_.most_bytes_at_once);
  check(buffer_);
}

// Appends to the buffer; false at the end.
bool TextReader::read_more() {
  if (ended_ || stop_.stop_requested()) return false;
  const size_t before = buffer_.size();
  const size_t count = std::max(before, kTextBlockBytes);
  buffer_.resize(before + count);
  const size_t read = stream_.read(std::span(buffer_).subspan(before));
  buffer_.resize(before + read);
  check(std::string_view(buffer_).substr(before));
  ended_ = read < count;
  if (ended_ && !is_json_text() && !options_.any_bytes && !utf8_.is_complete())
    refuse_bytes({}, 0, "the text is not UTF-8: it ends within a character", kConvertHint);
  return read > 0;
}

void TextReader::check(std::string_view bytes) {
  if (is_json_text() || checks_records() || options_.any_bytes) return;
  if (const void* zero = std::memchr(bytes.data(), 0, bytes.size()); zero != nullptr)
    refuse_bytes(bytes, static_cast<size_t>(static_cast<const char*>(zero) - bytes.data()),
                 "the file is binary, not text: it holds a zero byte", kFormatsHint);
  if (const size_t position = utf8_.add(bytes); position < bytes.size())
    refuse_bytes(bytes, position,
                 fmt::format("the text is not UTF-8: byte {:#04x} cannot be where it is",
                             static_cast<unsigned char>(bytes[position])),
                 kConvertHint);
  checked_lines_ += count_lines(bytes);
  checked_bytes_ += bytes.size();
}

void TextReader::refuse_bytes(std::string_view bytes, size_t position, const std::string& what, std::string_view hint) {
  throw Error(ErrorKind::kInvalidArgument, what,
              fmt::format("{}, line {} (byte {})", stream_.name(),
                          checked_lines_ + count_lines(bytes.substr(0, position)) + 1, checked_bytes_ + position),
              std::string(hint) + ", or say --any-bytes to take its bytes as they are.");
}

std::optional<TextBlock> TextReader::next() {
  std::optional<TextBlock> block = format_ == TextFormat::kPlainText  ? next_plain()
                                   : format_ == TextFormat::kCsv      ? next_records()
                                   : format_ == TextFormat::kJsonList ? next_samples()
                                                                      : next_lines();
  if (stop_.stop_requested()) return std::nullopt;
  if (block) {
    block->stored_bytes = stream_.stored_bytes() - stored_bytes_told_;
    stored_bytes_told_ = stream_.stored_bytes();
  }
  return block;
}

std::optional<TextBlock> TextReader::next_plain() {
  size_t looked_at = kTextBlockBytes;
  while (true) {
    const std::optional<uint64_t> second = in_second_document_ ? std::nullopt : options_.second_document_at;
    const bool reaches_second = second && *second <= position_ + buffer_.size();
    const size_t limit = reaches_second ? static_cast<size_t>(*second - position_) : buffer_.size();
    const bool document_ends_there = reaches_second || ended_;
    size_t cut = limit;
    if (limit > kTextBlockBytes) {
      cut = options_.cut_position(std::string_view(buffer_).substr(0, limit), looked_at);
    }
    if (cut == limit && !document_ends_there && !stop_.stop_requested()) {
      if (buffer_.size() > options_.most_bytes_at_once) {
        throw Error(ErrorKind::kUnsupported,
                    fmt::format("{} bytes follow one another without a place where the tokenizer could cut them",
                                buffer_.size()),
                    fmt::format("{}, from byte {} on", stream_.name(), position_),
                    "Check that the input is text, and break it into lines.");
      }
      looked_at = std::max(kTextBlockBytes, limit);
      read_more();
      continue;
    }
    if (limit == 0 && !reaches_second) return std::nullopt;
    TextBlock block;
    block.starts_document = starts_document_;
    block.ends_document = cut == limit && document_ends_there;
    block.is_second_document = in_second_document_;
    std::string rest = buffer_.substr(cut);
    buffer_.resize(cut);
    block.text = std::exchange(buffer_, std::move(rest));
    position_ += cut;
    if (!document_hasher_) document_hasher_.emplace();
    document_hasher_->add(std::as_bytes(std::span(block.text)));
    starts_document_ = block.ends_document;
    if (block.ends_document) {
      block.document_hash = document_hasher_->hash();
      document_hasher_.reset();
      if (reaches_second) in_second_document_ = true;
    }
    return block;
  }
}

std::optional<TextBlock> TextReader::next_lines() {
  size_t without_end = 0;
  size_t end = std::string::npos;
  while (!ended_ && !stop_.stop_requested()) {
    if (buffer_.size() >= kTextBlockBytes) {
      end = std::string_view(buffer_).substr(without_end).rfind('\n');
      if (end != std::string::npos) break;
      without_end = buffer_.size();
    }
    if (buffer_.size() > options_.most_bytes_at_once) {
      throw Error(ErrorKind::kUnsupported,
                  fmt::format("the line is longer than {} bytes, the most that is read", options_.most_bytes_at_once),
                  fmt::format("{}, line {}", stream_.name(), line_), "Split the document, one object a line.");
    }
    read_more();
  }
  if (buffer_.empty()) return std::nullopt;
  const size_t cut = end == std::string::npos ? buffer_.size() : without_end + end + 1;
  TextBlock block;
  block.first_line = line_;
  std::string rest = buffer_.substr(cut);
  buffer_.resize(cut);
  block.text = std::exchange(buffer_, std::move(rest));
  line_ += count_lines(block.text);
  return block;
}

std::optional<TextBlock> TextReader::next_samples() {
  TextBlock block;
  try {
    list_->cut(buffer_, [this] { return read_more(); }, kTextBlockBytes, block.text, block.samples);
  } catch (const Error&) {
    // A text that was not read to its end is not wrong.
    if (stop_.stop_requested()) return std::nullopt;
    throw;
  }
  if (block.samples.empty()) return std::nullopt;
  return block;
}

std::optional<CsvRecord> TextReader::read_record(size_t begin) {
  while (!stop_.stop_requested()) {
    const std::string_view rest = std::string_view(buffer_).substr(begin);
    if (!rest.empty())
      if (std::optional<CsvRecord> record = parse_csv_record(rest, ended_, stream_.name(), line_)) return record;
    if (rest.size() > options_.most_bytes_at_once) {
      throw Error(ErrorKind::kUnsupported,
                  fmt::format("the record is longer than {} bytes, the most that is read", options_.most_bytes_at_once),
                  fmt::format("{}, line {}", stream_.name(), line_),
                  "Check that the quotes of the field are closed, or split the document.");
    }
    if (ended_) return std::nullopt;
    read_more();
  }
  return std::nullopt;
}

void TextReader::read_header(const CsvRecord& record) {
  std::vector<std::string> names;
  for (const CsvField& field : record.fields) append_csv_value(field, names.emplace_back());
  columns_ = names.size();
  column_ = static_cast<size_t>(std::ranges::find(names, options_.column) - names.begin());
  const auto count = std::ranges::count(names, options_.column);
  if (count == 1) return;
  const std::string where = fmt::format("{}, line {}", stream_.name(), line_), name = printable(options_.column);
  if (count > 1)
    throw Error(ErrorKind::kInvalidArgument, fmt::format("the header has {} columns \"{}\"", count, name), where,
                "Give the columns different names.");
  constexpr size_t kMostNames = 20;
  const std::string nearest = nearest_name(options_.column, names);
  std::string there;
  for (size_t i = 0; i < std::min(names.size(), kMostNames); ++i)
    there += fmt::format("{}\"{}\"", i == 0 ? "" : ", ", printable(names[i]));
  throw Error(
      ErrorKind::kInvalidArgument, fmt::format("the header has no column \"{}\"", name), where,
      !nearest.empty() ? fmt::format("Did you mean --text-key {}?", printable(nearest))
      : names.size() == 1 && names[0].find_first_of(";\t|") != std::string::npos
          ? fmt::format("It has one column, {}: fields are divided by commas, not by what divides them here.", there)
          : fmt::format("It has: {}{}. Say with --text-key COLUMN which of them holds the text.", there,
                        names.size() > kMostNames ? ", ..." : ""));
}

std::optional<Error> TextReader::problem_of(const CsvRecord& record, std::string_view bytes) const {
  const std::string where = fmt::format("{}, line {}", stream_.name(), line_);
  if (record.fields.size() != columns_) {
    return Error(ErrorKind::kCorrupt,
                 fmt::format("the record has {} fields, and the header {}", record.fields.size(), columns_), where,
                 "Put fields with commas, quotes or line breaks in double quotes.");
  }
  // Otherwise all of the text has been looked at.
  if (!checks_records() || options_.any_bytes) return std::nullopt;
  Utf8Checker checker;
  if (checker.add(bytes) == bytes.size() && checker.is_complete() && bytes.find('\0') == std::string_view::npos)
    return std::nullopt;
  return Error(ErrorKind::kInvalidArgument, "the record is not UTF-8, or holds a zero byte", where,
               std::string(kConvertHint) + ", or say --any-bytes to take its bytes as they are.");
}

std::optional<TextBlock> TextReader::next_records() {
  TextBlock block;
  size_t begin = 0;
  while (begin < kTextBlockBytes) {
    const std::optional<CsvRecord> record = read_record(begin);
    if (!record) break;
    if (record->is_blank()) {
    } else if (columns_ == 0) {
      read_header(*record);
    } else if (std::optional<Error> problem =
                   problem_of(*record, std::string_view(buffer_).substr(begin, record->size))) {
      if (!options_.skip_records) throw *std::move(problem);
      block.skipped.push_back(*std::move(problem));
    } else {
      append_csv_value(record->fields[column_], block.text);
      block.documents.push_back({block.text.size(), line_});
    }
    line_ += count_lines(std::string_view(buffer_).substr(begin, record->size));
    begin += record->size;
  }
  buffer_.erase(0, begin);
  if (begin == 0) return std::nullopt;
  return block;
}

uint64_t second_part_position(const TextFile& file, double fraction, const TextReaderOptions& options) {
  std::error_code code;
  if (!std::filesystem::is_regular_file(file.path, code)) {
    throw Error(ErrorKind::kInvalidArgument, "a fraction of one text needs its size, which is not known here",
                InputStream(file.path).name(), "Put the text into a file, or name validation files.");
  }
  SecondPartSearch search(fraction, options);
  const InputStream stream(file.path);
  if (stream.compression() == Compression::kNone) {
    const PositionedFile stored = PositionedFile::open(file.path);
    std::string mark(std::min<uint64_t>(stored.size(), kUtf8ByteOrderMark.size()), '\0');
    stored.read_at(0, std::as_writable_bytes(std::span(mark)));
    const uint64_t skipped = mark == kUtf8ByteOrderMark && !options.any_bytes ? mark.size() : 0;
    search.set_size(stored.size() - skipped);
    std::string text;
    for (uint64_t position = search.first_position(); position < search.size() && !search.is_done();) {
      text.resize(std::min<uint64_t>(kTextBlockBytes, search.size() - position));
      stored.read_at(skipped + position, std::as_writable_bytes(std::span(text)));
      search.look_at(position, text);
      position += text.size();
    }
  } else {
    const TextFile plain{file.path, TextFormat::kPlainText};
    TextReader sizes(plain, options);
    uint64_t size = 0;
    while (const std::optional<TextBlock> block = sizes.next()) size += block->text.size();
    search.set_size(size);
    TextReader reader(plain, options);
    uint64_t position = 0;
    for (std::optional<TextBlock> block = reader.next(); block && !search.is_done(); block = reader.next()) {
      search.look_at(position, block->text);
      position += block->text.size();
    }
  }
  const uint64_t second = search.result();
  if (second == 0 || second >= search.size()) {
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("the text is too short to give {} of it to validation", fraction), file.path.string(),
                "Use a larger fraction, more text, or validation files.");
  }
  return second;
}

}  // namespace causeway::data
