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
    "base",
#define CAUSEWAY_STAGE(folder, before) #folder,
#include "causeway/stages.def"
#undef CAUSEWAY_STAGE
};

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
  if (included == "namespaces.h" || included == "stages.def") return "";
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

// What the stages above need to know of a device, Target and Device say by name (device/target.h, device/device.h).
TEST(Architecture, NothingOfAModelOrItsTrainingAsksWhatADeviceIs) {
  const std::regex asked(
      R"(\bis_gpu\b|\bVendor::|\bFamily::k(X86|Nvptx|Amdgpu|Emulator)\b|\.architecture\(\)|)"
      R"(\b(Cpu|Gpu|Cuda|Hip|Emulator)Device\b|\bGpuMemoryPool\b|device/(cpu/cpu_device|cuda/|hip/|emulator/|gpu_device))");
  for (const std::string folder : {"tensor", "model", "data", "generate", "evaluation", "train"})
    for (const fs::path& file : files_under(kRoot / "causeway" / folder, {".h", ".cpp"}))
      for (const std::string& line : lines_of(file))
        EXPECT_FALSE(std::regex_search(line, asked)) << path_in_tree(file) << ": " << line;
}

// Architectures are named in gpu_architecture.cpp, and in help texts of commands and recipes; all else asks for
// capabilities.
TEST(Architecture, OnlyTheDescriptionOfArchitecturesNamesOne) {
  const std::regex named(R"re("[^"]*\b(sm_\d+a?|gfx\d+[a-z]?)\b|\b132\b)re");
  EXPECT_TRUE(std::regex_search(std::string("if (processor == \"sm_90a\")"), named));
  size_t files = 0;
  for (const char* folder : {"device", "communicator", "passes", "codegen", "program", "tensor", "model", "optimizer",
                             "generate", "evaluation", "plan"})
    for (const fs::path& file : files_under(kRoot / "causeway" / folder, {".h", ".cpp"})) {
      if (path_in_tree(file).starts_with("causeway/device/gpu_architecture.")) continue;
      ++files;
      for (const std::string& line : lines_of(file))
        EXPECT_FALSE(std::regex_search(line.substr(0, line.find("//")), named)) << path_in_tree(file) << ": " << line;
    }
  EXPECT_GT(files, 200u);
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

// CONTRIBUTING.md: how many files a primitive, a pass, a family, an optimizer, a schedule, a mainloop and a command
// take, by examples.
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
  EXPECT_EQ(rows, 14u);
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

// causeway/stages.def has a row for each folder, each after the one that it names, and the map follows it.
TEST(Architecture, EveryFolderIsAStage) {
  const std::vector<std::string> before = {
#define CAUSEWAY_STAGE(folder, before) #before,
#include "causeway/stages.def"
#undef CAUSEWAY_STAGE
  };
  EXPECT_EQ(before, std::vector<std::string>(kStages.begin(), kStages.end() - 1));
  for (const std::string& stage : kStages) EXPECT_TRUE(fs::is_directory(kRoot / "causeway" / stage)) << stage;
  for (const auto& entry : fs::directory_iterator(kRoot / "causeway"))
    if (entry.is_directory())
      EXPECT_NE(std::find(kStages.begin(), kStages.end(), entry.path().filename().string()), kStages.end()) << entry;
  std::vector<std::string> rows;
  const std::regex row("^\\| `causeway/([a-z]+)/` \\|.*");
  for (const std::string& line : lines_of(kRoot / "docs/architecture.md")) {
    std::smatch match;
    if (std::regex_match(line, match, row)) rows.push_back(match[1]);
  }
  EXPECT_EQ(rows, kStages) << "docs/architecture.md";
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

// Lines of each class of a source: its body, and the definitions of its members outside, which begin at the margin.
// What is nested in a class is part of it.
std::map<std::string, int> lines_of_classes(const std::vector<std::string>& lines) {
  static const std::regex body("^(?:class|struct) (?:\\[\\[\\w+\\]\\] )?([\\w:]+)[^;(]*\\{$");
  static const std::regex member("^(?:[^()=]*[ *&])?(\\w+)(?:<[^(]*>)?::(?:\\w+::)*~?(?:operator[^ (]+|\\w+)\\(");
  std::map<std::string, int> counts;
  for (size_t first = 0; first < lines.size(); ++first) {
    const std::string& line = lines[first];
    std::smatch match;
    const bool begins = (line.starts_with("class ") || line.starts_with("struct "))
                            ? std::regex_search(line, match, body)
                            : !line.empty() && line[0] != ' ' && line[0] != '#' && line[0] != '/' && line[0] != '}' &&
                                  !line.ends_with(';') && line.find("::") != std::string::npos &&
                                  std::regex_search(line, match, member);
    if (!begins) continue;
    size_t last = first;
    while (last < lines.size() && !lines[last].starts_with('}') && !(last == first && line.ends_with('}'))) ++last;
    counts[match[1].str()] += static_cast<int>(last - first + 1);
    first = last;
  }
  return counts;
}

TEST(Architecture, LinesOfClassesAreCounted) {
  const auto counts = lines_of_classes({
      "class Loader : public Base {",
      "  struct Row {",
      "    int a;",
      "  };",
      "  void f();",
      "};",
      "",
      "Loader::Loader() { begin(); }",
      "Loader::Row& Loader::row(int i,",
      "                         int j) {",
      "  return other(Table::at(i));",
      "}",
      "class Declared;",
      "const Loader::Row kFirst = Loader::make(1);",
      "int free_function(Loader::Row row) {",
      "  return row.a;",
      "}",
      "std::string Table::text() const {",
      "  if (empty()) {",
      "  }",
      "}",
  });
  EXPECT_EQ(counts, (std::map<std::string, int>{{"Loader", 11}, {"Table", 4}}));
}

TEST(Architecture, ClassesStaySmall) {
  constexpr int kMostLines = 320;
  // Larger ones that are to be split, by folder. The list gets no longer.
  const std::set<std::string> kLarger = {
      "causeway/codegen/expressions ElementWalk",
      "causeway/codegen/gpu GpuLoopWriter",
      "causeway/data TokenDataset",
      "causeway/formats TokenShard",
      "causeway/formats/chat_template JinjaExpressionParser",
      "causeway/formats/chat_template JinjaInterpreter",
      "causeway/model LanguageModel",
      "causeway/train/step TrainingStep",
  };
  std::map<std::string, int> lines;
  for (const fs::path& file : files_under(kRoot / "causeway", {".h", ".cpp"})) {
    // Kernels have classes of their own, by the same names.
    if (path_in_tree(file).starts_with("causeway/kernels/")) continue;
    for (const auto& [name, count] : lines_of_classes(lines_of(file)))
      lines[path_in_tree(file.parent_path()) + " " + name] += count;
  }
  EXPECT_GT(lines.size(), 500u);
  for (const auto& [name, count] : lines)
    EXPECT_TRUE(count <= kMostLines || kLarger.contains(name)) << name << " has " << count << " lines";
  for (const std::string& name : kLarger)
    EXPECT_GT(lines[name], kMostLines) << name << " is small by now: take it off the list";
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

// Rows of the table under the heading: their cells, trimmed.
std::vector<std::vector<std::string>> table_under(const fs::path& document, const std::string& heading) {
  std::vector<std::vector<std::string>> rows;
  bool inside = false;
  for (const std::string& line : lines_of(document)) {
    if (line.starts_with("## ")) inside = line == "## " + heading;
    if (!inside || !line.starts_with("| ")) continue;
    std::vector<std::string> cells;
    for (size_t begin = 2; begin < line.size();) {
      const size_t end = line.find(" |", begin);
      if (end == std::string::npos) break;
      cells.push_back(line.substr(begin, end - begin));
      begin = end + 3;
    }
    rows.push_back(cells);
  }
  if (!rows.empty()) rows.erase(rows.begin());  // the heads of its columns
  return rows;
}

// Where a word of docs/glossary.md's last table stands, by itself and not within another; letters' case aside.
bool has_word(const std::string& text, const std::string& word) {
  const auto is_letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  const auto same = [](char a, char b) {
    const auto blank = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0 ? ' ' : c; };
    return std::tolower(static_cast<unsigned char>(blank(a))) == std::tolower(static_cast<unsigned char>(blank(b)));
  };
  for (auto at = text.begin();; ++at) {
    at = std::search(at, text.end(), word.begin(), word.end(), same);
    if (at == text.end()) return false;
    const auto end = at + static_cast<std::ptrdiff_t>(word.size());
    if ((at == text.begin() || !is_letter(at[-1])) && (end == text.end() || !is_letter(*end))) return true;
  }
}

// The text without line breaks, and the marks of comments that follow them.
std::string joined_lines(const fs::path& file) {
  std::string text;
  for (const std::string& line : lines_of(file)) {
    const size_t begin = line.find_first_not_of(" /");
    if (begin != std::string::npos) text += line.substr(begin) + " ";
  }
  return text;
}

std::vector<fs::path> public_headers() {
  std::vector<fs::path> headers;
  for (const std::string& line : lines_of(kRoot / "cmake/public_headers.txt"))
    if (line.starts_with("causeway/")) headers.push_back(kRoot / line);
  return headers;
}

TEST(Architecture, RetiredWordsAreGone) {
  EXPECT_TRUE(has_word("A Matrix Product.", "matrix product"));
  EXPECT_FALSE(has_word("matrix products", "matrix product"));
  EXPECT_FALSE(has_word("submatrix product", "matrix product"));
  const auto retired = table_under(kRoot / "docs/glossary.md", "Retired words");
  ASSERT_GT(retired.size(), 10u);
  ASSERT_GT(public_headers().size(), 10u);
  std::vector<fs::path> texts;
  for (const fs::path& document : files_under(kRoot / "docs", {".md"}))
    if (document.filename() != "glossary.md") texts.push_back(document);
  for (const char* name : {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"})
    texts.push_back(kRoot / name);
  for (const fs::path& header : public_headers()) texts.push_back(header);
  for (const fs::path& file : texts) {
    const std::string text = joined_lines(file);
    for (const auto& row : retired) {
      ASSERT_EQ(row.size(), 2u);
      EXPECT_FALSE(has_word(text, row[0])) << path_in_tree(file) << ": \"" << row[0] << "\"; say " << row[1];
    }
  }
  for (const fs::path& file : written_files())
    for (const auto& row : retired) {
      std::string name = path_in_tree(file);
      std::replace(name.begin(), name.end(), '_', ' ');
      std::string word = row[0];
      std::replace(word.begin(), word.end(), '_', ' ');
      EXPECT_FALSE(has_word(name, word)) << path_in_tree(file) << "; say " << row[1];
    }
}

TEST(Architecture, TheGlossaryIsInOrder) {
  for (const char* heading : {"The field's words", "Words of Causeway's own"}) {
    const auto rows = table_under(kRoot / "docs/glossary.md", heading);
    ASSERT_GT(rows.size(), 20u);
    const auto before = [](const auto& a, const auto& b) {
      return std::ranges::lexicographical_compare(
          a[0], b[0], {}, [](unsigned char c) { return std::tolower(c); },
          [](unsigned char c) { return std::tolower(c); });
    };
    for (size_t i = 0; i < rows.size(); ++i) {
      ASSERT_EQ(rows[i].size(), 3u) << rows[i][0];
      if (i > 0) EXPECT_TRUE(before(rows[i - 1], rows[i])) << rows[i][0];
    }
  }
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
