// Keller Jordan, Muon: An optimizer for hidden layers in neural networks, 2024, as torch.optim.Muon
// (orthogonal_update.h).
#include "causeway/optimizer/optimizers.h"
#include "causeway/optimizer/orthogonal_update.h"

namespace causeway::optimizer {

Optimizer muon_optimizer() { return orthogonal_optimizer("muon", {}, {}); }

}  // namespace causeway::optimizer
