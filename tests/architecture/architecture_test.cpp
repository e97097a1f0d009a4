// The layout that docs/architecture.md promises: a folder is a stage, includes point to earlier stages, files stay
// small and are named for the one thing in them, and what the documentation points to is there.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "causeway/base/file.h"

namespace causeway {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = CAUSEWAY_SOURCE_DIR;

// In the order of the pipeline: an include may point to the same folder or to an earlier one.
const std::vector<std::string> kStages = {
    "base",  "graph", "kernels",   "device",   "communicator", "passes", "codegen", "program", "tensor", "formats",
    "model", "data",  "optimizer", "generate", "evaluation",   "train",  "bench",   "plan",    "cli"};

std::vector<fs::path> files_under(const fs::path& directory, const std::set<std::string>& extensions) {
  std::vector<fs::path> files;
  if (!fs::exists(directory)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(directory))
    if (entry.is_regular_file() && extensions.contains(entry.path().extension().string()))
      files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> lines_of(const fs::path& file) {
  std::istringstream stream(read_text_file(file));
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string path_in_tree(const fs::path& file) { return fs::relative(file, kRoot).string(); }

// What is wrong with an include of `included` in the folder `stage`; empty when nothing is.
std::string include_problem(const std::string& stage, const std::string& included) {
  if (included == "namespaces.h") return "";
  const std::string target = included.substr(0, included.find('/'));
  const auto from = std::find(kStages.begin(), kStages.end(), stage);
  const auto to = std::find(kStages.begin(), kStages.end(), target);
  if (from == kStages.end()) return stage + " is not a stage";
  if (to == kStages.end()) return target + " is not a stage";
  if (to > from) return stage + " may not include from " + target;
  return "";
}

TEST(Architecture, IncludeRuleSeesWrongArrows) {
  EXPECT_EQ(include_problem("graph", "base/error.h"), "");
  EXPECT_EQ(include_problem("graph", "graph/dim.h"), "");
  EXPECT_EQ(include_problem("graph", "passes/gradient.h"), "graph may not include from passes");
  EXPECT_EQ(include_problem("data", "train/recipe/recipe.h"), "data may not include from train");
  EXPECT_EQ(include_problem("graph", "common/strings.h"), "common is not a stage");
}

TEST(Architecture, IncludesPointToEarlierStages) {
  const std::regex include(R"(^\s*#\s*include\s*["<]causeway/([^">]+)[">])");
  size_t seen = 0;
  for (const fs::path& file : files_under(kRoot / "causeway", {".h", ".cpp", ".def", ".inc"})) {
    const std::string stage = *fs::relative(file, kRoot / "causeway").begin();
    if (stage == "namespaces.h") continue;
    const std::vector<std::string> lines = lines_of(file);
    for (size_t i = 0; i < lines.size(); ++i) {
      std::smatch match;
      if (!std::regex_search(lines[i], match, include)) continue;
      ++seen;
      EXPECT_EQ(include_problem(stage, match[1]), "") << path_in_tree(file) << ":" << i + 1;
      EXPECT_TRUE(fs::exists(kRoot / "causeway" / match[1].str())) << path_in_tree(file) << ":" << i + 1;
    }
  }
  EXPECT_GT(seen, 300u);
}

TEST(Architecture, DataNeedsFormatsAndNothingElse) {
  const std::regex include(R"(^\s*#\s*include\s*"causeway/([a-z]+)/)");
  for (const fs::path& file : files_under(kRoot / "causeway/data", {".h", ".cpp"}))
    for (const std::string& line : lines_of(file)) {
      std::smatch match;
      if (std::regex_search(line, match, include))
        EXPECT_TRUE(match[1] == "base" || match[1] == "formats" || match[1] == "data")
            << path_in_tree(file) << ": " << line;
    }
}

// What the program computes is tested against the reference interpreter, which therefore has no part in it.
TEST(Architecture, NothingButTestsRunsTheReferenceInterpreter) {
  for (const fs::path& file : files_under(kRoot / "causeway", {".h", ".cpp"})) {
    if (path_in_tree(file).starts_with("causeway/graph/interpreter")) continue;
    for (const std::string& line : lines_of(file))
      EXPECT_EQ(line.find("#include \"causeway/graph/interpreter"), std::string::npos) << path_in_tree(file);
  }
}

// A model family is known to its own file, as the default, and to the table that leads names of the field to ours.
TEST(Architecture, NothingButItsFileNamesAModelFamily) {
  const std::regex name(R"re("(gemma2|llama|mistral|mpt|olmo2|qwen2|qwen3)")re");
  std::map<std::string, std::set<std::string>> found;
  for (const fs::path& file : files_under(kRoot / "causeway", {".h", ".cpp"})) {
    if (path_in_tree(file) == "causeway/base/field_words.cpp") continue;
    for (const std::string& line : lines_of(file)) {
      std::smatch match;
      if (std::regex_search(line, match, name)) found[match[1]].insert(path_in_tree(file));
    }
  }
  const std::map<std::string, std::set<std::string>> expected = {
      {"gemma2", {"causeway/model/gemma2.cpp"}},   {"llama", {"causeway/model/llama.cpp", "causeway/model/config.h"}},
      {"mistral", {"causeway/model/mistral.cpp"}}, {"mpt", {"causeway/model/mpt.cpp"}},
      {"olmo2", {"causeway/model/olmo2.cpp"}},     {"qwen2", {"causeway/model/qwen2.cpp"}},
      {"qwen3", {"causeway/model/qwen3.cpp"}}};
  EXPECT_EQ(found, expected);
}

// CONTRIBUTING.md: how many files a primitive, a pass, a family, an optimizer, a schedule and a command take, by
// examples.
TEST(Architecture, ExamplesOfChangesListTheFilesTheyTake) {
  const auto quoted = [](const std::string& text) {
    static const std::regex pattern("`([^`]+)`");
    std::set<std::string> found;
    for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match)
      found.insert((*match)[1]);
    return found;
  };
  const std::regex row(R"(^\| the [^|]+\|([^|]+)\|([^|]+)\|$)");
  size_t rows = 0;
  for (const std::string& line : lines_of(kRoot / "CONTRIBUTING.md")) {
    std::smatch match;
    if (!std::regex_match(line, match, row)) continue;
    ++rows;
    const std::set<std::string> words = quoted(match[1]), listed = quoted(match[2]);
    std::set<std::string> found;
    for (const fs::path& file : files_under(kRoot / "causeway", {".h", ".cpp", ".def"})) {
      const std::string path = fs::relative(file, kRoot / "causeway").string(), text = read_text_file(file);
      for (const std::string& word : words)
        if (text.find(word) != std::string::npos || path == word) found.insert(path);
    }
    EXPECT_EQ(found, listed) << line;
  }
  EXPECT_EQ(rows, 6u);
}

TEST(Architecture, IncludesNameTheirFolder) {
  const std::regex include(R"re(^\s*#\s*include\s*"([^"]+)")re");
  for (const fs::path& file : files_under(kRoot / "causeway", {".h", ".cpp"}))
    for (const std::string& line : lines_of(file)) {
      std::smatch match;
      if (std::regex_search(line, match, include))
        EXPECT_TRUE(match[1].str().find('/') != std::string::npos && !match[1].str().starts_with("."))
            << path_in_tree(file) << ": " << line;
    }
}

// The folders there are, in the documents that name them all, in order.
TEST(Architecture, DocumentsNameTheStagesThatThereAre) {
  std::string list;
  for (const std::string& stage : kStages) {
    EXPECT_TRUE(fs::is_directory(kRoot / "causeway" / stage)) << stage;
    list += (list.empty() ? "" : ", ") + stage;
  }
  for (const auto& entry : fs::directory_iterator(kRoot / "causeway"))
    if (entry.is_directory())
      EXPECT_NE(std::find(kStages.begin(), kStages.end(), entry.path().filename().string()), kStages.end()) << entry;
  for (const char* name : {"CONTRIBUTING.md", "docs/architecture.md"}) {
    const std::string text = std::regex_replace(read_text_file(kRoot / name), std::regex("\\s+"), " ");
    EXPECT_NE(text.find(list + (std::string(name) == "CONTRIBUTING.md" ? "." : ";")), std::string::npos) << name;
  }
}

std::vector<fs::path> written_files() {
  const std::set<std::string> extensions = {".h",  ".cpp", ".def",   ".inc", ".py",
                                            ".sh", ".md",  ".cmake", ".in",  ".yaml"};
  std::vector<fs::path> files;
  for (const char* folder : {"causeway", "tests", "docs", "tools", "cmake", "examples", "recipes", "benchmarks"})
    for (const fs::path& file : files_under(kRoot / folder, extensions))
      if (!path_in_tree(file).starts_with("tests/fixtures/")) files.push_back(file);
  for (const char* file : {"README.md", "CONTRIBUTING.md", "CMakeLists.txt"}) files.push_back(kRoot / file);
  return files;
}

TEST(Architecture, FilesStaySmall) {
  for (const fs::path& file : written_files()) EXPECT_LE(lines_of(file).size(), 1000u) << path_in_tree(file);
}

TEST(Architecture, FilesAreNamedForTheOneThingInThem) {
  const std::regex vague("((^|/|_)(utils?|misc|helpers?)|(^|/)common)(_|\\.|/|$)");
  for (const char* name : {"causeway/base/string_utils.h", "causeway/common/file.h", "causeway/base/common_types.h"})
    EXPECT_TRUE(std::regex_search(name, vague)) << name;
  for (const fs::path& file : written_files())
    EXPECT_FALSE(std::regex_search(path_in_tree(file), vague)) << path_in_tree(file);
}

// Paths that a document mentions: targets of links, relative to the document, and `folder/...` in code spans, relative
// to the root. Text with <, *, { or capitals such as NAME stands for something else than itself.
std::vector<fs::path> mentioned_paths(const fs::path& document) {
  static const std::regex link(R"(\]\(([^)#\s]+)[^)]*\))");
  static const std::regex span("`((causeway|docs|tests|recipes|tools|cmake|examples|benchmarks)/[^`\\s]*)`");
  std::vector<fs::path> paths;
  const std::string text = read_text_file(document);
  // Links are looked for outside code, indented or in a span.
  std::string prose;
  for (const std::string& line : lines_of(document))
    if (!line.starts_with("    ")) prose += line + "\n";
  prose = std::regex_replace(prose, std::regex("`[^`]*`"), "code");
  for (std::sregex_iterator match(prose.begin(), prose.end(), link), end; match != end; ++match) {
    const std::string target = (*match)[1];
    if (target.find("://") == std::string::npos) paths.push_back(document.parent_path() / target);
  }
  for (std::sregex_iterator match(text.begin(), text.end(), span), end; match != end; ++match) {
    const std::string target = (*match)[1];
    if (target.find_first_of("<>*{}()") == std::string::npos) paths.push_back(kRoot / target);
  }
  return paths;
}

TEST(Architecture, DocumentsPointToWhatIsThere) {
  std::vector<fs::path> documents = files_under(kRoot / "docs", {".md"});
  for (const char* name : {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"})
    documents.push_back(kRoot / name);
  size_t seen = 0;
  for (const fs::path& document : documents)
    for (const fs::path& path : mentioned_paths(document)) {
      ++seen;
      EXPECT_TRUE(fs::exists(path)) << path_in_tree(document) << " points to " << path.lexically_normal();
    }
  EXPECT_GT(seen, 40u);
}

// What stands in the Makefile's three lists is explained in docs/dependencies.md, and nothing else is.
TEST(Architecture, EveryPackageIsExplained) {
  const std::string makefile = read_text_file(kRoot / "Makefile");
  std::set<std::string> packages, explained;
  for (const std::string heading : {"\nPACKAGES := ", "\nTEST_PACKAGES := ", "\nCHECK_PACKAGES := "}) {
    ASSERT_NE(makefile.find(heading), std::string::npos) << heading;
    const size_t first = makefile.find(heading) + heading.size();
    std::string list = makefile.substr(first, makefile.find("\n\n", first) - first);
    std::replace(list.begin(), list.end(), '\\', ' ');
    std::istringstream words(list);
    for (std::string word; words >> word;) packages.insert(word);
  }
  const std::string document = read_text_file(kRoot / "docs/dependencies.md");
  const std::regex row("\n\\| (`[^|]*`) \\|");
  const std::regex name("`([^`]+)`");
  for (std::sregex_iterator match(document.begin(), document.end(), row), end; match != end; ++match) {
    const std::string names = (*match)[1];
    for (std::sregex_iterator each(names.begin(), names.end(), name); each != end; ++each) explained.insert((*each)[1]);
  }
  EXPECT_EQ(packages, explained);
  EXPECT_GT(packages.size(), 10u);
}

}  // namespace
}  // namespace causeway
