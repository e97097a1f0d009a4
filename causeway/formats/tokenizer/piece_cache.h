// Encoded pieces of text, remembered by their bytes: most pieces of a text are few words that come again and again.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::formats {

// Each piece has one slot, which the latest piece that maps to it takes. For one thread at a time.
class PieceCache {
 public:
  // Appends the ids of `piece` to `ids`: the remembered ones, or those that encode(piece, ids) appends.
  template <class Encode>
  void encode(std::string_view piece, std::vector<int32_t>& ids, const Encode& encode) {
    if (piece.size() > kLongestPiece) {
      encode(piece, ids);
      return;
    }
    const std::array<uint64_t, 3> key = key_of(piece);
    Entry& entry = slot(key);
    if (entry.key == key) {
      ids.insert(ids.end(), entry.ids.begin(), entry.ids.begin() + entry.count);
      return;
    }
    const size_t before = ids.size();
    encode(piece, ids);
    const size_t count = ids.size() - before;
    if (count > kMostIds) return;
    entry.key = key;
    entry.count = static_cast<int32_t>(count);
    std::copy(ids.begin() + static_cast<ptrdiff_t>(before), ids.end(), entry.ids.begin());
  }

 private:
  static constexpr size_t kLongestPiece = 23;
  static constexpr size_t kMostIds = 9;
  static constexpr int kSlotBits = 15;

  struct Entry {
    std::array<uint64_t, 3> key{};  // the piece's size in the first byte, then its bytes; all zero when free
    std::array<int32_t, kMostIds> ids{};
    int32_t count = 0;
  };

  static std::array<uint64_t, 3> key_of(std::string_view piece) {
    std::array<char, 24> bytes{};
    bytes[0] = static_cast<char>(piece.size());
    std::memcpy(bytes.data() + 1, piece.data(), piece.size());
    std::array<uint64_t, 3> key{};
    std::memcpy(key.data(), bytes.data(), sizeof key);
    return key;
  }

  Entry& slot(const std::array<uint64_t, 3>& key) {
    uint64_t hash = (key[0] ^ key[1] * 0x9E3779B97F4A7C15 ^ key[2] * 0xC2B2AE3D27D4EB4F) * 0xD6E8FEB86659FD93;
    hash ^= hash >> 32;
    return entries_[hash * 0xD6E8FEB86659FD93 >> (64 - kSlotBits)];
  }

  std::vector<Entry> entries_ = std::vector<Entry>(size_t{1} << kSlotBits);
};

// One cache for each call in flight, kept for the calls after it.
class PieceCachePool {
 public:
  class Lease {
   public:
    explicit Lease(PieceCachePool& pool) : pool_(pool), cache_(pool.take()) {}
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease() { pool_.give_back(std::move(cache_)); }
    PieceCache& operator*() const { return *cache_; }

   private:
    PieceCachePool& pool_;
    std::unique_ptr<PieceCache> cache_;
  };

 private:
  std::unique_ptr<PieceCache> take() {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        std::unique_ptr<PieceCache> cache = std::move(free_.back());
        free_.pop_back();
        return cache;
      }
    }
    return std::make_unique<PieceCache>();
  }
  void give_back(std::unique_ptr<PieceCache> cache) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(cache));
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<PieceCache>> free_;
};

}  // namespace causeway::formats
