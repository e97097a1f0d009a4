#include "causeway/program/fusion_rules.h"

#include "causeway/base/error.h"
#include "causeway/kernels/gpu/scatter_add_layout.h"

namespace causeway::program {
namespace {

constexpr FusionRules kProcessorRules = {.cheap_to_repeat = 8,
                                         .repeats_count_once = false,
                                         .bytes_decide = false,
                                         .packs_operands = true,
                                         .cheap_epilogue = 1 << 30,
                                         .few_updates = 0,
                                         .joins_column_sums = false,
                                         .copies_alone = false,
                                         .stores_both_orders = false,
                                         .shares_launches = false};

// Arithmetic waits for memory here. A costlier epilogue would hold up the matrix units: the threads that own a GEMM's
// accumulators are few.
constexpr FusionRules kGpuRules = {.cheap_to_repeat = 40,
                                   .repeats_count_once = true,
                                   .bytes_decide = true,
                                   .packs_operands = false,
                                   .cheap_epilogue = 6,
                                   .few_updates = kFewUpdates,
                                   .joins_column_sums = true,
                                   .copies_alone = true,
                                   .stores_both_orders = true,
                                   .shares_launches = true};

FusionRules gpu_rules(bool fixed_order) {
  FusionRules rules = kGpuRules;
  if (fixed_order) {
    // Which sums share a pass would decide how they are added up.
    rules.joins_column_sums = false;
    rules.shares_launches = false;
  }
  return rules;
}

}  // namespace

FusionRules fusion_rules(const Target& target, bool fixed_order) {
  switch (target.family) {
    case Target::Family::kX86:
      return kProcessorRules;
    case Target::Family::kNvptx:
    case Target::Family::kAmdgpu:
    case Target::Family::kEmulator:
      return gpu_rules(fixed_order);
  }
  CAUSEWAY_CHECK(false, "no rules of fusion for {}", target.text());
}

}  // namespace causeway::program
