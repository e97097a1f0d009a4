#include "causeway/data/prepare.h"

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
#include "causeway/data/ordered_pipeline.h"
#include "causeway/data/prepared_directory.h"
#include "causeway/data/shared_documents.h"
#include "causeway/data/skipped_lines.h"
#include "causeway/data/split_writer.h"
#include "causeway/data/text_inputs.h"
#include "causeway/data/token_dataset.h"

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
        inputs_(options, tokenizer),
        encoder_(options, tokenizer),
        documents_(encoder_.around()) {
    progress_.bytes_total = inputs_.bytes_total();
    if (!inputs_.is_cut_in_two()) encoder_.hold_out(options_.validation_fraction);
  }

  PrepareSummary run() {
    const auto start = std::chrono::steady_clock::now();
    DirectoryReplacement replacement(options_.output);
    require_replaceable(options_.output, options_.overwrite);
    directory_ = replacement.directory();
    // A fraction of the documents has none of the rest in it.
    if (!options_.validation_inputs.empty() && !options_.allow_shared_documents) {
      shared_.emplace(replacement.work_directory() / "documents");
      encoder_.hash_documents();
    }
    train_.emplace(directory_, std::string(kTrainSplit), options_.tokens_per_shard, identity_, documents_, sources_,
                   options_.chat.has_value(), holds_pairs_, holds_prompts());
    validation_.emplace(directory_, std::string(kValidationSplit), options_.tokens_per_shard, identity_, documents_,
                        sources_, options_.chat.has_value(), holds_pairs_, holds_prompts());

    OrderedPipeline<EncodedBlock> pipeline;
    pipeline.workers = static_cast<size_t>(options_.threads > 0 ? options_.threads : available_processors());
    pipeline.most_weight = pipeline.workers * kBytesInFlightPerThread;
    pipeline.weight = [](const EncodedBlock& block) {
      return kBlockWeight + block.text.text.size() + (block.ids.size() + block.weights.size()) * 4;
    };
    pipeline.make = [this](const std::stop_token& stop) { return inputs_.next(stop); };
    pipeline.work = [this](EncodedBlock& block) {
      encoder_.encode(block, input_name(inputs_.files()[block.source].path));
    };
    pipeline.take = [this](EncodedBlock& block) { write(block); };
    pipeline.tick = [this] { report_progress(); };
    pipeline.run();

    train_->flush();
    validation_->flush();
    report_progress();
    PrepareSummary summary = finish();
    // Somebody may have put files there in the meantime.
    require_replaceable(options_.output, options_.overwrite);
    replacement.commit();
    summary.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return summary;
  }

 private:
  bool wants_validation() const { return options_.validation_fraction > 0 || !options_.validation_inputs.empty(); }

  bool holds_prompts() const { return options_.chat && options_.chat->prompts; }

  // In the calling thread, in the order of the inputs.
  void write(const EncodedBlock& block) {
    if (block.holds_tokens) documents_.reset();
    chat_ += block.chat;
    if (options_.chat) documents_ = options_.chat->documents_of(chat_, encoder_.around());
    if (block.source == sources_.size()) {
      sources_.push_back({input_name(inputs_.files()[block.source].path), 0, {}});
      source_has_text_ = false;
    }
    require_one_kind(block);
    size_t begin = 0;
    for (const EncodedDocument& document : block.documents) {
      const std::span<const int32_t> ids = std::span(block.ids).subspan(begin, document.end - begin);
      const std::span<const float> weights =
          options_.chat ? std::span(block.weights).subspan(begin, ids.size()) : std::span<const float>();
      begin = document.end;
      if (block.text.starts_document)
        in_validation_ = inputs_.is_held_out(block.source) || block.text.is_second_document || document.in_fraction;
      (in_validation_ ? *validation_ : *train_).append(ids, weights, block.text.starts_document, block.source);
      if (ids.empty()) {
        note_empty_document(block.source, document);
      } else if (shared_ && block.text.ends_document) {
        shared_->add(document.hash, in_validation_, {block.source, document.line});
      }
      source_has_text_ = true;
    }
    if (!block.documents.empty() || block.chat.without_target > 0) skipped_.add_document();
    source_has_text_ = source_has_text_ || block.chat.without_target > 0;
    for (const Error& error : block.skipped) skipped_.add(error);
    replaced_surrogates_ += block.replaced_surrogates;
    progress_.bytes_done += block.text.stored_bytes;
    text_bytes_ += block.text_bytes;
    if (!block.finished) return;
    skipped_.end_file();
    if (!source_has_text_) note_empty_document(block.source, {});
    sources_.back() = *block.finished;
  }

  // A dataset is of preference pairs or of conversations.
  void require_one_kind(const EncodedBlock& block) {
    const uint64_t pair = block.first_preference, conversation = block.first_conversation;
    if (pair == 0 && conversation == 0) return;
    const bool begins_with_pair = pair != 0 && (conversation == 0 || pair < conversation);
    if (!kind_is_known_) holds_pairs_ = begins_with_pair;
    kind_is_known_ = true;
    const uint64_t other = holds_pairs_ ? conversation : pair;
    if (other == 0) return;
    throw Error(ErrorKind::kInvalidArgument,
                holds_pairs_ ? "the record is a conversation, and those before it are preference pairs"
                             : "the record is a preference pair, and those before it are conversations",
                place_name(block.source, other), "Prepare a dataset of each.");
  }

  // `line`: or the number of a sample; 0 for the whole of the source.
  std::string place_name(size_t source, uint64_t line) const {
    const std::string& path = sources_[source].path;
    if (line == 0) return path;
    return fmt::format("{}, {} {}", path, inputs_.files()[source].shard ? "sample" : "line", line);
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

  static void note_weight(float weight, std::vector<float>& weights) {
    const auto place = std::ranges::lower_bound(weights, weight);
    if (place == weights.end() || *place != weight) weights.insert(place, weight);
  }

  void report_progress() {
    progress_.tokens = train_->entry().tokens + validation_->entry().tokens;
    progress_.documents = train_->entry().documents + validation_->entry().documents;
    if (options_.progress) options_.progress(progress_);
  }

  PrepareSummary finish() {
    const std::string first_input = input_name(inputs_.files().front().path);
    if (train_->entry().tokens + validation_->entry().tokens == 0) {
      throw Error(ErrorKind::kInvalidArgument,
                  chat_.without_target > 0
                      ? fmt::format("none of the {} conversations has a token that is trained on", chat_.without_target)
                      : fmt::format("the inputs hold no text ({} empty documents)", empty_documents_),
                  first_input,
                  options_.chat ? "Without --skip-without-target the first of them is shown."
                                : "Check the inputs, and say with --text-key under which key or column the text is.");
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
    summary.files_left_out = inputs_.left_out();
    summary.unverified_shards = inputs_.unverified_shards();
    summary.manifest.tokenizer = identity_;
    summary.manifest.documents = documents_;
    summary.chat = chat_;
    if (options_.chat) summary.manifest.targets = options_.chat->record(chat_);
    for (const std::optional<SplitWriter>* split : {&train_, &validation_})
      for (const float weight : (*split)->other_weights()) note_weight(weight, summary.manifest.targets->weights);
    summary.manifest.holds_pairs = holds_pairs_;
    summary.manifest.holds_prompts = holds_prompts();
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
  TextInputs inputs_;
  DocumentEncoder encoder_;
  std::optional<DocumentTokens> documents_;  // what is recorded: the encoder's, but where ids come from elsewhere
  std::filesystem::path directory_;

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
  ChatCounts chat_;
  bool holds_pairs_ = false, kind_is_known_ = false;
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
