// The `pre_tokenizer` of a tokenizer.json: normalized text to the pieces that the model encodes one by one.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/formats/tokenizer/text_origins.h"
#include "causeway/formats/tokenizer/tokenizer_part.h"

namespace causeway::formats {

// A text and the pieces of it that are left, in order and not empty.
struct TextPieces {
  struct Piece {
    size_t begin = 0;
    size_t end = 0;
  };
  std::string text;
  std::vector<Piece> pieces;
  // Where each byte of the text came from; empty where nobody asks.
  TextOrigins origins;
  // Whether the first piece begins where the whole input does.
  bool starts_input = false;

  std::string_view view(const Piece& piece) const {
    return std::string_view(text).substr(piece.begin, piece.end - piece.begin);
  }
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Splits or rewrites every piece. The text is UTF-8 and stays so. May be called from many threads at once.
  virtual void apply(TextPieces& pieces) const = 0;
  // Whether text may be cut in front of a space between two letters without changing what comes of either side.
  virtual bool may_cut_before_spaces() const { return false; }
  // Whether what begins the input is treated unlike the rest (Metaspace with prepend_scheme "first").
  virtual bool marks_first_piece() const { return false; }
};

// ByteLevel, Split, Metaspace, Digits, Punctuation, Whitespace, WhitespaceSplit, CharDelimiterSplit and Sequence.
// Throws Error(kUnsupported) naming any other (BertPreTokenizer, UnicodeScripts, FixedLength).
std::unique_ptr<PreTokenizer> read_pre_tokenizer(const TokenizerPart& part);

// How Metaspace marks spaces; its decoder reads the same keys.
struct MetaspaceOptions {
  enum class Prepend { kAlways, kFirst, kNever };
  std::string replacement;  // one character
  Prepend prepend = Prepend::kAlways;
  bool split = true;
};
MetaspaceOptions read_metaspace(const TokenizerPart& part);

}  // namespace causeway::formats
