// Comparing a computed tensor with its reference.
#pragma once

#include <string>

#include "causeway/graph/host_tensor.h"

namespace causeway {

// An element may differ from its reference by absolute + relative * |reference| + ulps units in the last place of the
// dtype at the reference.
struct Tolerance {
  double absolute = 0;
  double relative = 0;
  double ulps = 0;
};

struct Comparison {
  bool equal = true;       // same type and shape, every element within tolerance
  size_t mismatches = 0;   // elements outside
  size_t worst = 0;        // index of the element that is furthest outside (or nearest to it)
  double worst_error = 0;  // its absolute error, and what was allowed there
  double worst_allowed = 0;
  std::string text;  // one line for a test to print
};

// Compares element by element. A NaN matches a NaN only and an infinity itself only, except that a finite reference
// matches whatever rounding it to the dtype gives (overflow to infinity, saturation).
Comparison compare(const HostTensor& actual, const HostTensor& reference, const Tolerance& tolerance);

// The distance from |value| to the next larger number of a float dtype; 1 for the others.
double unit_in_last_place(DType dtype, double value);

}  // namespace causeway
