// Declared after the NCCL 2 API documentation, so that nothing of CUDA or ROCm is needed to build.
#include "causeway/communicator/nccl_communicator.h"

#include <charconv>
#include <cstdlib>
#include <set>

#include "causeway/base/error.h"
#include "causeway/base/python_packages.h"
#include "causeway/device/gpu_device.h"
#include "causeway/device/vendor_library.h"

namespace causeway::communicator {
namespace {

struct Vendor {
  std::string name;     // "NCCL"
  std::string where;    // in messages
  std::string install;  // where the library comes from
  std::vector<std::string> places;
  std::vector<std::string> packaged;  // in a folder of Python packages
};

Vendor nccl_vendor() {
  return {"NCCL",
          "nccl",
          "It comes with PyTorch, and from NVIDIA as the package libnccl2.",
          {"libnccl.so.2", "/usr/local/cuda/lib64/libnccl.so.2"},
          {"nvidia/nccl/lib/libnccl.so.2"}};
}

Vendor rccl_vendor() {
  return {"RCCL",
          "rccl",
          "It comes with PyTorch for ROCm, and with ROCm as the package rccl.",
          {"librccl.so.1", "/opt/rocm/lib/librccl.so.1"},
          {"torch/lib/librccl.so.1", "torch/lib/librccl.so"}};
}

VendorLibrary open_library(const Vendor& vendor, const std::string& file) {
  std::vector<std::string> names = {file};
  if (file.empty()) {
    names = vendor.places;
    for (const std::string& packaged : python_package_files(vendor.packaged)) names.push_back(packaged);
  }
  return VendorLibrary(names, vendor.where,
                       fmt::format("{} It is looked for where the system's loader looks, beside the vendor's toolkit "
                                   "and in Python's packages; its file can also be named.",
                                   vendor.install),
                       vendor.name);
}

struct Nccl {
  enum DataType : int { kFloat32 = 7, kBfloat16 = 9 };
  enum Operation : int { kSum = 0 };

  int (*get_version)(int* version) = nullptr;
  const char* (*error_string)(int result) = nullptr;
  const char* (*last_error)(void* communicator) = nullptr;  // absent before 2.13
  int (*init_all)(void** communicators, int count, const int* devices) = nullptr;
  int (*destroy)(void* communicator) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*all_reduce)(const void* from, void* to, size_t count, DataType type, Operation operation, void* communicator,
                    void* stream) = nullptr;
  int (*all_gather)(const void* from, void* to, size_t count, DataType type, void* communicator,
                    void* stream) = nullptr;
  int (*reduce_scatter)(const void* from, void* to, size_t count, DataType type, Operation operation,
                        void* communicator, void* stream) = nullptr;
  int (*broadcast)(const void* from, void* to, size_t count, DataType type, int root, void* communicator,
                   void* stream) = nullptr;
  int (*send)(const void* from, size_t count, DataType type, int peer, void* communicator, void* stream) = nullptr;
  int (*receive)(void* to, size_t count, DataType type, int peer, void* communicator, void* stream) = nullptr;

  explicit Nccl(const VendorLibrary& library) {
    library.bind(get_version, "ncclGetVersion");
    library.bind(error_string, "ncclGetErrorString");
    library.bind_if_present(last_error, "ncclGetLastError");
    library.bind(init_all, "ncclCommInitAll");
    library.bind(destroy, "ncclCommDestroy");
    library.bind(group_start, "ncclGroupStart");
    library.bind(group_end, "ncclGroupEnd");
    library.bind(all_reduce, "ncclAllReduce");
    library.bind(all_gather, "ncclAllGather");
    library.bind(reduce_scatter, "ncclReduceScatter");
    library.bind(broadcast, "ncclBroadcast");
    library.bind(send, "ncclSend");
    library.bind(receive, "ncclRecv");
  }
};

Nccl::DataType data_type(DType dtype) { return dtype == DType::kF32 ? Nccl::kFloat32 : Nccl::kBfloat16; }

// "cuda:1": 1.
int device_number(const Device& device) {
  const std::string name = device.name();
  const size_t colon = name.find(':');
  int number = 0;
  CAUSEWAY_CHECK(colon != std::string::npos, "{} has no number", name);
  std::from_chars(name.data() + colon + 1, name.data() + name.size(), number);
  return number;
}

class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(std::vector<std::shared_ptr<Device>> devices, Vendor vendor, const CommunicatorOptions& options)
      : Communicator(std::move(devices)), vendor_(std::move(vendor)), nccl_(open_library(vendor_, options.library)) {
    std::vector<int> numbers;
    for (int rank = 0; rank < size(); ++rank) {
      auto* gpu = dynamic_cast<GpuDevice*>(&device(rank));
      CAUSEWAY_CHECK(gpu != nullptr, "{} is no GPU", device(rank).name());
      gpus_.push_back(gpu);
      numbers.push_back(device_number(*gpu));
      if (std::set<int>(numbers.begin(), numbers.end()).size() != numbers.size())
        throw Error(ErrorKind::kInvalidArgument, fmt::format("{} stands twice in a group", gpu->name()), vendor_.where,
                    "Give every rank a GPU of its own.");
    }
    if (!options.nvlink_multicast) ::setenv("NCCL_NVLS_ENABLE", "0", 1);
    communicators_.resize(numbers.size());
    check(nccl_.init_all(communicators_.data(), size(), numbers.data()), "connect the GPUs");
  }

  ~NcclCommunicator() override {
    try {
      synchronize();
    } catch (const Error&) {
      // A device that failed has told so where it was used.
    }
    for (void* communicator : communicators_) nccl_.destroy(communicator);
  }

  std::string name() const override {
    int version = 0;
    check(nccl_.get_version(&version), "tell its version");
    // Up to 2.8: 2804; since 2.9: 20908.
    const int major = version < 10000 ? version / 1000 : version / 10000;
    const int minor = version / 100 % (version < 10000 ? 10 : 100);
    return fmt::format("{} {}.{}.{}", vendor_.name, major, minor, version % 100);
  }

 private:
  void do_run(const Collective& collective, std::span<const void* const> from, std::span<void* const> to,
              DeviceQueue queue) override {
    const auto count = static_cast<size_t>(collective.count);
    const Nccl::DataType type = data_type(collective.dtype);
    if (collective.kind == CollectiveKind::kAllToAll) return all_to_all(collective, from, to, queue);
    as_group(fmt::format("run {}", collective_name(collective.kind)), [&](auto&& call) {
      for (size_t rank = 0; rank < gpus_.size(); ++rank) {
        void *communicator = communicators_[rank], *stream = gpus_[rank]->stream(queue);
        switch (collective.kind) {
          case CollectiveKind::kAllReduce:
            call(nccl_.all_reduce(from[rank], to[rank], count, type, Nccl::kSum, communicator, stream));
            break;
          case CollectiveKind::kAllGather:
            call(nccl_.all_gather(from[rank], to[rank], count, type, communicator, stream));
            break;
          case CollectiveKind::kReduceScatter:
            call(nccl_.reduce_scatter(from[rank], to[rank], count, type, Nccl::kSum, communicator, stream));
            break;
          default:
            call(nccl_.broadcast(from[rank], to[rank], count, type, collective.root, communicator, stream));
        }
      }
    });
  }

  // NCCL has a function for this since 2.28 only; as transfers it is the same to every version.
  void all_to_all(const Collective& collective, std::span<const void* const> from, std::span<void* const> to,
                  DeviceQueue queue) {
    const size_t part = static_cast<size_t>(collective.count) * size_bytes(collective.dtype);
    std::vector<Transfer> transfers;
    for (size_t sender = 0; sender < from.size(); ++sender)
      for (size_t receiver = 0; receiver < to.size(); ++receiver)
        transfers.push_back({static_cast<int>(sender), static_cast<int>(receiver),
                             static_cast<const std::byte*>(from[sender]) + receiver * part,
                             static_cast<std::byte*>(to[receiver]) + sender * part, collective.count,
                             collective.dtype});
    do_send_receive(transfers, queue);
  }

  void do_send_receive(std::span<const Transfer> transfers, DeviceQueue queue) override {
    as_group("send and receive", [&](auto&& call) {
      for (const Transfer& transfer : transfers) {
        const auto sender = static_cast<size_t>(transfer.sender), receiver = static_cast<size_t>(transfer.receiver);
        const auto count = static_cast<size_t>(transfer.count);
        const Nccl::DataType type = data_type(transfer.dtype);
        call(nccl_.send(transfer.from, count, type, transfer.receiver, communicators_[sender],
                        gpus_[sender]->stream(queue)));
        call(nccl_.receive(transfer.to, count, type, transfer.sender, communicators_[receiver],
                           gpus_[receiver]->stream(queue)));
      }
    });
  }

  // Calls for several devices from one thread must stand in a group, which is ended also when one of them fails.
  template <typename Work>
  void as_group(const std::string& doing, Work&& work) {
    check(nccl_.group_start(), doing);
    int failed = 0;
    work([&](int result) {
      if (failed == 0) failed = result;
    });
    const int ended = nccl_.group_end();
    check(failed != 0 ? failed : ended, doing);
  }

  void check(int result, std::string_view doing) const {
    if (result == 0) return;
    const char* more = nccl_.last_error != nullptr ? nccl_.last_error(nullptr) : "";
    const bool says_more = more != nullptr && *more != 0;
    throw Error(ErrorKind::kIo,
                fmt::format("{} could not {}: {}{}{}", vendor_.name, doing, nccl_.error_string(result),
                            says_more ? "; " : "", says_more ? more : ""),
                vendor_.where, "Set NCCL_DEBUG=INFO in the environment: the library then tells what it does.");
  }

  Vendor vendor_;
  Nccl nccl_;
  std::vector<GpuDevice*> gpus_;
  std::vector<void*> communicators_;
};

}  // namespace

std::unique_ptr<Communicator> open_nccl(std::vector<std::shared_ptr<Device>> devices,
                                        const CommunicatorOptions& options) {
  return std::make_unique<NcclCommunicator>(std::move(devices), nccl_vendor(), options);
}

std::unique_ptr<Communicator> open_rccl(std::vector<std::shared_ptr<Device>> devices,
                                        const CommunicatorOptions& options) {
  return std::make_unique<NcclCommunicator>(std::move(devices), rccl_vendor(), options);
}

}  // namespace causeway::communicator
