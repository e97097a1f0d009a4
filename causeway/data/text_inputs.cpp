#include "causeway/data/text_inputs.h"

#include <sys/stat.h>

#include <utility>

#include "causeway/base/error.h"
#include "causeway/data/skipped_lines.h"

namespace causeway::data {
namespace {

// Which of them are the same files, before hours are spent on them.
void refuse_shared_files(const std::vector<TextFile>& training, const std::vector<TextFile>& held_out) {
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

}  // namespace

TextInputs::TextInputs(const PrepareOptions& options, const Tokenizer& tokenizer)
    : options_(options), tokenizer_(tokenizer) {
  FoundText found = find_text_files(options_.inputs, options_.format);
  FoundText held_out = find_text_files(options_.validation_inputs, options_.format);
  left_out_ = std::move(found.left_out);
  for (const auto& [kind, count] : held_out.left_out) left_out_[kind] += count;
  training_files_ = found.files.size();
  refuse_shared_files(found.files, held_out.files);
  files_ = std::move(found.files);
  files_.insert(files_.end(), held_out.files.begin(), held_out.files.end());
  bool sizes_are_known = true;
  for (const TextFile& file : files_) {
    std::error_code code;
    const bool is_regular = std::filesystem::is_regular_file(file.path, code);
    sizes_are_known = sizes_are_known && is_regular;
    if (is_regular) bytes_total_ += std::filesystem::file_size(file.path);
  }
  if (!sizes_are_known) bytes_total_ = 0;
  if (options_.validation_fraction > 0 && training_files_ == 1 && is_one_plain_text(files_.front()))
    second_part_at_ = second_part_position(files_.front(), options_.validation_fraction, reader_options());
}

bool TextInputs::is_one_plain_text(const TextFile& file) const {
  if (file.format) return file.format == TextFormat::kPlainText;
  if (std::error_code code; !std::filesystem::is_regular_file(file.path, code)) {
    throw Error(ErrorKind::kInvalidArgument,
                "whether the input is one text or many documents cannot be told before it is read",
                InputStream(file.path).name(),
                "Say --format jsonl or csv; or, for a fraction of one text, put it into a file.");
  }
  return TextReader(file, reader_options()).format() == TextFormat::kPlainText;
}

TextReaderOptions TextInputs::reader_options() const {
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

std::optional<EncodedBlock> TextInputs::next(const std::stop_token& stop) {
  if (stop.stop_requested() || next_file_ == files_.size()) return std::nullopt;
  const TextFile& file = files_[next_file_];
  if (file.shard) return next_samples(file, stop);
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

std::optional<EncodedBlock> TextInputs::next_samples(const TextFile& file, const std::stop_token& stop) {
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

void TextInputs::finish_source(const InputStream& stream, EncodedBlock& block) {
  block.finished = SourceFile{stream.name(), stream.stored_bytes(), stream.stored_hash().hex()};
  block.text.stored_bytes = stream.stored_bytes() - std::exchange(stored_bytes_read_, 0);
  ++next_file_;
}

}  // namespace causeway::data
