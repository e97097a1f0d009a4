#include "causeway/formats/tokenizer/token_decoder.h"

#include <algorithm>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/base/utf8.h"
#include "causeway/formats/tokenizer/added_tokens.h"
#include "causeway/formats/tokenizer/byte_characters.h"
#include "causeway/formats/tokenizer/byte_fallback.h"
#include "causeway/formats/tokenizer/pattern.h"
#include "causeway/formats/tokenizer/pre_tokenizer.h"

namespace causeway::formats {
namespace {

using Texts = std::vector<std::string>;

template <class Function>
class FunctionDecoder final : public TokenDecoder {
 public:
  explicit FunctionDecoder(Function function) : function_(std::move(function)) {}
  Texts apply(Texts tokens) const override { return function_(std::move(tokens)); }

 private:
  Function function_;
};

template <class Function>
std::unique_ptr<TokenDecoder> make_decoder(Function function) {
  return std::make_unique<FunctionDecoder<Function>>(std::move(function));
}

Texts joined(const Texts& tokens) {
  std::string text;
  for (const std::string& token : tokens) text += token;
  return {text};
}

Texts decode_byte_level(Texts tokens) {
  // An added token that is not in this writing stands for itself.
  for (std::string& token : tokens)
    if (std::optional<std::string> bytes = bytes_of_characters(token)) token = std::move(*bytes);
  return joined(tokens);
}

Texts decode_byte_fallback(Texts tokens) {
  Texts result;
  bool in_bytes = false;
  for (std::string& token : tokens) {
    const std::optional<unsigned char> byte = byte_of_token(token);
    if (byte && in_bytes) {
      result.back() += static_cast<char>(*byte);
    } else {
      result.push_back(byte ? std::string(1, static_cast<char>(*byte)) : std::move(token));
    }
    in_bytes = byte.has_value();
  }
  return result;
}

std::unique_ptr<TokenDecoder> read_metaspace_decoder(const TokenizerPart& part) {
  return make_decoder([options = read_metaspace(part)](Texts tokens) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      const bool drops = i == 0 && options.prepend != MetaspaceOptions::Prepend::kNever;
      std::string text;
      for (size_t position = 0; position < tokens[i].size();) {
        if (std::string_view(tokens[i]).substr(position).starts_with(options.replacement)) {
          if (!drops) text += ' ';
          position += options.replacement.size();
        } else {
          text += tokens[i][position++];
        }
      }
      tokens[i] = std::move(text);
    }
    return tokens;
  });
}

// Takes up to `start` times `content` from a token's beginning and up to `stop` times from its end.
std::unique_ptr<TokenDecoder> read_strip_decoder(const TokenizerPart& part) {
  part.require_known_keys({"type", "content", "start", "stop"});
  const std::string content = part.text("content");
  if (content.empty() || decode_utf8(content, 0).size != content.size()) part.fail("\"content\" is not one character");
  return make_decoder([content, start = part.number("start"), stop = part.number("stop")](Texts tokens) {
    for (std::string& token : tokens) {
      std::string_view rest = token;
      for (int32_t i = 0; i < start && rest.starts_with(content); ++i) rest.remove_prefix(content.size());
      for (int32_t i = 0; i < stop && rest.ends_with(content); ++i) rest.remove_suffix(content.size());
      token = std::string(rest);
    }
    return tokens;
  });
}

std::unique_ptr<TokenDecoder> read_suffix_decoder(const TokenizerPart& part) {
  part.require_known_keys({"type", "suffix"});
  const std::string suffix = part.text("suffix");
  if (suffix.empty()) part.refuse("an empty suffix");
  if (suffix.size() > AddedTokens::kLongestToken)
    part.fail(fmt::format("a suffix of {} bytes; at most {} are read", suffix.size(), AddedTokens::kLongestToken));
  return make_decoder([suffix](Texts tokens) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      const std::string token = std::exchange(tokens[i], {});
      size_t begin = 0;
      for (size_t at = token.find(suffix); at != std::string::npos; at = token.find(suffix, begin)) {
        tokens[i].append(token, begin, at - begin);
        if (i + 1 < tokens.size()) tokens[i] += ' ';
        begin = at + suffix.size();
      }
      tokens[i].append(token, begin);
    }
    return tokens;
  });
}

std::unique_ptr<TokenDecoder> read_replace_decoder(const TokenizerPart& part) {
  part.require_known_keys({"type", "pattern", "content"});
  auto pattern = std::make_shared<Pattern>(read_pattern(part.part("pattern")));
  return make_decoder([pattern, content = part.text("content")](Texts tokens) {
    for (std::string& token : tokens) token = replace_matches(*pattern, token, content);
    return tokens;
  });
}

size_t total_bytes(const Texts& tokens) {
  size_t total = 0;
  for (const std::string& token : tokens) total += token.size();
  return total;
}

std::unique_ptr<TokenDecoder> read_sequence_decoder(const TokenizerPart& part) {
  part.require_known_keys({"type", "decoders"});
  auto steps = std::make_shared<std::vector<std::unique_ptr<TokenDecoder>>>();
  for (const TokenizerPart& one : part.parts("decoders")) steps->push_back(read_decoder(one));
  return make_decoder([steps](Texts tokens) {
    const size_t before = total_bytes(tokens);
    for (const auto& step : *steps) {
      tokens = step->apply(std::move(tokens));
      require_bounded_growth(before, total_bytes(tokens));
    }
    return tokens;
  });
}

}  // namespace

std::unique_ptr<TokenDecoder> read_decoder(const TokenizerPart& part) {
  const std::string type = part.type();
  if (type == "Sequence") return read_sequence_decoder(part);
  if (type == "Replace") return read_replace_decoder(part);
  if (type == "Strip") return read_strip_decoder(part);
  if (type == "Metaspace") return read_metaspace_decoder(part);
  if (type == "BPEDecoder") return read_suffix_decoder(part);
  if (type == "ByteLevel") {
    part.require_known_keys({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    return make_decoder(&decode_byte_level);
  }
  if (type == "ByteFallback" || type == "Fuse") {
    part.require_known_keys({"type"});
    if (type == "Fuse") return make_decoder(&joined);
    return make_decoder(&decode_byte_fallback);
  }
  part.refuse(fmt::format("the decoder \"{}\"", type));
}

}  // namespace causeway::formats
