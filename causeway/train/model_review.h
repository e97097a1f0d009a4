// What a run looks at of its model on the way: the loss of validation data, and a sample of text. A failure does not
// end the run: it is said once, and what failed is not tried again.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "causeway/base/log.h"
#include "causeway/generate/text_generation.h"
#include "causeway/train/checkpoint/run_checkpoint.h"
#include "causeway/train/evaluation.h"
#include "causeway/train/log/run_log.h"

namespace causeway::train {

class ModelReview {
 public:
  // `run`, `validation` (null: none) and `log` (null on ranks that write none) outlive it. `is_first`: the rank that
  // tells of failures; it tells of results where the run is not `quiet`.
  ModelReview(const RunParts& run, const TokenDataset* validation, RunLog* log, bool is_first, bool quiet);

  // By all ranks, after `position`'s step. The loss; nothing without validation data, where it failed, and of
  // completions, whose reward is told of.
  bool evaluates() const { return validation_ != nullptr; }
  std::optional<double> evaluate(const RunPosition& position);
  bool samples() const;
  void print_sample(const RunPosition& position);

  // Gives up what both hold of the device.
  void release();

 private:
  void make_evaluator(const RunPosition& position);

  class Onlooker {
   public:
    Onlooker(std::string what, bool speaks) : what_(std::move(what)), speaks_(speaks) {}

    template <typename Action>
    void look(int64_t step, Action&& action) {
      if (failed_) return;
      try {
        action();
      } catch (const std::exception& error) {
        failed_ = true;
        if (speaks_) log_warning("step {}: {} failed: {}\n  Training goes on without.", step, what_, error.what());
      }
    }

   private:
    std::string what_;
    bool speaks_;  // on one rank of several
    bool failed_ = false;
  };

  const RunParts run_;
  const TokenDataset* const validation_;
  RunLog* const log_;
  const bool quiet_, speaks_;
  std::function<EvaluationResult()> evaluator_;
  std::unique_ptr<TextGenerator> generator_;
  Onlooker evaluation_, sample_;
};

}  // namespace causeway::train
