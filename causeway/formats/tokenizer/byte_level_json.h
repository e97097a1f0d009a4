// The tokenizer.json of a byte-level vocabulary, as Hugging Face's tokenizers write it.
#pragma once

#include <string>

#include "causeway/formats/tokenizer/byte_pair_training.h"
#include "causeway/namespaces.h"

namespace causeway::formats {

// Of a trained vocabulary: GPT-2's splitting, and "<|endoftext|>" as the last id.
std::string byte_pair_tokenizer_json(const TrainedBytePairs& trained);

// Of bytes, for other software: GPT-2's 256 characters for bytes, each at the id of its byte, without merges. Of text
// in UTF-8 it gives the ids that ByteTokenizer gives.
std::string byte_tokenizer_json();

}  // namespace causeway::formats
