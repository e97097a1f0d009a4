#include "causeway/data/prepare.h"

#include <fnmatch.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/base/hash.h"
#include "causeway/base/thread_pool.h"
#include "causeway/data/directory_replacement.h"
#include "causeway/data/document_encoder.h"
#include "causeway/data/mds_reader.h"
#include "causeway/data/ordered_pipeline.h"
#include "causeway/data/shared_documents.h"
#include "causeway/data/skipped_lines.h"
#include "causeway/data/split_writer.h"
#include "causeway/data/token_dataset.h"
#include "causeway/formats/tokenizer/tokenizer_settings.h"

namespace causeway::data {
namespace {

// Of a block without text.
constexpr size_t kBlockWeight = 1024;
class Preparation {
 public:
  Preparation(const PrepareOptions& options, const Tokenizer& tokenizer)
      : options_(options),
        tokenizer_(tokenizer),
        identity_{tokenizer.name(), tokenizer.fingerprint(), tokenizer.vocabulary_size(), tokenizer.end_of_text()},
        encoder_(options, tokenizer),
        documents_(encoder_.around()) {}

  PrepareSummary run() {
    const auto start = std::chrono::steady_clock::now();
    find_inputs();
    DirectoryReplacement replacement(options_.output);
    require_replaceable_output();
    directory_ = replacement.directory();
    // A fraction of the documents has none of the rest in it.
    if (!options_.validation_inputs.empty() && !options_.allow_shared_documents) {
      shared_.emplace(replacement.work_directory() / "documents");
      encoder_.hash_documents();
    }
    train_.emplace(directory_, std::string(kTrainSplit), options_.tokens_per_shard, identity_, documents_, sources_);
    validation_.emplace(directory_, std::string(kValidationSplit), options_.tokens_per_shard, identity_, documents_,
                        sources_);

    OrderedPipeline<EncodedBlock> pipeline;
    pipeline.workers = static_cast<size_t>(options_.threads > 0 ? options_.threads : available_processors());
    pipeline.most_weight = pipeline.workers * kBytesInFlightPerThread;
    pipeline.weight = [](const EncodedBlock& block) {
      return kBlockWeight + block.text.text.size() + block.ids.size() * 4;
    };
    pipeline.make = [this](const std::stop_token& stop) { return read_block(stop); };
    pipeline.work = [this](EncodedBlock& block) { encoder_.encode(block, input_name(files_[block.source].path)); };
    pipeline.take = [this](EncodedBlock& block) { write(block); };
    pipeline.tick = [this] { report_progress(); };
    pipeline.run();

    train_->flush();
    validation_->flush();
    report_progress();
    PrepareSummary summary = finish();
    // Somebody may have put files there in the meantime.
    require_replaceable_output();
    replacement.commit();
    summary.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return summary;
  }

 private:
  void find_inputs() {
    FoundText found = find_text_files(options_.inputs, options_.format);
    FoundText held_out = find_text_files(options_.validation_inputs, options_.format);
    files_left_out_ = std::move(found.left_out);
    for (const auto& [kind, count] : held_out.left_out) files_left_out_[kind] += count;
    training_files_ = found.files.size();
    refuse_shared_files(found.files, held_out.files);
    files_ = std::move(found.files);
    files_.insert(files_.end(), held_out.files.begin(), held_out.files.end());
    bool sizes_are_known = true;
    for (const TextFile& file : files_) {
      std::error_code code;
      const bool is_regular = std::filesystem::is_regular_file(file.path, code);
      sizes_are_known = sizes_are_known && is_regular;
      if (is_regular) progress_.bytes_total += std::filesystem::file_size(file.path);
    }
    if (!sizes_are_known) progress_.bytes_total = 0;
    if (options_.validation_fraction > 0 && training_files_ == 1 && is_one_plain_text(files_.front()))
      second_part_at_ = second_part_position(files_.front(), options_.validation_fraction, reader_options());
    if (!second_part_at_) encoder_.hold_out(options_.validation_fraction);
  }

  bool is_one_plain_text(const TextFile& file) const {
    if (file.format) return file.format == TextFormat::kPlainText;
    if (std::error_code code; !std::filesystem::is_regular_file(file.path, code)) {
      throw Error(ErrorKind::kInvalidArgument,
                  "whether the input is one text or many documents cannot be told before it is read",
                  InputStream(file.path).name(),
                  "Say --format jsonl or csv; or, for a fraction of one text, put it into a file.");
    }
    return TextReader(file, reader_options()).format() == TextFormat::kPlainText;
  }

  // Which of them are the same files, before hours are spent on them.
  static void refuse_shared_files(const std::vector<TextFile>& training, const std::vector<TextFile>& held_out) {
    std::map<std::pair<uint64_t, uint64_t>, const TextFile*> seen;
    const auto identity = [](const TextFile& file) -> std::optional<std::pair<uint64_t, uint64_t>> {
      struct stat status{};
      if (file.path == kStandardInput ? ::fstat(0, &status) != 0 : ::stat(file.path.c_str(), &status) != 0)
        return std::nullopt;
      // All empty files have nothing in common.
      if (S_ISREG(status.st_mode) && status.st_size == 0) return std::nullopt;
      return std::pair{static_cast<uint64_t>(status.st_dev), static_cast<uint64_t>(status.st_ino)};
    };
    for (const TextFile& file : training)
      if (const auto key = identity(file)) seen.emplace(*key, &file);
    for (const TextFile& file : held_out) {
      const auto key = identity(file);
      const auto same = key ? seen.find(*key) : seen.end();
      if (same == seen.end()) continue;
      throw Error(
          ErrorKind::kInvalidArgument,
          fmt::format("the same text is given for training and for validation{}",
                      same->second->path == file.path ? "" : fmt::format(" (as {})", same->second->path.string())),
          file.path.string(), "Hold other text out, or use --validation-fraction to hold a part of it out.");
    }
  }

  bool wants_validation() const { return options_.validation_fraction > 0 || !options_.validation_inputs.empty(); }

  TextReaderOptions reader_options() const {
    TextReaderOptions reader;
    reader.any_bytes = options_.any_bytes;
    reader.cut_position = [this](std::string_view text, size_t from) {
      return tokenizer_.cut_position(text, from, options_.read_special_tokens);
    };
    reader.second_document_at = second_part_at_;
    reader.column = options_.text_key;
    reader.skip_records = !options_.strict;
    return reader;
  }

  // Whatever is in the old directory is lost with it.
  void require_replaceable_output() const {
    std::error_code code;
    if (!std::filesystem::is_directory(options_.output, code)) return;
    bool holds_dataset = false;
    for (const std::filesystem::directory_entry& entry : std::filesystem::directory_iterator(options_.output)) {
      if (entry.path().filename() == kTokenizerDirectoryName && entry.is_directory(code)) {
        std::vector<std::string> names = {"vocab.json", "merges.txt", "tokenizer.json"};
        names.insert(names.end(), formats::kTokenizerSettingsNames.begin(), formats::kTokenizerSettingsNames.end());
        for (const std::filesystem::directory_entry& file : std::filesystem::directory_iterator(entry.path()))
          require_part_of_dataset(file.path(), names);
        continue;
      }
      require_part_of_dataset(entry.path(), {std::string(kManifestFileName), fmt::format("{}-*.tokens", kTrainSplit),
                                             fmt::format("{}-*.tokens", kValidationSplit)});
      holds_dataset = true;
    }
    if (holds_dataset && !options_.overwrite) {
      throw Error(ErrorKind::kInvalidArgument, "the output directory already holds a dataset", options_.output.string(),
                  "Choose another directory, or say --overwrite to replace it.");
    }
  }

  void require_part_of_dataset(const std::filesystem::path& path, const std::vector<std::string>& patterns) const {
    const std::string name = path.filename().string();
    for (const std::string& pattern : patterns) {
      // Also what write_file_atomically leaves of one when it is killed.
      if (::fnmatch(pattern.c_str(), name.c_str(), 0) == 0 ||
          ::fnmatch((pattern + ".tmp-*").c_str(), name.c_str(), 0) == 0)
        return;
    }
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("the output directory holds something that is no part of a dataset: {}",
                            path.lexically_relative(options_.output).string()),
                options_.output.string(), "Choose a directory of its own for the dataset.");
  }

  // In the reader's thread.
  std::optional<EncodedBlock> read_block(const std::stop_token& stop) {
    if (stop.stop_requested() || next_file_ == files_.size()) return std::nullopt;
    const TextFile& file = files_[next_file_];
    if (file.shard) return read_samples(file, stop);
    if (!reader_) {
      TextReaderOptions reader = reader_options();
      if (next_file_ > 0) reader.second_document_at.reset();
      reader_.emplace(file, std::move(reader), stop);
    }
    EncodedBlock block;
    block.source = next_file_;
    block.format = reader_->format();
    if (std::optional<TextBlock> text = reader_->next()) {
      stored_bytes_read_ += text->stored_bytes;
      block.text = std::move(*text);
      return block;
    }
    finish_source(reader_->stream(), block);
    reader_.reset();
    return block;
  }

  std::optional<EncodedBlock> read_samples(const TextFile& file, const std::stop_token& stop) {
    if (!mds_reader_) mds_reader_.emplace(file.path, *file.shard, options_.text_key, stop);
    EncodedBlock block;
    block.source = next_file_;
    block.format = TextFormat::kMds;
    block.holds_tokens = mds_reader_->holds_tokens();
    while (block.holds_tokens && block.ids.size() < kTextBlockBytes) {
      if (!mds_reader_->next_tokens(block.ids)) break;
      block.text.documents.push_back({block.ids.size(), mds_reader_->samples_read()});
    }
    while (!block.holds_tokens && block.text.text.size() < kTextBlockBytes &&
           block.text.skipped.size() < SkippedLines::kMostBeforeADocument) {
      try {
        const std::optional<std::string> text = mds_reader_->next_text();
        if (!text) break;
        block.text.text += *text;
        block.text.documents.push_back({block.text.text.size(), mds_reader_->samples_read()});
      } catch (const Error& error) {
        // Anything else is wrong with the shard.
        if (options_.strict || error.kind() != ErrorKind::kInvalidArgument) throw;
        block.text.skipped.push_back(error);
      }
    }
    if (stop.stop_requested()) return std::nullopt;
    const InputStream& stream = mds_reader_->stream();
    if (!block.text.documents.empty() || !block.text.skipped.empty()) {
      block.text.stored_bytes = stream.stored_bytes() - stored_bytes_read_;
      stored_bytes_read_ = stream.stored_bytes();
      return block;
    }
    unverified_shards_ += mds_reader_->is_unverified() ? 1 : 0;
    finish_source(stream, block);
    mds_reader_.reset();
    return block;
  }

  void finish_source(const InputStream& stream, EncodedBlock& block) {
    block.finished = SourceFile{stream.name(), stream.stored_bytes(), stream.stored_hash().hex()};
    block.text.stored_bytes = stream.stored_bytes() - std::exchange(stored_bytes_read_, 0);
    ++next_file_;
  }

  // In the calling thread, in the order of the inputs.
  void write(const EncodedBlock& block) {
    if (block.holds_tokens) documents_.reset();
    if (block.source == sources_.size()) {
      sources_.push_back({input_name(files_[block.source].path), 0, {}});
      source_has_text_ = false;
    }
    size_t begin = 0;
    for (const EncodedDocument& document : block.documents) {
      const std::span<const int32_t> ids = std::span(block.ids).subspan(begin, document.end - begin);
      begin = document.end;
      if (block.text.starts_document)
        in_validation_ = block.source >= training_files_ || block.text.is_second_document || document.in_fraction;
      (in_validation_ ? *validation_ : *train_).append(ids, block.text.starts_document, block.source);
      if (ids.empty()) {
        note_empty_document(block.source, document);
      } else if (shared_ && block.text.ends_document) {
        shared_->add(document.hash, in_validation_, {block.source, document.line});
      }
      source_has_text_ = true;
    }
    if (!block.documents.empty()) skipped_.add_document();
    for (const Error& error : block.skipped) skipped_.add(error);
    replaced_surrogates_ += block.replaced_surrogates;
    progress_.bytes_done += block.text.stored_bytes;
    text_bytes_ += block.text_bytes;
    if (!block.finished) return;
    skipped_.end_file();
    if (!source_has_text_) note_empty_document(block.source, {});
    sources_.back() = *block.finished;
  }

  // `line`: or the number of a sample; 0 for the whole of the source.
  std::string place_name(size_t source, uint64_t line) const {
    const std::string& path = sources_[source].path;
    if (line == 0) return path;
    return fmt::format("{}, {} {}", path, files_[source].shard ? "sample" : "line", line);
  }

  void note_empty_document(size_t source, const EncodedDocument& document) {
    if (options_.strict) {
      throw Error(ErrorKind::kInvalidArgument,
                  document.line == 0 ? "the text is empty"
                  : document.is_null ? fmt::format("the text under \"{}\" is null", options_.text_key)
                                     : fmt::format("the text under \"{}\" is empty", options_.text_key),
                  place_name(source, document.line),
                  "Without --strict, documents without text are counted and left out.");
    }
    ++empty_documents_;
    null_documents_ += document.is_null;
  }

  void report_progress() {
    progress_.tokens = train_->entry().tokens + validation_->entry().tokens;
    progress_.documents = train_->entry().documents + validation_->entry().documents;
    if (options_.progress) options_.progress(progress_);
  }

  PrepareSummary finish() {
    const std::string first_input = input_name(files_.front().path);
    if (train_->entry().tokens + validation_->entry().tokens == 0) {
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("the inputs hold no text ({} empty documents)", empty_documents_), first_input,
                  "Check the inputs, and say with --text-key under which key or column the text is.");
    }
    if (train_->entry().tokens == 0 || (wants_validation() && validation_->entry().tokens == 0)) {
      throw Error(
          ErrorKind::kInvalidArgument,
          fmt::format("the split \"{}\" is empty: {} documents at a validation fraction of {}",
                      train_->entry().tokens == 0 ? kTrainSplit : kValidationSplit,
                      train_->entry().documents + validation_->entry().documents, options_.validation_fraction),
          first_input,
          "Which documents are held out follows from their texts: choose another --validation-fraction, or name "
          "files with --validation.");
    }
    refuse_shared_documents();
    PrepareSummary summary;
    summary.text_bytes = text_bytes_;
    summary.empty_documents = empty_documents_;
    summary.null_documents = null_documents_;
    summary.skipped_lines = skipped_.count();
    summary.skipped_named = skipped_.named();
    summary.replaced_surrogates = replaced_surrogates_;
    summary.files_left_out = files_left_out_;
    summary.unverified_shards = unverified_shards_;
    summary.manifest.tokenizer = identity_;
    summary.manifest.documents = documents_;
    summary.manifest.sources = sources_;
    summary.manifest.splits[std::string(kTrainSplit)] = train_->entry();
    if (wants_validation()) summary.manifest.splits[std::string(kValidationSplit)] = validation_->entry();
    const std::filesystem::path tokenizer_directory = directory_ / kTokenizerDirectoryName;
    std::filesystem::create_directories(tokenizer_directory);
    tokenizer_.save(tokenizer_directory);
    write_file_atomically(directory_ / kManifestFileName, print_manifest(summary.manifest));
    return summary;
  }

  void refuse_shared_documents() {
    if (!shared_) return;
    const std::optional<SharedDocuments::Result> shared = shared_->find();
    if (!shared) return;
    const auto name = [&](const SharedDocuments::Place& place) { return place_name(place.source, place.line); };
    throw Error(
        ErrorKind::kInvalidArgument,
        fmt::format("{} of training {} also held out for validation; the first of them is also in {}",
                    shared->documents == 1 ? "1 document" : fmt::format("{} documents", shared->documents),
                    shared->documents == 1 ? "is" : "are", name(shared->validation)),
        name(shared->training),
        "Take them out of one of the two; or say --allow-shared-documents, and know that the validation loss then "
        "looks better than it is.");
  }

  const PrepareOptions& options_;
  const Tokenizer& tokenizer_;
  TokenizerIdentity identity_;
  DocumentEncoder encoder_;
  std::optional<DocumentTokens> documents_;  // what is recorded: the encoder's, but where ids come from elsewhere
  std::vector<TextFile> files_;              // for training, then those to hold out
  size_t training_files_ = 0;
  std::map<std::string, uint64_t> files_left_out_;
  std::optional<uint64_t> second_part_at_;  // where one plain text is cut in two
  std::filesystem::path directory_;

  // The reader's.
  size_t next_file_ = 0;
  std::optional<TextReader> reader_;
  std::optional<MdsReader> mds_reader_;
  uint64_t unverified_shards_ = 0;
  uint64_t stored_bytes_read_ = 0;

  // The writer's.
  std::vector<SourceFile> sources_;
  std::optional<SplitWriter> train_;
  std::optional<SplitWriter> validation_;
  std::optional<SharedDocuments> shared_;
  bool source_has_text_ = false;
  bool in_validation_ = false;
  uint64_t empty_documents_ = 0;
  uint64_t null_documents_ = 0;
  SkippedLines skipped_;
  uint64_t replaced_surrogates_ = 0;
  uint64_t text_bytes_ = 0;
  PrepareProgress progress_;
};

bool is_inside(const std::filesystem::path& inner, const std::filesystem::path& outer) {
  const std::filesystem::path canonical_inner = std::filesystem::weakly_canonical(inner);
  const std::filesystem::path canonical_outer = std::filesystem::weakly_canonical(outer);
  const auto mismatch =
      std::mismatch(canonical_outer.begin(), canonical_outer.end(), canonical_inner.begin(), canonical_inner.end());
  return mismatch.first == canonical_outer.end() || mismatch.first->empty();
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
    refuse("both a validation fraction and validation files are given", "validation",
           "Give either --validation-fraction or --validation.");
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
  const auto standard_inputs =
      std::count(options.inputs.begin(), options.inputs.end(), kStandardInput) +
      std::count(options.validation_inputs.begin(), options.validation_inputs.end(), kStandardInput);
  if (standard_inputs > 1) refuse("standard input is given twice", "inputs", "It can be read only once.");
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

}  // namespace causeway::data
