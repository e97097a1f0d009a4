// What is asked of the passes, whatever the device. Headers beside this one say what each pass does.
#pragma once

#include <cstdint>

#include "causeway/base/fields.h"
#include "causeway/graph/dtype.h"

namespace causeway::passes {

// mixed_precision.h.
struct MixedPrecisionOptions {
  DType compute = DType::kF32;   // kF32 (off), kBF16 or kF16
  DType residual = DType::kF32;  // kF32, or the compute type

  static constexpr auto fields() {
    return std::tuple{ListedField{"compute", &MixedPrecisionOptions::compute},
                      ListedField{"residual", &MixedPrecisionOptions::residual}};
  }
};

// Scales of GEMMs in 8-bit floats (fp8_gemms.h).
enum class Fp8Scales {
  kNone,  // no GEMMs in 8 bits
  // One for each operand. Activations and weights become f8e4m3, gradients of activations f8e5m2 ("FP8 Formats for Deep
  // Learning", Micikevicius et al., 2022).
  kTensor,
  // One for each 128 of what is summed over and each line of a gradient or of a GEMM's first operand, or 128 lines
  // of others: weights, and activations that are multiplied with a gradient. All become f8e4m3 ("DeepSeek-V3 Technical
  // Report", section 3.3, where those activations have scales for each line). GEMMs are scaled_dot or, where
  // PreferredSizes::f8_blocks is not set, dots of bf16 operands that are the scaled 8-bit numbers. Matrices that do not
  // consist of whole blocks are scaled as by kTensor.
  kBlock,
};

// Which activations the backward pass computes again (recompute.h).
enum class RecomputePolicy {
  kNone,       // everything the backward pass needs is kept
  kSelective,  // kept: results of dots, attention and indexing, reductions of 8 elements or more (norm statistics) and
               // the residual stream, or what they lead to in as few bytes; elementwise chains and movements between
               // them are computed again
  kBlock,      // kept: what a block (nodes whose scope starts with the same "name.N") hands to other blocks, and what
               // lies outside all blocks; the whole inside of a block is computed again, but for gathers of weights
               // that are kept (find_weight_gathers())
};

struct Recomputation {
  RecomputePolicy policy = RecomputePolicy::kNone;
  // So many blocks, the first ones, whose activations would be kept longest. Of kBlock the others are as kSelective has
  // them, of kSelective all of what the others and what lies outside compute is kept. 0: all.
  int64_t blocks = 0;
  bool operator==(const Recomputation&) const = default;

  static constexpr auto fields() {
    return std::tuple{ListedField{"policy", &Recomputation::policy}, ListedField{"blocks", &Recomputation::blocks}};
  }
};

static_assert(lists_every_field<Recomputation>);

struct PipelineOptions {
  MixedPrecisionOptions mixed_precision;
  Fp8Scales fp8_gemms = Fp8Scales::kNone;  // others ask for mixed_precision to bf16
  bool tf32_gemms = false;
  Recomputation recompute;
  // Store the logits of linear_cross_entropy in the compute type instead of f32: longer chunks in the same memory,
  // whose GEMMs run faster.
  bool narrow_logits = false;
  // Round to bf16 what ranks add up of gradients that are used so rounded alone (narrow_reductions.h).
  bool narrow_reductions = false;
  // The same bits on every mesh: no sum is made of what several ranks summed up.
  bool mesh_independent = false;

  static constexpr auto fields() {
    return std::tuple{ListedField{"mixed_precision", &PipelineOptions::mixed_precision},
                      ListedField{"fp8_gemms", &PipelineOptions::fp8_gemms},
                      ListedField{"tf32_gemms", &PipelineOptions::tf32_gemms},
                      ListedField{"recompute", &PipelineOptions::recompute},
                      ListedField{"narrow_logits", &PipelineOptions::narrow_logits},
                      ListedField{"narrow_reductions", &PipelineOptions::narrow_reductions},
                      ListedField{"mesh_independent", &PipelineOptions::mesh_independent}};
  }
};
static_assert(lists_every_field<PipelineOptions>);

}  // namespace causeway::passes
