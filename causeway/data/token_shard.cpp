#include "causeway/data/token_shard.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "causeway/base/error.h"
#include "causeway/data/file_format.h"
#include "causeway/data/headerless_tokens.h"
#include "causeway/data/megatron_index.h"

namespace causeway {
namespace {

static_assert(std::endian::native == std::endian::little, "token shards are mapped as they lie in the file");

constexpr std::string_view kMagic = "CAUSETOK";
constexpr uint32_t kVersion = 1;
constexpr size_t kHeaderBytes = 128;
constexpr size_t kHashedHeaderBytes = 80;
constexpr uint64_t kContinuesFlag = 1;

constexpr int32_t kLlmCGpt2Magic = 20240520;
constexpr int32_t kLlmCGpt2Version = 1;
constexpr int32_t kLlmCLlama3Magic = 20240801;
constexpr int32_t kLlmCLlama3Version = 7;
constexpr int32_t kLlmCEvaluationMagic = 20240522;
constexpr size_t kLlmCHeaderBytes = 1024;
constexpr int32_t kGpt2EndOfText = 50256;
constexpr int32_t kLlama3BeginOfText = 128000;

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t token_bytes;
  uint64_t tokens;
  uint64_t documents;
  uint64_t metadata_bytes;
  uint64_t flags;
  uint64_t unused_before_hashes[2];
  uint64_t tokens_hash[2];
  uint64_t description_hash[2];
  uint64_t unused_after_hashes[4];
};
static_assert(sizeof(Header) == kHeaderBytes);

[[noreturn]] void fail(const std::string& what, const std::filesystem::path& path) {
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
void widen(const std::byte* tokens, uint64_t position, std::span<int32_t> ids) {
  const T* const source = reinterpret_cast<const T*>(tokens) + position;
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(source[i]);
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
  }
  return "";
}

TokenShard TokenShard::open(const std::filesystem::path& path, int token_bytes) {
  TokenShard shard;
  shard.path_ = path;
  shard.file_ = MappedFile(path);
  const std::span<const std::byte> bytes = shard.file_.bytes();
  if (bytes.empty()) fail("the token file is empty", path);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const int32_t magic = magic_number(bytes);
  if (text.starts_with(kMagic)) {
    shard.open_causeway();
  } else if (magic == kLlmCGpt2Magic || magic == kLlmCLlama3Magic) {
    shard.open_llm_c();
  } else if (magic == kLlmCEvaluationMagic) {
    throw Error(ErrorKind::kUnsupported,
                "the file is an llm.c evaluation set (multiple choice), not a stream of tokens", path.string(),
                "Train on a file that llm.c's data scripts wrote for training or validation.");
  } else if (path.extension() == ".bin" || token_bytes != 0) {
    if (!shard.open_megatron()) shard.open_headerless(token_bytes);
  } else if (const std::string_view format = binary_format(text.substr(0, kFormatHeadBytes), text.size());
             !format.empty()) {
    throw Error(ErrorKind::kUnsupported, fmt::format("the file is {}, not a stream of token ids", format),
                path.string(), "Give a dataset that \"causeway data prepare\" wrote, or a .bin of token ids.");
  } else {
    fail("the file is not a token shard: it has neither Causeway's nor llm.c's first bytes, and is not a .bin", path);
  }
  if (token_bytes != 0 && token_bytes != shard.token_bytes_) {
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("the token ids are {} bytes wide by what the file says of itself, not {}",
                            shard.token_bytes_, token_bytes),
                path.string(), "Leave data.token_bytes out: it is for files that do not say it.");
  }
  return shard;
}

void TokenShard::open_causeway() {
  format_ = ShardFormat::kCauseway;
  const std::span<const std::byte> bytes = file_.bytes();
  if (bytes.size() < kHeaderBytes) {
    fail(fmt::format("the shard is cut short: {} bytes, less than its header of {}", bytes.size(), kHeaderBytes),
         path_);
  }
  Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.version != kVersion) {
    throw Error(ErrorKind::kUnsupported,
                fmt::format("the shard has format version {}; this build reads {}", header.version, kVersion),
                path_.string(), "Read it with the version of Causeway that wrote it, or prepare the dataset again.");
  }
  if (header.token_bytes != 1 && header.token_bytes != 2 && header.token_bytes != 4) {
    fail(fmt::format("the shard claims {} bytes per token; 1, 2 and 4 are possible", header.token_bytes), path_);
  }
  const uint64_t size = bytes.size();
  if (header.tokens > size / header.token_bytes || header.documents > size / sizeof(uint64_t) ||
      header.metadata_bytes > size ||
      kHeaderBytes + round_up_to_8(header.tokens * header.token_bytes) + header.documents * sizeof(uint64_t) +
              header.metadata_bytes !=
          size) {
    fail(fmt::format("the shard's size of {} bytes is not what its header claims ({} tokens, {} documents, {} bytes of "
                     "metadata)",
                     size, header.tokens, header.documents, header.metadata_bytes),
         path_);
  }
  if (header.tokens == 0) fail("the shard holds no tokens", path_);
  const uint64_t documents_offset = kHeaderBytes + round_up_to_8(header.tokens * header.token_bytes);
  const Hash128 description = hash_description(bytes, bytes.subspan(documents_offset));
  if (description != Hash128{header.description_hash[0], header.description_hash[1]}) {
    fail("the shard's header, document table or metadata is damaged: the hash does not match", path_);
  }
  tokens_ = bytes.data() + kHeaderBytes;
  token_count_ = header.tokens;
  token_bytes_ = static_cast<int>(header.token_bytes);
  stored_hash_ = {header.tokens_hash[0], header.tokens_hash[1]};
  document_starts_ = {reinterpret_cast<const uint64_t*>(bytes.data() + documents_offset), header.documents};
  const bool continues = (header.flags & kContinuesFlag) != 0;
  const bool begins_at_zero = !document_starts_.empty() && document_starts_.front() == 0;
  const bool increasing = std::adjacent_find(document_starts_.begin(), document_starts_.end(),
                                             std::greater_equal<>()) == document_starts_.end();
  if (begins_at_zero == continues || !increasing ||
      (!document_starts_.empty() && document_starts_.back() >= token_count_)) {
    fail("the shard's document table is not a list of increasing positions in the shard", path_);
  }
  const uint64_t metadata_offset = documents_offset + header.documents * sizeof(uint64_t);
  metadata_ = parse_shard_metadata(
      {reinterpret_cast<const char*>(bytes.data() + metadata_offset), header.metadata_bytes}, path_.string());
}

void TokenShard::open_llm_c() {
  format_ = ShardFormat::kLlmC;
  const std::span<const std::byte> bytes = file_.bytes();
  if (bytes.size() < kLlmCHeaderBytes) {
    fail(fmt::format("the llm.c file is cut short: {} bytes, less than its header of {}", bytes.size(),
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
  const uint64_t held = (bytes.size() - kLlmCHeaderBytes) / static_cast<uint64_t>(token_bytes_);
  if (header[2] <= 0) fail(fmt::format("the llm.c file claims {} tokens", header[2]), path_);
  token_count_ = static_cast<uint64_t>(header[2]);
  if (kLlmCHeaderBytes + token_count_ * static_cast<uint64_t>(token_bytes_) != bytes.size()) {
    fail(fmt::format("the llm.c file claims {} tokens but holds {}", token_count_, held), path_);
  }
  tokens_ = bytes.data() + kLlmCHeaderBytes;
}

bool TokenShard::open_megatron() {
  const std::span<const std::byte> bytes = file_.bytes();
  std::optional<MegatronIndex> index = read_megatron_index(path_, bytes.size());
  if (!index) return false;
  format_ = ShardFormat::kMegatron;
  token_bytes_ = index->token_bytes;
  token_count_ = index->token_count;
  megatron_document_starts_ = std::move(index->document_starts);
  document_starts_ = megatron_document_starts_;
  tokens_ = bytes.data();
  return true;
}

void TokenShard::open_headerless(int token_bytes) {
  format_ = ShardFormat::kNanoGpt;
  const std::span<const std::byte> bytes = file_.bytes();
  token_bytes_ = token_bytes == 0 ? 2 : token_bytes;
  if (token_bytes == 0) {
    require_16_bit_ids(path_, bytes.size(), [&](uint64_t offset, std::span<std::byte> part) {
      std::memcpy(part.data(), bytes.data() + offset, part.size());
    });
  }
  if (bytes.size() % static_cast<size_t>(token_bytes_) != 0) {
    fail(token_bytes == 0
             ? fmt::format("the file has {} bytes, an odd number; a nanoGPT file is a sequence of 16-bit tokens",
                           bytes.size())
             : fmt::format("the file has {} bytes, which ids of {} bytes do not divide", bytes.size(), token_bytes),
         path_);
  }
  token_count_ = bytes.size() / static_cast<size_t>(token_bytes_);
  delimiter_ = token_bytes_ == 2 ? kGpt2EndOfText : -1;
  tokens_ = bytes.data();
}

void TokenShard::read(uint64_t position, std::span<int32_t> ids) const {
  CAUSEWAY_CHECK(position <= token_count_ && ids.size() <= token_count_ - position);
  if (token_bytes_ == 1) widen<uint8_t>(tokens_, position, ids);
  if (token_bytes_ == 2) widen<uint16_t>(tokens_, position, ids);
  if (token_bytes_ == 4) widen<uint32_t>(tokens_, position, ids);
}

int32_t TokenShard::token(uint64_t position) const {
  int32_t id = 0;
  read(position, {&id, 1});
  return id;
}

bool TokenShard::starts_document(uint64_t position, int32_t last_token_before) const {
  switch (format_) {
    case ShardFormat::kCauseway:
    case ShardFormat::kMegatron:
      return std::binary_search(document_starts_.begin(), document_starts_.end(), position);
    case ShardFormat::kLlmC:
      return token(position) == delimiter_;
    case ShardFormat::kNanoGpt:
      return delimiter_ >= 0 && (position == 0 ? last_token_before : token(position - 1)) == delimiter_;
  }
  return false;
}

uint64_t TokenShard::document_count() const {
  if (format_ == ShardFormat::kCauseway || format_ == ShardFormat::kMegatron) return document_starts_.size();
  if (!knows_documents()) return 0;
  uint64_t count = 0;
  for (uint64_t position = 0; position < token_count_; ++position) count += token(position) == delimiter_;
  return count;
}

Hash128 TokenShard::hash_tokens() const {
  return hash_bytes({tokens_, token_count_ * static_cast<uint64_t>(token_bytes_)});
}

void TokenShard::verify() const {
  if (format_ != ShardFormat::kCauseway) return;
  if (hash_tokens() != stored_hash_) {
    fail("the shard's tokens are damaged: their hash is not the one in the header", path_);
  }
}

int TokenShardBuilder::token_bytes_for(int64_t vocabulary_size) {
  return vocabulary_size <= 1 << 8 ? 1 : vocabulary_size <= 1 << 16 ? 2 : 4;
}

TokenShardBuilder::TokenShardBuilder(int token_bytes, bool continues)
    : token_bytes_(token_bytes), continues_(continues), bytes_(kHeaderBytes) {}

void TokenShardBuilder::start_document() { document_starts_.push_back(token_count_); }

void TokenShardBuilder::append(std::span<const int32_t> ids) {
  const size_t before = bytes_.size();
  bytes_.resize(before + ids.size() * static_cast<size_t>(token_bytes_));
  std::byte* const target = bytes_.data() + before;
  if (token_bytes_ == 1) narrow<uint8_t>(ids, target);
  if (token_bytes_ == 2) narrow<uint16_t>(ids, target);
  if (token_bytes_ == 4) narrow<uint32_t>(ids, target);
  token_count_ += ids.size();
}

Hash128 TokenShardBuilder::write(const std::filesystem::path& path, const ShardMetadata& metadata) {
  CAUSEWAY_CHECK(token_count_ > 0);
  const Hash128 tokens_hash = hash_bytes(std::span(bytes_).subspan(kHeaderBytes));
  bytes_.resize(round_up_to_8(bytes_.size()));
  const size_t documents_offset = bytes_.size();
  const std::string text = print_shard_metadata(metadata);
  const std::span<const std::byte> starts = std::as_bytes(std::span(document_starts_));
  const std::span<const std::byte> description = std::as_bytes(std::span(text));
  bytes_.insert(bytes_.end(), starts.begin(), starts.end());
  bytes_.insert(bytes_.end(), description.begin(), description.end());
  Header header{};
  std::memcpy(header.magic, kMagic.data(), kMagic.size());
  header.version = kVersion;
  header.token_bytes = static_cast<uint32_t>(token_bytes_);
  header.tokens = token_count_;
  header.documents = document_starts_.size();
  header.metadata_bytes = text.size();
  header.flags = continues_ ? kContinuesFlag : 0;
  header.tokens_hash[0] = tokens_hash.high;
  header.tokens_hash[1] = tokens_hash.low;
  const Hash128 described =
      hash_description(std::as_bytes(std::span(&header, 1)), std::span(bytes_).subspan(documents_offset));
  header.description_hash[0] = described.high;
  header.description_hash[1] = described.low;
  std::memcpy(bytes_.data(), &header, sizeof header);
  write_file_atomically(path, bytes_);
  return tokens_hash;
}

}  // namespace causeway
