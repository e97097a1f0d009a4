#include "causeway/program/host_offload.h"

#include <algorithm>

#include "causeway/base/error.h"

namespace causeway::program {
namespace {

// Kernels that run while the first batch comes.
constexpr int kFirstLoadAhead = 16;

bool is_of_backward(const Graph& graph, const KernelRequest& request) {
  return std::ranges::any_of(request.members, [&](Value member) { return graph.node(member).backward; });
}

// What other ranks wait for goes by queues of its own.
bool computes(const KernelRequest& request) {
  return request.kind != KernelKind::kCollective && request.kind != KernelKind::kMessage;
}

}  // namespace

std::map<Value, int> find_offloaded(const Graph& graph, const FusionResult& fusion,
                                    const std::vector<GeneratedKernel>& kernels,
                                    const std::map<Value, ValueLife>& lives, const std::set<Value>& in_arena,
                                    const SymbolBindings& bindings) {
  std::map<Value, int> last_use, next_use;  // of the forward pass, and the first of the backward pass
  for (size_t k = 0; k < kernels.size(); ++k) {
    const bool backward = is_of_backward(graph, fusion.kernels[k]);
    for (const KernelArgument& argument : kernels[k].arguments) {
      if (argument.kind != KernelArgument::Kind::kValue || next_use.contains(argument.value)) continue;
      (backward && !argument.written ? next_use : last_use)[argument.value] = static_cast<int>(k);
    }
  }
  std::map<Value, int> found;
  int64_t largest = 0;
  for (const auto& [value, next] : next_use) {
    if (!in_arena.contains(value) || graph.node(value).backward) continue;
    const ValueLife& life = lives.at(value);
    if (life.writer < 0 || life.outlives || !computes(fusion.kernels[static_cast<size_t>(life.writer)])) continue;
    if (is_of_backward(graph, fusion.kernels[static_cast<size_t>(life.writer)])) continue;
    if (next - last_use.at(value) < kLeastGap) continue;
    found[value] = next;
    largest = std::max(largest, byte_count(graph.type(value), bindings));
  }
  std::erase_if(
      found, [&](const auto& entry) { return byte_count(graph.type(entry.first), bindings) * kSmallShare < largest; });
  return found;
}

std::map<int, std::vector<Copy>> place_stores(std::span<const Instruction> work, const std::vector<Copy>& stores) {
  std::map<std::pair<int, int>, int> writer;  // by buffer and content
  for (size_t i = 0; i < work.size(); ++i)
    for (const Access& access : work[i].accesses())
      if (access.written) writer[{access.holding.buffer, access.holding.content}] = static_cast<int>(i);
  std::map<int, std::vector<Copy>> placed;
  for (const Copy& store : stores) {
    const auto known = writer.find({store.from.buffer, store.from.content});
    CAUSEWAY_CHECK(known != writer.end(), "nothing writes what is copied to the host");
    placed[known->second].push_back(store);
  }
  return placed;
}

std::vector<PlacedLoad> place_loads(std::span<const Instruction> work, const HostCopies& copies, int64_t batch_bytes) {
  std::map<int, int> first_use, stored;  // by buffer: of those that are loaded to, and of those on the host
  for (const Copy& load : copies.loads) first_use[load.to] = -1;
  for (size_t i = 0; i < work.size(); ++i)
    for (const Access& access : work[i].accesses())
      if (const auto known = first_use.find(access.holding.buffer); known != first_use.end() && known->second < 0)
        known->second = static_cast<int>(i);
  for (const auto& [position, list] : place_stores(work, copies.stores))
    for (const Copy& store : list) stored[store.to] = position;
  std::vector<std::pair<int, size_t>> order;  // by first use
  for (size_t i = 0; i < copies.loads.size(); ++i) {
    order.emplace_back(first_use.at(copies.loads[i].to), i);
    CAUSEWAY_CHECK(order.back().first >= 0, "nothing reads what is copied from the host");
  }
  std::ranges::sort(order);

  std::map<int, std::vector<PlacedLoad>> placed;
  int batch = -1, last_use = -1;
  int begin = 0, previous = -1;  // where the batch is used first, and where the one before it is
  int64_t bytes = 0;
  for (const auto& [use, index] : order) {
    const Copy& load = copies.loads[index];
    if (batch < 0 || (bytes >= batch_bytes && use != last_use)) {
      previous = batch < 0 ? std::max(0, use - kFirstLoadAhead) : begin;
      begin = use;
      bytes = 0;
      ++batch;
    }
    last_use = use;
    bytes += load.bytes;
    int before = batch_bytes == 0 ? use : previous;
    // An update of the host's memory is of what comes in, so that a store behind the use says nothing.
    if (const auto from = stored.find(load.from.buffer); from != stored.end() && from->second < use)
      before = std::max(before, from->second + 1);
    placed[before].push_back({before, batch, load});
  }
  std::vector<PlacedLoad> list;
  for (const auto& [before, loads] : placed) list.insert(list.end(), loads.begin(), loads.end());
  return list;
}

}  // namespace causeway::program
