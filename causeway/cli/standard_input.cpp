#include "causeway/cli/standard_input.h"

#include <filesystem>

#include "causeway/base/error.h"
#include "causeway/data/input_stream.h"

namespace causeway::cli {
namespace {

constexpr size_t kMostStandardInput = size_t{1} << 30;

}  // namespace

std::string read_standard_input(const std::string& hint) {
  data::InputStream stream{std::filesystem::path(data::kStandardInput)};
  std::string text;
  for (std::string part(size_t{1} << 16, '\0');;) {
    const size_t size = stream.read(part);
    if (size == 0) return text;
    text.append(part, 0, size);
    if (text.size() > kMostStandardInput)
      throw Error(ErrorKind::kResource, fmt::format("more than {} bytes", kMostStandardInput), "standard input", hint);
  }
}

}  // namespace causeway::cli
