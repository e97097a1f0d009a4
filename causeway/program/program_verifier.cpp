#include "causeway/program/program_verifier.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "causeway/base/error.h"
#include "causeway/program/instruction_order.h"
#include "causeway/program/memory_plan.h"

namespace causeway::program {
namespace {

using Position = InstructionOrder::Position;

class Verifier {
 public:
  explicit Verifier(const LoweredProgram& program) : program_(program), order_(program.instructions) {}

  std::vector<std::string> faults() {
    check_signals();
    check_queues();
    check_bounds();
    // What follows indexes buffers by accesses.
    if (!faults_.empty()) return std::move(faults_);
    collect_lives();
    check_reads();
    check_memory();
    return std::move(faults_);
  }

 private:
  // A content in a buffer: who puts it there and who reads it.
  struct Life {
    Holding holding;
    std::optional<Position> writer;
    std::vector<Position> readers;       // in the order of the list
    std::vector<Position> last_readers;  // the last of each queue
  };

  template <typename... Arguments>
  void fault(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
    faults_.push_back(fmt::format(text, std::forward<Arguments>(arguments)...));
  }
  std::string name(Position position) const {
    if (position == InstructionOrder::kStart) return "the program's begin";
    if (position == order_.end()) return "the program's end";
    return fmt::format("instruction {} ({})", position, describe(program_.instructions[static_cast<size_t>(position)]));
  }
  std::string name(const Holding& holding) const {
    return fmt::format("{} in buffer {}", program_.contents[static_cast<size_t>(holding.content)].text, holding.buffer);
  }

  void check_signals() {
    std::map<Signal, Position> set = {{kBegin, InstructionOrder::kStart}};
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      const Instruction& instruction = program_.instructions[i];
      const auto position = static_cast<Position>(i);
      if (const auto* wait = std::get_if<Wait>(&instruction.work); wait != nullptr && !set.contains(wait->signal))
        fault("{}: nothing before it sets the signal", name(position));
      if (instruction.sets == kNoSignal) continue;
      if (instruction.sets < 0 || instruction.sets >= program_.signals)
        fault("{} sets signal {} of {}", name(position), instruction.sets, program_.signals);
      if (const auto [known, inserted] = set.try_emplace(instruction.sets, position); !inserted)
        fault("{} sets signal {}, which {} sets", name(position), instruction.sets, name(known->second));
    }
  }

  void check_queues() {
    std::set<DeviceQueue> begun;
    std::map<DeviceQueue, Position> last;
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      const Instruction& instruction = program_.instructions[i];
      if (std::holds_alternative<Wait>(instruction.work)) continue;
      const auto position = static_cast<Position>(i);
      if (begun.insert(instruction.queue).second && !order_.before(InstructionOrder::kStart, position))
        fault("{} may run before the program begins", name(position));
      last[instruction.queue] = position;
    }
    for (const auto& [queue, position] : last)
      if (!order_.before(position, order_.end())) fault("{} may run when the program has ended", name(position));
  }

  void check_bounds() {
    for (size_t b = 0; b < program_.buffers.size(); ++b) {
      const ProgramBuffer& buffer = program_.buffers[b];
      const bool on_host = buffer.place == ProgramBuffer::Place::kHostArena;
      if (on_host && !buffer.on_host) fault("buffer {} is of the host's arena and not on the host", b);
      if (buffer.place != ProgramBuffer::Place::kArena && !on_host) continue;
      const int64_t arena_bytes = on_host ? program_.host_arena_bytes : program_.arena_bytes;
      if (buffer.at < 0 || buffer.at % kArenaAlignment != 0 || buffer.bytes < 0 ||
          buffer.at + buffer.bytes > arena_bytes)
        fault("buffer {} of {} bytes lies at {} of the arena's {}", b, buffer.bytes, buffer.at, arena_bytes);
    }
    const auto known = [&](const Holding& holding) {
      return holding.buffer >= 0 && static_cast<size_t>(holding.buffer) < program_.buffers.size() &&
             holding.content >= 0 && static_cast<size_t>(holding.content) < program_.contents.size();
    };
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      const Instruction& instruction = program_.instructions[i];
      const std::vector<Access> accesses = instruction.accesses();
      if (!std::all_of(accesses.begin(), accesses.end(), [&](const Access& o) { return known(o.holding); })) {
        fault("{} names a buffer or a content that is not there", name(static_cast<Position>(i)));
        continue;
      }
      const auto* copy = std::get_if<Copy>(&instruction.work);
      if (copy == nullptr && std::ranges::any_of(accesses, [&](const Access& o) { return buffer(o.holding).on_host; }))
        fault("{} reaches into the host's memory", name(static_cast<Position>(i)));
      if (copy != nullptr && buffer(copy->from).on_host && buffer({copy->to, 0}).on_host)
        fault("{} is from one place of the host's memory to another", name(static_cast<Position>(i)));
      if (copy != nullptr && std::min(buffer(copy->from).bytes, buffer({copy->to, 0}).bytes) < copy->bytes)
        fault("{} is of {} bytes, more than one of them has", name(static_cast<Position>(i)), copy->bytes);
      const auto* collectives = std::get_if<Collectives>(&instruction.work);
      const auto* message = std::get_if<StageMessage>(&instruction.work);
      if (message != nullptr &&
          buffer(message->holding).bytes != message->count * static_cast<int64_t>(size_bytes(message->dtype)))
        fault("{}: buffer {} does not have what the stages exchange", name(static_cast<Position>(i)),
              message->holding.buffer);
      if (collectives != nullptr) check_collectives(*collectives, static_cast<Position>(i));
    }
  }

  void check_collectives(const Collectives& collectives, Position position) {
    if (collectives.parts.empty() || collectives.ranks < 1 || collectives.group.empty()) {
      fault("instruction {} is of no collectives or no ranks", position);
      return;
    }
    std::set<int> written;
    for (const Collectives::Part& part : collectives.parts) {
      const Collective& collective = part.collective;
      const auto bytes = [&](int64_t count) { return count * static_cast<int64_t>(size_bytes(collective.dtype)); };
      if (collective.kind != collectives.parts.front().collective.kind) fault("{} is of several kinds", name(position));
      if (buffer(part.from).bytes != bytes(collective.sent(collectives.ranks)) ||
          buffer(part.to).bytes != bytes(collective.received(collectives.ranks)))
        fault("{}: buffers {} and {} do not have what {} ranks exchange", name(position), part.from.buffer,
              part.to.buffer, collectives.ranks);
      written.insert(part.to.buffer);
    }
    for (const Collectives::Part& part : collectives.parts)
      if (written.contains(part.from.buffer) && part.from.buffer != part.to.buffer)
        fault("{}: one part reads what another writes", name(position));
  }

  const ProgramBuffer& buffer(const Holding& holding) const {
    return program_.buffers[static_cast<size_t>(holding.buffer)];
  }

  Life& life(const Holding& holding) {
    const auto [entry, inserted] = index_.try_emplace({holding.buffer, holding.content}, lives_.size());
    if (inserted) lives_.push_back({holding, std::nullopt, {}, {}});
    return lives_[entry->second];
  }
  void written(const Holding& holding, Position position) {
    Life& life = this->life(holding);
    if (life.writer) {
      fault("{} and {} both write {}", name(*life.writer), name(position), name(holding));
    } else {
      life.writer = position;
    }
  }

  void collect_lives() {
    for (const Holding& holding : program_.initial) written(holding, InstructionOrder::kStart);
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      for (const Access& access : program_.instructions[i].accesses()) {
        if (access.written) {
          written(access.holding, static_cast<Position>(i));
        } else {
          life(access.holding).readers.push_back(static_cast<Position>(i));
        }
      }
    }
    for (const Holding& holding : program_.results) life(holding).readers.push_back(order_.end());
    for (Life& life : lives_) {
      std::map<DeviceQueue, Position> last;
      for (const Position reader : life.readers) last[order_.queue_of(reader)] = reader;
      for (const auto& [queue, reader] : last) life.last_readers.push_back(reader);
    }
  }

  void check_reads() {
    for (const Life& life : lives_) {
      for (const Position reader : life.readers) {
        if (!life.writer) {
          fault("{} reads {}, which nothing writes", name(reader), name(life.holding));
        } else if (!order_.before(*life.writer, reader)) {
          fault("{} reads {}, which {} may write later", name(reader), name(life.holding), name(*life.writer));
        }
      }
    }
  }

  // Whether nobody needs the first any more where the second is written. What cannot be said is somebody's who reads
  // the first and writes the second, but for a kernel and an all_reduce that may do so.
  bool ended_before(const Life& first, const Life& second) const {
    const Position next = *second.writer;
    if (!order_.before(*first.writer, next)) return false;
    return std::all_of(first.last_readers.begin(), first.last_readers.end(), [&](Position reader) {
      return order_.before(reader, next) || (reader == next && may_overwrite(reader, first, second));
    });
  }
  bool may_overwrite(Position position, const Life& first, const Life& second) const {
    if (position == order_.end() || position == InstructionOrder::kStart) return false;
    const ProgramBuffer &from = buffer(first.holding), &to = buffer(second.holding);
    if (from.at != to.at || from.bytes != to.bytes) return false;
    const Instruction& instruction = program_.instructions[static_cast<size_t>(position)];
    if (const auto* collectives = std::get_if<Collectives>(&instruction.work))
      return std::any_of(collectives->parts.begin(), collectives->parts.end(), [&](const Collectives::Part& part) {
        return part.collective.kind == CollectiveKind::kAllReduce && part.from == first.holding &&
               part.to == second.holding;
      });
    const auto* launch = std::get_if<Launch>(&instruction.work);
    return launch != nullptr && std::find(launch->overwrites.begin(), launch->overwrites.end(),
                                          first.holding.content) != launch->overwrites.end();
  }

  void check_pair(const Life& first, const Life& second) {
    if (!first.writer || !second.writer || ended_before(first, second) || ended_before(second, first)) return;
    fault("{}, written by {}, and {}, written by {}, share memory and are in use at the same time", name(first.holding),
          name(*first.writer), name(second.holding), name(*second.writer));
  }

  void check_memory() {
    std::vector<std::tuple<ProgramBuffer::Place, int64_t, size_t>> by_place;
    for (size_t l = 0; l < lives_.size(); ++l)
      if (const ProgramBuffer& memory = buffer(lives_[l].holding); memory.bytes > 0)
        by_place.emplace_back(memory.place, memory.at, l);
    std::sort(by_place.begin(), by_place.end());
    for (size_t i = 0; i < by_place.size(); ++i) {
      const auto& [place, at, first] = by_place[i];
      // Each of the caller's buffers is a place of its own.
      const bool in_arena = place == ProgramBuffer::Place::kArena || place == ProgramBuffer::Place::kHostArena;
      const int64_t bytes = in_arena ? buffer(lives_[first].holding).bytes : 1;
      for (size_t j = i + 1; j < by_place.size(); ++j) {
        const auto& [other_place, other_at, second] = by_place[j];
        if (other_place != place || other_at >= at + bytes) break;
        check_pair(lives_[first], lives_[second]);
      }
    }
  }

  const LoweredProgram& program_;
  InstructionOrder order_;
  std::vector<std::string> faults_;
  std::vector<Life> lives_;
  std::map<std::pair<int, int>, size_t> index_;  // by buffer and content
};

}  // namespace

std::vector<std::string> find_faults(const LoweredProgram& program) { return Verifier(program).faults(); }

void verify(const LoweredProgram& program) {
  const std::vector<std::string> faults = find_faults(program);
  CAUSEWAY_CHECK(faults.empty(), "a program with {} faults: {}", faults.size(), faults.front());
}

}  // namespace causeway::program
