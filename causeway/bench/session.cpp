#include "causeway/bench/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "causeway/base/console.h"
#include "causeway/base/printable.h"
#include "causeway/base/text_table.h"
#include "causeway/bench/environment.h"
#include "causeway/bench/statistics.h"
#include "causeway/bench/telemetry/processor_cache.h"
#include "causeway/codegen/compile/compiler.h"
#include "causeway/device/gpu_device.h"
#include "causeway/device/open_device.h"

namespace causeway::bench {
namespace {

constexpr double kSteady = 0.02;     // variation between rounds that is worth a word
constexpr double kAbovePeak = 1.01;  // clocks are not exact; peaks are of the boost clock

constexpr size_t kWorkloadWidth = 43, kTypeWidth = 13, kProviderWidth = 34;

// Left-aligned in its column; a text that fills it leaves the line to itself, and the rest goes on below, in the
// columns they have.
std::string label(const std::string& text, size_t column, size_t width) {
  const std::string shown = printable(text);
  const size_t places = display_width(shown);
  return places < width ? shown + std::string(width - places, ' ') : shown + "\n" + std::string(column + width, ' ');
}

std::string figure(double value) {
  return value >= 1000 ? fmt::format("{:.0f}", value)
         : value >= 10 ? fmt::format("{:.1f}", value)
                       : fmt::format("{:.3g}", value);
}

}  // namespace

BenchmarkSession::BenchmarkSession(const SessionOptions& options)
    : options_(options),
      context_(options.context != nullptr ? options.context : Context::open(options.device)),
      context_scope_(context_),
      product_(product_name(device())),
      peak_(find_device_peak(product_)),
      cache_bytes_(peak_      ? peak_->cache_bytes
                   : is_gpu() ? 0
                              : processor_cache_bytes().value_or(0)),
      telemetry_(open_telemetry(device().name())),
      clock_(ClockProbe::open(device())),
      store_(options.store.empty() ? default_store_path() : options.store),
      before_(telemetry_->read("before")),
      sampler_(std::make_unique<TelemetrySampler>(*telemetry_)) {}

void BenchmarkSession::begin() {
  if (run_ != 0) return;
  BenchmarkRun run;
  run.started = utc_now();
  run.command = options_.command;
  run.commit = program_commit();
  run.device = product_;
  run.device_count = options_.device_count;
  run.architecture = device().target().processor;
  DeviceEnvironment environment = {product_, {}, compiler_fingerprint()};
  if (auto* gpu = dynamic_cast<GpuDevice*>(&device())) environment.driver = gpu->info().software;
  run.environment = describe_environment(environment);
  if (const std::string absent = telemetry_->why_absent(); !absent.empty()) run.environment["telemetry"] = absent;
  run.telemetry.push_back(before_);
  run_ = store_.begin_run(run);
  output("{} ({}), run {} in {}\n", product_, device().name(), run_, store_.path().string());
  if (!peak_) output("{}\n", why_no_peak(product_, device().target()));
}

BenchmarkSession::~BenchmarkSession() = default;

void BenchmarkSession::judge(Measurement& m) const {
  const Summary summary = summarize(m);
  if (m.clock_mhz.size() != m.rounds.size()) m.clock_mhz.clear();  // a round's could not be read
  if (static_cast<int>(summary.samples) < options_.samples)
    m.distrust.push_back(fmt::format("fewer samples than {}", options_.samples));
  if (m.rounds.size() < 2) {
    m.distrust.push_back("one round only: no variation between rounds is known");
  } else if (const double variation = variation_between_rounds(m); variation > kSteady) {
    m.distrust.push_back(fmt::format("rounds differ by more than {:.0f} %", 100 * kSteady));
  }
  if (m.peak && m.higher_is_better() && headline(m) > *m.peak * kAbovePeak) {
    m.correct = false;
    m.check += fmt::format("; {:.1f} {} is above the device's peak of {:.1f}", headline(m), m.unit, *m.peak);
  }
}

void BenchmarkSession::record(std::vector<Measurement> measurements) {
  if (!measurements.empty()) begin();
  for (Measurement& m : measurements) {
    judge(m);
    const auto inputs = m.details.find("inputs");
    const std::string heading =
        m.benchmark + ", " + m.group + (inputs == m.details.end() ? "" : "; inputs: " + inputs->second) +
        (m.statistic == Statistic::kMinimum ? "; figures are the best of the samples, as the benchmark's rules are"
                                            : "");
    if (heading != heading_) {
      output("\n{}\n{}{:<{}}{}{:>10}{:>10}{:>10}{:>8}{:>6}\n", printable(heading), label("", 0, kWorkloadWidth + 1),
             "type", kTypeWidth, label("provider", 0, kProviderWidth),
             m.statistic == Statistic::kMinimum ? "best " + m.unit : m.unit, "5 %", "95 %", "of peak", "n");
      heading_ = heading;
    }
    const Summary s = summarize(m);
    // The slower end of the samples is the lower end of the rates.
    const double low = m.rate(m.higher_is_better() ? s.p95 : s.p5), high = m.rate(m.higher_is_better() ? s.p5 : s.p95);
    const std::string of_peak = m.peak ? fmt::format("{:.0f} %", 100 * headline(m) / *m.peak) : "n/a";
    output("{}{:<{}}{}{:>10}{:>10}{:>10}{:>8}{:>6}{}\n", label(m.workload, 0, kWorkloadWidth + 1), m.dtype, kTypeWidth,
           label(m.provider, kWorkloadWidth + 1 + kTypeWidth, kProviderWidth), figure(headline(m)), figure(low),
           figure(high), of_peak, s.samples, m.correct ? "" : "  WRONG: " + printable(m.check));
    std::fflush(stdout);
    store_.add(run_, m);
    ++recorded_;
    all_right_ &= m.correct;
    for (const std::string& sentence : m.distrust) {
      const auto known =
          std::find_if(distrust_.begin(), distrust_.end(), [&](const auto& entry) { return entry.first == sentence; });
      if (known == distrust_.end()) {
        distrust_.emplace_back(sentence, 1);
      } else {
        ++known->second;
      }
    }
  }
}

bool BenchmarkSession::finish() {
  const Telemetry during = summarize(sampler_->stop(), "during");
  if (run_ != 0) {
    store_.add_telemetry(run_, during);
    store_.add_telemetry(run_, telemetry_->read("after"));
    output("\n");
  }
  for (const std::string& reason : during.throttle_reasons) output("the device slowed itself down: {}\n", reason);
  for (const auto& [sentence, figures] : distrust_) output("distrust {} of {}: {}\n", figures, recorded_, sentence);
  std::set<std::string> printed;
  for (const std::string& reason : skipped_)
    if (printed.insert(reason).second) output("left out: {}\n", reason);
  if (run_ == 0) {
    output("Nothing was measured on {} ({}), and nothing is stored.\n", product_, device().name());
    return false;
  }
  if (during.graphics_clock_mhz || during.power_watts)
    output("while measuring: {}{}{}\n",
           during.graphics_clock_mhz ? fmt::format("{:.0f} MHz", *during.graphics_clock_mhz) : "",
           during.power_watts ? fmt::format("  {:.0f} W", *during.power_watts) : "",
           during.temperature_celsius ? fmt::format("  {:.0f} C", *during.temperature_celsius) : "");
  output(
      "{} figures stored as run {}. `causeway bench report` draws them, `causeway bench compare` sets runs "
      "against each other.\n",
      recorded_, run_);
  if (!all_right_) output("There are wrong results: see WRONG above.\n");
  return all_right_;
}

}  // namespace causeway::bench
