#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "causeway/base/console.h"
#include "causeway/base/error.h"
#include "causeway/cli/chat_options.h"
#include "causeway/cli/commands.h"
#include "causeway/cli/json_output.h"
#include "causeway/cli/model_argument.h"
#include "causeway/cli/prompts.h"
#include "causeway/generate/conversation.h"
#include "causeway/generate/generated_text.h"
#include "causeway/generate/text_generation.h"
#include "causeway/program/context.h"

namespace causeway::cli {
namespace {

struct GenerateCommandOptions {
  std::string run;
  AdapterArguments adapters;
  ChatArguments chat;
  bool has_prompt = false;  // one was given
  std::string prompt = "\n";
  std::string tokenizer;
  std::string device = "auto", device_architecture;
  SamplingOptions sampling;
  // Where they are given, were it as nothing.
  std::optional<std::string> prompt_tokens;
  std::optional<std::string> prompts;  // a file of them
  std::string format;                  // of the file, whatever it is called
  bool no_special_tokens = false;
  bool read_special_tokens = false;
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

class Generation {
 public:
  explicit Generation(const GenerateCommandOptions& options)
      : options_(options),
        opened_(open_model(options.run, options.tokenizer, std::nullopt, options.adapters)),
        generator_(*opened_.model, opened_.pipeline,
                   options.no_cache ? TextGenerator::Attention::kRecomputed : TextGenerator::Attention::kCached,
                   TextGenerator::Weights::kStay),
        sampling_(options.sampling) {
    sampling_.stop_tokens = opened_.end_tokens;
    sampling_.vocabulary_size = opened_.tokenizer->vocabulary_size();
    encoding_.read_special_tokens = options.read_special_tokens;
    encoding_.add_special_tokens = !options.no_special_tokens && opened_.adds_special_tokens;
    if (!options.chat.chat) return;
    beginning_.emplace(begin_conversation(opened_, options.chat));
    if (const generate::AnswerEnd& end = beginning_->answer_end(); end.token) {
      sampling_.stop_tokens.push_back(*end.token);
    } else {
      stops_.push_back(end.text);
    }
  }

  // Turn by turn, as standard input says them.
  void converse() {
    const bool is_terminal = ::isatty(STDIN_FILENO) != 0 && !options_.json;
    generate::Conversation conversation = *beginning_;
    std::string line;
    for (uint64_t turn = 0;; ++turn) {
      if (is_terminal) {
        write_raw_output("> ");
        flush_output();
      }
      do {
        if (!std::getline(std::cin, line)) return;
        if (line.ends_with('\r')) line.pop_back();
      } while (line.empty());
      conversation.add("user", line);
      TextOutput output;
      const Answer answer = generate_answers({conversation.prompt()}, turn, output_to(output)).front();
      // With the text as it was said, whatever could be shown of it.
      conversation.add("assistant", answer.text);
      if (options_.json)
        output_json({{"prompt", line}, {"text", answer.text}, {"tokens", answer.tokens}});
      else
        output.finish();
      flush_output();
    }
  }

  void run(const std::vector<Prompt>& prompts) {
    if (!options_.prompts) return run_one(prompts.front());
    const auto side_by_side = static_cast<size_t>(options_.batch_size);
    for (size_t first = 0; first < prompts.size(); first += side_by_side) {
      const std::span some = std::span(prompts).subspan(first, std::min(side_by_side, prompts.size() - first));
      for (const nlohmann::ordered_json& line : generate(some, first, {})) output_json(line);
      flush_output();
    }
  }

 private:
  void run_one(const Prompt& prompt) {
    TextOutput output;
    if (!options_.json && !beginning_)
      output.write(prompt.is_tokens ? opened_.tokenizer->decode(prompt.tokens) : prompt.text);
    const nlohmann::ordered_json one = generate(std::span(&prompt, 1), 0, output_to(output)).front();
    if (options_.json) return output_json(one);
    output.finish();
  }

  std::function<void(const std::string&)> output_to(TextOutput& output) const {
    return [&output, silent = options_.json](const std::string& text) {
      if (!silent) output.write(text);
    };
  }

  std::vector<int32_t> encode_turn(const Prompt& prompt) const {
    generate::Conversation conversation = *beginning_;
    if (prompt.messages.is_null()) {
      conversation.add("user", prompt.text);
    } else {
      conversation.add(prompt.messages);
    }
    try {
      return conversation.prompt();
    } catch (const Error& error) {
      throw Error(error.kind(), error.message(), fmt::format("{} ({})", prompt.where, error.where()), error.hint());
    }
  }

  std::vector<int32_t> encode(const Prompt& prompt) const {
    if (beginning_) return encode_turn(prompt);
    std::vector<int32_t> tokens = prompt.is_tokens ? prompt.tokens : opened_.tokenizer->encode(prompt.text, encoding_);
    if (tokens.empty())
      throw Error(ErrorKind::kInvalidArgument, "the prompt is empty", prompt.where, "Give at least one character.");
    return tokens;
  }

  static nlohmann::ordered_json as_json(const Prompt& prompt, const std::string& text,
                                        const std::vector<int32_t>& tokens) {
    nlohmann::ordered_json json;
    if (!prompt.messages.is_null()) {
      json["messages"] = prompt.messages;
    } else if (prompt.is_tokens) {
      json["prompt_tokens"] = prompt.tokens;
    } else {
      json["prompt"] = prompt.text;
    }
    json["text"] = text;
    // The token that ends a text is what the model said, but no text.
    json["tokens"] = tokens;
    return json;
  }

  // `first`: the place of the first one among all prompts. `show` gets the text of a single prompt as it comes.
  std::vector<nlohmann::ordered_json> generate(std::span<const Prompt> prompts, size_t first,
                                               const std::function<void(const std::string&)>& show) {
    std::vector<std::vector<int32_t>> encoded;
    for (const Prompt& prompt : prompts) encoded.push_back(encode(prompt));
    std::vector<nlohmann::ordered_json> results;
    for (const Answer& answer : generate_answers(encoded, first, show))
      results.push_back(as_json(prompts[results.size()], answer.text, answer.tokens));
    return results;
  }

  struct Answer {
    std::string text;
    std::vector<int32_t> tokens;
  };
  std::vector<Answer> generate_answers(const std::vector<std::vector<int32_t>>& encoded, size_t first,
                                       const std::function<void(const std::string&)>& show) {
    std::vector<GeneratedText> texts;
    for (const std::vector<int32_t>& prompt : encoded) {
      // What is forgotten of a text is its beginning, and of a conversation what it is about.
      const int64_t longest = opened_.model->config().max_sequence_length;
      if (beginning_ && static_cast<int64_t>(prompt.size()) >= longest)
        throw Error(ErrorKind::kInvalidArgument,
                    fmt::format("the conversation has {} tokens, and the model reads {}", prompt.size(), longest),
                    "--chat", "Begin a new one.");
      texts.emplace_back(*opened_.tokenizer, prompt, stops_);
    }
    const auto emit = [&](size_t prompt, int32_t token) {
      if (sampling_.stops_at(token)) return false;
      const std::string more = texts[prompt].add(token);
      if (show && !more.empty()) show(more);
      return !texts[prompt].has_stopped();
    };
    const std::vector<std::vector<int32_t>> tokens = generator_.generate(encoded, sampling_, emit, first);
    std::vector<Answer> answers;
    for (size_t i = 0; i < encoded.size(); ++i) {
      const std::string rest = texts[i].finish();
      if (show && !rest.empty()) show(rest);
      answers.push_back({texts[i].text(), tokens[i]});
    }
    return answers;
  }

  const GenerateCommandOptions& options_;
  OpenedModel opened_;
  TextGenerator generator_;
  SamplingOptions sampling_;
  EncodeOptions encoding_;
  std::vector<std::string> stops_ = options_.stops;
  std::optional<generate::Conversation> beginning_;  // of every conversation
};

// Before the model: what is wrong with them shows at once.
std::vector<Prompt> prompts_of(const GenerateCommandOptions& options) {
  if (options.prompt_tokens) return {parse_prompt_tokens(*options.prompt_tokens)};
  if (!options.prompts) return {{options.prompt, {}, false, "--prompt"}};
  if (options.prompts->empty())
    throw Error(ErrorKind::kInvalidArgument, "the name of the file is empty", "--prompts",
                "Name a file, or - for standard input.");
  const bool are_objects = options.format.empty() ? std::filesystem::path(*options.prompts).extension() == ".jsonl"
                                                  : options.format == "jsonl";
  const PromptFormat objects = options.chat.chat ? PromptFormat::kChatLines : PromptFormat::kJsonLines;
  return read_prompts(*options.prompts, are_objects ? objects : PromptFormat::kText);
}

void run_generate(const GenerateCommandOptions& options) {
  check_sampling(options.sampling);
  const bool converses = options.chat.chat && !options.has_prompt && !options.prompts;
  const std::vector<Prompt> prompts = converses ? std::vector<Prompt>() : prompts_of(options);
  const ContextScope context(Context::open(options.device, {}, options.device_architecture));
  Generation generation(options);
  if (converses) return generation.converse();
  generation.run(prompts);
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
  auto options = std::make_shared<GenerateCommandOptions>();
  options->sampling.temperature = 0.8;
  CLI::App* command = program.add_subcommand("generate", "Write text with a trained model");
  command
      ->add_option(
          "run", options->run,
          "A run directory (its newest checkpoint), a checkpoint, a Hugging Face directory, or an adapter of PEFT's")
      ->required();
  add_adapter_options(*command, options->adapters);
  CLI::Option* const chat = add_chat_options(*command, options->chat);
  CLI::Option* const prompt = command->add_option("--prompt", options->prompt, "How the text begins");
  CLI::Option* const prompt_tokens =
      command->add_option("--prompt-tokens", options->prompt_tokens, "The same as token ids, such as 15,3,27")
          ->excludes(prompt)
          ->excludes(chat);
  CLI::Option* const prompts =
      command
          ->add_option("--prompts", options->prompts,
                       "A file with a prompt on each line (.jsonl: objects with \"prompt\", or with token ids under "
                       "\"tokens\"), or - for standard input; the texts are JSON, one a line")
          ->excludes(prompt)
          ->excludes(prompt_tokens);
  command->add_option("--format", options->format, "text or jsonl: what the prompts are, whatever the file is called")
      ->needs(prompts)
      ->check(CLI::IsMember({"text", "jsonl"}));
  command
      ->add_flag("--no-special-tokens", options->no_special_tokens,
                 "Do not put around a prompt what the tokenizer's files put around a text")
      ->excludes(chat);
  command
      ->add_flag("--read-special-tokens", options->read_special_tokens,
                 "Text in a prompt that spells a special token becomes that token: for a chat's format")
      ->excludes(chat);
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
  command->footer(
      "Example: causeway generate runs/shakespeare --prompt 'ROMEO:' --tokens 300\n"
      "         causeway generate runs/lora --chat\n"
      "         causeway generate Meta-Llama-3-8B --adapter runs/lora --adapter other/=0.5 --prompt Once");
  command->callback([options, prompt] {
    options->has_prompt = prompt->count() > 0;
    run_generate(*options);
  });
}

}  // namespace causeway::cli
