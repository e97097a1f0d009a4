#include "causeway/train/checkpoint/checkpoint.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "causeway/base/enclosed_path.h"
#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/communicator/communicator.h"
#include "causeway/train/ranks.h"

namespace causeway::train {
namespace {

namespace fs = std::filesystem;

constexpr int kMostReadings = 100, kMostListings = 4;
constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kSavingPrefix = ".saving-";
constexpr std::string_view kDeletingPrefix = ".deleting-";

constexpr const char* kCheckpoints = "checkpoints";
constexpr uint64_t kMostManifestBytes = uint64_t{1} << 30;  // some 250 bytes a chunk

fs::path checkpoints_of(const fs::path& run_directory) { return run_directory / kCheckpoints; }

std::string step_name(int64_t step) { return fmt::format("{}{:08}", kStepPrefix, step); }

std::optional<int64_t> parse_step_name(const std::string& name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  const char* end = name.data() + name.size();
  int64_t step = 0;
  const auto result = std::from_chars(name.data() + kStepPrefix.size(), end, step);
  if (result.ec != std::errc() || result.ptr != end || step_name(step) != name) return std::nullopt;
  return step;
}

std::vector<CheckpointEntry> list_directory(const fs::path& checkpoints) {
  std::vector<CheckpointEntry> entries;
  std::error_code failure;
  for (fs::directory_iterator item(checkpoints, failure), end; !failure && item != end; item.increment(failure)) {
    if (const auto step = parse_step_name(item->path().filename())) entries.push_back({*step, item->path()});
  }
  if (failure && failure != std::errc::no_such_file_or_directory)
    throw Error(ErrorKind::kIo, "cannot list the checkpoints: " + failure.message(), checkpoints.string());
  std::ranges::sort(entries, {}, &CheckpointEntry::step);
  return entries;
}

void rename_or_throw(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    throw Error(ErrorKind::kIo, fmt::format("cannot rename to {}: {}", to.string(), std::strerror(errno)),
                from.string());
}

void remove_leftovers(const fs::path& checkpoints) {
  std::error_code ignored;
  std::vector<fs::path> leftovers;
  for (fs::directory_iterator item(checkpoints, ignored), end; !ignored && item != end; item.increment(ignored)) {
    const std::string name = item->path().filename();
    if (name.starts_with(kSavingPrefix) || name.starts_with(kDeletingPrefix)) leftovers.push_back(item->path());
  }
  for (const fs::path& path : leftovers) fs::remove_all(path, ignored);
}

// The rename comes first, so that a checkpoint half deleted by a killed process is never taken for a whole one.
void delete_checkpoint(const fs::path& directory) {
  const fs::path doomed = directory.parent_path() / (std::string(kDeletingPrefix) + directory.filename().string());
  std::error_code ignored;
  fs::remove_all(doomed, ignored);
  fs::rename(directory, doomed, ignored);
  if (!ignored) fs::remove_all(doomed, ignored);
}

void set_aside(const fs::path& directory) {
  for (int i = 1;; ++i) {
    const fs::path target = directory.parent_path() / fmt::format("superseded-{}-{}", directory.filename().string(), i);
    if (fs::exists(fs::symlink_status(target))) continue;
    return rename_or_throw(directory, target);
  }
}

// Gives the finished directory its name, replacing a checkpoint of the same step in one instant where the file system
// can exchange two names; elsewhere that checkpoint is gone for the instant between two renames.
void commit_directory(const fs::path& saved, const fs::path& target) {
  if (fs::exists(target)) {
    if (::renameat2(AT_FDCWD, saved.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) != 0) {
      delete_checkpoint(target);
      rename_or_throw(saved, target);
    }
  } else {
    rename_or_throw(saved, target);
  }
  sync_directory(target.parent_path());
}

struct OpenCheckpoint {
  CheckpointManifest manifest;
  std::vector<PositionedFile> files;
};

CheckpointManifest read_manifest(const fs::path& directory) {
  const fs::path path = directory / kManifestName;
  return parse_manifest(read_text_file(path, kMostManifestBytes), path);
}

// Opens one tensor file and checks its length and header.
PositionedFile open_tensor_file(const fs::path& directory, const CheckpointFile& file) {
  PositionedFile opened = PositionedFile::open(directory / file.name);
  if (opened.size() != file.bytes) {
    throw Error(ErrorKind::kCorrupt, fmt::format("the file has {} bytes, but {} were saved", opened.size(), file.bytes),
                opened.path().string());
  }
  std::vector<std::byte> header(file.header_bytes);
  opened.read_at(0, header);
  if (hash_bytes(header) != file.header_hash)
    throw Error(ErrorKind::kCorrupt, "the file's header does not match its hash", opened.path().string());
  return opened;
}

// Checks the whole file: attached files are small.
void check_attached_file(const fs::path& directory, const AttachedFile& file) {
  const PositionedFile opened = PositionedFile::open(directory / file.name);
  if (opened.size() != file.bytes) {
    throw Error(ErrorKind::kCorrupt, fmt::format("the file has {} bytes, but {} were saved", opened.size(), file.bytes),
                opened.path().string());
  }
  std::vector<std::byte> content(file.bytes);
  opened.read_at(0, content);
  if (hash_bytes(content) != file.hash)
    throw Error(ErrorKind::kCorrupt, "the file does not match its hash", opened.path().string());
}

OpenCheckpoint open_checked(const fs::path& directory) {
  OpenCheckpoint checkpoint;
  checkpoint.manifest = read_manifest(directory);
  for (const AttachedFile& file : checkpoint.manifest.attached) check_attached_file(directory, file);
  for (const CheckpointFile& file : checkpoint.manifest.files)
    checkpoint.files.push_back(open_tensor_file(directory, file));
  return checkpoint;
}

bool opens(const fs::path& directory) {
  try {
    open_checked(directory);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Of the checkpoints up to a step, the newest stay. Damaged ones do not count towards those kept: the last good one is
// never among the deleted.
void delete_old_checkpoints(const fs::path& checkpoints, int64_t step, int64_t keep_last) {
  auto entries = list_directory(checkpoints);
  std::ranges::reverse(entries);
  int64_t kept = 0;
  for (const CheckpointEntry& entry : entries) {
    if (entry.step > step) continue;
    if (kept >= keep_last) {
      delete_checkpoint(entry.directory);
    } else if (opens(entry.directory)) {
      ++kept;
    }
  }
}

// While a listing goes on a new checkpoint may appear behind its back and the last one disappear before its eyes.
std::vector<CheckpointEntry> list_of_running_run(const fs::path& run_directory) {
  std::vector<CheckpointEntry> entries;
  std::error_code ignored;
  for (int tries = 0; entries.empty() && tries < kMostListings; ++tries) {
    if (tries > 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    entries = list_directory(checkpoints_of(run_directory));
    if (!fs::exists(checkpoints_of(run_directory), ignored)) break;
  }
  return entries;
}

// What to do about a damaged checkpoint.
std::string damage_hint(const fs::path& directory) {
  const std::optional<int64_t> step = parse_step_name(directory.filename());
  if (!step) return "Restore the checkpoint from a copy.";
  auto entries = list_directory(directory.parent_path());
  std::ranges::reverse(entries);
  for (const CheckpointEntry& entry : entries) {
    if (entry.step < *step && opens(entry.directory)) {
      return fmt::format("The newest intact checkpoint before it is {} (to train on from there: --resume {}).",
                         entry.directory.string(), entry.step);
    }
  }
  return "There is no intact checkpoint before it: restore this one from a copy.";
}

std::string chunk_problem(const CheckpointManifest& manifest, const CheckpointChunk& chunk) {
  return fmt::format("bytes {}..{} of {} do not match their hash", chunk.begin, chunk.end,
                     manifest.files[chunk.file].name);
}

}  // namespace

CheckpointWriter::CheckpointWriter(fs::path run_directory, CheckpointState state, CheckpointOptions options,
                                   const Ranks* ranks)
    : run_directory_(std::move(run_directory)), state_(std::move(state)), options_(options), ranks_(ranks) {
  if (state_.step < 0)
    throw Error(ErrorKind::kInvalidArgument, fmt::format("a checkpoint cannot be of step {}", state_.step));
  if (options_.keep_last < 1) {
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("cannot keep the last {} checkpoints: at least 1 must be kept", options_.keep_last));
  }
  if (options_.chunk_bytes < 8) throw Error(ErrorKind::kInvalidArgument, "checkpoint chunks need at least 8 bytes");
}

void CheckpointWriter::add(const NamedTensorSpec& tensor, std::span<const std::byte> data) {
  add_any(tensor, whole_box(tensor.shape), data, nullptr);
}

void CheckpointWriter::add(const NamedTensorSpec& tensor, ChunkSource source) {
  add_any(tensor, whole_box(tensor.shape), {}, std::move(source));
}

void CheckpointWriter::add_part(const NamedTensorSpec& tensor, Box part, ChunkSource source) {
  add_any(tensor, std::move(part), {}, std::move(source));
}

void CheckpointWriter::add_part(const NamedTensorSpec& tensor, Box part, std::span<const std::byte> data) {
  add_any(tensor, std::move(part), data, nullptr);
}

void CheckpointWriter::add_any(const NamedTensorSpec& tensor, Box part, std::span<const std::byte> data,
                               ChunkSource source) {
  const std::optional<uint64_t> global_bytes = checked_volume(tensor.shape, size_bytes(tensor.dtype));
  CAUSEWAY_CHECK(global_bytes && box_inside(part, tensor.shape), "tensor '{}', part {}", tensor.name,
                 describe_box(part));
  const uint64_t bytes = checked_volume(part.shape, size_bytes(tensor.dtype)).value();
  CAUSEWAY_CHECK(source || data.size() == bytes, "tensor '{}' takes {} bytes, {} were given", tensor.name, bytes,
                 data.size());
  const auto [known, is_new] = tensors_.emplace(tensor.name, tensor);
  CAUSEWAY_CHECK(is_new || (known->second.dtype == tensor.dtype && known->second.shape == tensor.shape),
                 "the parts of tensor '{}' disagree in dtype or shape", tensor.name);
  const bool is_whole = part == whole_box(tensor.shape);
  std::string stored_name = is_whole ? tensor.name : fmt::format("{}@{}", tensor.name, fmt::join(part.offset, ","));
  parts_.push_back({tensor.name, std::move(stored_name), std::move(part), data, std::move(source)});
}

void CheckpointWriter::attach(std::string name, std::string content) {
  CAUSEWAY_CHECK(!name.empty() && name.find('/') == std::string::npos, "attached file '{}'", name);
  attached_[std::move(name)] = std::move(content);
}

void CheckpointWriter::write_part(const Part& part, SafetensorsWriter& file, size_t file_index,
                                  CheckpointTensor& tensor, std::vector<std::byte>& staging,
                                  const std::stop_token& stop) const {
  const uint64_t element_bytes = size_bytes(tensor.dtype);
  uint64_t position = 0;
  for (const Box& box : split_box(part.box, element_bytes, options_.chunk_bytes)) {
    if (stop.stop_requested()) throw Error(ErrorKind::kInterrupted, "it was given up");
    const uint64_t bytes = checked_volume(box.shape, element_bytes).value();
    std::span<const std::byte> data;
    if (part.source) {
      if (staging.size() < bytes) staging.resize(bytes);
      if (bytes > 0) part.source(position, std::span(staging).first(bytes));
      data = std::span(staging).first(bytes);
    } else {
      data = part.data.subspan(position, bytes);
    }
    const uint64_t begin = file.data_offset(part.stored_name) + position;
    tensor.chunks.push_back({box, file_index, begin, begin + bytes, hash_bytes(data)});
    file.write(part.stored_name, position, data);
    position += bytes;
  }
}

CheckpointManifest CheckpointWriter::write_files(const std::stop_token& stop) const {
  const fs::path directory = saving();
  require_enclosed(run_directory_, kCheckpoints);
  CheckpointManifest manifest;
  manifest.state = state_;
  std::vector<NamedTensorSpec> stored;
  for (const Part& part : parts_) {
    const NamedTensorSpec& tensor = tensors_.at(part.tensor);
    stored.push_back({part.stored_name, tensor.dtype, part.box.shape});
    manifest.tensors[tensor.name] = {tensor.dtype, tensor.shape, {}};
  }
  // A rank may have nothing to write.
  const auto groups = stored.empty() && !is_first() ? std::vector<std::vector<NamedTensorSpec>>()
                                                    : group_into_files(stored, options_.max_file_bytes);
  std::vector<std::byte> staging;
  size_t next_part = 0;
  for (size_t file_index = 0; file_index < groups.size(); ++file_index) {
    CheckpointFile file;
    file.name = file_name(file_index, groups.size());
    SafetensorsWriter writer(directory / file.name, groups[file_index]);
    for (size_t i = 0; i < groups[file_index].size(); ++i) {
      const Part& part = parts_[next_part++];
      write_part(part, writer, file_index, manifest.tensors.at(part.tensor), staging, stop);
    }
    writer.finish();
    file.bytes = writer.file_bytes();
    file.header_bytes = writer.header().size();
    file.header_hash = hash_bytes(writer.header());
    manifest.files.push_back(std::move(file));
  }
  for (const auto& [name, content] : attached_) {
    if (!is_first()) break;
    FileWriter file(directory / name);
    file.write(content);
    file.sync();
    manifest.attached.push_back({name, content.size(), hash_text(content)});
  }
  return manifest;
}

int64_t CheckpointWriter::previous_step() const {
  return std::min(options_.previous_step.value_or(state_.step), state_.step);
}

bool CheckpointWriter::is_first() const { return ranks_ == nullptr || ranks_->is_first(); }

void CheckpointWriter::together(const std::function<void()>& work) const {
  if (ranks_ == nullptr) return work();
  ranks_->together(work);
}

std::string CheckpointWriter::file_name(size_t index, size_t count) const {
  const std::string name = fmt::format("tensors-{:05}-of-{:05}.safetensors", index + 1, count);
  return ranks_ == nullptr || ranks_->count() == 1 ? name : fmt::format("rank-{:05}-{}", ranks_->rank(), name);
}

CheckpointManifest CheckpointWriter::gather_manifest(CheckpointManifest own) const {
  CheckpointManifest manifest = std::move(own);
  if (ranks_ != nullptr && ranks_->count() > 1) {
    const std::vector<std::string> parts = ranks_->gather(format_manifest(manifest));
    if (is_first()) manifest = merge_manifests(parts);
  }
  return manifest;
}

fs::path CheckpointWriter::directory() const { return checkpoints_of(run_directory_) / step_name(state_.step); }

fs::path CheckpointWriter::saving() const {
  return checkpoints_of(run_directory_) / (std::string(kSavingPrefix) + step_name(state_.step));
}

void CheckpointWriter::prepare() const {
  const fs::path checkpoints = checkpoints_of(run_directory_);
  std::error_code failure;
  fs::create_directories(run_directory_, failure);
  if (failure) {
    throw Error(ErrorKind::kIo, "cannot create the directory: " + failure.message(), run_directory_.string(),
                "Check the permissions of the run's directory and the space on its disk.");
  }
  create_enclosed_directories(run_directory_, kCheckpoints);
  remove_leftovers(checkpoints);
  // Here too, because a job that is killed after each save, before it deletes, would fill the disk.
  delete_old_checkpoints(checkpoints, previous_step(), options_.keep_last);
  // A new one: what is in one that could not be removed is not known.
  if (!fs::create_directory(saving(), failure))
    throw Error(ErrorKind::kIo,
                "cannot create the directory: " + (failure ? failure.message() : "it is there and cannot be removed"),
                saving().string());
}

void CheckpointWriter::complete(const CheckpointManifest& manifest) const {
  for (const auto& [name, tensor] : manifest.tensors) {
    std::vector<Box> boxes;
    for (const CheckpointChunk& chunk : tensor.chunks) boxes.push_back(chunk.box);
    const auto problem = tiling_problem(tensor.shape, boxes);
    CAUSEWAY_CHECK(!problem, "the parts of tensor '{}': {}", name, *problem);
  }
  FileWriter manifest_file(saving() / kManifestName);
  manifest_file.write(format_manifest(manifest));
  manifest_file.sync();
  sync_directory(saving());
  for (const CheckpointEntry& entry : list_directory(checkpoints_of(run_directory_))) {
    if (entry.step > previous_step()) set_aside(entry.directory);
  }
  commit_directory(saving(), directory());
}

void CheckpointWriter::tidy() const {
  const fs::path checkpoints = checkpoints_of(run_directory_);
  require_enclosed(run_directory_, kCheckpoints);
  // The names of a run's first checkpoint must last as well as the checkpoint itself.
  sync_directory(run_directory_);
  if (run_directory_.has_parent_path()) sync_directory(run_directory_.parent_path());
  delete_old_checkpoints(checkpoints, state_.step, options_.keep_last);
  remove_leftovers(checkpoints);
}

void CheckpointWriter::discard() const noexcept {
  try {
    std::error_code ignored;
    require_enclosed(run_directory_, kCheckpoints);
    fs::remove_all(saving(), ignored);
  } catch (const std::exception&) {
    // The next save removes it.
  }
}

Error CheckpointWriter::not_saved(const Error& error) const noexcept {
  std::string hint = error.hint();
  try {
    const auto entries = list_directory(checkpoints_of(run_directory_));
    if (!entries.empty()) {
      hint += fmt::format("{}The newest checkpoint, {}, is untouched.", hint.empty() ? "" : " ",
                          entries.back().directory.string());
    }
  } catch (const Error&) {
    // Where there is no list, the first error says more.
  }
  return Error(error.kind(), fmt::format("the checkpoint of step {} was not saved: {}", state_.step, error.message()),
               error.where(), hint);
}

fs::path CheckpointWriter::commit() {
  const auto on_first = [&](const std::function<void()>& work) {
    together([&] {
      if (is_first()) work();
    });
  };
  try {
    on_first([&] { prepare(); });
    CheckpointManifest manifest;
    together([&] { manifest = write_files(); });
    manifest = gather_manifest(std::move(manifest));
    on_first([&] { complete(manifest); });
  } catch (const CollectiveError&) {
    throw;
  } catch (const Error& error) {
    if (is_first()) discard();
    if (ranks_ != nullptr && ranks_->count() > 1) throw ErrorOfAllRanks(not_saved(error));
    throw not_saved(error);
  } catch (...) {
    if (is_first()) discard();
    throw;
  }
  on_first([&] { tidy(); });
  return directory();
}

CheckpointReader::CheckpointReader(const fs::path& directory) : directory_(directory) {
  if (!directory_.has_filename()) directory_ = directory_.parent_path();
  if (!fs::is_directory(directory_)) {
    throw Error(ErrorKind::kNotFound, "there is no checkpoint", directory_.string(),
                "Give a directory named step-... inside a run's checkpoints directory.");
  }
  try {
    OpenCheckpoint checkpoint = open_checked(directory_);
    manifest_ = std::move(checkpoint.manifest);
    files_ = std::move(checkpoint.files);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kUnsupported) throw;
    throw Error(error.kind(), "the checkpoint is damaged: " + error.message(), error.where(), damage_hint(directory_));
  }
}

std::vector<std::string> CheckpointReader::names() const {
  std::vector<std::string> names;
  for (const auto& [name, unused] : manifest_.tensors) names.push_back(name);
  return names;
}

const CheckpointTensor& CheckpointReader::tensor(const std::string& name) const {
  const auto found = manifest_.tensors.find(name);
  if (found != manifest_.tensors.end()) return found->second;
  const std::string near = nearest_name(name, names());
  throw Error(ErrorKind::kNotFound, fmt::format("the checkpoint has no tensor '{}'", name), directory_.string(),
              near.empty() ? "" : fmt::format("Did you mean '{}'?", near));
}

void CheckpointReader::require_model(const nlohmann::json& model) const {
  const auto difference = first_difference(manifest_.state.model, model);
  if (!difference) return;
  throw Error(ErrorKind::kInvalidArgument, "the checkpoint is of another model: " + *difference, directory_.string(),
              "Resume with the recipe that wrote it, or train into a new run directory.");
}

void CheckpointReader::require_tensors(const std::vector<NamedTensorSpec>& tensors, bool are_all) const {
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorKind::kInvalidArgument, what, directory_.string(),
                "Resume with the recipe and the program version that wrote it, or train into a new run directory.");
  };
  std::map<std::string, const NamedTensorSpec*> wanted;
  for (const NamedTensorSpec& spec : tensors) wanted.emplace(spec.name, &spec);
  for (const auto& [name, spec] : wanted) {
    const auto found = manifest_.tensors.find(name);
    if (found == manifest_.tensors.end())
      return fail(fmt::format("this run needs tensor '{}', which the checkpoint lacks", name));
    const CheckpointTensor& saved = found->second;
    if (saved.dtype != spec->dtype || saved.shape != spec->shape) {
      return fail(fmt::format("tensor '{}' is {} [{}] in the checkpoint and {} [{}] in this run", name,
                              dtype_name(saved.dtype), fmt::join(saved.shape, ", "), dtype_name(spec->dtype),
                              fmt::join(spec->shape, ", ")));
    }
  }
  for (const auto& [name, unused] : manifest_.tensors) {
    if (are_all && !wanted.contains(name))
      return fail(fmt::format("the checkpoint has tensor '{}', which this run lacks", name));
  }
}

void CheckpointReader::read(const std::string& name, std::span<std::byte> bytes) const {
  read_box(name, whole_box(tensor(name).shape), bytes);
}

void CheckpointReader::read_box(const std::string& name, const Box& box, std::span<std::byte> bytes) const {
  const CheckpointTensor& saved = tensor(name);
  const uint64_t element_bytes = size_bytes(saved.dtype);
  CAUSEWAY_CHECK(box_inside(box, saved.shape), "box {} of tensor '{}' [{}]", describe_box(box), name,
                 fmt::join(saved.shape, ", "));
  CAUSEWAY_CHECK(bytes.size() == checked_volume(box.shape, element_bytes),
                 "box {} of tensor '{}' does not take {} bytes", describe_box(box), name, bytes.size());
  std::vector<std::byte> staging;
  for (size_t i = 0; i < saved.chunks.size(); ++i) {
    const CheckpointChunk& chunk = saved.chunks[i];
    if (!intersect_boxes(chunk.box, box)) continue;
    const uint64_t chunk_bytes = chunk.end - chunk.begin;
    const std::optional<uint64_t> position = contiguous_position(box, chunk.box);
    std::span<std::byte> target;
    if (position) {
      target = bytes.subspan(*position * element_bytes, chunk_bytes);
    } else {
      if (staging.size() < chunk_bytes) staging.resize(chunk_bytes);
      target = std::span(staging).first(chunk_bytes);
    }
    files_[chunk.file].read_at(chunk.begin, target);
    if (hash_bytes(target) != chunk.hash) {
      throw Error(
          ErrorKind::kCorrupt,
          fmt::format("the checkpoint is damaged: tensor '{}' chunk {}: {}", name, i, chunk_problem(manifest_, chunk)),
          directory_.string(), damage_hint(directory_));
    }
    if (!position) copy_common_box(target, chunk.box, bytes, box, element_bytes);
  }
}

std::vector<CheckpointEntry> list_checkpoints(const fs::path& run_directory) {
  return list_of_running_run(run_directory);
}

void require_step_of_its_name(const CheckpointReader& checkpoint, const CheckpointEntry& entry) {
  if (checkpoint.state().step == entry.step) return;
  throw Error(ErrorKind::kCorrupt,
              fmt::format("the checkpoint is of step {}, not of the step in its name", checkpoint.state().step),
              entry.directory.string(), "Give the directory its right name.");
}

DirectoryIdentity::DirectoryIdentity(fs::path path) : path_(std::move(path)) {
  struct stat status{};
  if (::stat(path_.c_str(), &status) != 0) return;
  device_ = status.st_dev;
  number_ = status.st_ino;
}

bool DirectoryIdentity::is_in_place() const {
  const DirectoryIdentity now(path_);
  return number_ != 0 && now.device_ == device_ && now.number_ == number_;
}

bool read_newest_checkpoint(const fs::path& run_directory, const std::function<void(const CheckpointEntry&)>& read) {
  for (int tries = 0;; ++tries) {
    const auto entries = list_checkpoints(run_directory);
    if (entries.empty()) return false;
    const DirectoryIdentity directory(entries.back().directory);
    try {
      read(entries.back());
      return true;
    } catch (const Error&) {
      if (directory.is_in_place() || tries >= kMostReadings) throw;
    }
  }
}

std::string CheckpointProblem::describe() const {
  std::string text = file;
  if (!tensor.empty()) text += fmt::format(": tensor '{}'", tensor);
  if (chunk >= 0) text += fmt::format(" chunk {}", chunk);
  return text + ": " + what;
}

std::vector<CheckpointProblem> verify_checkpoint(const fs::path& directory) {
  std::vector<CheckpointProblem> problems;
  CheckpointManifest manifest;
  try {
    manifest = read_manifest(directory);
  } catch (const Error& error) {
    return {{kManifestName, "", -1, error.message()}};
  }
  std::vector<std::optional<PositionedFile>> files(manifest.files.size());
  for (size_t i = 0; i < files.size(); ++i) {
    try {
      files[i] = open_tensor_file(directory, manifest.files[i]);
    } catch (const Error& error) {
      problems.push_back({manifest.files[i].name, "", -1, error.message()});
      // Which tensors of it are damaged is still worth knowing, as long as it can be read at all.
      try {
        files[i] = PositionedFile::open(directory / manifest.files[i].name);
      } catch (const Error&) {
      }
    }
  }
  for (const AttachedFile& file : manifest.attached) {
    try {
      check_attached_file(directory, file);
    } catch (const Error& error) {
      problems.push_back({file.name, "", -1, error.message()});
    }
  }
  std::vector<std::byte> bytes;
  for (const auto& [name, tensor] : manifest.tensors) {
    for (size_t i = 0; i < tensor.chunks.size(); ++i) {
      const CheckpointChunk& chunk = tensor.chunks[i];
      if (!files[chunk.file]) continue;
      const std::string& file_name = manifest.files[chunk.file].name;
      const auto index = static_cast<int64_t>(i);
      if (chunk.end > files[chunk.file]->size()) {
        problems.push_back({file_name, name, index, "the file ends before it"});
        continue;
      }
      try {
        bytes.resize(chunk.end - chunk.begin);
        files[chunk.file]->read_at(chunk.begin, bytes);
        if (hash_bytes(bytes) != chunk.hash)
          problems.push_back({file_name, name, index, chunk_problem(manifest, chunk)});
      } catch (const Error& error) {
        problems.push_back({file_name, name, index, error.message()});
      }
    }
  }
  return problems;
}

}  // namespace causeway::train
