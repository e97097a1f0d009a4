// A model judged by tasks and by texts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/evaluation/likelihood.h"
#include "causeway/evaluation/scores.h"
#include "causeway/evaluation/task_requests.h"
#include "causeway/evaluation/token_requests.h"

namespace causeway::evaluation {

// Called with how many of all requests are done.
using EvaluationProgress = std::function<void(size_t done, size_t all)>;

// A document that the model cannot be judged by, for no token of an answer is left or one is longer than it reads.
struct LeftOutDocument {
  size_t document = 0;  // its place in the task, from 0
  std::string why;      // "FILE, line N: the answer has 20 tokens, ..."
};

// A task's requests as a model is given them.
struct EncodedTask {
  std::vector<size_t> documents;                   // that are judged: their places in the task, from 0
  std::vector<std::vector<TextRequest>> requests;  // of each of them
  std::vector<TokenRequest> tokens;                // of all these requests, in order
  std::vector<LeftOutDocument> left_out;
};

// Throws Error as task_requests() and RequestEncoder do. A document that RequestEncoder refuses is left out; with
// `strict` it is an error, and so it is where no other is there.
EncodedTask encode_task(const RequestEncoder& encoder, const Task& task, const Task& examples,
                        const PromptOptions& options, bool strict = false);

struct TaskResult {
  EncodedTask encoded;
  std::vector<std::vector<Likelihood>> likelihoods;  // of each document's requests
  std::vector<Judgement> judgements;                 // of each document
  TaskScores scores;                                 // of these documents
  size_t cut_requests = 0;                           // whose text did not fit, and lost its beginning
};

// Throws Error as LikelihoodModel does.
TaskResult evaluate_task(LikelihoodModel& model, const Task& task, EncodedTask encoded,
                         const EvaluationProgress& progress = {});

struct TextResult {
  uint64_t bytes = 0;   // of the text whose tokens are scored
  uint64_t tokens = 0;  // scored
  size_t windows = 0;
  double log_likelihood = 0;  // nats
  double perplexity = 0;      // by token
  double byte_perplexity = 0;
  double bits_per_byte = 0;
};

// As lm-evaluation-harness's loglikelihood_rolling judges one document: every token once (RequestEncoder::encode_text);
// where a tokenizer has no prefix token, all but the first and its bytes. Throws Error(kInvalidArgument), for `where`,
// when that leaves nothing.
TextResult evaluate_text(LikelihoodModel& model, const RequestEncoder& encoder, const Tokenizer& tokenizer,
                         std::string_view text, const std::string& where, const EvaluationProgress& progress = {});

}  // namespace causeway::evaluation
