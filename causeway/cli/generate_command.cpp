#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>

#include "causeway/base/console.h"
#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/cli/commands.h"
#include "causeway/cli/json_output.h"
#include "causeway/cli/model_argument.h"
#include "causeway/generate/generated_text.h"
#include "causeway/generate/text_generation.h"
#include "causeway/program/context.h"

namespace causeway::cli {
namespace {

struct Options {
  std::string run;
  std::string prompt = "\n";
  std::string tokenizer;
  std::string device = "auto", device_architecture;
  SamplingOptions sampling;
  std::string prompts;  // a file of them
  int64_t batch_size = 16;
  std::vector<std::string> stops;
  bool no_cache = false;
  bool json = false;
};

// A model's text, as it comes: to a terminal without what the terminal would obey, to anything else byte by byte.
class TextOutput {
 public:
  void write(std::string_view text) {
    if (!is_terminal_) {
      write_raw_output(text);
      flush_output();
      return;
    }
    waiting_ += text;
    const size_t whole = whole_characters(waiting_);
    write_output(std::string_view(waiting_).substr(0, whole));
    flush_output();
    waiting_.erase(0, whole);
  }
  void finish() {
    write_output(waiting_ + "\n");
    waiting_.clear();
  }

 private:
  // Without the beginning of a UTF-8 character at the end, whose other bytes are other tokens.
  static size_t whole_characters(std::string_view text) {
    for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
      const auto byte = static_cast<unsigned char>(text[text.size() - back]);
      if ((byte & 0xC0) == 0x80) continue;
      const size_t needed = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
      return needed > back ? text.size() - back : text.size();
    }
    return text.size();
  }

  bool is_terminal_ = ::isatty(STDOUT_FILENO) != 0;
  std::string waiting_;
};

nlohmann::ordered_json as_json(const std::string& prompt, const std::string& text, const std::vector<int32_t>& tokens) {
  // The end-of-text token is what the model said, but no text.
  return {{"prompt", prompt}, {"text", text}, {"tokens", tokens}};
}

// A prompt a line: of a .jsonl file the "prompt" of its objects, of any other the line itself. Empty lines are none.
std::vector<std::string> read_prompts(const std::string& path) {
  const bool are_objects = std::filesystem::path(path).extension() == ".jsonl";
  std::istringstream lines(read_text_file(path));
  std::vector<std::string> prompts;
  size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.empty()) continue;
    if (!are_objects) {
      prompts.push_back(line);
      continue;
    }
    const nlohmann::json object = nlohmann::json::parse(line, nullptr, false);
    const auto prompt = object.is_object() ? object.find("prompt") : object.end();
    if (!object.is_object() || prompt == object.end() || !prompt->is_string() || prompt->get<std::string>().empty())
      throw Error(ErrorKind::kInvalidArgument, fmt::format("line {} is no object with a text \"prompt\"", number), path,
                  "Each line reads like {\"prompt\": \"Once\"}.");
    prompts.push_back(prompt->get<std::string>());
  }
  if (prompts.empty())
    throw Error(ErrorKind::kInvalidArgument, "the file has no prompts", path, "Write one prompt on each line.");
  return prompts;
}

class Generation {
 public:
  explicit Generation(const Options& options)
      : options_(options),
        opened_(open_model(options.run, options.tokenizer, "")),
        generator_(*opened_.model, opened_.pipeline,
                   options.no_cache ? TextGenerator::Attention::kRecomputed : TextGenerator::Attention::kCached,
                   TextGenerator::Weights::kStay),
        sampling_(options.sampling) {
    sampling_.stop_token = opened_.tokenizer->end_of_text().value_or(-1);
    sampling_.vocabulary_size = opened_.tokenizer->vocabulary_size();
  }

  void run() {
    if (options_.prompts.empty()) return run_one();
    const std::vector<std::string> prompts = read_prompts(options_.prompts);
    const auto side_by_side = static_cast<size_t>(options_.batch_size);
    for (size_t first = 0; first < prompts.size(); first += side_by_side) {
      const std::span some = std::span(prompts).subspan(first, std::min(side_by_side, prompts.size() - first));
      for (const nlohmann::ordered_json& line : generate(some, {}))
        write_output(line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
      flush_output();
    }
  }

 private:
  void run_one() {
    TextOutput output;
    if (!options_.json) output.write(options_.prompt);
    const nlohmann::ordered_json one = generate(std::span(&options_.prompt, 1), [&](const std::string& text) {
                                         if (!options_.json) output.write(text);
                                       }).front();
    if (options_.json) return output_json(one);
    output.finish();
  }

  // `show` gets the text of a single prompt as it comes.
  std::vector<nlohmann::ordered_json> generate(std::span<const std::string> prompts,
                                               const std::function<void(const std::string&)>& show) {
    const Tokenizer& tokenizer = *opened_.tokenizer;
    std::vector<std::vector<int32_t>> encoded;
    std::vector<GeneratedText> texts;
    for (const std::string& prompt : prompts) {
      encoded.push_back(tokenizer.encode(prompt));
      texts.emplace_back(tokenizer, encoded.back(), options_.stops);
    }
    const std::vector<std::vector<int32_t>> tokens =
        generator_.generate(encoded, sampling_, [&](size_t prompt, int32_t token) {
          if (token == sampling_.stop_token) return false;
          const std::string more = texts[prompt].add(token);
          if (show && !more.empty()) show(more);
          return !texts[prompt].has_stopped();
        });
    std::vector<nlohmann::ordered_json> results;
    for (size_t i = 0; i < prompts.size(); ++i) {
      const std::string rest = texts[i].finish();
      if (show && !rest.empty()) show(rest);
      results.push_back(as_json(prompts[i], texts[i].text(), tokens[i]));
    }
    return results;
  }

  const Options& options_;
  OpenedModel opened_;
  TextGenerator generator_;
  SamplingOptions sampling_;
};

void run(const Options& options) {
  check_sampling(options.sampling);
  const ContextScope context(Context::open(options.device, {}, options.device_architecture));
  Generation(options).run();
}

}  // namespace

void add_generate_command(CLI::App& program) {
  const CLI::Validator not_negative(
      [](std::string& text) { return std::string(text.starts_with('-') ? "must not be negative" : ""); }, "");
  const CLI::Validator finite(
      [](std::string& text) {
        // What is no number at all is refused, and named, where it is converted.
        const double value = std::strtod(text.c_str(), nullptr);
        return std::string(std::isfinite(value) ? "" : "must be a finite number");
      },
      "");
  auto options = std::make_shared<Options>();
  options->sampling.temperature = 0.8;
  CLI::App* command = program.add_subcommand("generate", "Write text with a trained model");
  command
      ->add_option("run", options->run,
                   "A run directory (its newest checkpoint), a checkpoint, or a Hugging Face directory")
      ->required();
  CLI::Option* const prompt = command->add_option("--prompt", options->prompt, "How the text begins");
  command
      ->add_option(
          "--prompts", options->prompts,
          "A file with a prompt on each line (.jsonl: objects with \"prompt\"); the texts are JSON, one a line")
      ->excludes(prompt);
  command->add_option("--batch-size", options->batch_size, "Prompts of a file that are continued side by side")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command->add_option("--device", options->device, "auto, cpu, cuda, hip or emulator:ARCHITECTURE")
      ->capture_default_str();
  command->add_option("--device-architecture", options->device_architecture,
                      "What kernels are compiled for, where not for the best that the device has: sm_80");
  command->add_option("--tokens", options->sampling.tokens, "Tokens to write")
      ->check(not_negative)
      ->capture_default_str();
  command->add_option("--temperature", options->sampling.temperature, "0: always the most likely token")
      ->check(not_negative)
      ->check(finite)
      ->capture_default_str();
  command->add_option("--top-k", options->sampling.top_k, "Draw among this many likeliest tokens; 0: all")
      ->check(not_negative);
  command
      ->add_option("--top-p", options->sampling.top_p,
                   "Draw among the likeliest tokens whose probabilities reach this together")
      ->check(finite)
      ->capture_default_str();
  command
      ->add_option("--min-p", options->sampling.min_p,
                   "Draw among tokens of at least this share of the likeliest one's probability")
      ->check(finite)
      ->capture_default_str();
  command
      ->add_option("--repetition-penalty", options->sampling.repetition_penalty,
                   "Above 1: tokens that are there already become less likely")
      ->check(finite)
      ->capture_default_str();
  command->add_option("--stop", options->stops, "A text before which the text ends; may be given several times")
      ->allow_extra_args(false);
  command->add_option("--seed", options->sampling.seed, "The same seed gives the same text")
      ->check(not_negative)
      ->capture_default_str();
  command->add_option(
      "--tokenizer", options->tokenizer,
      "bytes, or a directory with tokenizer.json or a GPT-2 vocabulary; default: the one in the checkpoint");
  command->add_flag("--no-cache", options->no_cache,
                    "Compute every token from all before it, instead of keeping their keys and values");
  command->add_flag("--json", options->json, "Print prompt, text and tokens as JSON");
  command->footer("Example: causeway generate runs/shakespeare --prompt 'ROMEO:' --tokens 300");
  command->callback([options] { run(*options); });
}

}  // namespace causeway::cli
