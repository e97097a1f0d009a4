// The namespaces of the folders, in the order of the pipeline: each sees the names of those before it, as includes may
// point to them, and of none after it. A name that two folders declare is written with its folder's.
#pragma once

namespace causeway {  // causeway/base

namespace graph {}
namespace device {
using namespace graph;
}
namespace communicator {
using namespace device;
}
namespace passes {
using namespace communicator;
}
namespace codegen {
using namespace passes;
}
namespace program {
using namespace codegen;
}
namespace tensor {
using namespace program;
}
namespace formats {
using namespace tensor;
}
namespace model {
using namespace formats;
}
namespace data {
using namespace model;
}
namespace optimizer {
using namespace data;
}
namespace generate {
using namespace optimizer;
}
namespace evaluation {
using namespace generate;
}
namespace train {
using namespace evaluation;
}
namespace bench {
using namespace train;
}
namespace plan {
using namespace bench;
}
namespace cli {
using namespace plan;
}

}  // namespace causeway
