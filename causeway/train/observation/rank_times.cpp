#include "causeway/train/observation/rank_times.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "causeway/base/error.h"

namespace causeway::train {
namespace {

// As it travels; NaN stands for what was not measured.
struct Packed {
  double step, data_wait, compute, exposed;
  uint64_t memory_bytes;
};

std::optional<double> measured(double value) { return std::isnan(value) ? std::nullopt : std::optional<double>(value); }

// Nothing where a rank lacks it.
template <typename Get>
std::optional<std::vector<double>> of_all(std::span<const RankTimes> times, Get&& get) {
  std::vector<double> values;
  for (const RankTimes& one : times) {
    const std::optional<double> value = get(one);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

template <typename T>
size_t greatest(const std::vector<T>& values) {
  return static_cast<size_t>(std::ranges::max_element(values) - values.begin());
}

template <typename T>
nlohmann::ordered_json spread(const std::vector<T>& values) {
  std::vector<T> sorted = values;
  std::ranges::sort(sorted);
  const size_t middle = sorted.size() / 2;
  const T median = sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  return {{"min", sorted.front()}, {"median", median}, {"max", sorted.back()}, {"max_rank", greatest(values)}};
}

}  // namespace

std::optional<double> RankTimes::own_work() const {
  if (!compute) return std::nullopt;
  return data_wait + *compute;
}

void RankTimesSum::add(double step_seconds, double data_wait_seconds, const std::optional<WorkSeconds>& work) {
  ++steps_;
  step_ += step_seconds;
  data_wait_ += data_wait_seconds;
  if (!work) return;
  ++measured_;
  compute_ += work->compute;
  exposed_ += work->exposed;
}

RankTimes RankTimesSum::take() {
  RankTimes mean;
  const auto steps = static_cast<double>(std::max<int64_t>(steps_, 1));
  mean.step = step_ / steps;
  mean.data_wait = data_wait_ / steps;
  if (measured_ > 0) {
    mean.compute = compute_ / static_cast<double>(measured_);
    mean.exposed_communication = exposed_ / static_cast<double>(measured_);
  }
  *this = {};
  return mean;
}

std::vector<RankTimes> gather_rank_times(const Ranks& ranks, const RankTimes& own) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const Packed packed = {own.step, own.data_wait, own.compute.value_or(kNone),
                         own.exposed_communication.value_or(kNone), own.memory_bytes};
  std::vector<RankTimes> times;
  for (const std::string& bytes : ranks.gather({reinterpret_cast<const char*>(&packed), sizeof packed})) {
    CAUSEWAY_CHECK(bytes.size() == sizeof packed);
    Packed other;
    std::memcpy(&other, bytes.data(), sizeof other);
    times.push_back(
        {other.step, other.data_wait, measured(other.compute), measured(other.exposed), other.memory_bytes});
  }
  return times;
}

nlohmann::ordered_json rank_times_json(std::span<const RankTimes> times, bool each) {
  nlohmann::ordered_json json = {{"count", times.size()}};
  const auto add = [&](const char* key, auto&& get) {
    const std::optional<std::vector<double>> values = of_all(times, get);
    if (!values) return;
    json[key] = spread(*values);
    if (each) json["each"][key] = *values;
  };
  const auto own_work = of_all(times, [](const RankTimes& one) { return one.own_work(); });
  if (own_work) json["slowest"] = greatest(*own_work);
  add("step_seconds", [](const RankTimes& one) { return std::optional(one.step); });
  add("data_wait_seconds", [](const RankTimes& one) { return std::optional(one.data_wait); });
  add("compute_seconds", [](const RankTimes& one) { return one.compute; });
  add("exposed_communication_seconds", [](const RankTimes& one) { return one.exposed_communication; });
  std::vector<uint64_t> memory;
  for (const RankTimes& one : times) memory.push_back(one.memory_bytes);
  json["memory_bytes"] = spread(memory);
  if (each) json["each"]["memory_bytes"] = memory;
  return json;
}

}  // namespace causeway::train
