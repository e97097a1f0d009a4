#include "causeway/formats/megatron_index.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string_view>

#include "causeway/base/error.h"
#include "causeway/base/positioned_file.h"

namespace causeway::formats {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kMegatronMagic = "MMIDIDX\0\0"sv;
constexpr std::string_view kOldMagic = "TNTIDX\0\0"sv;
constexpr size_t kMegatronHeaderBytes = 9 + 8 + 1 + 8 + 8;
constexpr uint64_t kAtOnce = 1 << 16;

struct IdType {
  const char* name;
  int token_bytes;  // 0: not read
};
constexpr std::array<IdType, 9> kIdTypes = {{{"none", 0},
                                             {"uint8", 1},
                                             {"int8", 0},
                                             {"int16", 2},
                                             {"int32", 4},
                                             {"int64", 0},
                                             {"float64", 0},
                                             {"float32", 0},
                                             {"uint16", 2}}};

[[noreturn]] void refuse_megatron_index(const std::string& what, const std::filesystem::path& path) {
  throw Error(ErrorKind::kCorrupt, what, path.string(),
              "Copy the .bin and the .idx again from their source: both are of one preparation.");
}

template <typename T>
T stored_number(std::span<const std::byte> bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

// A list of numbers in the file, read some at a time.
template <typename T>
class NumberList {
 public:
  NumberList(const PositionedFile& file, uint64_t offset, uint64_t count)
      : file_(file), offset_(offset), left_(count) {}

  T next() {
    if (position_ == block_.size()) {
      block_.resize(std::min(left_, kAtOnce));
      file_.read_at(offset_, std::as_writable_bytes(std::span(block_)));
      offset_ += block_.size() * sizeof(T);
      left_ -= block_.size();
      position_ = 0;
    }
    return block_[position_++];
  }

 private:
  const PositionedFile& file_;
  uint64_t offset_;
  uint64_t left_;
  std::vector<T> block_;
  size_t position_ = 0;
};

}  // namespace

std::optional<MegatronIndex> read_megatron_index(const std::filesystem::path& bin, uint64_t bin_bytes) {
  if (bin.extension() == ".idx") return std::nullopt;
  std::filesystem::path path = bin;
  path.replace_extension(".idx");
  std::error_code code;
  if (!std::filesystem::is_regular_file(path, code)) return std::nullopt;
  const PositionedFile file = PositionedFile::open(path);
  const uint64_t size = file.size();
  std::array<std::byte, kMegatronHeaderBytes> header{};
  file.read_at(0, std::span(header).first(std::min<uint64_t>(size, kMegatronHeaderBytes)));
  const std::string_view text(reinterpret_cast<const char*>(header.data()), header.size());
  if (text.starts_with(kOldMagic)) {
    throw Error(ErrorKind::kUnsupported, "the index has Megatron's old form, which is not read", path.string(),
                "Prepare the text again with \"causeway data prepare\" or with a newer Megatron.");
  }
  if (!text.starts_with(kMegatronMagic)) return std::nullopt;
  const auto version = stored_number<uint64_t>(header, 9);
  if (version != 1) refuse_megatron_index(fmt::format("the index has version {}, not 1", version), path);
  const auto type = stored_number<uint8_t>(header, 17);
  if (type == 0 || type >= kIdTypes.size())
    refuse_megatron_index(fmt::format("the index has ids of the unknown type {}", type), path);
  if (kIdTypes[type].token_bytes == 0) {
    throw Error(ErrorKind::kUnsupported, fmt::format("the token ids are {}, which is not read", kIdTypes[type].name),
                path.string(), "Write them as uint16 or int32.");
  }
  MegatronIndex index;
  index.token_bytes = kIdTypes[type].token_bytes;
  const auto sequences = stored_number<uint64_t>(header, 18);
  const auto entries = stored_number<uint64_t>(header, 26);
  const uint64_t most = size / sizeof(uint32_t);
  // One byte for each sequence may follow: the mode of mixed data.
  if (sequences > most || entries > most ||
      (kMegatronHeaderBytes + sequences * 12 + entries * 8 != size &&
       kMegatronHeaderBytes + sequences * 13 + entries * 8 != size)) {
    refuse_megatron_index(
        fmt::format("the index's size of {} bytes is not what its header claims ({} sequences, {} documents)", size,
                    sequences, entries),
        path);
  }
  NumberList<int32_t> lengths(file, kMegatronHeaderBytes, sequences);
  NumberList<int64_t> offsets(file, kMegatronHeaderBytes + sequences * 4, sequences);
  NumberList<int64_t> documents(file, kMegatronHeaderBytes + sequences * 12, entries);
  uint64_t entries_read = 0;
  int64_t next_document = entries > 0 ? documents.next() : -1;
  for (uint64_t sequence = 0; sequence <= sequences; ++sequence) {
    for (; entries_read < entries && next_document == static_cast<int64_t>(sequence); ++entries_read) {
      const bool is_new = index.document_starts.empty() || index.document_starts.back() != index.token_count;
      if (sequence < sequences && is_new) index.document_starts.push_back(index.token_count);
      const int64_t before = next_document;
      if (entries_read + 1 < entries) next_document = documents.next();
      if (next_document < before) refuse_megatron_index("the index's documents are not in order", path);
    }
    if (sequence == sequences) break;
    const int32_t length = lengths.next();
    const int64_t offset = offsets.next();
    if (length < 0 || offset != static_cast<int64_t>(index.token_count * static_cast<uint64_t>(index.token_bytes)))
      refuse_megatron_index(
          fmt::format("sequence {} of the index does not begin where the one before it ends", sequence), path);
    index.token_count += static_cast<uint64_t>(length);
  }
  if (entries_read != entries) refuse_megatron_index("the index's documents are not in order", path);
  // A document without tokens at the end begins beyond the last token.
  while (!index.document_starts.empty() && index.document_starts.back() >= index.token_count)
    index.document_starts.pop_back();
  if (index.token_count * static_cast<uint64_t>(index.token_bytes) != bin_bytes) {
    refuse_megatron_index(fmt::format("the index describes {} tokens of {} bytes, but {} has {} bytes",
                                      index.token_count, index.token_bytes, bin.filename().string(), bin_bytes),
                          path);
  }
  return index;
}

}  // namespace causeway::formats
