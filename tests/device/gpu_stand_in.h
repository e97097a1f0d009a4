// A driver's library without a GPU, for the tests of the devices that are written against it: memory is the host's, and
// work runs as late as a real queue might let it, when somebody waits for it. Each vendor's stand-in exports the
// vendor's functions on top of this, and stand_in(), by which tests set what it pretends and read what it was asked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <regex>
#include <string>
#include <vector>

struct StandInLaunch {
  std::string kernel;
  unsigned blocks = 0;
  unsigned threads = 0;
  unsigned shared_bytes = 0;
  unsigned cluster = 1;
  std::vector<std::byte> arguments;
};

struct StandInKernel {
  std::string name;
  int argument_bytes = 0;
  int max_threads = 1024;
  int fixed_shared_bytes = 0;
  int dynamic_shared_limit = 48 << 10;
};

// An image is text: its first word says whether it may be loaded, the others name its kernels. A kernel's arguments are
// tensor maps, then a pointer to an int64_t and an int64_t that running it adds there; "none" has no effect, "crash"
// leaves the device unusable.
struct StandInModule {
  std::map<std::string, StandInKernel> kernels;
};

struct StandInGraph {
  std::vector<std::function<void()>> work;
};

struct StandIn {
  // What it pretends.
  int version = 13000;
  int init_result = 0;
  int open_result = 0;  // of opening a device
  int compute_mode = 0;
  int device_count = 2;
  int major = 9;
  int minor = 0;
  std::string architecture = "gfx942:sramecc+:xnack-";
  std::string product = "Stand-in";
  int units = 7;
  int shared_bytes = 227 << 10;
  size_t memory_total = size_t{64} << 20;
  // Takes the compiler's PTX for an image and computes nothing: a whole run goes through, with memory as it was.
  bool computes_nothing = false;
  int launch_result = 0;

  // What it was asked.
  std::vector<StandInLaunch> launches;
  size_t memory_used = 0;
  int allocations = 0;
  int frees = 0;
  int contexts = 0;
  int streams = 0;
  int events = 0;
  int pinned = 0;
  int modules = 0;
  int graphs = 0;
  int replays = 0;
  std::string refused;  // what a real driver would not have borne, e.g. a synchronization while recording

  // How it works.
  std::map<void*, size_t> blocks;
  std::deque<std::function<void()>> queue;
  uint64_t begun = 0;  // work queued since the start
  uint64_t done = 0;
  std::map<void*, uint64_t> event_position;
  StandInGraph* capture = nullptr;
  int fault = 0;  // every call answers with it once a kernel crashed

  void* allocate(size_t bytes) {
    if (capture != nullptr) refused = "allocation while recording";
    if (memory_used + bytes > memory_total) return nullptr;
    void* memory = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
    std::memset(memory, 0xa5, bytes);
    blocks[memory] = bytes;
    memory_used += bytes;
    ++allocations;
    return memory;
  }
  void release(void* memory) {
    drain();
    memory_used -= blocks.at(memory);
    blocks.erase(memory);
    std::free(memory);
    ++frees;
  }
  void enqueue(std::function<void()> work) {
    if (capture != nullptr) {
      capture->work.push_back(std::move(work));
      return;
    }
    queue.push_back(std::move(work));
    ++begun;
  }
  void drain_to(uint64_t position) {
    while (done < position && !queue.empty()) {
      const auto work = std::move(queue.front());
      queue.pop_front();
      ++done;
      work();
    }
  }
  void drain() { drain_to(begun); }
  int synchronize() {
    if (capture != nullptr) {
      refused = "synchronization while recording";
      return 900;
    }
    drain();
    return fault;
  }
  void record(void* event) {
    if (capture != nullptr) refused = "event while recording";
    event_position[event] = begun;
  }
  int wait(void* event) {
    drain_to(event_position[event]);
    return fault;
  }

  StandInModule* load(const std::string& image, const std::string& first_word) {
    std::vector<std::string> words(1);
    for (const char c : image) {
      if (c == ' ' || c == '\n') {
        words.emplace_back();
      } else {
        words.back() += c;
      }
    }
    if (words[0] != first_word && !computes_nothing) return nullptr;
    auto* module = new StandInModule;
    if (computes_nothing) {
      const std::regex entry(R"(\.entry (\w+)\(\s*\.param[^\[]*\[(\d+)\])");
      for (std::sregex_iterator match(image.begin(), image.end(), entry), end; match != end; ++match) {
        StandInKernel kernel;
        kernel.name = (*match)[1];
        kernel.argument_bytes = std::stoi((*match)[2]);
        module->kernels[kernel.name] = kernel;
      }
      words.resize(1);
    }
    for (size_t i = 1; i < words.size(); ++i) {
      StandInKernel kernel;
      kernel.name = words[i];
      kernel.argument_bytes = words[i].starts_with("map") ? 256 : 16;
      kernel.max_threads = words[i] == "fat" ? 128 : 1024;
      kernel.fixed_shared_bytes = words[i] == "fat" ? 1024 : 0;
      module->kernels[words[i]] = kernel;
    }
    static std::mutex mutex;  // modules are loaded from several threads
    const std::lock_guard lock(mutex);
    ++modules;
    return module;
  }

  int launch(const StandInLaunch& call) {
    if (launch_result != 0 || fault != 0) return fault != 0 ? fault : launch_result;
    if (computes_nothing) return 0;
    launches.push_back(call);
    enqueue([this, call] {
      if (call.kernel == "crash") fault = 700;
      if (call.kernel == "none" || call.kernel == "crash") return;
      int64_t* target = nullptr;
      int64_t amount = 0;
      const size_t maps = call.kernel.starts_with("map") ? 128 : 0;
      std::memcpy(&target, call.arguments.data() + maps, 8);
      std::memcpy(&amount, call.arguments.data() + maps + 8, 8);
      *target += amount;
    });
    return 0;
  }
};

// What a launch's list of keys and values holds (the same keys for both vendors, but for the one that ends it).
inline std::vector<std::byte> stand_in_arguments(void** extra, uintptr_t end_key) {
  const std::byte* bytes = nullptr;
  size_t count = 0;
  for (size_t i = 0; reinterpret_cast<uintptr_t>(extra[i]) != end_key; i += 2) {
    if (reinterpret_cast<uintptr_t>(extra[i]) == 1) bytes = static_cast<const std::byte*>(extra[i + 1]);
    if (reinterpret_cast<uintptr_t>(extra[i]) == 2) count = *static_cast<const size_t*>(extra[i + 1]);
  }
  return {bytes, bytes + count};
}
