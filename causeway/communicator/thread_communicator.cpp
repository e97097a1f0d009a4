#include "causeway/communicator/thread_communicator.h"

#include "causeway/base/error.h"
#include "causeway/base/thread_pool.h"
#include "causeway/communicator/memory_collectives.h"

namespace causeway::communicator {
namespace {

class ThreadCommunicator : public Communicator {
 public:
  explicit ThreadCommunicator(std::vector<std::shared_ptr<Device>> devices)
      : Communicator(std::move(devices)), pool_(size()) {}

  std::string name() const override { return "threads"; }

 private:
  void do_run(const Collective& collective, std::span<const void* const> from, std::span<void* const> to,
              DeviceQueue) override {
    synchronize();
    pool_.run(size(), [&](int64_t rank, int) { run_share(collective, static_cast<size_t>(rank), from, to); });
  }

  void do_send_receive(std::span<const Transfer> transfers, DeviceQueue) override {
    synchronize();
    pool_.run(static_cast<int64_t>(transfers.size()),
              [&](int64_t task, int) { run_transfer(transfers[static_cast<size_t>(task)]); });
  }

  ThreadPool pool_;
};

}  // namespace

std::unique_ptr<Communicator> make_thread_communicator(std::vector<std::shared_ptr<Device>> devices) {
  for (const auto& device : devices)
    CAUSEWAY_CHECK(device->shares_host_memory(), "{} has memory of its own", device->name());
  return std::make_unique<ThreadCommunicator>(std::move(devices));
}

}  // namespace causeway::communicator
