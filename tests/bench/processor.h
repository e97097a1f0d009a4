// The processor as a device, of the current context.
#pragma once

#include "causeway/program/context.h"

namespace causeway::bench {

inline device::Device& processor() { return program::Context::current()->device(); }

}  // namespace causeway::bench
