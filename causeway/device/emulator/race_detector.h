// Conflicting accesses to memory with nothing that orders them. Every thread of a cluster has a vector clock (Mattern
// 1989; FastTrack, Flanagan and Freund 2009): two accesses are ordered when the later thread's clock has seen the
// earlier one's epoch. Threads of different clusters are never ordered within a launch.
//
// Memory is remembered in words of four bytes, each with its last write and two reads: there are no false reports, and
// races of several threads over the parts of one word may be missed.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::device {

// Where an access comes from: an offset in the image, or one of these.
enum AccessPlace : uint32_t {
  kUnknownPlace,
  kCopyAsyncPlace,
  kLoadMatricesPlace,
  kTensorLoadPlace,
  kStoreInBlockPlace,
  kTensorStorePlace,
  kFirstImagePlace = 64
};

struct AccessRecord {
  uint32_t cluster = 0;
  uint32_t epoch = 0;
  uint32_t place = kUnknownPlace;
  uint16_t thread = 0;  // in its cluster, from 1; 0: no access
  uint8_t bytes = 0;    // mask of the word's four
  uint8_t padding = 0;
};

struct WordHistory {
  AccessRecord write;
  std::array<AccessRecord, 2> reads;
};

// An access that conflicts with the one at hand.
struct Race {
  AccessRecord other;
  bool other_writes = false;
  uintptr_t address = 0;  // of the word; an offset in shared memory
};

// What a launch did to device memory. Shared by the host's threads.
class GlobalHistory {
 public:
  static constexpr uintptr_t kPageWords = 1024;
  struct Page {
    std::mutex mutex;
    std::array<WordHistory, kPageWords> words;
  };
  // The page that holds that word of memory; valid as long as this.
  Page& page(uintptr_t word);

 private:
  static constexpr size_t kShards = 16;
  struct Shard {
    std::mutex mutex;
    std::unordered_map<uintptr_t, std::unique_ptr<Page>> pages;
  };
  std::array<Shard, kShards> shards_;
};

// The races of one cluster that is running. Threads are numbered across its blocks.
class RaceDetector {
 public:
  // An object through which threads hand over what they have done: an mbarrier, a named barrier.
  using Channel = std::pair<int, int>;

  void begin(uint32_t cluster, int threads, int blocks, size_t shared_bytes, GlobalHistory& global);

  std::optional<Race> shared_access(int block, uint32_t offset, uint32_t bytes, bool writes, int thread,
                                    uint32_t place);
  std::optional<Race> global_access(uintptr_t address, size_t bytes, bool writes, int thread, uint32_t place);

  // A barrier of threads [first, first + count): what each did before it is seen by all after it.
  void synchronize(int first, int count);
  void release(int thread, Channel channel);
  void acquire(int thread, Channel channel);

 private:
  std::span<uint32_t> clock(int thread) { return {clocks_.data() + static_cast<size_t>(thread) * threads_, threads_}; }
  bool is_ordered(const AccessRecord& record, int thread) const;
  std::optional<Race> access(WordHistory& word, const AccessRecord& now, bool writes, uintptr_t address);

  uint32_t cluster_ = 0;
  size_t threads_ = 0;
  std::vector<uint32_t> clocks_;  // threads x threads: what each has seen of each
  std::vector<uint32_t> joined_;
  std::map<Channel, std::vector<uint32_t>> channels_;
  std::vector<std::vector<WordHistory>> shared_;
  GlobalHistory* global_ = nullptr;
  uintptr_t last_page_number_ = 0;
  GlobalHistory::Page* last_page_ = nullptr;
};

}  // namespace causeway::device
