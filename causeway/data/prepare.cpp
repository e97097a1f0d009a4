#include "causeway/data/prepare.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <optional>
#include <thread>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/base/hash.h"
#include "causeway/data/text_source.h"
#include "causeway/data/token_dataset.h"
#include "causeway/data/token_shard.h"

namespace causeway {
namespace {

// Text that a thread encodes at a time, and that all threads together encode before the tokens are written.
constexpr size_t kTaskBytes = size_t{1} << 18;
constexpr size_t kWaveBytesPerThread = size_t{1} << 22;

// A document or a part of one, to be encoded.
struct Piece {
  bool validation = false;
  size_t source = 0;
  RawDocument text;
  TextFormat format = TextFormat::kPlainText;
  bool starts_document = true;
  bool ends_document = true;
};

struct Task {
  std::vector<Piece> pieces;
  size_t bytes = 0;
  std::vector<int32_t> ids;
  std::vector<size_t> ends;  // of each piece's ids
  uint64_t text_bytes = 0;
  std::exception_ptr failure;
};

class SplitWriter {
 public:
  SplitWriter(const PrepareOptions& options, const TokenizerIdentity& tokenizer, std::string name,
              const std::vector<SourceFile>& sources)
      : options_(options), tokenizer_(tokenizer), name_(std::move(name)), sources_(sources) {}

  const SplitEntry& entry() const { return entry_; }

  void append(std::span<const int32_t> ids, bool starts_document, size_t source) {
    while (!ids.empty()) {
      if (!builder_) {
        builder_.emplace(TokenShardBuilder::token_bytes_for(tokenizer_.vocabulary_size), !starts_document);
        shard_sources_.clear();
      }
      if (starts_document) {
        builder_->start_document();
        ++entry_.documents;
        starts_document = false;
      }
      if (shard_sources_.empty() || shard_sources_.back() != source) shard_sources_.push_back(source);
      const size_t count = std::min<size_t>(ids.size(), options_.tokens_per_shard - builder_->token_count());
      builder_->append(ids.first(count));
      entry_.tokens += count;
      ids = ids.subspan(count);
      if (builder_->token_count() == options_.tokens_per_shard) flush();
    }
  }

  void flush() {
    if (!builder_) return;
    ShardMetadata metadata{tokenizer_, {}};
    for (const size_t source : shard_sources_) metadata.sources.push_back(sources_[source]);
    const std::string file = fmt::format("{}-{:05}.tokens", name_, entry_.shards.size());
    const Hash128 hash = builder_->write(options_.output / file, metadata);
    entry_.shards.push_back({file, builder_->token_count(), hash.hex()});
    builder_.reset();
  }

 private:
  const PrepareOptions& options_;
  const TokenizerIdentity& tokenizer_;
  std::string name_;
  const std::vector<SourceFile>& sources_;
  SplitEntry entry_;
  std::optional<TokenShardBuilder> builder_;
  std::vector<size_t> shard_sources_;
};

class Preparation {
 public:
  Preparation(const PrepareOptions& options, const Tokenizer& tokenizer)
      : options_(options),
        tokenizer_(tokenizer),
        threads_(options.threads > 0 ? static_cast<size_t>(options.threads)
                                     : std::max<size_t>(1, std::thread::hardware_concurrency())),
        identity_{tokenizer.name(), tokenizer.fingerprint(), tokenizer.vocabulary_size(), tokenizer.end_of_text()},
        train_(options_, identity_, std::string(kTrainSplit), sources_),
        validation_(options_, identity_, std::string(kValidationSplit), sources_) {}

  PrepareSummary run() {
    const auto start = std::chrono::steady_clock::now();
    const std::vector<TextFile> files = find_text_files(options_.inputs);
    const std::vector<TextFile> validation_files = find_text_files(options_.validation_inputs);
    for (const std::vector<TextFile>* list : {&files, &validation_files}) {
      for (const TextFile& file : *list) progress_.bytes_total += std::filesystem::file_size(file.path);
    }
    clear_output();
    splits_one_text_ =
        options_.validation_fraction > 0 && files.size() == 1 && files[0].format == TextFormat::kPlainText;
    for (const TextFile& file : files) read_file(file, false);
    for (const TextFile& file : validation_files) read_file(file, true);
    train_.flush();
    validation_.flush();
    PrepareSummary summary = finish();
    summary.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return summary;
  }

 private:
  void clear_output() {
    std::error_code code;
    std::filesystem::create_directories(options_.output, code);
    if (code) {
      throw Error(ErrorKind::kIo, fmt::format("cannot create the output directory: {}", code.message()),
                  options_.output.string(), "Choose a directory that can be written.");
    }
    std::filesystem::remove(options_.output / kManifestFileName, code);
    for (const std::filesystem::directory_entry& entry : std::filesystem::directory_iterator(options_.output)) {
      const std::string name = entry.path().filename().string();
      const bool ours =
          name.starts_with(fmt::format("{}-", kTrainSplit)) || name.starts_with(fmt::format("{}-", kValidationSplit));
      if (ours && name.ends_with(".tokens")) std::filesystem::remove(entry.path(), code);
    }
  }

  void read_file(const TextFile& file, bool validation_file) {
    TextFileReader reader(file);
    const std::string_view content = reader.content();
    sources_.push_back({file.path.string(), content.size(),
                        hash_bytes(std::as_bytes(std::span(content.data(), content.size()))).hex()});
    if (content.empty()) ++empty_documents_;
    while (const std::optional<RawDocument> document = reader.next()) {
      Piece piece{validation_file, sources_.size() - 1, *document, file.format};
      if (splits_one_text_ && !validation_file) {
        const size_t cut = validation_cut(document->bytes, file.path);
        piece.text.bytes = document->bytes.substr(0, cut);
        add_plain_text(piece);
        piece.validation = true;
        piece.text.bytes = document->bytes.substr(cut);
        add_plain_text(piece);
        continue;
      }
      if (!validation_file) piece.validation = takes_for_validation(document_index_++);
      if (file.format == TextFormat::kPlainText) {
        add_plain_text(piece);
      } else {
        add(piece);
      }
    }
    // The pieces refer to the mapped file.
    encode_wave();
  }

  bool takes_for_validation(uint64_t document) const {
    const auto index = static_cast<double>(document);
    return std::floor((index + 1) * options_.validation_fraction) > std::floor(index * options_.validation_fraction);
  }

  size_t validation_cut(std::string_view text, const std::filesystem::path& path) const {
    const auto from = static_cast<size_t>(static_cast<double>(text.size()) * (1 - options_.validation_fraction));
    const size_t line_break = text.find('\n', from);
    const size_t cut = line_break == std::string_view::npos ? tokenizer_.cut_position(text, from) : line_break + 1;
    if (cut == 0 || cut >= text.size()) {
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("the text is too short to give {} of it to validation", options_.validation_fraction),
                  path.string(), "Use a larger fraction, more text, or validation files.");
    }
    return cut;
  }

  void add_plain_text(Piece piece) {
    std::string_view rest = piece.text.bytes;
    while (!rest.empty()) {
      const size_t cut = tokenizer_.cut_position(rest, std::min(kTaskBytes, rest.size()));
      piece.text.bytes = rest.substr(0, cut);
      rest.remove_prefix(cut);
      piece.ends_document = rest.empty();
      add(piece);
      piece.starts_document = false;
    }
  }

  void add(const Piece& piece) {
    if (tasks_.empty() || tasks_.back().bytes >= kTaskBytes) tasks_.emplace_back();
    tasks_.back().pieces.push_back(piece);
    tasks_.back().bytes += piece.text.bytes.size();
    wave_bytes_ += piece.text.bytes.size();
    if (wave_bytes_ >= threads_ * kWaveBytesPerThread) encode_wave();
  }

  void encode_wave() {
    std::atomic<size_t> next{0};
    const auto work = [&] {
      for (size_t i = next.fetch_add(1); i < tasks_.size(); i = next.fetch_add(1)) {
        try {
          encode(tasks_[i]);
        } catch (...) {
          tasks_[i].failure = std::current_exception();
        }
      }
    };
    {
      std::vector<std::jthread> helpers;
      for (size_t i = 1; i < std::min(threads_, tasks_.size()); ++i) helpers.emplace_back(work);
      work();
    }
    for (const Task& task : tasks_) {
      if (task.failure != nullptr) std::rethrow_exception(task.failure);
      write(task);
    }
    tasks_.clear();
    wave_bytes_ = 0;
    progress_.tokens = train_.entry().tokens + validation_.entry().tokens;
    progress_.documents = train_.entry().documents + validation_.entry().documents;
    if (options_.progress) options_.progress(progress_);
  }

  void encode(Task& task) const {
    for (const Piece& piece : task.pieces) {
      const size_t before = task.ids.size();
      if (piece.format == TextFormat::kPlainText) {
        tokenizer_.encode_to(piece.text.bytes, task.ids);
        task.text_bytes += piece.text.bytes.size();
      } else {
        const std::string text = parse_json_line(piece.text, options_.text_key, sources_[piece.source].path);
        tokenizer_.encode_to(text, task.ids);
        task.text_bytes += text.size();
      }
      const bool empty = task.ids.size() == before;
      if (piece.ends_document && !empty && options_.append_end_of_text && identity_.end_of_text) {
        task.ids.push_back(*identity_.end_of_text);
      }
      task.ends.push_back(task.ids.size());
    }
  }

  void write(const Task& task) {
    size_t begin = 0;
    for (size_t i = 0; i < task.pieces.size(); ++i) {
      const Piece& piece = task.pieces[i];
      const std::span<const int32_t> ids = std::span(task.ids).subspan(begin, task.ends[i] - begin);
      begin = task.ends[i];
      if (ids.empty()) ++empty_documents_;
      (piece.validation ? validation_ : train_).append(ids, piece.starts_document, piece.source);
    }
    progress_.bytes_done += task.bytes;
    text_bytes_ += task.text_bytes;
  }

  PrepareSummary finish() {
    PrepareSummary summary;
    summary.text_bytes = text_bytes_;
    summary.empty_documents = empty_documents_;
    const std::string first_input = options_.inputs.front().string();
    if (train_.entry().tokens + validation_.entry().tokens == 0) {
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("the inputs hold no text ({} empty documents)", empty_documents_), first_input,
                  "Check the inputs, and the key of the text in JSON Lines.");
    }
    const bool wants_validation = options_.validation_fraction > 0 || !options_.validation_inputs.empty();
    if (train_.entry().tokens == 0 || (wants_validation && validation_.entry().tokens == 0)) {
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("the split \"{}\" is empty: {} documents at a validation fraction of {}",
                              train_.entry().tokens == 0 ? kTrainSplit : kValidationSplit,
                              train_.entry().documents + validation_.entry().documents, options_.validation_fraction),
                  first_input, "Choose another fraction, or name validation files.");
    }
    summary.manifest.tokenizer = identity_;
    summary.manifest.sources = sources_;
    summary.manifest.splits[std::string(kTrainSplit)] = train_.entry();
    if (wants_validation) summary.manifest.splits[std::string(kValidationSplit)] = validation_.entry();
    const std::filesystem::path tokenizer_directory = options_.output / kTokenizerDirectoryName;
    std::filesystem::create_directories(tokenizer_directory);
    tokenizer_.save(tokenizer_directory);
    write_file_atomically(options_.output / kManifestFileName, print_manifest(summary.manifest));
    return summary;
  }

  const PrepareOptions& options_;
  const Tokenizer& tokenizer_;
  size_t threads_;
  TokenizerIdentity identity_;
  std::vector<SourceFile> sources_;
  SplitWriter train_;
  SplitWriter validation_;
  bool splits_one_text_ = false;
  uint64_t document_index_ = 0;
  uint64_t empty_documents_ = 0;
  uint64_t text_bytes_ = 0;
  std::vector<Task> tasks_;
  size_t wave_bytes_ = 0;
  PrepareProgress progress_;
};

bool is_inside(const std::filesystem::path& inner, const std::filesystem::path& outer) {
  const std::filesystem::path canonical_inner = std::filesystem::weakly_canonical(inner);
  const std::filesystem::path canonical_outer = std::filesystem::weakly_canonical(outer);
  const auto [end, rest] =
      std::mismatch(canonical_outer.begin(), canonical_outer.end(), canonical_inner.begin(), canonical_inner.end());
  return end == canonical_outer.end();
}

void check_options(const PrepareOptions& options) {
  const auto refuse = [](const std::string& what, const std::string& where, const std::string& hint) {
    throw Error(ErrorKind::kInvalidArgument, what, where, hint);
  };
  if (options.inputs.empty())
    refuse("no input is given", "inputs", "Name text files, JSON Lines files or directories.");
  if (options.output.empty()) refuse("no output directory is given", "output", "Name a directory for the dataset.");
  if (!(options.validation_fraction >= 0 && options.validation_fraction < 1)) {
    refuse(fmt::format("the validation fraction is {}", options.validation_fraction), "validation fraction",
           "It must be at least 0 and less than 1.");
  }
  if (options.validation_fraction > 0 && !options.validation_inputs.empty()) {
    refuse("both a validation fraction and validation files are given", "validation", "Give one of them.");
  }
  if (options.tokens_per_shard == 0) refuse("shards of 0 tokens are asked for", "tokens per shard", "Use at least 1.");
  for (const std::vector<std::filesystem::path>* inputs : {&options.inputs, &options.validation_inputs}) {
    for (const std::filesystem::path& input : *inputs) {
      std::error_code code;
      if (std::filesystem::is_directory(input, code) && is_inside(options.output, input)) {
        refuse("the output directory is inside an input directory", options.output.string(),
               "Choose an output directory elsewhere, so that a second run does not read the first one's files.");
      }
    }
  }
  if (!options.overwrite && std::filesystem::exists(options.output / kManifestFileName)) {
    refuse("the output directory already holds a dataset", options.output.string(),
           "Choose another directory, or ask to overwrite it.");
  }
}

}  // namespace

PrepareSummary prepare_dataset(const PrepareOptions& options, const Tokenizer& tokenizer) {
  try {
    check_options(options);
    return Preparation(options, tokenizer).run();
  } catch (const std::filesystem::filesystem_error& error) {
    throw Error(ErrorKind::kIo, fmt::format("the dataset cannot be prepared: {}", error.code().message()),
                error.path1().string(), "Check that the inputs can be read and the output directory written.");
  }
}

}  // namespace causeway
