// The `normalizer` of a tokenizer.json: text to text, before anything is split.
#pragma once

#include <memory>
#include <string>

#include "causeway/formats/tokenizer/text_origins.h"
#include "causeway/formats/tokenizer/tokenizer_part.h"

namespace causeway::formats {

class TextNormalizer {
 public:
  virtual ~TextNormalizer() = default;
  // `text` is UTF-8, and so is the result. May be called from many threads at once.
  virtual std::string apply(std::string text) const = 0;
  // The same; `origins` are those of the text that goes in, and become those of what comes out.
  virtual std::string apply_tracked(std::string text, TextOrigins& origins) const = 0;
  // Whether the first character that comes out was made of the first one that went in.
  virtual bool keeps_start() const = 0;
};

// NFC, NFD, NFKC, NFKD, Lowercase, Strip, StripAccents, Prepend, Replace, ByteLevel and Sequence. Throws
// Error(kUnsupported) naming any other (Precompiled, BertNormalizer, Nmt).
std::unique_ptr<TextNormalizer> read_normalizer(const TokenizerPart& part);

}  // namespace causeway::formats
