#include "causeway/codegen/checks/gcn_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "causeway/codegen/checks/gcn_disassembly.h"
#include "causeway/codegen/checks/gcn_wait_states.h"
#include "causeway/codegen/compile/elf_reader.h"
#include "causeway/device/gpu_architecture.h"

namespace causeway::codegen {
namespace {

// The largest counts that s_waitcnt waits for; one more stands for no wait.
constexpr int kMostVector = 62, kMostShared = 14;

// The accesses that are counted together and end in order, and those that end in any.
enum GcnKind { kVector, kShared, kScalar, kFlatVector, kFlatShared, kRecent, kKinds };

// Instructions of one kind that may be under way, or close by, each with the fewest that followed it on any path: of
// kVector and kShared the number of accesses of the same kind, of kRecent of wait states.
class Track {
 public:
  struct Entry {
    uint32_t instruction;
    int behind;
    bool operator==(const Entry&) const = default;
  };

  const std::vector<Entry>& entries() const { return entries_; }
  void clear() { entries_.clear(); }

  // An access follows; however many do, `most` is the largest count to wait for.
  void count_access(int most) {
    for (Entry& entry : entries_) entry.behind = std::min(entry.behind + 1, most);
  }
  void pass_wait_states(int states) {
    for (Entry& entry : entries_) entry.behind += states;
    keep_below(kMostWaitStates);
  }
  void keep_below(int most) {
    std::erase_if(entries_, [&](const Entry& entry) { return entry.behind >= most; });
  }
  void add(uint32_t instruction, int behind = 0) {
    const auto at = std::ranges::lower_bound(entries_, instruction, {}, &Entry::instruction);
    if (at != entries_.end() && at->instruction == instruction)
      at->behind = std::min(at->behind, behind);
    else
      entries_.insert(at, {instruction, behind});
  }
  // True when `other` says something that is not known here.
  bool merge(const Track& other) {
    const std::vector<Entry> before = entries_;
    for (const Entry& entry : other.entries_) add(entry.instruction, entry.behind);
    return entries_ != before;
  }

 private:
  std::vector<Entry> entries_;  // by instruction
};

using GcnState = std::array<Track, kKinds>;

enum class Memory : uint8_t { kNone, kVector, kShared, kScalar, kFlat };

// What the paths need to know of an instruction, found out once.
struct Facts {
  Memory memory = Memory::kNone;
  std::vector<GcnRegisters> loaded;  // registers that it writes when it ends
  bool accesses_shared = false;      // LDS
  bool is_barrier = false, is_wait = false;
  int vector_count = 0, shared_count = 0;  // of a wait
  int reach = 0, wait_states = 1;
  std::optional<uint32_t> target;  // the instruction that it may jump to
  bool falls_through = true;
};

class FunctionChecker {
 public:
  FunctionChecker(const GcnFunction& function, std::string_view processor)
      : function_(function), rules_{gpu_architecture(processor).has_cdna3_wait_states} {
    result_.function = function.name;
    result_.instructions = static_cast<int>(function.instructions.size());
  }

  FunctionCheck run() {
    for (const uint32_t offset : function_.unreadable)
      report(offset, "", "is no instruction of this processor: what follows is not checked");
    for (uint32_t i = 0; i < count(); ++i) index_by_offset_[function_.instructions[i].offset] = i;
    for (uint32_t i = 0; i < count(); ++i) facts_.push_back(facts_of(i));
    follow_paths();
    for (auto& [key, finding] : findings_) result_.findings.push_back(std::move(finding));
    return std::move(result_);
  }

 private:
  uint32_t count() const { return static_cast<uint32_t>(function_.instructions.size()); }

  void report(uint64_t offset, const std::string& instruction, std::string fault) {
    findings_.try_emplace({offset, fault}, CodeFinding{offset, instruction, fault});
  }
  void report_at(uint32_t index, std::string fault) {
    const GcnInstruction& instruction = function_.instructions[index];
    report(instruction.offset, instruction.text, std::move(fault));
  }
  std::string place_of(uint32_t index) const {
    const GcnInstruction& instruction = function_.instructions[index];
    return fmt::format("{} at +{:#x}", instruction.text, instruction.offset);
  }

  Facts facts_of(uint32_t index) {
    const GcnInstruction& instruction = function_.instructions[index];
    Facts facts;
    facts.wait_states = wait_states(instruction);
    facts.reach = codegen::reach(instruction, rules_);
    facts.memory = instruction.is_vector_memory()   ? Memory::kVector
                   : instruction.is_flat()          ? Memory::kFlat
                   : instruction.is_shared()        ? Memory::kShared
                   : instruction.is_scalar_memory() ? Memory::kScalar
                                                    : Memory::kNone;
    if (facts.memory != Memory::kNone)
      for (const GcnOperand& operand : instruction.operands)
        if (operand.written) facts.loaded.push_back(operand.registers);
    // Permutations pass through LDS's crossbar and leave what it holds alone.
    const bool permutes = instruction.starts_with("ds_bpermute") || instruction.starts_with("ds_permute") ||
                          instruction.starts_with("ds_swizzle") || instruction.starts_with("ds_nop");
    facts.accesses_shared =
        (facts.memory == Memory::kShared && !permutes) || facts.memory == Memory::kFlat ||
        (facts.memory == Memory::kVector &&
         (instruction.mnemonic.find("_lds_") != std::string::npos || instruction.text.ends_with(" lds") ||
          instruction.text.find(" lds ") != std::string::npos));
    if (instruction.mnemonic == "s_barrier") {
      facts.is_barrier = true;
      ++result_.barriers;
    }
    if (instruction.mnemonic == "s_waitcnt") {
      // vmcnt is in bits 3:0 and 15:14, expcnt in 6:4, lgkmcnt in 11:8.
      const auto bits = static_cast<uint32_t>(instruction.immediate);
      facts.is_wait = true;
      facts.vector_count = static_cast<int>((bits & 15) | (bits >> 14 & 3) << 4);
      facts.shared_count = static_cast<int>(bits >> 8 & 15);
    }
    find_successors(index, facts);
    return facts;
  }

  void find_successors(uint32_t index, Facts& facts) {
    const GcnInstruction& instruction = function_.instructions[index];
    if (instruction.starts_with("s_endpgm")) {
      facts.falls_through = false;
    } else if (instruction.starts_with("s_setpc") || instruction.starts_with("s_swappc") ||
               instruction.starts_with("s_call") || instruction.starts_with("s_rfe") ||
               instruction.starts_with("s_cbranch_g_fork") || instruction.starts_with("s_cbranch_i_fork") ||
               instruction.starts_with("s_cbranch_join") || instruction.starts_with("s_subvector")) {
      report_at(index, "the path cannot be followed: what comes after is not checked");
      facts.falls_through = false;
    } else if (instruction.starts_with("s_branch") || instruction.starts_with("s_cbranch_")) {
      facts.falls_through = !instruction.starts_with("s_branch");
      const int64_t words = static_cast<int16_t>(instruction.immediate);
      const auto target =
          index_by_offset_.find(static_cast<uint64_t>(instruction.offset + instruction.size + 4 * words));
      if (target == index_by_offset_.end())
        report_at(index, "jumps to what is no instruction of the function");
      else
        facts.target = target->second;
    }
    if (facts.falls_through && index + 1 == count()) {
      report_at(index, "the function ends without s_endpgm");
      facts.falls_through = false;
    }
  }

  // States at the beginnings of straight pieces grow until none does; then each piece is looked at once.
  void follow_paths() {
    if (count() == 0) return;
    std::map<uint32_t, GcnState> states;
    states[0];
    for (const Facts& facts : facts_)
      if (facts.target) states[*facts.target];
    for (uint32_t i = 0; i + 1 < count(); ++i)
      if (facts_[i].target || !facts_[i].falls_through) states[i + 1];
    std::set<uint32_t> waiting = {0}, reached = {0};
    const auto pass_on = [&](uint32_t to, const GcnState& state) {
      bool grows = reached.insert(to).second;
      GcnState& known = states[to];
      for (int kind = 0; kind < kKinds; ++kind) grows |= known[kind].merge(state[kind]);
      if (grows) waiting.insert(to);
    };
    while (!waiting.empty()) {
      const uint32_t first = *waiting.begin();
      waiting.erase(waiting.begin());
      GcnState state = states[first];
      for (uint32_t i = first;; ++i) {
        apply(i, state);
        if (facts_[i].target) pass_on(*facts_[i].target, state);
        if (!facts_[i].falls_through) break;
        if (states.contains(i + 1)) {
          pass_on(i + 1, state);
          break;
        }
      }
    }
    for (const auto& [first, known] : states) {
      if (!reached.contains(first)) continue;
      GcnState state = known;
      for (uint32_t i = first;; ++i) {
        look_at(i, state);
        apply(i, state);
        if (!facts_[i].falls_through || states.contains(i + 1)) break;
      }
    }
  }

  void apply(uint32_t index, GcnState& state) const {
    const Facts& facts = facts_[index];
    if (facts.is_wait) {
      state[kVector].keep_below(facts.vector_count);
      state[kShared].keep_below(facts.shared_count);
      if (facts.vector_count == 0) state[kFlatVector].clear();
      if (facts.shared_count == 0) {
        state[kScalar].clear();
        state[kFlatShared].clear();
      }
    }
    const bool leaves_something = !facts.loaded.empty() || facts.accesses_shared;
    switch (facts.memory) {
      case Memory::kNone:
        break;
      case Memory::kVector:
        state[kVector].count_access(kMostVector);
        if (leaves_something) state[kVector].add(index);
        break;
      case Memory::kShared:
        state[kShared].count_access(kMostShared);
        if (leaves_something) state[kShared].add(index);
        break;
      case Memory::kScalar:
        if (leaves_something) state[kScalar].add(index);
        break;
      case Memory::kFlat:
        state[kFlatVector].add(index);
        state[kFlatShared].add(index);
        break;
    }
    state[kRecent].pass_wait_states(facts.wait_states);
    if (facts.reach > 0) state[kRecent].add(index);
  }

  void look_at(uint32_t index, const GcnState& state) {
    const GcnInstruction& instruction = function_.instructions[index];
    const Facts& facts = facts_[index];
    std::vector<uint32_t> shared_accesses;
    for (const GcnKind kind : {kVector, kShared, kScalar, kFlatVector, kFlatShared}) {
      for (const Track::Entry& entry : state[kind].entries()) {
        const Facts& access = facts_[entry.instruction];
        if (access.accesses_shared) shared_accesses.push_back(entry.instruction);
        const bool in_order = (kind == kVector && facts.memory == Memory::kVector) ||
                              (kind == kShared && facts.memory == Memory::kShared);
        for (const GcnRegisters& loaded : access.loaded) {
          if (instruction.reads(loaded))
            report_at(index, fmt::format("reads a register while the load into it is under way: {}",
                                         place_of(entry.instruction)));
          else if (!in_order && instruction.writes(loaded))
            report_at(index, fmt::format("writes a register while a load into it is under way: {}",
                                         place_of(entry.instruction)));
        }
      }
    }
    if (facts.is_barrier && !shared_accesses.empty()) report_barrier(index, std::move(shared_accesses));
    for (const Track::Entry& entry : state[kRecent].entries()) {
      if (entry.behind >= facts_[entry.instruction].reach) continue;
      const GcnDistance needed = required_distance(function_.instructions[entry.instruction], instruction, rules_);
      if (needed.wait_states > entry.behind)
        report_at(index, fmt::format("{} after {} wait states of {}: {}", needed.reason, entry.behind,
                                     needed.wait_states, place_of(entry.instruction)));
    }
  }

  // One finding of a barrier, however much is under way. What writes is named before what reads.
  void report_barrier(uint32_t index, std::vector<uint32_t> accesses) {
    std::ranges::sort(accesses);
    accesses.erase(std::unique(accesses.begin(), accesses.end()), accesses.end());
    const auto reads = [&](uint32_t access) {
      const GcnInstruction& instruction = function_.instructions[access];
      return instruction.starts_with("ds_read") || instruction.starts_with("flat_load");
    };
    const auto written = std::ranges::find_if_not(accesses, reads);
    const bool writes = written != accesses.end();
    report_at(index, fmt::format("{} of LDS is under way: {}{}", writes ? "a write" : "a read",
                                 place_of(writes ? *written : accesses.front()),
                                 accesses.size() > 1 ? fmt::format(", and {} more", accesses.size() - 1) : ""));
  }

  const GcnFunction& function_;
  const GcnRules rules_;
  FunctionCheck result_;
  std::vector<Facts> facts_;
  std::map<uint64_t, uint32_t> index_by_offset_;
  std::map<std::pair<uint64_t, std::string>, CodeFinding> findings_;
};

}  // namespace

FunctionCheck check_gcn_function(const GcnFunction& function, std::string_view processor) {
  return FunctionChecker(function, processor).run();
}

std::vector<FunctionCheck> check_gcn(const std::string& code_object, std::string_view processor) {
  std::vector<FunctionCheck> checks;
  const ElfReader elf(code_object);
  for (const ElfReader::Function& function : elf.exported_functions())
    checks.push_back(check_gcn_function(disassemble_gcn(function.name, function.code, processor), processor));
  std::ranges::sort(checks, {}, &FunctionCheck::function);
  return checks;
}

}  // namespace causeway::codegen
