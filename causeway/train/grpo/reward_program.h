// A completion judged by a program of the user's (grpo.reward=program): a command that runs beside the run. For each
// completion it is given a line on standard input, a JSON object with the fields of the prompt's record and
// "completion", and writes a line with a number. What it writes to standard error is the run's.
#pragma once

#include <sys/types.h>

#include <string>

#include "causeway/base/file_descriptor.h"
#include "causeway/train/grpo/reward.h"

namespace causeway::train {

class RewardProgram final : public Reward {
 public:
  // Of a command for /bin/sh, which is started for the first completion. `seconds`: how long it may take for each.
  RewardProgram(std::string command, double seconds) : command_(std::move(command)), seconds_(seconds) {}
  RewardProgram(const RewardProgram&) = delete;
  RewardProgram& operator=(const RewardProgram&) = delete;
  // Ends it: by the end of its input, or where it does not heed that, at once.
  ~RewardProgram() override;

  // Throws Error naming the completion where the program cannot be started, ends, takes too long, or writes something
  // other than one line with a finite number. It is ended then, and started again for the next completion.
  double judge(const JudgedCompletion& completion) override;

 private:
  using Deadline = double;  // seconds of the steady clock

  void start();
  void end() noexcept;
  void write_line(const std::string& line, Deadline deadline);
  std::string read_line(Deadline deadline);
  // What became of it, once its output has ended.
  std::string how_it_ended();

  const std::string command_;
  const double seconds_;
  pid_t process_ = -1;
  FileDescriptor input_, output_;  // of the program's, our ends
  std::string unread_;
};

}  // namespace causeway::train
