// The `post_processor` of a tokenizer.json: the tokens that are put around a text.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "causeway/formats/tokenizer/tokenizer_part.h"

namespace causeway::formats {

class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  virtual std::vector<int32_t> apply(std::vector<int32_t> ids) const = 0;
};

// TemplateProcessing (its `single`; pairs of texts are not encoded here), BertProcessing, RobertaProcessing, ByteLevel
// (which changes no id) and Sequence. Ids must be below `vocabulary_size`. Throws Error(kUnsupported) naming any other.
std::unique_ptr<PostProcessor> read_post_processor(const TokenizerPart& part, int64_t vocabulary_size);

}  // namespace causeway::formats
