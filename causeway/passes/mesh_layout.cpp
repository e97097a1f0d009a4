#include "causeway/passes/mesh_layout.h"

#include <algorithm>
#include <map>

namespace causeway::passes {

Layout layout_of(const Sharding& sharding, const Mesh& mesh) {
  Layout layout(mesh.axes.size());
  for (size_t d = 0; d < sharding.dims.size(); ++d) {
    int64_t outer = 1;
    for (const std::string& name : sharding.dims[d]) {
      const size_t axis = mesh.axis(name);
      layout[axis] = Placement::cut(static_cast<int>(d), outer);
      outer *= mesh.axes[axis].size;
    }
  }
  for (const std::string& name : sharding.partial) layout[mesh.axis(name)] = Placement::term();
  return layout;
}

Shape part_of(const Shape& shape, const Layout& layout, const Mesh& mesh) {
  Shape part = shape;
  for (size_t axis = 0; axis < layout.size(); ++axis)
    if (layout[axis].is_cut()) {
      Dim& size = part[static_cast<size_t>(layout[axis].dim)];
      size = Dim(size.constant() / mesh.axes[axis].size);
    }
  return part;
}

bool digits_fit(const Layout& layout, const Shape& shape, const Mesh& mesh) {
  for (size_t a = 0; a < layout.size(); ++a) {
    if (!layout[a].is_cut()) continue;
    const Dim& size = shape[static_cast<size_t>(layout[a].dim)];
    if (!size.is_constant() || size.constant() % (layout[a].outer * mesh.axes[a].size) != 0) return false;
    for (size_t b = 0; b < a; ++b) {
      if (!layout[b].is_cut() || layout[b].dim != layout[a].dim) continue;
      const bool a_is_outer =
          layout[a].outer < layout[b].outer || (layout[a].outer == layout[b].outer && mesh.axes[a].size == 1);
      const size_t first = a_is_outer ? a : b, second = a_is_outer ? b : a;
      if (layout[second].outer % (layout[first].outer * mesh.axes[first].size) != 0) return false;
    }
  }
  return true;
}

bool parts_are_contiguous(const Layout& layout, const Mesh& mesh) {
  std::map<int, std::vector<std::pair<int64_t, int64_t>>> digits;  // by dimension: outer, ranks
  for (size_t a = 0; a < layout.size(); ++a)
    if (layout[a].is_cut()) digits[layout[a].dim].emplace_back(layout[a].outer, mesh.axes[a].size);
  for (auto& [dim, cuts] : digits) {
    std::sort(cuts.begin(), cuts.end());
    int64_t outer = 1;
    for (const auto& [begins, ranks] : cuts) {
      if (begins != outer) return false;
      outer *= ranks;
    }
  }
  return true;
}

DigitView digit_view(const Shape& shape, const Layout& layout, const Mesh& mesh, size_t axis, Placement cut) {
  DigitView view{cut.outer, mesh.axes[axis].size, 1};
  int64_t local = shape[static_cast<size_t>(cut.dim)].constant();
  for (size_t a = 0; a < layout.size(); ++a) {
    if (a == axis || !layout[a].is_cut() || layout[a].dim != cut.dim) continue;
    local /= mesh.axes[a].size;
    if (layout[a].outer < cut.outer) view.outer /= mesh.axes[a].size;
  }
  view.inner = local / (view.outer * view.ranks);
  return view;
}

}  // namespace causeway::passes
