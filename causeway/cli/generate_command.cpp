#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "causeway/base/console.h"
#include "causeway/base/error.h"
#include "causeway/cli/commands.h"
#include "causeway/cli/json_output.h"
#include "causeway/cli/model_argument.h"
#include "causeway/generate/text_generation.h"
#include "causeway/program/context.h"

namespace causeway::cli {
namespace {

struct Options {
  std::string run;
  std::string prompt = "\n";
  std::string tokenizer;
  std::string device = "auto";
  SamplingOptions sampling;
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

void run(const Options& options) {
  const ContextScope context(Context::open(options.device));
  const OpenedModel opened = open_model(options.run, options.tokenizer, "");
  const Tokenizer* const tokenizer = opened.tokenizer.get();
  TextGenerator generator(*opened.model, opened.pipeline);
  SamplingOptions sampling = options.sampling;
  sampling.stop_token = tokenizer->end_of_text().value_or(-1);
  sampling.vocabulary_size = tokenizer->vocabulary_size();
  const std::vector<int32_t> prompt = tokenizer->encode(options.prompt);
  TextOutput text;
  if (!options.json) text.write(options.prompt);
  // What a token reads as may depend on those before it: a decoder may drop the first space of all. So each is read
  // behind a few that are known.
  constexpr size_t kBefore = 16;
  std::vector<int32_t> recent(prompt.end() - static_cast<int64_t>(std::min(prompt.size(), kBefore)), prompt.end());
  std::string said;
  const std::vector<int32_t> tokens = generator.generate(prompt, sampling, [&](int32_t token) {
    if (token == sampling.stop_token) return;
    const std::string known = tokenizer->decode(recent);
    recent.push_back(token);
    const std::string longer = tokenizer->decode(recent);
    if (recent.size() > kBefore) recent.erase(recent.begin());
    if (longer.size() <= known.size()) return;
    said += longer.substr(known.size());
    if (!options.json) text.write(longer.substr(known.size()));
  });
  if (options.json) {
    // The end-of-text token is what the model said, but no text.
    nlohmann::ordered_json json = {{"prompt", options.prompt}, {"text", said}, {"tokens", tokens}};
    output_json(json);
  } else {
    text.finish();
  }
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
  command->add_option("--prompt", options->prompt, "How the text begins");
  command->add_option("--device", options->device, "auto, cpu, cuda, hip or emulator:ARCHITECTURE")
      ->capture_default_str();
  command->add_option("--tokens", options->sampling.tokens, "Tokens to write")
      ->check(not_negative)
      ->capture_default_str();
  command->add_option("--temperature", options->sampling.temperature, "0: always the most likely token")
      ->check(not_negative)
      ->check(finite)
      ->capture_default_str();
  command->add_option("--top-k", options->sampling.top_k, "Draw among this many likeliest tokens; 0: all")
      ->check(not_negative);
  command->add_option("--seed", options->sampling.seed, "The same seed gives the same text")
      ->check(not_negative)
      ->capture_default_str();
  command->add_option(
      "--tokenizer", options->tokenizer,
      "bytes, or a directory with tokenizer.json or a GPT-2 vocabulary; default: the one in the checkpoint");
  command->add_flag("--json", options->json, "Print prompt, text and tokens as JSON");
  command->footer("Example: causeway generate runs/shakespeare --prompt 'ROMEO:' --tokens 300");
  command->callback([options] { run(*options); });
}

}  // namespace causeway::cli
