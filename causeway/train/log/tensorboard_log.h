// Event files that TensorBoard reads: records framed as in TFRecord (length, masked CRC-32C of the length, data, masked
// CRC-32C of the data), each an Event message (tensorflow/core/util/event.proto) encoded by hand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "causeway/train/log/append_log.h"

namespace causeway::train {

// CRC-32C (Castagnoli, reflected polynomial 0x82F63B78) and TFRecord's masking of it.
uint32_t crc32c(std::span<const std::byte> bytes);
uint32_t masked_crc32c(std::span<const std::byte> bytes);

class TensorboardLog {
 public:
  // Starts a new event file in `directory`. After a resume it tells TensorBoard to drop what earlier files say of steps
  // after `resumed_step` (0: a new run). Never throws; see AppendLog.
  TensorboardLog(const std::filesystem::path& directory, int64_t resumed_step, WarningSink warn = warn_in_log);

  bool enabled() const { return log_.enabled(); }
  const std::filesystem::path& path() const { return log_.path(); }

  using Scalar = std::pair<std::string_view, double>;  // tag and value, stored as a 32-bit float
  void write_scalars(int64_t step, std::span<const Scalar> scalars) noexcept;
  // What the run was started with: TensorBoard's hyperparameters tab, and as a table under its text tab.
  using Hyperparameter = std::pair<std::string, std::string>;  // name and value
  void write_hyperparameters(int64_t step, std::span<const Hyperparameter> hyperparameters) noexcept;
  // Markdown, shown under TensorBoard's text tab.
  void write_text(int64_t step, std::string_view tag, std::string_view text) noexcept;

 private:
  AppendLog log_;
};

}  // namespace causeway::train
