#include "causeway/formats/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "causeway/base/error.h"
#include "causeway/base/json_document.h"
#include "causeway/formats/box.h"
#include "causeway/formats/ordered_members.h"

namespace causeway::formats {
namespace {

static_assert(std::endian::native == std::endian::little, "tensor bytes are stored little-endian");

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr const char* kMetadataKey = "__metadata__";
constexpr const char* kDamagedHint =
    "The file is damaged, incomplete or not a safetensors file: fetch or write it again.";

constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kIndexHint = "Fetch or write the index again.";

struct StoredType {
  std::string_view name;
  unsigned bits;
  std::optional<DType> dtype;
};

constexpr StoredType kStoredTypes[] = {
    {"F32", 32, DType::kF32},       {"BF16", 16, DType::kBF16},     {"F16", 16, DType::kF16},
    {"F8_E4M3", 8, DType::kF8E4M3}, {"F8_E5M2", 8, DType::kF8E5M2}, {"I32", 32, DType::kI32},
    {"I64", 64, DType::kI64},       {"U8", 8, DType::kU8},          {"BOOL", 8, DType::kBool},
    {"F64", 64, std::nullopt},      {"C64", 64, std::nullopt},      {"U64", 64, std::nullopt},
    {"U32", 32, std::nullopt},      {"I16", 16, DType::kI16},       {"U16", 16, std::nullopt},
    {"I8", 8, std::nullopt},        {"F8_E8M0", 8, std::nullopt},   {"F6_E2M3", 6, std::nullopt},
    {"F6_E3M2", 6, std::nullopt},   {"F4", 4, std::nullopt},
};

const StoredType* find_stored_type(std::string_view name) {
  const auto* found = std::ranges::find(kStoredTypes, name, &StoredType::name);
  return found == std::end(kStoredTypes) ? nullptr : found;
}

[[noreturn]] void fail_corrupt(const std::filesystem::path& path, const std::string& what) {
  throw Error(ErrorKind::kCorrupt, what, path.string(), kDamagedHint);
}

uint64_t unsigned_value(const nlohmann::json& value, const std::filesystem::path& path, const std::string& tensor,
                        const char* field) {
  if (!value.is_number_unsigned())
    fail_corrupt(path, fmt::format("tensor '{}': {} must hold non-negative integers", tensor, field));
  return value.get<uint64_t>();
}

SafetensorsEntry parse_entry(const std::string& name, const nlohmann::json& value, uint64_t data_bytes,
                             const std::filesystem::path& path) {
  if (!value.is_object()) fail_corrupt(path, fmt::format("tensor '{}' is not described by an object", name));
  for (const auto& [key, unused] : value.items()) {
    if (key != "dtype" && key != "shape" && key != "data_offsets")
      fail_corrupt(path, fmt::format("tensor '{}' has the unknown field '{}'", name, key));
  }
  for (const char* key : {"dtype", "shape", "data_offsets"}) {
    if (!value.contains(key)) fail_corrupt(path, fmt::format("tensor '{}' has no {}", name, key));
  }

  SafetensorsEntry entry;
  const nlohmann::json& dtype = value["dtype"];
  const StoredType* type = dtype.is_string() ? find_stored_type(dtype.get_ref<const std::string&>()) : nullptr;
  if (type == nullptr)
    fail_corrupt(path, fmt::format("tensor '{}' has the unknown dtype {}", name, dtype.dump(-1, ' ', true)));
  entry.dtype_name = type->name;
  entry.dtype = type->dtype;

  const nlohmann::json& shape = value["shape"];
  if (!shape.is_array()) fail_corrupt(path, fmt::format("tensor '{}': shape is not a list", name));
  for (const nlohmann::json& dim : shape) {
    const uint64_t n = unsigned_value(dim, path, name, "shape");
    if (n > static_cast<uint64_t>(INT64_MAX)) fail_corrupt(path, fmt::format("tensor '{}' is too large", name));
    entry.shape.push_back(static_cast<int64_t>(n));
  }

  const nlohmann::json& offsets = value["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2)
    fail_corrupt(path, fmt::format("tensor '{}': data_offsets is not a pair", name));
  entry.begin = unsigned_value(offsets[0], path, name, "data_offsets");
  entry.end = unsigned_value(offsets[1], path, name, "data_offsets");
  if (entry.begin > entry.end || entry.end > data_bytes) {
    fail_corrupt(path, fmt::format("tensor '{}' has the byte range {}..{}, but the file holds {} bytes of data", name,
                                   entry.begin, entry.end, data_bytes));
  }
  const std::optional<uint64_t> bits = checked_volume(entry.shape, type->bits);
  if (!bits || *bits % 8 != 0 || *bits / 8 != entry.end - entry.begin) {
    fail_corrupt(path, fmt::format("tensor '{}' of dtype {} and shape [{}] does not take the {} bytes given to it",
                                   name, entry.dtype_name, fmt::join(entry.shape, ", "), entry.end - entry.begin));
  }
  return entry;
}

[[noreturn]] void fail_unknown_name(const std::string& name, const std::vector<std::string>& names,
                                    const std::filesystem::path& path) {
  const std::string near = nearest_name(name, names);
  throw Error(
      ErrorKind::kNotFound, fmt::format("there is no tensor '{}'", name), path.string(),
      near.empty() ? fmt::format("The file holds {} tensors.", names.size()) : fmt::format("Did you mean '{}'?", near));
}

// Whether a file's name in an index is one in the index's directory, or in a folder of it that is no way out. A link in
// a folder must lead to a place within too, or to where the hub's cache keeps what its directories link to.
bool is_path_within(const std::filesystem::path& directory, const std::string& name) {
  const std::filesystem::path path(name);
  if (name.empty() || name.find('\0') != std::string::npos || path.is_absolute()) return false;
  for (const std::filesystem::path& part : path)
    if (part.empty() || part == "." || part == "..") return false;
  if (!path.has_parent_path()) return true;
  std::error_code failure;
  const auto is_within = [&](const std::filesystem::path& folder) {
    const std::filesystem::path root = std::filesystem::canonical(folder, failure);
    if (failure) return false;
    const std::filesystem::path target = std::filesystem::weakly_canonical(directory / path, failure);
    return !failure && std::mismatch(root.begin(), root.end(), target.begin(), target.end()).first == root.end();
  };
  const std::filesystem::path here = directory.empty() ? "." : directory;
  return is_within(here) || (std::filesystem::is_symlink(directory / path, failure) && is_within(here / "../../blobs"));
}

// What a directory has in place of safetensors files, for who must do something about it.
std::string hint_of_other_weights(const std::filesystem::path& directory) {
  std::vector<std::string> others;
  std::error_code failure;
  for (const auto& item : std::filesystem::directory_iterator(directory, failure)) {
    const std::string extension = item.path().extension().string();
    for (const char* weights : {".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack"})
      if (extension == weights) others.push_back(item.path().filename().string());
  }
  if (others.empty()) return "Give the directory or the file of a model in safetensors format.";
  std::ranges::sort(others);
  for (const std::string& name : others)
    if (name.ends_with(".safetensors"))
      return fmt::format("There is {}: name that file, or fetch {} beside it.", name, kIndexName);
  return fmt::format("There is {}, which is not read: save the model again with transformers, as safetensors.",
                     others.front());
}

uint64_t spec_bytes(const NamedTensorSpec& spec) {
  const std::optional<uint64_t> bytes = checked_volume(spec.shape, size_bytes(spec.dtype));
  if (!bytes) {
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("tensor '{}' has the impossible shape [{}]", spec.name, fmt::join(spec.shape, ", ")));
  }
  return *bytes;
}

}  // namespace

std::string_view safetensors_dtype_name(DType dtype) {
  const auto* found = std::ranges::find(kStoredTypes, std::optional(dtype), &StoredType::dtype);
  CAUSEWAY_CHECK(found != std::end(kStoredTypes), "dtype {}", static_cast<int>(dtype));
  return found->name;
}

std::optional<DType> parse_safetensors_dtype(std::string_view name) {
  const StoredType* type = find_stored_type(name);
  return type == nullptr ? std::nullopt : type->dtype;
}

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, const std::filesystem::path& path) {
  if (file.size() < 8) fail_corrupt(path, fmt::format("{} bytes are too few for a safetensors file", file.size()));
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), 8);
  if (header_bytes > kMaxHeaderBytes)
    fail_corrupt(path, fmt::format("a header of {} bytes exceeds the format's limit of 100 MB", header_bytes));
  if (header_bytes > file.size() - 8) {
    fail_corrupt(path,
                 fmt::format("the header says it has {} bytes, but only {} follow", header_bytes, file.size() - 8));
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + 8, header_bytes);
  if (!text.starts_with('{')) fail_corrupt(path, "the header does not start with '{'");

  SafetensorsHeader header;
  header.data_begin = 8 + header_bytes;
  const uint64_t data_bytes = file.size() - header.data_begin;
  const nlohmann::json json = parse_json(
      text,
      {.name = "the header", .where = path.string(), .hint = kDamagedHint, .most_depth = 3, .keys_may_repeat = false});
  for (const auto& [name, value] : json.items()) {
    if (name != kMetadataKey) {
      header.tensors.emplace(name, parse_entry(name, value, data_bytes, path));
      continue;
    }
    if (!value.is_object()) fail_corrupt(path, "__metadata__ is not an object");
    for (const auto& [key, text_value] : value.items()) {
      if (!text_value.is_string()) fail_corrupt(path, fmt::format("__metadata__ '{}' is not a string", key));
      header.metadata.emplace(key, text_value.get<std::string>());
    }
  }

  std::vector<const std::pair<const std::string, SafetensorsEntry>*> order;
  for (const auto& tensor : header.tensors) order.push_back(&tensor);
  std::ranges::sort(order, {}, [](const auto* t) { return std::pair(t->second.begin, t->second.end); });
  uint64_t position = 0;
  for (const auto* tensor : order) {
    if (tensor->second.begin != position) {
      fail_corrupt(
          path, fmt::format("tensor '{}' starts at byte {} of the data, where {} was expected ({})", tensor->first,
                            tensor->second.begin, position, tensor->second.begin > position ? "a hole" : "an overlap"));
    }
    position = tensor->second.end;
  }
  if (position != data_bytes)
    fail_corrupt(path, fmt::format("the tensors take {} bytes, but the file holds {}", position, data_bytes));
  return header;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : path_(path), file_(path), header_(parse_safetensors_header(file_.bytes(), path)) {}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  for (const auto& [name, unused] : header_.tensors) names.push_back(name);
  return names;
}

bool SafetensorsFile::contains(std::string_view name) const { return header_.tensors.contains(std::string(name)); }

const SafetensorsEntry& SafetensorsFile::entry(const std::string& name) const {
  const auto found = header_.tensors.find(name);
  if (found == header_.tensors.end()) fail_unknown_name(name, names(), path_);
  return found->second;
}

DType SafetensorsFile::dtype(const std::string& name) const {
  const SafetensorsEntry& tensor = entry(name);
  if (!tensor.dtype) {
    throw Error(ErrorKind::kUnsupported,
                fmt::format("tensor '{}' has dtype {}, which cannot be used here", name, tensor.dtype_name),
                path_.string(), "Convert the tensor to F32, BF16, F16, F8_E4M3, F8_E5M2, I32, I64, U8 or BOOL.");
  }
  return *tensor.dtype;
}

std::span<const std::byte> SafetensorsFile::data(const std::string& name) const {
  const SafetensorsEntry& tensor = entry(name);
  return file_.bytes().subspan(header_.data_begin + tensor.begin, tensor.end - tensor.begin);
}

SafetensorsModel::SafetensorsModel(const std::filesystem::path& path) : path_(path) {
  if (std::filesystem::is_directory(path)) {
    path_ = path / "model.safetensors";
    if (!std::filesystem::exists(path_)) path_ = path / kIndexName;
    if (!std::filesystem::exists(path_))
      throw Error(ErrorKind::kNotFound, "there is no model.safetensors and no model.safetensors.index.json",
                  path.string(), hint_of_other_weights(path));
  }
  if (path_.extension() == ".json")
    open_index();
  else
    add_file(path_);
}

void SafetensorsModel::add_file(const std::filesystem::path& path) {
  const SafetensorsFile& file = files_.emplace_back(path);
  for (const std::string& name : file.names()) {
    const auto [place, is_new] = file_index_.emplace(name, files_.size() - 1);
    if (is_new) continue;
    const SafetensorsFile& other = files_[place->second];
    if (file.entry(name).dtype_name != other.entry(name).dtype_name ||
        file.entry(name).shape != other.entry(name).shape || !std::ranges::equal(file.data(name), other.data(name)))
      throw Error(ErrorKind::kCorrupt,
                  fmt::format("the files {} and {} hold tensor '{}', and not the same",
                              other.path().filename().string(), path.filename().string(), name),
                  path_.string(), kIndexHint);
  }
}

void SafetensorsModel::open_index() {
  const nlohmann::json index = read_json_file(path_, {.name = "the index", .hint = kIndexHint});
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorKind::kCorrupt, what, path_.string(), kIndexHint);
  };
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    fail("the index has no weight_map");
  std::set<std::string> opened;
  for (const auto& [name, value] : index["weight_map"].items()) {
    if (!value.is_string()) fail(fmt::format("the index gives no file name for tensor '{}'", name));
    const auto& file_name = value.get_ref<const std::string&>();
    if (!is_path_within(path_.parent_path(), file_name))
      fail(
          fmt::format("the index gives tensor '{}' the file '{}', which is not within its directory", name, file_name));
    if (opened.insert(file_name).second) add_file(path_.parent_path() / file_name);
  }
  for (const auto& [name, value] : index["weight_map"].items())
    if (!file_index_.contains(name)) without_data_.emplace(name, value.get<std::string>());
}

std::vector<std::string> SafetensorsModel::names_without_data() const {
  std::vector<std::string> names;
  for (const auto& [name, unused] : without_data_) names.push_back(name);
  return names;
}

std::vector<std::string> SafetensorsModel::names() const {
  std::vector<std::string> names;
  for (const auto& [name, unused] : file_index_) names.push_back(name);
  return names;
}

bool SafetensorsModel::contains(std::string_view name) const { return file_index_.contains(name); }

const SafetensorsFile& SafetensorsModel::file_of(const std::string& name) const {
  const auto found = file_index_.find(name);
  if (found != file_index_.end()) return files_[found->second];
  if (const auto listed = without_data_.find(name); listed != without_data_.end())
    throw Error(ErrorKind::kCorrupt,
                fmt::format("the index places tensor '{}' in {}, which does not hold it", name, listed->second),
                path_.string(), kIndexHint);
  fail_unknown_name(name, names(), path_);
}

const SafetensorsEntry& SafetensorsModel::entry(const std::string& name) const { return file_of(name).entry(name); }
DType SafetensorsModel::dtype(const std::string& name) const { return file_of(name).dtype(name); }
std::span<const std::byte> SafetensorsModel::data(const std::string& name) const { return file_of(name).data(name); }

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, const std::vector<NamedTensorSpec>& tensors,
                                     const SafetensorsMetadata& metadata)
    : file_(PositionedFile::create(path)) {
  std::vector<const NamedTensorSpec*> order;
  for (const NamedTensorSpec& tensor : tensors) order.push_back(&tensor);
  std::ranges::sort(order, {},
                    [](const NamedTensorSpec* t) { return std::pair(-static_cast<int>(size_bytes(t->dtype)), t); });

  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!metadata.empty()) json[kMetadataKey] = metadata;
  uint64_t position = 0;
  for (const NamedTensorSpec* tensor : order) {
    const uint64_t bytes = spec_bytes(*tensor);
    if (tensor->name == kMetadataKey || !slots_.emplace(tensor->name, Slot{position, bytes, 0}).second) {
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("the tensor name '{}' is {}", tensor->name,
                              tensor->name == kMetadataKey ? "reserved by the format" : "given twice"),
                  path.string());
    }
    append_member(json, tensor->name,
                  {{"dtype", safetensors_dtype_name(tensor->dtype)},
                   {"shape", tensor->shape},
                   {"data_offsets", {position, position + bytes}}});
    position += bytes;
  }

  std::string text;
  try {
    text = json.dump();
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("a tensor name or metadata is not valid UTF-8: {}", error.what()), path.string());
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > kMaxHeaderBytes) {
    throw Error(ErrorKind::kUnsupported, fmt::format("a header of {} bytes exceeds the format's limit", text.size()),
                path.string(), "Split the tensors over several files.");
  }
  header_.resize(8 + text.size());
  const uint64_t length = text.size();
  std::memcpy(header_.data(), &length, 8);
  std::memcpy(header_.data() + 8, text.data(), text.size());
  for (auto& [name, slot] : slots_) slot.begin += header_.size();
  file_bytes_ = header_.size() + position;
  file_.reserve(file_bytes_);
  file_.write_at(0, header_);
}

SafetensorsWriter::Slot& SafetensorsWriter::slot(const std::string& name) {
  const auto found = slots_.find(name);
  CAUSEWAY_CHECK(found != slots_.end(), "tensor '{}' is not in {}", name, file_.path().string());
  return found->second;
}

void SafetensorsWriter::write(const std::string& name, uint64_t byte_offset, std::span<const std::byte> bytes) {
  Slot& target = slot(name);
  CAUSEWAY_CHECK(byte_offset <= target.bytes && bytes.size() <= target.bytes - byte_offset,
                 "bytes {}..{} of tensor '{}', which has {}", byte_offset, byte_offset + bytes.size(), name,
                 target.bytes);
  file_.write_at(target.begin + byte_offset, bytes);
  target.written += bytes.size();
}

void SafetensorsWriter::finish() {
  for (const auto& [name, slot] : slots_) {
    CAUSEWAY_CHECK(slot.written == slot.bytes, "{} of the {} bytes of tensor '{}' were written to {}", slot.written,
                   slot.bytes, name, file_.path().string());
  }
  file_.sync();
}

uint64_t SafetensorsWriter::data_offset(const std::string& name) const {
  return const_cast<SafetensorsWriter*>(this)->slot(name).begin;
}

std::vector<std::vector<NamedTensorSpec>> group_into_files(const std::vector<NamedTensorSpec>& tensors,
                                                           uint64_t max_file_bytes) {
  std::vector<std::vector<NamedTensorSpec>> groups(1);
  uint64_t used = 0;
  for (const NamedTensorSpec& tensor : tensors) {
    const uint64_t bytes = spec_bytes(tensor);
    if (!groups.back().empty() && (used > max_file_bytes || bytes > max_file_bytes - used)) {
      groups.emplace_back();
      used = 0;
    }
    groups.back().push_back(tensor);
    used += bytes;
  }
  return groups;
}

SafetensorsModelWriter::SafetensorsModelWriter(const std::filesystem::path& directory,
                                               const std::vector<NamedTensorSpec>& tensors, uint64_t max_file_bytes,
                                               const SafetensorsMetadata& metadata)
    : directory_(directory) {
  std::error_code failure;
  std::filesystem::create_directories(directory, failure);
  if (failure) throw Error(ErrorKind::kIo, "cannot create the directory: " + failure.message(), directory.string());
  for (const auto& item : std::filesystem::directory_iterator(directory)) {
    const std::string name = item.path().filename();
    if (name.starts_with("model") && name.find(".safetensors") != std::string::npos) {
      throw Error(ErrorKind::kInvalidArgument, fmt::format("the directory already holds a model ({})", name),
                  directory.string(), "Choose a new directory, or remove the old model first.");
    }
  }
  const auto groups = group_into_files(tensors, max_file_bytes);
  for (size_t i = 0; i < groups.size(); ++i) {
    file_names_.push_back(groups.size() == 1 ? "model.safetensors"
                                             : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, groups.size()));
    writers_.push_back(std::make_unique<SafetensorsWriter>(directory / file_names_.back(), groups[i], metadata));
    for (const NamedTensorSpec& tensor : groups[i]) {
      if (!file_index_.emplace(tensor.name, i).second)
        throw Error(ErrorKind::kInvalidArgument, fmt::format("the tensor name '{}' is given twice", tensor.name));
      total_bytes_ += spec_bytes(tensor);
    }
  }
}

void SafetensorsModelWriter::write(const std::string& name, uint64_t byte_offset, std::span<const std::byte> bytes) {
  const auto found = file_index_.find(name);
  CAUSEWAY_CHECK(found != file_index_.end(), "tensor '{}' is not in {}", name, directory_.string());
  writers_[found->second]->write(name, byte_offset, bytes);
}

void SafetensorsModelWriter::finish() {
  for (const auto& writer : writers_) writer->finish();
  if (writers_.size() > 1) {
    nlohmann::ordered_json index;
    nlohmann::ordered_json files = nlohmann::ordered_json::object();
    for (const auto& [name, file] : file_index_) append_member(files, name, file_names_[file]);
    index["metadata"] = {{"total_size", total_bytes_}};
    index["weight_map"] = std::move(files);
    write_file_atomically(directory_ / kIndexName, index.dump(2) + "\n");
  }
  sync_directory(directory_);
}

}  // namespace causeway::formats
