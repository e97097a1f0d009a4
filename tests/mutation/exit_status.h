// How a test program ends that was given --planted_fault=NAME.
#pragma once

namespace causeway {

inline constexpr int kFaultUnnoticed = 0;    // its tests passed
inline constexpr int kFaultCaught = 10;      // an expectation failed
inline constexpr int kFaultNotPlanted = 11;  // no kernel has the place
inline constexpr int kFaultThrew = 12;       // found by the compiler, the device or the emulator: nothing was compared
inline constexpr int kFaultUnknown = 13;

}  // namespace causeway
