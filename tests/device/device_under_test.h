// The devices that tests of kernels run on: those that a test names, most of them emulated, or the one that the
// environment variable CAUSEWAY_TEST_DEVICE names ("cuda", "hip"); with CAUSEWAY_TEST_ARCHITECTURE ("sm_80") its
// kernels are compiled for that.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "causeway/device/open_device.h"
#include "causeway/namespaces.h"

namespace causeway::device {

inline std::optional<std::string> device_of_environment() {
  const char* spec = std::getenv("CAUSEWAY_TEST_DEVICE");
  return spec != nullptr ? std::optional<std::string>(spec) : std::nullopt;
}

// The architecture applies to the environment's device alone.
inline std::shared_ptr<Device> open_device_under_test(const std::string& spec) {
  const char* architecture = std::getenv("CAUSEWAY_TEST_ARCHITECTURE");
  return open_device(spec, {}, architecture != nullptr && spec == device_of_environment() ? architecture : "");
}

inline std::vector<std::string> devices_under_test(std::vector<std::string> otherwise) {
  if (const std::optional<std::string> spec = device_of_environment()) return {*spec};
  return otherwise;
}

// "emulator:sm_90a" as part of a test's name.
inline std::string test_name_of_device(std::string spec) {
  std::replace_if(spec.begin(), spec.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return spec;
}
// Of a test whose parameter is the device.
inline std::string named_by_device(const testing::TestParamInfo<std::string>& test) {
  return test_name_of_device(test.param);
}

}  // namespace causeway::device
