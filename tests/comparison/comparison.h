// Comparing a computed tensor with its reference: the one comparison that tests of kernels use. All bounds scale with
// the reference, so that no output is so small that a fault hides in the tolerance. bounds.h has the bounds.
#pragma once

#include <span>
#include <string>

#include "causeway/graph/host_tensor.h"

namespace causeway {

// What a result may differ by. All zero: it must be equal.
struct Bound {
  // Rms of the error over rms of the reference. An error of every element, such as a wrong rounding, shows here.
  double rms = 0;
  // The largest error of an element, in units of the rms of its row, the innermost dimension (or of half of the
  // tensor's, where that is more: the small rows of a gradient are differences of larger terms). A wrong row of a large
  // tensor, which hardly moves the rms, shows here.
  double row = 0;
  // An element may differ by so many units in the last place of its own besides. In a type narrower than f32 this is
  // for values that lie near the middle between two neighbours and may become either: few do, so that they may add
  // little to the rms (see kFlippedShare).
  double ulps = 0;
  // An error that the caller has derived for every element of this very tensor, in place of the others.
  double absolute = 0;

  bool demands_equality() const { return rms == 0 && row == 0 && ulps == 0 && absolute == 0; }
};

// Where `ulps` is given, what neighbours of a narrow type may add to the rms: so many units in the last place over all
// elements, and two single elements besides. Rounding towards zero gives 0.7.
inline constexpr double kFlippedShare = 1.0 / 16;

// A float reference whose rms is less proves little, and none if it is zero: the comparison fails, unless equality is
// demanded or an absolute bound was derived.
inline constexpr double kLeastReferenceRms = 0x1p-12;

struct Comparison {
  bool equal = true;       // same type and shape, and within the bound
  size_t mismatches = 0;   // elements outside of theirs
  size_t worst = 0;        // index of the element that is furthest outside (or nearest to it)
  double worst_error = 0;  // its absolute error, and what was allowed there
  double worst_allowed = 0;
  double reference_rms = 0;  // of finite elements
  double rms = 0;            // of the error, over reference_rms
  double row = 0;            // the largest error in units of its row's rms
  std::string text;          // a line for a test to print
};

// A NaN matches a NaN only and an infinity itself only, except that a finite reference matches whatever rounding it to
// the dtype gives (overflow to infinity, saturation). Integers and bools are equal or wrong.
Comparison compare(const graph::HostTensor& actual, const graph::HostTensor& reference, const Bound& bound);

// The distance from |value| to the next larger number of a float dtype; 1 for the others.
double unit_in_last_place(graph::DType dtype, double value);

}  // namespace causeway
