// Tests' access to a stand-in for a vendor's library.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/device/gpu_stand_in.h"

namespace causeway::device {

inline StandIn& open_stand_in(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  return *reinterpret_cast<StandIn* (*)()>(dlsym(library, "stand_in"))();
}

// Everything taken from the driver has been given back, and nothing was asked that a real one refuses.
inline void expect_returned(const StandIn& driver) {
  EXPECT_EQ(driver.memory_used, 0u);
  EXPECT_EQ(driver.allocations, driver.frees);
  EXPECT_EQ(driver.pinned, 0);
  EXPECT_EQ(driver.imported, 0);
  EXPECT_EQ(driver.events, 0);
  EXPECT_EQ(driver.streams, 0);
  EXPECT_EQ(driver.contexts, 0);
  EXPECT_EQ(driver.modules, 0);
  EXPECT_EQ(driver.graphs, 0);
  EXPECT_EQ(driver.refused, "");
}

}  // namespace causeway::device
