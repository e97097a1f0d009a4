#include "tests/mutation/planted_faults.h"

#include <algorithm>
#include <atomic>
#include <map>

#include "causeway/base/error.h"
#include "causeway/codegen/compile/kernel_text.h"

namespace causeway {

using namespace codegen;
namespace {

constexpr std::string_view kInclude = "#include \"";

const PlantedFault* planted = nullptr;
std::atomic<int> kernels_planted = 0;

int count(std::string_view text, std::string_view part) {
  int occurrences = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++occurrences;
  return occurrences;
}

std::string replaced(std::string text, std::string_view part, std::string_view by) {
  if (const size_t at = text.find(part); at != std::string::npos) text.replace(at, part.size(), by);
  return text;
}

std::string_view header_text(std::string_view path) {
  for (const KernelTextFile& file : kernel_text_files())
    if (file.path == path) return file.text;
  throw Error(ErrorKind::kInvalidArgument, fmt::format("there is no kernel header {}", path));
}

bool includes(std::string_view path, std::string_view header);

// Text in which headers that hold the fault's, at whatever depth, stand in place of their includes. The others are
// included as ever.
std::string with_headers_inside(std::string_view text, const PlantedFault& fault) {
  std::string result;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end);
    if (line.starts_with("#pragma once")) continue;
    if (!line.starts_with(kInclude)) {
      result += line;
      continue;
    }
    const std::string_view rest = line.substr(kInclude.size());
    const std::string path(rest.substr(0, rest.find('"')));
    if (!includes(path, fault.file)) {
      result += line;
      continue;
    }
    std::string guard = "PLANTED_" + path;
    std::replace_if(guard.begin(), guard.end(), [](char c) { return c == '/' || c == '.'; }, '_');
    std::string inside = with_headers_inside(header_text(path), fault);
    if (path == fault.file) inside = replaced(inside, fault.original, fault.planted);
    result += fmt::format("#ifndef {0}\n#define {0}\n{1}\n#endif\n", guard, inside);
  }
  return result;
}

// Whether the header at `path` is the other one or includes it.
bool includes(std::string_view path, std::string_view header) {
  static std::map<std::pair<std::string, std::string>, bool> known;
  if (path == header) return true;
  const auto key = std::pair(std::string(path), std::string(header));
  if (const auto found = known.find(key); found != known.end()) return found->second;
  bool result = false;
  std::string_view text = header_text(path);
  for (size_t at = text.find(kInclude); at != std::string::npos && !result; at = text.find(kInclude, at + 1)) {
    const std::string_view rest = text.substr(at + kInclude.size());
    result = includes(rest.substr(0, rest.find('"')), header);
  }
  return known[key] = result;
}

}  // namespace

const PlantedFault* find_planted_fault(std::string_view name) {
  for (const PlantedFault& fault : planted_faults())
    if (fault.name == name) return &fault;
  return nullptr;
}

int occurrences_in_header(const PlantedFault& fault) {
  return fault.file.empty() ? 1 : count(header_text(fault.file), fault.original);
}

void plant(const PlantedFault& fault) { planted = &fault; }
bool a_fault_is_planted() { return planted != nullptr; }
int kernels_with_planted_fault() { return kernels_planted; }

std::string with_planted_fault(const std::string& source) {
  if (planted == nullptr) return source;
  std::string result;
  if (planted->file.empty()) {
    if (count(source, planted->original) > 1)
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("the fault {} can be planted in several places:\n{}", planted->name, source));
    result = replaced(source, planted->original, planted->planted);
  } else {
    result = with_headers_inside(source, *planted);
  }
  if (result != source) ++kernels_planted;
  return result;
}

}  // namespace causeway
