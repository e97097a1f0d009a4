#include "causeway/bench/result.h"

namespace causeway::bench {

double Measurement::rate(double seconds) const {
  if (unit == "s") return seconds;
  if (seconds <= 0) return 0;
  const double scale = unit == "TFLOP/s" ? 1e12 : unit == "GB/s" ? 1e9 : 1;
  return work / seconds / scale;
}

}  // namespace causeway::bench
