// What the archive of tools/bundle.sh holds beside the program, which a small one stands for here.
#include <cstdlib>
#include <sstream>

#include "causeway/base/file.h"
#include "tests/fixtures/temporary_directory.h"

namespace causeway {
namespace {

TEST(Bundle, HasRecipesAndEveryDocument) {
  const TemporaryDirectory directory;
  std::filesystem::copy_file("/bin/true", directory / "causeway");
  const std::string build = directory.path().string(), list = build + "/list";
  ASSERT_EQ(std::system(("cd " CAUSEWAY_SOURCE_DIR " && bash tools/bundle.sh " + build + " > " + list + " && tar -tf " +
                         build + "/causeway-linux-x86_64.tar.xz > " + list)
                            .c_str()),
            0);
  const std::string packed = read_text_file(list);
  const auto expect = [&](const std::string& file) {
    EXPECT_NE(packed.find("causeway-linux-x86_64/" + file + "\n"), std::string::npos) << file;
  };
  for (const char* file : {"bin/causeway", "recipes/shakespeare.yaml", "README.md", "LICENSE", "CHANGELOG.md",
                           "SECURITY.md", "CONTRIBUTING.md"})
    expect(file);
  const std::filesystem::path root = CAUSEWAY_SOURCE_DIR;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / "docs"))
    if (entry.is_regular_file()) expect(std::filesystem::relative(entry.path(), root).string());
}

}  // namespace
}  // namespace causeway
