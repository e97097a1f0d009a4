// A set of texts with a value each, walked byte by byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::formats {

class ByteTrie {
 public:
  static constexpr int32_t kRoot = 0, kNone = -1;
  // Nodes at most; a text adds no more than one for each of its bytes.
  static constexpr size_t kMostNodes = size_t{1} << 24;

  ByteTrie();

  // Sets the value of `text`, which must not be negative; replaces the one before. Throws Error(kResource) beyond
  // kMostNodes.
  void insert(std::string_view text, int32_t value);

  // The node behind `node` and this byte, or kNone.
  int32_t next(int32_t node, unsigned char byte) const {
    if (node == kRoot) return root_children_[byte];
    const uint64_t edge = key(node, byte);
    for (size_t slot = slot_of(edge);; slot = (slot + 1) & (edges_.size() - 1)) {
      if (edges_[slot].key == edge) return edges_[slot].child;
      if (edges_[slot].key == kFree) return kNone;
    }
  }
  // The value of the text that ends at `node`, or kNone.
  int32_t value(int32_t node) const { return values_[static_cast<size_t>(node)]; }

 private:
  struct Edge {
    uint64_t key;
    int32_t child;
  };
  static constexpr uint64_t kFree = ~uint64_t{0};

  static uint64_t key(int32_t node, unsigned char byte) { return static_cast<uint64_t>(node) << 8 | byte; }
  size_t slot_of(uint64_t edge) const { return (edge * 0x9E3779B97F4A7C15 >> 24) & (edges_.size() - 1); }
  int32_t add_child(int32_t node, unsigned char byte);
  void grow();

  std::vector<int32_t> root_children_;
  std::vector<int32_t> values_;
  std::vector<Edge> edges_;  // open addressing, at most half full
  size_t edge_count_ = 0;
};

}  // namespace causeway::formats
