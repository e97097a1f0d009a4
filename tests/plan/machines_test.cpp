#include "causeway/plan/machines.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "causeway/base/error.h"
#include "causeway/device/open_device.h"

namespace causeway::plan {
namespace {

TEST(Machines, AllHavePeaksLinksAndATarget) {
  std::set<std::string> names;
  for (const Machine& machine : shipped_machines()) {
    EXPECT_TRUE(names.insert(machine.name).second) << machine.name;
    EXPECT_GT(machine.peak_flops.at("bf16"), 1e14) << machine.name;
    EXPECT_GT(machine.memory_bytes_per_second, 1e12) << machine.name;
    EXPECT_GT(machine.link_bytes_per_second, machine.network_bytes_per_second) << machine.name;
    EXPECT_TRUE(parse_target(machine.target).is_gpu()) << machine.name;
    for (const ConstantField& field : constant_fields()) {
      EXPECT_GT(machine.constants.*field.member, 0) << machine.name << " " << field.name;
      if (std::string(field.name).ends_with("_fraction"))
        EXPECT_LE(machine.constants.*field.member, 1) << machine.name << " " << field.name;
    }
  }
  EXPECT_EQ(find_machine("h200").product, "NVIDIA H200");
}

std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Machines, UnknownNamesGetTheNearestOne) {
  EXPECT_EQ(message_of([] { find_machine("h20"); }).substr(0, 49),
            "--hardware: no hardware is called 'h20'\n  There a");
  EXPECT_NE(message_of([] { find_machine("abacus of wood"); }).find("There are: h200, h100, a100_80gb"),
            std::string::npos);
}

TEST(Machines, BadFilesAreNamedWithTheirLine) {
  const std::string entry =
      "machines:\n  - {name: a, product: PRODUCT, target: \"cuda:sm_90a\", devices_per_node: 8, memory_gib: 1, "
      "network_gb_per_s: 1, source: s, gemm_fraction: 1, gemm_half: 1, attention_fraction: 1, memory_fraction: "
      "1, "
      "launch_seconds: 1, link_fraction: 1, network_fraction: 1, contention: 1, straggle: STRAGGLE}\n";
  const auto with = [&](std::string product, std::string straggle) {
    std::string text = entry;
    text.replace(text.find("PRODUCT"), 7, product);
    text.replace(text.find("STRAGGLE"), 8, straggle);
    return message_of([&] { parse_machines(text, "my.yaml"); });
  };
  EXPECT_EQ(with("NVIDIA H200", "1"), "");
  EXPECT_NE(with("Abacus", "1").find("my.yaml:2"), std::string::npos);
  EXPECT_NE(with("Abacus", "1").find("no peaks are on record for Abacus"), std::string::npos);
  EXPECT_NE(with("NVIDIA H200", "-1").find("straggle"), std::string::npos);
  std::string many = entry;
  many.replace(many.find("PRODUCT"), 7, "NVIDIA H200").replace(many.find("STRAGGLE"), 8, "1");
  many.replace(many.find("devices_per_node: 8"), 19, "devices_per_node: 1e300");
  EXPECT_NE(message_of([&] { parse_machines(many, "my.yaml"); }).find("devices_per_node must be a whole number"),
            std::string::npos);
  // An L4 has no links.
  EXPECT_NE(with("NVIDIA L4", "1").find("Add link_gb_per_s"), std::string::npos);
}

}  // namespace
}  // namespace causeway::plan
