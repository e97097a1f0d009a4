#include "causeway/codegen/checks/ptx_check.h"

#include <algorithm>
#include <tuple>

#include "causeway/codegen/checks/ptx_copies.h"
#include "causeway/codegen/checks/ptx_text.h"
#include "causeway/codegen/checks/ptx_wgmma.h"

namespace causeway::codegen {

std::vector<FunctionCheck> check_ptx(std::string_view text) {
  const PtxModule module = parse_ptx(text);
  std::vector<FunctionCheck> checks;
  for (const PtxFunction& function : module.functions) {
    FunctionCheck& check = checks.emplace_back();
    check.function = function.name;
    check.instructions = static_cast<int>(function.instructions.size()) - 1;  // but for the end that the reader adds
    for (const PtxInstruction& one : function.instructions) {
      check.barriers += one.is("bar.") || one.is("barrier.");
      check.waits += one.has("wait_group") || one.is("cp.async.wait_all") || one.is("mbarrier.try_wait") ||
                     one.is("mbarrier.test_wait");
      if (one.is("call") || one.is("brx"))
        check.findings.push_back({static_cast<uint64_t>(one.line), one.text.substr(0, 100),
                                  "the path cannot be followed: what comes after is not checked"});
    }
    check_ptx_wgmma(function, check);
    check_ptx_copies(module, function, check);
    std::ranges::sort(check.findings, {}, [](const CodeFinding& one) { return std::tie(one.place, one.fault); });
  }
  std::ranges::sort(checks, {}, &FunctionCheck::function);
  return checks;
}

}  // namespace causeway::codegen
