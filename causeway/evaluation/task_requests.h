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

// For each document the requests of its choices, in order. Examples are drawn from the documents of `examples`, which
// may be the task itself, but never the document: as lm-evaluation-harness's default sampler does it, from one stream
// of random.Random(seed) over the documents. Throws Error(kInvalidArgument) when there are too few.
std::vector<std::vector<TextRequest>> task_requests(const Task& task, const Task& examples,
                                                    const PromptOptions& options);

}  // namespace causeway::evaluation
