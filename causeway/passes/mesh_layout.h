// How a value lies along every axis of a mesh, as the pass that shards sees it.
#pragma once

#include <vector>

#include "causeway/graph/graph.h"
#include "causeway/passes/sharding_rules.h"

namespace causeway::passes {

using Layout = std::vector<Placement>;  // by axis of the mesh

Layout layout_of(const Sharding& sharding, const Mesh& mesh);

// The shape of a rank's part.
Shape part_of(const Shape& shape, const Layout& layout, const Mesh& mesh);

// Whether the axes cut different digits of their dimensions, whose sizes they divide.
bool digits_fit(const Layout& layout, const Shape& shape, const Mesh& mesh);

// Whether every rank's part is one range of each dimension.
bool parts_are_contiguous(const Layout& layout, const Mesh& mesh);

// A dimension of a rank's part, seen as [outer, n, inner], in which `axis` has (or would have) the middle digit. Of the
// part that is not cut by this axis.
struct DigitView {
  int64_t outer = 1;
  int64_t ranks = 1;
  int64_t inner = 1;
};
DigitView digit_view(const Shape& shape, const Layout& layout, const Mesh& mesh, size_t axis, Placement cut);

}  // namespace causeway::passes
