// What a compiled graph is for given sizes: instructions on a device's queues, over buffers at fixed places.
//
// Instructions of one queue run in the order of the list. Those of different queues run beside one another, ordered by
// signals and waits alone: what a queue is given after a Wait runs when the instruction that sets the signal, and what
// its own queue was given before, has ended. A program begins and ends on the compute queue: what else was queued there
// before it comes before all of it, and what is queued there afterwards comes after all of it.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "causeway/communicator/communicator.h"
#include "causeway/device/device.h"
#include "causeway/graph/graph.h"

namespace causeway::program {

// A piece of memory that instructions work on. The caller's buffers overlap neither each other nor the arena.
struct ProgramBuffer {
  // kHostArena: as kArena, in the host's memory. kTaskCounter: what kernels take their tasks from
  // (KernelArgument::Kind), one for all programs that share an arena.
  enum class Place { kArena, kHostArena, kInput, kOutput, kTaskCounter };
  Place place = Place::kArena;
  // Of an arena: offset in bytes; kInput and kOutput: the position among the program's; otherwise 0.
  int64_t at = 0;
  int64_t bytes = 0;
  // In memory of Device::allocate_host(), which copies alone reach.
  bool on_host = false;
};

// What a buffer may hold.
struct Content {
  Value value;       // of the graph; not valid for the workspace of a kernel and for its task counter
  std::string text;  // "dot bf16[4096, 3072] (layers.0.mlp)"
};

// A buffer, and what it holds: an index into LoweredProgram::buffers and one into LoweredProgram::contents.
struct Holding {
  int buffer = 0;
  int content = 0;
  bool operator==(const Holding&) const = default;
};

// A Holding that an instruction reads, or makes true.
struct Access {
  Holding holding;
  bool written = false;
};

// The index of a signal. The first is set where the program begins, on the compute queue.
using Signal = int;
constexpr Signal kNoSignal = -1;
constexpr Signal kBegin = 0;

// A generated kernel: its phases, one after the other.
struct Launch {
  struct Phase {
    DeviceKernel entry = nullptr;
    int64_t tasks = 0;
    int64_t scratch_bytes = 0;
    int threads = 1;
    int shared_bytes = 0;
    int cluster = 1;
    bool persistent = false;
  };
  size_t kernel = 0;             // position among the program's kernels
  std::vector<Access> accesses;  // the kernel's arguments, in their order
  std::vector<int64_t> sizes;
  std::vector<TensorMap> tensor_maps;  // TensorMap::buffer counts them
  std::vector<Phase> phases;           // those with tasks
  // Contents that it reads and may write other content over: it has read an element before it writes there.
  std::vector<int> overwrites;
};

// On the device, or between the device and the host.
struct Copy {
  Holding from;
  int to = 0;  // a buffer, which holds from's content then
  int64_t bytes = 0;
};

// Collectives of one kind over one group of ranks, in one go: none of them reads what another one writes. All ranks
// have the same ones in the same order.
struct Collectives {
  struct Part {
    size_t kernel = 0;  // position among the program's kernels
    Collective collective;
    Holding from;
    Holding to;  // in from's buffer where an all_reduce is in place
  };
  std::string group;  // of the mesh: what group_name() gives
  int ranks = 0;      // of the group
  std::vector<Part> parts;
};

// Of a rank's larger buffer.
int64_t larger_bytes(const Collectives::Part& part, int ranks);

// One end of a message between this rank and the one of another stage that has the same coordinates otherwise.
struct StageMessage {
  size_t kernel = 0;  // position among the program's kernels
  bool sends = false;
  int64_t stage = 0;  // the other's
  int stream = 0;
  int64_t count = 0;
  DType dtype = DType::kF32;
  Holding holding;   // what it reads, or makes true
  std::string name;  // "activations 3"
};

struct Wait {
  Signal signal = kNoSignal;
};

struct Instruction {
  DeviceQueue queue = kComputeQueue;
  std::variant<Launch, Copy, Collectives, StageMessage, Wait> work;
  Signal sets = kNoSignal;  // when it has ended

  // What it needs and what it makes true, in this order for each of several parts. Empty for a Wait.
  std::vector<Access> accesses() const;
};

struct LoweredProgram {
  std::vector<ProgramBuffer> buffers;
  std::vector<Content> contents;
  std::vector<Instruction> instructions;
  std::vector<Holding> initial;  // what the caller's buffers hold before it runs
  std::vector<Holding> results;  // what they hold afterwards
  int signals = 1;               // how many there are
  int64_t arena_bytes = 0;
  int64_t host_arena_bytes = 0;
};

// "launch of kernel 3 on the compute queue", "all_reduce over dp of kernel 5 on the compute queue".
std::string describe(const Instruction& instruction);
// "the compute queue", "the copy queue", "queue 2".
std::string queue_name(DeviceQueue queue);

}  // namespace causeway::program
