#include "causeway/formats/mds_hashes.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <functional>

#include "causeway/base/error.h"
#include "causeway/base/printable.h"
#include "causeway/formats/message_digest.h"

namespace causeway::formats {

class MdsHashes::Hash {
 public:
  virtual ~Hash() = default;
  virtual void add(std::span<const char> bytes) = 0;
  virtual std::string hex() const = 0;

  class Digest;
  class Xxh32;
  class Xxh64;
  class Xxh3;
};

class MdsHashes::Hash::Digest : public Hash {
 public:
  explicit Digest(MessageDigest::Algorithm algorithm) : digest_(algorithm) {}
  void add(std::span<const char> bytes) override { digest_.add(bytes); }
  std::string hex() const override { return digest_.hex(); }

 private:
  MessageDigest digest_;
};

class MdsHashes::Hash::Xxh32 : public Hash {
 public:
  Xxh32() { XXH32_reset(&state_, 0); }
  void add(std::span<const char> bytes) override { XXH32_update(&state_, bytes.data(), bytes.size()); }
  std::string hex() const override { return fmt::format("{:08x}", XXH32_digest(&state_)); }

 private:
  XXH32_state_t state_;
};

class MdsHashes::Hash::Xxh64 : public Hash {
 public:
  Xxh64() { XXH64_reset(&state_, 0); }
  void add(std::span<const char> bytes) override { XXH64_update(&state_, bytes.data(), bytes.size()); }
  std::string hex() const override { return fmt::format("{:016x}", XXH64_digest(&state_)); }

 private:
  XXH64_state_t state_;
};

class MdsHashes::Hash::Xxh3 : public Hash {
 public:
  explicit Xxh3(bool is_wide) : is_wide_(is_wide) {
    is_wide_ ? XXH3_128bits_reset(state_.get()) : XXH3_64bits_reset(state_.get());
  }
  void add(std::span<const char> bytes) override {
    is_wide_ ? XXH3_128bits_update(state_.get(), bytes.data(), bytes.size())
             : XXH3_64bits_update(state_.get(), bytes.data(), bytes.size());
  }
  std::string hex() const override {
    if (!is_wide_) return fmt::format("{:016x}", XXH3_64bits_digest(state_.get()));
    const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  bool is_wide_;
  std::unique_ptr<XXH3_state_t, Free> state_{XXH3_createState()};
};

MdsHashes::MdsHashes(const std::map<std::string, std::string>& named) : has_hashes_(!named.empty()) {
  using Algorithm = MessageDigest::Algorithm;
  for (const auto& [algorithm, hash] : named) {
    std::unique_ptr<Hash> computed;
    if (algorithm == "md5") computed = std::make_unique<Hash::Digest>(Algorithm::kMd5);
    if (algorithm == "sha1") computed = std::make_unique<Hash::Digest>(Algorithm::kSha1);
    if (algorithm == "xxh32") computed = std::make_unique<Hash::Xxh32>();
    if (algorithm == "xxh64") computed = std::make_unique<Hash::Xxh64>();
    if (algorithm == "xxh3_64") computed = std::make_unique<Hash::Xxh3>(false);
    if (algorithm == "xxh128" || algorithm == "xxh3_128") computed = std::make_unique<Hash::Xxh3>(true);
    if (computed == nullptr) continue;
    expected_[algorithm] = hash;
    computed_[algorithm] = std::move(computed);
  }
}

MdsHashes::MdsHashes(MdsHashes&&) noexcept = default;
MdsHashes::~MdsHashes() = default;

void MdsHashes::add(std::span<const char> bytes) {
  for (const auto& [algorithm, hash] : computed_) hash->add(bytes);
}

bool MdsHashes::computes_any() const { return !computed_.empty(); }

void MdsHashes::require(const std::string& where) const {
  for (const auto& [algorithm, hash] : computed_) {
    if (const std::string found = hash->hex(); found != expected_.at(algorithm))
      throw Error(ErrorKind::kCorrupt,
                  fmt::format("the shard is damaged: its {} is {}, and {} by its index", algorithm, found,
                              printable(expected_.at(algorithm))),
                  where, "Copy the shard again from its source.");
  }
}

}  // namespace causeway::formats
