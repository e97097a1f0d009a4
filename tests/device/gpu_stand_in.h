// A driver's library without a GPU, for the tests of the devices that are written against it: memory is the host's, and
// work runs as late as real streams might let it, when somebody waits for it, and of other streams only as much as it
// waits for. Each vendor's stand-in exports the vendor's functions on top of this, and stand_in(), by which tests set
// what it pretends and read what it was asked.
#pragma once

#include <algorithm>
#include <atomic>
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
#include <set>
#include <string>
#include <utility>
#include <vector>

struct StandInLaunch {
  std::string kernel;
  unsigned blocks = 0;
  unsigned threads = 0;
  unsigned shared_bytes = 0;
  unsigned cluster = 1;
  std::vector<std::byte> arguments;
  bool begins_early = false;    // while the launch before it ends
  unsigned shared_percent = 0;  // of the shared memory that there can be, preferred
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

// What was recorded: work, each piece with the earlier ones that it comes after.
struct StandInGraph {
  struct Node {
    std::function<void()> work;
    std::set<size_t> after;
  };
  std::vector<Node> nodes;

  // Of what may run next, always what was recorded last.
  void run() const {
    std::vector<bool> done(nodes.size());
    for (size_t count = 0; count < nodes.size(); ++count) {
      size_t next = nodes.size();
      while (next-- > 0)
        if (!done[next] &&
            std::all_of(nodes[next].after.begin(), nodes[next].after.end(), [&](size_t n) { return done[n]; }))
          break;
      nodes[next].work();
      done[next] = true;
    }
  }
};

struct StandInStream {
  std::deque<std::function<void()>> queue;
  uint64_t begun = 0;  // work queued since the start
  uint64_t done = 0;
  // While it is recorded: what its next work comes after.
  bool recorded = false;
  std::set<size_t> frontier;
};

struct StandInEvent {
  StandInStream* stream = nullptr;  // null: never recorded
  uint64_t position = 0;
  bool recorded = false;  // into a graph
  std::set<size_t> frontier;
};

// What several ranks count, each in a thread of its own.
class StandInCount {
 public:
  StandInCount(int count = 0) : count_(count) {}
  StandInCount(const StandInCount& other) : count_(other) {}
  StandInCount& operator=(const StandInCount& other) { return count_ = other, *this; }
  operator int() const { return count_; }
  int operator++() { return ++count_; }
  int operator--() { return --count_; }

 private:
  std::atomic<int> count_;
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
  bool out_of_reach = false;  // no process reads another one's memory

  // What it was asked.
  std::vector<StandInLaunch> launches;
  size_t memory_used = 0;
  int allocations = 0;
  int frees = 0;
  StandInCount contexts;
  int streams = 0;
  StandInCount events;
  StandInCount pinned;
  int imported = 0;  // times that other processes' memory was, and is not closed
  StandInCount modules;
  std::set<std::string> module_targets;  // of those that are PTX
  StandInCount graphs;
  StandInCount replays;
  std::string refused;  // what a real driver would not have borne, e.g. a synchronization while recording

  // How it works. Ranks that are threads share it, each with streams of its own: what they have together has a lock,
  // which is never held while queued work runs, because that may wait for another rank.
  inline static std::mutex mutex;
  std::map<void*, size_t> blocks;
  std::vector<StandInStream*> open_streams;
  StandInStream* capturing = nullptr;  // the stream that a recording began in
  StandInGraph* capture = nullptr;
  int fault = 0;  // every call answers with it once a kernel crashed

  void* allocate(size_t bytes) {
    const std::lock_guard lock(mutex);
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
    const std::lock_guard lock(mutex);
    memory_used -= blocks.at(memory);
    blocks.erase(memory);
    std::free(memory);
    ++frees;
  }
  bool is_allocated(void* memory) {
    const std::lock_guard lock(mutex);
    return blocks.contains(memory);
  }
  void count_imported(int change) {
    const std::lock_guard lock(mutex);
    imported += change;
  }
  void* open_stream() {
    const std::lock_guard lock(mutex);
    ++streams;
    return open_streams.emplace_back(new StandInStream);
  }
  void close_stream(void* stream) {
    const std::lock_guard lock(mutex);
    --streams;
    std::erase(open_streams, stream);
    delete static_cast<StandInStream*>(stream);
  }
  bool is_open(void* stream) {
    const std::lock_guard lock(mutex);
    return std::find(open_streams.begin(), open_streams.end(), stream) != open_streams.end();
  }
  void enqueue(void* handle, std::function<void()> work) {
    auto& stream = *static_cast<StandInStream*>(handle);
    if (stream.recorded) {
      capture->nodes.push_back({std::move(work), stream.frontier});
      stream.frontier = {capture->nodes.size() - 1};
      return;
    }
    if (capture != nullptr) refused = "work beside a recording";
    stream.queue.push_back(std::move(work));
    ++stream.begun;
  }
  void drain_to(StandInStream& stream, uint64_t position) {
    while (stream.done < position && !stream.queue.empty()) {
      const auto work = std::move(stream.queue.front());
      stream.queue.pop_front();
      ++stream.done;
      work();
    }
  }
  void drain() {
    std::vector<StandInStream*> streams_now;
    {
      const std::lock_guard lock(mutex);
      streams_now = open_streams;
    }
    for (StandInStream* stream : streams_now) drain_to(*stream, stream->begun);
  }
  int synchronize(void* handle) {
    if (capture != nullptr) {
      refused = "synchronization while recording";
      return 900;
    }
    auto& stream = *static_cast<StandInStream*>(handle);
    drain_to(stream, stream.begun);
    return fault;
  }
  int record(void* handle, void* stream_handle) {
    auto& event = *static_cast<StandInEvent*>(handle);
    auto& stream = *static_cast<StandInStream*>(stream_handle);
    if (capture != nullptr && !stream.recorded) refused = "an event beside a recording";
    event = {&stream, stream.begun, stream.recorded, stream.frontier};
    return 0;
  }
  int wait(void* handle) {
    auto& event = *static_cast<StandInEvent*>(handle);
    if (event.stream != nullptr) drain_to(*event.stream, event.position);
    return fault;
  }
  int query(void* handle) {
    const auto& event = *static_cast<StandInEvent*>(handle);
    if (event.stream == nullptr || event.stream->done >= event.position) return fault;
    drain_to(*event.stream, event.stream->done + 1);
    return 600;  // not ready
  }
  int wait_in_stream(void* stream_handle, void* event_handle) {
    auto& stream = *static_cast<StandInStream*>(stream_handle);
    const auto& event = *static_cast<StandInEvent*>(event_handle);
    if (event.stream == nullptr) refused = "a wait for an event that nobody recorded";
    if (event.recorded != (capture != nullptr)) {
      refused = "a wait into or out of a recording";
      return 905;
    }
    if (event.recorded) {
      stream.recorded = true;
      stream.frontier.insert(event.frontier.begin(), event.frontier.end());
    } else {
      enqueue(stream_handle, [this, from = event.stream, position = event.position] { drain_to(*from, position); });
    }
    return 0;
  }
  int begin_capture(void* handle) {
    if (capture != nullptr) return 901;
    capture = new StandInGraph;
    capturing = static_cast<StandInStream*>(handle);
    capturing->recorded = true;
    return 0;
  }
  int end_capture(void* handle, void** graph) {
    if (capture == nullptr || capturing != handle) return 901;
    // What the stream it began in comes after, by whatever way.
    std::set<size_t> joined = capturing->frontier;
    for (size_t n = capture->nodes.size(); n-- > 0;)
      if (joined.contains(n)) joined.insert(capture->nodes[n].after.begin(), capture->nodes[n].after.end());
    const bool complete = joined.size() == capture->nodes.size();
    for (StandInStream* stream : open_streams) {
      stream->recorded = false;
      stream->frontier.clear();
    }
    *graph = std::exchange(capture, nullptr);
    ++graphs;
    if (complete) return 0;
    release_graph(std::exchange(*graph, nullptr));
    return 904;
  }
  void* instantiate(void* graph) {
    ++graphs;
    return new StandInGraph(*static_cast<StandInGraph*>(graph));
  }
  void launch_graph(void* executable, void* stream) {
    enqueue(stream, [graph = *static_cast<StandInGraph*>(executable)] { graph.run(); });
    ++replays;
  }
  void release_graph(void* graph) {
    delete static_cast<StandInGraph*>(graph);
    --graphs;
  }

  StandInModule* load(const std::string& image, const std::string& first_word) {
    std::vector<std::string> words(1);
    std::string module_target;
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
    std::smatch target;
    if (std::regex_search(image, target, std::regex(R"(\.target (\w+))"))) module_target = target[1];
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
    if (!module_target.empty()) module_targets.insert(module_target);
    return module;
  }

  int launch(const StandInLaunch& call, void* stream) {
    if (launch_result != 0 || fault != 0) return fault != 0 ? fault : launch_result;
    if (computes_nothing) return 0;
    launches.push_back(call);
    enqueue(stream, [this, call] {
      if (call.kernel == "crash") fault = 700;
      if (call.kernel == "none" || call.kernel == "crash") return;
      int64_t* target = nullptr;
      int64_t amount = 0;
      const size_t maps = call.kernel.starts_with("map") ? 128 : 0;
      std::memcpy(static_cast<void*>(&target), call.arguments.data() + maps, 8);
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
