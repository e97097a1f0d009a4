// What emulated kernel text calls (causeway/kernels/gpu/emulator_runtime.h), as the emulator does it.
#pragma once

#include "causeway/kernels/gpu/emulator_runtime.h"
#include "causeway/namespaces.h"

namespace causeway::device {

const EmulatorRuntime& emulator_runtime();

}  // namespace causeway::device
