// GPT-2's tokenizer, read once.
#pragma once

#include "causeway/formats/tokenizer/gpt2_tokenizer.h"
#include "tests/fixtures/data_test_support.h"

namespace causeway::formats {

inline const Gpt2Tokenizer& gpt2() {
  static const Gpt2Tokenizer tokenizer = Gpt2Tokenizer::load(gpt2_directory());
  return tokenizer;
}

}  // namespace causeway::formats
