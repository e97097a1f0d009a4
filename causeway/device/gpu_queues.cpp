#include "causeway/device/gpu_queues.h"

#include "causeway/base/error.h"

namespace causeway::device {

GpuQueues::MemoryHandle GpuQueues::export_memory(void*) {
  CAUSEWAY_CHECK(shares_memory(), "{} shares no memory", device_);
  return {};
}

void* GpuQueues::import_memory(const MemoryHandle&) {
  CAUSEWAY_CHECK(shares_memory(), "{} shares no memory", device_);
  return nullptr;
}

void GpuQueues::wait_for_word(const uint32_t*, uint32_t, DeviceQueue) {
  CAUSEWAY_CHECK(shares_memory(), "{} waits for no words", device_);
}

void GpuQueues::write_word(uint32_t*, uint32_t, DeviceQueue) {
  CAUSEWAY_CHECK(shares_memory(), "{} writes no words", device_);
}

void GpuQueues::note(const std::string& name) {
  const std::lock_guard lock(mutex_);
  noted_[next_] = &name;
  next_ = (next_ + 1) % noted_.size();
}

void GpuQueues::forget(const std::string& name) noexcept {
  const std::lock_guard lock(mutex_);
  for (const std::string*& noted : noted_)
    if (noted == &name) noted = nullptr;
}

std::string GpuQueues::recent() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (size_t i = 0; i < noted_.size(); ++i) {
    const std::string* name = noted_[(next_ + i) % noted_.size()];
    if (name != nullptr) text += (text.empty() ? "" : ", ") + *name;
  }
  return text.empty() ? "none" : text;
}

void GpuQueues::fail(std::string_view doing, std::string_view code_name, std::string_view code_text, bool fatal) const {
  if (!fatal) {
    throw Error(ErrorKind::kResource, fmt::format("cannot {}: {} ({})", doing, code_name, code_text), device_,
                "`causeway doctor` shows what this machine's devices can do.");
  }
  throw Error(ErrorKind::kResource,
              fmt::format("the GPU stopped with {} ({}); launched last: {}", code_name, code_text, recent()), device_,
              "The GPU serves this process no more: start it again, from the last checkpoint of a training run. If it "
              "recurs with the same kernels, one of them is wrong: please report it with this message. If it moves "
              "about, suspect the GPU (its driver's log, `dmesg`).");
}

}  // namespace causeway::device
