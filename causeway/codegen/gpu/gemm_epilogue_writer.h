// The text of a GEMM's epilogue on a GPU: what is read beside the accumulators, what is computed of them, and how it is
// stored, as functions of the Problem that kernels/gpu/gemm_problem.h describes.
#pragma once

#include <string>
#include <vector>

#include "causeway/codegen/expressions/problem_writer.h"
#include "causeway/codegen/gpu/gemm_nest.h"

namespace causeway::codegen {

class GpuGemmEpilogueWriter : public ProblemWriter {
 public:
  explicit GpuGemmEpilogueWriter(const KernelInputs& inputs) : ProblemWriter(inputs), nest_(inputs) {}

  bool is_stored(Value value) override { return nest_.is_stored(value); }
  std::optional<ElementValue> variable(Value value, const Index& linear) override;

 protected:
  // The functions, from fetch() to store(). Once, before what follows.
  std::string epilogue();
  // What the plan is to know of them.
  GpuGemmEpilogue epilogue_outline() const;
  // Where TMA stores the results: what is stored, then what is read at its place.
  std::vector<Value> at_result() const;

  GpuGemmNest nest_;

 private:
  struct Fetch {
    Value value;
    Index linear;
    bool operator==(const Fetch&) const = default;
  };
  struct FetchTexts {
    std::string members, loads;
  };
  // A member that is stored: its array of neighbours, and the name of what is computed for it.
  struct Stored {
    Value member;
    std::string array, result;
  };

  FetchTexts fetch_texts(const std::vector<Fetch>& fetches, const char* lanes, const char* lane,
                         ExpressionEmitter& addresses);
  std::string fetch_function(const std::string& type, const std::string& signature, const std::vector<Fetch>& fetches,
                             ExpressionEmitter& addresses);
  std::string fetch_row_function(ExpressionEmitter& addresses);
  std::string fetch_functions(ExpressionEmitter& addresses);
  std::string finish_function(const std::string& compute, const std::vector<Stored>& stored);

  // What the epilogue reads at the result's own element, of its row and of its column.
  std::vector<Fetch> fetched_, fetched_row_, fetched_columns_;
  bool fetches_ = false;         // while the epilogue is walked
  std::vector<Value> finished_;  // what is stored, where it is computed in float and not from an element's place
};

}  // namespace causeway::codegen
