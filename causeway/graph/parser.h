// Reading the text form of a graph (printer.h).
#pragma once

#include <string_view>

#include "causeway/graph/graph.h"

namespace causeway::graph {

// parse_graph(print_graph(g)) is structurally equal to g and has the same scopes and backward marks. Value numbers may
// be any that are not yet taken, blank lines and lines that begin with # are skipped. Throws Error(kInvalidArgument)
// that gives the line and column, what was expected there, and for an unknown op or attribute the nearest name.
Graph parse_graph(std::string_view text);

}  // namespace causeway::graph
