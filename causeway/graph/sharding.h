// How tensors lie over a mesh of ranks: part of what a graph says of its values.
//
// A mesh numbers ranks by named axes. A value is, along each axis, replicated (every rank holds the same), cut (each
// holds its part of one dimension), or partial (each holds a term of a sum). Where several axes cut one dimension they
// do so in the order of the mesh, the first one into the largest pieces, so that undoing the last one's cut is a gather
// of neighbours. The parts of a cut are equal. Methods: Shardy (openxla/shardy), Xu et al., GSPMD, arXiv 2105.04663.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/graph/dim.h"

namespace causeway::graph {

struct MeshAxis {
  std::string name;
  int64_t size = 1;
  // How far apart in rank numbers the neighbours along this axis are.
  int64_t stride = 1;
  // Where a GEMM meets a cut activation and a cut weight on this axis, the weight is gathered (data parallelism with
  // cut weights); otherwise the activation is (tensor parallelism).
  bool gathers_weights = true;
  // Ranks along it run different graphs, the stages of a pipeline; it cuts nothing.
  bool stages = false;
  // Weights that are gathered along it alone stay whole until the backward pass has used them; those that are gathered
  // along other axes too are gathered again.
  bool keeps_weights = false;
  bool operator==(const MeshAxis&) const = default;
};

struct Mesh {
  std::vector<MeshAxis> axes;  // in the order in which they cut a dimension, largest pieces first

  bool empty() const { return axes.empty(); }
  int64_t ranks() const;
  // Position among the axes; throws Error(kInvalidArgument) with the nearest name.
  size_t axis(std::string_view name) const;
  // The axis of stages, if there is one.
  const MeshAxis* stage_axis() const;
  // How many stages there are, and which one is the rank's; 1 and 0 without such an axis.
  int64_t stages() const;
  int64_t stage(int64_t rank) const;
  int64_t coordinate(int64_t rank, size_t axis) const { return rank / axes[axis].stride % axes[axis].size; }
  // The ranks whose coordinates differ from those of `rank` along these axes at most, in the order of their coordinates
  // (the first axis changes slowest). Their number is the product of the axes' sizes.
  std::vector<int64_t> group(int64_t rank, const std::vector<size_t>& axes) const;
  // Equal for equal meshes only.
  std::string text() const;
  bool operator==(const Mesh&) const = default;
};

// The name of a group in graphs, by its axes: "fsdp+dp"; and back.
std::string group_name(const Mesh& mesh, const std::vector<size_t>& axes);
std::vector<size_t> group_axes(const Mesh& mesh, std::string_view name);

// By names of axes. Replicated along axes that are not named.
struct Sharding {
  // For each dimension the axes that cut it, in the order of the mesh. Empty: no dimension is cut.
  std::vector<std::vector<std::string>> dims;
  std::vector<std::string> partial;

  bool replicated() const;
  // "tp+fsdp,-": dimension by dimension; "|tp" follows where ranks of tp hold terms of a sum. Empty when replicated.
  std::string text() const;
  // What text() gives; throws Error(kInvalidArgument).
  static Sharding parse(std::string_view text);
  bool operator==(const Sharding& other) const { return text() == other.text(); }
};

// Throws Error(kInvalidArgument), which names `what`: an axis that the mesh lacks or that is named twice or out of
// order, a number of dimensions other than the shape's, a dimension that its axes do not divide (with the nearest sizes
// that they do), a symbolic one that is cut.
void check_sharding(const Sharding& sharding, const Shape& shape, const Mesh& mesh, std::string_view what);

// What one rank holds of a value.
Shape local_shape(const Shape& shape, const Sharding& sharding, const Mesh& mesh);

// The index of a rank's first element, by dimension, of a shape without symbols.
std::vector<int64_t> shard_start(const Shape& shape, const Sharding& sharding, const Mesh& mesh, int64_t rank);

// The first input of every graph that is made for a mesh: i32 [number of axes], the rank's coordinates.
inline constexpr char kMeshCoordinates[] = "mesh_coordinates";

}  // namespace causeway::graph
