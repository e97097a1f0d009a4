// The inputs of a preparation: which files there are, and their text block by block, in the order of the inputs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "causeway/data/document_encoder.h"
#include "causeway/data/mds_reader.h"
#include "causeway/data/prepare.h"
#include "causeway/data/text_source.h"

namespace causeway::data {

class TextInputs {
 public:
  // Keeps both. Throws Error for inputs that are missing or not text, for one that is given for training and for
  // validation, and where a fraction of one text cannot be told.
  TextInputs(const PrepareOptions& options, const Tokenizer& tokenizer);

  // For training, then those to hold out.
  const std::vector<TextFile>& files() const { return files_; }
  bool is_held_out(size_t file) const { return file >= training_files_; }
  const std::map<std::string, uint64_t>& left_out() const { return left_out_; }
  uint64_t bytes_total() const { return bytes_total_; }  // 0 where not all inputs tell their size
  // Whether the fraction to hold out is the end of one plain text, and not a share of the documents.
  bool is_cut_in_two() const { return second_part_at_.has_value(); }

  // In one thread: the next block; behind the last one of each source one without text that says what was read
  // (EncodedBlock::finished). Nothing at the end, and when `stop` was requested.
  std::optional<EncodedBlock> next(const std::stop_token& stop);
  // After the end: shards of MDS whose hashes are all of kinds that are not computed here.
  uint64_t unverified_shards() const { return unverified_shards_; }

 private:
  bool is_one_plain_text(const TextFile& file) const;
  TextReaderOptions reader_options() const;
  std::optional<EncodedBlock> next_samples(const TextFile& file, const std::stop_token& stop);
  void finish_source(const InputStream& stream, EncodedBlock& block);

  const PrepareOptions& options_;
  const Tokenizer& tokenizer_;
  std::vector<TextFile> files_;
  size_t training_files_ = 0;
  std::map<std::string, uint64_t> left_out_;
  uint64_t bytes_total_ = 0;
  std::optional<uint64_t> second_part_at_;  // where one plain text is cut in two

  size_t next_file_ = 0;
  std::optional<TextReader> reader_;
  std::optional<MdsReader> mds_reader_;
  uint64_t unverified_shards_ = 0;
  uint64_t stored_bytes_read_ = 0;
};

}  // namespace causeway::data
