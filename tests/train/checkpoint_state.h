// A checkpoint's tensors, byte for byte.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "causeway/formats/box.h"
#include "causeway/train/checkpoint/checkpoint.h"

namespace causeway::train {

// By name; the checkpoint is verified, too.
inline std::map<std::string, std::vector<std::byte>> checkpoint_state(const std::filesystem::path& checkpoint) {
  EXPECT_TRUE(verify_checkpoint(checkpoint).empty());
  const CheckpointReader reader(checkpoint);
  std::map<std::string, std::vector<std::byte>> state;
  for (const std::string& name : reader.names()) {
    const CheckpointTensor& tensor = reader.tensor(name);
    std::vector<std::byte> bytes(checked_volume(tensor.shape, size_bytes(tensor.dtype)).value());
    reader.read(name, bytes);
    state[name] = std::move(bytes);
  }
  return state;
}

}  // namespace causeway::train
