// The `post_processor` of a tokenizer.json: the tokens that are put around a text.
#pragma once

#include <cstdint>

#include "causeway/formats/tokenizer/tokenizer.h"
#include "causeway/formats/tokenizer/tokenizer_part.h"

namespace causeway::formats {

// TemplateProcessing (its `single`; pairs of texts are not encoded here), BertProcessing, RobertaProcessing, ByteLevel
// (which changes no id) and Sequence. Ids must be below `vocabulary_size`. Throws Error(kUnsupported) naming any other,
// and a template that has the text more than once.
AroundText read_post_processor(const TokenizerPart& part, int64_t vocabulary_size);

}  // namespace causeway::formats
