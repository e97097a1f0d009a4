#include "causeway/bench/telemetry/pci_address.h"

#include <array>

#include "causeway/base/error.h"
#include "causeway/device/vendor_library.h"

namespace causeway::bench {
namespace {

// Longer than "00000000:00:00.0".
using Text = std::array<char, 64>;

std::string ask_cuda(const std::string& name, int index) {
  const std::string names[] = {name};
  const VendorLibrary library(names, "telemetry", "");
  int (*init)(unsigned flags) = nullptr;
  int (*device_get)(int* device, int index) = nullptr;
  int (*bus_id)(char* text, int bytes, int device) = nullptr;
  library.bind(init, "cuInit");
  library.bind(device_get, "cuDeviceGet");
  library.bind(bus_id, "cuDeviceGetPCIBusId");
  int device = 0;
  Text text = {};
  const bool told = init(0) == 0 && device_get(&device, index) == 0 &&
                    bus_id(text.data(), static_cast<int>(text.size()) - 1, device) == 0;
  return told ? text.data() : "";
}

std::string ask_hip(const std::vector<std::string>& names, int index) {
  const VendorLibrary library(names, "telemetry", "");
  int (*bus_id)(char* text, int bytes, int device) = nullptr;
  library.bind(bus_id, "hipDeviceGetPCIBusId");
  Text text = {};
  return bus_id(text.data(), static_cast<int>(text.size()) - 1, index) == 0 ? text.data() : "";
}

}  // namespace

std::string pci_address(const std::string& vendor, int index, const DeviceLibraries& libraries) {
  try {
    return vendor == "cuda" ? ask_cuda(libraries.cuda, index) : ask_hip(libraries.hip, index);
  } catch (const Error&) {
    return "";
  }
}

}  // namespace causeway::bench
