#include "causeway/program/buffer_places.h"

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "causeway/program/memory_plan.h"

namespace causeway::program {
namespace {

// More takes so long to be summed up that another call makes no difference.
constexpr int64_t kSmallSumBytes = int64_t{1} << 20;

// Buffers that lie side by side, in their order.
using Neighbours = std::vector<int>;

class BufferPlaces {
 public:
  explicit BufferPlaces(LoweredProgram& program) : program_(program), order_(program.instructions) {}

  // Returns the bytes that they take together.
  int64_t place(ProgramBuffer::Place arena) {
    const std::vector<Neighbours> places = places_in(arena);
    std::map<int, size_t> place_of;
    for (size_t p = 0; p < places.size(); ++p)
      for (const int buffer : places[p]) place_of[buffer] = p;
    std::vector<PlannedBuffer> planned(places.size());
    for (const auto& [buffer, p] : place_of) planned[p].bytes += at(buffer).bytes;
    for (size_t i = 0; i < program_.instructions.size(); ++i)
      for (const Access& access : program_.instructions[i].accesses())
        if (const auto known = place_of.find(access.holding.buffer); known != place_of.end())
          planned[known->second].uses.push_back(static_cast<int>(i));
    const int64_t bytes = plan_memory(planned, order_);
    for (size_t p = 0; p < places.size(); ++p) {
      int64_t offset = planned[p].offset;
      for (const int buffer : places[p]) {
        at(buffer).at = offset;
        offset += at(buffer).bytes;
      }
    }
    return bytes;
  }

 private:
  ProgramBuffer& at(int buffer) { return program_.buffers[static_cast<size_t>(buffer)]; }
  const ProgramBuffer& at(int buffer) const { return program_.buffers[static_cast<size_t>(buffer)]; }

  // Of small sums over ranks that go together and are made in place, so that one call does for them
  // (Executor::exchange).
  std::vector<Neighbours> neighbouring_sums() const {
    std::vector<Neighbours> neighbours;
    std::set<int> found;
    for (const Instruction& instruction : program_.instructions) {
      const auto* collectives = std::get_if<Collectives>(&instruction.work);
      if (collectives == nullptr || collectives->parts.size() < 2) continue;
      Neighbours sums;
      for (const Collectives::Part& part : collectives->parts) {
        const int buffer = part.to.buffer;
        const int64_t bytes = at(buffer).bytes;
        if (part.collective.kind == CollectiveKind::kAllReduce && part.from.buffer == buffer &&
            at(buffer).place == ProgramBuffer::Place::kArena && bytes <= kSmallSumBytes &&
            bytes % kArenaAlignment == 0 && found.insert(buffer).second)
          sums.push_back(buffer);
      }
      if (!sums.empty()) neighbours.push_back(std::move(sums));
    }
    return neighbours;
  }

  std::vector<Neighbours> places_in(ProgramBuffer::Place arena) const {
    std::vector<Neighbours> places;
    if (arena == ProgramBuffer::Place::kArena) places = neighbouring_sums();
    std::set<int> placed;
    for (const Neighbours& one : places) placed.insert(one.begin(), one.end());
    for (size_t b = 0; b < program_.buffers.size(); ++b) {
      const auto buffer = static_cast<int>(b);
      if (at(buffer).place == arena && placed.insert(buffer).second) places.push_back({buffer});
    }
    return places;
  }

  LoweredProgram& program_;
  const InstructionOrder order_;
};

}  // namespace

void place_buffers(LoweredProgram& program) {
  BufferPlaces places(program);
  program.arena_bytes = places.place(ProgramBuffer::Place::kArena);
  program.host_arena_bytes = places.place(ProgramBuffer::Place::kHostArena);
}

}  // namespace causeway::program
