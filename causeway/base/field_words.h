// What to say of a name that is not known: the one place that suggests others. The field has many names for one thing,
// and many things that are not here; a name may also be a typing mistake, and is then close to a right one.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace causeway {

// What a name was meant to be.
enum class NameOf {
  kOther,
  kRecipeKey,         // "optimizer.learning_rate"
  kModelFamily,       // model.family
  kOptimizer,         // optimizer.name
  kDevice,            // device
  kPrecision,         // train.precision
  kSchedule,          // schedule.kind
  kRecompute,         // train.recompute
  kPipelineSchedule,  // train.pipeline_schedule
  kCommand,           // of the command line
  kOption,            // of a command, without its dashes
};

// Words that the field uses, and what they are called here.
struct FieldWord {
  NameOf what = NameOf::kOther;
  std::string_view words;     // separated by spaces, lower case, '_' for '-'
  std::string_view names;     // those here, separated by spaces; none where there is no such thing
  std::string_view sentence;  // what else to know, or why there is none; may be empty where there are names
};
std::span<const FieldWord> field_words();

// What to do next, for who wrote `name` where only `candidates` are known: what the field's word is called here, or
// that there is none; "Did you mean X?" for the candidate that it is a typing mistake of (nearest_name()); otherwise
// `otherwise`. Upper case and '-' do not matter for words of the field. `more`: words besides field_words(), of
// other things than recipes' keys.
std::string name_hint(NameOf what, std::string_view name, const std::vector<std::string>& candidates,
                      std::string_view otherwise = {}, std::span<const FieldWord> more = {});

}  // namespace causeway
