#include "causeway/base/content_hasher.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

namespace causeway {

struct ContentHasher::State {
  XXH3_state_t value;
};

ContentHasher::ContentHasher() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->value); }

ContentHasher::~ContentHasher() = default;

void ContentHasher::add(std::span<const std::byte> bytes) {
  XXH3_128bits_update(&state_->value, bytes.data(), bytes.size());
}

Hash128 ContentHasher::hash() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->value);
  return {hash.high64, hash.low64};
}

}  // namespace causeway
