// Training of byte-level byte-pair encoding (Sennrich et al. 2016; Radford et al. 2019).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::formats {

struct TrainedBytePairs {
  // Bytes, by id: the 256 bytes first, then what merges make, in order.
  std::vector<std::string> tokens;
  // Ids, in order of rank.
  std::vector<std::pair<int32_t, int32_t>> merges;
};

// Merges again and again the pair that is most frequent in `words` (each with how often it occurs), of equally frequent
// ones that of the lowest ids, until there are `tokens` tokens (at least 256) or no pair occurs twice. The result
// depends on the words and their counts alone.
TrainedBytePairs train_byte_pairs(const std::map<std::string, int64_t>& words, size_t tokens);

}  // namespace causeway::formats
