// Which PCI device a GPU of the drivers' numbering is.
#pragma once

#include <string>

#include "causeway/device/open_device.h"

namespace causeway::bench {

// The PCI address of "cuda:1" or "hip:1" as its driver tells it, "0000:1b:00.0"; empty where it does not.
std::string pci_address(const std::string& vendor, int index, const DeviceLibraries& libraries = {});

}  // namespace causeway::bench
