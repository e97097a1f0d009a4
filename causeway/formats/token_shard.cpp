#include "causeway/formats/token_shard.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "causeway/base/content_hasher.h"
#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/formats/file_format.h"
#include "causeway/formats/headerless_tokens.h"
#include "causeway/formats/mds_hashes.h"
#include "causeway/formats/mds_shard.h"
#include "causeway/formats/megatron_index.h"

namespace causeway::formats {
namespace {

static_assert(std::endian::native == std::endian::little, "token shards are read as they lie in the file");

constexpr std::string_view kTokenShardMagic = "CAUSETOK";
constexpr uint32_t kTokenShardVersion = 1;
constexpr uint32_t kTargetsVersion = 2;  // of shards with targets
constexpr uint32_t kWeightsVersion = 3;  // of those whose targets have weights
constexpr size_t kTokenShardHeaderBytes = 128;
constexpr size_t kHashedHeaderBytes = 80;
constexpr uint64_t kContinuesFlag = 1;
constexpr uint64_t kTargetsFlag = 2;
constexpr uint64_t kWeightsFlag = 4;

constexpr int32_t kLlmCGpt2Magic = 20240520;
constexpr int32_t kLlmCGpt2Version = 1;
constexpr int32_t kLlmCLlama3Magic = 20240801;
constexpr int32_t kLlmCLlama3Version = 7;
constexpr int32_t kLlmCEvaluationMagic = 20240522;
constexpr size_t kLlmCHeaderBytes = 1024;
constexpr int32_t kGpt2EndOfText = 50256;
constexpr int32_t kLlama3BeginOfText = 128000;

constexpr size_t kTokensAtOnce = 4096;

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t token_bytes;
  uint64_t tokens;
  uint64_t documents;
  uint64_t metadata_bytes;
  uint64_t flags;
  uint64_t targets_hash[2];
  uint64_t tokens_hash[2];
  uint64_t description_hash[2];
  uint64_t unused_after_hashes[4];
};
static_assert(sizeof(Header) == kTokenShardHeaderBytes);

[[noreturn]] void refuse_token_shard(const std::string& what, const std::filesystem::path& path) {
  throw Error(ErrorKind::kCorrupt, what, path.string(),
              "Copy the file again from its source, or prepare the dataset again.");
}

uint64_t round_up_to_8(uint64_t bytes) { return (bytes + 7) / 8 * 8; }

Hash128 hash_description(std::span<const std::byte> header, std::span<const std::byte> rest) {
  std::vector<std::byte> joined(header.begin(), header.begin() + kHashedHeaderBytes);
  joined.insert(joined.end(), rest.begin(), rest.end());
  return hash_bytes(joined);
}

int32_t magic_number(std::span<const std::byte> bytes) {
  int32_t magic = 0;
  if (bytes.size() >= sizeof magic) std::memcpy(&magic, bytes.data(), sizeof magic);
  return magic;
}

template <typename T>
void widen(const std::byte* tokens, std::span<int32_t> ids) {
  for (size_t i = 0; i < ids.size(); ++i) {
    T token;
    std::memcpy(&token, tokens + i * sizeof token, sizeof token);
    ids[i] = static_cast<int32_t>(token);
  }
}

template <typename T>
void narrow(std::span<const int32_t> ids, std::byte* target) {
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto token = static_cast<T>(ids[i]);
    CAUSEWAY_CHECK(ids[i] >= 0 && static_cast<int64_t>(token) == ids[i], "token id {}", ids[i]);
    std::memcpy(target + i * sizeof token, &token, sizeof token);
  }
}

}  // namespace

std::string_view shard_format_name(ShardFormat format) {
  switch (format) {
    case ShardFormat::kCauseway:
      return "causeway";
    case ShardFormat::kLlmC:
      return "llm.c";
    case ShardFormat::kNanoGpt:
      return "nanoGPT";
    case ShardFormat::kMegatron:
      return "Megatron";
    case ShardFormat::kMds:
      return "MDS";
  }
  return "";
}

TokenShard TokenShard::open(const std::filesystem::path& path, int token_bytes) {
  TokenShard shard;
  shard.path_ = path;
  shard.file_ = PositionedFile::open(path, PositionedFile::Content::kMustStay);
  std::vector<std::byte> bytes(std::min<uint64_t>(shard.file_.size(), kLlmCHeaderBytes));
  if (bytes.empty()) refuse_token_shard("the token file is empty", path);
  shard.file_.read_at(0, bytes);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const int32_t magic = magic_number(bytes);
  if (text.starts_with(kTokenShardMagic)) {
    shard.open_causeway(bytes);
  } else if (magic == kLlmCGpt2Magic || magic == kLlmCLlama3Magic) {
    shard.open_llm_c(bytes);
  } else if (magic == kLlmCEvaluationMagic) {
    throw Error(ErrorKind::kUnsupported,
                "the file is an llm.c evaluation set (multiple choice), not a stream of tokens", path.string(),
                "Train on a file that llm.c's data scripts wrote for training or validation.");
  } else if (path.extension() == ".bin" || token_bytes != 0) {
    if (!shard.open_megatron()) shard.open_headerless(token_bytes);
  } else if (const std::string_view format = binary_format(text.substr(0, kFormatHeadBytes), shard.file_.size());
             !format.empty()) {
    throw Error(ErrorKind::kUnsupported, fmt::format("the file is {}, not a stream of token ids", format),
                path.string(), "Give a dataset that \"causeway data prepare\" wrote, or a .bin of token ids.");
  } else {
    refuse_token_shard(
        "the file is not a token shard: it has neither Causeway's nor llm.c's first bytes, and is not a .bin", path);
  }
  if (token_bytes != 0 && token_bytes != shard.token_bytes_) {
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("the token ids are {} bytes wide by what the file says of itself, not {}",
                            shard.token_bytes_, token_bytes),
                path.string(), "Leave data.token_bytes out: it is for files that do not say it.");
  }
  return shard;
}

void TokenShard::open_causeway(std::span<const std::byte> bytes) {
  format_ = ShardFormat::kCauseway;
  if (bytes.size() < kTokenShardHeaderBytes) {
    refuse_token_shard(fmt::format("the shard is cut short: {} bytes, less than its header of {}", bytes.size(),
                                   kTokenShardHeaderBytes),
                       path_);
  }
  Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.version < kTokenShardVersion || header.version > kWeightsVersion) {
    throw Error(ErrorKind::kUnsupported,
                fmt::format("the shard has format version {}; this build reads {} to {}", header.version,
                            kTokenShardVersion, kWeightsVersion),
                path_.string(), "Read it with the version of Causeway that wrote it, or prepare the dataset again.");
  }
  if (header.token_bytes != 1 && header.token_bytes != 2 && header.token_bytes != 4) {
    refuse_token_shard(fmt::format("the shard claims {} bytes per token; 1, 2 and 4 are possible", header.token_bytes),
                       path_);
  }
  const bool has_targets = (header.flags & kTargetsFlag) != 0, has_weights = (header.flags & kWeightsFlag) != 0;
  if (has_targets != (header.version >= kTargetsVersion) || has_weights != (header.version == kWeightsVersion))
    refuse_token_shard(fmt::format("the shard has format version {} and flags {}, which contradict each other",
                                   header.version, header.flags),
                       path_);
  const uint64_t size = file_.size();
  const auto documents_begin = [&] {
    return kTokenShardHeaderBytes + round_up_to_8(header.tokens * header.token_bytes) +
           (has_targets ? round_up_to_8(header.tokens) : 0);
  };
  if (header.tokens > size / header.token_bytes || header.documents > size / sizeof(uint64_t) ||
      header.metadata_bytes > size ||
      documents_begin() + header.documents * sizeof(uint64_t) + header.metadata_bytes != size) {
    refuse_token_shard(
        fmt::format("the shard's size of {} bytes is not what its header claims ({} tokens, {} documents, {} bytes of "
                    "metadata)",
                    size, header.tokens, header.documents, header.metadata_bytes),
        path_);
  }
  if (header.tokens == 0) refuse_token_shard("the shard holds no tokens", path_);
  const uint64_t documents_offset = documents_begin();
  std::vector<std::byte> rest(size - documents_offset);
  file_.read_at(documents_offset, rest);
  const Hash128 description = hash_description(bytes.first(kTokenShardHeaderBytes), rest);
  if (description != Hash128{header.description_hash[0], header.description_hash[1]}) {
    refuse_token_shard("the shard's header, document table or metadata is damaged: the hash does not match", path_);
  }
  tokens_offset_ = kTokenShardHeaderBytes;
  if (has_targets) targets_offset_ = documents_offset - round_up_to_8(header.tokens);
  stored_targets_hash_ = {header.targets_hash[0], header.targets_hash[1]};
  token_count_ = header.tokens;
  token_bytes_ = static_cast<int>(header.token_bytes);
  stored_hash_ = {header.tokens_hash[0], header.tokens_hash[1]};
  const size_t table_bytes = header.documents * sizeof(uint64_t);
  document_starts_.resize(header.documents);
  if (table_bytes > 0) std::memcpy(document_starts_.data(), rest.data(), table_bytes);
  const bool continues = (header.flags & kContinuesFlag) != 0;
  const bool begins_at_zero = !document_starts_.empty() && document_starts_.front() == 0;
  const bool increasing = std::adjacent_find(document_starts_.begin(), document_starts_.end(),
                                             std::greater_equal<>()) == document_starts_.end();
  if (begins_at_zero == continues || !increasing ||
      (!document_starts_.empty() && document_starts_.back() >= token_count_)) {
    refuse_token_shard("the shard's document table is not a list of increasing positions in the shard", path_);
  }
  metadata_ = parse_shard_metadata({reinterpret_cast<const char*>(rest.data() + table_bytes), header.metadata_bytes},
                                   path_.string());
  if (has_weights == metadata_.target_weights.empty())
    refuse_token_shard(fmt::format("the shard has format version {} and {} weights of targets, which contradict each "
                                   "other",
                                   header.version, metadata_.target_weights.size()),
                       path_);
}

void TokenShard::open_llm_c(std::span<const std::byte> bytes) {
  format_ = ShardFormat::kLlmC;
  if (bytes.size() < kLlmCHeaderBytes) {
    refuse_token_shard(fmt::format("the llm.c file is cut short: {} bytes, less than its header of {}", bytes.size(),
                                   kLlmCHeaderBytes),
                       path_);
  }
  int32_t header[3];
  std::memcpy(header, bytes.data(), sizeof header);
  const bool llama3 = header[0] == kLlmCLlama3Magic;
  const int32_t version = llama3 ? kLlmCLlama3Version : kLlmCGpt2Version;
  if (header[1] != version) {
    throw Error(ErrorKind::kUnsupported,
                fmt::format("the llm.c file has version {}; with the magic number {} it must be {}", header[1],
                            header[0], version),
                path_.string(), "Write it again with llm.c's current data scripts.");
  }
  token_bytes_ = llama3 ? 4 : 2;
  delimiter_ = llama3 ? kLlama3BeginOfText : kGpt2EndOfText;
  const uint64_t held = (file_.size() - kLlmCHeaderBytes) / static_cast<uint64_t>(token_bytes_);
  if (header[2] <= 0) refuse_token_shard(fmt::format("the llm.c file claims {} tokens", header[2]), path_);
  token_count_ = static_cast<uint64_t>(header[2]);
  if (kLlmCHeaderBytes + token_count_ * static_cast<uint64_t>(token_bytes_) != file_.size()) {
    refuse_token_shard(fmt::format("the llm.c file claims {} tokens but holds {}", token_count_, held), path_);
  }
  tokens_offset_ = kLlmCHeaderBytes;
}

bool TokenShard::open_megatron() {
  std::optional<MegatronIndex> index = read_megatron_index(path_, file_.size());
  if (!index) return false;
  format_ = ShardFormat::kMegatron;
  token_bytes_ = index->token_bytes;
  token_count_ = index->token_count;
  document_starts_ = std::move(index->document_starts);
  return true;
}

void TokenShard::open_headerless(int token_bytes) {
  if (token_bytes > 4)
    throw Error(ErrorKind::kUnsupported, fmt::format("ids of {} bytes are read in MDS alone", token_bytes),
                path_.string(), "Write them as 32-bit integers.");
  format_ = ShardFormat::kNanoGpt;
  if (token_bytes == 0)
    require_16_bit_ids(path_, file_.size(),
                       [&](uint64_t offset, std::span<std::byte> part) { file_.read_at(offset, part); });
  token_bytes_ = token_bytes == 0 ? 2 : token_bytes;
  if (file_.size() % static_cast<uint64_t>(token_bytes_) != 0) {
    refuse_token_shard(
        token_bytes == 0
            ? fmt::format("the file has {} bytes, an odd number; a nanoGPT file is a sequence of 16-bit tokens",
                          file_.size())
            : fmt::format("the file has {} bytes, which ids of {} bytes do not divide", file_.size(), token_bytes),
        path_);
  }
  token_count_ = file_.size() / static_cast<uint64_t>(token_bytes_);
  delimiter_ = token_bytes_ == 2 ? kGpt2EndOfText : -1;
}

TokenShard TokenShard::open_mds(PositionedFile file, const std::filesystem::path& path, const MdsShard& shard,
                                const std::string& column, int token_bytes) {
  TokenShard opened;
  opened.path_ = path;
  opened.file_ = std::move(file);
  opened.format_ = ShardFormat::kMds;
  opened.named_hashes_ = shard.raw.hashes;
  std::string description = fmt::format("{} {} {} {}\n", shard.raw.basename, shard.raw.bytes, shard.samples, column);
  for (const auto& [algorithm, hash] : shard.raw.hashes) description += fmt::format("{} {}\n", algorithm, hash);
  opened.stored_hash_ = hash_text(description);
  opened.read_mds_samples(shard, column, token_bytes);
  return opened;
}

void TokenShard::read_mds_samples(const MdsShard& shard, const std::string& column, int token_bytes) {
  const size_t index = mds_token_column(shard, column, path_.string());
  const MdsArrayEncoding encoding = mds_token_encoding(shard.columns[index], token_bytes, path_.string());
  if (file_.size() != shard.raw.bytes)
    refuse_token_shard(fmt::format("the shard has {} bytes, and {} by its index", file_.size(), shard.raw.bytes),
                       path_);
  uint64_t position = 0;
  const std::optional<std::vector<uint32_t>> offsets =
      read_mds_offsets(shard, path_.string(), [&](std::span<char> bytes) {
        if (bytes.size() > file_.size() - position) refuse_token_shard("the shard is cut short", path_);
        file_.read_at(position, std::as_writable_bytes(bytes));
        position += bytes.size();
        return true;
      });
  // What stands before the ids of a sample, where that is not the same in all of them: mostly near its beginning.
  const uint64_t sizes_bytes = mds_sizes_bytes(shard);
  const bool has_head = !encoding.is_bare && (!encoding.dtype || encoding.shape.empty());
  std::string beginning, head;
  std::vector<MdsSpan> columns;
  MdsPlace place{path_.string(), 0};
  for (size_t i = 0; i + 1 < offsets->size(); ++i) {
    const uint64_t begin = (*offsets)[i], size = (*offsets)[i + 1] - begin;
    ++place.number;
    beginning.resize(std::min(size, sizes_bytes + (has_head ? kMdsArrayHeadBytes : 0)));
    file_.read_at(begin, std::as_writable_bytes(std::span(beginning)));
    find_mds_columns(shard, beginning, size, place, columns);
    const MdsSpan& of_ids = columns[index];
    const uint64_t head_bytes = has_head ? std::min<uint64_t>(of_ids.bytes, kMdsArrayHeadBytes) : 0;
    if (of_ids.begin + head_bytes <= beginning.size()) {
      head = beginning.substr(head_bytes == 0 ? 0 : of_ids.begin, head_bytes);
    } else {
      head.resize(head_bytes);
      file_.read_at(begin + of_ids.begin, std::as_writable_bytes(std::span(head)));
    }
    const MdsArray array = find_mds_array(encoding, head, of_ids.bytes, place);
    if (dtype_ == 0) dtype_ = array.dtype;
    if (array.dtype != dtype_) {
      throw Error(ErrorKind::kUnsupported, "the samples hold ids of different types",
                  fmt::format("{}, sample {}", place.where, place.number),
                  "Prepare the dataset with \"causeway data prepare\", which reads them.");
    }
    if (array.count == 0) continue;
    document_starts_.push_back(token_count_);
    document_offsets_.push_back(begin + of_ids.begin + array.begin);
    token_count_ += array.count;
  }
  token_bytes_ = dtype_ / 8;
  if (token_count_ == 0) refuse_token_shard("the shard holds no token ids", path_);
}

void TokenShard::read_mds_tokens(uint64_t position, std::span<int32_t> ids) const {
  char buffer[kTokensAtOnce * sizeof(uint64_t)];
  const auto width = static_cast<size_t>(token_bytes_);
  while (!ids.empty()) {
    const auto document =
        static_cast<size_t>(std::ranges::upper_bound(document_starts_, position) - document_starts_.begin()) - 1;
    const uint64_t end = document + 1 < document_starts_.size() ? document_starts_[document + 1] : token_count_;
    const size_t count = std::min<uint64_t>({ids.size(), kTokensAtOnce, end - position});
    const std::span<char> bytes = std::span(buffer).first(count * width);
    file_.read_at(document_offsets_[document] + (position - document_starts_[document]) * width,
                  std::as_writable_bytes(bytes));
    decode_mds_tokens(dtype_, {bytes.data(), bytes.size()}, ids.first(count), {path_.string(), document + 1});
    ids = ids.subspan(count);
    position += count;
  }
}

void TokenShard::read(uint64_t position, std::span<int32_t> ids) const {
  CAUSEWAY_CHECK(position <= token_count_ && ids.size() <= token_count_ - position);
  if (format_ == ShardFormat::kMds) return read_mds_tokens(position, ids);
  const auto width = static_cast<size_t>(token_bytes_);
  std::byte buffer[kTokensAtOnce * sizeof(uint32_t)];
  while (!ids.empty()) {
    const size_t count = std::min(ids.size(), kTokensAtOnce);
    file_.read_at(tokens_offset_ + position * width, std::span(buffer).first(count * width));
    if (width == 1) widen<uint8_t>(buffer, ids.first(count));
    if (width == 2) widen<uint16_t>(buffer, ids.first(count));
    if (width == 4) widen<uint32_t>(buffer, ids.first(count));
    ids = ids.subspan(count);
    position += count;
  }
}

int32_t TokenShard::token(uint64_t position) const {
  int32_t id = 0;
  read(position, {&id, 1});
  return id;
}

void TokenShard::read_target_bytes(uint64_t position, std::span<uint8_t> bytes) const {
  CAUSEWAY_CHECK(position <= token_count_ && bytes.size() <= token_count_ - position);
  if (!has_targets()) {
    std::ranges::fill(bytes, uint8_t{1});
    return;
  }
  file_.read_at(targets_offset_ + position, std::as_writable_bytes(bytes));
  const size_t weights = has_target_weights() ? metadata_.target_weights.size() : 2;
  const auto other = std::ranges::find_if(bytes, [&](uint8_t value) { return value >= weights; });
  if (other == bytes.end()) return;
  refuse_token_shard(fmt::format("the shard says {} of whether token {} is a target; {} are possible", *other,
                                 position + static_cast<uint64_t>(other - bytes.begin()),
                                 weights == 2 ? "0 and 1" : fmt::format("0 to {}", weights - 1)),
                     path_);
}

// All weights but the first are above 0.
void TokenShard::read_targets(uint64_t position, std::span<uint8_t> targets) const {
  read_target_bytes(position, targets);
  for (uint8_t& target : targets) target = target != 0;
}

void TokenShard::read_target_weights(uint64_t position, std::span<float> weights) const {
  std::vector<uint8_t> bytes(weights.size());
  read_target_bytes(position, bytes);
  for (size_t i = 0; i < weights.size(); ++i)
    weights[i] = has_target_weights() ? metadata_.target_weights[bytes[i]] : static_cast<float>(bytes[i]);
}

bool TokenShard::starts_document(uint64_t position, int32_t last_token_before) const {
  int32_t starts = 0;
  read_document_starts(position, last_token_before, {&starts, 1});
  return starts != 0;
}

void TokenShard::read_document_starts(uint64_t position, int32_t last_token_before, std::span<int32_t> starts) const {
  if (starts.empty()) return;
  if (has_document_table()) {
    std::fill(starts.begin(), starts.end(), 0);
    for (auto start = std::lower_bound(document_starts_.begin(), document_starts_.end(), position);
         start != document_starts_.end() && *start < position + starts.size(); ++start)
      starts[*start - position] = 1;
    return;
  }
  if (!knows_documents()) {
    std::fill(starts.begin(), starts.end(), 0);
    return;
  }
  if (format_ == ShardFormat::kLlmC) {
    read(position, starts);
  } else {  // a document starts after the delimiter
    starts[0] = position == 0 ? last_token_before : token(position - 1);
    read(position, starts.subspan(1));
  }
  for (int32_t& value : starts) value = value == delimiter_;
}

void TokenShard::visit_document_starts(int32_t last_token_before,
                                       const std::function<void(uint64_t position)>& visit) const {
  if (has_document_table()) {
    for (const uint64_t start : document_starts_) visit(start);
    return;
  }
  if (!knows_documents()) return;
  std::vector<int32_t> starts(kTokensAtOnce);
  for (uint64_t position = 0; position < token_count_; position += starts.size()) {
    starts.resize(std::min<uint64_t>(starts.size(), token_count_ - position));
    read_document_starts(position, last_token_before, starts);
    for (size_t i = 0; i < starts.size(); ++i)
      if (starts[i] != 0) visit(position + i);
  }
}

uint64_t TokenShard::document_count() const {
  if (has_document_table()) return document_starts_.size();
  if (!knows_documents()) return 0;
  uint64_t count = 0;
  std::vector<int32_t> ids(kTokensAtOnce);
  for (uint64_t position = 0; position < token_count_; position += ids.size()) {
    ids.resize(std::min<uint64_t>(ids.size(), token_count_ - position));
    read(position, ids);
    count += static_cast<uint64_t>(std::count(ids.begin(), ids.end(), delimiter_));
  }
  return count;
}

Hash128 TokenShard::hash_tokens() const {
  if (format_ == ShardFormat::kMds) {
    ContentHasher hasher;
    std::vector<int32_t> ids(kTokensAtOnce);
    for (uint64_t position = 0; position < token_count_; position += ids.size()) {
      ids.resize(std::min<uint64_t>(ids.size(), token_count_ - position));
      read(position, ids);
      hasher.add(std::as_bytes(std::span(ids)));
    }
    return hasher.hash();
  }
  return hash_section(tokens_offset_, token_count_ * static_cast<uint64_t>(token_bytes_));
}

Hash128 TokenShard::hash_section(uint64_t offset, uint64_t bytes) const {
  ContentHasher hasher;
  std::vector<std::byte> buffer(size_t{1} << 20);
  while (bytes > 0) {
    const size_t count = std::min<uint64_t>(bytes, buffer.size());
    file_.read_at(offset, std::span(buffer).first(count));
    hasher.add(std::span(buffer).first(count));
    offset += count;
    bytes -= count;
  }
  return hasher.hash();
}

bool TokenShard::has_checked_hashes() const { return MdsHashes(named_hashes_).computes_any(); }

void TokenShard::verify() const {
  if (format_ == ShardFormat::kMds) {
    MdsHashes hashes(named_hashes_);
    std::vector<char> buffer(size_t{1} << 20);
    for (uint64_t offset = 0; offset < file_.size(); offset += buffer.size()) {
      buffer.resize(std::min<uint64_t>(buffer.size(), file_.size() - offset));
      file_.read_at(offset, std::as_writable_bytes(std::span(buffer)));
      hashes.add(buffer);
    }
    hashes.require(path_.string());
  }
  if (format_ != ShardFormat::kCauseway) return;
  if (hash_tokens() != stored_hash_) {
    refuse_token_shard("the shard's tokens are damaged: their hash is not the one in the header", path_);
  }
  if (has_targets() && hash_section(targets_offset_, token_count_) != stored_targets_hash_) {
    refuse_token_shard("what the shard says of targets is damaged: its hash is not the one in the header", path_);
  }
}

int TokenShardBuilder::token_bytes_for(int64_t vocabulary_size) {
  return vocabulary_size <= 1 << 8 ? 1 : vocabulary_size <= 1 << 16 ? 2 : 4;
}

TokenShardBuilder::TokenShardBuilder(int token_bytes, bool continues, bool has_targets)
    : token_bytes_(token_bytes), continues_(continues), has_targets_(has_targets), bytes_(kTokenShardHeaderBytes) {}

void TokenShardBuilder::start_document() { document_starts_.push_back(token_count_); }

void TokenShardBuilder::append(std::span<const int32_t> ids, std::span<const uint8_t> targets) {
  CAUSEWAY_CHECK(targets.size() == (has_targets_ ? ids.size() : 0));
  targets_.insert(targets_.end(), targets.begin(), targets.end());
  const size_t before = bytes_.size();
  bytes_.resize(before + ids.size() * static_cast<size_t>(token_bytes_));
  std::byte* const target = bytes_.data() + before;
  if (token_bytes_ == 1) narrow<uint8_t>(ids, target);
  if (token_bytes_ == 2) narrow<uint16_t>(ids, target);
  if (token_bytes_ == 4) narrow<uint32_t>(ids, target);
  token_count_ += ids.size();
}

TokenShardBuilder::Written TokenShardBuilder::write(const std::filesystem::path& path, const ShardMetadata& metadata) {
  const bool has_weights = !metadata.target_weights.empty();
  CAUSEWAY_CHECK(token_count_ > 0 && (has_targets_ || !has_weights));
  const Hash128 tokens_hash = hash_bytes(std::span(bytes_).subspan(kTokenShardHeaderBytes));
  bytes_.resize(round_up_to_8(bytes_.size()));
  Written written{tokens_hash, {}};
  if (has_targets_) {
    const std::span<const std::byte> targets = std::as_bytes(std::span(targets_));
    written.targets = hash_bytes(targets);
    bytes_.insert(bytes_.end(), targets.begin(), targets.end());
    bytes_.resize(round_up_to_8(bytes_.size()));
  }
  const size_t documents_offset = bytes_.size();
  const std::string text = print_shard_metadata(metadata);
  const std::span<const std::byte> starts = std::as_bytes(std::span(document_starts_));
  const std::span<const std::byte> description = std::as_bytes(std::span(text));
  bytes_.insert(bytes_.end(), starts.begin(), starts.end());
  bytes_.insert(bytes_.end(), description.begin(), description.end());
  Header header{};
  std::memcpy(header.magic, kTokenShardMagic.data(), kTokenShardMagic.size());
  header.version = has_weights ? kWeightsVersion : has_targets_ ? kTargetsVersion : kTokenShardVersion;
  header.token_bytes = static_cast<uint32_t>(token_bytes_);
  header.tokens = token_count_;
  header.documents = document_starts_.size();
  header.metadata_bytes = text.size();
  header.flags =
      (continues_ ? kContinuesFlag : 0) | (has_targets_ ? kTargetsFlag : 0) | (has_weights ? kWeightsFlag : 0);
  header.targets_hash[0] = written.targets.high;
  header.targets_hash[1] = written.targets.low;
  header.tokens_hash[0] = tokens_hash.high;
  header.tokens_hash[1] = tokens_hash.low;
  const Hash128 described =
      hash_description(std::as_bytes(std::span(&header, 1)), std::span(bytes_).subspan(documents_offset));
  header.description_hash[0] = described.high;
  header.description_hash[1] = described.low;
  std::memcpy(bytes_.data(), &header, sizeof header);
  write_file_atomically(path, bytes_);
  return written;
}

}  // namespace causeway::formats
