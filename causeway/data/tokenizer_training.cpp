#include "causeway/data/tokenizer_training.h"

#include <chrono>
#include <map>
#include <unordered_map>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/base/thread_pool.h"
#include "causeway/data/ordered_pipeline.h"
#include "causeway/data/skipped_lines.h"
#include "causeway/formats/tokenizer/byte_level_json.h"
#include "causeway/formats/tokenizer/byte_pair_training.h"
#include "causeway/formats/tokenizer/gpt2_scanner.h"
#include "causeway/formats/tokenizer/json_tokenizer.h"

namespace causeway::data {
namespace {

// A block of text, and its words once they are counted.
struct CountedBlock {
  size_t source = 0;
  TextFormat format = TextFormat::kPlainText;
  TextBlock text;
  std::unordered_map<std::string, int64_t> words;
  uint64_t bytes = 0;
  bool has_document = false;
  bool ends_file = false;
};

class WordCount {
 public:
  explicit WordCount(const TokenizerTrainingOptions& options)
      : options_(options), files_(find_text_files(options.inputs, options.format).files) {}

  void run() {
    OrderedPipeline<CountedBlock> pipeline;
    pipeline.workers = static_cast<size_t>(options_.threads > 0 ? options_.threads : available_processors());
    pipeline.most_weight = pipeline.workers * kBytesInFlightPerThread;
    pipeline.weight = [](const CountedBlock& block) { return block.text.text.size() + 1; };
    pipeline.make = [this](const std::stop_token& stop) { return read_block(stop); };
    pipeline.work = [this](CountedBlock& block) { count(block); };
    pipeline.take = [this](CountedBlock& block) {
      bytes_ += block.bytes;
      if (block.has_document) skipped_.add_document();
      for (const Error& error : block.text.skipped) skipped_.add(error);
      if (block.ends_file) skipped_.end_file();
      for (const auto& [word, count] : block.words) words_[word] += count;
    };
    pipeline.tick = [] {};
    pipeline.run();
  }

  const std::map<std::string, int64_t>& words() const { return words_; }
  uint64_t bytes() const { return bytes_; }
  const SkippedLines& skipped() const { return skipped_; }

 private:
  std::optional<CountedBlock> read_block(const std::stop_token& stop) {
    while (!stop.stop_requested() && next_file_ < files_.size()) {
      if (!reader_) {
        TextReaderOptions reader;
        reader.cut_position = &formats::gpt2_cut_position;
        reader.column = options_.text_key;
        reader.skip_records = true;
        reader_.emplace(files_[next_file_], std::move(reader), stop);
      }
      CountedBlock block;
      block.source = next_file_;
      block.format = reader_->format();
      if (std::optional<TextBlock> text = reader_->next()) {
        block.text = std::move(*text);
        return block;
      }
      reader_.reset();
      ++next_file_;
      block.ends_file = true;
      return block;
    }
    return std::nullopt;
  }

  void count(CountedBlock& block) const {
    const auto count_words = [&](std::string_view text) {
      block.has_document = true;
      block.bytes += text.size();
      for (size_t position = 0; position < text.size();) {
        const size_t size = formats::gpt2_piece_size(text, position);
        ++block.words[std::string(text.substr(position, size))];
        position += size;
      }
    };
    if (block.format == TextFormat::kPlainText) {
      count_words(block.text.text);
    } else if (block.format == TextFormat::kCsv) {
      size_t begin = 0;
      for (const BlockDocument& document : block.text.documents) {
        count_words(std::string_view(block.text.text).substr(begin, document.end - begin));
        begin = document.end;
      }
    } else {
      for (const JsonLine& line : block.text.lines()) {
        try {
          count_words(parse_json_line(line, options_.text_key, files_[block.source].path.string()).text.value_or(""));
        } catch (const Error& error) {
          block.text.skipped.push_back(error);
        }
      }
    }
    std::string().swap(block.text.text);
  }

  const TokenizerTrainingOptions& options_;
  std::vector<TextFile> files_;
  size_t next_file_ = 0;
  std::optional<TextReader> reader_;
  std::map<std::string, int64_t> words_;
  uint64_t bytes_ = 0;
  SkippedLines skipped_;
};

}  // namespace

TokenizerTrainingSummary train_tokenizer(const TokenizerTrainingOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  if (options.vocabulary < kLeastVocabulary || options.vocabulary > kMostVocabulary) {
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("a vocabulary of {} tokens; it may have {} to {}", options.vocabulary, kLeastVocabulary,
                            kMostVocabulary),
                "tokenizer train", "The 256 bytes and <|endoftext|> are among them.");
  }
  const std::filesystem::path path = options.output / formats::kTokenizerJsonName;
  if (std::error_code code; std::filesystem::exists(path, code) && !options.overwrite) {
    throw Error(ErrorKind::kInvalidArgument, "there is a tokenizer already", path.string(),
                "Choose another directory, or say --overwrite to replace it.");
  }
  WordCount words(options);
  words.run();
  const auto wanted = static_cast<size_t>(options.vocabulary - 1);
  const formats::TrainedBytePairs trained = formats::train_byte_pairs(words.words(), wanted);
  if (trained.tokens.size() < wanted) {
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("the text makes {} tokens, not {}: no further pair occurs twice", trained.tokens.size() + 1,
                            options.vocabulary),
                "tokenizer train", "Give more text, or a smaller --vocabulary.");
  }
  std::filesystem::create_directories(options.output);
  write_file_atomically(path, formats::byte_pair_tokenizer_json(trained));
  TokenizerTrainingSummary summary{.vocabulary = options.vocabulary,
                                   .text_bytes = words.bytes(),
                                   .different_words = words.words().size(),
                                   .skipped_lines = words.skipped().count(),
                                   .skipped_named = words.skipped().named()};
  for (const auto& [word, count] : words.words()) summary.words += count;
  summary.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return summary;
}

}  // namespace causeway::data
