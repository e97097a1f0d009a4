// The op library: everything a model is written with. docs/ops.md lists the functions beside their PyTorch names.
#pragma once

#include "causeway/tensor/activation_ops.h"
#include "causeway/tensor/arithmetic_ops.h"
#include "causeway/tensor/attention_ops.h"
#include "causeway/tensor/comparison_ops.h"
#include "causeway/tensor/creation_ops.h"
#include "causeway/tensor/indexing_ops.h"
#include "causeway/tensor/linear_ops.h"
#include "causeway/tensor/loss_ops.h"
#include "causeway/tensor/norm_ops.h"
#include "causeway/tensor/operand.h"
#include "causeway/tensor/optimizer_ops.h"
#include "causeway/tensor/position_ops.h"
#include "causeway/tensor/random_ops.h"
#include "causeway/tensor/reduction_ops.h"
#include "causeway/tensor/shape_ops.h"
#include "causeway/tensor/tensor.h"
