#include "causeway/model/config.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/base/json_document.h"
#include "causeway/formats/hugging_face_config.h"
#include "causeway/model/family.h"

namespace causeway::model {
namespace {

using Json = nlohmann::json;

void require(bool condition, const std::string& key, const std::string& what, const std::string& hint = {}) {
  if (!condition) throw Error(ErrorKind::kInvalidArgument, what, "model." + key, hint);
}

struct SizeBound {
  const char* key;
  int64_t ModelConfig::* size;
  int64_t least;
  int64_t most;
};

constexpr SizeBound kSizeBounds[] = {
    {"vocabulary_size", &ModelConfig::vocabulary_size, 2, int64_t{1} << 24},
    {"layers", &ModelConfig::layers, 1, 1024},
    {"width", &ModelConfig::width, 1, int64_t{1} << 20},
    {"heads", &ModelConfig::heads, 1, int64_t{1} << 16},
    {"kv_heads", &ModelConfig::kv_heads, 0, int64_t{1} << 16},
    {"head_dim", &ModelConfig::head_dim, 0, 512},
    {"ffn_width", &ModelConfig::ffn_width, 0, int64_t{1} << 22},
    {"max_sequence_length", &ModelConfig::max_sequence_length, 1, int64_t{1} << 24},
};

constexpr ConfigJsonName kConfigJsonNames[] = {
    {"hidden_size", "width"},           {"num_hidden_layers", "layers"},
    {"num_attention_heads", "heads"},   {"num_key_value_heads", "kv_heads"},
    {"intermediate_size", "ffn_width"}, {"max_position_embeddings", "max_sequence_length"},
    {"rms_norm_eps", "norm_epsilon"},
};

// The divisors of `width` nearest to `heads`, as a suggestion.
std::string possible_heads(int64_t width, int64_t heads) {
  int64_t below = 1, above = width;
  for (int64_t candidate = 1; candidate <= width; ++candidate) {
    if (width % candidate != 0) continue;
    if (candidate < heads) below = candidate;
    if (candidate > heads) {
      above = candidate;
      break;
    }
  }
  return fmt::format("{} or {} heads would divide it.", below, above);
}

// The keys of the family's own, all of them; those of others are refused where they would have an effect.
std::map<std::string, ModelValue> settled_keys(const ModelConfig& config, const ModelFamily& family) {
  for (const auto& [name, value] : config.own) {
    if (family.find_key(name) != nullptr) continue;
    const std::vector<std::string> owners =
        model_families_where([&](const ModelFamily& other) { return other.find_key(name) != nullptr; });
    require(!owners.empty(), name, "unknown key");
    require(value == model_family(owners.front()).find_key(name)->default_value, name,
            fmt::format("has no effect on {}: it belongs to {}", family.name, list_names(owners)),
            "Delete the key, or choose what it belongs to.");
  }
  std::map<std::string, ModelValue> settled;
  for (const ModelKey& key : family.keys) {
    const auto given = config.own.find(key.name);
    const ModelValue& value = given == config.own.end() ? key.default_value : given->second;
    require(value.index() == key.default_value.index(), key.name, "has another kind of value");
    const std::string problem = key.problem ? key.problem(value) : "";
    require(problem.empty(), key.name, problem);
    settled.emplace(key.name, value);
  }
  return settled;
}

template <class T>
T own_value(const ModelConfig& config, const std::string& name) {
  const auto given = config.own.find(name);
  if (given != config.own.end()) return std::get<T>(given->second);
  const ModelKey* key = model_family(config.family).find_key(name);
  CAUSEWAY_CHECK(key != nullptr, "the family {} has no key {}", config.family, name);
  return std::get<T>(key->default_value);
}

constexpr std::string_view kScoringArchitecture = "ForSequenceClassification";

// The class of transformers that the model is of: "LlamaForCausalLM", and with a score
// "LlamaForSequenceClassification".
std::string architecture_of(const ModelFamily& family, bool score_head) {
  const std::string& name = family.hugging_face.architecture;
  if (!score_head) return name;
  for (const std::string_view end : {"ForCausalLM", "LMHeadModel"})
    if (name.ends_with(end)) return fmt::format("{}{}", name.substr(0, name.size() - end.size()), kScoringArchitecture);
  return name;
}

bool says_score_head(const Json& config) {
  const auto architectures = config.find("architectures");
  return architectures != config.end() && architectures->is_array() && !architectures->empty() &&
         architectures->front().is_string() &&
         architectures->front().get<std::string>().ends_with(kScoringArchitecture);
}

// What config.json says of every family; the rest is the family's.
void list_entries_of_all(HuggingFaceConfig& file, const ModelFamily& family, ModelConfig& c) {
  if (file.is_reading()) c.score_head = says_score_head(file.json());
  file.written("architectures", {architecture_of(family, c.score_head)});
  file.written("model_type", family.hugging_face.model_type);
  file.written("torch_dtype", "float32");
  list_base_entries(file, c.score_head);
  if (family.hugging_face.usual_vocabulary == 0)
    file.required("vocab_size", c.vocabulary_size);
  else
    file.optional("vocab_size", c.vocabulary_size, family.hugging_face.usual_vocabulary);
  file.optional("initializer_range", c.initializer_range, 0.02);
  if (family.always_tied)
    file.fixed("tie_word_embeddings", true);
  else
    file.optional("tie_word_embeddings", c.tie_embeddings, false);
  family.hugging_face.entries(file, c);
}

// It goes with a run's recipe, which is read whole and with a bound far above this.
constexpr size_t kMostOtherBytes = size_t{1} << 20;

Json parse_other_entries(const std::string& text) {
  const char* const hint = "Give a JSON object, or delete the key.";
  require(text.size() <= kMostOtherBytes, "other_entries", fmt::format("has more than {} bytes", kMostOtherBytes),
          hint);
  try {
    Json entries = parse_json(text, {.name = "the text", .kind = ErrorKind::kInvalidArgument});
    require(entries.is_object(), "other_entries", "is no JSON object", hint);
    return entries;
  } catch (const Error& error) {
    throw Error(ErrorKind::kInvalidArgument, error.message(), "model.other_entries", hint);
  }
}

Json config_json(const ModelConfig& config) {
  ModelConfig c = config;
  HuggingFaceConfig file;
  list_entries_of_all(file, model_family(config.family), c);
  if (!config.other_entries.empty()) file.merge(parse_other_entries(config.other_entries));
  return file.json();
}

// Entries that this program writes itself would contradict it, or be lost.
void check_other_entries(const ModelConfig& config) {
  if (config.other_entries.empty()) return;
  const Json given = parse_other_entries(config.other_entries);
  Json carried;
  try {
    HuggingFaceConfig file(config_json(config));
    ModelConfig read = config;
    list_entries_of_all(file, model_family(config.family), read);
    carried = file.carried();
  } catch (const Error& error) {
    require(false, "other_entries", error.message(), error.hint());
  }
  const Json own = config_json(config.without_other_entries());
  for (const auto& [key, value] : given.items()) {
    const auto has = [&](const Json& entries) { return entries.contains(key) && entries[key] == value; };
    require(has(carried) || has(own), "other_entries", fmt::format("{} is no entry to carry along", key),
            "Delete it: other keys of the recipe say it.");
  }
}

}  // namespace

int64_t ModelConfig::own_integer(const std::string& key) const { return own_value<int64_t>(*this, key); }
double ModelConfig::own_number(const std::string& key) const { return own_value<double>(*this, key); }
bool ModelConfig::own_truth(const std::string& key) const { return own_value<bool>(*this, key); }

ModelConfig ModelConfig::without_foreign_keys() const {
  ModelConfig c = *this;
  const ModelFamily& described = model_family(family);
  std::erase_if(c.own, [&](const auto& entry) { return described.find_key(entry.first) == nullptr; });
  return c;
}

ModelConfig ModelConfig::without_other_entries() const {
  ModelConfig c = *this;
  c.other_entries.clear();
  return c;
}

ModelConfig ModelConfig::with_score_head(bool has_one) const {
  ModelConfig c = *this;
  if (c.score_head == has_one) return c;
  c.score_head = has_one;
  if (c.other_entries.empty()) return c;
  Json entries = parse_other_entries(c.other_entries);
  for (const char* key : {"id2label", "label2id", "num_labels", "problem_type"}) entries.erase(key);
  c.other_entries = entries.empty() ? "" : entries.dump();
  return c;
}

ModelConfig ModelConfig::resolved() const {
  const ModelFamily& described = model_family(family);
  ModelConfig c = *this;
  // Before anything is computed from the sizes.
  for (const SizeBound& bound : kSizeBounds) {
    const std::string problem = size_problem(c.*bound.size, bound.least, bound.most);
    require(problem.empty(), bound.key, problem);
  }
  require(c.norm_epsilon > 0, "norm_epsilon", "must be above 0");
  require(c.dropout >= 0 && c.dropout < 1, "dropout", "must be at least 0 and below 1");
  require(c.initializer_range > 0, "initializer_range", "must be above 0");
  c.own = settled_keys(c, described);
  if (c.head_dim == 0) {
    require(c.width % c.heads == 0, "heads", fmt::format("{} heads do not divide the width, {}", c.heads, c.width),
            possible_heads(c.width, c.heads));
    c.head_dim = c.width / c.heads;
  }
  require(c.head_dim >= 1 && c.head_dim <= 512, "head_dim", fmt::format("{} is not between 1 and 512", c.head_dim));
  require(described.any_head_dim || c.head_dim * c.heads == c.width, "head_dim",
          fmt::format("{} heads of {} do not make the width, {}", c.heads, c.head_dim, c.width));
  if (c.kv_heads == 0) c.kv_heads = c.heads;
  require(c.kv_heads >= 1 && c.heads % c.kv_heads == 0, "kv_heads",
          fmt::format("{} key heads do not divide {} query heads", c.kv_heads, c.heads));
  require(described.grouped_queries || c.kv_heads == c.heads, "kv_heads",
          fmt::format("GQA belongs to {}",
                      list_names(model_families_where([](const ModelFamily& f) { return f.grouped_queries; }))));
  if (c.ffn_width == 0) c.ffn_width = described.usual_ffn_width(c.width);
  if (described.always_tied) c.tie_embeddings = true;
  if (described.settle) described.settle(c);
  if (described.check) described.check(c);
  check_other_entries(c);
  return c;
}

std::span<const ConfigJsonName> config_json_names() { return kConfigJsonNames; }

Json to_hugging_face(const ModelConfig& config) { return config_json(config); }

ModelConfig from_hugging_face(const Json& json) {
  HuggingFaceConfig file(json);
  std::string type;
  file.required("model_type", type);
  for (const ModelFamily* family : model_families()) {
    if (family->hugging_face.model_type != type) continue;
    ModelConfig c;
    c.family = family->name;
    list_entries_of_all(file, *family, c);
    if (const Json carried = file.carried(); !carried.empty()) c.other_entries = carried.dump();
    return c.resolved();
  }
  std::vector<std::string> types;
  for (const ModelFamily* family : model_families()) types.push_back(family->hugging_face.model_type);
  throw Error(ErrorKind::kUnsupported, fmt::format("model_type '{}'", type), "config.json",
              fmt::format("Implemented are {}.", list_names(types)));
}

OtherEntries other_entries_of(const ModelConfig& config) {
  HuggingFaceConfig file(config_json(config));
  ModelConfig read = config;
  list_entries_of_all(file, model_family(config.family), read);
  return {file.unknown(), file.only_in_training()};
}

int64_t parameter_count(const ModelConfig& config) {
  const int64_t count = model_family(config.family).parameter_count(config);
  if (!config.score_head) return count;
  const int64_t output_layer = config.tie_embeddings ? 0 : config.vocabulary_size * config.width;
  return count - output_layer + config.width;
}

}  // namespace causeway::model
