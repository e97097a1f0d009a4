// Goes through a function of PTX along every path that values leave open, with a state of the caller's beside them.
// Values that take too many forms at the beginning of a block, as those of counters do, are forgotten there, but for
// their lowest bits at first: what is left is a finite number of states.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "causeway/codegen/checks/ptx_values.h"

namespace causeway::codegen {

// `Client` has a State, whose part `Joined` is that of all paths together that are alike in the rest:
//   void append_to(std::string&) const      writes the rest
//   Joined joined() const
//   bool join(Joined& known)                adds what either has to both; whether `known` has changed
// and
//   void step(int instruction, State&, const PtxValues::State&)   an instruction that client.is_event() is true for
//   bool is_event(const PtxInstruction&)
// An instruction `forks` on whether a wait has ended: then resolve(instruction, ended, state, values) is called for
// both.
template <class Client>
class PtxPaths {
 public:
  using State = typename Client::State;

  PtxPaths(const PtxFunction& function, PtxValues& values, Client& client)
      : function_(function), values_(values), client_(client) {
    for (const PtxBlock& block : function.blocks) {
      std::vector<int>& steps = steps_.emplace_back();
      for (int i = block.begin; i < block.end; ++i) {
        const PtxInstruction& one = at(i);
        if (client.is_event(one) || values.writes_followed(one) || one.branches() || one.ends_block())
          steps.push_back(i);
      }
    }
    seen_.resize(function.blocks.size());
    forms_.resize(function.blocks.size());
    live_.resize(function.blocks.size());
    predecessors_.resize(function.blocks.size());
    predecessors_[0] = 2;  // one of which is the beginning
    for (size_t number = 0; number < function.blocks.size(); ++number) {
      for (const int next : function.blocks[number].successors) ++predecessors_[static_cast<size_t>(next)];
      const std::vector<bool>& live = values.live()[number];
      for (size_t i = 0; i < live.size(); ++i)
        if (live[i]) live_[number].push_back(static_cast<int>(i));
      forms_[number].resize(live_[number].size());
    }
  }

  // False when there are more states than are followed.
  bool run(const State& first) {
    work_.push_back({0, PtxValues::State(values_.followed().size()), first});
    size_t walked = 0;
    while (!work_.empty()) {
      if (++walked > kMostStates) return false;
      Item item = std::move(work_.back());
      work_.pop_back();
      walk(item.block, 0, std::move(item.values), std::move(item.state));
    }
    return true;
  }

 private:
  static constexpr size_t kMostStates = 400'000, kMostForms = 24;
  static constexpr int kKeptBits = 3;

  struct Item {
    int block;
    PtxValues::State values;
    State state;
  };
  // Of a value at the beginning of a block.
  struct Forms {
    std::vector<std::pair<int64_t, int64_t>> seen;
    size_t ranges = 0;  // of those seen
    int forgets = 0;    // 1: all but the lowest bits; 2: all

    PtxValue kept(const PtxValue& value, const std::vector<int64_t>& thresholds) {
      const std::pair<int64_t, int64_t> form(value.low, value.high);
      if (forgets < 2 && std::ranges::find(seen, form) == seen.end()) {
        seen.push_back(form);
        ranges += !value.exact() && value.base < 0;
        if (seen.size() > kMostForms || ranges > Client::kMostRanges) ++forgets, ranges = 0, seen.clear();
      }
      if (forgets == 0) return value;
      PtxValue bits;
      // Of a number that branches compare, between which of those it is.
      if (value.known() && thresholds.size() > 3) {
        const auto low = std::ranges::upper_bound(thresholds, value.low);
        const auto high = std::ranges::lower_bound(thresholds, value.high);
        if (low == thresholds.begin() && high == thresholds.end()) return bits;
        bits.kind = PtxValue::Kind::kRange;
        bits.by_lane = value.by_lane;
        bits.low = low == thresholds.begin() ? INT64_MIN : *std::prev(low);
        bits.high = high == thresholds.end() ? INT64_MAX : *high;
        return bits;
      }
      if (forgets == 1 && (value.exact() || (value.kind == PtxValue::Kind::kLowBits && value.bits >= kKeptBits))) {
        bits.kind = PtxValue::Kind::kLowBits;
        bits.bits = kKeptBits;
        bits.low = bits.high = value.low & ((1 << kKeptBits) - 1);
        bits.by_lane = value.by_lane;
      }
      return bits;
    }
  };

  const PtxInstruction& at(int i) const { return function_.instructions[static_cast<size_t>(i)]; }

  void enter(int block, const PtxValues::State& values, const State& state) {
    const auto number = static_cast<size_t>(block);
    PtxValues::State kept(values.size());
    const std::vector<int>& live = live_[number];
    // Where one path leads alone, what came to its beginning is known to differ.
    if (predecessors_[number] == 1) {
      for (const int i : live) kept[static_cast<size_t>(i)] = values[static_cast<size_t>(i)];
      work_.push_back({block, std::move(kept), state});
      return;
    }
    std::string key;
    key.reserve(256);
    for (size_t at = 0; at < live.size(); ++at) {
      const int i = live[at];
      PtxValue value = values[static_cast<size_t>(i)];
      if (value.kind == PtxValue::Kind::kUnknown) continue;
      value = forms_[number][at].kept(value, values_.thresholds(i));
      if (value.kind == PtxValue::Kind::kUnknown) continue;
      const int64_t numbers[] = {i | int64_t{value.bits} << 32 | int64_t{value.by_lane} << 40,
                                 value.low,
                                 value.high,
                                 value.base,
                                 value.scale,
                                 value.offset};
      key.append(reinterpret_cast<const char*>(numbers), value.base >= 0 ? sizeof numbers : 3 * sizeof(int64_t));
      kept[static_cast<size_t>(i)] = value;
    }
    key += '|';
    state.append_to(key);
    const auto [known, is_new] = seen_[number].try_emplace(std::hash<std::string>()(key), state.joined());
    work_.push_back({block, std::move(kept), state});
    if (is_new) return;
    if (work_.back().state.join(known->second)) return;
    work_.pop_back();
  }

  void walk(int block, size_t from, PtxValues::State values, State state) {
    const std::vector<int>& steps = steps_[static_cast<size_t>(block)];
    for (size_t step = from; step < steps.size(); ++step) {
      const int i = steps[step];
      const PtxInstruction& one = at(i);
      int executes = 1;  // -1: not known
      if (one.predicate >= 0) {
        const PtxValue condition = values_.value(one.predicate, values);
        executes = condition.exact() ? (condition.low != 0) != one.negated : -1;
      }
      if (one.ends_block()) {
        const PtxBlock& of = function_.blocks[static_cast<size_t>(block)];
        if (one.branches()) {
          if (executes < 0) {
            PtxValues::State other = values;
            values_.assume(i, one.negated, other);
            if (of.successors.size() > 1) enter(of.successors[1], other, state);
            values_.assume(i, !one.negated, values);
            enter(of.successors[0], values, state);
          } else if (executes == 1) {
            enter(of.successors[0], values, state);
          } else if (of.successors.size() > 1) {
            enter(of.successors[1], values, state);
          }
        } else {
          if (executes != 0) client_.end(i, state);
          if (executes != 1 && !of.successors.empty()) enter(of.successors[0], values, state);
        }
        return;
      }
      if (executes == 0) continue;
      if (client_.forks(one)) {
        // Both ways; the one in which the wait has ended is walked at once.
        PtxValues::State other_values = values;
        State other = state;
        const int predicate = values_.index(one.operands[0].registers[0]);
        client_.resolve(i, false, other, other_values);
        client_.resolve(i, true, state, values);
        if (predicate >= 0) {
          set(values[static_cast<size_t>(predicate)], 1);
          set(other_values[static_cast<size_t>(predicate)], 0);
        }
        walk(block, step + 1, std::move(other_values), std::move(other));
        continue;
      }
      if (client_.is_event(one)) {
        if (executes < 0) {
          State other = state;
          PtxValues::State other_values = values;
          walk(block, step + 1, std::move(other_values), std::move(other));
        }
        client_.step(i, state, values);
      }
      if (values_.writes_followed(one)) values_.execute(one, values);
    }
    const PtxBlock& of = function_.blocks[static_cast<size_t>(block)];
    if (!of.successors.empty()) enter(of.successors.back(), values, state);
  }

  static void set(PtxValue& value, int64_t number) {
    value = {};
    value.kind = PtxValue::Kind::kRange;
    value.low = value.high = number;
  }

  const PtxFunction& function_;
  PtxValues& values_;
  Client& client_;
  std::vector<std::vector<int>> steps_;
  std::vector<Item> work_;
  std::vector<std::unordered_map<size_t, typename State::Joined>> seen_;
  std::vector<std::vector<Forms>> forms_;
  std::vector<std::vector<int>> live_;  // at the beginning of a block
  std::vector<int> predecessors_;
};

}  // namespace causeway::codegen
