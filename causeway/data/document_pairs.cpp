#include "causeway/data/document_pairs.h"

#include <algorithm>

#include "causeway/base/error.h"

namespace causeway::data {

DocumentPairs::DocumentPairs(const TokenDataset& dataset, size_t source, int64_t sequence_length, bool all_are_inputs) {
  const TokenDataset::Source& of = dataset.sources()[source];
  const auto refuse = [&](const std::string& what, const std::string& hint) {
    throw Error(ErrorKind::kInvalidArgument, what, of.path.string(), hint);
  };
  if (!dataset.holds_pairs())
    refuse("the dataset holds no preference pairs",
           "Prepare some: causeway data prepare pairs.jsonl --chat, of records with \"chosen\" and \"rejected\".");
  CAUSEWAY_CHECK(sequence_length >= 1);
  const uint64_t behind_inputs = all_are_inputs ? 0 : 1, most = static_cast<uint64_t>(sequence_length) + behind_inputs;
  uint64_t longer = 0, longest = 0;
  dataset.visit_documents(of, [&](uint64_t offset, uint64_t tokens) {
    longer += tokens > most ? 1 : 0;
    longest = std::max(longest, tokens);
    offsets_.push_back(offset);
    tokens_.push_back(static_cast<uint32_t>(tokens));
  });
  if (offsets_.size() % 2 != 0)
    refuse(fmt::format("the {} documents are no pairs", offsets_.size()), "Prepare the dataset again.");
  if (longer > 0)
    refuse(fmt::format("{} of {} completions with their prompts have more than {} tokens, the longest {}", longer,
                       offsets_.size(), most, longest),
           fmt::format("Prepare the data with --max-length {}, which cuts them and says how many; or set "
                       "data.sequence_length={}.",
                       most, longest - behind_inputs));
}

SampleWindow DocumentPairs::window(uint64_t sample) const {
  CAUSEWAY_CHECK(sample < offsets_.size());
  return {0, offsets_[sample], tokens_[sample]};
}

std::vector<SampleWindow> PairOrder::windows(uint64_t sample) const {
  const EpochOrder::Visit visit = epochs_.visit(sample / 2);
  SampleWindow window = pairs_->window(2 * visit.number + sample % 2);
  window.epoch = visit.epoch;
  return {window};
}

}  // namespace causeway::data
