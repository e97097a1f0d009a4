#include "causeway/data/shared_documents.h"

#include <algorithm>
#include <span>
#include <tuple>

#include "causeway/base/positioned_file.h"

namespace causeway::data {
namespace {

constexpr size_t kNotesAtOnce = 1 << 15;

}  // namespace

void SharedDocuments::add(const Hash128& document, bool is_validation, Place place) {
  (is_validation ? validation_ : training_).push_back({document, place});
  if (training_.size() == kNotesAtOnce) flush();
}

void SharedDocuments::flush() {
  writer_.write(std::as_bytes(std::span(training_)));
  training_.clear();
}

std::optional<SharedDocuments::Result> SharedDocuments::find() {
  flush();
  std::sort(validation_.begin(), validation_.end(), [](const Note& a, const Note& b) {
    return std::tie(a.hash.high, a.hash.low, a.place.source, a.place.line) <
           std::tie(b.hash.high, b.hash.low, b.place.source, b.place.line);
  });
  const PositionedFile file = PositionedFile::open(file_);
  const uint64_t count = file.size() / sizeof(Note);
  std::optional<Result> result;
  std::vector<Note> notes;
  for (uint64_t done = 0; done < count; done += notes.size()) {
    notes.resize(std::min<uint64_t>(kNotesAtOnce, count - done));
    file.read_at(done * sizeof(Note), std::as_writable_bytes(std::span(notes)));
    for (const Note& note : notes) {
      const auto found =
          std::lower_bound(validation_.begin(), validation_.end(), note.hash, [](const Note& a, const Hash128& hash) {
            return std::tie(a.hash.high, a.hash.low) < std::tie(hash.high, hash.low);
          });
      if (found == validation_.end() || found->hash != note.hash) continue;
      if (!result) result = Result{0, note.place, found->place};
      ++result->documents;
    }
  }
  return result;
}

}  // namespace causeway::data
