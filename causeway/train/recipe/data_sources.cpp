#include "causeway/train/recipe/data_sources.h"

#include <charconv>
#include <filesystem>

#include "causeway/base/error.h"
#include "causeway/base/printable.h"
#include "causeway/base/yaml_document.h"

namespace causeway::train {
namespace {

constexpr const char* kForm = "Give a list: [{path: DATASET, weight: NUMBER}, {path: DATASET, weight: NUMBER}].";

// Beyond these, what is a share of what would be rounding.
constexpr double kLeastWeight = 1e-15, kMostWeight = 1e15;

[[noreturn]] void refuse_source(const std::string& what, const std::string& hint = kForm) {
  throw Error(ErrorKind::kInvalidArgument, what, "", hint);
}

std::string quoted(const std::string& text) {
  YAML::Emitter out;
  out << YAML::DoubleQuoted << text;
  return out.c_str();
}

double parse_weight(const std::string& text, size_t number) {
  double weight = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), weight);
  if (error != std::errc() || end != text.data() + text.size() || !(weight >= kLeastWeight && weight <= kMostWeight)) {
    refuse_source(
        fmt::format("the weight of source {} is '{}', not a number from 1e-15 to 1e15", number, printable(text)),
        "A source that is not to be read is left out.");
  }
  return weight;
}

DataSource parse_source(const YAML::Node& node, size_t number) {
  if (!node.IsMap()) refuse_source(fmt::format("source {} is not a map with a path and a weight", number));
  DataSource source;
  for (const auto& entry : node) {
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
    if (!entry.second.IsScalar())
      refuse_source(fmt::format("'{}' of source {} is not a single value", printable(key), number));
    if (key == "path") {
      source.path = entry.second.Scalar();
    } else if (key == "weight") {
      source.weight = parse_weight(entry.second.Scalar(), number);
    } else {
      const std::string nearest = nearest_name(key, {"path", "weight"});
      refuse_source(fmt::format("source {} has the unknown key '{}'", number, printable(key)),
                    nearest.empty() ? "It may have path and weight." : fmt::format("Did you mean {}?", nearest));
    }
  }
  if (source.path.empty()) refuse_source(fmt::format("source {} has no path", number));
  return source;
}

std::filesystem::path normal(const std::string& path) {
  const std::filesystem::path normal = std::filesystem::path(path).lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

}  // namespace

std::vector<DataSource> parse_data_sources(const std::string& text) {
  const YAML::Node list = parse_yaml(text, "data.sources");
  if (!list.IsDefined() || list.IsNull()) return {};
  if (!list.IsSequence()) refuse_source(fmt::format("'{}' is not a list of sources", printable(text)));
  std::vector<DataSource> sources;
  for (const YAML::Node& node : list) {
    sources.push_back(parse_source(node, sources.size() + 1));
    for (size_t i = 0; i + 1 < sources.size(); ++i) {
      if (normal(sources[i].path) != normal(sources.back().path)) continue;
      refuse_source(fmt::format("sources {} and {} are both {}", i + 1, sources.size(), printable(sources[i].path)),
                    "Name it once, with the sum of the weights.");
    }
  }
  return sources;
}

std::string print_data_sources(const std::vector<DataSource>& sources) {
  std::string text;
  for (const DataSource& source : sources)
    text += fmt::format("{}{{path: {}, weight: {}}}", text.empty() ? "" : ", ", quoted(source.path), source.weight);
  return "[" + text + "]";
}

std::string data_sources_text(const YAML::Node& list) {
  if (list.IsScalar()) return quoted(list.Scalar());
  if (!list.IsSequence() && !list.IsMap()) return "~";
  std::string text;
  for (const auto& entry : list) {
    if (!text.empty()) text += ", ";
    text += list.IsMap() ? fmt::format("{}: {}", data_sources_text(entry.first), data_sources_text(entry.second))
                         : data_sources_text(entry);
  }
  return list.IsMap() ? "{" + text + "}" : "[" + text + "]";
}

}  // namespace causeway::train
