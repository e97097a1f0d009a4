#include "causeway/passes/minimum_cut.h"

#include <algorithm>

#include "causeway/base/error.h"

namespace causeway::passes {

MinimumCut::MinimumCut(int32_t vertices) : leaving_(static_cast<size_t>(vertices)) {}

void MinimumCut::add_edge(int32_t from, int32_t to, int64_t capacity) {
  leaving_[static_cast<size_t>(from)].push_back(static_cast<int32_t>(edges_.size()));
  edges_.push_back({to, capacity});
  leaving_[static_cast<size_t>(to)].push_back(static_cast<int32_t>(edges_.size()));
  edges_.push_back({from, 0});
}

// Distances from the source along edges that can take more; whether the sink is among them.
bool MinimumCut::find_levels(int32_t source, int32_t sink) {
  level_.assign(leaving_.size(), -1);
  level_[static_cast<size_t>(source)] = 0;
  std::vector<int32_t> queue = {source};
  for (size_t head = 0; head < queue.size(); ++head) {
    const auto vertex = static_cast<size_t>(queue[head]);
    for (const int32_t index : leaving_[vertex]) {
      const Edge& edge = edges_[static_cast<size_t>(index)];
      int32_t& level = level_[static_cast<size_t>(edge.to)];
      if (edge.residual == 0 || level >= 0) continue;
      level = level_[vertex] + 1;
      queue.push_back(edge.to);
    }
  }
  return level_[static_cast<size_t>(sink)] >= 0;
}

// Sends what one shortest path can take; 0 when there is none left. A list in place of recursion: paths can be long.
int64_t MinimumCut::push_along_one_path(int32_t source, int32_t sink) {
  std::vector<int32_t> path;
  int32_t vertex = source;
  while (vertex != sink) {
    const auto at = static_cast<size_t>(vertex);
    bool advanced = false;
    for (; next_[at] < leaving_[at].size(); ++next_[at]) {
      const int32_t index = leaving_[at][next_[at]];
      const Edge& edge = edges_[static_cast<size_t>(index)];
      if (edge.residual == 0 || level_[static_cast<size_t>(edge.to)] != level_[at] + 1) continue;
      path.push_back(index);
      vertex = edge.to;
      advanced = true;
      break;
    }
    if (advanced) continue;
    if (path.empty()) return 0;
    vertex = edges_[static_cast<size_t>(path.back() ^ 1)].to;
    path.pop_back();
    ++next_[static_cast<size_t>(vertex)];
  }
  int64_t flow = kUncuttable;
  for (const int32_t index : path) flow = std::min(flow, edges_[static_cast<size_t>(index)].residual);
  for (const int32_t index : path) {
    edges_[static_cast<size_t>(index)].residual -= flow;
    edges_[static_cast<size_t>(index ^ 1)].residual += flow;
  }
  return flow;
}

std::vector<bool> MinimumCut::sink_side(int32_t source, int32_t sink) {
  int64_t total = 0;
  while (find_levels(source, sink)) {
    next_.assign(leaving_.size(), 0);
    while (const int64_t flow = push_along_one_path(source, sink)) {
      total += flow;
      CAUSEWAY_CHECK(total < kUncuttable, "every cut takes an edge that may not be cut");
    }
  }
  // What can still send to the sink: backward along edges that can take more.
  std::vector<bool> reaches(leaving_.size());
  reaches[static_cast<size_t>(sink)] = true;
  std::vector<int32_t> pending = {sink};
  while (!pending.empty()) {
    const auto vertex = static_cast<size_t>(pending.back());
    pending.pop_back();
    for (const int32_t index : leaving_[vertex]) {
      const auto from = static_cast<size_t>(edges_[static_cast<size_t>(index)].to);
      if (reaches[from] || edges_[static_cast<size_t>(index ^ 1)].residual == 0) continue;
      reaches[from] = true;
      pending.push_back(static_cast<int32_t>(from));
    }
  }
  return reaches;
}

}  // namespace causeway::passes
