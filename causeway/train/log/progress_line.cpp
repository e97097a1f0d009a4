#include "causeway/train/log/progress_line.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <string_view>
#include <vector>

#include "causeway/base/byte_size.h"

namespace causeway::train {
namespace {

constexpr std::string_view kWipe = "\r\x1b[K";

void write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(descriptor, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return;
    text.remove_prefix(static_cast<size_t>(count));
  }
}

int terminal_width(int descriptor) {
  struct winsize size{};
  return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// `value` to three significant digits, without an exponent below 1000.
std::string three_digits(double value) {
  const double magnitude = std::abs(value);
  return magnitude < 9.995   ? fmt::format("{:.2f}", value)
         : magnitude < 99.95 ? fmt::format("{:.1f}", value)
                             : fmt::format("{:.0f}", value);
}

std::string percent(double fraction) { return fmt::format("{:.1f}%", 100 * fraction); }

}  // namespace

std::string format_count(double value) {
  if (!std::isfinite(value)) return fmt::format("{}", value);
  constexpr std::array kUnits = {"", "k", "M", "G", "T", "P"};
  size_t unit = 0;
  while (std::abs(value) >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  if (unit == 0 && value == std::floor(value)) return fmt::format("{:.0f}", value);
  return three_digits(value) + kUnits[unit];
}

std::string format_duration(double seconds) {
  constexpr double kLongest = 1e12;  // beyond it the figure says nothing, and would not fit an integer for long
  if (!std::isfinite(seconds) || seconds < 0 || seconds > kLongest) return "n/a";
  const auto total = std::llround(seconds);
  const auto days = total / 86400;
  const auto hours = total / 3600 % 24;
  const auto minutes = total / 60 % 60;
  if (days > 0) return fmt::format("{}d{:02}h", days, hours);
  if (hours > 0) return fmt::format("{}h{:02}m", hours, minutes);
  if (minutes > 0) return fmt::format("{}m{:02}s", minutes, total % 60);
  return fmt::format("{}s", total);
}

std::string format_progress_line(const ProgressFigures& figures, int width) {
  struct Part {
    std::string text;
    int rank;  // the highest is left out first
  };
  const std::string steps = figures.total_steps > 0 ? fmt::format("step {}/{}", figures.step, figures.total_steps)
                                                    : fmt::format("step {}", figures.step);
  std::vector<Part> parts = {
      {steps, 0},
      {fmt::format("loss {:.4f}", figures.loss), 1},
      {fmt::format("grad {:.3g}", figures.grad_norm), 5},
      {fmt::format("lr {:.2e}", figures.learning_rate), 6},
      {format_count(figures.tokens_per_second) + " tok/s", 2},
      {"mfu " + (figures.mfu ? (figures.mfu_at_most ? "<=" : "") + percent(*figures.mfu) : "n/a"), 4},
      {"mem " + format_bytes(static_cast<int64_t>(figures.memory_bytes)), 8},
      {"data-wait " + percent(figures.data_wait), 7},
      {"eta " + (figures.eta_seconds ? format_duration(*figures.eta_seconds) : "n/a"), 3},
  };
  // Of the same rank as the loss, which is left out first.
  if (!figures.objective.empty()) parts.insert(parts.begin() + 2, {figures.objective, 1});
  const auto join = [&] {
    std::string line;
    for (const Part& part : parts) line += (line.empty() ? "" : "  ") + part.text;
    return line;
  };
  std::string line = join();
  if (width <= 0) return line;
  const auto columns = static_cast<size_t>(width);
  while (line.size() > columns && parts.size() > 1) {
    parts.erase(std::ranges::max_element(parts, {}, &Part::rank));
    line = join();
  }
  return line.substr(0, columns);
}

ProgressLine::ProgressLine(int descriptor, Clock::duration terminal_interval, Clock::duration plain_interval)
    : descriptor_(descriptor),
      is_terminal_(::isatty(descriptor) == 1),
      interval_(is_terminal_ ? terminal_interval : plain_interval) {
  if (is_terminal_) wiper_.emplace([this] { wipe(); });
}

ProgressLine::~ProgressLine() { finish(); }

void ProgressLine::update(const ProgressFigures& figures, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  const bool is_last = figures.total_steps > 0 && figures.step >= figures.total_steps;
  if (last_ && now - *last_ < interval_ && !is_last) return;
  last_ = now;
  if (!is_terminal_) return write_all(descriptor_, format_progress_line(figures, 0) + "\n");
  // The last column stays free: a character there makes some terminals wrap.
  const int width = std::max(1, terminal_width(descriptor_) - 1);
  write_all(descriptor_, std::string(kWipe) + format_progress_line(figures, width));
  is_drawn_ = true;
}

void ProgressLine::wipe() {
  const std::lock_guard lock(mutex_);
  if (!is_drawn_) return;
  write_all(descriptor_, kWipe);
  is_drawn_ = false;
  last_.reset();
}

void ProgressLine::finish() {
  const std::lock_guard lock(mutex_);
  if (!is_drawn_) return;
  write_all(descriptor_, "\n");
  is_drawn_ = false;
}

}  // namespace causeway::train
