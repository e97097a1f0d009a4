// The adapters of a run as a directory that PEFT can read.
#pragma once

#include "causeway/train/hugging_face/export_checkpoint.h"

namespace causeway::train {

// Writes adapter_config.json and adapter_model.safetensors of a checkpoint whose run trained adapters, or of
// ExportOptions::adapters as one. Before the directory is put in its place they are read from it again, and the logits
// of a short text compared with the checkpoint's, as export_checkpoint() does, with its errors. A directory that is
// replaced may hold an adapter and nothing else.
ExportResult export_adapter(const ExportOptions& options);

}  // namespace causeway::train
