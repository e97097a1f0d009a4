#include "causeway/graph/sharding.h"

#include <algorithm>
#include <set>

#include "causeway/base/error.h"

namespace causeway::graph {
namespace {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

int64_t pieces(const std::vector<std::string>& axes, const Mesh& mesh) {
  int64_t product = 1;
  for (const std::string& axis : axes) product *= mesh.axes[mesh.axis(axis)].size;
  return product;
}

}  // namespace

int64_t Mesh::ranks() const {
  int64_t product = 1;
  for (const MeshAxis& axis : axes) product *= axis.size;
  return product;
}

size_t Mesh::axis(std::string_view name) const {
  std::vector<std::string> names;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].name == name) return i;
    names.push_back(axes[i].name);
  }
  throw Error(ErrorKind::kInvalidArgument, fmt::format("the mesh has no axis '{}'", name), "mesh",
              nearest_name(name, names).empty() ? fmt::format("It has {}.", fmt::join(names, ", "))
                                                : fmt::format("Did you mean '{}'?", nearest_name(name, names)));
}

const MeshAxis* Mesh::stage_axis() const {
  const auto found = std::find_if(axes.begin(), axes.end(), [](const MeshAxis& axis) { return axis.stages; });
  return found == axes.end() ? nullptr : &*found;
}

int64_t Mesh::stages() const { return stage_axis() == nullptr ? 1 : stage_axis()->size; }

int64_t Mesh::stage(int64_t rank) const {
  const MeshAxis* axis = stage_axis();
  return axis == nullptr ? 0 : rank / axis->stride % axis->size;
}

std::string Mesh::text() const {
  std::string text;
  for (const MeshAxis& axis : axes)
    text += fmt::format("{}{}={}/{}{}{}{}", text.empty() ? "" : " ", axis.name, axis.size, axis.stride,
                        axis.gathers_weights ? "" : "a", axis.stages ? "s" : "", axis.keeps_weights ? "k" : "");
  return text;
}

std::vector<int64_t> Mesh::group(int64_t rank, const std::vector<size_t>& along) const {
  int64_t first = rank;
  for (const size_t a : along) first -= coordinate(rank, a) * axes[a].stride;
  std::vector<int64_t> ranks = {first};
  for (const size_t a : along) {
    std::vector<int64_t> more;
    for (const int64_t base : ranks)
      for (int64_t c = 0; c < axes[a].size; ++c) more.push_back(base + c * axes[a].stride);
    ranks = std::move(more);
  }
  return ranks;
}

std::string group_name(const Mesh& mesh, const std::vector<size_t>& axes) {
  std::string name;
  for (const size_t axis : axes) name += (name.empty() ? "" : "+") + mesh.axes[axis].name;
  return name;
}

std::vector<size_t> group_axes(const Mesh& mesh, std::string_view name) {
  std::vector<size_t> axes;
  for (const std::string& axis : split(name, '+')) axes.push_back(mesh.axis(axis));
  return axes;
}

bool Sharding::replicated() const {
  return partial.empty() && std::all_of(dims.begin(), dims.end(), [](const auto& axes) { return axes.empty(); });
}

std::string Sharding::text() const {
  if (replicated()) return {};
  std::string text;
  const bool cut = std::any_of(dims.begin(), dims.end(), [](const auto& axes) { return !axes.empty(); });
  for (size_t d = 0; cut && d < dims.size(); ++d) {
    text += d == 0 ? "" : ",";
    text += dims[d].empty() ? "-" : fmt::format("{}", fmt::join(dims[d], "+"));
  }
  if (!partial.empty()) text += fmt::format("|{}", fmt::join(partial, "+"));
  return text;
}

Sharding Sharding::parse(std::string_view text) {
  Sharding sharding;
  const size_t bar = text.find('|');
  const auto axes = [&](std::string_view names) {
    std::vector<std::string> result = split(names, '+');
    for (const std::string& name : result)
      if (name.empty() || name == "-")
        throw Error(ErrorKind::kInvalidArgument, fmt::format("'{}' is no sharding: an axis has no name", text), {},
                    "Write it as 'tp+fsdp,-' or 'dp,-|tp'.");
    return result;
  };
  if (bar != std::string_view::npos) sharding.partial = axes(text.substr(bar + 1));
  const std::string_view cuts = text.substr(0, bar);
  if (!cuts.empty())
    for (const std::string& dim : split(cuts, ','))
      sharding.dims.push_back(dim == "-" ? std::vector<std::string>() : axes(dim));
  return sharding;
}

void check_sharding(const Sharding& sharding, const Shape& shape, const Mesh& mesh, std::string_view what) {
  const auto refuse = [&](const std::string& problem, const std::string& advice = {}) {
    throw Error(
        ErrorKind::kInvalidArgument,
        fmt::format("{} of {} cannot lie over the mesh as '{}': {}", what, shape_text(shape), sharding.text(), problem),
        "mesh", advice);
  };
  if (!sharding.dims.empty() && sharding.dims.size() != shape.size())
    refuse(fmt::format("it has {} dimensions", shape.size()));
  std::set<std::string> seen;
  const auto look_at = [&](const std::vector<std::string>& axes) {
    for (size_t i = 0; i < axes.size(); ++i) {
      const size_t at = mesh.axis(axes[i]);
      if (!seen.insert(axes[i]).second) refuse(fmt::format("'{}' is named twice", axes[i]));
      if (i > 0 && mesh.axis(axes[i - 1]) > at) refuse(fmt::format("'{}' comes before '{}'", axes[i], axes[i - 1]));
    }
  };
  for (const auto& axes : sharding.dims) look_at(axes);
  look_at(sharding.partial);
  for (size_t d = 0; d < sharding.dims.size(); ++d) {
    if (sharding.dims[d].empty()) continue;
    const int64_t count = pieces(sharding.dims[d], mesh);
    if (!shape[d].is_constant()) refuse(fmt::format("dimension {} has no fixed size", d));
    const int64_t size = shape[d].constant();
    if (size % count != 0)
      refuse(fmt::format("dimension {} of {} is not divisible by {} ranks", d, size, count),
             size < count ? fmt::format("The nearest size that is: {}.", count)
                          : fmt::format("The nearest sizes that are: {} and {}.", size / count * count,
                                        (size / count + 1) * count));
  }
}

Shape local_shape(const Shape& shape, const Sharding& sharding, const Mesh& mesh) {
  Shape local = shape;
  for (size_t d = 0; d < sharding.dims.size(); ++d)
    if (!sharding.dims[d].empty()) local[d] = Dim(shape[d].constant() / pieces(sharding.dims[d], mesh));
  return local;
}

std::vector<int64_t> shard_start(const Shape& shape, const Sharding& sharding, const Mesh& mesh, int64_t rank) {
  std::vector<int64_t> start(shape.size(), 0);
  for (size_t d = 0; d < sharding.dims.size(); ++d) {
    int64_t piece = shape[d].constant();
    for (const std::string& name : sharding.dims[d]) {
      const size_t axis = mesh.axis(name);
      piece /= mesh.axes[axis].size;
      start[d] += mesh.coordinate(rank, axis) * piece;
    }
  }
  return start;
}

}  // namespace causeway::graph
