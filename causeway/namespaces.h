// The namespaces of the folders, in the order of the pipeline: each sees the names of those before it, as includes may
// point to them, and of none after it. A name that two folders declare is written with its folder's. What is in
// causeway/base is in `causeway` itself.
#pragma once

namespace causeway {

namespace base {}
#define CAUSEWAY_STAGE(folder, before) \
  namespace folder {                   \
  using namespace before;              \
  }
#include "causeway/stages.def"
#undef CAUSEWAY_STAGE

}  // namespace causeway
