#include "causeway/formats/tokenizer/pre_tokenizer.h"

#include <functional>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/base/utf8.h"
#include "causeway/formats/tokenizer/byte_characters.h"
#include "causeway/formats/tokenizer/gpt2_scanner.h"
#include "causeway/formats/tokenizer/pattern.h"
#include "causeway/formats/tokenizer/unicode_classes.h"
#include "causeway/formats/tokenizer/unicode_text.h"

namespace causeway::formats {
namespace {

using Piece = TextPieces::Piece;

// What becomes of the delimiters that a piece is split at.
enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

Behavior read_behavior(const TokenizerPart& part) {
  static constexpr std::pair<std::string_view, Behavior> kBehaviors[] = {
      {"Removed", Behavior::kRemoved},
      {"Isolated", Behavior::kIsolated},
      {"MergedWithPrevious", Behavior::kMergedWithPrevious},
      {"MergedWithNext", Behavior::kMergedWithNext},
      {"Contiguous", Behavior::kContiguous},
  };
  const std::string name = part.text("behavior");
  for (const auto& [known, behavior] : kBehaviors)
    if (name == known) return behavior;
  part.refuse(fmt::format("the behavior \"{}\"", name));
}

// Takes the matches and the gaps of one piece in order and adds what they become to the pieces.
class Splitter {
 public:
  Splitter(std::vector<Piece>& to, Behavior behavior) : to_(to), first_(to.size()), behavior_(behavior) {}

  void add(Piece span, bool is_match) {
    if (span.begin == span.end) return;
    const bool is_first = to_.size() == first_;
    switch (behavior_) {
      case Behavior::kRemoved:
        if (!is_match) to_.push_back(span);
        break;
      case Behavior::kIsolated:
        to_.push_back(span);
        break;
      case Behavior::kContiguous:
        if (is_match == previous_ && !is_first) {
          to_.back().end = span.end;
        } else {
          to_.push_back(span);
        }
        break;
      case Behavior::kMergedWithPrevious:
        if (is_match && !previous_ && !is_first) {
          to_.back().end = span.end;
        } else {
          to_.push_back(span);
        }
        break;
      case Behavior::kMergedWithNext:
        // A delimiter that another one follows stays alone.
        if (!is_match && previous_ && !is_first) {
          to_.back().end = span.end;
        } else {
          to_.push_back(span);
        }
        break;
    }
    previous_ = is_match;
  }

 private:
  std::vector<Piece>& to_;
  size_t first_;
  Behavior behavior_;
  bool previous_ = false;
};

// Splits where for_each(text, take) calls take(begin, end) for the matches of a text, in order.
template <class ForEach>
void split_pieces(TextPieces& pieces, Behavior behavior, bool invert, const ForEach& for_each) {
  std::vector<Piece> result;
  result.reserve(pieces.pieces.size());
  for (const Piece& piece : pieces.pieces) {
    Splitter splitter(result, behavior);
    size_t done = piece.begin;
    for_each(pieces.view(piece), [&](size_t begin, size_t end) {
      splitter.add({done, piece.begin + begin}, invert);
      splitter.add({piece.begin + begin, piece.begin + end}, !invert);
      done = piece.begin + end;
    });
    splitter.add({done, piece.end}, invert);
  }
  pieces.pieces = std::move(result);
}

class Split final : public PreTokenizer {
 public:
  explicit Split(const TokenizerPart& part)
      : pattern_(read_pattern(part.part("pattern"))), behavior_(read_behavior(part)), invert_(part.flag("invert")) {
    part.require_known_keys({"type", "pattern", "behavior", "invert"});
  }
  void apply(TextPieces& pieces) const override {
    split_pieces(pieces, behavior_, invert_,
                 [&](std::string_view text, const auto& take) { pattern_.expression.for_each_match(text, take); });
  }
  // Known of these expressions: they take a space as the first character of a match or among other spaces, look at
  // nothing but spaces beyond a match, and end a match of letters in front of a space.
  bool may_cut_before_spaces() const override {
    static constexpr std::string_view kExpressions[] = {
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
        R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
    };
    if (behavior_ != (invert_ ? Behavior::kRemoved : Behavior::kIsolated)) return false;
    for (const std::string_view known : kExpressions)
      if (pattern_.written == known) return true;
    return false;
  }

 private:
  Pattern pattern_;
  Behavior behavior_;
  bool invert_;
};

class ByteLevel final : public PreTokenizer {
 public:
  explicit ByteLevel(const TokenizerPart& part)
      : adds_prefix_space_(part.flag("add_prefix_space")), splits_(part.flag("use_regex", true)) {
    part.require_known_keys({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  }
  void apply(TextPieces& pieces) const override {
    std::string written;
    written.reserve(pieces.text.size() + pieces.text.size() / 4);
    std::vector<Piece> result;
    result.reserve(pieces.pieces.size());
    std::string with_space;
    TextOrigins origins;
    const bool tracks = !pieces.origins.empty();
    for (const Piece& piece : pieces.pieces) {
      std::string_view text = pieces.view(piece);
      const bool adds_space = adds_prefix_space_ && !text.starts_with(' ');
      if (adds_space) text = with_space = " " + std::string(text);
      for (size_t i = 0; tracks && i < text.size(); ++i) {
        // The space that is put in front is of what it stands in front of.
        const TextSpan origin = pieces.origins[piece.begin + i - (adds_space && i > 0 ? 1 : 0)];
        origins.insert(origins.end(), byte_character(static_cast<unsigned char>(text[i])).size(), origin);
      }
      for (size_t position = 0; position < text.size();) {
        const size_t size = splits_ ? gpt2_piece_size(text, position) : text.size();
        const size_t begin = written.size();
        append_byte_characters(written, text.substr(position, size));
        result.push_back({begin, written.size()});
        position += size;
      }
    }
    pieces.text = std::move(written);
    pieces.origins = std::move(origins);
    pieces.pieces = std::move(result);
  }
  // Merges may cross the spaces of what is not split.
  bool may_cut_before_spaces() const override { return splits_ && !adds_prefix_space_; }

 private:
  bool adds_prefix_space_;
  bool splits_;
};

class Metaspace final : public PreTokenizer {
 public:
  explicit Metaspace(const TokenizerPart& part) : options_(read_metaspace(part)) {}
  void apply(TextPieces& pieces) const override {
    const std::string& mark = options_.replacement;
    TextPieces result;
    result.starts_input = pieces.starts_input;
    for (const Piece& piece : pieces.pieces) {
      const size_t begin = result.text.size();
      const std::string_view text = pieces.view(piece);
      const bool is_first = pieces.starts_input && &piece == pieces.pieces.data();
      const bool prepends = options_.prepend == MetaspaceOptions::Prepend::kAlways ||
                            (options_.prepend == MetaspaceOptions::Prepend::kFirst && is_first);
      const std::span<const TextSpan> of_piece =
          pieces.origins.empty() ? std::span<const TextSpan>() : std::span(pieces.origins).subspan(piece.begin);
      const auto add_origin = [&](size_t bytes, TextSpan origin) {
        result.origins.insert(result.origins.end(), bytes, origin);
      };
      if (prepends && !text.starts_with(mark) && !text.starts_with(' ')) {
        result.text += mark;
        if (!of_piece.empty()) add_origin(mark.size(), of_piece[0]);
      }
      for (size_t i = 0; i < text.size(); ++i) {
        const char byte = text[i];
        if (!of_piece.empty()) add_origin(byte == ' ' ? mark.size() : 1, of_piece[i]);
        if (byte == ' ')
          result.text += mark;
        else
          result.text += byte;
      }
      result.pieces.push_back({begin, result.text.size()});
    }
    if (options_.split) {
      split_pieces(result, Behavior::kMergedWithNext, false, [&](std::string_view text, const auto& take) {
        for (size_t at = text.find(mark); at != std::string_view::npos; at = text.find(mark, at + mark.size()))
          take(at, at + mark.size());
      });
    }
    pieces = std::move(result);
  }
  bool marks_first_piece() const override { return options_.prepend == MetaspaceOptions::Prepend::kFirst; }

 private:
  MetaspaceOptions options_;
};

// Splits at single characters of a kind.
class CharacterSplit final : public PreTokenizer {
 public:
  CharacterSplit(std::function<bool(uint32_t)> is_delimiter, Behavior behavior)
      : is_delimiter_(std::move(is_delimiter)), behavior_(behavior) {}
  void apply(TextPieces& pieces) const override {
    split_pieces(pieces, behavior_, false, [&](std::string_view text, const auto& take) {
      for (size_t position = 0; position < text.size();) {
        const Utf8Character character = decode_utf8(text, position);
        if (is_delimiter_(character.code_point)) take(position, position + character.size);
        position += character.size;
      }
    });
  }

 private:
  std::function<bool(uint32_t)> is_delimiter_;
  Behavior behavior_;
};

// Runs of word characters, and runs of what is neither that nor space.
class Whitespace final : public PreTokenizer {
 public:
  void apply(TextPieces& pieces) const override {
    split_pieces(pieces, Behavior::kIsolated, false, [](std::string_view text, const auto& take) {
      size_t begin = 0;
      for (size_t position = 0; position < text.size();) {
        const Utf8Character character = decode_utf8(text, position);
        if (position > 0 && kind(character.code_point) != kind(decode_utf8(text, begin).code_point)) {
          take(begin, position);
          begin = position;
        }
        position += character.size;
      }
      if (begin < text.size()) take(begin, text.size());
    });
    std::erase_if(pieces.pieces,
                  [&](const Piece& piece) { return kind(decode_utf8(pieces.text, piece.begin).code_point) == 0; });
  }

 private:
  static int kind(uint32_t code_point) {
    return is_word(code_point) ? 1 : character_class(code_point) == CharacterClass::kSpace ? 0 : 2;
  }
};

class Sequence final : public PreTokenizer {
 public:
  explicit Sequence(const TokenizerPart& part) {
    part.require_known_keys({"type", "pretokenizers"});
    for (const TokenizerPart& one : part.parts("pretokenizers")) {
      if (!steps_.empty() && one.type() == "Metaspace" &&
          read_metaspace(one).prepend == MetaspaceOptions::Prepend::kFirst)
        one.refuse("prepend_scheme \"first\" behind another pre-tokenizer");
      steps_.push_back(read_pre_tokenizer(one));
    }
  }
  void apply(TextPieces& pieces) const override {
    for (const auto& step : steps_) step->apply(pieces);
  }
  bool marks_first_piece() const override { return !steps_.empty() && steps_.front()->marks_first_piece(); }
  bool may_cut_before_spaces() const override {
    // Only what comes first sees the text as it was; bytes behind it are of the same pieces on both sides of a cut.
    return !steps_.empty() && steps_.front()->may_cut_before_spaces() &&
           (steps_.size() == 1 || (steps_.size() == 2 && dynamic_cast<const ByteLevel*>(steps_[1].get()) != nullptr));
  }

 private:
  std::vector<std::unique_ptr<PreTokenizer>> steps_;
};

bool is_number(uint32_t code_point) { return character_class(code_point) == CharacterClass::kNumber; }
bool is_space(uint32_t code_point) { return character_class(code_point) == CharacterClass::kSpace; }

}  // namespace

MetaspaceOptions read_metaspace(const TokenizerPart& part) {
  part.require_known_keys({"type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
  MetaspaceOptions options;
  options.replacement = part.text("replacement");
  if (options.replacement.empty() || decode_utf8(options.replacement, 0).size != options.replacement.size())
    part.fail("\"replacement\" is not one character");
  if (options.replacement == " ") part.refuse("a replacement of spaces by spaces");
  options.split = part.flag("split", true);
  const std::string scheme = part.optional_text("prepend_scheme").value_or("always");
  if (scheme == "always") {
    options.prepend = MetaspaceOptions::Prepend::kAlways;
  } else if (scheme == "first") {
    options.prepend = MetaspaceOptions::Prepend::kFirst;
  } else if (scheme == "never") {
    options.prepend = MetaspaceOptions::Prepend::kNever;
  } else {
    part.refuse(fmt::format("the prepend_scheme \"{}\"", scheme));
  }
  // What files said before there was a prepend_scheme.
  if (!part.flag("add_prefix_space", true)) {
    if (part.has("prepend_scheme") && scheme != "never") part.fail("add_prefix_space contradicts prepend_scheme");
    options.prepend = MetaspaceOptions::Prepend::kNever;
  }
  return options;
}

std::unique_ptr<PreTokenizer> read_pre_tokenizer(const TokenizerPart& part) {
  const std::string type = part.type();
  if (type == "Sequence") return std::make_unique<Sequence>(part);
  if (type == "Split") return std::make_unique<Split>(part);
  if (type == "ByteLevel") return std::make_unique<ByteLevel>(part);
  if (type == "Metaspace") return std::make_unique<Metaspace>(part);
  if (type == "Digits") {
    part.require_known_keys({"type", "individual_digits"});
    return std::make_unique<CharacterSplit>(
        &is_number, part.flag("individual_digits") ? Behavior::kIsolated : Behavior::kContiguous);
  }
  if (type == "Punctuation") {
    part.require_known_keys({"type", "behavior"});
    return std::make_unique<CharacterSplit>(&is_punctuation,
                                            part.has("behavior") ? read_behavior(part) : Behavior::kIsolated);
  }
  if (type == "CharDelimiterSplit") {
    part.require_known_keys({"type", "delimiter"});
    const std::string delimiter = part.text("delimiter");
    if (delimiter.empty() || decode_utf8(delimiter, 0).size != delimiter.size())
      part.fail("\"delimiter\" is not one character");
    const uint32_t code_point = decode_utf8(delimiter, 0).code_point;
    return std::make_unique<CharacterSplit>([code_point](uint32_t one) { return one == code_point; },
                                            Behavior::kRemoved);
  }
  if (type == "WhitespaceSplit" || type == "Whitespace") {
    part.require_known_keys({"type"});
    if (type == "Whitespace") return std::make_unique<Whitespace>();
    return std::make_unique<CharacterSplit>(&is_space, Behavior::kRemoved);
  }
  part.refuse(fmt::format("the pre-tokenizer \"{}\"", type));
}

}  // namespace causeway::formats
