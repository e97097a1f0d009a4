#include "causeway/communicator/flight_record.h"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "causeway/base/host_name.h"

namespace causeway::communicator {
namespace {

double seconds_of(CollectiveRecord::Clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

}  // namespace

constexpr size_t FlightRecord::kKept = 256;

void FlightRecord::begin(CollectiveRecord record) {
  record.queued = CollectiveRecord::Clock::now();
  records_.push_back(std::move(record));
  if (records_.size() > kKept) records_.pop_front();
}

void FlightRecord::end_last(size_t count) {
  const auto now = CollectiveRecord::Clock::now();
  for (size_t i = records_.size() - std::min(count, records_.size()); i < records_.size(); ++i) records_[i].ended = now;
}

std::string flight_text(const FlightRecord& record, const FlightOwner& owner) {
  nlohmann::ordered_json json = {{"rank", owner.rank},
                                 {"ranks", owner.ranks},
                                 {"host", host_name()},
                                 {"process", static_cast<int64_t>(::getpid())},
                                 {"written", seconds_of(CollectiveRecord::Clock::now())},
                                 {"step", owner.step},
                                 {"phase", owner.phase},
                                 {"ends_are_known", owner.knows_ends}};
  nlohmann::ordered_json collectives = nlohmann::ordered_json::array();
  for (const CollectiveRecord& one : record.records()) {
    const auto queued = nlohmann::ordered_json(seconds_of(one.queued));
    collectives.push_back({{"number", one.number},
                           {"step", one.step},
                           {"name", one.name},
                           {"group", one.group},
                           {"bytes", one.bytes},
                           {"queued", queued},
                           {"started", owner.knows_ends ? queued : nlohmann::ordered_json()},
                           {"ended", one.ended ? nlohmann::ordered_json(seconds_of(*one.ended)) : nullptr}});
  }
  json["collectives"] = std::move(collectives);
  return json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace causeway::communicator
