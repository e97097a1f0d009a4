// How the documents of a dataset become samples of one length.
#pragma once

#include "causeway/base/named_values.h"
#include "causeway/namespaces.h"

namespace causeway::data {

enum class Packing {
  kWindows,    // all of them one after another, cut into windows (SampleOrder)
  kDocuments,  // whole documents and padding (PackedOrder)
};
constexpr auto named_values(Packing) {
  return std::to_array<NamedValue<Packing>>({{Packing::kWindows, "windows"}, {Packing::kDocuments, "documents"}});
}

}  // namespace causeway::data
