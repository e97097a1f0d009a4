// What is installed is what cmake/public_headers.txt promises, whole, and each header of it compiles by itself.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "causeway/base/file.h"
#include "tests/fixtures/temporary_directory.h"

namespace causeway {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = CAUSEWAY_SOURCE_DIR;

std::set<std::string> promised_headers() {
  std::set<std::string> headers;
  std::istringstream list(read_text_file(kRoot / "cmake/public_headers.txt"));
  for (std::string line; std::getline(list, line);)
    if (!line.empty() && !line.starts_with("#")) EXPECT_TRUE(headers.insert(line).second) << line << " twice";
  return headers;
}

TEST(PublicHeaders, IncludeNothingThatIsNotPromised) {
  const std::set<std::string> promised = promised_headers();
  EXPECT_TRUE(promised.contains("causeway/tensor/ops.h"));
  const std::regex include(R"re(#include "(causeway/[^"]+)")re");
  for (const std::string& header : promised) {
    const std::string text = read_text_file(kRoot / header);
    for (std::sregex_iterator match(text.begin(), text.end(), include), end; match != end; ++match)
      EXPECT_TRUE(promised.contains((*match)[1]))
          << header << " includes " << (*match)[1] << ", which cmake/public_headers.txt does not promise: declare what "
          << "it needs, or promise that header too";
  }
}

TEST(PublicHeaders, AreWhatIsInstalledAndCompileAlone) {
  const TemporaryDirectory directory;
  const auto run = [&](const std::string& command) {
    const std::string log = (directory / "log").string();
    EXPECT_EQ(std::system((command + " > " + log + " 2>&1").c_str()), 0) << command << "\n" << read_text_file(log);
  };
  const fs::path prefix = directory / "install";
  run("cmake --install " CAUSEWAY_BINARY_DIR " --component headers --prefix " + prefix.string());
  std::set<std::string> installed;
  for (const auto& entry : fs::recursive_directory_iterator(prefix / "include"))
    if (entry.is_regular_file()) installed.insert(fs::relative(entry.path(), prefix / "include").string());
  EXPECT_EQ(installed, promised_headers());
  // Two at a time: a header takes about a second.
  std::string list;
  for (const std::string& header : installed)
    if (header.ends_with(".h")) list += (prefix / "include" / header).string() + "\n";
  std::ofstream(directory / "list") << list;
  run("xargs -n 1 -P 2 " CAUSEWAY_CXX_COMPILER
      " -x c++ -std=c++20 -fsyntax-only -Wall -Wextra -Werror -Wno-unused-parameter "
      "-Wno-pragma-once-outside-header -I " +
      (prefix / "include").string() + " < " + (directory / "list").string());
}

}  // namespace
}  // namespace causeway
