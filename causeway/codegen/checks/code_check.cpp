#include "causeway/codegen/checks/code_check.h"

#include <fmt/format.h>

#include "causeway/codegen/checks/gcn_check.h"
#include "causeway/codegen/checks/ptx_check.h"

namespace causeway::codegen {

std::optional<std::vector<FunctionCheck>> check_code(const std::string& image, const Target& target) {
  if (target.family == Target::Family::kAmdgpu) return check_gcn(image, target.processor);
  if (target.family == Target::Family::kNvptx) return check_ptx(image);
  return std::nullopt;
}

std::string finding_text(const CodeFinding& finding, const Target& target) {
  const std::string place = target.family == Target::Family::kAmdgpu ? fmt::format("+{:#x}", finding.place)
                                                                     : fmt::format("line {}", finding.place);
  return fmt::format("{} {}: {}", place, finding.instruction, finding.fault);
}

}  // namespace causeway::codegen
