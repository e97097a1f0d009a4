#include "causeway/evaluation/model_evaluation.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <utility>

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

EncodedTask encode_task(const RequestEncoder& encoder, const Task& task, const Task& examples,
                        const PromptOptions& options, bool strict) {
  EncodedTask encoded;
  std::vector<std::vector<TextRequest>> requests = task_requests(task, examples, options);
  std::optional<Error> refusal;
  for (size_t i = 0; i < requests.size(); ++i) {
    std::vector<TokenRequest> of_document;
    try {
      for (const TextRequest& request : requests[i]) of_document.push_back(encoder.encode(request, task.places[i]));
    } catch (const Error& error) {
      if (strict || error.kind() != ErrorKind::kInvalidArgument) throw;
      if (!refusal) refusal = error;
      encoded.left_out.push_back({i, fmt::format("{}: {}", error.where(), error.message())});
      continue;
    }
    encoded.documents.push_back(i);
    encoded.requests.push_back(std::move(requests[i]));
    for (TokenRequest& request : of_document) encoded.tokens.push_back(std::move(request));
  }
  if (encoded.documents.empty() && refusal) throw Error(*refusal);
  return encoded;
}

TaskResult evaluate_task(LikelihoodModel& model, const Task& task, EncodedTask encoded,
                         const EvaluationProgress& progress) {
  TaskResult result;
  const std::vector<Likelihood> likelihoods = likelihoods_of(model, encoded.tokens, progress);
  auto next = likelihoods.begin();
  std::vector<Question> questions;
  for (size_t i = 0; i < encoded.documents.size(); ++i) {
    const auto end = next + static_cast<ptrdiff_t>(encoded.requests[i].size());
    result.likelihoods.emplace_back(next, end);
    next = end;
    questions.push_back(task.questions[encoded.documents[i]]);
    result.judgements.push_back(judge(*task.format, questions.back(), result.likelihoods.back()));
  }
  result.scores = task_scores(*task.format, questions, result.likelihoods);
  result.cut_requests = static_cast<size_t>(
      std::ranges::count_if(encoded.tokens, [](const TokenRequest& request) { return request.cut_tokens > 0; }));
  result.encoded = std::move(encoded);
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
