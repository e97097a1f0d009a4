#include "causeway/program/program_memory.h"

#include <algorithm>
#include <map>

namespace causeway::program {
namespace {

constexpr size_t kLargest = 10;

}  // namespace

ProgramMemory count_memory(const LoweredProgram& program) {
  ProgramMemory memory;
  memory.arena_bytes = program.arena_bytes;
  memory.host_arena_bytes = program.host_arena_bytes;
  for (const ProgramBuffer& buffer : program.buffers) {
    if (buffer.place == ProgramBuffer::Place::kInput)
      (buffer.on_host ? memory.host_input_bytes : memory.input_bytes) += buffer.bytes;
    if (buffer.place == ProgramBuffer::Place::kOutput) memory.output_bytes += buffer.bytes;
    if (buffer.place == ProgramBuffer::Place::kTaskCounter) memory.task_counter_bytes = buffer.bytes;
  }
  std::map<int, int> first_content;  // by buffer of the arena
  for (const Instruction& instruction : program.instructions) {
    for (const Access& access : instruction.accesses()) {
      const auto [buffer, content] = access.holding;
      if (access.written && program.buffers[static_cast<size_t>(buffer)].place == ProgramBuffer::Place::kArena &&
          program.contents[static_cast<size_t>(content)].value.valid())
        first_content.try_emplace(buffer, content);
    }
  }
  std::vector<std::pair<int64_t, int>> by_size;  // minus the bytes, and the buffer
  for (const auto& [buffer, content] : first_content)
    by_size.emplace_back(-program.buffers[static_cast<size_t>(buffer)].bytes, buffer);
  std::sort(by_size.begin(), by_size.end());
  for (size_t i = 0; i < std::min(kLargest, by_size.size()); ++i) {
    const int content = first_content.at(by_size[i].second);
    memory.largest.push_back({program.contents[static_cast<size_t>(content)].text, -by_size[i].first});
  }
  return memory;
}

}  // namespace causeway::program
