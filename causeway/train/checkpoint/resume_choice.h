// Which checkpoint a run is to go on from, as its user says it.
#pragma once

#include <string>

#include "causeway/namespaces.h"

namespace causeway::train {

enum class ResumeMode {
  kFresh,  // a run directory that holds a checkpoint is an error
  kAuto,   // from the newest intact checkpoint, when there is one
  kFrom,   // from one that is named
};

struct ResumeChoice {
  ResumeMode mode = ResumeMode::kFresh;
  std::string from;  // kFrom: a step of the run, or the path of a checkpoint or of a run (its newest)
};

// "" is fresh, "auto" is kAuto, a number or an existing path kFrom. Throws Error(kInvalidArgument) for anything else.
ResumeChoice parse_resume(const std::string& text);

}  // namespace causeway::train
