// The hashes that an MDS index has of a file, computed from its bytes.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>

#include "causeway/namespaces.h"

namespace causeway::formats {

class MdsHashes {
 public:
  // `named`: by algorithm, as MdsFile has them. Of these xxh32, xxh64, xxh3_64, xxh128, md5 and sha1 are computed.
  explicit MdsHashes(const std::map<std::string, std::string>& named);
  MdsHashes(MdsHashes&&) noexcept;
  ~MdsHashes();

  void add(std::span<const char> bytes);
  // Whether there are hashes, and none that is computed.
  bool is_unverified() const { return has_hashes_ && !computes_any(); }
  bool computes_any() const;
  // Throws Error(kCorrupt) naming `where` and the hash when one is not that of all bytes added.
  void require(const std::string& where) const;

 private:
  class Hash;
  bool has_hashes_;
  std::map<std::string, std::string> expected_;
  std::map<std::string, std::unique_ptr<Hash>> computed_;
};

}  // namespace causeway::formats
