// Adapters that lie in a directory: PEFT's, or those of a checkpoint whose run trained them.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "causeway/model/adapter.h"
#include "causeway/model/language_model.h"

namespace causeway::train {

class StoredModel;

class StoredAdapter {
 public:
  // A directory of PEFT's, a checkpoint, or a run, of which the newest checkpoint is meant. Throws Error: kNotFound
  // where it is none of these, kInvalidArgument where the run trained no adapters, and what read_peft_config() and
  // CheckpointReader throw.
  static std::unique_ptr<StoredAdapter> open(const std::filesystem::path& path);
  virtual ~StoredAdapter() = default;

  // The directory that it was found in: of a run, the checkpoint.
  const std::filesystem::path& directory() const { return directory_; }
  // With how the base lay that they were trained on; unquantized where nothing says it.
  const AdapterConfig& config() const { return config_; }
  // Where its base is, as it says itself; may be empty, or a name on Hugging Face's hub.
  const std::string& base() const { return base_; }
  // The identity of its base (StoredModel::identity()); empty where it does not say it.
  const std::string& base_identity() const { return base_identity_; }
  // Which adapters they are: a hash of their tensors.
  virtual std::string identity() const = 0;

  // Throws refuse_base() where they are known to be of another base than this one, which lies in `directory`.
  void require_base(const StoredModel& base, const std::string& directory) const;

  // Overwrites the adapters of a model that has them as config() says, or what this rank holds of them. Throws
  // Error(kInvalidArgument) naming a tensor that is missing, of another shape, or of a matrix that has no adapter.
  virtual void load(LanguageModel& model) const = 0;
  // By the matrices' names: those that have an adapter.
  virtual std::vector<std::string> matrices() const = 0;
  // A tensor as a model names it ("model.layers.0.mlp.up_proj.lora_A.weight"): f32, row-major. Throws
  // Error(kInvalidArgument) where there is none, or it has another shape.
  virtual std::vector<float> read(const std::string& name, const std::vector<int64_t>& shape) const = 0;

 protected:
  std::filesystem::path directory_;
  AdapterConfig config_;
  std::string base_, base_identity_;
};

// Whether a path holds adapters as StoredAdapter::open() takes them; nothing is read of them.
bool holds_adapter(const std::filesystem::path& path);

}  // namespace causeway::train
