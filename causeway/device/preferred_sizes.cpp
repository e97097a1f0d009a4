#include "causeway/device/preferred_sizes.h"

namespace causeway::device {

const PreferredSizes& preferred_sizes_of_processors() {
  static constexpr PreferredSizes kSizes = {.logits_bytes = int64_t{128} << 20,
                                            .most_logits_bytes = int64_t{256} << 20,
                                            .logits_rows = 2048,
                                            .f8_multiple = 16};
  return kSizes;
}

}  // namespace causeway::device
