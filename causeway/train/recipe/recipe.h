// A recipe: everything that determines a run, read from YAML. Strict: an unknown key, a value of the wrong kind or one
// without effect is an error that names the file or the override, the key and the nearest valid name. Sizes are bounded
// here, so that products of them fit into 64 bits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "causeway/data/packing.h"
#include "causeway/graph/sharding.h"
#include "causeway/model/adapter.h"
#include "causeway/model/config.h"
#include "causeway/model/mesh_axis.h"
#include "causeway/optimizer/config.h"
#include "causeway/passes/pipeline_options.h"
#include "causeway/train/recipe/choices.h"
#include "causeway/train/recipe/data_sources.h"
#include "causeway/train/recipe/grpo_config.h"
#include "causeway/train/recipe/moe_config.h"
#include "causeway/train/recipe/offload_config.h"
#include "causeway/train/recipe/preference_config.h"
#include "causeway/train/recipe/schedule.h"

namespace causeway::train {

struct Recipe {
  std::string name = "run";
  ModelConfig model;
  // model.from: a directory of Hugging Face's, or a checkpoint (in place of a run its newest one), whose config.json
  // says what the model is and whose weights a new run begins with. Empty: what the recipe says, and random weights. A
  // run that goes on from a checkpoint of its own reads no weights from it.
  std::string model_from;

  struct Data {
    std::string path;                 // a prepared dataset directory, or a .bin of llm.c, nanoGPT or Megatron
    std::vector<DataSource> mixture;  // data.sources: several of them, instead of path
    // Width of an id in a .bin without a header, or in a column of bytes of MDS; 0: the file must show it.
    int64_t token_bytes = 0;
    std::string column = "tokens";                      // of MDS, with the token ids
    FaultPolicy on_damaged_shard = FaultPolicy::kStop;  // of MDS
    bool check_hashes = false;                          // of all shards, before the first step
    bool allow_other_tokenizer = false;                 // than that of model.from
    int64_t sequence_length = 256;                      // tokens of one training sequence
    Packing packing = Packing::kWindows;
    bool document_mask = false;  // attention does not cross document boundaries
    // Whether targets weigh something else than 1 in the loss: no key, but what the data says, where it is there.
    bool weighs_targets = false;

    // What is trained on: the mixture, or path alone; nothing where neither is given.
    std::vector<DataSource> sources() const;
    bool packs_documents() const { return packing == Packing::kDocuments; }
    bool masks_documents() const { return document_mask || packs_documents(); }
  } data;

  // lora.*: adapters of the model of model.from, which stays as it is. lora.from: a directory that PEFT can read, or a
  // checkpoint (in place of a run its newest one), whose adapters a new run begins with.
  AdapterConfig adapter;
  std::string adapter_from;

  PreferenceConfig preference;
  GrpoConfig grpo;
  MoeConfig moe;

  OptimizerConfig optimizer;

  ScheduleConfig schedule;  // total_steps follows train.steps

  struct Train {
    int64_t steps = 1000;          // 0 with epochs: as many as they are, once the data is opened (resolve_steps)
    double epochs = 0;             // passes over the training data, instead of steps; 0: steps says
    int64_t batch_size = 16;       // sequences of one optimizer step
    int64_t micro_batch_size = 0;  // sequences of one forward and backward; 0: batch_size
    int64_t seed = 1;
    Precision precision = Precision::kBf16;
    GradientType gradients = GradientType::kAuto;
    double z_loss = 0;                         // times the mean of log(Z)^2 is minimized beside the loss; 0: nothing
    std::optional<RecomputePolicy> recompute;  // nothing: auto, as much as the device's memory asks for
    int64_t recompute_layers = 0;              // so many, the first ones; the others with block selectively; 0: all
    FaultPolicy on_non_finite = FaultPolicy::kStop;
    int64_t check_replicas = 1000;  // steps between comparisons of what several ranks hold; 0: never
    PipelineSchedule pipeline_schedule = PipelineSchedule::kOneForwardOneBackward;
    int64_t pipeline_chunks = 1;    // runs of layers on each stage; several with interleaved
    bool mesh_independent = false;  // the same bits on every mesh
  } train;

  // How many ranks each axis of the mesh has; their product is the number of ranks. docs/distributed.md says what each
  // axis cuts.
  struct MeshSizes {
    int64_t dp = 1;    // rows of the batch, weights and the optimizer's state
    int64_t fsdp = 1;  // rows of the batch, weights and the optimizer's state
    int64_t cp = 1;    // the sequence, weights and the optimizer's state
    int64_t tp = 1;    // heads, the feed-forward layer and the vocabulary
    int64_t pp = 1;    // layers: the stages of a pipeline
    int64_t ranks() const { return dp * fsdp * cp * tp * pp; }
    // Groups of ranks that have rows of the batch of their own.
    int64_t row_groups() const { return dp * fsdp; }
    int64_t& size(MeshAxisId axis);
    int64_t size(MeshAxisId axis) const;
    // Those above 1, with their sizes.
    std::vector<std::pair<MeshAxisId, int64_t>> axes() const;
  } mesh;

  OffloadConfig offload;

  struct Evaluation {
    int64_t interval = 0;    // steps; 0: only at the end
    int64_t sequences = 64;  // of the held-out data, at most
  } evaluation;

  struct Sampling {
    int64_t interval = 0;  // steps; 0: never during training
    std::string prompt = "\n";
    int64_t tokens = 200;
    double temperature = 0.8;
    int64_t top_k = 0;  // 0: all
  } sampling;

  struct Checkpoint {
    int64_t interval = 0;          // steps; 0: by time alone
    double interval_minutes = 15;  // since the last checkpoint; 0: by steps alone
    int64_t keep = 3;
    bool asynchronous = true;  // written while training goes on, where the host has memory for a copy of the state
  } checkpoint;

  struct Log {
    int64_t interval = 1;  // steps between metric records
    bool tensorboard = true;
    bool each_rank = false;           // records have every rank's times
    int64_t measure_interval = 1000;  // steps between those that ranks on GPUs measure; 0: none
    int64_t trace_from = 0;           // the first step of trace.json; 0: no trace
    int64_t trace_steps = 2;
  } log;

  std::string run_directory;  // "": runs/NAME
  std::string device = "auto";
  std::string device_architecture;  // empty: the best that the device has
  int64_t device_memory_limit = 0;  // bytes that a rank takes of its device at most; 0: as many as there are

  int64_t micro_batches() const { return train.batch_size / train.micro_batch_size; }
};

// Of train.recompute: "auto" for nothing.
std::string_view recompute_choice_name(const std::optional<RecomputePolicy>& choice);

// The mesh of these sizes, without the axes of size 1: empty for one rank. Neighbours along tp have neighbouring rank
// numbers; then follow cp, fsdp, dp and pp. Axes cut in the order cp, tp, fsdp, dp, and weights are gathered from the
// last of them on: over dp what each rank of fsdp has a part of, and then the whole.
Mesh make_mesh(const Recipe::MeshSizes& sizes);

// Reads a recipe and applies overrides of the form "optimizer.learning_rate=1e-3", then resolves and checks everything.
// Without model.from and model.vocabulary_size, the latter is that of the first dataset's tokenizer, where the data is
// there and says it. Of train.steps and train.epochs an override takes the place of either. Where it has model.from,
// the model is that of the directory's config.json, which is read; a key under model that says otherwise is refused,
// but for model.dropout. Some keys of the model have aliases, config.json's names of them (RecipeKey::aliases): nothing
// that is read or printed afterwards has them, and a file with both names of a key is refused. Throws Error(kNotFound,
// kInvalidArgument, kUnsupported).
Recipe load_recipe(const std::filesystem::path& path, const std::vector<std::string>& overrides);
Recipe parse_recipe(const std::string& yaml, const std::string& where, const std::vector<std::string>& overrides);
// A recipe that a run saved. It may hold values without effect, which a user's recipe may not, and says all of the
// model itself: the directory of model.from may be gone.
Recipe parse_saved_recipe(const std::string& yaml, const std::string& where);

// The complete recipe as YAML, without the keys of other optimizers: reading it back gives the same recipe.
std::string recipe_text(const Recipe& recipe);

// Every key with its value.
struct RecipeValue {
  std::string key;
  std::string value;
};
std::vector<RecipeValue> recipe_values(const Recipe& recipe);

// The keys in which two recipes differ, in the order of recipe_values().
struct RecipeDifference {
  std::string key;
  std::string was;
  std::string is;
};
std::vector<RecipeDifference> recipe_differences(const Recipe& was, const Recipe& is);

// Every key with its default and meaning, for help texts and docs/recipes.md.
struct RecipeKey {
  std::string key;
  std::string default_value;
  std::string meaning;
  std::string type;                  // what its value is: "an integer"
  std::vector<std::string> choices;  // the values there are, where they can be listed
  std::vector<std::string> aliases;  // config.json's names of it, which a recipe may have instead
};
std::vector<RecipeKey> recipe_keys();
// All by which a recipe may say a key, aliases included.
std::vector<std::string> recipe_key_names();

}  // namespace causeway::train
