#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "causeway/base/error.h"
#include "causeway/cli/commands.h"
#include "causeway/data/token_dataset.h"
#include "causeway/tensor/runtime.h"
#include "causeway/train/run_checkpoint.h"
#include "causeway/train/text_generation.h"

namespace causeway {
namespace {

struct Options {
  std::string run;
  std::string prompt = "\n";
  std::string tokenizer;
  std::string device = "auto";
  SamplingOptions sampling;
  bool json = false;
};

// A run directory's newest checkpoint, or a checkpoint directory itself.
std::filesystem::path find_checkpoint(const std::filesystem::path& path) {
  if (std::filesystem::exists(path / kManifestName)) return path;
  const std::optional<CheckpointEntry> latest = find_latest(path);
  if (!latest)
    throw Error(ErrorKind::kNotFound, "holds no checkpoint", path.string(),
                "Give a run directory (runs/NAME) or a checkpoint in it.");
  return latest->directory;
}

void run(const Options& options) {
  const CheckpointReader checkpoint(find_checkpoint(options.run));
  const Recipe recipe =
      parse_recipe(checkpoint.state().trainer.value("recipe", std::string()), "recipe of the checkpoint", {});
  const std::unique_ptr<Tokenizer> tokenizer =
      options.tokenizer.empty()
          ? TokenDataset::open(recipe.data.path, kTrainSplit, static_cast<int>(recipe.data.token_bytes))
                .load_tokenizer()
          : load_tokenizer(options.tokenizer);
  if (const std::string& expected = checkpoint.state().tokenizer_fingerprint;
      !expected.empty() && expected != tokenizer->fingerprint())
    throw Error(ErrorKind::kInvalidArgument, "the tokenizer is not the one the model was trained with",
                options.tokenizer.empty() ? recipe.data.path : options.tokenizer,
                "Give the right one with --tokenizer.");
  Runtime::use_device(options.device);
  const std::unique_ptr<LanguageModel> model = LanguageModel::create(recipe.model, std::nullopt);
  restore_weights(checkpoint, *model);
  TextGenerator generator(*model, pipeline_options(recipe));
  SamplingOptions sampling = options.sampling;
  sampling.stop_token = tokenizer->end_of_text().value_or(-1);
  const std::vector<int32_t> prompt = tokenizer->encode(options.prompt);
  if (!options.json) fmt::print("{}", options.prompt);
  const std::vector<int32_t> tokens = generator.generate(prompt, sampling, [&](int32_t token) {
    if (options.json) return;
    fmt::print("{}", tokenizer->decode(std::span<const int32_t>(&token, 1)));
    std::fflush(stdout);
  });
  if (options.json) {
    nlohmann::ordered_json json = {{"prompt", options.prompt}, {"text", tokenizer->decode(tokens)}, {"tokens", tokens}};
    fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("\n");
  }
}

}  // namespace

void add_generate_command(CLI::App& program) {
  const CLI::Validator not_negative(
      [](std::string& text) { return std::string(text.starts_with('-') ? "must not be negative" : ""); }, "");
  auto options = std::make_shared<Options>();
  options->sampling.temperature = 0.8;
  CLI::App* command = program.add_subcommand("generate", "Write text with a trained model");
  command->add_option("run", options->run, "A run directory (its newest checkpoint), or a checkpoint")->required();
  command->add_option("--prompt", options->prompt, "How the text begins");
  command->add_option("--device", options->device, "auto, cpu, cuda, hip or emulator:ARCHITECTURE")
      ->capture_default_str();
  command->add_option("--tokens", options->sampling.tokens, "Tokens to write")
      ->check(not_negative)
      ->capture_default_str();
  command->add_option("--temperature", options->sampling.temperature, "0: always the most likely token")
      ->check(not_negative)
      ->capture_default_str();
  command->add_option("--top-k", options->sampling.top_k, "Draw among this many likeliest tokens; 0: all")
      ->check(not_negative);
  command->add_option("--seed", options->sampling.seed, "The same seed gives the same text")->capture_default_str();
  command->add_option("--tokenizer", options->tokenizer,
                      "bytes, or a directory with a GPT-2 vocabulary; default: the dataset's");
  command->add_flag("--json", options->json, "Print prompt, text and tokens as JSON");
  command->footer("Example: causeway generate runs/shakespeare --prompt 'ROMEO:' --tokens 300");
  command->callback([options] { run(*options); });
}

}  // namespace causeway
