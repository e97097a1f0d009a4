#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "causeway/base/console.h"
#include "causeway/base/error.h"
#include "causeway/cli/commands.h"
#include "causeway/cli/data_inspect_command.h"
#include "causeway/cli/json_output.h"
#include "causeway/cli/progress_report.h"
#include "causeway/cli/skipped_lines_output.h"
#include "causeway/data/prepare.h"

namespace causeway::cli {
namespace {

struct PrepareCommand {
  std::vector<std::string> inputs, validation_inputs;
  std::string output, tokenizer = "bytes", format;
  PrepareOptions options;
  bool no_end_of_text = false, no_special_tokens = false;
  bool chat = false;
  std::string chat_template, targets = "all", truncated_side = "right";
  ChatOptions chat_options;
  bool json = false;
};

// Set by the first SIGINT, SIGTERM or SIGHUP; the second ends the program as usual.
volatile sig_atomic_t interrupted = 0;

void end_on_signals() {
  struct sigaction action{};
  action.sa_handler = [](int) { interrupted = 1; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
}

std::string progress_line(const PrepareProgress& progress, double seconds) {
  const double rate = static_cast<double>(progress.bytes_done) / seconds;
  std::string line = fmt::format("{} tokens in {} documents, {:.1f} MB at {:.1f} MB/s", progress.tokens,
                                 progress.documents, static_cast<double>(progress.bytes_done) * 1e-6, rate * 1e-6);
  if (progress.bytes_total == 0 || progress.bytes_done == 0) return line;
  const double part = static_cast<double>(progress.bytes_done) / static_cast<double>(progress.bytes_total);
  return fmt::format("{:3.0f}%  {}, {:.0f} s to go", 100 * part, line, seconds * (1 - part) / part);
}

std::string files_by_kind(const std::map<std::string, uint64_t>& files) {
  std::string text;
  for (const auto& [kind, count] : files) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, kind);
  return text;
}

ChatOptions chat_options(const PrepareCommand& command) {
  ChatOptions chat = command.chat_options;
  chat.templates = find_chat_templates(command.tokenizer, command.chat_template);
  if (!chat.date_text.empty()) chat.date = formats::ChatDate::parse(chat.date_text);
  chat.turns = command.targets == "last" ? formats::ChatTurns::kLast : formats::ChatTurns::kAll;
  chat.truncated_side = *value_named<TruncatedSide>(command.truncated_side);
  return chat;
}

// What conversations became.
void show_chat(const PrepareSummary& summary) {
  const ChatCounts& chat = summary.chat;
  const TargetsRecord& record = *summary.manifest.targets;
  if (summary.manifest.holds_prompts)
    return output("prompts     {} by the chat template{}, {} texts as they are\n", chat.rendered,
                  record.date.empty() ? "" : fmt::format(", dated {}", record.date), chat.pairs);
  const char* const samples = summary.manifest.holds_pairs ? "sides of preference pairs" : "conversations";
  if (chat.rendered > 0) {
    output("chat        {} {} by the chat template{}; trained on: {} of the assistant{}\n", chat.rendered, samples,
           record.date.empty() ? "" : fmt::format(", dated {}", record.date),
           record.rule == "last" ? "the last turn" : "all turns",
           summary.manifest.holds_pairs ? " behind the prompt" : "");
  }
  if (!record.weights.empty()) output("weights     targets count 1 or {:g}\n", fmt::join(record.weights, ", "));
  if (chat.without_end > 0)
    output("no end      {} {} end without a token that ends the answer\n", chat.without_end, samples);
  if (chat.pairs > 0)
    output("chat        {} {} as they are; trained on: completions\n", chat.pairs,
           summary.manifest.holds_pairs ? samples : "pairs of prompt and completion");
  if (chat.truncated > 0)
    output("cut         {} {} to {} tokens, {} tokens on the {}\n", chat.truncated, samples, record.max_length,
           chat.truncated_tokens, record.truncation);
  if (chat.without_target > 0)
    output("left out    {} {}\n", chat.without_target,
           summary.manifest.holds_pairs ? "preference pairs: nothing of a side is trained on, or both are the same"
                                        : "conversations of which nothing is trained on");
}

std::string share_of_targets(const SplitEntry& split) {
  return fmt::format(", {} of them targets ({:.2f} %)", split.targets,
                     100 * static_cast<double>(split.targets) / static_cast<double>(split.tokens));
}

PrepareSummary run_preparation(PrepareCommand& command) {
  PrepareOptions& options = command.options;
  options.inputs.assign(command.inputs.begin(), command.inputs.end());
  options.validation_inputs.assign(command.validation_inputs.begin(), command.validation_inputs.end());
  options.output = command.output;
  options.append_end_of_text = !command.no_end_of_text;
  options.add_special_tokens = !command.no_special_tokens;
  if (!command.format.empty()) options.format = parse_text_format(command.format);
  if (command.chat) options.chat = chat_options(command);
  ProgressReport report;
  end_on_signals();
  options.progress = [&](const PrepareProgress& progress) {
    if (interrupted != 0) {
      throw Error(ErrorKind::kInterrupted, "the preparation was interrupted", command.output,
                  "Nothing was written there; what was there is unchanged.");
    }
    if (!command.json) report.show([&](double seconds) { return progress_line(progress, seconds); });
  };
  return prepare_dataset(options, *load_tokenizer(command.tokenizer));
}

void prepare(PrepareCommand& command) {
  const PrepareSummary summary = run_preparation(command);
  if (command.json) {
    nlohmann::ordered_json json = {{"output", command.output},
                                   {"text_bytes", summary.text_bytes},
                                   {"empty_documents", summary.empty_documents},
                                   {"null_documents", summary.null_documents},
                                   {"skipped_lines", summary.skipped_lines},
                                   {"skipped_named", summary.skipped_named},
                                   {"replaced_surrogates", summary.replaced_surrogates},
                                   {"files_left_out", summary.files_left_out},
                                   {"unverified_shards", summary.unverified_shards},
                                   {"seconds", summary.seconds}};
    if (summary.manifest.documents) json["documents"] = documents_json(*summary.manifest.documents);
    for (const auto& [name, split] : summary.manifest.splits) {
      json["splits"][name] = {{"tokens", split.tokens}, {"documents", split.documents}};
      if (summary.manifest.targets) json["splits"][name]["targets"] = split.targets;
    }
    if (summary.manifest.targets)
      json["chat"] = {{"rendered", summary.chat.rendered},
                      {"pairs", summary.chat.pairs},
                      {"truncated", summary.chat.truncated},
                      {"truncated_tokens", summary.chat.truncated_tokens},
                      {"without_target", summary.chat.without_target},
                      {"without_end", summary.chat.without_end},
                      {"preference_pairs", summary.chat.preferences},
                      {"prompts", summary.manifest.holds_prompts},
                      {"targets", summary.manifest.targets->rule},
                      {"date", summary.manifest.targets->date}};
    output_json(json);
    return;
  }
  for (const auto& [name, split] : summary.manifest.splits)
    output("{:<12}{} tokens in {}{}\n", name, split.tokens,
           summary.manifest.holds_pairs     ? fmt::format("{} preference pairs", split.documents / 2)
           : summary.manifest.holds_prompts ? fmt::format("{} prompts with their records", split.documents)
                                            : fmt::format("{} documents", split.documents),
           summary.manifest.targets && !summary.manifest.holds_prompts ? share_of_targets(split) : "");
  if (summary.manifest.targets) show_chat(summary);
  if (summary.empty_documents > 0) {
    output("left out    {} documents without text{}\n", summary.empty_documents,
           summary.null_documents > 0 ? fmt::format(", {} of them null", summary.null_documents) : "");
  }
  show_skipped_lines(summary.skipped_lines, summary.skipped_named);
  if (summary.replaced_surrogates > 0)
    output("replaced    escaped halves of surrogate pairs in {} documents by U+FFFD\n", summary.replaced_surrogates);
  if (!summary.files_left_out.empty()) {
    output(
        "not read    {}: name them to have them read; .txt, .jsonl, .ndjson, .csv, and .json with an object a line or "
        "a list of objects are read by themselves\n",
        files_by_kind(summary.files_left_out));
  }
  if (summary.unverified_shards > 0)
    output(
        "unverified  {} MDS shards: their index has none of the hashes that are computed here (md5, sha1, "
        "xxh32, xxh64, xxh3_64, xxh128)\n",
        summary.unverified_shards);
  output("wrote {}\n", command.output);
}

}  // namespace

void add_data_command(CLI::App& program) {
  CLI::App* data = program.add_subcommand("data", "Prepare and inspect training text");
  data->require_subcommand(1);

  auto command = std::make_shared<PrepareCommand>();
  CLI::App* prepare_command = data->add_subcommand("prepare", "Turn text, JSON Lines or CSV into tokens");
  prepare_command
      ->add_option("inputs", command->inputs,
                   "Files of text, JSON Lines, JSON (one list of objects) or CSV, also .gz and .zst; directories, of "
                   "which all .txt, .jsonl, .ndjson, .csv and .json with an object a line or a list are read, or the "
                   "shards of an MDS dataset (StreamingDataset); or - for standard input")
      ->required();
  prepare_command->add_option("--output,-o", command->output, "Directory for the dataset")->required();
  prepare_command
      ->add_option("--tokenizer", command->tokenizer, "bytes, or a directory with tokenizer.json or a GPT-2 vocabulary")
      ->capture_default_str();
  prepare_command->add_option("--validation", command->validation_inputs, "Inputs for the held-out split");
  prepare_command->add_option(
      "--validation-fraction", command->options.validation_fraction,
      "Part of the inputs to hold out: documents by a hash of their text, or the end of one text");
  prepare_command
      ->add_option("--format", command->format,
                   "text, jsonl, json (one list of objects) or csv: what the inputs are, whatever they are called")
      ->check(CLI::IsMember({"text", "jsonl", "json", "csv"}));
  prepare_command
      ->add_option("--text-key", command->options.text_key,
                   "The key of the text in JSON Lines, its column in CSV, the column of text or token ids in MDS")
      ->capture_default_str();
  prepare_command->add_flag("--no-end-of-text", command->no_end_of_text,
                            "Do not end documents with the end-of-text token");
  prepare_command->add_flag("--no-special-tokens", command->no_special_tokens,
                            "Do not put around documents what the tokenizer's files put around a text");
  prepare_command->add_flag("--read-special-tokens", command->options.read_special_tokens,
                            "Text that spells a special token becomes that token: for documents in a chat's format");
  CLI::Option* chat = prepare_command->add_flag(
      "--chat", command->chat,
      "Lines are conversations: messages, conversations (ShareGPT), prompt and completion, or instruction and output "
      "(Alpaca); turns of the assistant are trained on");
  prepare_command
      ->add_option("--chat-template", command->chat_template,
                   "A file with a chat template, or the name of one of the tokenizer's; else the tokenizer's own")
      ->needs(chat);
  prepare_command
      ->add_option("--date", command->chat_options.date_text, "The day that a chat template is told, as 2026-11-30")
      ->needs(chat);
  prepare_command->add_option("--targets", command->targets, "Which turns of the assistant are trained on: all or last")
      ->check(CLI::IsMember({"all", "last"}))
      ->needs(chat)
      ->capture_default_str();
  CLI::Option* prompts = prepare_command
                             ->add_flag("--prompts", command->chat_options.prompts,
                                        "Lines are prompts, texts or lists of messages, that training with grpo is to "
                                        "answer; what stands beside them judges the answers")
                             ->needs(chat);
  CLI::Option* max_length =
      prepare_command
          ->add_option("--max-length", command->chat_options.max_length, "Cut conversations to so many tokens")
          ->check(CLI::Range(uint64_t{2}, uint64_t{1} << 30))
          ->needs(chat);
  prepare_command->add_option("--truncate", command->truncated_side, "The side that --max-length cuts: left or right")
      ->check(CLI::IsMember(names_of<TruncatedSide>()))
      ->needs(max_length)
      ->capture_default_str();
  prepare_command
      ->add_flag("--skip-without-target", command->chat_options.skip_without_target,
                 "Count conversations of which nothing is trained on and leave them out; otherwise they are an error")
      ->needs(chat);
  // Nothing of a prompt is trained on, and none is cut.
  for (const char* option : {"--targets", "--max-length", "--skip-without-target"})
    prepare_command->get_option(option)->excludes(prompts);
  // Conversations say themselves where their text is, and are read as transformers reads them.
  for (const char* option : {"--text-key", "--read-special-tokens"})
    prepare_command->get_option(option)->excludes(chat);
  prepare_command->add_flag("--overwrite", command->options.overwrite,
                            "Replace the dataset that is there, when the new one is whole");
  prepare_command->add_flag("--strict", command->options.strict,
                            "Lines that are no document, and documents without text, are an error");
  prepare_command->add_flag("--any-bytes", command->options.any_bytes,
                            "Take plain text that is not UTF-8, byte for byte");
  prepare_command->add_flag("--allow-shared-documents", command->options.allow_shared_documents,
                            "The same document may be in training and in validation");
  prepare_command
      ->add_option("--threads", command->options.threads, "Threads that tokenize; the result does not depend on it")
      ->check(CLI::Range(1, 4096));
  prepare_command->add_flag("--json", command->json, "Print the summary as JSON");
  prepare_command->footer(
      "Example: causeway data prepare book.txt --output data/book --validation-fraction 0.1\n"
      "         zcat articles.jsonl.gz | causeway data prepare - --format jsonl --output data/articles\n"
      "         causeway data prepare chats.jsonl --chat --tokenizer hf/ --output data/chat");
  prepare_command->callback([command] { prepare(*command); });

  add_data_inspect_command(*data);
}

}  // namespace causeway::cli
