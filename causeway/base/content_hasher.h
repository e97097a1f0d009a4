// hash_bytes() of content that arrives in pieces.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "causeway/base/hash.h"

namespace causeway {

class ContentHasher {
 public:
  ContentHasher();
  ~ContentHasher();
  void add(std::span<const std::byte> bytes);
  // Of all bytes added so far.
  Hash128 hash() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace causeway
