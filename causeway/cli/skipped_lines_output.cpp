#include "causeway/cli/skipped_lines_output.h"

#include "causeway/base/console.h"

namespace causeway::cli {

void show_skipped_lines(uint64_t count, const std::vector<std::string>& named) {
  if (count == 0) return;
  output("skipped     {} {} no document{}:\n", count, count == 1 ? "line that is" : "lines that are",
         count > named.size() ? ", the first of them" : "");
  for (const std::string& line : named) output("            {}\n", line);
}

}  // namespace causeway::cli
