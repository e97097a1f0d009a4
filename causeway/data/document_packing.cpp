#include "causeway/data/document_packing.h"

#include <algorithm>
#include <limits>
#include <map>

#include "causeway/base/error.h"

namespace causeway::data {
namespace {

uint32_t checked_packed_length(int64_t sequence_length) {
  if (sequence_length < 1 || sequence_length > std::numeric_limits<int32_t>::max()) {
    throw Error(ErrorKind::kInvalidArgument, fmt::format("the sequence length is {}", sequence_length),
                "sequence length", "It must be from 1 to 2147483647.");
  }
  return static_cast<uint32_t>(sequence_length);
}

}  // namespace

DocumentPacking::DocumentPacking(const TokenDataset& dataset, size_t source, int64_t sequence_length)
    : sequence_length_(checked_packed_length(sequence_length)) {
  const TokenDataset::Source& of = dataset.sources()[source];
  if (!dataset.knows_documents(of)) {
    throw Error(ErrorKind::kInvalidArgument,
                "the token file does not tell where documents begin, which packing them needs", of.path.string(),
                "Set data.packing=windows, or use a dataset that \"causeway data prepare\" wrote.");
  }
  std::vector<Piece> group;
  uint64_t group_positions = 0;
  const bool has_targets = dataset.has_targets();
  std::vector<uint8_t> targets;
  const auto is_wanted = [&](uint64_t offset, uint64_t positions) {
    if (!has_targets) return true;
    targets.resize(positions);
    dataset.read_targets(offset + 1, targets);
    const bool any = std::ranges::find(targets, uint8_t{1}) != targets.end();
    pieces_without_target_ += any ? 0 : 1;
    return any;
  };
  dataset.visit_documents(of, [&](uint64_t offset, uint64_t tokens) {
    uint64_t positions = tokens - 1;
    if (positions == 0) return;
    ++documents_;
    cut_documents_ += positions > sequence_length_ ? 1 : 0;
    for (; positions >= sequence_length_; positions -= sequence_length_, offset += sequence_length_)
      if (is_wanted(offset, sequence_length_)) add_sample({{offset, sequence_length_}});
    if (positions == 0 || !is_wanted(offset, positions)) return;
    group.push_back({offset, static_cast<uint32_t>(positions)});
    group_positions += positions;
    if (group.size() < kLeastGroupPieces || group_positions / sequence_length_ < kLeastGroupSamples) return;
    pack(group);
    group.clear();
    group_positions = 0;
  });
  pack(group);
  if (documents_ == 0) {
    throw Error(ErrorKind::kInvalidArgument, "no document has two tokens: there is nothing to predict",
                of.path.string(), "Use other text, or set data.packing=windows.");
  }
  if (sample_count() == 0) {
    throw Error(ErrorKind::kInvalidArgument, "the dataset says of none of its tokens that it is a target",
                of.path.string(), "Look at what is trained on with \"causeway data inspect\", and prepare it again.");
  }
  positions_.shrink_to_fit();
  offsets_.shrink_to_fit();
  first_pieces_.shrink_to_fit();
}

void DocumentPacking::add_sample(const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) {
    offsets_.push_back(piece.offset);
    positions_.push_back(piece.positions);
    filled_positions_ += piece.positions;
  }
  first_pieces_.push_back(offsets_.size());
}

// Longest first, each into the sample with the least room that takes it: of several the one that had that room last, of
// none a new one.
void DocumentPacking::pack(std::vector<Piece>& group) {
  std::ranges::sort(group, [](const Piece& a, const Piece& b) {
    return a.positions != b.positions ? a.positions > b.positions : a.offset < b.offset;
  });
  std::vector<std::vector<Piece>> samples;
  std::map<uint32_t, std::vector<size_t>> samples_by_room;
  for (const Piece& piece : group) {
    uint32_t room = sequence_length_;
    size_t sample = samples.size();
    if (const auto found = samples_by_room.lower_bound(piece.positions); found != samples_by_room.end()) {
      room = found->first;
      sample = found->second.back();
      found->second.pop_back();
      if (found->second.empty()) samples_by_room.erase(found);
    } else {
      samples.emplace_back();
    }
    samples[sample].push_back(piece);
    if (room > piece.positions) samples_by_room[room - piece.positions].push_back(sample);
  }
  for (const std::vector<Piece>& sample : samples) add_sample(sample);
}

std::vector<SampleWindow> DocumentPacking::windows(uint64_t sample) const {
  CAUSEWAY_CHECK(sample < sample_count());
  std::vector<SampleWindow> windows;
  for (uint64_t i = first_pieces_[sample]; i < first_pieces_[sample + 1]; ++i)
    windows.push_back({0, offsets_[i], uint64_t{positions_[i]} + 1});
  return windows;
}

double DocumentPacking::padding() const {
  return 1 - static_cast<double>(filled_positions_) /
                 (static_cast<double>(sample_count()) * static_cast<double>(sequence_length_));
}

std::vector<SampleWindow> PackedOrder::windows(uint64_t sample) const {
  const EpochOrder::Visit visit = epochs_.visit(sample);
  std::vector<SampleWindow> windows = packing_->windows(visit.number);
  for (SampleWindow& window : windows) window.epoch = visit.epoch;
  return windows;
}

}  // namespace causeway::data
