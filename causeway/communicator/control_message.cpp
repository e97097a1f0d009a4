#include "causeway/communicator/control_message.h"

#include <limits>

#include "causeway/base/error.h"
#include "causeway/base/json_document.h"

namespace causeway::communicator {
namespace {

using nlohmann::json;

constexpr int64_t kMostCount = int64_t{1} << 53;
constexpr size_t kPositionFields = 5;

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorKind::kCorrupt, what, "control plane", "Run the same version of the program on every machine.");
}

int64_t whole(const json& value, int64_t least, int64_t most, const char* name) {
  const bool is_small =
      value.is_number_integer() && !(value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(most));
  if (!is_small || value.get<int64_t>() < least || value.get<int64_t>() > most)
    fail(fmt::format("'{}' of a rank's message is not a whole number from {} to {}", name, least, most));
  return value.get<int64_t>();
}

int rank_number(const json& value, int least, const char* name) {
  return static_cast<int>(whole(value, least, std::numeric_limits<int>::max(), name));
}

std::string text(const json& value, const char* name) {
  if (!value.is_string()) fail(fmt::format("'{}' of a rank's message is not text", name));
  return value.get<std::string>();
}

bool truth(const json& value, const char* name) {
  if (!value.is_boolean()) fail(fmt::format("'{}' of a rank's message is neither true nor false", name));
  return value.get<bool>();
}

RankPosition position(const json& at) {
  if (!at.is_array() || at.size() != kPositionFields) fail("'at' of a rank's message is not a position");
  return {whole(at[0], 0, kMostCount, "step"), text(at[1], "phase"), whole(at[2], 0, kMostCount, "collectives"),
          text(at[3], "collective"), whole(at[4], 0, kMostCount, "marks")};
}

}  // namespace

std::string print_control_message(const ControlMessage& message) {
  json line = json::object();
  if (message.token) line["token"] = *message.token;
  if (message.rank) line["rank"] = *message.rank;
  if (message.welcome) line["welcome"] = *message.welcome;
  if (const auto& at = message.position) line["at"] = {at->step, at->phase, at->collectives, at->collective, at->marks};
  if (message.failure) {
    line["failed"] = message.failure->cause;
    line["consequence"] = message.failure->is_consequence;
  }
  if (message.stop) line["stop"] = *message.stop;
  if (message.leaves) line["leaves"] = true;
  if (message.record) line["record"] = true;
  return line.dump(-1, ' ', false, json::error_handler_t::replace);
}

ControlMessage parse_control_message(std::string_view line) {
  const json root = parse_json(line, {.name = "a rank's message", .where = "control plane", .is_one_line = true});
  if (!root.is_object()) fail("a rank's message is not an object");
  ControlMessage message;
  for (const auto& [key, value] : root.items()) {
    if (key == "token") message.token = text(value, "token");
    if (key == "rank") message.rank = rank_number(value, 0, "rank");
    if (key == "welcome") message.welcome = rank_number(value, 0, "welcome");
    if (key == "at") message.position = position(value);
    if (key == "stop") message.stop = rank_number(value, -1, "stop");
    if (key == "leaves") message.leaves = truth(value, "leaves");
    if (key == "record") message.record = truth(value, "record");
    if (key == "failed") message.failure.emplace().cause = text(value, "failed");
  }
  if (message.failure) {
    const auto consequence = root.find("consequence");
    if (consequence != root.end()) message.failure->is_consequence = truth(*consequence, "consequence");
  }
  return message;
}

}  // namespace causeway::communicator
