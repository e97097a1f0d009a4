// What writers of attention kernels share, whatever the device: the problem's functions that load operands, expand
// score and mask, and store results.
#pragma once

#include "causeway/codegen/expressions/problem_writer.h"

namespace causeway::codegen {

class AttentionWriter : public ProblemWriter {
 public:
  explicit AttentionWriter(const KernelInputs& inputs);

 protected:
  // Attention and its gradient: sizes and captured tensors from the node's inputs.
  void read_inputs();
  // The Problem of a block map's kernel, as text: its sizes, mask and store.
  std::string map_problem();
  // `using Operand = ...` and the constants that follow from the node.
  std::string constants(const std::string& operand) const;
  // Every function of the problem: loads, stores, score, mask, block kinds.
  std::string functions();
  void declare_sizes(std::string& members, std::string& initialisation);

  const Node& node_;
  const AttentionSpec& spec_;
  bool backward_;
  Dim batch_, query_heads_, kv_heads_, query_length_, key_length_;

 private:
  std::string load4(const std::string& name, const std::string& position, Value value);
  std::string load_statistics(const std::string& name, Value value);
  std::string store4(const std::string& name, const std::string& position, Value value);
  std::string store_statistics(const std::string& name, Value value);
  std::string block_kind(Value map);
  std::string attention_functions();
  // Of a block map: sizes from its attributes.
  void read_map_inputs();
  std::string map_functions();
  std::string function(const Graph& graph, Value value, const std::string& declaration, bool has_score);
  size_t map_input() const { return backward_ ? 6 : 3; }

  std::vector<Value> captured_;
};

}  // namespace causeway::codegen
