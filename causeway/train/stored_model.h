// The weights of a model that lie in a directory, for another run to begin with or as the base of adapters: of a
// Hugging Face directory, or of a checkpoint of this program. Of a checkpoint whose run trained adapters they are its
// base with the adapters added, as `causeway export --merged` writes them in f32, to the same bits on one kind of
// device: where the base was quantized (lora.base), what it was multiplied as. Of one whose optimizer averages the
// weights they are the average. Neither the optimizer's state nor the step belongs
// to them.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/model/language_model.h"

namespace causeway::train {

class StoredModel {
 public:
  // Files stay where they are and are read as they are asked for. Throws Error: what SafetensorsModel and
  // CheckpointReader throw; of adapters kNotFound where their base is not there any more, and kInvalidArgument where it
  // is another model.
  static std::unique_ptr<StoredModel> open(const std::filesystem::path& directory);
  virtual ~StoredModel() = default;

  // A line for each tensor, which tells it from that of another model.
  virtual std::string description() const = 0;
  // A hash of that.
  std::string identity() const;
  // Whether it is the model of that identity, or the export in f32 of a checkpoint of that identity, which has all of
  // its values.
  virtual bool is_of(const std::string& identity) const { return identity == this->identity(); }

  // Overwrites every parameter that the model or its part has, or what this rank holds of it, but adapters and
  // `without` (kScoreWeight, where a reward model begins with a language model's weights); values are converted to the
  // type that the parameter lies in, and matrices that are quantized are so by every rank that holds a part of them.
  // Reads nothing else, but the whole of a matrix that is quantized or to which adapters are added. Throws
  // Error(kInvalidArgument) naming what the model has otherwise. Gives the names in files of what it read.
  virtual std::vector<std::string> load(LanguageModel& model, std::string_view without) const = 0;
  std::vector<std::string> load(LanguageModel& model) const { return load(model, {}); }
  // Throws Error(kInvalidArgument) where the files hold a tensor that the model does not have; `read`: what load() gave
  // on all ranks together.
  virtual void require_no_other_tensors(const ModelConfig& config, const std::vector<std::string>& read) const = 0;

  // The same of one parameter.
  virtual std::string load_parameter(const ModelConfig& config, const Parameter& parameter) const = 0;
  // All of a parameter, of which this rank may hold a part: f32, row-major as files have it, never quantized as the
  // parameter may be.
  virtual std::vector<float> whole(const ModelConfig& config, const Parameter& parameter) const = 0;
};

// A hash of the description of the weights that a directory holds.
std::string identity_of_stored_model(const std::filesystem::path& directory);

// What an export says of itself in its probe (kProbeName), for StoredModel::is_of(): its own identity, and that of the
// checkpoint that it has all values of.
constexpr char kProbeIdentity[] = "identity", kProbeIdentityOfCheckpoint[] = "identity_of_checkpoint";

// Throws Error(kInvalidArgument): the adapters of `what` are of a base of identity `was`, and that of `directory` is
// `is`.
[[noreturn]] void refuse_base(const std::string& what, const std::string& was, const std::string& directory,
                              const std::string& is);

// A base model of adapters. Throws Error(kNotFound) where no directory is, and refuse_base() where it holds another
// model than that of `identity` (empty: it is not known).
std::unique_ptr<StoredModel> open_base(const std::string& directory, const std::string& identity);

}  // namespace causeway::train
