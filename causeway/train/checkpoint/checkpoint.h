// Checkpoints of a run: <run>/checkpoints/step-00000100/ holds safetensors files and manifest.json.
//
// A save goes to a new temporary directory: tensor files, flushed; then the manifest, flushed; then one rename makes
// the checkpoint exist. A process killed at any instant leaves the earlier checkpoints as they were; what it left half
// written is removed by the next save. Older checkpoints are deleted only after the new one is committed.
//
// Reading is logical: any box of any tensor, whatever boxes it was saved as. Every byte read has been checked against
// its hash first. Neither direction holds more than one chunk (64 MiB unless told otherwise) beside the caller's data.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/base/positioned_file.h"
#include "causeway/formats/safetensors.h"
#include "causeway/train/checkpoint/checkpoint_manifest.h"

namespace causeway::train {

class Ranks;

struct CheckpointOptions {
  int64_t keep_last = 3;                        // committed checkpoints kept, the new one included; at least 1
  uint64_t max_file_bytes = uint64_t{4} << 30;  // a larger tensor has a file of its own
  uint64_t chunk_bytes = uint64_t{64} << 20;    // what one hash covers, and the staging memory of a save
  // The step of the checkpoint that the run saved last or went on from (0: none); the new one's own step unless said.
  std::optional<int64_t> previous_step = std::nullopt;
};

// Fills `bytes` with the row-major bytes of a tensor (or of the part of it being saved) from `byte_offset` on.
using ChunkSource = std::function<void(uint64_t byte_offset, std::span<std::byte> bytes)>;

// Gathers what is to be saved, then saves it with commit(). Spans and sources are used only within commit(). Whoever
// saves owns the run (RunLock): of two that save at once each would take the other's work for a crashed save's
// leftovers.
//
// Where several ranks save together, each adds the parts that it is to write, which go into files of its own; the first
// one does all the rest, once every file is flushed.
class CheckpointWriter {
 public:
  // Throws Error(kInvalidArgument) for options or a step that make no sense. Without `ranks`, which outlive it, there
  // is one.
  CheckpointWriter(std::filesystem::path run_directory, CheckpointState state, CheckpointOptions options = {},
                   const Ranks* ranks = nullptr);

  // A whole tensor, from memory that outlives commit() or from a source that is asked for one chunk at a time.
  void add(const NamedTensorSpec& tensor, std::span<const std::byte> data);
  void add(const NamedTensorSpec& tensor, ChunkSource source);
  // One part of a tensor of global shape `tensor.shape`; all parts together, of all ranks, must cover it exactly once.
  void add_part(const NamedTensorSpec& tensor, Box part, ChunkSource source);
  void add_part(const NamedTensorSpec& tensor, Box part, std::span<const std::byte> data);

  // A file beside the tensors, whose content is checked as theirs is. `name` is a plain file name. The first rank's
  // count.
  void attach(std::string name, std::string content);

  // Saves, deletes checkpoints beyond the last `keep_last`, and returns the new checkpoint's directory. Checkpoints of
  // steps later than `previous_step` belong to a past that a resumed run has left: they are renamed to
  // superseded-step-..., not deleted, and do not count towards those kept.
  // Throws Error, on every rank, when anything cannot be saved; the run's earlier checkpoints are then untouched and
  // the message says so. Errors from deleting old checkpoints are left for the next save.
  std::filesystem::path commit();

  // commit() in its parts, for who saves beside other work. None of them is a call of all ranks, so that any thread may
  // make it: before each, all ranks have done the one before. Throw Error, in which the checkpoint is not named.

  // The first rank's: makes room, and the directory that files go to.
  void prepare() const;
  // Every rank's: writes and flushes its files. Throws Error(kInterrupted) soon after `stop` is asked for.
  CheckpointManifest write_files(const std::stop_token& stop = {}) const;
  // The first rank's: makes the checkpoint exist, with what every rank wrote.
  void complete(const CheckpointManifest& manifest) const;
  // The first rank's, once it exists: flushes names and deletes older checkpoints.
  void tidy() const;
  // The first rank's, where a part has failed and no rank writes any more.
  void discard() const noexcept;
  // What to throw, or say, of an error of any part but tidy().
  Error not_saved(const Error& error) const noexcept;
  // Where it is once it exists.
  std::filesystem::path directory() const;
  int64_t step() const { return state_.step; }

 private:
  struct Part {
    std::string tensor;
    std::string stored_name;  // in the safetensors file
    Box box;
    std::span<const std::byte> data;  // either data or source
    ChunkSource source;
  };
  void add_any(const NamedTensorSpec& tensor, Box part, std::span<const std::byte> data, ChunkSource source);
  void write_part(const Part& part, SafetensorsWriter& file, size_t file_index, CheckpointTensor& tensor,
                  std::vector<std::byte>& staging, const std::stop_token& stop) const;
  std::filesystem::path saving() const;
  std::string file_name(size_t index, size_t count) const;
  // Of all ranks, on the first one.
  CheckpointManifest gather_manifest(CheckpointManifest own) const;
  // Of the run's own past; at most the new checkpoint's step.
  int64_t previous_step() const;
  bool is_first() const;
  void together(const std::function<void()>& work) const;

  std::filesystem::path run_directory_;
  CheckpointState state_;
  CheckpointOptions options_;
  const Ranks* ranks_;
  std::map<std::string, NamedTensorSpec> tensors_;
  std::vector<Part> parts_;
  std::map<std::string, std::string> attached_;
};

class CheckpointReader {
 public:
  // Opens a committed checkpoint and checks its manifest, the presence and length of its files and their headers.
  // Throws Error naming what is damaged and, in the hint, the newest intact checkpoint before it.
  explicit CheckpointReader(const std::filesystem::path& directory);

  const std::filesystem::path& directory() const { return directory_; }
  const CheckpointState& state() const { return manifest_.state; }
  const CheckpointManifest& manifest() const { return manifest_; }
  std::vector<std::string> names() const;
  // Throws Error(kNotFound) with the nearest name.
  const CheckpointTensor& tensor(const std::string& name) const;

  // Throws Error(kInvalidArgument) naming the first field in which the checkpoint's model differs from `model`.
  void require_model(const nlohmann::json& model) const;
  // Throws Error(kInvalidArgument) naming the first tensor that is missing, of another dtype or shape, or surplus,
  // where `tensors` are all of the run's and not those of a rank.
  void require_tensors(const std::vector<NamedTensorSpec>& tensors, bool are_all = true) const;

  // Reads a whole tensor, or one box of it, row-major; `bytes` must have exactly its size. Throws Error(kCorrupt)
  // naming the file, tensor and chunk when a hash does not hold; `bytes` may then be partly filled.
  void read(const std::string& name, std::span<std::byte> bytes) const;
  void read_box(const std::string& name, const Box& box, std::span<std::byte> bytes) const;

 private:
  std::filesystem::path directory_;
  CheckpointManifest manifest_;
  std::vector<PositionedFile> files_;
};

struct CheckpointEntry {
  int64_t step = 0;
  std::filesystem::path directory;
};

// The committed checkpoints of a run, by rising step; empty when the run has none. Their content is not looked at.
std::vector<CheckpointEntry> list_checkpoints(const std::filesystem::path& run_directory);

// Calls `read` with the newest committed checkpoint of a run. The run may go on meanwhile and prune it: where `read`
// throws Error and the checkpoint is no longer there, or another one of its name, it is called again with the newest by
// then. False where the run has none.
bool read_newest_checkpoint(const std::filesystem::path& run_directory,
                            const std::function<void(const CheckpointEntry&)>& read);

// Throws Error(kCorrupt) where the entry's name says another step: a directory that was renamed by hand must not move a
// run.
void require_step_of_its_name(const CheckpointReader& checkpoint, const CheckpointEntry& entry);

// Which directory a path is, to see later whether it is still the same.
class DirectoryIdentity {
 public:
  explicit DirectoryIdentity(std::filesystem::path path);
  // Neither deleted nor replaced.
  bool is_in_place() const;

 private:
  std::filesystem::path path_;
  uint64_t device_ = 0, number_ = 0;
};

struct CheckpointProblem {
  std::string file;    // name in the checkpoint's directory
  std::string tensor;  // empty when the problem is not one tensor's
  int64_t chunk = -1;  // index among the tensor's chunks, or -1
  std::string what;
  // One line with all of it.
  std::string describe() const;
};

// Reads every byte of a checkpoint and lists all problems; an empty list means that it is intact.
std::vector<CheckpointProblem> verify_checkpoint(const std::filesystem::path& directory);

}  // namespace causeway::train
