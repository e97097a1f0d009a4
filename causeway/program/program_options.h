// What is asked of a program.
#pragma once

#include "causeway/base/fields.h"
#include "causeway/passes/pipeline_options.h"

namespace causeway::program {

struct ProgramOptions {
  PipelineOptions pipeline = {};
  // Multiprocessors of a GPU that persistent kernels leave to what runs beside them, collectives above all. Results do
  // not depend on it.
  int free_units = 0;

  // Values of the forward pass that the backward pass reads are kept in the host's memory meanwhile (host_offload.h).
  // Results do not depend on it.
  bool offloads_activations = false;

  static constexpr auto fields() {
    return std::tuple{ListedField{"pipeline", &ProgramOptions::pipeline},
                      ListedField{"free_units", &ProgramOptions::free_units},
                      ListedField{"offloads_activations", &ProgramOptions::offloads_activations}};
  }
};
static_assert(lists_every_field<ProgramOptions>);

}  // namespace causeway::program
