#include "causeway/codegen/gpu/attention_tensor_maps.h"

#include <algorithm>

namespace causeway::codegen {

TensorMapFunction attention_tensor_maps(std::vector<MappedAttentionRows> operands) {
  if (operands.empty()) return nullptr;
  return [operands = std::move(operands)](const SymbolBindings& bindings) {
    std::vector<TensorMap> maps;
    for (const auto& [rows, argument, box_lines] : operands) {
      TensorMap& map = maps.emplace_back();
      map.buffer = argument;
      map.offset = rows.offset.evaluate(bindings) * rows.element_bytes;
      map.element_bytes = static_cast<int>(rows.element_bytes);
      map.rank = 4;
      map.sizes[0] = rows.shape[3].evaluate(bindings);
      map.stride_bytes[0] = rows.element_bytes;
      map.box[0] = 64;
      map.box[1] = box_lines;
      map.box[2] = map.box[3] = 1;
      constexpr std::array<size_t, 3> kAxes = {1, 2, 0};
      for (size_t i = 0; i < kAxes.size(); ++i) {
        // The device refuses empty dimensions; nothing of them is loaded. Of one element the stride does not count,
        // but has to be a valid one.
        map.sizes[i + 1] = std::max<int64_t>(1, rows.shape[kAxes[i]].evaluate(bindings));
        map.stride_bytes[i + 1] = std::max<int64_t>(16, rows.strides[2 - i].evaluate(bindings) * rows.element_bytes);
      }
      map.swizzle_bytes = 128;
    }
    return maps;
  };
}

}  // namespace causeway::codegen
