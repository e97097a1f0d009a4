#include "causeway/passes/minimum_cut.h"

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>

#include "causeway/base/error.h"

namespace causeway::passes {
namespace {

using FlowTraits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
struct FlowEdge {
  int64_t capacity = 0, residual = 0;
  FlowTraits::edge_descriptor reverse;
};
using FlowGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, FlowEdge>;

// Vertices that edges which `passes` accepts lead to from `start`, itself included.
template <class Passes>
std::vector<bool> reached_from(const FlowGraph& graph, int32_t start, const Passes& passes) {
  std::vector<bool> reached(num_vertices(graph));
  reached[static_cast<size_t>(start)] = true;
  std::vector<size_t> pending = {static_cast<size_t>(start)};
  while (!pending.empty()) {
    const size_t vertex = pending.back();
    pending.pop_back();
    for (const auto& edge : boost::make_iterator_range(out_edges(vertex, graph))) {
      const size_t next = target(edge, graph);
      if (reached[next] || !passes(graph[edge])) continue;
      reached[next] = true;
      pending.push_back(next);
    }
  }
  return reached;
}

}  // namespace

std::vector<bool> MinimumCut::sink_side(int32_t source, int32_t sink) const {
  int64_t cuttable = 0;
  for (const Edge& edge : edges_)
    if (edge.capacity != kUncuttable) cuttable += edge.capacity;
  CAUSEWAY_CHECK(cuttable < kUncuttable, "capacities of {} in all", cuttable);
  const int64_t uncuttable = cuttable + 1;  // more than any cut that does without
  FlowGraph graph(static_cast<size_t>(vertices_));
  for (const Edge& edge : edges_) {
    const auto from = static_cast<size_t>(edge.from), to = static_cast<size_t>(edge.to);
    const auto forward = boost::add_edge(from, to, graph).first, reverse = boost::add_edge(to, from, graph).first;
    graph[forward].capacity = edge.capacity == kUncuttable ? uncuttable : edge.capacity;
    graph[forward].reverse = reverse;
    graph[reverse].reverse = forward;
  }
  CAUSEWAY_CHECK(
      !reached_from(graph, source,
                    [&](const FlowEdge& edge) { return edge.capacity == uncuttable; })[static_cast<size_t>(sink)],
      "every cut takes an edge that may not be cut");

  std::vector<FlowTraits::edge_descriptor> predecessors(num_vertices(graph));
  std::vector<boost::default_color_type> colors(num_vertices(graph));
  std::vector<int32_t> distances(num_vertices(graph));
  boykov_kolmogorov_max_flow(graph, get(&FlowEdge::capacity, graph), get(&FlowEdge::residual, graph),
                             get(&FlowEdge::reverse, graph), predecessors.data(), colors.data(), distances.data(),
                             get(boost::vertex_index, graph), static_cast<size_t>(source), static_cast<size_t>(sink));
  // What can still send to the sink: against edges that can take more.
  return reached_from(graph, sink, [&](const FlowEdge& edge) { return graph[edge.reverse].residual > 0; });
}

}  // namespace causeway::passes
