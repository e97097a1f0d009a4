#include "causeway/train/step/uncut_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "causeway/base/byte_size.h"
#include "causeway/device/offline/offline_device.h"
#include "causeway/optimizer/optimizer.h"
#include "causeway/program/context.h"
#include "causeway/train/step/training_step.h"

namespace causeway::train {
namespace {

// "model.layers.12.mlp" as "model.layers.*.mlp".
std::string without_layer(const std::string& name) {
  std::string text;
  for (size_t from = 0; from <= name.size();) {
    const size_t to = std::min(name.find('.', from), name.size());
    const std::string part = name.substr(from, to - from);
    const bool is_number = !part.empty() && std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
    text += (text.empty() ? "" : ".") + (is_number ? "*" : part);
    from = to + 1;
  }
  return text;
}

bool cuts(const Sharding& sharding, const std::string& axis) {
  return std::ranges::any_of(sharding.dims,
                             [&](const auto& axes) { return std::ranges::find(axes, axis) != axes.end(); });
}

// Of a weight: itself, what the optimizer keeps and, where micro-batches are added up, its gradient.
int64_t held_bytes(const Parameter& weight, const Recipe& recipe) {
  const int64_t own = weight.tensor.local_bytes();
  if (!weight.is_trained) return own;
  const bool adds_up = recipe.micro_batches() > 1 && recipe.mesh.pp == 1;
  const int64_t elements = own / static_cast<int64_t>(size_bytes(weight.tensor.dtype()));
  return own + (adds_up ? elements * static_cast<int64_t>(sizeof(float)) : 0) +
         find_optimizer(recipe.optimizer.name).state_bytes(weight, recipe.optimizer);
}

}  // namespace

std::vector<UncutWeights> uncut_weights(const std::vector<Parameter>& parameters, const Mesh& mesh,
                                        const Recipe& recipe) {
  constexpr int64_t kWorthSaying = 100;
  std::vector<UncutWeights> result;
  for (const MeshAxis& axis : mesh.axes) {
    if (axis.stages) continue;
    UncutWeights uncut;
    uncut.axis = axis.name;
    uncut.ranks = axis.size;
    uncut.all = true;
    int64_t held = 0;
    for (const Parameter& parameter : parameters) {
      const int64_t bytes = held_bytes(parameter, recipe);
      held += bytes;
      if (parameter.tensor.shape().size() < 2) continue;
      if (cuts(parameter.tensor.sharding(), axis.name)) {
        uncut.all = false;
        continue;
      }
      uncut.bytes += bytes;
      const std::string text = fmt::format("{} [{}]", without_layer(parameter.name),
                                           fmt::join(evaluate(parameter.tensor.shape(), {}), ", "));
      if (std::ranges::find(uncut.tensors, text) == uncut.tensors.end()) uncut.tensors.push_back(text);
    }
    if (uncut.bytes > 0 && uncut.bytes >= held / kWorthSaying) result.push_back(std::move(uncut));
  }
  return result;
}

std::vector<UncutWeights> uncut_weights(const Recipe& recipe) {
  const Mesh mesh = make_mesh(recipe.mesh);
  if (mesh.empty()) return {};
  const auto device = std::make_shared<OfflineDevice>(Target());  // how weights are cut depends on none
  const auto context = std::make_shared<Context>(device, ContextOptions{.mesh = mesh});
  const ContextScope scope(context);
  return uncut_weights(LanguageModel::create(recipe.model, part_of_stage(recipe, 0), new_weights(recipe))->parameters(),
                       mesh, recipe);
}

std::string uncut_weights_text(const UncutWeights& uncut) {
  constexpr size_t kNamed = 3;
  const size_t named = std::min(kNamed, uncut.tensors.size());
  std::string names = fmt::format(
      "{}", fmt::join(uncut.tensors.begin(), uncut.tensors.begin() + static_cast<std::ptrdiff_t>(named), ", "));
  if (uncut.tensors.size() > named) names += fmt::format(" and {} more", uncut.tensors.size() - named);
  const std::string why =
      uncut.axis == name_of(MeshAxisId::kTp)
          ? "it does not divide their heads, feed-forward width or vocabulary, or queries, keys and "
            "values are one matrix"
          : fmt::format("none of their sizes is a multiple of {} times what else cuts it", uncut.ranks);
  return fmt::format(
      "mesh.{}={} cuts {}: {} of weights and optimizer state stay whole on each of its ranks, where {} would do. "
      "Whole are {}: {}.",
      uncut.axis, uncut.ranks, uncut.all ? "no weight" : "not all weights", format_bytes(uncut.bytes),
      format_bytes(uncut.bytes / uncut.ranks), names, why);
}

}  // namespace causeway::train
