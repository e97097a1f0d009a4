#include "causeway/data/text_source.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "causeway/base/error.h"
#include "causeway/base/json_document.h"

namespace causeway {
namespace {

constexpr std::array<std::string_view, 14> kFormatsNotText = {".gz",     ".zst", ".xz",   ".bz2",     ".zip",
                                                              ".tar",    ".tgz", ".json", ".parquet", ".arrow",
                                                              ".tokens", ".bin", ".npy",  ".pdf"};

TextFile text_file(const std::filesystem::path& path) {
  const std::string extension = path.extension().string();
  if (std::find(kFormatsNotText.begin(), kFormatsNotText.end(), extension) != kFormatsNotText.end()) {
    throw Error(ErrorKind::kUnsupported, fmt::format("a {} file is not an input that can be tokenized", extension),
                path.string(),
                "Convert it to plain text (.txt) or to JSON Lines (.jsonl, one object with a text a line).");
  }
  return {path, extension == ".jsonl" ? TextFormat::kJsonLines : TextFormat::kPlainText};
}

void add_directory(const std::filesystem::path& directory, std::vector<TextFile>& files) {
  std::vector<std::filesystem::path> found;
  std::error_code code;
  for (std::filesystem::recursive_directory_iterator entry(directory, code), end; !code && entry != end;
       entry.increment(code)) {
    const std::string extension = entry->path().extension().string();
    std::error_code ignored;
    if ((extension == ".txt" || extension == ".jsonl") && entry->is_regular_file(ignored))
      found.push_back(entry->path());
  }
  if (code)
    throw Error(ErrorKind::kIo, fmt::format("cannot list the directory: {}", code.message()), directory.string());
  if (found.empty()) {
    throw Error(ErrorKind::kNotFound, "the directory holds no .txt or .jsonl file", directory.string(),
                "Name the text files themselves if they have other extensions.");
  }
  std::sort(found.begin(), found.end());
  for (const std::filesystem::path& path : found) files.push_back(text_file(path));
}

std::string nearest_sibling(const std::filesystem::path& path) {
  std::vector<std::string> names;
  std::error_code code;
  const std::filesystem::path directory = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  for (std::filesystem::directory_iterator entry(directory, code), end; !code && entry != end; entry.increment(code)) {
    names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  const std::string nearest = nearest_name(path.filename().string(), names);
  return nearest.empty() ? "" : (path.parent_path() / nearest).string();
}

}  // namespace

std::vector<TextFile> find_text_files(const std::vector<std::filesystem::path>& inputs) {
  std::vector<TextFile> files;
  for (const std::filesystem::path& input : inputs) {
    std::error_code code;
    if (std::filesystem::is_directory(input, code)) {
      add_directory(input, files);
      continue;
    }
    if (!std::filesystem::exists(input, code)) {
      const std::string nearest = nearest_sibling(input);
      throw Error(ErrorKind::kNotFound, "the text does not exist", input.string(),
                  nearest.empty() ? "Check the path." : fmt::format("Did you mean \"{}\"?", nearest));
    }
    if (std::filesystem::is_regular_file(input, code) && std::filesystem::file_size(input, code) == 0) {
      throw Error(ErrorKind::kInvalidArgument, "the text is empty: the file has no bytes", input.string(),
                  "Leave the file out, or check that it was written completely.");
    }
    files.push_back(text_file(input));
  }
  return files;
}

TextFileReader::TextFileReader(TextFile file) : file_(std::move(file)), mapped_(file_.path) {}

std::string_view TextFileReader::content() const {
  return {reinterpret_cast<const char*>(mapped_.bytes().data()), mapped_.bytes().size()};
}

std::optional<RawDocument> TextFileReader::next() {
  const std::string_view text = content();
  if (file_.format == TextFormat::kPlainText) {
    if (position_ == text.size()) return {};
    position_ = text.size();
    return RawDocument{text, 0};
  }
  while (position_ < text.size()) {
    const size_t end = std::min(text.find('\n', position_), text.size());
    const std::string_view line = text.substr(position_, end - position_);
    position_ = std::min(end + 1, text.size());
    ++line_;
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) return RawDocument{line, line_};
  }
  return {};
}

std::string parse_json_line(const RawDocument& document, const std::string& key, const std::filesystem::path& path) {
  const std::string where = fmt::format("{}, line {}", path.string(), document.line);
  const nlohmann::json json = parse_json(
      document.bytes,
      {.name = "the line", .where = where, .hint = "Each line must be one JSON object.", .is_one_line = true});
  if (!json.is_object()) {
    throw Error(ErrorKind::kCorrupt, fmt::format("the line is a JSON {}, not an object", json.type_name()), where,
                fmt::format("Each line must be one JSON object with the text under \"{}\".", key));
  }
  const auto found = json.find(key);
  if (found == json.end()) {
    std::vector<std::string> keys;
    std::string names;
    for (const auto& [name, value] : json.items()) {
      keys.push_back(name);
      names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", name);
    }
    const std::string nearest = nearest_name(key, keys);
    throw Error(ErrorKind::kInvalidArgument, fmt::format("the object has no text under \"{}\"", key), where,
                !nearest.empty() ? fmt::format("Did you mean the key \"{}\"?", nearest)
                : !names.empty() ? fmt::format("It has: {}. Name the key that holds the text.", names)
                                 : "The object is empty.");
  }
  if (!found->is_string()) {
    throw Error(ErrorKind::kInvalidArgument, fmt::format("\"{}\" is a JSON {}, not a string", key, found->type_name()),
                where, "Name the key that holds the text.");
  }
  return found->get<std::string>();
}

}  // namespace causeway
