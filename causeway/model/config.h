// What shape a model has, in names of our own. config.json of Hugging Face has others, which differ by family: each
// family's description (causeway/model/family.h) says what they mean here, and recipes may have the commonest of them
// (config_json_names()).
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::model {

// The value of a key that belongs to some families only.
using ModelValue = std::variant<int64_t, double, bool>;

struct ModelConfig {
  std::string family = "llama";  // the name of a registered one (causeway/model/family.h)
  int64_t vocabulary_size = 256;
  int64_t layers = 4;
  int64_t width = 256;
  int64_t heads = 4;
  int64_t kv_heads = 0;   // 0: as many as heads; fewer only in families with GQA
  int64_t head_dim = 0;   // 0: width / heads
  int64_t ffn_width = 0;  // 0: the family's usual one
  int64_t max_sequence_length = 1024;
  double norm_epsilon = 1e-5;
  bool tie_embeddings = false;      // the output layer shares the embedding; in some families it always does
  double dropout = 0.0;             // on embeddings, attention output and feed-forward output
  double initializer_range = 0.02;  // standard deviation of initial weights
  // A reward model: one score of a token's hidden state in place of logits (Hugging Face's ...ForSequenceClassification
  // with one label). Not a key of recipes: preference.loss=reward says it.
  bool score_head = false;
  // Of the keys that the family adds, by name; what is not here has the key's default.
  std::map<std::string, ModelValue> own;
  // Entries of the config.json that the model came with which change nothing here, or are not known here at all: a JSON
  // object, or empty. They are written again with the model.
  std::string other_entries;

  // The value of a key of the family's own.
  int64_t own_integer(const std::string& key) const;
  double own_number(const std::string& key) const;
  bool own_truth(const std::string& key) const;

  // Fills in the fields given as 0 and every key of the family's own, and checks everything. Throws
  // Error(kInvalidArgument) naming the field as it stands in a recipe ("model.heads") and what would be possible; so
  // for a key that another family adds, unless its value is the default, which is left out. Every size has an upper
  // bound, far above any model's, so that the numbers of parameters, their bytes and those of a step's activations fit
  // into 64 bits.
  ModelConfig resolved() const;
  // Without the values of keys that other families add.
  ModelConfig without_foreign_keys() const;
  ModelConfig without_other_entries() const;
  // With or without a score in place of logits, and without entries of the other's labels.
  ModelConfig with_score_head(bool has_one) const;

  int64_t group_size() const { return heads / kv_heads; }

  bool operator==(const ModelConfig&) const = default;
};

// The names of config.json by which a recipe may say a key of its model section, and that key: "hidden_size" is
// "width".
struct ConfigJsonName {
  std::string_view name;
  std::string_view key;
};
std::span<const ConfigJsonName> config_json_names();

// Hugging Face's config.json of a resolved configuration, and back. Reading throws Error(kUnsupported) for a model type
// or an option that this program does not implement, naming it.
nlohmann::json to_hugging_face(const ModelConfig& config);
ModelConfig from_hugging_face(const nlohmann::json& json);

// What somebody should know of `other_entries`.
struct OtherEntries {
  std::vector<std::string> unknown;           // names of keys that no configuration class of the family has
  std::vector<std::string> only_in_training;  // "attn_pdrop = 0.1": what training here does not have
};
OtherEntries other_entries_of(const ModelConfig& config);

// Parameters of a resolved configuration; tied embeddings count once, and so does the weight of a score.
int64_t parameter_count(const ModelConfig& config);

}  // namespace causeway::model
