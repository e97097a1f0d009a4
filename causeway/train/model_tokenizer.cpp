#include "causeway/train/model_tokenizer.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/base/printable.h"
#include "causeway/base/utf8.h"
#include "causeway/train/checkpoint/checkpoint_path.h"
#include "causeway/train/checkpoint/run_checkpoint.h"

namespace causeway::train {
namespace {

// Words, numbers, spaces and scripts that tokenizers cut in different places.
constexpr std::string_view kProbe =
    "The quick brown fox doesn't jump over 1234567 lazy dogs;  it's 3.14 (approximately).\n\n\tif (x != NULL) "
    "{ return x->value; }\nÜber naïve Straßen, где живут люди, 東京タワーは高い, 한국어, العربية, हिन्दी "
    "\xF0\x9F\x98\x80!";

// A token as text. Of bytes that are no whole character kinds of tokenizers give different things: they are left out.
std::string text_of(const Tokenizer& tokenizer, int32_t id) {
  constexpr uint32_t kReplacement = 0xFFFD;
  const std::string bytes = tokenizer.decode(std::vector<int32_t>{id});
  std::string text;
  for (size_t i = 0; i < bytes.size();) {
    const Utf8Character character = decode_utf8(bytes, i);
    if (character.code_point != kInvalidCodePoint && character.code_point != kReplacement)
      text.append(bytes, i, character.size);
    i += character.size;
  }
  return text;
}

std::unique_ptr<Tokenizer> tokenizer_or_nothing(const auto& load, std::string& why) {
  try {
    return load();
  } catch (const Error& error) {
    why = error.message();
    return nullptr;
  }
}

}  // namespace

std::string tokenizer_difference(const Tokenizer& one, const Tokenizer& other) {
  const auto common = static_cast<int32_t>(std::min(one.vocabulary_size(), other.vocabulary_size()));
  for (int32_t id = 0; id < common; ++id) {
    const std::string of_one = text_of(one, id), of_other = text_of(other, id);
    if (of_one != of_other)
      return fmt::format("token {} is \"{}\" in one and \"{}\" in the other", id, printable(of_one),
                         printable(of_other));
  }
  if (one.encode(kProbe) != other.encode(kProbe)) return "they cut the same text into different tokens";
  return {};
}

std::string compare_with_tokenizer_of_model(const Recipe& recipe, const TokenDataset& dataset) {
  const std::string& directory = recipe.model_from;
  if (!dataset.tokenizer_identity()) {
    return fmt::format(
        "data: {} does not say which tokenizer made its tokens; the model of {} knows those of its own alone",
        dataset.path().string(), directory);
  }
  std::string why;
  // A checkpoint may be of a tokenizer without files.
  const std::unique_ptr<Tokenizer> of_model = tokenizer_or_nothing(
      [&] {
        return is_checkpoint(directory) ? checkpoint_tokenizer(CheckpointReader(directory))
                                        : formats::load_tokenizer(directory);
      },
      why);
  if (of_model == nullptr) {
    return fmt::format("data: whether it was made with the tokenizer of {} cannot be told: {}", directory, why);
  }
  if (of_model->fingerprint() == dataset.tokenizer_identity()->fingerprint) return {};
  const std::unique_ptr<Tokenizer> of_data = tokenizer_or_nothing([&] { return dataset.load_tokenizer(); }, why);
  const std::string difference = of_data != nullptr
                                     ? tokenizer_difference(*of_data, *of_model)
                                     : fmt::format("their fingerprints differ, and the data's cannot be read: {}", why);
  if (difference.empty()) return {};
  const std::string what =
      fmt::format("the data was made with another tokenizer than that of {}: {}", directory, difference);
  if (recipe.data.allow_other_tokenizer) return fmt::format("data: {}; data.allow_other_tokenizer allows it", what);
  throw Error(
      ErrorKind::kInvalidArgument, what, dataset.path().string(),
      fmt::format("Prepare the data with the model's: causeway data prepare TEXT --output DIRECTORY --tokenizer "
                  "{}. To train the model on these tokens all the same, set data.allow_other_tokenizer=true.",
                  directory));
}

}  // namespace causeway::train
