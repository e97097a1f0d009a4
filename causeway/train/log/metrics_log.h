// Metrics as JSON lines: one object a line, "step" first, handed to the operating system as soon as it is complete.
// Numbers that are not finite are written as null, for JSON has no other word for them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "causeway/train/log/append_log.h"

namespace causeway::train {

class MetricsLog {
 public:
  // Continues the file of a run resumed after `resumed_step` completed steps (0: a new run): a torn last line and
  // records of later steps are cut off, for they are written again. A file that does not begin as such a log does is
  // left as it is. A link out of the directory is not followed. Never throws; see AppendLog.
  MetricsLog(const std::filesystem::path& path, int64_t resumed_step, WarningSink warn = warn_in_log);

  bool enabled() const { return log_.enabled(); }
  // `fields` is an object; its keys follow "step".
  void write(int64_t step, const nlohmann::ordered_json& fields) noexcept;

 private:
  AppendLog log_;
};

}  // namespace causeway::train
