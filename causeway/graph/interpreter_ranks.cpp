// The reference interpreter's parts for several ranks: collectives, and what each rank holds of a tensor.
#include <algorithm>

#include "causeway/base/error.h"
#include "causeway/graph/interpreter_node.h"
#include "causeway/graph/op.h"

namespace causeway::graph {
namespace {

// Calls `visit(index in the part, index in the whole)` for every element of a rank's part, row-major.
template <class Visit>
void for_each_element(const std::vector<int64_t>& part, const std::vector<int64_t>& whole,
                      const std::vector<int64_t>& start, Visit visit) {
  const size_t rank = part.size();
  std::vector<int64_t> strides(rank, 1);
  for (size_t d = rank; d-- > 1;) strides[d - 1] = strides[d] * whole[d];
  const int64_t count = element_count(part);
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, at = 0;
    for (size_t d = rank; d-- > 0; rest /= part[d]) at += (start[d] + rest % part[d]) * strides[d];
    visit(static_cast<size_t>(i), static_cast<size_t>(at));
  }
}

Shape shape_of(const std::vector<int64_t>& sizes) { return Shape(sizes.begin(), sizes.end()); }

}  // namespace

void evaluate_collective(const NodeEvaluation& evaluation, std::span<const HostTensor* const> of_group,
                         int64_t position) {
  HostTensor& out = evaluation.output();
  const size_t count = out.values.size(), ranks = of_group.size();
  if (static_cast<int64_t>(ranks) != evaluation.node.attributes.count)
    throw_evaluation_error(evaluation,
                           fmt::format("is of {} ranks in a group of {}", evaluation.node.attributes.count, ranks));
  switch (evaluation.node.op) {
    case Op::kAllGather:
      for (size_t r = 0; r < ranks; ++r)
        std::copy(of_group[r]->values.begin(), of_group[r]->values.end(),
                  out.values.begin() + static_cast<ptrdiff_t>(r * count / ranks));
      break;
    case Op::kAllToAll: {
      const size_t part = count / ranks, from = static_cast<size_t>(position) * part;
      for (size_t r = 0; r < ranks; ++r)
        for (size_t i = 0; i < part; ++i) out.values[r * part + i] = of_group[r]->values[from + i];
      break;
    }
    default: {  // sums
      const size_t from = evaluation.node.op == Op::kReduceScatter ? static_cast<size_t>(position) * count : 0;
      for (size_t i = 0; i < count; ++i) {
        double sum = of_group[0]->values[from + i];
        for (size_t r = 1; r < ranks; ++r) sum += of_group[r]->values[from + i];
        out.values[i] = sum;
      }
    }
  }
  round_outputs(evaluation);
}

HostTensor shard_of(const HostTensor& whole, const Sharding& sharding, const Mesh& mesh, int64_t rank) {
  CAUSEWAY_CHECK(sharding.partial.empty(), "a whole value has no terms");
  const Shape shape = shape_of(whole.shape);
  HostTensor part = fill_host_tensor(whole.dtype, evaluate(local_shape(shape, sharding, mesh), {}), 0);
  for_each_element(part.shape, whole.shape, shard_start(shape, sharding, mesh, rank),
                   [&](size_t i, size_t at) { part.values[i] = whole.values[at]; });
  return part;
}

HostTensor assemble(const std::vector<HostTensor>& parts, const Sharding& sharding, const Mesh& mesh) {
  CAUSEWAY_CHECK(static_cast<int64_t>(parts.size()) == mesh.ranks());
  std::vector<int64_t> sizes = parts[0].shape;
  for (size_t d = 0; d < sharding.dims.size(); ++d)
    for (const std::string& axis : sharding.dims[d]) sizes[d] *= mesh.axes[mesh.axis(axis)].size;
  HostTensor whole = fill_host_tensor(parts[0].dtype, sizes, 0);
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    // Of ranks that hold the same, the one at the beginning of the axis; of terms, all.
    bool counts = true;
    for (size_t a = 0; a < mesh.axes.size(); ++a) {
      const std::string& name = mesh.axes[a].name;
      const auto names = [&](const std::vector<std::string>& axes) {
        return std::find(axes.begin(), axes.end(), name) != axes.end();
      };
      const bool differs = names(sharding.partial) || std::any_of(sharding.dims.begin(), sharding.dims.end(), names);
      if (!differs && mesh.coordinate(rank, a) != 0) counts = false;
    }
    if (!counts) continue;
    const HostTensor& part = parts[static_cast<size_t>(rank)];
    for_each_element(part.shape, whole.shape, shard_start(shape_of(sizes), sharding, mesh, rank),
                     [&](size_t i, size_t at) { whole.values[at] += part.values[i]; });
  }
  return whole;
}

}  // namespace causeway::graph
