#include "causeway/evaluation/task_requests.h"

#include <algorithm>

#include "causeway/base/error.h"
#include "causeway/evaluation/python_random.h"

namespace causeway::evaluation {
namespace {

// The examples before one document after the other.
class ExampleSampler {
 public:
  ExampleSampler(const Task& task, const Task& examples, const PromptOptions& options)
      : task_(task),
        examples_(examples),
        count_(options.shots),
        // One more is drawn, for the document itself may be among them.
        spare_(&task == &examples || task.format->has_no_test_split ? 1 : 0),
        random_(options.seed) {
    if (count_ > 0 && examples.documents.size() < count_ + spare_)
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("{} examples are to be drawn from {} documents", count_, examples.documents.size()),
                  examples.file.string(),
                  fmt::format("Ask for at most {} with --shots.", examples.documents.size() - spare_));
  }

  std::string before(size_t document) {
    if (count_ == 0) return "";
    const std::vector<nlohmann::json>& pool = examples_.documents;
    std::vector<size_t> drawn = random_.sample(pool.size(), count_ + spare_);
    const auto is_document = [&](size_t i) { return pool[i] == task_.documents[document]; };
    if (spare_ > 0) std::erase_if(drawn, is_document);
    if (drawn.size() < count_) {
      // The document was drawn more than once, for the file repeats it: again, without any of it.
      std::vector<size_t> others;
      for (size_t i = 0; i < pool.size(); ++i)
        if (!is_document(i)) others.push_back(i);
      if (others.size() < count_)
        throw Error(
            ErrorKind::kInvalidArgument,
            fmt::format("{} examples are to be drawn, and {} documents differ from this one", count_, others.size()),
            task_.places[document], "Ask for fewer with --shots.");
      drawn = random_.sample(others.size(), count_);
      for (size_t& i : drawn) i = others[i];
    }
    drawn.resize(count_);
    std::string text;
    for (const size_t i : drawn) {
      const Question& example = examples_.questions[i];
      text += example.contexts[example.contexts.size() > 1 ? example.gold : 0] + kAnswerDelimiter +
              example.answers[example.answers.size() > 1 ? example.gold : 0] + kExampleDelimiter;
    }
    return text;
  }

 private:
  const Task& task_;
  const Task& examples_;
  size_t count_;
  size_t spare_;
  PythonRandom random_;
};

}  // namespace

std::vector<std::vector<TextRequest>> task_requests(const Task& task, const Task& examples,
                                                    const PromptOptions& options) {
  ExampleSampler sampler(task, examples, options);
  const size_t count = options.limit == 0 ? task.questions.size() : std::min(options.limit, task.questions.size());
  std::vector<std::vector<TextRequest>> requests(count);
  for (size_t i = 0; i < count; ++i) {
    const Question& question = task.questions[i];
    const std::string before = sampler.before(i);
    // A cloze's answer comes with its space.
    const std::string delimiter = task.format->kind == TaskKind::kCloze ? "" : kAnswerDelimiter;
    for (const std::string& context : question.contexts)
      for (const std::string& answer : question.answers) requests[i].push_back({before + context, delimiter + answer});
  }
  return requests;
}

}  // namespace causeway::evaluation
