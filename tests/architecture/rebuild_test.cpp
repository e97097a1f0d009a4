// How many sources a change compiles again, by the includes of headers, over the library, the program and the tests.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "causeway/base/file.h"

namespace causeway {
namespace {

namespace fs = std::filesystem;

class RebuildTest : public testing::Test {
 protected:
  RebuildTest() {
    const fs::path root = CAUSEWAY_SOURCE_DIR;
    for (const char* folder : {"causeway", "tests"})
      for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
        const std::string extension = entry.path().extension().string();
        if (extension != ".h" && extension != ".cpp" && extension != ".def") continue;
        const std::string file = fs::relative(entry.path(), root).string();
        std::ifstream stream(entry.path());
        for (std::string line; std::getline(stream, line);) {
          const size_t begin = line.find('"');
          if (!line.starts_with("#include \"") || begin == std::string::npos) continue;
          included_by_[line.substr(begin + 1, line.find('"', begin + 1) - begin - 1)].push_back(file);
        }
      }
  }

  // The sources that include it, by way of other headers too.
  int sources_of(const std::string& header) const {
    std::set<std::string> seen = {header};
    std::vector<std::string> open = {header};
    int sources = 0;
    while (!open.empty()) {
      const auto found = included_by_.find(open.back());
      sources += open.back().ends_with(".cpp") ? 1 : 0;
      open.pop_back();
      if (found == included_by_.end()) continue;
      for (const std::string& file : found->second)
        if (seen.insert(file).second) open.push_back(file);
    }
    return sources;
  }

  std::map<std::string, std::vector<std::string>> included_by_;
};

TEST_F(RebuildTest, ARowOfTheOpTableCompilesFewFiles) {
  EXPECT_GT(sources_of("causeway/graph/graph.h"), 100);
  EXPECT_GT(sources_of("causeway/graph/ops.def"), 30);
  EXPECT_LT(sources_of("causeway/graph/ops.def"), 100);
}

// Headers with figures that were measured or chosen, not promised.
TEST_F(RebuildTest, ATuningConstantCompilesFewFiles) {
  std::vector<std::string> headers = {"causeway/codegen/gpu/schedules.h", "causeway/codegen/gpu/gemm_hopper_model.h",
                                      "causeway/codegen/gpu/gemm_wave_tile.h", "causeway/codegen/gpu/gemm_sizes.h"};
  for (const auto& entry : fs::recursive_directory_iterator(CAUSEWAY_SOURCE_DIR "/causeway/kernels"))
    if (entry.path().filename().string().ends_with("_layout.h"))
      headers.push_back(fs::relative(entry.path(), CAUSEWAY_SOURCE_DIR).string());
  EXPECT_GT(headers.size(), 8u);
  for (const std::string& header : headers) {
    EXPECT_GT(sources_of(header), 0) << header;
    EXPECT_LT(sources_of(header), 30) << header;
  }
}

// The blocks of attention's map stand in a header that everything includes; how large they are where nobody chooses,
// does not.
TEST_F(RebuildTest, BlocksOfAttentionAreAFigureOfASource) {
  size_t seen = 0;
  for (const auto& entry : fs::recursive_directory_iterator(CAUSEWAY_SOURCE_DIR "/causeway")) {
    if (entry.path().extension() != ".h") continue;
    std::ifstream stream(entry.path());
    for (std::string line; std::getline(stream, line);)
      for (const std::string member : {"int64_t block_q = ", "int64_t block_k = "}) {
        const size_t at = line.find(member);
        if (at == std::string::npos) continue;
        ++seen;
        const std::string header = fs::relative(entry.path(), CAUSEWAY_SOURCE_DIR).string();
        const char first = line[at + member.size()];
        const bool is_figure = first > '0' && first <= '9';
        EXPECT_TRUE(!is_figure || sources_of(header) < 30) << header << ": " << line;
      }
  }
  EXPECT_GT(seen, 3u);
}

// How large a buffer, a record or a limit is, is a figure of a source.
TEST_F(RebuildTest, SizesInBytesStandInNoWideHeader) {
  const std::regex figure(R"(constexpr \w+ k\w+ = .*<< ?[1-9]0;)");
  EXPECT_TRUE(std::regex_search(std::string("static constexpr size_t kRingBytes = size_t{32} << 20;"), figure));
  for (const auto& entry : fs::recursive_directory_iterator(CAUSEWAY_SOURCE_DIR "/causeway")) {
    if (entry.path().extension() != ".h") continue;
    const std::string header = fs::relative(entry.path(), CAUSEWAY_SOURCE_DIR).string();
    std::ifstream stream(entry.path());
    for (std::string line; std::getline(stream, line);)
      if (std::regex_search(line, figure)) EXPECT_LT(sources_of(header), 30) << header << ": " << line;
  }
}

// The sizes that passes go by are wanted in many places: their header says what they are, and a source how large.
TEST_F(RebuildTest, PreferredSizesAreFiguresOfSources) {
  std::ifstream stream(CAUSEWAY_SOURCE_DIR "/causeway/device/preferred_sizes.h");
  size_t seen = 0;
  for (std::string line; std::getline(stream, line);) {
    line = line.substr(0, line.find("//"));
    line.erase(line.find_last_not_of(' ') + 1);
    if (line.find(" = ") == std::string::npos || !line.ends_with(';') || line.ends_with("default;")) continue;
    ++seen;
    EXPECT_TRUE(line.ends_with(" = 0;") || line.ends_with(" = 1;") || line.ends_with(" = false;")) << line;
  }
  EXPECT_GT(seen, 5u);
}

}  // namespace
}  // namespace causeway
