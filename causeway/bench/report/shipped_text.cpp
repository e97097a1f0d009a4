#include "causeway/bench/report/shipped_text.h"

#include "causeway/base/error.h"

namespace causeway::bench {

std::string_view shipped_benchmark_text(std::string_view path) {
  for (const EmbeddedText& file : shipped_benchmark_files())
    if (file.path == path) return file.text;
  CAUSEWAY_CHECK(false, "{} is not embedded", path);
  return {};
}

}  // namespace causeway::bench
