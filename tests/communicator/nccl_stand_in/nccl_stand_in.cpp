// The functions of libnccl.so.2 that NcclCommunicator uses, without a GPU: calls are written down.
#include "tests/communicator/nccl_stand_in/nccl_stand_in.h"

#include <cstdlib>
#include <cstring>
#include <mutex>

namespace {

struct Rank {
  int number = 0;
};
NcclStandIn state;
std::mutex mutex;  // ranks may be threads

int note(const char* function, const void* from, void* to, size_t count, int type, int detail, void* communicator,
         void* stream) {
  const std::lock_guard lock(mutex);
  state.calls.push_back({function, from, to, count, type, detail, static_cast<Rank*>(communicator)->number, stream});
  return state.call_result;
}

}  // namespace

extern "C" {

NcclStandIn* nccl_stand_in() { return &state; }

int ncclGetVersion(int* version) { return *version = state.version, 0; }
const char* ncclGetErrorString(int result) { return result == 5 ? "invalid usage" : "unhandled system error"; }
const char* ncclGetLastError(void*) { return state.call_result != 0 ? "said more about it" : ""; }

int ncclCommInitAll(void** communicators, int count, const int* devices) {
  const char* nvls = std::getenv("NCCL_NVLS_ENABLE");
  state.nvls_at_start = nvls != nullptr ? nvls : "";
  state.devices.assign(devices, devices + count);
  if (state.init_result != 0) return state.init_result;
  for (int rank = 0; rank < count; ++rank) communicators[rank] = new Rank{rank};
  state.communicators += count;
  return 0;
}
int ncclGetUniqueId(NcclUniqueId* id) {
  const std::lock_guard lock(mutex);
  std::memset(id, 0, sizeof *id);
  id->bytes[0] = static_cast<char>(++state.identities);
  return state.identity_result;
}
int ncclCommInitRank(void** communicator, int count, NcclUniqueId id, int rank) {
  const std::lock_guard lock(mutex);
  if (state.has_gpu && !state.has_gpu()) return 5;
  state.ends.insert({id.bytes[0], count, rank});
  *communicator = new Rank{rank};
  return ++state.communicators, 0;
}
int ncclCommDestroy(void* communicator) {
  const std::lock_guard lock(mutex);
  delete static_cast<Rank*>(communicator);
  return --state.communicators, 0;
}
int ncclCommAbort(void* communicator) {
  const std::lock_guard lock(mutex);
  ++state.aborted;
  delete static_cast<Rank*>(communicator);
  return --state.communicators, 0;
}

int ncclGroupStart() {
  const std::lock_guard lock(mutex);
  state.calls.push_back({.function = "group {"});
  return 0;
}
int ncclGroupEnd() {
  const std::lock_guard lock(mutex);
  state.calls.push_back({.function = "}"});
  return state.group_result;
}

int ncclAllReduce(const void* from, void* to, size_t count, int type, int operation, void* communicator, void* stream) {
  return note("ncclAllReduce", from, to, count, type, operation, communicator, stream);
}
int ncclReduceScatter(const void* from, void* to, size_t count, int type, int operation, void* communicator,
                      void* stream) {
  return note("ncclReduceScatter", from, to, count, type, operation, communicator, stream);
}
int ncclAllGather(const void* from, void* to, size_t count, int type, void* communicator, void* stream) {
  return note("ncclAllGather", from, to, count, type, 0, communicator, stream);
}
int ncclBroadcast(const void* from, void* to, size_t count, int type, int root, void* communicator, void* stream) {
  return note("ncclBroadcast", from, to, count, type, root, communicator, stream);
}
int ncclSend(const void* from, size_t count, int type, int peer, void* communicator, void* stream) {
  return note("ncclSend", from, nullptr, count, type, peer, communicator, stream);
}
int ncclRecv(void* to, size_t count, int type, int peer, void* communicator, void* stream) {
  return note("ncclRecv", nullptr, to, count, type, peer, communicator, stream);
}

}  // extern "C"
