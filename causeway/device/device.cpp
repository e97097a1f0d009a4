#include "causeway/device/device.h"

#include <chrono>

namespace causeway::device {
namespace {

using Clock = std::chrono::steady_clock;

struct HostMoment : DeviceMoment {
  Clock::time_point time = Clock::now();
};

}  // namespace

std::shared_ptr<DeviceMoment> Device::mark() {
  synchronize();
  return std::make_shared<HostMoment>();
}

double Device::seconds_between(const DeviceMoment& from, const DeviceMoment& to) {
  return std::chrono::duration<double>(static_cast<const HostMoment&>(to).time -
                                       static_cast<const HostMoment&>(from).time)
      .count();
}

}  // namespace causeway::device
