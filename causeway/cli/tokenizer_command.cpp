#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>

#include "causeway/base/console.h"
#include "causeway/base/error.h"
#include "causeway/cli/commands.h"
#include "causeway/cli/json_output.h"
#include "causeway/cli/skipped_lines_output.h"
#include "causeway/cli/standard_input.h"
#include "causeway/data/input_stream.h"
#include "causeway/data/text_source.h"
#include "causeway/data/tokenizer_training.h"
#include "causeway/formats/tokenizer/tokenizer.h"

namespace causeway::cli {
namespace {

struct EncodeCommand {
  std::string tokenizer, format = "text";
  std::vector<std::string> texts;
  formats::EncodeOptions options;
  bool json = false;
};

struct DecodeCommand {
  std::string tokenizer;
  std::vector<std::string> ids;
  bool skip_special_tokens = false;
  bool json = false;
};

struct TrainTokenizerCommand {
  std::vector<std::string> corpora;
  std::string format;
  data::TokenizerTrainingOptions options;
  bool json = false;
};

std::string standard_input() {
  return read_standard_input("Give it line by line with --format jsonl, or prepare it with causeway data prepare.");
}

void show_ids(const std::vector<int32_t>& ids, bool json) {
  if (json) {
    output_json({{"ids", ids}});
  } else {
    output("{}\n", fmt::join(ids, " "));
  }
}

void encode(const EncodeCommand& command) {
  const std::unique_ptr<formats::Tokenizer> tokenizer = formats::load_tokenizer(command.tokenizer);
  const auto show = [&](std::string_view text) { show_ids(tokenizer->encode(text, command.options), command.json); };
  for (const std::string& text : command.texts) show(text);
  if (!command.texts.empty()) return;
  if (command.format == "text") return show(standard_input());
  data::TextReader reader({std::filesystem::path(data::kStandardInput), data::TextFormat::kJsonLines}, {});
  while (const std::optional<data::TextBlock> block = reader.next()) {
    for (const data::JsonLine& line : block->lines())
      show(data::parse_json_line(line, "text", "standard input", "").text.value_or(""));
  }
}

void decode(const DecodeCommand& command) {
  const std::unique_ptr<formats::Tokenizer> tokenizer = formats::load_tokenizer(command.tokenizer);
  std::vector<std::string> words = command.ids;
  if (words.empty()) {
    const std::string text = standard_input();
    constexpr std::string_view kBetween = " \t\r\n,";
    for (size_t begin = text.find_first_not_of(kBetween); begin != std::string::npos;) {
      const size_t end = std::min(text.find_first_of(kBetween, begin), text.size());
      words.push_back(text.substr(begin, end - begin));
      begin = text.find_first_not_of(kBetween, end);
    }
  }
  std::vector<int32_t> ids;
  for (const std::string& word : words) {
    int32_t id = 0;
    const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (code != std::errc() || end != word.data() + word.size()) {
      throw Error(ErrorKind::kInvalidArgument, fmt::format("\"{}\" is not a token id", word), "tokenizer decode",
                  "Give ids as numbers with spaces between them.");
    }
    if (!command.skip_special_tokens || !tokenizer->is_special(id)) ids.push_back(id);
  }
  const std::string text = tokenizer->decode(ids);
  if (command.json) {
    output_json({{"text", text}});
  } else if (isatty(STDOUT_FILENO) != 0) {
    output("{}\n", text);
  } else {
    write_raw_output(text + "\n");
  }
}

void train(TrainTokenizerCommand& command) {
  command.options.inputs.assign(command.corpora.begin(), command.corpora.end());
  if (!command.format.empty()) command.options.format = data::parse_text_format(command.format);
  const data::TokenizerTrainingSummary summary = data::train_tokenizer(command.options);
  if (command.json) {
    output_json({{"output", command.options.output.string()},
                 {"vocabulary", summary.vocabulary},
                 {"text_bytes", summary.text_bytes},
                 {"words", summary.words},
                 {"different_words", summary.different_words},
                 {"skipped_lines", summary.skipped_lines},
                 {"skipped_named", summary.skipped_named},
                 {"seconds", summary.seconds}});
    return;
  }
  output("{} tokens from {} different words of {} in {:.1f} MB of text\n", summary.vocabulary, summary.different_words,
         summary.words, static_cast<double>(summary.text_bytes) * 1e-6);
  show_skipped_lines(summary.skipped_lines, summary.skipped_named);
  output("wrote {}\n", (command.options.output / "tokenizer.json").string());
}

void add_encode_command(CLI::App& command) {
  auto options = std::make_shared<EncodeCommand>();
  CLI::App* sub = command.add_subcommand("encode", "Print the token ids of texts");
  sub->add_option("tokenizer", options->tokenizer, "bytes, or a directory with tokenizer.json or a GPT-2 vocabulary")
      ->required();
  sub->add_option("text", options->texts, "Texts; without any, standard input");
  sub->add_option("--format", options->format,
                  "Standard input: text, all of it one; or jsonl, the key text of each line")
      ->check(CLI::IsMember({"text", "jsonl"}))
      ->capture_default_str();
  sub->add_flag("--read-special-tokens", options->options.read_special_tokens,
                "Text that spells a special token becomes that token");
  sub->add_flag("--add-special-tokens", options->options.add_special_tokens,
                "Put the tokenizer's special tokens around each text");
  sub->add_flag("--json", options->json, "Print an object for each text");
  sub->footer("Example: causeway tokenizer encode data/book/tokenizer 'Once upon a time'");
  sub->callback([options] { encode(*options); });
}

void add_decode_command(CLI::App& command) {
  auto options = std::make_shared<DecodeCommand>();
  CLI::App* sub = command.add_subcommand("decode", "Print the text of token ids");
  sub->add_option("tokenizer", options->tokenizer, "bytes, or a directory with tokenizer.json or a GPT-2 vocabulary")
      ->required();
  sub->add_option("ids", options->ids, "Token ids; without any, standard input");
  sub->add_flag("--skip-special-tokens", options->skip_special_tokens, "Leave special tokens out");
  sub->add_flag("--json", options->json, "Print as JSON");
  sub->footer("Example: causeway tokenizer decode data/book/tokenizer 15 3 27");
  sub->callback([options] { decode(*options); });
}

void add_train_tokenizer_command(CLI::App& command) {
  auto options = std::make_shared<TrainTokenizerCommand>();
  CLI::App* sub = command.add_subcommand("train", "Train a byte-level BPE tokenizer on text");
  sub->add_option("corpus", options->corpora, "Text, JSON Lines or CSV files, directories, - for standard input")
      ->required();
  sub->add_option("--vocabulary", options->options.vocabulary, "Tokens, the 256 bytes and <|endoftext|> included")
      ->required();
  sub->add_option("--output", options->options.output, "Directory for tokenizer.json")->required();
  sub->add_option("--format", options->format, "text, jsonl or csv, whatever the files are called")
      ->check(CLI::IsMember({"text", "jsonl", "json", "csv"}));
  sub->add_option("--text-key", options->options.text_key, "Key of the text in JSON Lines, its column in CSV")
      ->capture_default_str();
  sub->add_option("--threads", options->options.threads, "Threads; 0: one for each processor")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  sub->add_flag("--overwrite", options->options.overwrite, "Replace a tokenizer.json that is there");
  sub->add_flag("--json", options->json, "Print the result as JSON");
  sub->footer("Example: causeway tokenizer train books/ --vocabulary 32000 --output data/tokenizer");
  sub->callback([options] { train(*options); });
}

}  // namespace

void add_tokenizer_command(CLI::App& program) {
  CLI::App* command = program.add_subcommand("tokenizer", "Encode and decode text, train a tokenizer");
  command->require_subcommand(1);
  command->footer("Example: causeway tokenizer encode bytes 'Once upon a time'");
  add_encode_command(*command);
  add_decode_command(*command);
  add_train_tokenizer_command(*command);
}

}  // namespace causeway::cli
