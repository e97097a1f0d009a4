// What the stand-in for libnccl.so.2 was asked.
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

struct NcclCall {
  std::string function;  // "ncclAllReduce"
  const void* from = nullptr;
  void* to = nullptr;
  size_t count = 0;
  int type = 0;
  int detail = 0;  // operation, root or peer
  int rank = 0;
  void* stream = nullptr;

  bool operator==(const NcclCall&) const = default;
};

struct NcclUniqueId {
  char bytes[128];
};

struct NcclStandIn {
  // What it pretends.
  int version = 22705;
  int init_result = 0;
  int identity_result = 0;
  int call_result = 0;   // of every operation
  int group_result = 0;  // of ncclGroupEnd
  // Whether the calling thread has a GPU: ncclCommInitRank fails without.
  std::function<bool()> has_gpu;

  std::vector<int> devices;     // of ncclCommInitAll
  std::string nvls_at_start;    // NCCL_NVLS_ENABLE then
  std::vector<NcclCall> calls;  // with "group {" and "}" between them
  int communicators = 0;        // alive
  int aborted = 0;
  int identities = 0;
  std::set<std::tuple<int, int, int>> ends;  // identity, ranks, rank: of ncclCommInitRank
};
