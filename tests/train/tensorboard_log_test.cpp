#include "causeway/train/log/tensorboard_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <map>

#include "causeway/base/file.h"
#include "tests/fixtures/temporary_directory.h"

namespace causeway::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::span<const std::byte> bytes_of_text(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// CRC-32C bit by bit, most significant bit first over reflected input: another way than the one under test.
uint32_t slow_crc32c(std::string_view text) {
  uint32_t crc = 0xFFFFFFFF;
  const auto reflect = [](uint32_t value, int bits) {
    uint32_t out = 0;
    for (int i = 0; i < bits; ++i) out |= (value >> i & 1u) << (bits - 1 - i);
    return out;
  };
  for (const char c : text) {
    crc ^= reflect(static_cast<uint8_t>(c), 8) << 24;
    for (int bit = 0; bit < 8; ++bit) crc = (crc << 1) ^ ((crc >> 31) != 0 ? 0x1EDC6F41u : 0u);
  }
  return reflect(crc, 32) ^ 0xFFFFFFFF;
}

uint32_t slow_masked(std::string_view text) {
  const uint32_t crc = slow_crc32c(text);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

template <typename T>
T take(std::string_view& text) {
  T value{};
  EXPECT_GE(text.size(), sizeof value);
  std::memcpy(&value, text.data(), sizeof value);
  text.remove_prefix(sizeof value);
  return value;
}

std::vector<std::string> records_of(const std::filesystem::path& path) {
  const std::string content = read_text_file(path);
  std::string_view rest = content;
  std::vector<std::string> records;
  while (!rest.empty()) {
    const std::string_view length_bytes = rest.substr(0, 8);
    const auto length = take<uint64_t>(rest);
    EXPECT_EQ(take<uint32_t>(rest), slow_masked(length_bytes));
    records.emplace_back(rest.substr(0, length));
    rest.remove_prefix(length);
    EXPECT_EQ(take<uint32_t>(rest), slow_masked(records.back()));
  }
  return records;
}

struct Field {
  uint64_t number = 0;  // varint, or the bits of a fixed-size value
  std::string bytes;
};

// A protocol buffer message by the wire format alone.
std::multimap<int, Field> decode(std::string_view text) {
  const auto varint = [&] {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto b = take<uint8_t>(text);
      value |= static_cast<uint64_t>(b & 0x7F) << shift;
      if (b < 0x80) return value;
    }
  };
  std::multimap<int, Field> fields;
  while (!text.empty()) {
    const uint64_t key = varint();
    Field field;
    switch (key & 7) {
      case 0:
        field.number = varint();
        break;
      case 1:
        field.number = take<uint64_t>(text);
        break;
      case 5:
        field.number = take<uint32_t>(text);
        break;
      case 2: {
        const uint64_t size = varint();
        field.bytes = text.substr(0, size);
        text.remove_prefix(size);
        break;
      }
      default:
        ADD_FAILURE() << "wire type " << (key & 7);
    }
    fields.emplace(static_cast<int>(key >> 3), field);
  }
  return fields;
}

Field field_of(const std::multimap<int, Field>& message, int number) {
  EXPECT_EQ(message.count(number), 1u) << "field " << number;
  const auto found = message.find(number);
  return found == message.end() ? Field{} : found->second;
}

TEST(TensorboardLog, Hyperparameters) {
  const TemporaryDirectory directory;
  TensorboardLog log(directory.path(), 0);
  const TensorboardLog::Hyperparameter hyperparameters[] = {{"optimizer.learning_rate", "0.001"}, {"device", "cpu"}};
  log.write_hyperparameters(0, hyperparameters);
  const std::vector<std::string> records = records_of(log.path());
  ASSERT_EQ(records.size(), 3u);  // the version, the hyperparameters, and their table as text
  const auto value = decode(field_of(decode(field_of(decode(records[1]), 5).bytes), 1).bytes);
  EXPECT_EQ(field_of(value, 1).bytes, "_hparams_/session_start_info");
  const auto plugin = decode(field_of(decode(field_of(value, 9).bytes), 1).bytes);
  EXPECT_EQ(field_of(plugin, 1).bytes, "hparams");
  const auto session = decode(field_of(decode(field_of(plugin, 2).bytes), 3).bytes);
  EXPECT_GT(std::bit_cast<double>(field_of(session, 5).number), 1.6e9);
  const auto [first, last] = session.equal_range(1);
  ASSERT_EQ(std::distance(first, last), 2);
  const auto rate = decode(first->second.bytes), device = decode(std::next(first)->second.bytes);
  EXPECT_EQ(field_of(rate, 1).bytes, "optimizer.learning_rate");
  EXPECT_EQ(std::bit_cast<double>(field_of(decode(field_of(rate, 2).bytes), 2).number), 0.001);
  EXPECT_EQ(field_of(decode(field_of(device, 2).bytes), 3).bytes, "cpu");
  EXPECT_THAT(records[2], HasSubstr("| optimizer.learning_rate | `0.001` |"));
}

TEST(TensorboardLog, Crc32cCheckValues) {
  EXPECT_EQ(crc32c(bytes_of_text("123456789")), 0xE3069283u);            // the catalogue's check value
  EXPECT_EQ(crc32c(bytes_of_text(std::string(32, '\0'))), 0x8A9136AAu);  // RFC 3720, B.4
  EXPECT_EQ(crc32c({}), 0u);
  EXPECT_EQ(masked_crc32c(bytes_of_text("foo")), slow_masked("foo"));
}

TEST(TensorboardLog, ScalarsAndText) {
  const TemporaryDirectory directory;
  TensorboardLog log(directory / "tb", 0);
  const TensorboardLog::Scalar scalars[] = {{"train/loss", 2.5}, {"train/lr", 3e-4}};
  log.write_scalars(300, scalars);
  log.write_text(301, "config", "# hello");
  EXPECT_THAT(log.path().filename().string(), HasSubstr("events.out.tfevents."));

  const auto records = records_of(log.path());
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(field_of(decode(records[0]), 3).bytes, "brain.Event:2");
  EXPECT_GT(std::bit_cast<double>(field_of(decode(records[0]), 1).number), 1.7e9);

  const auto event = decode(records[1]);
  EXPECT_EQ(field_of(event, 2).number, 300u);
  const auto summary = decode(field_of(event, 5).bytes);
  std::map<std::string, float> values;
  for (const auto& [number, field] : summary) {
    ASSERT_EQ(number, 1);
    const auto value = decode(field.bytes);
    values[field_of(value, 1).bytes] = std::bit_cast<float>(static_cast<uint32_t>(field_of(value, 2).number));
  }
  EXPECT_THAT(values, ElementsAre(Pair("train/loss", 2.5f), Pair("train/lr", 3e-4f)));

  const auto text_event = decode(records[2]);
  EXPECT_EQ(field_of(text_event, 2).number, 301u);
  const auto value = decode(field_of(decode(field_of(text_event, 5).bytes), 1).bytes);
  EXPECT_EQ(field_of(value, 1).bytes, "config");
  const auto tensor = decode(field_of(value, 8).bytes);
  EXPECT_EQ(field_of(tensor, 1).number, 7u);
  EXPECT_EQ(field_of(decode(field_of(decode(field_of(tensor, 2).bytes), 2).bytes), 1).number, 1u);
  EXPECT_EQ(field_of(tensor, 8).bytes, "# hello");
  EXPECT_EQ(field_of(decode(field_of(decode(field_of(value, 9).bytes), 1).bytes), 1).bytes, "text");
}

TEST(TensorboardLog, ResumeTellsWhereTheRunStartsAgain) {
  const TemporaryDirectory directory;
  const TensorboardLog first(directory.path(), 0), second(directory.path(), 40);
  EXPECT_NE(first.path(), second.path());
  EXPECT_EQ(records_of(first.path()).size(), 1u);
  const auto records = records_of(second.path());
  ASSERT_EQ(records.size(), 2u);
  const auto event = decode(records[1]);
  EXPECT_EQ(field_of(event, 2).number, 41u);
  EXPECT_EQ(field_of(decode(field_of(event, 7).bytes), 1).number, 1u);
}

TEST(TensorboardLog, FollowsNoLinkOutOfTheRun) {
  const TemporaryDirectory directory;
  std::filesystem::create_directories(directory / "run");
  std::filesystem::create_directories(directory / "elsewhere");
  std::filesystem::create_symlink("../elsewhere", directory / "run/tensorboard");
  std::vector<std::string> warnings;
  const TensorboardLog log(directory / "run/tensorboard", 0,
                           [&](const std::string& warning) { warnings.push_back(warning); });
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("a link here leads out of"), std::string::npos) << warnings[0];
  EXPECT_TRUE(std::filesystem::is_empty(directory / "elsewhere"));
}

TEST(TensorboardLog, NeverThrows) {
  std::vector<std::string> warnings;
  TensorboardLog log("/proc/no/such", 5, [&](const std::string& warning) { warnings.push_back(warning); });
  const TensorboardLog::Scalar scalars[] = {{"loss", 1.0}};
  log.write_scalars(1, scalars);
  log.write_text(1, "a", "b");
  EXPECT_FALSE(log.enabled());
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("training goes on without this log")));
}

}  // namespace
}  // namespace causeway::train
