#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "causeway/base/console.h"
#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/base/hash.h"
#include "causeway/base/log.h"
#include "causeway/base/text_table.h"
#include "causeway/cli/commands.h"
#include "causeway/cli/json_output.h"
#include "causeway/cli/model_argument.h"
#include "causeway/cli/progress_report.h"
#include "causeway/evaluation/model_evaluation.h"
#include "causeway/program/context.h"

namespace causeway::cli {
namespace {

using Json = nlohmann::ordered_json;

struct EvaluateCommandOptions {
  std::string model, data = "data/eval", examples, tokenizer, precision, documents, device = "auto",
                     device_architecture;
  std::vector<std::string> tasks, texts;
  AdapterArguments adapters;
  PromptOptions prompt;
  int64_t max_length = 0;
  int64_t batch_tokens = 3072;
  bool strict = false, json = false;
};

// What --documents writes: a line for each document, with every request and what the model made of it.
class DocumentLog {
 public:
  explicit DocumentLog(const std::string& path) {
    if (!path.empty()) file_.emplace(path);
  }

  void add(const Task& task, const TaskResult& result) {
    if (!file_) return;
    const EncodedTask& encoded = result.encoded;
    for (size_t i = 0; i < encoded.documents.size(); ++i) {
      const Judgement& judgement = result.judgements[i];
      Json json = {{"task", task.name}, {"document", encoded.documents[i]}, {"right", judgement.is_right}};
      if (task.format->kind != TaskKind::kCloze) {
        json["gold"] = task.questions[encoded.documents[i]].gold;
        json["chosen"] = judgement.chosen;
      }
      if (task.format->has_acc_norm) json["chosen_norm"] = judgement.chosen_norm;
      json["requests"] = Json::array();
      for (size_t k = 0; k < encoded.requests[i].size(); ++k)
        json["requests"].push_back({{"context", encoded.requests[i][k].context},
                                    {"continuation", encoded.requests[i][k].continuation},
                                    {"log_likelihood", result.likelihoods[i][k].log},
                                    {"greedy", result.likelihoods[i][k].is_greedy}});
      write(json);
    }
    for (const LeftOutDocument& document : encoded.left_out)
      write({{"task", task.name}, {"document", document.document}, {"left_out", document.why}});
  }

 private:
  void write(const Json& json) { file_->write(json.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n"); }

  std::optional<FileWriter> file_;
};

void add_score(Json& json, const std::string& name, const Score& score) {
  json[name] = score.value;
  json[name + "_stderr"] = score.standard_error ? Json(*score.standard_error) : Json(nullptr);
}

Json describe(const Task& task, const TaskResult& result) {
  Json json = {{"task", task.name},
               {"format", fmt::format("{} {}", task.format->names.front(), task.format->version)},
               {"file", task.file.string()},
               {"hash", task.hash},
               {"documents", result.encoded.documents.size()},
               {"left_out", result.encoded.left_out.size()},
               {"requests", result.encoded.tokens.size()},
               {"truncated", result.cut_requests}};
  add_score(json, "acc", result.scores.acc);
  if (result.scores.acc_norm) add_score(json, "acc_norm", *result.scores.acc_norm);
  if (result.scores.perplexity) add_score(json, "perplexity", *result.scores.perplexity);
  return json;
}

Json describe(const std::string& path, const std::string& text, const TextResult& result) {
  return {{"file", path},
          {"hash", hash_text(text).hex()},
          {"bytes", result.bytes},
          {"tokens", result.tokens},
          {"windows", result.windows},
          {"log_likelihood", result.log_likelihood},
          {"perplexity", result.perplexity},
          {"byte_perplexity", result.byte_perplexity},
          {"bits_per_byte", result.bits_per_byte}};
}

std::string with_error(const std::optional<Score>& score) {
  if (!score) return "";
  return score->standard_error ? fmt::format("{:.4f} +- {:.4f}", score->value, *score->standard_error)
                               : fmt::format("{:.4f}", score->value);
}

// The rows of both tables, for people.
struct Tables {
  std::vector<std::vector<std::string>> tasks = {
      {"task", "documents", "left out", "acc", "acc_norm", "perplexity", "truncated", "hash"}};
  std::vector<std::vector<std::string>> texts = {{"text", "bytes", "tokens", "perplexity", "bits per byte"}};

  void print() const {
    if (tasks.size() > 1) write_output(format_table(tasks, {1, 2, 6}));
    if (texts.size() > 1) write_output(format_table(texts, {1, 2, 3, 4}));
  }
};

// Who compares figures must know that they are of fewer documents.
void say_what_is_left_out(const Task& task, const EncodedTask& encoded) {
  const std::vector<LeftOutDocument>& left_out = encoded.left_out;
  constexpr size_t kMostNamed = 5;
  for (size_t i = 0; i < std::min(left_out.size(), kMostNamed); ++i)
    log_warning("{}; the document is left out", left_out[i].why);
  if (left_out.empty()) return;
  log_warning("{}: {} of {} documents are left out{}; --strict makes an error of it", task.name, left_out.size(),
              encoded.documents.size() + left_out.size(),
              left_out.size() > kMostNamed ? " (--documents names them all)" : "");
}

class Evaluation {
 public:
  explicit Evaluation(const EvaluateCommandOptions& options) : options_(options), log_(options.documents) {
    // Tasks before the model: what is missing shows at once.
    for (const std::string& name : options.tasks) {
      tasks_.push_back(load_task(name, options.data));
      if (!options.examples.empty()) examples_.push_back(load_task(tasks_.back().name, options.examples));
    }
    opened_ = open_model(options.model, options.tokenizer, value_named<Precision>(options.precision), options.adapters);
    const int64_t longest = opened_.model->config().max_sequence_length;
    if (options.max_length > longest)
      throw Error(ErrorKind::kInvalidArgument, fmt::format("the model takes {} tokens at once", longest),
                  "--max-length", "Choose no more than that.");
    max_length_ = options.max_length > 0 ? options.max_length : longest;
    encoder_.emplace(*opened_.tokenizer, static_cast<size_t>(max_length_), opened_.adds_special_tokens);
    likelihoods_ = std::make_unique<LikelihoodModel>(
        *opened_.model, LikelihoodOptions{.pipeline = opened_.pipeline, .batch_tokens = options.batch_tokens});
  }

  void run() {
    result_ = {{"model", opened_.directory.string()},
               {"device", Context::current()->device().name()},
               {"precision", name_of(opened_.precision)},
               {"tokenizer", opened_.tokenizer->name()},
               {"max_length", max_length_},
               {"shots", options_.prompt.shots},
               {"seed", options_.prompt.seed}};
    if (options_.adapters.are_given()) result_["adapters"] = options_.adapters.adapters;
    for (size_t i = 0; i < tasks_.size(); ++i) run_task(tasks_[i], examples_.empty() ? tasks_[i] : examples_[i]);
    for (const std::string& path : options_.texts) run_text(path);
    if (options_.json) return output_json(result_);
    output("{}, {} on {}, {} shots\n", opened_.directory.string(), opened_.precision,
           Context::current()->device().name(), options_.prompt.shots);
    tables_.print();
  }

 private:
  void run_task(const Task& task, const Task& examples) {
    EncodedTask encoded = encode_task(*encoder_, task, examples, options_.prompt, options_.strict);
    say_what_is_left_out(task, encoded);
    const TaskResult result = evaluate_task(*likelihoods_, task, std::move(encoded), progress_of(task.name));
    log_.add(task, result);
    Json json = describe(task, result);
    if (options_.prompt.shots > 0) json["examples_hash"] = examples.hash;
    result_["tasks"].push_back(std::move(json));
    tables_.tasks.push_back({task.name, fmt::format("{}", result.encoded.documents.size()),
                             fmt::format("{}", result.encoded.left_out.size()), with_error(result.scores.acc),
                             with_error(result.scores.acc_norm), with_error(result.scores.perplexity),
                             fmt::format("{} of {}", result.cut_requests, result.encoded.tokens.size()), task.hash});
  }

  void run_text(const std::string& path) {
    const std::string text = read_text_file(path);
    const TextResult result =
        evaluate_text(*likelihoods_, *encoder_, *opened_.tokenizer, text, path, progress_of(path));
    result_["texts"].push_back(describe(path, text, result));
    tables_.texts.push_back({path, fmt::format("{}", result.bytes), fmt::format("{}", result.tokens),
                             fmt::format("{:.4f}", result.perplexity), fmt::format("{:.4f}", result.bits_per_byte)});
  }

  EvaluationProgress progress_of(const std::string& name) {
    auto report = std::make_shared<ProgressReport>();
    return [report, name](size_t done, size_t all) {
      report->show([&](double) { return fmt::format("{}: {} of {} requests", name, done, all); });
    };
  }

  const EvaluateCommandOptions& options_;
  DocumentLog log_;
  std::vector<Task> tasks_, examples_;
  OpenedModel opened_;
  int64_t max_length_ = 0;
  std::optional<RequestEncoder> encoder_;
  std::unique_ptr<LikelihoodModel> likelihoods_;
  Json result_;
  Tables tables_;
};

void run_evaluate(const EvaluateCommandOptions& options) {
  if (options.tasks.empty() && options.texts.empty())
    throw Error(ErrorKind::kInvalidArgument, "nothing to judge the model by", "evaluate",
                "Name tasks with --tasks, as arc_easy,piqa, or a text with --text.");
  const ContextScope context(Context::open(options.device, {}, options.device_architecture));
  Evaluation(options).run();
}

}  // namespace

void add_evaluate_command(CLI::App& program) {
  const CLI::Validator not_negative(
      [](std::string& text) { return std::string(text.starts_with('-') ? "must not be negative" : ""); }, "");
  auto options = std::make_shared<EvaluateCommandOptions>();
  CLI::App* command = program.add_subcommand("evaluate", "Judge a trained model by tasks and texts");
  command
      ->add_option("model", options->model,
                   "A run directory (its newest checkpoint), a checkpoint, or a Hugging Face directory")
      ->required();
  add_adapter_options(*command, options->adapters);
  command->add_option("--tasks", options->tasks, "Names, as arc_easy,piqa, or paths of .jsonl files")->delimiter(',');
  command->add_option("--data", options->data, "The directory with the tasks' files, NAME.jsonl")
      ->capture_default_str();
  command->add_option("--text", options->texts, "A text file whose perplexity is computed; may be repeated");
  command->add_option("--shots", options->prompt.shots, "Examples with their answers before each document")
      ->check(not_negative)
      ->capture_default_str();
  command->add_option("--examples", options->examples,
                      "A directory with files to draw the examples from; default: the task's own file");
  command->add_option("--seed", options->prompt.seed, "Of the choice of examples")
      ->check(not_negative)
      ->capture_default_str();
  command->add_option("--limit", options->prompt.limit, "Documents of each task, from the first; 0: all")
      ->check(not_negative);
  command->add_option("--documents", options->documents,
                      "A file for each document's requests and log-likelihoods, as JSON Lines");
  command->add_option("--device", options->device, "auto, cpu, cuda, hip or emulator:ARCHITECTURE")
      ->capture_default_str();
  command->add_option("--device-architecture", options->device_architecture,
                      "What kernels are compiled for, where not for the best that the device has: sm_80");
  command
      ->add_option("--precision", options->precision,
                   "bf16, fp8, fp8_block, tf32 or f32; default: as trained, and f32 for a Hugging Face directory")
      ->check(CLI::IsMember(names_of<Precision>()));
  command->add_option("--max-length", options->max_length, "Tokens that the model reads at once; default: its own most")
      ->check(CLI::PositiveNumber);
  command->add_option("--batch-tokens", options->batch_tokens, "Tokens that are computed at once")
      ->check(CLI::Range(16, 1 << 22))
      ->capture_default_str();
  command->add_option("--tokenizer", options->tokenizer,
                      "bytes, or a directory with tokenizer.json or a GPT-2 vocabulary; default: the model's own");
  command->add_flag("--strict", options->strict,
                    "End where a document cannot be judged, as one whose answer is longer than the model reads");
  command->add_flag("--json", options->json, "Print the results as JSON");
  command->footer("Example: causeway evaluate runs/shakespeare --tasks arc_easy,piqa --data data/eval");
  command->callback([options] { run_evaluate(*options); });
}

}  // namespace causeway::cli
