#include "causeway/formats/tokenizer/byte_trie.h"

#include <utility>

#include "causeway/base/error.h"

namespace causeway::formats {

ByteTrie::ByteTrie() : root_children_(256, kNone), values_(1, kNone), edges_(1024, Edge{kFree, kNone}) {}

void ByteTrie::insert(std::string_view text, int32_t value) {
  CAUSEWAY_CHECK(value >= 0);
  int32_t node = kRoot;
  for (const char byte : text) {
    const auto unsigned_byte = static_cast<unsigned char>(byte);
    const int32_t child = next(node, unsigned_byte);
    node = child == kNone ? add_child(node, unsigned_byte) : child;
  }
  values_[static_cast<size_t>(node)] = value;
}

int32_t ByteTrie::add_child(int32_t node, unsigned char byte) {
  if (values_.size() >= kMostNodes) {
    throw Error(ErrorKind::kResource, fmt::format("the tokens have more than {} bytes in all", kMostNodes),
                "tokenizer vocabulary", "Check that this is a tokenizer of text.");
  }
  const auto child = static_cast<int32_t>(values_.size());
  values_.push_back(kNone);
  if (node == kRoot) return root_children_[byte] = child;
  if (2 * (edge_count_ + 1) > edges_.size()) grow();
  size_t slot = slot_of(key(node, byte));
  while (edges_[slot].key != kFree) slot = (slot + 1) & (edges_.size() - 1);
  edges_[slot] = {key(node, byte), child};
  ++edge_count_;
  return child;
}

void ByteTrie::grow() {
  const std::vector<Edge> before = std::exchange(edges_, std::vector<Edge>(2 * edges_.size(), Edge{kFree, kNone}));
  for (const Edge& edge : before) {
    if (edge.key == kFree) continue;
    size_t slot = slot_of(edge.key);
    while (edges_[slot].key != kFree) slot = (slot + 1) & (edges_.size() - 1);
    edges_[slot] = edge;
  }
}

}  // namespace causeway::formats
