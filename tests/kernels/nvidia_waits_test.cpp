// What NVIDIA's kernels wait for, in their PTX: copies and MMAs that are under way on purpose are told from those
// that are read too early (codegen/checks/ptx_check.h). Whole steps of all recipes: tests/train/gpu_gate_test.cpp.
#include <gtest/gtest.h>

#include <string>

#include "causeway/codegen/checks/code_check.h"
#include "causeway/codegen/compile/compiler.h"
#include "causeway/device/offline/offline_device.h"
#include "causeway/graph/parser.h"
#include "tests/mutation/planted_faults.h"
#include "tests/program/program_runner.h"

namespace causeway::program {
namespace {

// As in tests/program/golden_kernels_test.cpp: on Hopper its results leave through TMA.
constexpr char kProduct[] = R"(%0 = input "x" : bf16[4096, 768]
%1 = input "weight" : bf16[768, 3072]
%2 = input "bias" : bf16[3072]
%3 = dot(%0, %1) : bf16[4096, 3072]
%4 = broadcast(%2) {axes=[1]} : bf16[4096, 3072]
%5 = add(%3, %4) : bf16[4096, 3072]
return %5
)";

void expect_nothing_under_way(const std::string& processor, const std::string& asynchronous) {
  const Target target = gpu_target(processor);
  ProgramRunner runner(std::make_shared<OfflineDevice>(target));
  const Program program(parse_graph(kProduct), runner.device(), runner.library(), runner.arena());
  const std::string image = codegen::compile_module(with_planted_fault(program.sources().back()), target);
  EXPECT_NE(image.find(asynchronous), std::string::npos) << "nothing to wait for";
  const auto checks = codegen::check_code(image, target);
  ASSERT_TRUE(checks.has_value());
  for (const codegen::FunctionCheck& check : *checks)
    for (const codegen::CodeFinding& finding : check.findings)
      ADD_FAILURE() << processor << " " << check.function << " " << codegen::finding_text(finding, target);
}

TEST(NvidiaWaits, NoCopyIsReadEarly) { expect_nothing_under_way("sm_80", "cp.async.cg"); }

TEST(NvidiaWaits, NoBulkCopyOrWgmmaIsUsedEarly) { expect_nothing_under_way("sm_90a", "cp.async.bulk.tensor"); }

}  // namespace
}  // namespace causeway::program
