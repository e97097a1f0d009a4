// Declared after the NCCL 2 API documentation, so that nothing of CUDA or ROCm is needed to build.
#include "causeway/communicator/nccl_communicator.h"

#include <charconv>
#include <cstdlib>
#include <exception>
#include <future>
#include <set>

#include "causeway/base/error.h"
#include "causeway/base/python_packages.h"
#include "causeway/communicator/peer_copies.h"
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
  // Passed by value, and so on the stack.
  struct UniqueId {
    char bytes[128] = {};
  };
  enum DataType : int { kFloat32 = 7, kBfloat16 = 9 };
  enum Operation : int { kSum = 0 };

  int (*get_version)(int* version) = nullptr;
  const char* (*error_string)(int result) = nullptr;
  const char* (*last_error)(void* communicator) = nullptr;  // absent before 2.13
  int (*init_all)(void** communicators, int count, const int* devices) = nullptr;
  int (*get_unique_id)(UniqueId* id) = nullptr;
  int (*init_rank)(void** communicator, int count, UniqueId id, int rank) = nullptr;
  int (*destroy)(void* communicator) = nullptr;
  int (*abort)(void* communicator) = nullptr;
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
    library.bind(get_unique_id, "ncclGetUniqueId");
    library.bind(init_rank, "ncclCommInitRank");
    library.bind(destroy, "ncclCommDestroy");
    library.bind(abort, "ncclCommAbort");
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

// The library, opened, with its messages.
class NcclLibrary {
 public:
  NcclLibrary(Vendor vendor, const CommunicatorOptions& options)
      : vendor_(std::move(vendor)), library_(open_library(vendor_, options.library)), nccl_(library_) {
    if (!options.nvlink_multicast) ::setenv("NCCL_NVLS_ENABLE", "0", 1);
  }

  const Vendor& vendor() const { return vendor_; }
  const Nccl& functions() const { return nccl_; }

  std::string name() const {
    int version = 0;
    check(nccl_.get_version(&version), "tell its version");
    // Up to 2.8: 2804; since 2.9: 20908.
    const int major = version < 10000 ? version / 1000 : version / 10000;
    const int minor = version / 100 % (version < 10000 ? 10 : 100);
    return fmt::format("{} {}.{}.{}", vendor_.name, major, minor, version % 100);
  }

  void check(int result, std::string_view doing) const {
    if (result == 0) return;
    const char* more = nccl_.last_error != nullptr ? nccl_.last_error(nullptr) : "";
    const bool says_more = more != nullptr && *more != 0;
    throw CollectiveError(ErrorKind::kIo,
                          fmt::format("{} could not {}: {}{}{}", vendor_.name, doing, nccl_.error_string(result),
                                      says_more ? "; " : "", says_more ? more : ""),
                          vendor_.where,
                          "Set NCCL_DEBUG=INFO in the environment: the library then tells what it does.");
  }

 private:
  Vendor vendor_;
  VendorLibrary library_;
  Nccl nccl_;
};

GpuDevice& gpu_of(Device& device) {
  auto* gpu = dynamic_cast<GpuDevice*>(&device);
  CAUSEWAY_CHECK(gpu != nullptr, "{} is no GPU", device.name());
  return *gpu;
}

class NcclCommunicator : public Communicator {
 public:
  // All ranks are this caller's.
  NcclCommunicator(std::vector<std::shared_ptr<Device>> devices, std::shared_ptr<const NcclLibrary> library)
      : Communicator(std::move(devices)), library_(std::move(library)) {
    std::vector<int> numbers;
    for (int rank = 0; rank < size(); ++rank) {
      gpus_.push_back(&gpu_of(device(rank)));
      numbers.push_back(device_number(*gpus_.back()));
      if (std::set<int>(numbers.begin(), numbers.end()).size() != numbers.size())
        throw Error(ErrorKind::kInvalidArgument, fmt::format("{} stands twice in a group", gpus_.back()->name()),
                    library_->vendor().where, "Give every rank a GPU of its own.");
    }
    communicators_.resize(numbers.size());
    check(nccl().init_all(communicators_.data(), size(), numbers.data()), "connect the GPUs");
  }

  // One rank's end, of the ranks of `control`, which does what is not the library's.
  NcclCommunicator(const std::shared_ptr<Device>& device, std::shared_ptr<const NcclLibrary> library,
                   std::shared_ptr<Communicator> control)
      : Communicator({device}, control->first_local(), control->size()),
        library_(std::move(library)),
        control_(std::move(control)),
        gpus_({&gpu_of(*device)}) {}

  ~NcclCommunicator() override {
    // A rank that leaves through an error has no use for what others may still send.
    const bool fails = abandoned_ || std::uncaught_exceptions() > exceptions_;
    try {
      if (connecting_.valid()) connect();
    } catch (const Error&) {
      // Nothing was run that could have failed.
    }
    if (!fails) {
      try {
        synchronize();
      } catch (const Error&) {
        // A device that failed has told so where it was used.
      }
    }
    peers_.reset();
    for (void* communicator : communicators_) fails ? nccl().abort(communicator) : nccl().destroy(communicator);
  }

  std::string name() const override { return library_->name() + (shares_ ? ", copies between GPUs" : ""); }
  Placement placement() const override { return control_ != nullptr ? control_->placement() : Placement{}; }
  void abandon(std::string_view reason) override {
    abandoned_ = true;
    if (control_ != nullptr) control_->abandon(reason);
  }

  void start_connecting() override {
    if (!communicators_.empty() || connecting_.valid()) return;
    const Nccl::UniqueId id = identity();
    connecting_ = std::async(std::launch::async, [this, id] {
      // The library takes the GPU that is the thread's current one.
      gpus_.front()->make_current();
      void* communicator = nullptr;
      check(nccl().init_rank(&communicator, size(), id, first_local()), "connect the GPUs");
      return communicator;
    });
  }

  void connect() override {
    start_connecting();
    if (communicators_.empty()) communicators_ = {connecting_.get()};
  }

  bool share_memory(std::byte* memory, size_t bytes) override {
    if (control_ == nullptr) return false;
    if (!asked_for_peers_) peers_ = PeerCopies::open(*gpus_.front(), *control_);
    asked_for_peers_ = true;
    return shares_ = peers_ != nullptr && peers_->share(memory, bytes);
  }

  void forget_memory() override {
    shares_ = false;
    if (peers_ != nullptr) peers_->forget();
  }

 private:
  // Of this group, the same for all ranks.
  Nccl::UniqueId identity() {
    Nccl::UniqueId id;
    control_->together([&] {
      if (first_local() != 0) return;
      try {
        check(nccl().get_unique_id(&id), "make an identity");
      } catch (const CollectiveError& error) {
        throw Error(error);  // the ranks can still tell each other
      }
    });
    const std::string bytes = control_->of_first(std::string(id.bytes, sizeof id.bytes));
    CAUSEWAY_CHECK(bytes.size() == sizeof id.bytes);
    bytes.copy(id.bytes, sizeof id.bytes);
    return id;
  }

  const Nccl& nccl() const { return library_->functions(); }
  void check(int result, std::string_view doing) const { library_->check(result, doing); }
  size_t place(int rank) const { return static_cast<size_t>(rank - first_local()); }

  void do_run(const Collective& collective, std::span<const void* const> from, std::span<void* const> to,
              DeviceQueue queue) override {
    connect();
    const auto count = static_cast<size_t>(collective.count);
    const Nccl::DataType type = data_type(collective.dtype);
    if (peers_ != nullptr) {
      const PeerCopy copy{collective, from.front(), to.front()};
      if (peers_->serves(copy)) return copy_among_peers(copy, queue);
    }
    if (collective.kind == CollectiveKind::kAllToAll) return all_to_all(collective, from, to, queue);
    as_group(fmt::format("run {}", collective_name(collective.kind)), [&](auto&& call) {
      for (size_t local = 0; local < gpus_.size(); ++local) {
        void *communicator = communicators_[local], *stream = gpus_[local]->stream(queue);
        switch (collective.kind) {
          case CollectiveKind::kAllReduce:
            call(nccl().all_reduce(from[local], to[local], count, type, Nccl::kSum, communicator, stream));
            break;
          case CollectiveKind::kAllGather:
            call(nccl().all_gather(from[local], to[local], count, type, communicator, stream));
            break;
          case CollectiveKind::kReduceScatter:
            call(nccl().reduce_scatter(from[local], to[local], count, type, Nccl::kSum, communicator, stream));
            break;
          default:
            call(nccl().broadcast(from[local], to[local], count, type, collective.root, communicator, stream));
        }
      }
    });
  }

  // With others that are run in one.
  void copy_among_peers(const PeerCopy& copy, DeviceQueue queue) {
    if (!in_one_) return peers_->run(std::span(&copy, 1), queue);
    CAUSEWAY_CHECK(copies_.empty() || copies_queue_ == queue, "copies of two queues in one");
    copies_.push_back(copy);
    copies_queue_ = queue;
  }

  // NCCL has a function for this since 2.28 only; as transfers it is the same to every version.
  void all_to_all(const Collective& collective, std::span<const void* const> from, std::span<void* const> to,
                  DeviceQueue queue) {
    const size_t part = static_cast<size_t>(collective.count) * size_bytes(collective.dtype);
    std::vector<Transfer> transfers;
    for (int sender = 0; sender < size(); ++sender)
      for (int receiver = 0; receiver < size(); ++receiver) {
        Transfer transfer{sender, receiver, nullptr, nullptr, collective.count, collective.dtype};
        if (is_local(sender))
          transfer.from = static_cast<const std::byte*>(from[place(sender)]) + static_cast<size_t>(receiver) * part;
        if (is_local(receiver))
          transfer.to = static_cast<std::byte*>(to[place(receiver)]) + static_cast<size_t>(sender) * part;
        transfers.push_back(transfer);
      }
    do_send_receive(transfers, queue);
  }

  void do_send_receive(std::span<const Transfer> transfers, DeviceQueue queue) override {
    connect();
    as_group("send and receive", [&](auto&& call) {
      for (const Transfer& transfer : transfers) {
        const auto count = static_cast<size_t>(transfer.count);
        const Nccl::DataType type = data_type(transfer.dtype);
        if (is_local(transfer.sender)) {
          const size_t sender = place(transfer.sender);
          call(nccl().send(transfer.from, count, type, transfer.receiver, communicators_[sender],
                           gpus_[sender]->stream(queue)));
        }
        if (is_local(transfer.receiver)) {
          const size_t receiver = place(transfer.receiver);
          call(nccl().receive(transfer.to, count, type, transfer.sender, communicators_[receiver],
                              gpus_[receiver]->stream(queue)));
        }
      }
    });
  }

  bool has_streams() const override { return false; }

  void do_send(const Message& message, const void* from, DeviceQueue queue) override {
    connect();
    check(nccl().send(from, static_cast<size_t>(message.count), data_type(message.dtype), message.peer,
                      communicators_.front(), gpus_.front()->stream(queue)),
          "send");
  }

  void do_receive(const Message& message, void* to, DeviceQueue queue) override {
    connect();
    check(nccl().receive(to, static_cast<size_t>(message.count), data_type(message.dtype), message.peer,
                         communicators_.front(), gpus_.front()->stream(queue)),
          "receive");
  }

  void do_in_one(const std::function<void()>& work) override {
    connect();
    check(nccl().group_start(), "begin a group");
    in_one_ = true;
    copies_.clear();
    try {
      work();
    } catch (...) {
      in_one_ = false;
      nccl().group_end();
      throw;
    }
    in_one_ = false;
    check(nccl().group_end(), "run a group");
    if (!copies_.empty()) peers_->run(copies_, copies_queue_);
  }

  std::unique_ptr<Communicator> do_split(std::optional<int> color, int key) override {
    CAUSEWAY_CHECK(control_ != nullptr);
    std::shared_ptr<Communicator> control = control_->split(color, key);
    if (control == nullptr) return nullptr;
    const std::shared_ptr<Device> device = control->shared_device(control->first_local());
    return std::make_unique<NcclCommunicator>(device, library_, std::move(control));
  }

  void do_barrier() override { control_->barrier(); }
  double do_of_first(double value) override { return control_->of_first(value); }
  std::vector<std::string> do_gather(const std::string& bytes) override { return control_->gather(bytes); }

  // Calls for several devices from one thread must stand in a group, which is ended also when one of them fails.
  template <typename Work>
  void as_group(const std::string& doing, Work&& work) {
    check(nccl().group_start(), doing);
    int failed = 0;
    work([&](int result) {
      if (failed == 0) failed = result;
    });
    const int ended = nccl().group_end();
    check(failed != 0 ? failed : ended, doing);
  }

  std::shared_ptr<const NcclLibrary> library_;
  std::shared_ptr<Communicator> control_;  // null where all ranks are this caller's
  std::vector<GpuDevice*> gpus_;           // of local ranks
  std::vector<void*> communicators_;       // of local ranks; none before they are connected
  std::future<void*> connecting_;
  std::unique_ptr<PeerCopies> peers_;
  bool asked_for_peers_ = false, shares_ = false;
  bool in_one_ = false;
  std::vector<PeerCopy> copies_;  // of what is run in one
  DeviceQueue copies_queue_ = kComputeQueue;
  bool abandoned_ = false;
  const int exceptions_ = std::uncaught_exceptions();
};

std::unique_ptr<Communicator> open_ends(const std::shared_ptr<Communicator>& control, Vendor vendor,
                                        const CommunicatorOptions& options) {
  std::shared_ptr<const NcclLibrary> library;
  control->together([&] { library = std::make_shared<const NcclLibrary>(std::move(vendor), options); });
  return std::make_unique<NcclCommunicator>(control->shared_device(control->first_local()), std::move(library),
                                            control);
}

}  // namespace

std::unique_ptr<Communicator> open_nccl(std::vector<std::shared_ptr<Device>> devices,
                                        const CommunicatorOptions& options) {
  return std::make_unique<NcclCommunicator>(std::move(devices),
                                            std::make_shared<const NcclLibrary>(nccl_vendor(), options));
}

std::unique_ptr<Communicator> open_rccl(std::vector<std::shared_ptr<Device>> devices,
                                        const CommunicatorOptions& options) {
  return std::make_unique<NcclCommunicator>(std::move(devices),
                                            std::make_shared<const NcclLibrary>(rccl_vendor(), options));
}

std::unique_ptr<Communicator> open_nccl(const std::shared_ptr<Communicator>& control,
                                        const CommunicatorOptions& options) {
  return open_ends(control, nccl_vendor(), options);
}

std::unique_ptr<Communicator> open_rccl(const std::shared_ptr<Communicator>& control,
                                        const CommunicatorOptions& options) {
  return open_ends(control, rccl_vendor(), options);
}

}  // namespace causeway::communicator
