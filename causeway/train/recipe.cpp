#include "causeway/train/recipe.h"

#include <yaml-cpp/yaml.h>

#include <charconv>
#include <functional>
#include <map>

#include "causeway/base/error.h"
#include "causeway/base/file.h"

namespace causeway {
namespace {

[[noreturn]] void fail(const std::string& where, const std::string& key, const std::string& what,
                       const std::string& hint = {}) {
  throw Error(ErrorKind::kInvalidArgument, what, where.empty() ? key : where + ": " + key, hint);
}

// One key of the recipe: how to set it from text and how to print it.
struct Field {
  std::string key;
  std::string meaning;
  std::string kind;  // "an integer", for messages
  std::function<bool(const std::string&)> set;
  std::function<std::string()> get;
};

std::string print_double(double value) {
  std::string text = fmt::format("{}", value);
  return text;
}

Field field(std::string key, int64_t& value, std::string meaning) {
  return {std::move(key), std::move(meaning), "an integer",
          [&value](const std::string& text) {
            const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
            return error == std::errc() && end == text.data() + text.size();
          },
          [&value] { return fmt::format("{}", value); }};
}

Field field(std::string key, double& value, std::string meaning) {
  return {std::move(key), std::move(meaning), "a number",
          [&value](const std::string& text) {
            const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
            return error == std::errc() && end == text.data() + text.size() && value == value;
          },
          [&value] { return print_double(value); }};
}

Field field(std::string key, bool& value, std::string meaning) {
  return {std::move(key), std::move(meaning), "true or false",
          [&value](const std::string& text) {
            if (text != "true" && text != "false") return false;
            value = text == "true";
            return true;
          },
          [&value] { return value ? "true" : "false"; }};
}

Field field(std::string key, std::string& value, std::string meaning) {
  return {std::move(key), std::move(meaning), "text",
          [&value](const std::string& text) {
            value = text;
            return true;
          },
          [&value] {
            YAML::Emitter out;
            out << YAML::DoubleQuoted << value;
            return std::string(out.c_str());
          }};
}

template <class Enum>
Field choice(std::string key, Enum& value, std::string meaning, Enum (*parse)(std::string_view),
             std::string_view (*name)(Enum)) {
  return {std::move(key), std::move(meaning), "one of the names in docs/recipes.md",
          [&value, parse](const std::string& text) {
            value = parse(text);
            return true;
          },
          [&value, name] { return std::string(name(value)); }};
}

std::vector<Field> fields(Recipe& r) {
  return {
      field("name", r.name, "the run's name"),
      field("run_directory", r.run_directory, "where checkpoints and logs go; empty: runs/NAME"),
      field("device", r.device, "auto, cpu, cuda, cuda:N, hip, hip:N or emulator:ARCHITECTURE"),
      choice("model.family", r.model.family, "gpt2, llama, mistral or mpt", &parse_model_family, &model_family_name),
      field("model.vocabulary_size", r.model.vocabulary_size, "tokens the model knows"),
      field("model.layers", r.model.layers, "transformer blocks"),
      field("model.width", r.model.width, "size of the residual stream"),
      field("model.heads", r.model.heads, "query heads"),
      field("model.kv_heads", r.model.kv_heads, "key and value heads; 0: as many as heads"),
      field("model.head_dim", r.model.head_dim, "size of a head; 0: width / heads"),
      field("model.ffn_width", r.model.ffn_width, "inner size of the feed-forward layer; 0: the family's usual one"),
      field("model.max_sequence_length", r.model.max_sequence_length, "longest sequence; gpt2's position table"),
      field("model.norm_epsilon", r.model.norm_epsilon, "added to the variance in norms"),
      field("model.rope_theta", r.model.rope_theta, "base of the rotary frequencies (llama, mistral)"),
      field("model.sliding_window", r.model.sliding_window,
            "positions a query sees, itself included (mistral); 0: all"),
      field("model.alibi_bias_max", r.model.alibi_bias_max, "largest ALiBi exponent (mpt)"),
      field("model.tie_embeddings", r.model.tie_embeddings, "output layer shares the embedding"),
      field("model.dropout", r.model.dropout, "probability of dropping an activation in training"),
      field("model.initializer_range", r.model.initializer_range, "standard deviation of initial weights"),
      field("data.path", r.data.path, "a prepared dataset directory, or a .bin of llm.c, nanoGPT or Megatron"),
      field("data.token_bytes", r.data.token_bytes,
            "bytes of an id in a .bin without a header: 1, 2 or 4; 0: the file must show it"),
      field("data.sequence_length", r.data.sequence_length, "tokens of one training sequence"),
      field("data.document_mask", r.data.document_mask, "attention stays within documents"),
      field("optimizer.learning_rate", r.optimizer.learning_rate, "peak learning rate of AdamW"),
      field("optimizer.beta1", r.optimizer.beta1, "decay of the first moment"),
      field("optimizer.beta2", r.optimizer.beta2, "decay of the second moment"),
      field("optimizer.epsilon", r.optimizer.epsilon, "added to the root of the second moment"),
      field("optimizer.weight_decay", r.optimizer.weight_decay, "decoupled decay of matrices (norms and biases: none)"),
      field("optimizer.gradient_clip", r.optimizer.gradient_clip, "largest global gradient norm; 0: no clipping"),
      choice("schedule.kind", r.schedule.kind, "constant, linear, cosine or wsd", &parse_schedule_kind,
             &schedule_kind_name),
      field("schedule.warmup_steps", r.schedule.warmup_steps, "steps of linear warm-up"),
      field("schedule.decay_steps", r.schedule.decay_steps, "steps of the final decay (wsd)"),
      field("schedule.final_factor", r.schedule.final_factor, "last learning rate as a fraction of the peak"),
      field("train.steps", r.train.steps, "optimizer steps"),
      field("train.batch_size", r.train.batch_size, "sequences of one optimizer step"),
      field("train.micro_batch_size", r.train.micro_batch_size, "sequences of one forward and backward; 0: batch_size"),
      field("train.seed", r.train.seed, "seed of weights, sample order and dropout"),
      field("train.precision", r.train.precision, "bf16, fp8, tf32 or f32: of matrix products; weights stay f32"),
      field("train.recompute", r.train.recompute, "none, selective or block: activations computed again"),
      field("train.on_non_finite", r.train.on_non_finite, "stop or skip a step whose loss or gradient is not finite"),
      field("evaluation.interval", r.evaluation.interval, "steps between evaluations; 0: only at the end"),
      field("evaluation.sequences", r.evaluation.sequences, "held-out sequences of one evaluation, at most"),
      field("sampling.interval", r.sampling.interval, "steps between samples; 0: never during training"),
      field("sampling.prompt", r.sampling.prompt, "how a sample begins"),
      field("sampling.tokens", r.sampling.tokens, "tokens of a sample"),
      field("sampling.temperature", r.sampling.temperature, "0: always the most likely token"),
      field("sampling.top_k", r.sampling.top_k, "draw among this many likeliest tokens; 0: all"),
      field("checkpoint.interval", r.checkpoint.interval, "steps between checkpoints; 0: at the end and on a signal"),
      field("checkpoint.keep", r.checkpoint.keep, "checkpoints kept"),
      field("log.interval", r.log.interval, "steps between metric records"),
      field("log.tensorboard", r.log.tensorboard, "write TensorBoard event files"),
  };
}

std::string join(const std::string& prefix, const std::string& key) {
  return prefix.empty() ? key : prefix + "." + key;
}

// Flattens nested maps to dotted keys.
void flatten(const YAML::Node& node, const std::string& prefix, const std::string& where,
             std::vector<std::pair<std::string, std::string>>& values) {
  if (node.IsMap()) {
    for (const auto& entry : node) flatten(entry.second, join(prefix, entry.first.as<std::string>()), where, values);
    return;
  }
  if (!node.IsScalar()) fail(where, prefix, node.IsNull() ? "has no value" : "must be a single value");
  values.emplace_back(prefix, node.Scalar());
}

void set(std::vector<Field>& all, const std::string& where, const std::string& key, const std::string& value) {
  std::vector<std::string> names;
  for (Field& candidate : all) {
    if (candidate.key == key) {
      bool accepted = false;
      try {
        accepted = candidate.set(value);
      } catch (const Error& error) {
        fail(where, key, error.message(), error.hint());
      }
      if (!accepted) fail(where, key, fmt::format("'{}' is not {}", value, candidate.kind));
      return;
    }
    names.push_back(candidate.key);
  }
  std::string nearest = nearest_name(key, names);
  // A right name in the wrong place.
  const std::string last = key.substr(key.rfind('.') == std::string::npos ? 0 : key.rfind('.') + 1);
  for (const std::string& name : names)
    if (nearest.empty() && name.ends_with("." + last)) nearest = name;
  fail(where, key, "unknown key",
       nearest.empty() ? "docs/recipes.md lists all keys." : fmt::format("Did you mean {}?", nearest));
}

void require(bool condition, const std::string& where, const char* key, const std::string& what,
             const std::string& hint = {}) {
  if (!condition) fail(where, key, what, hint);
}

void require_choice(const std::string& where, const char* key, const std::string& value,
                    const std::vector<std::string>& choices) {
  if (std::find(choices.begin(), choices.end(), value) != choices.end()) return;
  const std::string nearest = nearest_name(value, choices);
  fail(where, key, fmt::format("'{}' is not one of {}", value, fmt::join(choices, ", ")),
       nearest.empty() ? "" : fmt::format("Did you mean {}?", nearest));
}

void resolve(Recipe& r, const std::string& where) {
  try {
    r.model = r.model.resolved();
  } catch (const Error& error) {
    throw Error(error.kind(), error.message(), where.empty() ? error.where() : where + ": " + error.where(),
                error.hint());
  }
  require(!r.name.empty() && r.name.find('/') == std::string::npos, where, "name", "must be a plain name without '/'");
  require(r.data.token_bytes == 0 || r.data.token_bytes == 1 || r.data.token_bytes == 2 || r.data.token_bytes == 4,
          where, "data.token_bytes", "must be 0, 1, 2 or 4");
  require(r.data.sequence_length >= 1, where, "data.sequence_length", "must be at least 1");
  require(r.data.sequence_length <= r.model.max_sequence_length, where, "data.sequence_length",
          fmt::format("{} is longer than model.max_sequence_length, {}", r.data.sequence_length,
                      r.model.max_sequence_length));
  require(r.optimizer.learning_rate > 0, where, "optimizer.learning_rate", "must be above 0");
  for (const auto& [key, beta] :
       {std::pair{"optimizer.beta1", r.optimizer.beta1}, {"optimizer.beta2", r.optimizer.beta2}})
    require(beta >= 0 && beta < 1, where, key, "must be at least 0 and below 1");
  require(r.optimizer.epsilon > 0, where, "optimizer.epsilon", "must be above 0");
  require(r.optimizer.weight_decay >= 0, where, "optimizer.weight_decay", "must not be negative");
  require(r.optimizer.gradient_clip >= 0, where, "optimizer.gradient_clip", "must not be negative");
  require(r.train.steps >= 1, where, "train.steps", "must be at least 1");
  require(r.train.batch_size >= 1, where, "train.batch_size", "must be at least 1");
  if (r.train.micro_batch_size == 0) r.train.micro_batch_size = r.train.batch_size;
  require(r.train.micro_batch_size >= 1 && r.train.batch_size % r.train.micro_batch_size == 0, where,
          "train.micro_batch_size",
          fmt::format("{} does not divide train.batch_size, {}", r.train.micro_batch_size, r.train.batch_size));
  require_choice(where, "train.precision", r.train.precision, {"bf16", "fp8", "tf32", "f32"});
  require_choice(where, "train.recompute", r.train.recompute, {"none", "selective", "block"});
  require_choice(where, "train.on_non_finite", r.train.on_non_finite, {"stop", "skip"});
  for (const auto& [key, value] : {std::pair{"evaluation.interval", r.evaluation.interval},
                                   {"evaluation.sequences", r.evaluation.sequences},
                                   {"sampling.interval", r.sampling.interval},
                                   {"sampling.tokens", r.sampling.tokens},
                                   {"sampling.top_k", r.sampling.top_k},
                                   {"checkpoint.interval", r.checkpoint.interval}})
    require(value >= 0, where, key, "must not be negative");
  require(r.sampling.temperature >= 0, where, "sampling.temperature", "must not be negative");
  require(r.checkpoint.keep >= 1, where, "checkpoint.keep", "must be at least 1");
  require(r.log.interval >= 1, where, "log.interval", "must be at least 1");
  r.schedule.total_steps = r.train.steps;
  try {
    const Schedule check(r.schedule);
  } catch (const Error& error) {
    throw Error(error.kind(), error.message(), where.empty() ? error.where() : where + ": " + error.where(),
                error.hint());
  }
  if (r.run_directory.empty()) r.run_directory = "runs/" + r.name;
}

}  // namespace

Recipe parse_recipe(const std::string& yaml, const std::string& where, const std::vector<std::string>& overrides) {
  std::vector<std::pair<std::string, std::string>> values;
  try {
    const YAML::Node root = YAML::Load(yaml);
    if (!root.IsNull() && !root.IsMap()) fail(where, "recipe", "is not a map of keys");
    if (root.IsMap()) flatten(root, "", where, values);
  } catch (const YAML::Exception& error) {
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("not readable as YAML: {} (line {})", error.msg, error.mark.line + 1), where);
  }
  Recipe recipe;
  std::vector<Field> all = fields(recipe);
  std::map<std::string, bool> seen;
  for (const auto& [key, value] : values) {
    if (seen[key]) fail(where, key, "is given twice");
    seen[key] = true;
    set(all, where, key, value);
  }
  for (const std::string& text : overrides) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      fail("", text, "is not of the form key=value", "For example: optimizer.learning_rate=1e-3");
    set(all, "command line", text.substr(0, equals), text.substr(equals + 1));
  }
  resolve(recipe, where);
  return recipe;
}

Recipe load_recipe(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  return parse_recipe(read_text_file(path), path.string(), overrides);
}

std::string recipe_text(const Recipe& recipe) {
  Recipe copy = recipe;
  std::string text, section;
  for (const Field& entry : fields(copy)) {
    const size_t dot = entry.key.find('.');
    if (dot == std::string::npos) {
      text += fmt::format("{}: {}\n", entry.key, entry.get());
      continue;
    }
    if (entry.key.substr(0, dot) != section) {
      section = entry.key.substr(0, dot);
      text += section + ":\n";
    }
    text += fmt::format("  {}: {}\n", entry.key.substr(dot + 1), entry.get());
  }
  return text;
}

std::vector<RecipeKey> recipe_keys() {
  Recipe defaults;
  std::vector<RecipeKey> keys;
  for (const Field& entry : fields(defaults)) keys.push_back({entry.key, entry.get(), entry.meaning});
  return keys;
}

}  // namespace causeway
