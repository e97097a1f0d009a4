#include "causeway/train/hugging_face/import_model.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "causeway/base/error.h"
#include "causeway/device/offline/offline_device.h"
#include "causeway/device/open_device.h"
#include "causeway/model/hugging_face.h"
#include "causeway/program/context.h"
#include "causeway/train/hugging_face/model_directory.h"

namespace causeway::train {
namespace {

// The type of most elements.
DType main_type(const std::vector<NamedTensorSpec>& tensors) {
  std::map<DType, uint64_t> elements;
  for (const NamedTensorSpec& tensor : tensors) elements[tensor.dtype] += checked_volume(tensor.shape).value();
  return std::ranges::max_element(elements, {}, [](const auto& entry) { return entry.second; })->first;
}

// A tensor that is written, and the weight that it is of.
struct Source {
  const StoredWeight* weight;
  WrittenTensor written;
};

void read_values(const SafetensorsModel& weights, const Source& source, const Box& box, std::span<float> values) {
  const uint64_t first = contiguous_position(whole_box(source.written.shape), box).value();
  read_weight(weights, *source.weight, source.written.first + first, values);
}

// Blocks have the same sizes in every layout.
bool same_values(const SafetensorsModel& a, const StoredWeight& of_a, const SafetensorsModel& b,
                 const StoredWeight& of_b) {
  const auto bytes = [](const SafetensorsModel& weights, const StoredBlock& block) {
    const std::span<const std::byte> all = weights.data(block.name);
    const uint64_t size = all.size() / checked_volume(weights.entry(block.name).shape).value();
    return all.subspan(block.first * size, block.count * size);
  };
  if (of_a.blocks.size() != of_b.blocks.size()) return false;
  for (size_t i = 0; i < of_a.blocks.size(); ++i)
    if (!std::ranges::equal(bytes(a, of_a.blocks[i]), bytes(b, of_b.blocks[i]))) return false;
  return true;
}

// What was written, read as model.from reads it: the same names, and where the type stayed the same bits.
void require_same(const ModelConfig& config, const LanguageModel& model, const SafetensorsModel& source,
                  const std::vector<StoredWeight>& found, const std::filesystem::path& written) {
  const SafetensorsModel copy(written);
  const std::vector<StoredWeight> again = find_weights(model, copy);
  bool same = to_hugging_face(read_hugging_face_config(written)) == to_hugging_face(config);
  for (size_t i = 0; i < found.size(); ++i)
    same = same && (found[i].stored_type != again[i].stored_type || same_values(source, found[i], copy, again[i]));
  if (!same)
    throw Error(ErrorKind::kCorrupt, "what was written reads back otherwise: nothing was imported", written.string(),
                "Look after the disk and the machine's memory, and try again; report it if it comes again.");
}

ImportResult import_checked(const ImportOptions& options) {
  const ModelConfig config = read_hugging_face_config(options.source);
  const SafetensorsModel weights(options.source);
  // Names and shapes are asked of a model that has no memory.
  const ContextScope context(std::make_shared<Context>(std::make_shared<OfflineDevice>(parse_target("cpu"))));
  const std::unique_ptr<LanguageModel> model = LanguageModel::create(config, std::nullopt);
  const std::vector<StoredWeight> found = find_weights(*model, weights);
  ImportResult result;
  std::map<std::string, Source> by_name;
  std::vector<std::string> read;
  std::vector<NamedTensorSpec> tensors;
  for (const StoredWeight& weight : found) {
    for (std::string& name : weight.stored_names()) read.push_back(std::move(name));
    const DType dtype = options.dtype.value_or(weight.dtype);
    for (const WrittenTensor& written : written_tensors(model->parameter(weight.name))) {
      by_name.insert({written.name, {&weight, written}});
      tensors.push_back({written.name, dtype, written.shape});
    }
    result.elements[weight.stored_type] += static_cast<int64_t>(checked_volume(weight.shape).value());
    result.bytes += checked_volume(weight.shape, size_bytes(dtype)).value();
  }
  require_no_other_tensors(config, weights, read);
  const std::set<std::string> taken(read.begin(), read.end());
  for (const std::string& name : weights.names())
    if (!taken.contains(name)) result.left_out.push_back(name);
  result.family = config.family;
  result.parameters = parameter_count(config);
  result.other_entries = other_entries_of(config);
  const ModelCompanions companions = companions_in(options.source);
  for (const auto& [name, content] : companions.tokenizer_files) result.tokenizer_files.push_back(name);

  ModelDirectory directory(options.output, options.overwrite);
  const auto source = [&](const std::string& name, const Box& box, std::span<float> values) {
    read_values(weights, by_name.at(name), box, values);
  };
  write_weights(directory.directory(), tensors, source, options.max_file_bytes);
  directory.write(config, options.dtype.value_or(main_type(tensors)), companions);
  require_same(config, *model, weights, found, directory.directory());
  directory.commit();
  return result;
}

}  // namespace

ImportResult import_model(const ImportOptions& options) {
  std::error_code code;
  const std::string source = options.source.string();
  if (!std::filesystem::is_directory(options.source, code))
    throw Error(ErrorKind::kNotFound, "there is no such directory", source,
                "Give the directory of a downloaded model, with config.json and safetensors files.");
  if (std::filesystem::equivalent(options.source, options.output, code))
    throw Error(ErrorKind::kInvalidArgument, "is both what is read and what is to be written", source,
                "Choose another output directory.");
  try {
    return import_checked(options);
  } catch (const Error& error) {
    if (error.where().starts_with(options.output.string())) throw;
    throw naming_directory_of(error, source);
  }
}

}  // namespace causeway::train
