// The link interface of each stage, as cmake/Stages.cmake builds it: its objects use no function or variable that only
// a later stage has.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace causeway {
namespace {

struct StageSymbols {
  std::set<std::string> defined, wanted;
};

// What `nm` lists of the objects under a target's folder.
StageSymbols symbols_of(const std::filesystem::path& folder) {
  StageSymbols symbols;
  std::string objects;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".o") objects += " '" + entry.path().string() + "'";
  if (objects.empty()) return symbols;
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen((CAUSEWAY_NM " --format=posix" + objects).c_str(), "r"),
                                                   ::pclose);
  std::vector<char> line(1 << 20);
  while (pipe != nullptr && std::fgets(line.data(), static_cast<int>(line.size()), pipe.get()) != nullptr) {
    const std::string text = line.data();
    const size_t blank = text.find(' ');
    if (blank == std::string::npos || blank + 1 >= text.size() || !text.starts_with("_Z")) continue;
    const char kind = text[blank + 1];
    if (kind == 'U') symbols.wanted.insert(text.substr(0, blank));
    if (kind >= 'A' && kind <= 'Z' && kind != 'U') symbols.defined.insert(text.substr(0, blank));
  }
  return symbols;
}

TEST(StageSymbols, PointToEarlierStages) {
  const std::vector<std::string> stages = {
      "base",
#define CAUSEWAY_STAGE(folder, before) #folder,
#include "causeway/stages.def"
#undef CAUSEWAY_STAGE
  };
  std::vector<std::pair<std::string, StageSymbols>> of_stages;
  for (const std::string& stage : stages) {
    const std::filesystem::path folder = CAUSEWAY_BINARY_DIR "/CMakeFiles/stage_" + stage + ".dir";
    if (std::filesystem::exists(folder)) of_stages.emplace_back(stage, symbols_of(folder));
  }
  EXPECT_EQ(of_stages.size() + 2, stages.size()) << "all but kernel text and the program have objects";
  std::set<std::string> known;
  std::map<std::string, std::string> stage_of;
  for (const auto& [stage, symbols] : of_stages)
    for (const std::string& symbol : symbols.defined) stage_of.emplace(symbol, stage);
  size_t seen = 0;
  for (const auto& [stage, symbols] : of_stages) {
    known.insert(symbols.defined.begin(), symbols.defined.end());
    for (const std::string& symbol : symbols.wanted) {
      ++seen;
      const auto found = stage_of.find(symbol);
      EXPECT_TRUE(found == stage_of.end() || known.contains(symbol))
          << stage << " uses " << symbol << ", which " << found->second << " has";
    }
  }
  EXPECT_GT(seen, 1000u);
}

}  // namespace
}  // namespace causeway
