#include "causeway/evaluation/model_evaluation.h"

#include <cmath>
#include <numbers>

#include "causeway/base/error.h"

namespace causeway::evaluation {
namespace {

std::vector<Likelihood> likelihoods_of(LikelihoodModel& model, const std::vector<TokenRequest>& requests,
                                       const EvaluationProgress& progress) {
  return model.of(requests, [&](size_t done) {
    if (progress) progress(done, requests.size());
  });
}

}  // namespace

TaskResult evaluate_task(LikelihoodModel& model, const RequestEncoder& encoder, const Task& task, const Task& examples,
                         const PromptOptions& options, const EvaluationProgress& progress) {
  TaskResult result;
  result.requests = task_requests(task, examples, options);
  std::vector<TokenRequest> requests;
  for (size_t i = 0; i < result.requests.size(); ++i)
    for (const TextRequest& request : result.requests[i]) {
      requests.push_back(encoder.encode(request, task.places[i]));
      if (requests.back().cut_tokens > 0) ++result.cut_requests;
    }
  result.request_count = requests.size();
  const std::vector<Likelihood> likelihoods = likelihoods_of(model, requests, progress);
  auto next = likelihoods.begin();
  for (const std::vector<TextRequest>& of_document : result.requests) {
    const auto end = next + static_cast<ptrdiff_t>(of_document.size());
    result.likelihoods.emplace_back(next, end);
    next = end;
  }
  result.scores = task_scores(*task.format, task.questions, result.likelihoods);
  return result;
}

TextResult evaluate_text(LikelihoodModel& model, const RequestEncoder& encoder, const Tokenizer& tokenizer,
                         std::string_view text, const std::string& where, const EvaluationProgress& progress) {
  const std::vector<TokenRequest> windows = encoder.encode_text(text);
  if (windows.empty())
    throw Error(ErrorKind::kInvalidArgument, "the text has no token to be scored", where, "Give more text.");
  TextResult result;
  result.windows = windows.size();
  result.bytes = text.size();
  if (!encoder.prefix_token()) result.bytes -= tokenizer.decode(std::span(windows.front().tokens).first(1)).size();
  for (const TokenRequest& window : windows) result.tokens += window.scored;
  for (const Likelihood& likelihood : likelihoods_of(model, windows, progress)) result.log_likelihood += likelihood.log;
  const double by_byte = -result.log_likelihood / static_cast<double>(result.bytes);
  result.perplexity = std::exp(-result.log_likelihood / static_cast<double>(result.tokens));
  result.byte_perplexity = std::exp(by_byte);
  result.bits_per_byte = by_byte / std::numbers::ln2;
  return result;
}

}  // namespace causeway::evaluation
