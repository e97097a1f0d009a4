#include "causeway/formats/dataset_manifest.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "causeway/base/error.h"
#include "causeway/base/json_document.h"

namespace causeway::formats {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;  // for what is written: its look-ups take time by the number of keys

constexpr std::string_view kFormatName = "causeway-tokens";
constexpr uint64_t kFormatVersion = 1;
constexpr uint64_t kTargetsFormatVersion = 2;  // of datasets that say which tokens are targets
constexpr uint64_t kWeightsFormatVersion = 3;  // of those with targets of other weights than 1

constexpr const char* kPrepareHint = "Prepare the dataset again with \"causeway data prepare\".";

[[noreturn]] void refuse_manifest(const std::string& what, const std::string& where) {
  throw Error(ErrorKind::kCorrupt, what, where, kPrepareHint);
}

// Typed access to one JSON object, with errors that name the key.
class Fields {
 public:
  Fields(const Json& json, std::string name, const std::string& where)
      : json_(json), name_(std::move(name)), where_(where) {
    if (!json.is_object()) refuse_manifest(fmt::format("{} is not a JSON object", name_), where_);
  }

  const Json& at(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end()) refuse_manifest(fmt::format("{} has no \"{}\"", name_, key), where_);
    return *found;
  }

  std::string text(const char* key) const {
    const Json& value = at(key);
    if (!value.is_string()) refuse_manifest(fmt::format("\"{}\" of {} is not a string", key, name_), where_);
    return value.get<std::string>();
  }

  uint64_t count(const char* key, uint64_t most = std::numeric_limits<uint64_t>::max()) const {
    const Json& value = at(key);
    if (!value.is_number_unsigned() || value.get<uint64_t>() > most) {
      refuse_manifest(fmt::format("\"{}\" of {} is not a whole number from 0 to {}", key, name_, most), where_);
    }
    return value.get<uint64_t>();
  }

  // False where it is not there.
  bool flag(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end()) return false;
    if (!found->is_boolean())
      refuse_manifest(fmt::format("\"{}\" of {} is neither true nor false", key, name_), where_);
    return found->get<bool>();
  }

  const Json& list(const char* key) const {
    const Json& value = at(key);
    if (!value.is_array()) refuse_manifest(fmt::format("\"{}\" of {} is not a list", key, name_), where_);
    return value;
  }

 private:
  const Json& json_;
  std::string name_;
  const std::string& where_;
};

// A path need not be UTF-8; bytes that are not are replaced.
std::string dump(const OrderedJson& json, int indent) {
  return json.dump(indent, ' ', false, OrderedJson::error_handler_t::replace);
}

OrderedJson tokenizer_to_json(const TokenizerIdentity& tokenizer) {
  OrderedJson json = {{"name", tokenizer.name},
                      {"fingerprint", tokenizer.fingerprint},
                      {"vocabulary_size", static_cast<uint64_t>(tokenizer.vocabulary_size)}};
  if (tokenizer.end_of_text) json["end_of_text"] = static_cast<uint64_t>(*tokenizer.end_of_text);
  return json;
}

TokenizerIdentity tokenizer_from_json(const Json& json, const std::string& where) {
  constexpr uint64_t kMostTokens = uint64_t{1} << 31;
  const Fields fields(json, "the tokenizer", where);
  TokenizerIdentity tokenizer;
  tokenizer.name = fields.text("name");
  tokenizer.fingerprint = fields.text("fingerprint");
  tokenizer.vocabulary_size = static_cast<int64_t>(fields.count("vocabulary_size", kMostTokens));
  if (json.contains("end_of_text")) {
    tokenizer.end_of_text = static_cast<int32_t>(fields.count("end_of_text", kMostTokens - 1));
  }
  return tokenizer;
}

void add_documents(OrderedJson& json, const std::optional<DocumentTokens>& documents) {
  if (!documents) return;
  json["documents"] = {{"before", documents->before},
                       {"after", documents->after},
                       {"read_special_tokens", documents->read_special_tokens}};
}

std::optional<DocumentTokens> documents_from_json(const Fields& parent, const Json& json, int64_t vocabulary_size,
                                                  const std::string& where) {
  if (!json.contains("documents")) return std::nullopt;
  const Fields fields(parent.at("documents"), "\"documents\"", where);
  const auto ids = [&](const char* key) {
    std::vector<int32_t> list;
    for (const Json& id : fields.list(key)) {
      if (!id.is_number_unsigned() || id.get<uint64_t>() >= static_cast<uint64_t>(vocabulary_size))
        refuse_manifest(fmt::format("\"{}\" of \"documents\" holds something that is no token", key), where);
      list.push_back(id.get<int32_t>());
    }
    return list;
  };
  const Json& reads = fields.at("read_special_tokens");
  if (!reads.is_boolean()) refuse_manifest("\"read_special_tokens\" of \"documents\" is neither true nor false", where);
  return DocumentTokens{ids("before"), ids("after"), reads.get<bool>()};
}

// Weights of targets: f32 above 0.
std::vector<float> weights_from_json(const Json& list, const std::string& where) {
  std::vector<float> weights;
  for (const Json& item : list) {
    const double value = item.is_number() ? item.get<double>() : -1;
    const auto weight = static_cast<float>(value);
    if (!(value > 0 && std::isfinite(weight) && weight > 0) || weights.size() == kMostTargetWeights)
      refuse_manifest("the weights of targets are no list of at most 256 numbers above 0", where);
    weights.push_back(weight);
  }
  return weights;
}

// "target_weights", which begins with 0 and 1; nothing where it is not there.
std::vector<float> target_weights_from_json(const Fields& fields, const Json& json, const std::string& where) {
  constexpr char kWeights[] = "target_weights";
  if (!json.contains(kWeights)) return {};
  Json list = fields.list(kWeights);
  if (list.size() < 3 || list[0] != 0 || list[1] != 1)
    refuse_manifest("\"target_weights\" does not begin with 0, 1 and another weight", where);
  list.erase(list.begin());
  std::vector<float> weights = weights_from_json(list, where);
  weights.insert(weights.begin(), 0.0f);
  if (weights.size() > kMostTargetWeights) refuse_manifest("\"target_weights\" has more than 256 weights", where);
  return weights;
}

TargetsRecord targets_from_json(const Json& json, const std::string& where) {
  const Fields fields(json, "\"targets\"", where);
  TargetsRecord targets;
  targets.rule = fields.text("rule");
  if (json.contains("templates")) {
    for (const Json& item : fields.list("templates")) {
      const Fields one(item, "a template of \"targets\"", where);
      targets.templates.push_back({one.text("name"), one.text("text")});
    }
  }
  if (json.contains("date")) targets.date = fields.text("date");
  if (json.contains("max_length")) {
    targets.max_length = fields.count("max_length");
    targets.truncation = fields.text("truncation");
  }
  if (json.contains("weights")) targets.weights = weights_from_json(fields.list("weights"), where);
  return targets;
}

OrderedJson sources_to_json(const std::vector<SourceFile>& sources) {
  OrderedJson list = OrderedJson::array();
  for (const SourceFile& source : sources) {
    list.push_back({{"path", source.path}});
    if (source.hash.empty()) continue;
    list.back()["bytes"] = source.bytes;
    list.back()["hash"] = source.hash;
  }
  return list;
}

std::vector<SourceFile> sources_from_json(const Json& list, const std::string& where) {
  std::vector<SourceFile> sources;
  for (const Json& item : list) {
    const Fields fields(item, "a source", where);
    sources.push_back({fields.text("path"), 0, {}});
    if (!item.contains("hash")) continue;
    sources.back().bytes = fields.count("bytes");
    sources.back().hash = fields.text("hash");
  }
  return sources;
}

SplitEntry split_from_json(const std::string& name, const Json& json, bool has_targets, const std::string& where) {
  const Fields fields(json, fmt::format("split \"{}\"", name), where);
  SplitEntry split;
  split.tokens = fields.count("tokens");
  split.documents = fields.count("documents");
  if (has_targets) split.targets = fields.count("targets", split.tokens);
  uint64_t tokens = 0;
  for (const Json& item : fields.list("shards")) {
    const Fields shard(item, fmt::format("a shard of split \"{}\"", name), where);
    ShardEntry entry{shard.text("file"), shard.count("tokens"), shard.text("hash"),
                     has_targets ? shard.text("targets_hash") : std::string()};
    if (entry.file.empty() || entry.file.find('/') != std::string::npos) {
      refuse_manifest(fmt::format("the shard \"{}\" is not a file name in the dataset's directory", entry.file), where);
    }
    tokens += entry.tokens;
    split.shards.push_back(std::move(entry));
  }
  if (tokens != split.tokens) {
    refuse_manifest(fmt::format("split \"{}\" claims {} tokens, its shards {}", name, split.tokens, tokens), where);
  }
  return split;
}

}  // namespace

OrderedJson targets_to_json(const TargetsRecord& targets) {
  OrderedJson json = {{"rule", targets.rule}};
  for (const TargetsRecord::Template& one : targets.templates)
    json["templates"].push_back({{"name", one.name}, {"text", one.text}});
  if (!targets.date.empty()) json["date"] = targets.date;
  if (targets.max_length > 0) {
    json["max_length"] = targets.max_length;
    json["truncation"] = targets.truncation;
  }
  if (!targets.weights.empty()) json["weights"] = targets.weights;
  return json;
}

std::string print_shard_metadata(const ShardMetadata& metadata) {
  OrderedJson json = {{"tokenizer", tokenizer_to_json(metadata.tokenizer)}};
  add_documents(json, metadata.documents);
  if (metadata.holds_pairs) json["pairs"] = true;
  if (metadata.holds_prompts) json["prompts"] = true;
  if (!metadata.target_weights.empty()) json["target_weights"] = metadata.target_weights;
  json["sources"] = sources_to_json(metadata.sources);
  return dump(json, -1);
}

ShardMetadata parse_shard_metadata(std::string_view text, const std::string& where) {
  const Json json = parse_json(text, {.name = "the description", .where = where, .hint = kPrepareHint});
  const Fields fields(json, "the shard's description", where);
  const TokenizerIdentity tokenizer = tokenizer_from_json(fields.at("tokenizer"), where);
  return {tokenizer,
          sources_from_json(fields.list("sources"), where),
          documents_from_json(fields, json, tokenizer.vocabulary_size, where),
          fields.flag("pairs"),
          fields.flag("prompts"),
          target_weights_from_json(fields, json, where)};
}

std::string print_manifest(const DatasetManifest& manifest) {
  const bool has_weights = manifest.targets && !manifest.targets->weights.empty();
  OrderedJson json = {{"format", kFormatName},
                      {"version", has_weights        ? kWeightsFormatVersion
                                  : manifest.targets ? kTargetsFormatVersion
                                                     : kFormatVersion}};
  json["tokenizer"] = tokenizer_to_json(manifest.tokenizer);
  add_documents(json, manifest.documents);
  if (manifest.targets) json["targets"] = targets_to_json(*manifest.targets);
  if (manifest.holds_pairs) json["pairs"] = true;
  if (manifest.holds_prompts) json["prompts"] = true;
  json["splits"] = OrderedJson::object();
  for (const auto& [name, split] : manifest.splits) {
    OrderedJson shards = OrderedJson::array();
    for (const ShardEntry& shard : split.shards) {
      shards.push_back({{"file", shard.file}, {"tokens", shard.tokens}, {"hash", shard.hash}});
      if (manifest.targets) shards.back()["targets_hash"] = shard.targets_hash;
    }
    OrderedJson entry = {{"tokens", split.tokens}, {"documents", split.documents}};
    if (manifest.targets) entry["targets"] = split.targets;
    entry["shards"] = std::move(shards);
    json["splits"][name] = std::move(entry);
  }
  json["sources"] = sources_to_json(manifest.sources);
  return dump(json, 2) + "\n";
}

DatasetManifest parse_manifest(std::string_view text, const std::string& where) {
  const Json json = parse_json(text, {.name = "the description", .where = where, .hint = kPrepareHint});
  const Fields fields(json, "the dataset's description", where);
  if (fields.text("format") != kFormatName) {
    refuse_manifest(fmt::format("the format is \"{}\", not \"{}\"", fields.text("format"), kFormatName), where);
  }
  const uint64_t version = fields.count("version");
  const bool has_targets = version >= kTargetsFormatVersion;
  if (version < kFormatVersion || version > kWeightsFormatVersion) {
    throw Error(ErrorKind::kUnsupported,
                fmt::format("the dataset has format version {}; this build reads {} to {}", version, kFormatVersion,
                            kWeightsFormatVersion),
                where, "Read it with the version of Causeway that wrote it, or prepare it again.");
  }
  DatasetManifest manifest;
  manifest.tokenizer = tokenizer_from_json(fields.at("tokenizer"), where);
  manifest.documents = documents_from_json(fields, json, manifest.tokenizer.vocabulary_size, where);
  if (has_targets) manifest.targets = targets_from_json(fields.at("targets"), where);
  if (has_targets && manifest.targets->weights.empty() == (version == kWeightsFormatVersion))
    refuse_manifest(fmt::format("the dataset has format version {} and {} weights of targets, which contradict each "
                                "other",
                                version, manifest.targets->weights.size()),
                    where);
  manifest.holds_pairs = fields.flag("pairs");
  manifest.holds_prompts = fields.flag("prompts");
  manifest.sources = sources_from_json(fields.list("sources"), where);
  const Json& splits = fields.at("splits");
  if (!splits.is_object() || splits.empty()) refuse_manifest("\"splits\" names no split", where);
  for (const auto& [name, split] : splits.items())
    manifest.splits[name] = split_from_json(name, split, has_targets, where);
  return manifest;
}

}  // namespace causeway::formats
