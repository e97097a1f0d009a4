// docs/ops.md lists the functions of the op library: those in the headers and no others.
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <string>

#include "causeway/base/file.h"

namespace causeway::tensor {
namespace {

const std::string kSource = CAUSEWAY_SOURCE_DIR;

std::set<std::string> matches(const std::string& text, const std::regex& pattern) {
  std::set<std::string> found;
  for (auto match = std::sregex_iterator(text.begin(), text.end(), pattern); match != std::sregex_iterator(); ++match)
    found.insert((*match)[1]);
  return found;
}

std::set<std::string> functions_in_headers() {
  std::set<std::string> names;
  const std::string list = read_text_file(kSource + "/causeway/tensor/ops.h");
  for (const std::string& header : matches(list, std::regex("#include \"(causeway/tensor/[a-z]+_ops\\.h)\""))) {
    const std::set<std::string> found =
        matches(read_text_file(kSource + "/" + header),
                std::regex("(?:^|\n)(?:Tensor|TopK|std::vector<Tensor>|AttentionResult|MaskFunction|ScoreFunction|"
                           "AdamWUpdate|SgdUpdate|LossAndZLoss|ExpertChoice|ExpertRows) ([a-z][a-z0-9_]*)\\("));
    EXPECT_FALSE(found.empty()) << header;
    names.insert(found.begin(), found.end());
  }
  // Declared beside the operands.
  names.insert("cast");
  return names;
}

TEST(OpList, DocumentsEveryFunctionAndNoOther) {
  const std::set<std::string> documented =
      matches(read_text_file(kSource + "/docs/ops.md"), std::regex("(?:^|\n)\\| `([a-z][a-z0-9_]*)"));
  const std::set<std::string> declared = functions_in_headers();
  EXPECT_GE(declared.size(), 110u);
  for (const std::string& name : declared) EXPECT_TRUE(documented.contains(name)) << name << " is not in docs/ops.md";
  for (const std::string& name : documented) EXPECT_TRUE(declared.contains(name)) << name << " is in no header";
}

}  // namespace
}  // namespace causeway::tensor
