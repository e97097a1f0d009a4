// A model family is one file (causeway/model/gpt2.cpp, say), which describes it whole: its name, the keys it adds to a
// recipe, how config.json of Hugging Face has it, how many parameters it has and how it is built. What is common to all
// families asks the description; nothing else tells one family from another.
//
// The program's own are listed in causeway/model/families.h. Others are added while they are registered:
//
//   const RegisteredFamily registered(my_family());
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/model/config.h"
#include "causeway/model/language_model.h"

namespace causeway::formats {
class HuggingFaceConfig;  // causeway/formats/hugging_face_config.h
}

namespace causeway::model {

// A key that a family adds. Families may share one: then they describe it alike.
struct ModelKey {
  std::string name;          // "rope_theta", in a recipe model.rope_theta
  ModelValue default_value;  // its kind is the key's
  std::string meaning;       // for help texts and docs/recipes.md
  // What is wrong with a value ("must be above 0"), or nothing.
  std::function<std::string(const ModelValue&)> problem;
};

// What is wrong with a size of these bounds, or nothing.
std::string size_problem(int64_t size, int64_t least, int64_t most);

// An integer of these bounds, and a number above 0.
ModelKey size_key(std::string name, int64_t default_value, int64_t least, int64_t most, std::string meaning);
ModelKey positive_key(std::string name, double default_value, std::string meaning);

struct ModelFamily {
  std::string name;  // in recipes
  // What others call it, and models of the same architecture, lower case with '_' for '-': who writes one of them is
  // told the name.
  std::vector<std::string> other_names = {};
  std::vector<ModelKey> keys;
  bool grouped_queries = false;  // kv_heads may be fewer than heads
  bool any_head_dim = false;     // heads x head_dim need not be the width
  bool always_tied = false;      // the output layer is the embedding, whatever tie_embeddings says
  // The feed-forward layer's inner size where a recipe gives none.
  std::function<int64_t(int64_t width)> usual_ffn_width;
  // Fills in keys of its own that follow from others where they are 0. May be empty.
  std::function<void(ModelConfig&)> settle;
  // What else cannot be, of a configuration that is otherwise resolved; throws Error as resolved() does. May be empty.
  std::function<void(const ModelConfig&)> check;
  // Of a resolved configuration; tied embeddings count once.
  std::function<int64_t(const ModelConfig&)> parameter_count;
  // A part of the model of a resolved configuration, with weights made so.
  std::function<std::unique_ptr<LanguageModel>(const ModelConfig&, const ModelPart&, const NewWeights&)> build;

  struct HuggingFace {
    std::string model_type;    // "gpt2"
    std::string architecture;  // "GPT2LMHeadModel"
    // Every key of the family's configuration class, of transformers 4 and 5, with what its absence means there: which
    // are honoured, which must have one value, which change nothing. But for those that all families have:
    // list_base_entries(), vocabulary size, initial range and tied embeddings.
    std::function<void(HuggingFaceConfig&, ModelConfig&)> entries;
    int64_t usual_vocabulary = 0;  // where config.json does not say; 0: it must
    // What tensors' names may lack at their beginning: those of a base model, without its output layer, do.
    std::string optional_prefix = {};
    // The embedding's name. Where the output layer is the embedding, files may have it as lm_head.weight.
    std::string embedding = {};
    // What transformers 4 calls a layer's block that is "mlp" in transformers 5; files may have either.
    std::string former_mlp = {};
    // Ends of the names of tensors that follow from the configuration (masks, tables): passed over when reading.
    std::vector<std::string> constants = {};
  } hugging_face;

  const ModelKey* find_key(std::string_view key) const;
};

// Keys of transformers' configuration classes that none of the families computes with, and with `score_head` the one
// label of a score.
void list_base_entries(HuggingFaceConfig& file, bool score_head = false);
// The kinds of attention of the layers, where config.json lists them. Throws Error(kInvalidArgument) unless there are
// as many.
std::optional<std::vector<std::string>> list_layer_types(HuggingFaceConfig& file, const ModelConfig& config);
// Of a family whose layers all attend to everything: refuses windows.
void list_full_attention(HuggingFaceConfig& file, const ModelConfig& config);

// Throws Error(kInvalidArgument) with the nearest name, at "model.family".
const ModelFamily& model_family(std::string_view name);
// In the order of their registration.
std::vector<const ModelFamily*> model_families();
// "gpt2, llama and mistral".
std::string list_names(const std::vector<std::string>& names, std::string_view conjunction = "and");
std::vector<std::string> model_family_names();
// The names of the families for which something holds.
std::vector<std::string> model_families_where(const std::function<bool(const ModelFamily&)>& holds);

// Every key that some family adds, once, and the families that do.
struct SharedModelKey {
  const ModelKey& key;
  std::vector<std::string> families;
};
std::vector<SharedModelKey> shared_model_keys();

// A family besides the program's own, for as long as this lives. Not while models are made on other threads.
class RegisteredFamily {
 public:
  // The name must be new, and a key that another family adds too be described as there.
  explicit RegisteredFamily(ModelFamily family);
  RegisteredFamily(const RegisteredFamily&) = delete;
  RegisteredFamily& operator=(const RegisteredFamily&) = delete;
  ~RegisteredFamily();

 private:
  std::string name_;
};

}  // namespace causeway::model
