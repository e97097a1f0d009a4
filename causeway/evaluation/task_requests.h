// What is asked of a model for a task's documents: texts, and texts that may follow them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "causeway/evaluation/task_file.h"

namespace causeway::evaluation {

// How likely is `continuation` after `context`?
struct TextRequest {
  std::string context;
  std::string continuation;
  bool operator==(const TextRequest&) const = default;
};

struct PromptOptions {
  size_t shots = 0;      // examples with their right answers before each document
  uint64_t seed = 1234;  // of their choice
  size_t limit = 0;      // documents from the file's beginning; 0: all
};

// For each document the requests of its choices, in order. Examples are drawn from all documents of `examples`, as
// lm-evaluation-harness's default sampler does it (random.Random(seed), one stream over the documents); where that is
// the task itself, from all but the document. Throws Error(kInvalidArgument) when it has too few.
std::vector<std::vector<TextRequest>> task_requests(const Task& task, const Task& examples,
                                                    const PromptOptions& options);

}  // namespace causeway::evaluation
