// The `decoder` of a tokenizer.json: tokens to text.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "causeway/formats/tokenizer/tokenizer_part.h"

namespace causeway::formats {

class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;
  // The texts that `tokens` become, to be joined without anything between. Bytes that are not UTF-8 come out as they
  // are. May be called from many threads at once.
  virtual std::vector<std::string> apply(std::vector<std::string> tokens) const = 0;
};

// ByteLevel, Metaspace, ByteFallback, Replace, Fuse, Strip, BPEDecoder and Sequence. Throws Error(kUnsupported) naming
// any other (WordPiece, CTC).
std::unique_ptr<TokenDecoder> read_decoder(const TokenizerPart& part);

}  // namespace causeway::formats
