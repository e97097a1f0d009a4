#include "causeway/codegen/checks/ptx_bulk_copies.h"

#include <algorithm>
#include <map>
#include <set>

#include "causeway/codegen/checks/ptx_paths.h"

namespace causeway::codegen {
namespace {

// A small set of numbers, in order.
class Numbers {
 public:
  bool has(int64_t number) const { return std::ranges::binary_search(numbers_, number); }
  void add(int64_t number) {
    const auto at = std::ranges::lower_bound(numbers_, number);
    if (at == numbers_.end() || *at != number) numbers_.insert(at, number);
  }
  void remove(int64_t number) {
    const auto at = std::ranges::lower_bound(numbers_, number);
    if (at != numbers_.end() && *at == number) numbers_.erase(at);
  }
  void add(const Numbers& others) {
    for (const int64_t number : others.numbers_) add(number);
  }
  void clear() { numbers_.clear(); }
  bool empty() const { return numbers_.empty(); }
  void append_to(std::string& key) const {
    key.append(reinterpret_cast<const char*>(numbers_.data()), numbers_.size() * sizeof(int64_t));
    key += ';';
  }
  auto begin() const { return numbers_.begin(); }
  auto end() const { return numbers_.end(); }

 private:
  std::vector<int64_t> numbers_;
};

// What all threads together show: which mbarriers loads into some place complete on, which ones its thread waits for
// before, and what TMA and MMAs read. A place is where a copy, or what an MMA reads, begins; it
// reaches to where the next one does.
struct Places {
  static constexpr int64_t kNoEnd = int64_t{1} << 40;
  int64_t store_bytes = kNoEnd;
  std::map<int64_t, std::set<int64_t>> loads;   // place -> mbarriers
  std::map<int64_t, std::set<int64_t>> guards;  // mbarrier of loads -> mbarriers that say that there is room
  std::set<int64_t> stores, wgmma, barriers;
  std::map<int64_t, int64_t> announced;        // mbarrier of loads -> bytes of all loads together
  std::map<int64_t, int64_t> number_of_loads;  // of an mbarrier
  std::set<int64_t> all;

  // Where the place begins that an address is in, if it is in any. What is left open is how long a store is: as long as
  // the least distance from one to the next, or a box of 16 lines.
  std::optional<int64_t> of(int64_t address) const {
    const auto next = all.upper_bound(address);
    if (next == all.begin()) return std::nullopt;
    const int64_t place = *std::prev(next);
    int64_t bytes = kNoEnd;
    if (const auto load = loads.find(place); load != loads.end()) {
      bytes = bytes_of(load->second);
    } else if (stores.contains(place)) {
      bytes = store_bytes;
    } else if (const auto behind = loads.upper_bound(place); behind != loads.begin()) {
      // What MMAs read within what a load brings ends with it.
      const auto& [first, completes] = *std::prev(behind);
      const int64_t end = first + bytes_of(completes);
      if (place < end) bytes = end - place;
    }
    return address < place + bytes ? std::optional(place) : std::nullopt;
  }
  void measure() {
    all.insert(barriers.begin(), barriers.end());
    number_of_loads.clear();
    for (const auto& [place, completes] : loads)
      for (const int64_t barrier : completes) ++number_of_loads[barrier];
    store_bytes = kNoEnd;
    for (auto at = stores.begin(); at != stores.end() && std::next(at) != stores.end(); ++at)
      store_bytes = std::min(store_bytes, *std::next(at) - *at);
    if (store_bytes == kNoEnd) store_bytes = 16 * 128;
  }
  // What a load that completes on one of these brings. Of all loads together, which are as long as one another for all
  // that is known.
  int64_t bytes_of(const std::set<int64_t>& completes) const {
    int64_t bytes = 0;
    for (const int64_t barrier : completes)
      bytes = std::max(bytes, announced.contains(barrier) && number_of_loads.contains(barrier)
                                  ? announced.at(barrier) / number_of_loads.at(barrier)
                                  : kNoEnd);
    return bytes;
  }
  // The mbarriers of loads that an address may lie in, of which one has to have landed: several where memory is used
  // twice, as an epilogue uses that of stages for its source.
  std::set<int64_t> loads_around(int64_t address) const {
    std::set<int64_t> around = loads_of(address);
    if (around.empty()) return around;
    for (const auto& [place, completes] : loads) {
      if (place > address) break;
      const int64_t bytes = bytes_of(completes);
      if (bytes != kNoEnd && address < place + bytes) around.insert(completes.begin(), completes.end());
    }
    return around;
  }
  // Of the load that an address is nearest to.
  std::set<int64_t> loads_of(int64_t address) const {
    const std::optional<int64_t> place = of(address);
    const auto found = place ? loads.upper_bound(*place) : loads.end();
    if (!place || found == loads.begin()) return {};
    // MMAs begin within what one load brings: its place, or one of MMAs behind it.
    const auto load = std::prev(found);
    for (auto between = all.upper_bound(load->first); between != all.end() && *between <= *place; ++between)
      if (!wgmma.contains(*between)) return {};
    return load->second;
  }
};

class BulkCopies {
 public:
  // Places and stages are exact numbers; what is known to lie between two is data, which nothing here goes by.
  static constexpr size_t kMostRanges = 3;

  struct State {
    uint8_t initialised = 0;    // 0: no; 1: mbarriers were; 2: and a fence followed
    bool synchronised = false;  // a barrier of the block was passed
    Numbers landed;             // mbarriers of loads that were waited for, and not handed back
    Numbers armed;              // those that loads of this thread were announced on, whose room was not handed back
    int64_t waited = -1;        // the mbarrier that was waited for last, since the last load
    Numbers written, fenced;    // places that were written: with no fence; with a fence and no barrier since
    Numbers open;               // what stores read that are not committed
    std::vector<Numbers> groups;
    Numbers drained;     // they have read it, as this thread alone knows
    Numbers multiplied;  // mbarriers of loads that MMAs read which are not committed
    std::vector<Numbers> wgmma_groups;

    void append_to(std::string& key) const {
      key += static_cast<char>('0' + initialised * 2 + synchronised);
      for (const Numbers* numbers : {&landed, &armed, &written, &fenced, &open, &drained, &multiplied})
        numbers->append_to(key);
      key.append(reinterpret_cast<const char*>(&waited), sizeof waited);
      for (const Numbers& group : groups) group.append_to(key);
      key += '|';
      for (const Numbers& group : wgmma_groups) group.append_to(key);
    }
    struct Joined {};
    Joined joined() const { return {}; }
    bool join(Joined&) { return false; }
  };

  // With a check, faults are reported by what `places` says; without, it is filled.
  BulkCopies(const PtxFunction& function, const PtxValues& values, Places& places, FunctionCheck* check)
      : function_(function), values_(values), places_(places), check_(check) {}

  static bool is_load(const PtxInstruction& one) { return one.is("cp.async.bulk") && one.has("mbarrier::complete_tx"); }
  static bool is_store(const PtxInstruction& one) {
    return (one.is("cp.async.bulk.") || one.is("cp.reduce.async.bulk.")) && one.has(".bulk_group");
  }
  static bool is_whole_barrier(const PtxInstruction& one) {
    return one.is_block_barrier() || one.is("barrier.cluster.wait");
  }
  // One of some threads, too.
  static bool is_barrier(const PtxInstruction& one) {
    return is_whole_barrier(one) || one.is("bar.sync") || one.is("barrier.sync") || one.is("barrier.cta.sync") ||
           one.is("bar.warp.sync");
  }
  // Of the accesses that a thread made of shared memory.
  static bool is_proxy_fence(const PtxInstruction& one) {
    return one.opcode == "fence.proxy.async" || one.is("fence.proxy.async.shared");
  }
  static bool forks(const PtxInstruction& one) { return one.is("mbarrier.try_wait") || one.is("mbarrier.test_wait"); }
  bool is_event(const PtxInstruction& one) const {
    return is_load(one) || is_store(one) || one.is_shared_access() || is_barrier(one) || one.is("mbarrier.") ||
           one.is("cp.async.bulk.commit_group") || one.is("cp.async.bulk.wait_group") || one.is("fence.") ||
           one.is("wgmma.");
  }

  void resolve(int i, bool ended, State& state, const PtxValues::State& values) {
    const PtxInstruction& one = at(i);
    const std::optional<int64_t> barrier = address(one, values);
    uses_barrier(i, state);
    if (!ended) return;
    // What others did before they arrived has happened.
    state.drained.clear();
    state.fenced.clear();
    if (!barrier) return;
    places_.barriers.insert(*barrier);
    state.landed.add(*barrier);
    state.waited = *barrier;
    if (check_ == nullptr) return;
    for (const auto& [full, guards] : places_.guards)
      if (guards.contains(*barrier)) state.armed.remove(full);
  }

  void step(int i, State& state, const PtxValues::State& values) {
    const PtxInstruction& one = at(i);
    if (one.is("mbarrier.init")) {
      if (const auto barrier = address(one, values)) places_.barriers.insert(*barrier);
      state.initialised = 1;
      state.synchronised = false;
    } else if (one.is("fence.mbarrier_init")) {
      if (state.initialised == 1) state.initialised = 2;
    } else if (is_proxy_fence(one)) {
      state.fenced.add(state.written);
      state.written.clear();
    } else if (one.is("mbarrier.arrive.expect_tx")) {
      expect(i, state, values);
    } else if (one.is("mbarrier.arrive")) {
      arrive(i, state, values);
    } else if (is_load(one)) {
      load(i, state, values);
    } else if (is_store(one)) {
      store(i, state, values);
    } else if (one.is("cp.async.bulk.commit_group")) {
      state.groups.push_back(std::move(state.open));
      state.open = {};
      if (state.groups.size() > 16) state.groups[1].add(state.groups[0]), state.groups.erase(state.groups.begin());
    } else if (one.is("cp.async.bulk.wait_group")) {
      const auto kept = static_cast<size_t>(one.operands.empty() ? 0 : one.operands[0].value);
      while (state.groups.size() > kept) {
        state.drained.add(state.groups.front());
        state.groups.erase(state.groups.begin());
      }
      if (check_ == nullptr) return;
      // Room from which a store has left may be loaded into.
      for (const auto& [place, full] : places_.loads)
        if (places_.stores.contains(place) && !is_leaving(state, place))
          for (const int64_t barrier : full) state.armed.remove(barrier);
    } else if (is_barrier(one)) {
      state.drained.clear();
      state.fenced.clear();
      if (is_whole_barrier(one)) {
        if (state.initialised == 1) report(i, "an mbarrier was initialised with no fence.mbarrier_init after it");
        state.synchronised = true;
      }
    } else if (one.is("wgmma.mma_async")) {
      multiply(i, state, values);
    } else if (one.is("wgmma.commit_group")) {
      state.wgmma_groups.push_back(std::move(state.multiplied));
      state.multiplied = {};
      if (state.wgmma_groups.size() > 8)
        state.wgmma_groups[1].add(state.wgmma_groups[0]), state.wgmma_groups.erase(state.wgmma_groups.begin());
    } else if (one.is("wgmma.wait_group")) {
      const auto kept = static_cast<size_t>(one.operands.empty() ? 0 : one.operands[0].value);
      while (state.wgmma_groups.size() > kept) state.wgmma_groups.erase(state.wgmma_groups.begin());
    } else if (one.is_shared_access()) {
      access(i, state, values);
    }
  }

  void end(int i, const State& state) {
    if (!state.open.empty() || std::ranges::any_of(state.groups, [](const Numbers& group) { return !group.empty(); }))
      report(i,
             "the thread ends before a cp.async.bulk.wait_group that covers its stores: they may read shared memory "
             "that is another block's");
  }

 private:
  const PtxInstruction& at(int i) const { return function_.instructions[static_cast<size_t>(i)]; }
  void report(int i, const std::string& fault) {
    if (check_ == nullptr || !said_.insert(i).second) return;
    check_->findings.push_back({static_cast<uint64_t>(at(i).line), at(i).text.substr(0, 100), fault});
  }

  // Of the operand that is an address; nothing where it is not known.
  std::optional<int64_t> address(const PtxInstruction& one, const PtxValues::State& values, size_t number = 0) const {
    for (const PtxOperand& operand : one.operands) {
      if (operand.kind != PtxOperand::Kind::kAddress) continue;
      if (number-- > 0) continue;
      const PtxValue value = values_.value(operand, values);
      return value.exact() ? std::optional(value.low) : std::nullopt;
    }
    return std::nullopt;
  }

  void uses_barrier(int i, const State& state) {
    if (state.initialised == 1)
      report(i, "an mbarrier is used with no fence.mbarrier_init after it was initialised");
    else if (!state.synchronised)
      report(i, "an mbarrier is used with no barrier of the block after it was initialised");
  }

  void expect(int i, State& state, const PtxValues::State& values) {
    uses_barrier(i, state);
    arrived(i, state);
    const std::optional<int64_t> barrier = address(at(i), values);
    if (!barrier) return;
    places_.barriers.insert(*barrier);
    if (check_ == nullptr) {
      std::set<int64_t>& guards = places_.guards[*barrier];
      if (state.waited >= 0) guards.insert(state.waited);
      if (const PtxOperand& bytes = at(i).operands.back(); true) {
        const PtxValue value = values_.value(bytes, values);
        int64_t& most = places_.announced.try_emplace(*barrier, 0).first->second;
        most = value.known() ? std::max(most, value.high) : Places::kNoEnd;
      }
    } else if (state.armed.has(*barrier)) {
      report(i,
             "a load is announced again before its room was handed back: nothing that says so was waited for since the "
             "last one");
    }
    state.armed.add(*barrier);
    state.waited = -1;
  }

  void arrive(int i, State& state, const PtxValues::State& values) {
    uses_barrier(i, state);
    arrived(i, state);
    const PtxInstruction& one = at(i);
    const std::optional<int64_t> barrier = address(one, values);
    if (!barrier) return;
    places_.barriers.insert(*barrier);
    if (check_ == nullptr) return;
    // Where nothing is to be loaded this arrives in place of an announcement; that nothing is then loaded stands in
    // memory.
    if (places_.guards.contains(*barrier)) state.armed.add(*barrier);
    for (const auto& [full, guards] : places_.guards) {
      if (!guards.contains(*barrier)) continue;
      if (state.multiplied.has(full) ||
          std::ranges::any_of(state.wgmma_groups,
                              [&, mbarrier = full](const Numbers& group) { return group.has(mbarrier); }))
        report(i, "what wgmma reads is handed back before a wgmma.wait_group that covers them");
      state.landed.remove(full);
    }
  }

  // Others may go on: MMAs of theirs may read what this thread wrote.
  void arrived(int i, const State& state) {
    for (const int64_t place : state.written)
      if (places_.wgmma.contains(place)) report(i, "what wgmma reads was written with no fence.proxy.async after it");
  }

  void load(int i, State& state, const PtxValues::State& values) {
    const std::optional<int64_t> to = address(at(i), values), barrier = address(at(i), values, 2);
    uses_barrier(i, state);
    if (!to || !barrier) return;
    if (check_ == nullptr) {
      places_.loads[*to].insert(*barrier);
      places_.all.insert(*to);
    } else {
      if (!state.armed.has(*barrier)) report(i, "a load was not announced by mbarrier.arrive.expect_tx");
      if (is_leaving(state, *to))
        report(i, "a load goes where a store reads that no cp.async.bulk.wait_group has covered");
    }
    state.waited = -1;
  }

  bool is_leaving(const State& state, int64_t place) const {
    return state.open.has(place) ||
           std::ranges::any_of(state.groups, [&](const Numbers& group) { return group.has(place); });
  }

  void store(int i, State& state, const PtxValues::State& values) {
    // From shared memory: the second address, behind that in memory, which may be a tensor map's.
    const std::optional<int64_t> from = address(at(i), values, 1);
    if (!from) return;
    places_.stores.insert(*from);
    places_.all.insert(*from);
    read_by_engine(i, *from, state, "a store");
    state.open.add(*from);
  }

  void read_by_engine(int i, int64_t from, const State& state, const std::string& what) {
    if (check_ == nullptr) return;  // not all places are known
    const std::optional<int64_t> place = places_.of(from);
    if (!place) return;
    if (state.written.has(*place)) report(i, what + " reads what was written with no fence.proxy.async after it");
    if (state.fenced.has(*place))
      report(i, what + " reads what was written with no barrier after its fence.proxy.async");
  }

  void multiply(int i, State& state, const PtxValues::State& values) {
    const PtxInstruction& one = at(i);
    for (size_t operand = 1; operand < one.operands.size() && operand < 3; ++operand) {
      const PtxOperand& descriptor = one.operands[operand];
      if (descriptor.kind != PtxOperand::Kind::kRegister) continue;
      const PtxValue value = values_.value(descriptor, values);
      if (!value.exact()) continue;
      // PTX ISA, "Matrix Descriptor Format": the address in units of 16 bytes, in the lowest 14 bits.
      const int64_t from = (value.low & 0x3fff) << 4;
      places_.wgmma.insert(from);
      places_.all.insert(from);
      if (check_ == nullptr) continue;
      read_by_engine(i, from, state, "a wgmma");
      reads_load(i, from, state);
      for (const int64_t full : places_.loads_of(from)) state.multiplied.add(full);
    }
  }

  void reads_load(int i, int64_t from, const State& state) {
    const std::set<int64_t> full = places_.loads_around(from);
    if (!full.empty() && std::ranges::none_of(full, [&](int64_t barrier) { return state.landed.has(barrier); }))
      report(i, "what a load brings is read with no wait for its mbarrier, or after it was handed back");
  }

  void access(int i, State& state, const PtxValues::State& values) {
    const std::optional<int64_t> where = address(at(i), values);
    if (!where || check_ == nullptr) return;
    const std::optional<int64_t> place = places_.of(*where);
    if (!place || places_.barriers.contains(*place)) return;
    const PtxInstruction& one = at(i);
    if (!one.is("st") && !one.is("red.") && places_.loads.contains(*place)) reads_load(i, *where, state);
    if (one.is("ld")) return;
    if (is_leaving(state, *place))
      report(i, "what a store reads is written before a cp.async.bulk.wait_group that covers it");
    else if (state.drained.has(*place))
      report(i, "what a store reads is written with no barrier after the wait for it");
    if (places_.stores.contains(*place) || places_.wgmma.contains(*place)) {
      state.fenced.remove(*place);
      state.written.add(*place);
    }
  }

  const PtxFunction& function_;
  const PtxValues& values_;
  Places& places_;
  FunctionCheck* check_;
  std::set<int> said_;
};

// Of each warpgroup the first thread, elected in its warp; and a neighbour, which is not.
std::vector<PtxRole> roles_of(const PtxFunction& function) {
  const int threads = function.threads > 0 ? function.threads : 384;
  std::vector<PtxRole> roles;
  for (int thread = 0; thread < threads; thread += 128) roles.push_back({thread, threads, true});
  roles.push_back({1, threads, false});
  return roles;
}

}  // namespace

void check_ptx_bulk_copies(const PtxModule& module, const PtxFunction& function, FunctionCheck& check) {
  Places places;
  std::vector<bool> sinks(static_cast<size_t>(function.registers));
  for (const PtxInstruction& one : function.instructions) {
    const bool copies =
        BulkCopies::is_load(one) || BulkCopies::is_store(one) || one.is_shared_access() || one.is("mbarrier.");
    for (const PtxOperand& operand : one.operands)
      if ((copies && operand.kind == PtxOperand::Kind::kAddress) ||
          (one.is("wgmma.mma_async") && operand.kind == PtxOperand::Kind::kRegister))
        for (const int reg : operand.registers) sinks[static_cast<size_t>(reg)] = true;
  }
  const std::vector<PtxRole> roles = roles_of(function);
  FunctionCheck own;
  const auto follow = [&](const PtxRole& role, bool reports) {
    PtxValues values(module, function, role);
    values.follow(sinks);
    BulkCopies client(function, values, places, reports ? &own : nullptr);
    return PtxPaths<BulkCopies>(function, values, client).run({});
  };
  bool followed = true;
  for (const bool reports : {false, true}) {
    places.measure();
    for (const PtxRole& role : roles)
      if (followed) followed = follow(role, reports);
  }
  // What was found until then holds.
  if (!followed) own.findings.push_back({0, function.name, "its copies have more states than are followed"});
  for (CodeFinding& finding : own.findings)
    if (std::ranges::none_of(check.findings, [&](const CodeFinding& other) {
          return other.place == finding.place && other.fault == finding.fault;
        }))
      check.findings.push_back(std::move(finding));
}

}  // namespace causeway::codegen
