// The operands of attention on a GPU: which lie in memory as rows, and how kernel text reaches them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "causeway/codegen/expressions/attention_writer.h"
#include "causeway/codegen/gpu/attention_plan.h"
#include "causeway/codegen/gpu/attention_tensor_maps.h"

namespace causeway::codegen {

class GpuAttentionOperandWriter : public AttentionWriter {
 public:
  using AttentionWriter::AttentionWriter;

  void note_load(Value value, const Index& linear) override { loads_.push_back(linear); }

 protected:
  // Once, after read_inputs().
  void find_operands();
  // As the problem has them.
  std::vector<std::optional<GpuAttentionRows>> rows() const;
  // The first operand that is no tensor in memory and does not lie as rows.
  std::optional<Value> scattered_operand() const;

  // The constants that tell kernels how to reach operands.
  std::string access_constants(const GpuAttentionPlan& plan);
  // Of operands that are read by address, the functions that give those of rows of heads. Before the plan's other text.
  std::string row_functions(const GpuAttentionPlan& plan);
  // Of operands that TMA loads, with their positions among the arguments.
  std::vector<MappedAttentionRows> mapped_rows(const GpuAttentionPlan& plan) const;

 private:
  struct Operand {
    std::string name, row, position;  // "Q", "q_row", "t"
    Value value;
    std::optional<GpuAttentionRows> rows;
  };

  std::optional<GpuAttentionRows> find_rows(const std::string& position, Value operand);
  std::string row_function(const Operand& operand, bool rounds_to_tf32);

  std::vector<Operand> operands_;
  std::vector<Index> loads_;
};

}  // namespace causeway::codegen
