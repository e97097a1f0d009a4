// A preference pair as a line of JSON: two completions of one prompt, of which "chosen" was preferred to "rejected".
// Both are texts or both lists of messages. The prompt stands beside them under "prompt", or both begin with it. Of
// lists, a prompt that stands beside them may begin both as well.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "causeway/namespaces.h"

namespace causeway::data {

// Whether a record has a field of pairs.
bool is_preference_record(const nlohmann::ordered_json& record);

// Each side with its prompt: records of the form {"prompt", "completion"} (chat_record.h), with what else they read of
// the pair.
struct PreferenceRecord {
  nlohmann::ordered_json chosen, rejected;
};

// Throws Error(kInvalidArgument) naming `where` for a record without one of its sides (with the fields that it has),
// with sides that are of different kinds, empty or equal, with a prompt that is none of both, and for texts without a
// prompt beside a field that looks like one; Error(kUnsupported) for one with "margin", which a reward model would have
// to keep between the scores of its sides.
PreferenceRecord read_preference_record(nlohmann::ordered_json record, const std::string& where);

}  // namespace causeway::data
