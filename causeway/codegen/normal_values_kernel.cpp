#include "causeway/codegen/normal_values_kernel.h"

#include <fmt/format.h>

#include "causeway/codegen/compile/compiler.h"

namespace causeway::codegen {

std::string normal_values_source(const Target& target) {
  const std::string entry =
      target.is_gpu()
          ? fmt::format("CAUSEWAY_KERNEL({}, {}, 1, 1, {}, 0)", kNormalValuesFunction, kNormalThreads, kNormalSizes)
          : fmt::format("extern \"C\" void {}(void* const* buffers, const int64_t* sizes, int64_t task, void* scratch)",
                        kNormalValuesFunction);
  return fmt::format(
      "{}#include \"causeway/kernels/normal_values.h\"\n{} {{\n"
      "make_normal_values(*reinterpret_cast<const NormalValuesTask*>(sizes), buffers[0], task);\n}}\n",
      kSeparateRounding, entry);
}

int64_t normal_values_tasks(const NormalValuesTask& task, const Target& target) {
  constexpr int64_t kGroupsOfBlock = kNormalThreads * kNormalGroupsOfThread;
  const int64_t items = target.is_gpu() ? task.runs * task.groups_of_run() : task.runs * task.length;
  const int64_t of_task = target.is_gpu() ? kGroupsOfBlock : kNormalPiece;
  return (items + of_task - 1) / of_task;
}

}  // namespace causeway::codegen
