// A checkpoint as a Hugging Face directory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "causeway/graph/dtype.h"
#include "causeway/model/adapter.h"
#include "causeway/train/hugging_face/model_probe.h"

namespace causeway::train {

struct ExportOptions {
  std::filesystem::path checkpoint;
  std::filesystem::path output;
  bool overwrite = false;     // replace the model that is there
  DType dtype = DType::kF32;  // f32, bf16 or f16
  uint64_t max_file_bytes = uint64_t{5} << 30;
  // Whose tokenizer files are copied; empty: the checkpoint's own, or where it has none those of the directory that the
  // run began from (model.from).
  std::string tokenizer_directory;
  bool merged = false;  // of a run that trained adapters: added to their base
};

struct ExportResult {
  int64_t step = 0;
  std::string family;
  int64_t parameters = 0;
  uint64_t bytes = 0;     // of the tensors
  std::string tokenizer;  // where it comes from, for people
  ProbeTokens probe;
  OtherEntries other_entries;   // of config.json
  ProbeDifference difference;   // of the directory's logits to the checkpoint's
  std::string adapter_of = {};  // where an adapter alone was written, its base (model.from)
  // How the base lay that adapters were trained on (lora.base). Where it was quantized and they were merged into it:
  // how far its matrices are, as the adapters knew them and as they were written, from those of model.from, as a share
  // of their size (root mean squares).
  BaseWeights base_weights = BaseWeights::kUnquantized;
  double base_error = 0;
};

// What rounding every weight to the type may do to logits, as a share of their size.
double most_relative_difference(DType dtype);

// Writes the checkpoint's weights with config.json, tokenizer and a probe. Before the directory is put in its place the
// model is loaded from it again, and the logits of a short text are compared with those of the checkpoint: in f32 all
// bits must be equal, and otherwise they may be apart by what rounding the weights comes to. Computes on the current
// context, whose device must hold the weights. Throws Error for a damaged checkpoint, for weights that the type cannot
// hold, for a full disk, and as ModelDirectory does; what was there before is then as it was.
// Of a run that trained adapters writes what export_adapter() does, or with `merged` the model that base and adapters
// are together, in which sums are rounded in another order. A quantized base is what it is multiplied as: what that is
// apart from the weights of model.from is said, and lost. `merged` of another run is an Error(kInvalidArgument).
ExportResult export_checkpoint(const ExportOptions& options);

}  // namespace causeway::train
