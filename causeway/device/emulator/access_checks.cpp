#include "causeway/device/emulator/access_checks.h"

#include <fmt/format.h>

#include <optional>
#include <span>

namespace causeway::device {

void AccessChecks::prepare(const EmulatedLaunch& launch, int64_t index) {
  launch_ = &launch;
  index_ = index;
  last_allocation_ = {};
  if (!launch.checked) return;
  races_.begin(static_cast<uint32_t>(index), launch.threads * launch.cluster, launch.cluster,
               static_cast<size_t>(launch.shared_bytes), *launch.history);
}

void AccessChecks::order(int size) {
  if (launch_->checked) races_.synchronize(number() / size * size, size);
}

void AccessChecks::release(RaceDetector::Channel channel) {
  if (launch_->checked) races_.release(number(), channel);
}

void AccessChecks::acquire(RaceDetector::Channel channel) {
  if (launch_->checked) races_.acquire(number(), channel);
}

void AccessChecks::shared_access(int block_rank, size_t offset, size_t bytes, bool writes, uint32_t place) {
  if (const auto race = races_.shared_access(block_rank, static_cast<uint32_t>(offset), static_cast<uint32_t>(bytes),
                                             writes, number(), place))
    report_race(*race, writes, place, fmt::format("shared memory at offset {}", offset));
}

void AccessChecks::device_access(uintptr_t begin, size_t bytes, bool writes, uint32_t place) {
  const auto is_within = [&](uintptr_t from, size_t size) {
    return begin >= from && begin - from < size && bytes <= size - (begin - from);
  };
  if (!is_within(last_allocation_.begin, last_allocation_.end - last_allocation_.begin)) {
    const AllocationTable::Range found = launch_->allocations->find(begin);
    if (found.begin != found.end) last_allocation_ = found;
  }
  if (is_within(last_allocation_.begin, last_allocation_.end - last_allocation_.begin)) {
    if (const auto race = races_.global_access(begin, bytes, writes, number(), place)) {
      report_race(*race, writes, place,
                  fmt::format("device memory {:#x} ({})", begin, launch_->allocations->describe(begin)));
    }
    return;
  }
  if (!writes && (is_within(reinterpret_cast<uintptr_t>(launch_->arguments), launch_->argument_bytes) ||
                  launch_->kernel->module->contains(begin))) {
    return;
  }
  const std::string what = fmt::format("{} {} bytes", writes ? "writes" : "reads", bytes);
  if (memory_.is_near(begin)) {
    const std::span<const std::byte> shared = memory_.block(host_.block_rank());
    const auto shared_begin = reinterpret_cast<uintptr_t>(shared.data());
    host_.fail(fmt::format("{} of shared memory at offset {}{}, outside of the {} bytes that the launch gave the block",
                           what, static_cast<int64_t>(begin - shared_begin), describe_place(place), shared.size()));
  }
  host_.fail(fmt::format("{} at {:#x}{}, outside of the device's memory: {}", what, begin, describe_place(place),
                         launch_->allocations->describe(begin)));
}

std::string AccessChecks::describe_place(uint32_t place) const {
  switch (place) {
    case kUnknownPlace:
      return "";
    case kCopyAsyncPlace:
      return " by copy_async_16()";
    case kLoadMatricesPlace:
      return " by load_fragment()";
    case kTensorLoadPlace:
      return " by tensor_load()";
    case kStoreInBlockPlace:
      return " by store_in_block()";
    case kTensorStorePlace:
      return " by tensor_store()";
    default:
      return launch_->kernel->module->place(place);
  }
}

std::string AccessChecks::describe_thread(const AccessRecord& record) const {
  const int number = record.thread - 1;
  return fmt::format("thread {} of block {}", number % launch_->threads,
                     int64_t{record.cluster} * launch_->cluster + number / launch_->threads);
}

void AccessChecks::report_race(const Race& race, bool writes, uint32_t place, const std::string& memory) {
  const bool is_same_block =
      int64_t{race.other.cluster} * launch_->cluster + (race.other.thread - 1) / launch_->threads == own_block();
  host_.fail(fmt::format("a race: {} {}{}, which {} {}{} and nothing orders the two{}", writes ? "writes" : "reads",
                         memory, describe_place(place), describe_thread(race.other),
                         race.other_writes ? "wrote" : "read", describe_place(race.other.place),
                         is_same_block ? "" : ", for they are in different blocks"));
}

}  // namespace causeway::device
