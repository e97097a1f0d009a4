#include "causeway/train/observation/run_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/base/host_name.h"

namespace causeway::train {
namespace {

using nlohmann::ordered_json;

constexpr int kHostThread = 0;

int thread_of(DeviceQueue queue) { return queue + 1; }

std::string thread_name(int thread) {
  return thread == kHostThread                      ? "host"
         : thread == thread_of(kComputeQueue)       ? "compute"
         : thread == thread_of(kCopyQueue)          ? "copies"
         : thread == thread_of(kCommunicationQueue) ? "communication"
         : thread == thread_of(kLoadQueue)          ? "from the host"
         : thread == thread_of(kStoreQueue)         ? "to the host"
                                                    : fmt::format("queue {}", thread - 1);
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::string dump(const ordered_json& json) { return json.dump(-1, ' ', true, ordered_json::error_handler_t::replace); }

std::string bytes_of(double value) { return {reinterpret_cast<const char*>(&value), sizeof value}; }

double value_of(const std::string& bytes) {
  double value = 0;
  CAUSEWAY_CHECK(bytes.size() == sizeof value);
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

const char* category_of(InstructionLabel::Kind kind) {
  return kind == InstructionLabel::Kind::kKernel    ? "kernel"
         : kind == InstructionLabel::Kind::kCopy    ? "copy"
         : kind == InstructionLabel::Kind::kMessage ? "message"
                                                    : "collective";
}

}  // namespace

RunTrace::RunTrace(const Ranks& ranks, Mesh mesh, std::string device, std::filesystem::path run_directory,
                   int64_t first, int64_t count)
    : ranks_(ranks),
      mesh_(std::move(mesh)),
      device_(std::move(device)),
      run_directory_(std::move(run_directory)),
      first_(first),
      count_(count) {}

void RunTrace::close_phase(double at) {
  if (is_of(phase_.step))
    events_.push_back({kHostThread, phase_.start, at, phase_.name, "host", dump({{"step", phase_.step}})});
  phase_ = {};
}

void RunTrace::enter(int64_t step, std::string_view phase) {
  if (first_ == 0) return;
  const double at = now();
  close_phase(at);
  phase_ = {step, std::string(phase), at};
}

void RunTrace::add(int64_t step, const std::vector<TracedRun>& runs) {
  if (!is_of(step)) return;
  for (size_t run = 0; run < runs.size(); ++run) {
    const std::vector<InstructionLabel> labels = runs[run].program->instruction_labels();
    for (const InstructionTime& time : runs[run].times) {
      const InstructionLabel& label = labels[static_cast<size_t>(time.instruction)];
      ordered_json arguments = {{"step", step}, {"run", run}, {"instruction", time.instruction}};
      if (!label.scope.empty()) arguments["scope"] = label.scope;
      if (label.bytes > 0) arguments["bytes"] = label.bytes;
      std::string name = label.name;
      if (label.kind == InstructionLabel::Kind::kCollective) {
        const std::vector<int64_t> members = mesh_.group(ranks_.rank(), group_axes(mesh_, label.group));
        name += " over " + label.group;
        arguments["group"] = label.group;
        arguments["ranks"] = members;
        arguments["collectives"] = label.parts;
        arguments["number"] = ++numbers_[label.group];
      } else if (label.kind == InstructionLabel::Kind::kMessage) {
        const int64_t own = mesh_.stage(ranks_.rank());
        const int64_t other = ranks_.rank() + (label.stage - own) * mesh_.stage_axis()->stride;
        const auto [from, to] = label.sends ? std::pair<int64_t, int64_t>(ranks_.rank(), other)
                                            : std::pair<int64_t, int64_t>(other, ranks_.rank());
        name += fmt::format(" {} rank {}", label.sends ? "to" : "from", other);
        arguments["from"] = from;
        arguments["to"] = to;
        arguments["stream"] = label.stream;
        arguments["number"] = ++numbers_[fmt::format("{} {} {}", from, to, label.stream)];
      }
      events_.push_back(
          {thread_of(label.queue), time.start, time.end, std::move(name), category_of(label.kind), dump(arguments)});
    }
  }
}

bool RunTrace::is_due(int64_t step, bool goes_on) const {
  if (events_.empty()) return false;
  return !goes_on || step >= first_ + count_ - 1;
}

std::filesystem::path RunTrace::part(int rank) const {
  return run_directory_ / fmt::format("trace_rank_{}.part", rank);
}

// Lines of events, each with a comma behind it. Microseconds with three decimals: ends are rounded before lengths are
// made of them, so that what follows one another does not overlap.
std::string RunTrace::text(double ahead, double origin) const {
  std::string text;
  const int rank = ranks_.rank();
  const auto describe = [&](const char* what, int thread, const ordered_json& arguments) {
    text += dump({{"name", what}, {"ph", "M"}, {"pid", rank}, {"tid", thread}, {"args", arguments}}) + ",\n";
  };
  describe("process_name", 0, {{"name", fmt::format("rank {} ({}, {})", rank, host_name(), device_)}});
  describe("process_sort_index", 0, {{"sort_index", rank}});
  std::set<int> threads;
  for (const Event& event : events_) threads.insert(event.thread);
  for (const int thread : threads) {
    describe("thread_name", thread, {{"name", thread_name(thread)}});
    describe("thread_sort_index", thread, {{"sort_index", thread}});
  }
  const auto nanoseconds = [&](double seconds) {
    return static_cast<int64_t>(std::llround((seconds - ahead - origin) * 1e9));
  };
  for (const Event& event : events_) {
    const int64_t start = nanoseconds(event.start), end = std::max(start, nanoseconds(event.end));
    text += fmt::format(R"({{"name":{},"cat":"{}","ph":"X","pid":{},"tid":{},"ts":{}.{:03},"dur":{}.{:03},"args":{}}})",
                        dump(event.name), event.category, rank, event.thread, start / 1000, start % 1000,
                        (end - start) / 1000, (end - start) % 1000, event.arguments) +
            ",\n";
  }
  return text;
}

std::filesystem::path RunTrace::write() {
  close_phase(now());
  const std::vector<ClockOffset> clocks = ranks_.align_clocks();
  const double ahead = clocks[static_cast<size_t>(ranks_.rank())].ahead;
  double first = std::numeric_limits<double>::infinity();
  for (const Event& event : events_) first = std::min(first, event.start - ahead);
  double origin = std::numeric_limits<double>::infinity();
  for (const std::string& of_rank : ranks_.gather(bytes_of(first))) origin = std::min(origin, value_of(of_rank));
  ranks_.together([&] { write_file_atomically(part(ranks_.rank()), text(ahead, origin)); });
  events_.clear();
  const std::filesystem::path path = run_directory_ / "trace.json";
  ranks_.on_first([&] {
    ordered_json uncertainties = ordered_json::array();
    for (const ClockOffset& clock : clocks) uncertainties.push_back(clock.uncertainty * 1e6);
    // A new file in its place: if a link of the name is there, nothing is written through it.
    const std::filesystem::path whole = run_directory_ / "trace.json.part";
    std::error_code failure;
    std::filesystem::remove(whole, failure);
    {
      FileWriter file(whole, FileWriter::Existing::kRefuse);
      file.write(R"({"displayTimeUnit":"ms","otherData":{"clock_uncertainty_microseconds":)" + dump(uncertainties) +
                 "},\"traceEvents\":[\n");
      for (int rank = 0; rank < ranks_.count(); ++rank) {
        std::string events = read_text_file(part(rank));
        if (rank + 1 == ranks_.count()) events.resize(events.rfind(','));
        file.write(events);
        std::filesystem::remove(part(rank));
      }
      file.write("\n]}\n");
    }
    std::filesystem::rename(whole, path, failure);
    if (failure) throw Error(ErrorKind::kIo, "cannot write: " + failure.message(), path.string());
  });
  return path;
}

}  // namespace causeway::train
