// Documents to token ids, for `causeway data prepare`: block by block, each in a thread of its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/base/hash.h"
#include "causeway/data/chat_encoder.h"
#include "causeway/data/prepare.h"
#include "causeway/data/text_source.h"

namespace causeway::data {

// A document, or the part of one that is in its block.
struct EncodedDocument {
  size_t end = 0;  // of its ids
  uint64_t line = 0;
  bool is_null = false;
  Hash128 hash;
  bool in_fraction = false;  // its first part is, of the documents to hold out
};

// A block of one source on its way from the reader through an encoder to the writer.
struct EncodedBlock {
  size_t source = 0;
  TextFormat format = TextFormat::kPlainText;
  TextBlock text;
  bool holds_tokens = false;  // MDS: the samples are ids already, not text
  std::vector<int32_t> ids;
  std::vector<float> weights;  // of conversations: of each id in the loss, 0 where it is no target
  ChatCounts chat;
  // Lines of the first conversation and of the first preference pair; 0: none.
  uint64_t first_conversation = 0, first_preference = 0;
  std::vector<EncodedDocument> documents;
  uint64_t text_bytes = 0;
  std::vector<Error> skipped;  // what is no document
  uint64_t replaced_surrogates = 0;
  // Of the last block of a source, which holds no text.
  std::optional<SourceFile> finished;
};

// As messages and manifests name an input.
std::string input_name(const std::filesystem::path& path);

class DocumentEncoder {
 public:
  // Keeps both.
  DocumentEncoder(const PrepareOptions& options, const Tokenizer& tokenizer);

  // What stands around a document's ids.
  const DocumentTokens& around() const { return around_; }

  // Before blocks are encoded: that documents get their hash, and which fraction of them is held out, by their first
  // part.
  void hash_documents() { hashes_documents_ = true; }
  void hold_out(double fraction) { held_out_ = fraction; }

  // Fills in ids and documents, and lets go of the text. `input`: of what name the block is. Throws
  // Error(kInvalidArgument) for what is no document where options are strict, and for ids beyond the vocabulary.
  void encode(EncodedBlock& block, const std::string& input) const;

 private:
  void encode_line(EncodedBlock& block, const JsonLine& line, const std::string& input) const;
  void encode_chat(EncodedBlock& block, const JsonLine& line, const std::string& input) const;
  void encode_preference(EncodedBlock& block, const JsonLine& line, JsonRecord& record, const std::string& where) const;
  void add_sample(EncodedBlock& block, const ChatSample& sample, uint64_t line, std::string_view held_out_by) const;
  void end_token_samples(EncodedBlock& block, const std::string& input) const;
  void encode_document(EncodedBlock& block, std::optional<std::string_view> text, uint64_t number) const;
  void encode_text(EncodedBlock& block, std::string_view text, bool starts, bool ends) const;
  void end_document(EncodedBlock& block, EncodedDocument document) const;
  bool is_held_out(std::string_view text) const;

  const PrepareOptions& options_;
  const Tokenizer& tokenizer_;
  DocumentTokens around_;
  std::optional<ChatEncoder> chat_;
  bool hashes_documents_ = false;
  double held_out_ = 0;
};

}  // namespace causeway::data
