#include "causeway/train/log/metrics_log.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "causeway/base/enclosed_path.h"
#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/base/file_descriptor.h"
#include "causeway/base/json_document.h"

namespace causeway::train {
namespace {

std::optional<int64_t> step_of(std::string_view line) {
  nlohmann::json record;
  try {
    record = parse_json(line, {});
  } catch (const Error&) {
    return std::nullopt;
  }
  if (!record.is_object()) return std::nullopt;
  const auto step = record.find("step");
  if (step == record.end() || !step->is_number_integer()) return std::nullopt;
  return step->get<int64_t>();
}

// How much of the log belongs to the run up to and including `resumed_step`. Steps rise along the file, so only its
// end is read.
size_t kept_bytes(std::string_view text, int64_t resumed_step) {
  size_t end = text.rfind('\n') + 1;  // npos + 1 == 0: a file without a whole line
  while (end > 0) {
    const size_t before = end < 2 ? std::string_view::npos : text.rfind('\n', end - 2);
    const size_t begin = before == std::string_view::npos ? 0 : before + 1;
    const auto step = step_of(text.substr(begin, end - 1 - begin));
    if (step && *step <= resumed_step) break;
    end = begin;
  }
  return end;
}

// As write() begins records; a file may end within its first.
bool is_log(std::string_view text) {
  constexpr std::string_view kBeginning = "{\"step\":";
  const size_t begin = std::min(text.find_first_not_of('\n'), text.size());
  return kBeginning.starts_with(text.substr(begin, kBeginning.size()));
}

}  // namespace

MetricsLog::MetricsLog(const std::filesystem::path& path, int64_t resumed_step, WarningSink warn)
    : log_(path.parent_path(), path.filename(), std::move(warn)) {
  if (!log_.enabled()) return;
  try {
    // Of the place that was opened for writing: what has no records (/dev/null) has none to cut.
    FileDescriptor descriptor(open_enclosed(path.parent_path(), path.filename(), O_RDONLY | O_NONBLOCK));
    struct stat status{};
    if (::fstat(descriptor.get(), &status) != 0 || !S_ISREG(status.st_mode)) return;
    const MappedFile file(path, descriptor.release());
    const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
    if (!is_log(text)) {
      log_.disable("it is no log of a run's metrics: move it away");
    } else if (const size_t keep = kept_bytes(text, resumed_step); keep != text.size()) {
      log_.cut(keep);
    }
  } catch (const std::exception& error) {
    log_.disable(error.what());
  }
}

void MetricsLog::write(int64_t step, const nlohmann::ordered_json& fields) noexcept {
  if (!log_.enabled()) return;
  try {
    nlohmann::ordered_json record = {{"step", step}};
    record.update(fields);
    std::string line = record.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
    line += '\n';
    log_.append(std::as_bytes(std::span(line.data(), line.size())));
  } catch (const std::exception& error) {
    log_.disable(error.what());
  }
}

}  // namespace causeway::train
