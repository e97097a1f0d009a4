// manifest.json of a checkpoint: what was saved, in logical terms (names, global shapes, boxes), so that any mesh, any
// number of processes and any device can read its slices.
//
// The text ends with the hash of everything before it, so that any change to the file is noticed. Every chunk has the
// hash of its bytes, and every tensor file its length and the hash of its header: no byte of a checkpoint is unchecked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/base/hash.h"
#include "causeway/formats/box.h"
#include "causeway/graph/dtype.h"

namespace causeway::train {

// The version written; older ones that are still readable would be listed where the manifest is parsed.
inline constexpr int64_t kCheckpointVersion = 1;
inline constexpr const char* kManifestName = "manifest.json";

// A contiguous piece of a tensor in one file.
struct CheckpointChunk {
  Box box;             // in the global index space; stored row-major
  size_t file = 0;     // index into CheckpointManifest::files
  uint64_t begin = 0;  // byte range in that file
  uint64_t end = 0;
  Hash128 hash;
};

struct CheckpointTensor {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;           // global
  std::vector<CheckpointChunk> chunks;  // cover every element exactly once
};

struct CheckpointFile {
  std::string name;  // in the checkpoint's directory
  uint64_t bytes = 0;
  uint64_t header_bytes = 0;
  Hash128 header_hash;
};

// A file beside the tensors that is kept as it is (config.json, a tokenizer's files).
struct AttachedFile {
  std::string name;  // in the checkpoint's directory
  uint64_t bytes = 0;
  Hash128 hash;
};

// Everything of a run that is not a tensor.
struct CheckpointState {
  int64_t step = 0;       // steps completed
  nlohmann::json model;   // the model's configuration; a checkpoint is only read into an equal one
  std::string optimizer;  // its name: "adamw"
  std::string tokenizer_fingerprint;
  uint64_t rng_seed = 0;
  uint64_t rng_step = 0;
  nlohmann::json data;      // the data cursor
  nlohmann::json schedule;  // the learning-rate schedule's state
  nlohmann::json trainer;   // anything else
};

struct CheckpointManifest {
  CheckpointState state;
  std::vector<CheckpointFile> files;
  std::vector<AttachedFile> attached;
  std::map<std::string, CheckpointTensor> tensors;
};

// The hash of a configuration, independent of the order of its keys.
std::string model_fingerprint(const nlohmann::json& model);

// The first field, in sorted order, in which two configurations differ, e.g. "layers is 12 in the checkpoint and 24 in
// this run"; nested fields are named "attention.heads", list items "blocks[3]". Nothing when they are equal.
std::optional<std::string> first_difference(const nlohmann::json& checkpoint, const nlohmann::json& current);

std::string format_manifest(const CheckpointManifest& manifest);

// The manifest of what several wrote into one directory, each of which lists its own files and chunks; the rest is the
// first one's. `parts` are texts of format_manifest().
CheckpointManifest merge_manifests(const std::vector<std::string>& parts);

// Checks everything that can be checked without the tensor files. Throws Error naming `path` and the field or tensor:
// kCorrupt when the text is damaged or contradicts itself, kUnsupported when a newer program wrote it.
CheckpointManifest parse_manifest(std::string_view text, const std::filesystem::path& path);

}  // namespace causeway::train
