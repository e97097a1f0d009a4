#include "causeway/cli/explain_resources.h"

#include <fmt/format.h>

#include "causeway/base/console.h"
#include "causeway/device/gpu_architecture.h"
#include "causeway/program/program_resources.h"

namespace causeway::cli {
namespace {

struct Findings {
  std::vector<FunctionResources> functions;
  std::string note;  // what is not said, and why; empty when all is
};

Findings find_resources(const Program& program, KernelLibrary& library) {
  const Target& target = library.target();
  if (target.family == Target::Family::kX86)
    return {{},
            "The processor's kernels share no registers or shared memory. For those of a GPU: device=cuda:sm_90a or "
            "device=hip:gfx942."};
  if (target.family == Target::Family::kEmulator)
    return {
        {},
        fmt::format("The emulator has no registers to run out of. For what the GPU's own compiler needs: device={}:{}.",
                    target.architecture().driver, target.processor)};
  Findings findings{program_resources(program, library), ""};
  for (const FunctionResources& function : findings.functions)
    if (!function.resources)
      findings.note = fmt::format(
          "Registers, spills and stack of NVIDIA's kernels are decided by its assembler, ptxas, which is not here. {}",
          how_to_get_ptxas());
  return findings;
}

std::string figures(const FunctionResources& function, bool scalar) {
  const auto& resources = function.resources;
  const auto number = [&](int KernelResources::* member) {
    return resources ? std::to_string((*resources).*member) : std::string("-");
  };
  std::string text = fmt::format("{:>10}", number(&KernelResources::registers));
  if (scalar)
    text += fmt::format("{:>8}{:>8}", number(&KernelResources::accumulation_registers),
                        number(&KernelResources::scalar_registers));
  text += fmt::format("{:>9}{:>9}{:>9}{:>7}", number(&KernelResources::shared_bytes), function.dynamic_shared_bytes,
                      number(&KernelResources::spill_bytes), number(&KernelResources::stack_bytes));
  return text;
}

}  // namespace

void print_resources(const Program& program, KernelLibrary& library) {
  const Findings findings = find_resources(program, library);
  if (!findings.functions.empty()) {
    const GpuArchitecture& architecture = library.target().architecture();
    const bool scalar = architecture.occupancy.most_scalar_registers != 0;
    output(
        "\nresources on {} ({}): registers, spilled and stack bytes of a thread; threads, shared bytes of a block\n"
        "(static, and dynamic: asked for at launch); how many blocks fit on a {} at a time\n",
        architecture.processor, architecture.product, architecture.unit_name);
    output("  kernel {:<20}{:<20}launches threads{}   static  dynamic  spilled  stack blocks\n", "kind", "function",
           scalar ? "    vector  accum.  scalar" : " registers");
    for (const FunctionResources& function : findings.functions) {
      output("  {:>6} {:<20}{:<20}{:>8}{:>8}{}{:>7}\n", function.source, function.kind, function.function,
             function.launches, function.threads, figures(function, scalar),
             function.resources ? std::to_string(resident_blocks(*function.resources, function.threads,
                                                                 function.dynamic_shared_bytes, architecture))
                                : "-");
      if (function.resources)
        for (const std::string& note : function.resources->notes) output("         {}\n", note);
      if (function.code)
        for (const CodeFinding& finding : function.code->findings)
          output("         wrong: {}\n", finding_text(finding, library.target()));
    }
    if (const CodeCheckTotals totals = code_check_totals(findings.functions); totals.functions > 0)
      output("  {} checked: {} functions, {} with barriers, {} instructions{}; {} findings\n", architecture.image_name,
             totals.functions, totals.functions_with_barriers, totals.instructions,
             totals.waits > 0 ? fmt::format(", {} waits", totals.waits) : "", totals.findings);
  }
  if (!findings.note.empty()) output("\n{}\n", findings.note);
}

void add_resources(const Program& program, KernelLibrary& library, nlohmann::ordered_json& json) {
  const Findings findings = find_resources(program, library);
  json["resources"] = nlohmann::ordered_json::array();
  for (const FunctionResources& function : findings.functions) {
    nlohmann::ordered_json entry = {
        {"kernel", function.source},     {"kind", function.kind},
        {"function", function.function}, {"launches", function.launches},
        {"threads", function.threads},   {"dynamic_shared_bytes", function.dynamic_shared_bytes}};
    if (function.resources) {
      const KernelResources& resources = *function.resources;
      const GpuArchitecture& architecture = library.target().architecture();
      entry["registers"] = resources.registers;
      if (architecture.occupancy.most_scalar_registers != 0) {
        entry["accumulation_registers"] = resources.accumulation_registers;
        entry["scalar_registers"] = resources.scalar_registers;
      }
      entry["static_shared_bytes"] = resources.shared_bytes;
      entry["spill_bytes"] = resources.spill_bytes;
      entry["stack_bytes"] = resources.stack_bytes;
      entry["resident_blocks"] =
          resident_blocks(resources, function.threads, function.dynamic_shared_bytes, architecture);
      entry["notes"] = resources.notes;
    }
    if (function.code) {
      nlohmann::ordered_json found = nlohmann::ordered_json::array();
      for (const CodeFinding& finding : function.code->findings)
        found.push_back(finding_text(finding, library.target()));
      entry["code_check"] = {{"instructions", function.code->instructions},
                             {"barriers", function.code->barriers},
                             {"waits", function.code->waits},
                             {"findings", std::move(found)}};
    }
    json["resources"].push_back(std::move(entry));
  }
  if (!findings.note.empty()) json["resources_note"] = findings.note;
}

}  // namespace causeway::cli
