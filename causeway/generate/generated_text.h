// A text as its tokens come: what can be shown of it, and whether one of the texts that end it is there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "causeway/formats/tokenizer/tokenizer.h"

namespace causeway::generate {

class GeneratedText {
 public:
  // Behind `prompt`. Ends before the first of `stops`; empty ones are ignored. The tokenizer outlives it.
  GeneratedText(const Tokenizer& tokenizer, const std::vector<int32_t>& prompt, std::vector<std::string> stops);

  // The text that can be shown since the last call: what might be the beginning of a stop waits.
  std::string add(int32_t token);
  // What has waited, at the end of all tokens.
  std::string finish();

  bool has_stopped() const { return has_stopped_; }
  const std::string& text() const { return shown_; }  // what was shown

 private:
  std::string show(size_t bytes);

  const Tokenizer& tokenizer_;
  std::vector<std::string> stops_;
  // What a token reads as may depend on those before it: a decoder may drop the first space of all. So each is read
  // behind a few that are known.
  std::vector<int32_t> recent_;
  std::string shown_, waiting_;
  bool has_stopped_ = false;
};

}  // namespace causeway::generate
