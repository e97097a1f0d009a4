#include "causeway/program/early_exchange.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>

namespace causeway::program {
namespace {

constexpr int64_t kLargeExchangeBytes = int64_t{8} << 20;
// Of kernels before it, about those of a layer's backward pass: what is put off keeps its operands in memory.
constexpr size_t kKernelsBefore = 24;

// Of kernels behind an exchange, those that are taken to wait for it if they use it.
constexpr size_t kAwaitedWithin = 8;

// Launches are not moved for less.
constexpr size_t kWorthMoving = 8;

using AccessLists = std::vector<std::vector<Access>>;  // by kernel

// Without what several kernels write and none reads, each for itself: the counter that they take their tasks from binds
// none of them to its place.
AccessLists lists_of_accesses(const std::vector<KernelWork>& kernels) {
  AccessLists accesses;
  for (const KernelWork& kernel : kernels)
    accesses.push_back(std::visit([](const auto& one) { return Instruction{kComputeQueue, one}.accesses(); }, kernel));
  std::set<int> kept;  // buffers that are read, or written twice with the same content
  std::set<std::pair<int, int>> written;
  for (const std::vector<Access>& of_kernel : accesses)
    for (const Access& access : of_kernel)
      if (!access.written || !written.emplace(access.holding.buffer, access.holding.content).second)
        kept.insert(access.holding.buffer);
  for (std::vector<Access>& of_kernel : accesses)
    std::erase_if(of_kernel, [&](const Access& access) { return !kept.contains(access.holding.buffer); });
  return accesses;
}

struct ExchangeAtEnd {
  size_t producer = 0;  // the last kernel that it waits for
  int64_t bytes = 0;
};

// Whether one has to keep its place before or behind the other.
bool are_bound(const std::vector<Access>& one, const std::vector<Access>& other) {
  return std::ranges::any_of(one, [&](const Access& a) {
    return std::ranges::any_of(
        other, [&](const Access& b) { return a.holding.buffer == b.holding.buffer && (a.written || b.written); });
  });
}

int64_t exchanged_bytes(const Collectives& collectives) {
  int64_t bytes = 0;
  for (const Collectives::Part& part : collectives.parts) bytes += larger_bytes(part, collectives.ranks);
  return bytes;
}

// The last kernel before `k` that writes the buffer, where it is a launch.
std::optional<size_t> find_producer(const std::vector<KernelWork>& kernels, const AccessLists& accesses, size_t k,
                                    int buffer) {
  for (size_t i = k; i-- > 0;)
    if (std::ranges::any_of(accesses[i],
                            [&](const Access& access) { return access.written && access.holding.buffer == buffer; }))
      return std::holds_alternative<Launch>(kernels[i]) ? std::optional(i) : std::nullopt;
  return std::nullopt;
}

// Of exchanges of what kernels have made the one that begins last, and of several such the largest.
std::optional<ExchangeAtEnd> find_last_exchange(const std::vector<KernelWork>& kernels, const AccessLists& accesses) {
  std::optional<ExchangeAtEnd> last;
  for (size_t k = 0; k < kernels.size(); ++k) {
    const auto* exchange = std::get_if<Collectives>(&kernels[k]);
    if (exchange == nullptr || exchanged_bytes(*exchange) < kLargeExchangeBytes) continue;
    const auto producer = find_producer(kernels, accesses, k, exchange->parts.front().from.buffer);
    if (producer &&
        (!last || std::pair(*producer, exchanged_bytes(*exchange)) > std::pair(last->producer, last->bytes)))
      last = {*producer, exchanged_bytes(*exchange)};
  }
  return last;
}

// Behind which kernel each one comes: its own place, or for launches that collectives alone wait for the last kernel
// that they depend on, where that is far before them.
std::vector<size_t> places_behind(const std::vector<KernelWork>& kernels, const AccessLists& accesses) {
  struct Uses {
    std::vector<size_t> all, writes;  // kernels, in order
  };
  std::map<int, Uses> uses;  // by buffer
  for (size_t k = 0; k < kernels.size(); ++k)
    for (const Access& access : accesses[k]) {
      uses[access.holding.buffer].all.push_back(k);
      if (access.written) uses[access.holding.buffer].writes.push_back(k);
    }
  std::vector<size_t> places;
  for (size_t k = 0; k < kernels.size(); ++k) {
    places.push_back(k);
    if (!std::holds_alternative<Launch>(kernels[k])) continue;
    std::optional<size_t> behind;
    bool is_sent = false, is_used = false;
    for (const Access& access : accesses[k]) {
      const Uses& of_buffer = uses[access.holding.buffer];
      for (const size_t other : access.written ? of_buffer.all : of_buffer.writes) {
        if (other < k) behind = std::max(behind.value_or(0), other);
        if (other <= k) continue;
        (std::holds_alternative<Collectives>(kernels[other]) ? is_sent : is_used) = true;
      }
    }
    // Of the program's inputs alone: such a launch comes along with its collective.
    if (is_sent && !is_used && behind && *behind + kWorthMoving < k) places.back() = *behind;
  }
  return places;
}

std::vector<KernelWork> send_early(std::vector<KernelWork> kernels) {
  const std::vector<size_t> places = places_behind(kernels, lists_of_accesses(kernels));
  std::vector<size_t> order(kernels.size());
  for (size_t k = 0; k < order.size(); ++k) order[k] = k;
  std::ranges::sort(order, {}, [&](size_t k) { return std::pair(places[k], k); });
  std::vector<KernelWork> result;
  result.reserve(kernels.size());
  for (const size_t k : order) result.push_back(std::move(kernels[k]));
  return result;
}

// The launch that made what a large exchange sends, where a kernel soon waits for what that brings. What others bring
// is used at the end of the step, as gradients are.
std::optional<size_t> find_awaited_producer(const std::vector<KernelWork>& kernels, const AccessLists& accesses,
                                            size_t k) {
  const auto* exchange = std::get_if<Collectives>(&kernels[k]);
  if (exchange == nullptr || exchanged_bytes(*exchange) < kLargeExchangeBytes) return std::nullopt;
  const Collectives::Part& part = exchange->parts.front();
  for (size_t i = k + 1; i < std::min(kernels.size(), k + 1 + kAwaitedWithin); ++i)
    if (std::ranges::any_of(accesses[i], [&](const Access& access) {
          return !access.written && access.holding.buffer == part.to.buffer;
        }))
      return find_producer(kernels, accesses, k, part.from.buffer);
  return std::nullopt;
}

// What comes shortly before the launch that makes what is sent, and is not needed for it, comes behind it, once.
class ExchangesFirst {
 public:
  explicit ExchangesFirst(std::vector<KernelWork> kernels)
      : kernels_(std::move(kernels)), accesses_(lists_of_accesses(kernels_)), is_moved_(kernels_.size()) {}

  std::vector<KernelWork> run() {
    if (const auto last = find_last_exchange(kernels_, accesses_)) put_others_behind(last->producer, 0);
    size_t begin = 0;
    for (size_t k = 0; k < kernels_.size(); ++k) {
      const std::optional<size_t> producer = find_awaited_producer(kernels_, accesses_, k);
      if (producer && *producer >= begin) begin = put_others_behind(*producer, begin);
    }
    return std::move(kernels_);
  }

 private:
  // Of those from `begin` on; gives the place behind the producer.
  size_t put_others_behind(size_t producer, size_t begin) {
    const size_t end = producer + 1;
    begin = std::max(begin, end > kKernelsBefore ? end - kKernelsBefore : 0);
    std::vector<size_t> needed = {producer}, others;  // backwards
    for (size_t i = producer; i-- > begin;) {
      // Messages between stages keep their order.
      if (std::holds_alternative<StageMessage>(kernels_[i])) return end;
      const bool stays = is_moved_[i] != 0 ||
                         std::ranges::any_of(needed, [&](size_t n) { return are_bound(accesses_[i], accesses_[n]); });
      (stays ? needed : others).push_back(i);
    }
    for (const size_t i : others) is_moved_[i] = 1;
    std::vector<size_t> order;
    for (const std::vector<size_t>& part : {needed, others}) order.insert(order.end(), part.rbegin(), part.rend());
    const auto reorder = [&](auto& list) {
      std::remove_cvref_t<decltype(list)> window;
      for (const size_t i : order) window.push_back(std::move(list[i]));
      std::ranges::move(window, list.begin() + static_cast<ptrdiff_t>(begin));
    };
    reorder(kernels_);
    reorder(accesses_);
    reorder(is_moved_);
    return begin + needed.size();
  }

  std::vector<KernelWork> kernels_;
  AccessLists accesses_;
  std::vector<char> is_moved_;
};

}  // namespace

std::vector<KernelWork> exchange_early(std::vector<KernelWork> kernels) {
  return ExchangesFirst(send_early(std::move(kernels))).run();
}

}  // namespace causeway::program
