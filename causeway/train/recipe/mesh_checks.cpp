#include "causeway/train/recipe/mesh_checks.h"

#include <fmt/format.h>

#include "causeway/base/error.h"

namespace causeway::train {
namespace {

void require_of_mesh(bool condition, const std::string& key, const std::string& what, const std::string& hint = {}) {
  if (!condition) throw Error(ErrorKind::kInvalidArgument, what, key, hint);
}

std::string nearest_multiples(int64_t size, int64_t of) {
  if (size < of) return fmt::format("The nearest that is: {}.", of);
  return fmt::format("The nearest that are: {} and {}.", size / of * of, (size / of + 1) * of);
}

}  // namespace

// What the mesh cuts must have as many equal parts as there are ranks to hold them.
void check_mesh(const Recipe& r) {
  constexpr int64_t kMostRanks = 1 << 20;
  const Recipe::MeshSizes& mesh = r.mesh;
  int64_t ranks = 1;
  for (const auto& [axis, name] : named_values(MeshAxisId())) {
    const std::string key = fmt::format("mesh.{}", name);
    const int64_t size = mesh.size(axis);
    require_of_mesh(size >= 1, key, "must be at least 1");
    require_of_mesh(size <= kMostRanks / ranks, key, fmt::format("makes a mesh of more than {} ranks", kMostRanks));
    ranks *= size;
  }
  const auto divides = [](const char* key, int64_t size, int64_t by, const std::string& axes) {
    require_of_mesh(size % by == 0, key, fmt::format("{} is not divisible by {} = {}", size, axes, by),
                    nearest_multiples(size, by));
  };
  divides("model.heads", r.model.heads, mesh.tp, "mesh.tp");
  divides("model.kv_heads", r.model.kv_heads, mesh.tp, "mesh.tp");
  divides("model.ffn_width", r.model.ffn_width, mesh.tp, "mesh.tp");
  divides("train.micro_batch_size", r.train.micro_batch_size, mesh.dp * mesh.fsdp, "mesh.dp x mesh.fsdp");
  // A rank along cp holds two chunks of a sequence (SequenceOrder).
  const bool halves = mesh.cp > 1 && mesh.tp % 2 != 0 && !r.train.mesh_independent;
  divides("data.sequence_length", r.data.sequence_length, (halves ? 2 : 1) * mesh.cp * mesh.tp,
          halves ? "2 x mesh.cp x mesh.tp" : "mesh.cp x mesh.tp");
}

// Every stage has a layer for each of its pieces.
void check_pipeline(const Recipe& r) {
  if (r.train.mesh_independent && r.mesh.pp > 1) {
    // One device adds up both gradients of each micro-batch, the two stages each one's own.
    require_of_mesh(
        !r.model.tie_embeddings, "train.mesh_independent",
        "the gradient of tied embeddings over stages (mesh.pp) is added up in another order than on one device",
        "Set model.tie_embeddings=false where the family allows it, or cut over another axis than mesh.pp.");
    require_of_mesh(
        r.train.precision == Precision::kF32 || r.train.precision == Precision::kTf32, "train.mesh_independent",
        "what stages (mesh.pp) send each other is f32 and not rounded as it is between layers of one device",
        "Set train.precision=f32, or cut over another axis than mesh.pp.");
  }
  require_of_mesh(r.train.pipeline_chunks >= 1, "train.pipeline_chunks", "must be at least 1");
  require_of_mesh(r.mesh.pp <= r.model.layers, "mesh.pp",
                  fmt::format("{} stages are more than the model has layers, {}", r.mesh.pp, r.model.layers),
                  fmt::format("Give at most {}.", r.model.layers));
  const bool interleaved = r.train.pipeline_schedule == PipelineSchedule::kInterleaved;
  if (!interleaved || r.mesh.pp == 1) {
    require_of_mesh(
        r.train.pipeline_chunks == 1, "train.pipeline_chunks",
        fmt::format("{} runs of layers on each stage are for train.pipeline_schedule=interleaved over several stages",
                    r.train.pipeline_chunks));
    return;
  }
  require_of_mesh(r.train.pipeline_chunks >= 2, "train.pipeline_chunks",
                  "the interleaved schedule is for several runs of layers on each stage",
                  "Give 2 or more, or choose train.pipeline_schedule=1f1b.");
  require_of_mesh(r.train.pipeline_chunks <= r.model.layers / r.mesh.pp, "train.pipeline_chunks",
                  fmt::format("{} stages with {} runs of layers each are more than the model has layers, {}", r.mesh.pp,
                              r.train.pipeline_chunks, r.model.layers),
                  fmt::format("Give at most {}.", r.model.layers / r.mesh.pp));
  require_of_mesh(
      r.micro_batches() % r.mesh.pp == 0, "train.micro_batch_size",
      fmt::format("the interleaved schedule takes micro-batches by as many as there are stages, and {} sequences of "
                  "{} make {} of them for {} stages",
                  r.train.batch_size, r.train.micro_batch_size, r.micro_batches(), r.mesh.pp),
      fmt::format("Give a multiple of {} micro-batches, or choose another train.pipeline_schedule.", r.mesh.pp));
}

}  // namespace causeway::train
