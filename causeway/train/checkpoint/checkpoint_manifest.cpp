#include "causeway/train/checkpoint/checkpoint_manifest.h"

#include <algorithm>
#include <charconv>

#include "causeway/base/error.h"
#include "causeway/base/json_document.h"
#include "causeway/formats/safetensors.h"

namespace causeway::train {
namespace {

using nlohmann::json;

constexpr std::string_view kFormatName = "causeway-checkpoint";
// The manifest's text is <body><kHashPrefix><32 hexadecimal digits><kHashSuffix>; the hash is of the body.
constexpr std::string_view kHashPrefix = ",\n \"hash\": \"";
constexpr std::string_view kHashSuffix = "\"\n}\n";
constexpr size_t kHashDigits = 32;

std::optional<Hash128> parse_hash(std::string_view text) {
  if (text.size() != kHashDigits) return std::nullopt;
  const auto half = [](std::string_view digits, uint64_t& value) {
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    return result.ec == std::errc() && result.ptr == digits.data() + digits.size();
  };
  Hash128 hash;
  if (!half(text.substr(0, 16), hash.high) || !half(text.substr(16), hash.low)) return std::nullopt;
  if (hash.hex() != text) return std::nullopt;
  return hash;
}

// Reads fields of the parsed manifest; every failure names the field.
class Fields {
 public:
  Fields(const json& object, std::string name, const std::filesystem::path& path)
      : object_(object), name_(std::move(name)), path_(path) {
    if (!object.is_object()) fail("is not an object");
  }

  const json& at(const char* key) const {
    const auto found = object_.find(key);
    if (found == object_.end()) fail(fmt::format("has no field '{}'", key));
    return *found;
  }
  std::string text(const char* key) const {
    const json& value = at(key);
    if (!value.is_string()) fail(fmt::format("'{}' is not a string", key));
    return value.get<std::string>();
  }
  uint64_t number(const char* key) const {
    const json& value = at(key);
    if (!value.is_number_unsigned()) fail(fmt::format("'{}' is not a non-negative integer", key));
    return value.get<uint64_t>();
  }
  const json& list(const char* key) const {
    const json& value = at(key);
    if (!value.is_array()) fail(fmt::format("'{}' is not a list", key));
    return value;
  }
  std::vector<int64_t> integers(const char* key) const {
    std::vector<int64_t> values;
    for (const json& value : list(key)) {
      if (!value.is_number_unsigned() || value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
        fail(fmt::format("'{}' does not hold non-negative integers", key));
      values.push_back(value.get<int64_t>());
    }
    return values;
  }
  Hash128 hash(const char* key) const {
    const std::optional<Hash128> hash = parse_hash(text(key));
    if (!hash) fail(fmt::format("'{}' is not a hash", key));
    return *hash;
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::kCorrupt, fmt::format("{} {}", name_, what), path_.string());
  }

 private:
  const json& object_;
  std::string name_;
  const std::filesystem::path& path_;
};

// A plain name, so that a manifest cannot lead out of its directory.
std::string file_name(const Fields& fields) {
  std::string name = fields.text("name");
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos ||
      name.find('\0') != std::string::npos)
    fields.fail("does not name a file of the checkpoint's directory");
  return name;
}

CheckpointFile parse_file(const json& value, size_t index, const std::filesystem::path& path) {
  const Fields fields(value, fmt::format("file {}", index), path);
  CheckpointFile file;
  file.name = file_name(fields);
  file.bytes = fields.number("bytes");
  file.header_bytes = fields.number("header_bytes");
  file.header_hash = fields.hash("header_hash");
  if (file.header_bytes > file.bytes) fields.fail("has a header longer than itself");
  return file;
}

AttachedFile parse_attached(const json& value, size_t index, const std::filesystem::path& path) {
  const Fields fields(value, fmt::format("attached file {}", index), path);
  return {file_name(fields), fields.number("bytes"), fields.hash("hash")};
}

// Whether the chunks of a manifest make up all of each tensor, or a part.
enum class Coverage { kWhole, kPart };

CheckpointTensor parse_tensor(const std::string& name, const json& value, const std::vector<CheckpointFile>& files,
                              const std::filesystem::path& path, Coverage coverage) {
  const Fields fields(value, fmt::format("tensor '{}'", name), path);
  CheckpointTensor tensor;
  const std::string dtype_name = fields.text("dtype");
  const std::optional<DType> dtype = parse_safetensors_dtype(dtype_name);
  if (!dtype) fields.fail(fmt::format("has the unknown dtype '{}'", dtype_name));
  tensor.dtype = *dtype;
  tensor.shape = fields.integers("shape");
  if (!checked_volume(tensor.shape, size_bytes(tensor.dtype))) fields.fail("has an impossible shape");

  std::vector<Box> boxes;
  for (const json& item : fields.list("chunks")) {
    const Fields chunk_fields(item, fmt::format("tensor '{}' chunk {}", name, boxes.size()), path);
    CheckpointChunk chunk;
    chunk.box = {chunk_fields.integers("offset"), chunk_fields.integers("shape")};
    chunk.file = chunk_fields.number("file");
    chunk.begin = chunk_fields.number("begin");
    chunk.end = chunk_fields.number("end");
    chunk.hash = chunk_fields.hash("hash");
    if (!box_inside(chunk.box, tensor.shape)) chunk_fields.fail("lies outside the tensor");
    if (chunk.file >= files.size()) chunk_fields.fail(fmt::format("is in file {}, which is not listed", chunk.file));
    const CheckpointFile& file = files[chunk.file];
    if (chunk.begin < file.header_bytes || chunk.begin > chunk.end || chunk.end > file.bytes ||
        checked_volume(chunk.box.shape, size_bytes(tensor.dtype)) != chunk.end - chunk.begin) {
      chunk_fields.fail(fmt::format("cannot take bytes {}..{} of {}", chunk.begin, chunk.end, file.name));
    }
    boxes.push_back(chunk.box);
    tensor.chunks.push_back(std::move(chunk));
  }
  if (coverage == Coverage::kWhole)
    if (const auto problem = tiling_problem(tensor.shape, boxes))
      fields.fail("is not covered by its chunks: " + *problem);
  return tensor;
}

CheckpointState parse_state(const Fields& fields, const std::filesystem::path& path) {
  CheckpointState state;
  const uint64_t step = fields.number("step");
  if (step > static_cast<uint64_t>(INT64_MAX)) fields.fail("'step' is too large");
  state.step = static_cast<int64_t>(step);
  const Fields model(fields.at("model"), "'model'", path);
  state.model = model.at("config");
  if (model.text("fingerprint") != model_fingerprint(state.model)) model.fail("does not match its fingerprint");
  state.optimizer = fields.text("optimizer");
  state.tokenizer_fingerprint = fields.text("tokenizer_fingerprint");
  const Fields rng(fields.at("rng"), "'rng'", path);
  state.rng_seed = rng.number("seed");
  state.rng_step = rng.number("step");
  state.data = fields.at("data");
  state.schedule = fields.at("schedule");
  state.trainer = fields.at("trainer");
  return state;
}

std::string describe_value(const json* value) {
  if (value == nullptr) return "absent";
  std::string text = value->dump(-1, ' ', true, json::error_handler_t::replace);
  constexpr size_t kLongest = 80;
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

std::optional<std::string> difference_at(const std::string& field, const json* checkpoint, const json* current) {
  if (checkpoint != nullptr && current != nullptr) {
    if (*checkpoint == *current) return std::nullopt;
    if (checkpoint->is_object() && current->is_object()) {
      json keys = *checkpoint;
      keys.update(*current);
      const auto find = [](const json& object, const std::string& key) {
        const auto found = object.find(key);
        return found == object.end() ? nullptr : &*found;
      };
      for (const auto& [key, unused] : keys.items()) {
        const std::string inner = field.empty() ? key : fmt::format("{}.{}", field, key);
        if (auto text = difference_at(inner, find(*checkpoint, key), find(*current, key))) return text;
      }
    }
    if (checkpoint->is_array() && current->is_array() && checkpoint->size() == current->size()) {
      for (size_t i = 0; i < checkpoint->size(); ++i) {
        if (auto text = difference_at(fmt::format("{}[{}]", field, i), &(*checkpoint)[i], &(*current)[i])) return text;
      }
    }
  }
  return fmt::format("{} is {} in the checkpoint and {} in this run", field.empty() ? "the configuration" : field,
                     describe_value(checkpoint), describe_value(current));
}

CheckpointManifest parse(std::string_view text, const std::filesystem::path& path, Coverage coverage) {
  const size_t tail = kHashPrefix.size() + kHashDigits + kHashSuffix.size();
  const size_t body_size = text.size() < tail ? 0 : text.size() - tail;
  const std::string_view body = text.substr(0, body_size);
  const bool intact = text.size() >= tail && text.substr(body_size, kHashPrefix.size()) == kHashPrefix &&
                      text.ends_with(kHashSuffix) &&
                      parse_hash(text.substr(body_size + kHashPrefix.size(), kHashDigits)) == hash_text(body);

  json root;
  std::optional<Error> unreadable;
  try {
    root = parse_json(text, {.name = "the manifest", .where = path.string()});
  } catch (const Error& error) {
    unreadable = error;
  }
  const bool is_manifest = root.is_object() && root.contains("format") && root["format"] == kFormatName;
  // A newer format may hash itself in another way, so its version is looked at even when the hash does not hold.
  if (is_manifest && root.contains("version") && root["version"].is_number_unsigned() &&
      root["version"].get<uint64_t>() > static_cast<uint64_t>(kCheckpointVersion)) {
    throw Error(ErrorKind::kUnsupported,
                fmt::format("the checkpoint has format version {}, and this program reads up to version {}{}",
                            root["version"].get<uint64_t>(), kCheckpointVersion,
                            intact ? "" : "; or the manifest is damaged, for its hash does not hold"),
                path.string(), "Use the newer program that wrote it.");
  }
  if (!intact) throw Error(ErrorKind::kCorrupt, "the manifest does not match its own hash", path.string());
  if (unreadable) throw Error(*unreadable);
  if (!is_manifest) throw Error(ErrorKind::kCorrupt, "this is not the manifest of a checkpoint", path.string());

  const Fields fields(root, "the manifest", path);
  if (fields.number("version") != static_cast<uint64_t>(kCheckpointVersion)) fields.fail("has an unknown version");
  CheckpointManifest manifest;
  manifest.state = parse_state(fields, path);
  for (const json& file : fields.list("files")) manifest.files.push_back(parse_file(file, manifest.files.size(), path));
  if (root.contains("attached"))  // checkpoints of before have none
    for (const json& file : fields.list("attached"))
      manifest.attached.push_back(parse_attached(file, manifest.attached.size(), path));
  const json& tensors = fields.at("tensors");
  if (!tensors.is_object()) fields.fail("'tensors' is not an object");
  for (const auto& [name, value] : tensors.items())
    manifest.tensors.emplace(name, parse_tensor(name, value, manifest.files, path, coverage));
  return manifest;
}

}  // namespace

std::string model_fingerprint(const json& model) {
  return hash_text(model.dump(-1, ' ', true, json::error_handler_t::replace)).hex();
}

std::optional<std::string> first_difference(const json& checkpoint, const json& current) {
  return difference_at("", &checkpoint, &current);
}

std::string format_manifest(const CheckpointManifest& manifest) {
  const CheckpointState& state = manifest.state;
  nlohmann::ordered_json root;
  root["format"] = kFormatName;
  root["version"] = kCheckpointVersion;
  root["step"] = state.step;
  root["model"] = {{"fingerprint", model_fingerprint(state.model)}, {"config", state.model}};
  root["optimizer"] = state.optimizer;
  root["tokenizer_fingerprint"] = state.tokenizer_fingerprint;
  root["rng"] = {{"seed", state.rng_seed}, {"step", state.rng_step}};
  root["data"] = state.data;
  root["schedule"] = state.schedule;
  root["trainer"] = state.trainer;
  root["files"] = nlohmann::ordered_json::array();
  for (const CheckpointFile& file : manifest.files) {
    root["files"].push_back({{"name", file.name},
                             {"bytes", file.bytes},
                             {"header_bytes", file.header_bytes},
                             {"header_hash", file.header_hash.hex()}});
  }
  root["attached"] = nlohmann::ordered_json::array();
  for (const AttachedFile& file : manifest.attached)
    root["attached"].push_back({{"name", file.name}, {"bytes", file.bytes}, {"hash", file.hash.hex()}});
  root["tensors"] = nlohmann::ordered_json::object();
  for (const auto& [name, tensor] : manifest.tensors) {
    auto chunks = nlohmann::ordered_json::array();
    for (const CheckpointChunk& chunk : tensor.chunks) {
      chunks.push_back({{"offset", chunk.box.offset},
                        {"shape", chunk.box.shape},
                        {"file", chunk.file},
                        {"begin", chunk.begin},
                        {"end", chunk.end},
                        {"hash", chunk.hash.hex()}});
    }
    root["tensors"][name] = {
        {"dtype", safetensors_dtype_name(tensor.dtype)}, {"shape", tensor.shape}, {"chunks", std::move(chunks)}};
  }
  std::string text;
  try {
    text = root.dump(1);
  } catch (const json::exception& error) {
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("a name or setting to be saved is not valid UTF-8: {}", error.what()), kManifestName);
  }
  // The object's closing line makes room for the hash of what precedes it.
  text.resize(text.size() - std::string_view("\n}").size());
  const std::string hash = hash_text(text).hex();
  return text.append(kHashPrefix).append(hash).append(kHashSuffix);
}

CheckpointManifest parse_manifest(std::string_view text, const std::filesystem::path& path) {
  return parse(text, path, Coverage::kWhole);
}

CheckpointManifest merge_manifests(const std::vector<std::string>& parts) {
  CheckpointManifest merged;
  for (size_t i = 0; i < parts.size(); ++i) {
    CheckpointManifest part = parse(parts[i], fmt::format("the part of rank {}", i), Coverage::kPart);
    if (i == 0) {
      merged = std::move(part);
      continue;
    }
    const size_t first_file = merged.files.size();
    merged.files.insert(merged.files.end(), part.files.begin(), part.files.end());
    for (auto& [name, tensor] : part.tensors) {
      const auto [known, is_new] = merged.tensors.try_emplace(name, CheckpointTensor{tensor.dtype, tensor.shape, {}});
      CAUSEWAY_CHECK(known->second.dtype == tensor.dtype && known->second.shape == tensor.shape,
                     "the parts of tensor '{}' disagree in dtype or shape", name);
      for (CheckpointChunk& chunk : tensor.chunks) {
        chunk.file += first_file;
        known->second.chunks.push_back(std::move(chunk));
      }
    }
  }
  return merged;
}

}  // namespace causeway::train
