#include "causeway/train/log/tensorboard_log.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <charconv>
#include <chrono>
#include <string>

#include "causeway/base/error.h"
#include "causeway/base/host_name.h"

namespace causeway::train {
namespace {

constexpr std::array<uint32_t, 256> make_crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0x82F63B78u : 0u);
    table[i] = value;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kCrcTable = make_crc_table();

template <typename T>
void put_little_endian(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// The protocol buffer wire format, as far as these messages need it.
class Message {
 public:
  Message& number(int field, uint64_t value) {
    varint(static_cast<uint64_t>(field) << 3);
    varint(value);
    return *this;
  }
  Message& real64(int field, double value) {
    varint(static_cast<uint64_t>(field) << 3 | 1);
    put_little_endian(data_, std::bit_cast<uint64_t>(value));
    return *this;
  }
  Message& real32(int field, float value) {
    varint(static_cast<uint64_t>(field) << 3 | 5);
    put_little_endian(data_, std::bit_cast<uint32_t>(value));
    return *this;
  }
  Message& bytes(int field, std::string_view value) {
    varint(static_cast<uint64_t>(field) << 3 | 2);
    varint(value.size());
    data_ += value;
    return *this;
  }
  Message& message(int field, const Message& value) { return bytes(field, value.data_); }
  const std::string& data() const { return data_; }

 private:
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) data_.push_back(static_cast<char>(value | 0x80));
    data_.push_back(static_cast<char>(value));
  }
  std::string data_;
};

// Field numbers of event.proto, summary.proto, tensor.proto and tensor_shape.proto.
enum EventField { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7 };
enum SummaryField { kSummaryValue = 1 };
enum ValueField { kTag = 1, kSimpleValue = 2, kTensor = 8, kMetadata = 9 };
enum MetadataField { kPluginData = 1 };
enum PluginDataField { kPluginName = 1, kPluginContent = 2 };
// tensorboard/plugins/hparams/plugin_data.proto, and protobuf's struct.proto for a value.
enum HParamsField { kSessionStartInfo = 3 };
enum SessionStartField { kHParam = 1, kStartTime = 5 };
enum MapField { kMapKey = 1, kMapValue = 2 };
enum StructValueField { kNumberValue = 2, kStringValueOfStruct = 3 };
enum TensorField { kTensorDtype = 1, kTensorShape = 2, kStringValue = 8 };
enum ShapeField { kShapeDim = 2 };
enum DimField { kDimSize = 1 };
enum SessionLogField { kSessionStatus = 1 };
constexpr uint64_t kSessionStart = 1;
constexpr uint64_t kDtypeFloat = 1;
constexpr uint64_t kDtypeString = 7;

Message event_at(int64_t step) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  Message event;
  event.real64(kWallTime, now.count()).number(kStep, static_cast<uint64_t>(step));
  return event;
}

void append_record(AppendLog& log, const Message& event) {
  const std::string& data = event.data();
  std::string record;
  put_little_endian<uint64_t>(record, data.size());
  put_little_endian(record, masked_crc32c(bytes_of(record)));
  record += data;
  put_little_endian(record, masked_crc32c(bytes_of(data)));
  log.append(bytes_of(record));
}

// TensorBoard reads the files of a directory in the order of their names, which therefore start with the time.
std::string event_file_name() {
  static std::atomic<int> files{0};
  const auto now =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch());
  return fmt::format("events.out.tfevents.{:010}.{}.{}.{}", now.count(), host_name(), ::getpid(), files.fetch_add(1));
}

}  // namespace

uint32_t crc32c(std::span<const std::byte> bytes) {
  uint32_t crc = ~0u;
  for (const std::byte b : bytes) crc = kCrcTable[(crc ^ static_cast<uint32_t>(b)) & 0xFF] ^ (crc >> 8);
  return ~crc;
}

uint32_t masked_crc32c(std::span<const std::byte> bytes) { return std::rotr(crc32c(bytes), 15) + 0xA282EAD8u; }

TensorboardLog::TensorboardLog(const std::filesystem::path& directory, int64_t resumed_step, WarningSink warn)
    : log_(directory.parent_path(), directory.filename() / event_file_name(), std::move(warn)) {
  append_record(log_, event_at(0).bytes(kFileVersion, "brain.Event:2"));
  if (resumed_step > 0) {
    append_record(log_,
                  event_at(resumed_step + 1).message(kSessionLog, Message().number(kSessionStatus, kSessionStart)));
  }
}

void TensorboardLog::write_scalars(int64_t step, std::span<const Scalar> scalars) noexcept {
  if (!log_.enabled()) return;
  try {
    Message summary;
    for (const auto& [tag, value] : scalars)
      summary.message(kSummaryValue, Message().bytes(kTag, tag).real32(kSimpleValue, static_cast<float>(value)));
    append_record(log_, event_at(step).message(kSummary, summary));
  } catch (const std::exception& error) {
    log_.disable(error.what());
  }
}

void TensorboardLog::write_hyperparameters(int64_t step, std::span<const Hyperparameter> hyperparameters) noexcept {
  if (!log_.enabled()) return;
  try {
    Message session;
    std::string table = "| key | value |\n|---|---|\n";
    for (const auto& [name, value] : hyperparameters) {
      double number = 0;
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
      const bool is_number = error == std::errc() && end == value.data() + value.size();
      Message typed;
      if (is_number)
        typed.real64(kNumberValue, number);
      else
        typed.bytes(kStringValueOfStruct, value);
      session.message(kHParam, Message().bytes(kMapKey, name).message(kMapValue, typed));
      table += fmt::format("| {} | `{}` |\n", name, value);
    }
    const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
    session.real64(kStartTime, now.count());
    const Message content = Message().message(kSessionStartInfo, session);
    const Message metadata =
        Message().message(kPluginData, Message().bytes(kPluginName, "hparams").message(kPluginContent, content));
    // The plugin takes no value but wants a tensor: one without elements.
    const Message none =
        Message().number(kTensorDtype, kDtypeFloat).message(kTensorShape, Message().message(kShapeDim, Message()));
    const Message value =
        Message().bytes(kTag, "_hparams_/session_start_info").message(kTensor, none).message(kMetadata, metadata);
    append_record(log_, event_at(step).message(kSummary, Message().message(kSummaryValue, value)));
    write_text(step, "recipe", table);
  } catch (const std::exception& error) {
    log_.disable(error.what());
  }
}

void TensorboardLog::write_text(int64_t step, std::string_view tag, std::string_view text) noexcept {
  if (!log_.enabled()) return;
  try {
    const Message shape = Message().message(kShapeDim, Message().number(kDimSize, 1));
    const Message tensor =
        Message().number(kTensorDtype, kDtypeString).message(kTensorShape, shape).bytes(kStringValue, text);
    const Message metadata = Message().message(kPluginData, Message().bytes(kPluginName, "text"));
    const Message value = Message().bytes(kTag, tag).message(kTensor, tensor).message(kMetadata, metadata);
    append_record(log_, event_at(step).message(kSummary, Message().message(kSummaryValue, value)));
  } catch (const std::exception& error) {
    log_.disable(error.what());
  }
}

}  // namespace causeway::train
