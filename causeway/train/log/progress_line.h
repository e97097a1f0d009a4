// The line that tells how training goes: rewritten in place on a terminal, printed now and then anywhere else.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "causeway/base/console.h"
#include "causeway/namespaces.h"

namespace causeway::train {

struct ProgressFigures {
  int64_t step = 0;         // steps completed
  int64_t total_steps = 0;  // 0 when the run has no end
  double loss = 0;
  // Of an objective that is not told by its loss: "reward 0.516" of completions, "accuracy 62.5%" of pairs.
  std::string objective;
  double grad_norm = 0;
  double learning_rate = 0;
  double tokens_per_second = 0;
  std::optional<double> mfu;  // fraction of the device's peak; absent when the peak is unknown
  bool mfu_at_most = false;   // and no more is known of it
  uint64_t memory_bytes = 0;
  double data_wait = 0;               // fraction of the time spent waiting for data
  std::optional<double> eta_seconds;  // absent when not known yet
};

// Three significant digits with a decimal unit: "987", "12.3k", "1.05M".
std::string format_count(double value);
// "42s", "5m07s", "3h05m", "2d04h".
std::string format_duration(double seconds);

// One line without a newline, ASCII only, at most `width` columns (0: as long as it gets). Where space is short the
// figures least needed are left out whole; step and loss, or what stands for it, go last.
std::string format_progress_line(const ProgressFigures& figures, int width);

class ProgressLine {
 public:
  using Clock = std::chrono::steady_clock;

  // Of a terminal's line messages take the place (LineWiper); the next update draws it again.
  //
  // Writes to an open file descriptor, which it does not own. Errors in writing are ignored.
  explicit ProgressLine(int descriptor, Clock::duration terminal_interval = std::chrono::milliseconds(100),
                        Clock::duration plain_interval = std::chrono::seconds(10));
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  // Ends the line.
  ~ProgressLine();

  // Shows the figures if the last line is old enough; the first and the last step are always shown.
  void update(const ProgressFigures& figures, Clock::time_point now = Clock::now());
  // Leaves the line as it stands and moves below it.
  void finish();

 private:
  void wipe();

  int descriptor_;
  bool is_terminal_;
  Clock::duration interval_;
  std::mutex mutex_;  // of what follows
  std::optional<Clock::time_point> last_;
  bool is_drawn_ = false;  // a line stands on the terminal with the cursor in it
  std::optional<LineWiper> wiper_;
};

}  // namespace causeway::train
