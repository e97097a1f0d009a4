// Writes the graph of one rank: nodes on its parts, and the collectives between layouts.
#pragma once

#include <vector>

#include "causeway/graph/graph.h"
#include "causeway/passes/builder.h"
#include "causeway/passes/mesh_layout.h"

namespace causeway::passes {

// A node of the graph of whole values, with operands of the rank's graph.
struct LocalNode {
  const Node& node;
  std::vector<Value> inputs;
  std::vector<Layout> input_layouts, output_layouts;
  std::vector<Shape> input_shapes;  // whole
};

class LocalEmitter {
 public:
  // Both outlive it.
  LocalEmitter(Graph& target, const Mesh& mesh) : target_(target), mesh_(mesh), build_(target) {}

  // The input kMeshCoordinates, which parts that begin somewhere need.
  void set_coordinates(Value coordinates) { coordinates_ = coordinates; }

  std::vector<Value> build(const LocalNode& local);
  // `value`, of a whole value of type `type`, in another layout. Ranks hold no more terms than before.
  Value convert(Value value, const TensorType& type, Layout from, const Layout& to);
  // The largest of the ranks along an axis, element by element.
  Value maximum(Value value, size_t axis);

 private:
  Value collective(Op op, Value x, const std::vector<size_t>& axes);
  // all_gather or all_to_all, which move bits of any type.
  Value exchange(Op op, Value x, size_t axis);
  // x with `dim` seen as `view`, whose middle digit comes first; and back.
  Value digit_first(Value x, int dim, const DigitView& view);
  Value digit_back(Value x, int dim, const DigitView& view);
  Value slice(Value x, int dim, const DigitView& view, size_t axis);
  Value coordinate(size_t axis);
  // Of the first element of the rank's part of a dimension: i32 [].
  Value start(const Shape& shape, const Layout& layout, int dim);
  // `value`, an i32 [], in every element of the type of `like`.
  Value filled(Value value, Value like);
  std::vector<Value> build_attention(const LocalNode& local);
  Value build_gather(const LocalNode& local);
  Value build_scatter_add(const LocalNode& local);

  Graph& target_;
  const Mesh& mesh_;
  Builder build_;
  Value coordinates_;
};

}  // namespace causeway::passes
