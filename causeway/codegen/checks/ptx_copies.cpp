#include "causeway/codegen/checks/ptx_copies.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "causeway/codegen/checks/ptx_bulk_copies.h"
#include "causeway/codegen/checks/ptx_paths.h"

namespace causeway::codegen {
namespace {

constexpr int64_t kEverywhere = int64_t{1} << 40;

// Bytes of shared memory: [low, high) of any thread's, and those of the thread at hand from scale x base + offset on.
struct Piece {
  int64_t low = 0, high = 0;
  int base = -1;  // as of a PtxValue
  int64_t scale = 0, offset = 0;
  int bytes = 0;
  int instruction = 0;

  bool overlaps(const Piece& other) const { return low < other.high && other.low < high; }
  // The same bytes of the same thread.
  bool is_within(const Piece& other) const {
    return base >= 0 && base == other.base && scale == other.scale && offset >= other.offset &&
           offset + bytes <= other.offset + other.bytes;
  }
  void append_to(std::string& key) const {
    const int64_t numbers[] = {low, high, base, scale, offset, instruction};
    key.append(reinterpret_cast<const char*>(numbers), sizeof numbers);
  }
};

void append(std::string& key, const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) piece.append_to(key);
  key += ';';
}

// A piece that is there already, of the same instruction, is not added again.
void add(std::vector<Piece>& pieces, const Piece& piece) {
  for (const Piece& other : pieces)
    if (other.low == piece.low && other.high == piece.high && other.base == piece.base && other.scale == piece.scale &&
        other.offset == piece.offset)
      return;
  pieces.push_back(piece);
}

// As ranges that do not touch: who reads what matters no more than that it is read.
void add_range(std::vector<Piece>& ranges, Piece piece) {
  piece.base = -1, piece.scale = piece.offset = 0;
  for (size_t i = 0; i < ranges.size();) {
    Piece& other = ranges[i];
    if (other.low <= piece.high && piece.low <= other.high) {
      piece.low = std::min(piece.low, other.low);
      piece.high = std::max(piece.high, other.high);
      piece.instruction = std::min(piece.instruction, other.instruction);
      ranges.erase(ranges.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  ranges.insert(std::ranges::lower_bound(ranges, piece.low, {}, &Piece::low), piece);
}

// How many bytes an instruction reads or writes.
int bytes_of(const PtxInstruction& one) {
  if (one.is("ldmatrix") || one.is("stmatrix")) return 16;
  int bytes = 4;
  for (const auto& [name, size] : {std::pair(".b8", 1),
                                   {".u8", 1},
                                   {".s8", 1},
                                   {".b16", 2},
                                   {".u16", 2},
                                   {".s16", 2},
                                   {".b64", 8},
                                   {".u64", 8},
                                   {".s64", 8},
                                   {".f64", 8}})
    if (one.opcode.ends_with(name)) bytes = size;
  return bytes * (one.has(".v2") ? 2 : one.has(".v4") ? 4 : 1);
}

// cp.async, of any thread.
class AsyncCopies {
 public:
  static constexpr size_t kMostRanges = 24;  // a thread knows between which places it reads

  struct State {
    std::vector<Piece> open;                 // not committed
    std::vector<std::vector<Piece>> groups;  // committed, the oldest first
    std::vector<Piece> arrived;              // waited for, by the thread that copied it alone
    std::vector<Piece> read;                 // since the last barrier

    void append_to(std::string& key) const {
      append(key, open);
      for (const auto& group : groups) append(key, group);
      key += '|';
      append(key, arrived);
    }
    using Joined = std::vector<Piece>;  // what was read
    const Joined& joined() const { return read; }
    bool join(Joined& known) {
      Joined all = known;
      for (const Piece& piece : read) add_range(all, piece);
      read = all;
      const auto alike = [](const Piece& a, const Piece& b) { return a.low == b.low && a.high == b.high; };
      if (std::ranges::equal(all, known, alike)) return false;
      known = std::move(all);
      return true;
    }
  };

  AsyncCopies(const PtxFunction& function, const PtxValues& values, FunctionCheck& check)
      : function_(function), values_(values), check_(check), copies_follow_(function.instructions.size()) {
    for (const PtxInstruction& one : function.instructions)
      if (one.is("cp.async.wait_group") && !one.operands.empty())
        most_kept_ = std::max(most_kept_, static_cast<size_t>(one.operands[0].value));
    std::vector<bool> follow(function.blocks.size());
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t number = function.blocks.size(); number-- > 0;) {
        const PtxBlock& block = function.blocks[number];
        bool any = std::any_of(block.successors.begin(), block.successors.end(),
                               [&](int next) { return follow[static_cast<size_t>(next)]; });
        for (int i = block.end - 1; i >= block.begin; --i) {
          any |= is_copy(function.instructions[static_cast<size_t>(i)]);
          copies_follow_[static_cast<size_t>(i)] = any;
        }
        if (any && !follow[number]) follow[number] = changed = true;
      }
    }
  }

  static bool is_copy(const PtxInstruction& one) { return one.is("cp.async.ca") || one.is("cp.async.cg"); }
  static bool forks(const PtxInstruction&) { return false; }
  void resolve(int, bool, State&, const PtxValues::State&) {}
  bool is_event(const PtxInstruction& one) const {
    return is_copy(one) || one.is("cp.async.commit_group") || one.is("cp.async.wait") || one.is_shared_access() ||
           one.is_block_barrier();
  }

  void step(int i, State& state, const PtxValues::State& values) {
    const PtxInstruction& one = function_.instructions[static_cast<size_t>(i)];
    if (is_copy(one)) {
      const Piece piece = piece_of(i, one.operands[0], values,
                                   one.operands.size() > 2 && one.operands[2].kind == PtxOperand::Kind::kImmediate
                                       ? static_cast<int>(one.operands[2].value)
                                       : 16);
      for (const Piece& read : state.read)
        if (read.overlaps(piece))
          report(i,
                 "what line " + line(read.instruction) + " reads is copied over, with no barrier of the block between");
      add(state.open, piece);
    } else if (one.is("cp.async.commit_group")) {
      state.groups.push_back(std::move(state.open));
      state.open.clear();
      // Older groups than any wait leaves in flight count as one.
      if (state.groups.size() > most_kept_ + 1) {
        for (const Piece& piece : state.groups[1]) add(state.groups[0], piece);
        state.groups.erase(state.groups.begin() + 1);
        std::ranges::sort(state.groups[0], {}, [](const Piece& p) { return std::tie(p.low, p.instruction); });
      }
    } else if (one.is("cp.async.wait_group")) {
      const auto kept = static_cast<size_t>(one.operands.empty() ? 0 : one.operands[0].value);
      while (state.groups.size() > kept) {
        for (const Piece& piece : state.groups.front()) add(state.arrived, piece);
        state.groups.erase(state.groups.begin());
      }
    } else if (one.is("cp.async.wait_all")) {
      for (const auto& group : state.groups)
        for (const Piece& piece : group) add(state.arrived, piece);
      for (const Piece& piece : state.open) add(state.arrived, piece);
      state.groups.clear();
      state.open.clear();
    } else if (one.is_block_barrier()) {
      state.arrived.clear();
      state.read.clear();
    } else {
      access(i, one, state, values);
    }
  }

  void end(int, const State&) {}

 private:
  Piece piece_of(int i, const PtxOperand& operand, const PtxValues::State& values, int bytes) const {
    const PtxValue at = values_.value(operand, values);
    if (!at.known() || at.low < -kEverywhere || at.high > kEverywhere)
      return {-kEverywhere, kEverywhere, -1, 0, 0, bytes, i};
    return {at.low, at.high + bytes, at.base, at.scale, at.offset, bytes, i};
  }

  void access(int i, const PtxInstruction& one, State& state, const PtxValues::State& values) {
    const bool writes = one.is("st.") || one.is("stmatrix");
    size_t operand = 0;
    while (operand < one.operands.size() && one.operands[operand].kind != PtxOperand::Kind::kAddress) ++operand;
    if (operand == one.operands.size()) return;
    const Piece piece = piece_of(i, one.operands[operand], values, bytes_of(one));
    const std::string verb = writes ? "written" : "read";
    bool said = false;
    const auto look = [&](const std::vector<Piece>& pieces, const std::string& state_of, bool own_is_there) {
      for (const Piece& other : pieces) {
        if (said || !other.overlaps(piece) || (own_is_there && piece.is_within(other))) continue;
        // Who copied it knows that it is its own copy, whoever else's it could be.
        report(i, "what the copy at line " + line(other.instruction) + " writes is " + verb + " " + state_of);
        said = true;
      }
    };
    const bool is_own =
        std::any_of(state.arrived.begin(), state.arrived.end(), [&](const Piece& p) { return piece.is_within(p); });
    const auto in_flight = [&](const std::vector<Piece>& pieces, const std::string& state_of) {
      // What the thread itself copied and waited for is no other thread's copy that is in flight.
      if (!is_own) look(pieces, state_of, false);
      if (is_own)
        for (const Piece& other : pieces)
          if (!said && piece.is_within(other)) {
            report(i, "what the copy at line " + line(other.instruction) + " writes is " + verb + " " + state_of);
            said = true;
          }
    };
    in_flight(state.open, "before it is committed and waited for");
    for (const auto& group : state.groups) in_flight(group, "before a cp.async.wait_group that covers it");
    if (!is_own) look(state.arrived, "with no barrier of the block after the wait", true);
    if (!writes && copies_follow_[static_cast<size_t>(i)]) add_range(state.read, piece);
  }

  std::string line(int i) const { return std::to_string(function_.instructions[static_cast<size_t>(i)].line); }
  void report(int i, const std::string& fault) {
    const PtxInstruction& one = function_.instructions[static_cast<size_t>(i)];
    if (said_.insert(i).second)
      check_.findings.push_back({static_cast<uint64_t>(one.line), one.text.substr(0, 100), fault});
  }

  const PtxFunction& function_;
  const PtxValues& values_;
  FunctionCheck& check_;
  std::set<int> said_;
  size_t most_kept_ = 1;             // groups that any wait leaves in flight
  std::vector<bool> copies_follow_;  // an instruction, on some path
};

void check_async_copies(const PtxModule& module, const PtxFunction& function, FunctionCheck& check) {
  PtxRole role;
  if (function.threads > 0) role.threads = function.threads;
  PtxValues values(module, function, role);
  std::vector<bool> sinks(static_cast<size_t>(function.registers));
  for (const PtxInstruction& one : function.instructions)
    if (AsyncCopies::is_copy(one) || one.is_shared_access())
      for (const PtxOperand& operand : one.operands)
        if (operand.kind == PtxOperand::Kind::kAddress)
          for (const int reg : operand.registers) sinks[static_cast<size_t>(reg)] = true;
  values.follow(sinks);
  AsyncCopies client(function, values, check);
  PtxPaths<AsyncCopies> paths(function, values, client);
  if (!paths.run({})) check.findings.push_back({0, function.name, "its copies have more states than are followed"});
}

}  // namespace

void check_ptx_copies(const PtxModule& module, const PtxFunction& function, FunctionCheck& check) {
  const auto any = [&](auto is) { return std::any_of(function.instructions.begin(), function.instructions.end(), is); };
  if (any([](const PtxInstruction& one) { return AsyncCopies::is_copy(one); }))
    check_async_copies(module, function, check);
  if (any([](const PtxInstruction& one) {
        return one.is("cp.async.bulk") || one.is("cp.reduce.async.bulk") || one.is("mbarrier.");
      }))
    check_ptx_bulk_copies(module, function, check);
}

}  // namespace causeway::codegen
