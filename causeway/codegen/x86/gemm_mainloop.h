// What describes a mainloop of GEMMs on x86-64. Its kernel text is in kernels/x86/; one file of this folder says all
// else: what it serves, in which blocks, and which functions its kernel runs. gemm_mainloops.h lists them.
#pragma once

#include <optional>
#include <string_view>

#include "causeway/codegen/x86/gemm_geometry.h"

namespace causeway::codegen {

struct GemmMainloop {
  std::string_view header;  // with its kernel text
  // Functions there, of the launches' tasks: pack(problem, task), where an operand is packed beforehand, and
  // run(problem, task, scratch).
  std::optional<std::string_view> pack;
  std::string_view run;
  // Nothing where it does not serve the problem.
  std::optional<GemmBlocks> (*choose)(const GemmProblem& problem, const GemmMachine& machine) = nullptr;
  // Whether kernel text asks ahead for elements of A, and of B, and for what is read where results are stored. Null:
  // for none.
  struct Prefetches {
    bool a = false, b = false, epilogue = false;
  };
  Prefetches (*prefetches)(const GemmBlocks& blocks) = nullptr;
};

// Of operands that are packed in panels, what does not follow from the tile.
struct GemmPanels {
  bool packs_b_once = false;  // where one block of k is all of it, though B is the larger one
  int64_t most_rows = 192;    // of A's block
};
// Adds to blocks that have a tile: which operand is packed beforehand, and how large they are.
void choose_panels(const GemmProblem& problem, const GemmMachine& machine, const GemmPanels& panels,
                   GemmBlocks& blocks);

// Blocks of vectors, with a tile, and nothing else.
GemmBlocks vector_gemm_blocks(const GemmProblem& problem, const GemmMachine& machine);

}  // namespace causeway::codegen
