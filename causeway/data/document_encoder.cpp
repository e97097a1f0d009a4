#include "causeway/data/document_encoder.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>
#include <utility>

#include "causeway/data/preference_record.h"

namespace causeway::data {
namespace {

// A document that is hashed for the split begins with a whole block, where it is longer than one.
static_assert(kHashedForSplit <= kTextBlockBytes);

bool is_in_fraction(std::string_view document, double fraction) {
  const Hash128 hash = hash_text(document.substr(0, kHashedForSplit));
  return std::ldexp(static_cast<double>(hash.high), -64) < fraction;
}

}  // namespace

std::string input_name(const std::filesystem::path& path) {
  return path == kStandardInput ? "standard input" : path.string();
}

DocumentEncoder::DocumentEncoder(const PrepareOptions& options, const Tokenizer& tokenizer)
    : options_(options), tokenizer_(tokenizer) {
  if (options.add_special_tokens) {
    AroundText around = tokenizer.around_text();
    around_.before = std::move(around.before);
    around_.after = std::move(around.after);
  }
  const std::optional<int32_t> end = tokenizer.end_of_text();
  if (options.append_end_of_text && end && (around_.after.empty() || around_.after.back() != *end))
    around_.after.push_back(*end);
  around_.read_special_tokens = options.read_special_tokens;
  if (options.chat) chat_.emplace(*options.chat, tokenizer, around_);
}

void DocumentEncoder::encode(EncodedBlock& block, const std::string& input) const {
  if (chat_ && block.format != TextFormat::kJsonLines && block.format != TextFormat::kJsonList) {
    throw Error(ErrorKind::kInvalidArgument,
                "conversations are read from JSON Lines or a JSON list, and the input is another format", input,
                "Write each conversation as one line of JSON; --format jsonl or json says that a file is that.");
  }
  if (block.format == TextFormat::kPlainText) {
    encode_text(block, block.text.text, block.text.starts_document, block.text.ends_document);
    block.text_bytes = block.text.text.size();
    if (!block.text.text.empty())
      end_document(block, {0, 0, false, block.text.document_hash, is_held_out(block.text.text)});
  } else if (block.holds_tokens) {
    end_token_samples(block, input);
  } else if (block.format == TextFormat::kMds || block.format == TextFormat::kCsv) {
    size_t begin = 0;
    for (const BlockDocument& document : block.text.documents) {
      encode_document(block, std::string_view(block.text.text).substr(begin, document.end - begin), document.number);
      begin = document.end;
    }
  } else {
    for (const JsonLine& line : block.text.lines()) {
      if (chat_) {
        encode_chat(block, line, input);
      } else {
        encode_line(block, line, input);
      }
    }
  }
  std::ranges::move(block.text.skipped, std::back_inserter(block.skipped));
  // Not needed any more, and it may be long before the block is written.
  std::string().swap(block.text.text);
}

void DocumentEncoder::encode_line(EncodedBlock& block, const JsonLine& line, const std::string& input) const {
  std::optional<JsonText> text;
  try {
    text = parse_json_line(line, options_.text_key, input);
  } catch (const Error& error) {
    if (options_.strict) throw;
    block.skipped.push_back(error);
    return;
  }
  if (text->replaced_surrogates && options_.strict) {
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("the text under \"{}\" has an escaped half of a surrogate pair, which is no character",
                            options_.text_key),
                line.place(input), "Without --strict, U+FFFD takes the place of each, and such documents are counted.");
  }
  block.replaced_surrogates += text->replaced_surrogates;
  encode_document(block, text->text, line.number);
}

void DocumentEncoder::encode_chat(EncodedBlock& block, const JsonLine& line, const std::string& input) const {
  const std::string where = line.place(input);
  JsonRecord record;
  try {
    record = parse_json_record(line, input);
  } catch (const Error& error) {
    if (options_.strict) throw;
    block.skipped.push_back(error);
    return;
  }
  if (record.replaced_surrogates && options_.strict) {
    throw Error(ErrorKind::kInvalidArgument,
                "the conversation has an escaped half of a surrogate pair, which is no character", where,
                "Without --strict, U+FFFD takes the place of each, and such conversations are counted.");
  }
  block.replaced_surrogates += record.replaced_surrogates;
  if (!options_.chat->prompts && is_preference_record(record.object))
    return encode_preference(block, line, record, where);
  const ChatSample sample = options_.chat->prompts ? chat_->encode_prompt(record.object, where)
                                                   : chat_->encode(std::move(record.object), where);
  if (block.first_conversation == 0) block.first_conversation = line.number;
  block.chat += sample.counts;
  block.text_bytes += sample.text.size();
  if (!sample.ids.empty()) add_sample(block, sample, line.number, sample.text);
}

// Two documents. Pairs of one prompt are all held out, or none is.
void DocumentEncoder::encode_preference(EncodedBlock& block, const JsonLine& line, JsonRecord& record,
                                        const std::string& where) const {
  const PreferenceSample pair = chat_->encode_preference(std::move(record.object), where);
  if (block.first_preference == 0) block.first_preference = line.number;
  block.chat += pair.counts;
  for (const ChatSample* sample : {&pair.chosen, &pair.rejected}) {
    block.text_bytes += sample->text.size();
    if (!sample->ids.empty()) add_sample(block, *sample, line.number, pair.prompt_text);
  }
}

void DocumentEncoder::add_sample(EncodedBlock& block, const ChatSample& sample, uint64_t line,
                                 std::string_view held_out_by) const {
  block.ids.insert(block.ids.end(), sample.ids.begin(), sample.ids.end());
  block.weights.insert(block.weights.end(), sample.weights.begin(), sample.weights.end());
  end_document(block,
               {0, line, false, hashes_documents_ ? hash_text(sample.text) : Hash128{}, is_held_out(held_out_by)});
}

// They are as they were tokenized, with or without an end-of-text token. Their text is not known here: they are held
// out by their ids.
void DocumentEncoder::end_token_samples(EncodedBlock& block, const std::string& input) const {
  size_t begin = 0;
  for (const auto& [end, number] : block.text.documents) {
    const std::span<const int32_t> ids = std::span(block.ids).subspan(begin, end - begin);
    const auto beyond = std::ranges::find_if(ids, [&](int32_t id) { return id >= tokenizer_.vocabulary_size(); });
    if (beyond != ids.end()) {
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("token id {} is beyond the vocabulary of the tokenizer \"{}\", {}", *beyond,
                              tokenizer_.name(), tokenizer_.vocabulary_size()),
                  fmt::format("{}, sample {}", input, number), "Say with --tokenizer which tokenizer made the tokens.");
    }
    const std::string_view bytes(reinterpret_cast<const char*>(ids.data()), ids.size_bytes());
    block.documents.push_back(
        {end, number, false, hashes_documents_ ? hash_text(bytes) : Hash128{}, is_held_out(bytes)});
    begin = end;
  }
}

// Nothing where its text is null.
void DocumentEncoder::encode_document(EncodedBlock& block, std::optional<std::string_view> text,
                                      uint64_t number) const {
  if (text) encode_text(block, *text, true, true);
  block.text_bytes += text ? text->size() : 0;
  end_document(
      block, {0, number, !text, text && hashes_documents_ ? hash_text(*text) : Hash128{}, text && is_held_out(*text)});
}

// A document's text, or a part of it. Nothing stands around a document of which no token is left.
void DocumentEncoder::encode_text(EncodedBlock& block, std::string_view text, bool starts, bool ends) const {
  if (text.empty()) return;
  const size_t before = block.ids.size();
  if (starts) block.ids.insert(block.ids.end(), around_.before.begin(), around_.before.end());
  const size_t begin = block.ids.size();
  tokenizer_.encode_to(text, options_.read_special_tokens, block.ids);
  if (starts && ends && block.ids.size() == begin) {
    block.ids.resize(before);
  } else if (ends) {
    block.ids.insert(block.ids.end(), around_.after.begin(), around_.after.end());
  }
}

void DocumentEncoder::end_document(EncodedBlock& block, EncodedDocument document) const {
  document.end = block.ids.size();
  block.documents.push_back(document);
}

bool DocumentEncoder::is_held_out(std::string_view text) const {
  return held_out_ > 0 && is_in_fraction(text, held_out_);
}

}  // namespace causeway::data
