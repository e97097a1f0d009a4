// Kernel text in, a loadable image out, in process.
//
// Text is C++20 without a standard library. It may include the headers under causeway/kernels/ ("causeway/kernels/
// types.h" and so on) and nothing else. Kernels are the extern "C" functions; everything else stays private to the
// image. Floating point: products may be fused with sums, except in text with the line kSeparateRounding; NaN and
// infinities keep their meaning; sums are reordered only where the text asks for it (#pragma clang fp reassociate(on)).
// Functions here are thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "causeway/device/target.h"

namespace causeway::codegen {

// Without it, whether a product is fused with a sum depends on whether both are in one kernel.
inline constexpr std::string_view kSeparateRounding = "#pragma clang fp contract(off)\n";

// x86 and the emulator: a position-independent shared object for this process (the emulator's needs x86-64-v3). NVIDIA:
// PTX 8.0. AMD: a code object for HIP. Throws Error(kInvalidArgument) with the compiler's diagnostics when the text is
// wrong, which on a GPU includes calls of functions that the text does not define.
//
// Text for the emulator's "checked" targets itself defines, as extern "C" functions that are not instrumented
// (__attribute__((disable_sanitizer_instrumentation))), what the instrumentation calls: __tsan_init, __tsan_func_entry
// and _exit, __tsan_read1 to 16, __tsan_write1 to 16, the __tsan_unaligned_ ones, __tsan_memcpy and so on. Functions
// whose names begin with two underscores are private to the image. The image has line tables (DWARF 4).
std::string compile_module(const std::string& source, const Target& target);

// Its two halves. Linking is short (about 2 ms) and one at a time, and waits for compilations under way: whoever
// compiles many kernels compiles all objects first.
std::string compile_object(const std::string& source, const Target& target);
std::string link_module(const std::string& object, const Target& target);
// Whether there is anything to link: an object for NVIDIA is the image already.
bool links_objects(const Target& target);

// The same compilation as an assembly listing, for people to read.
std::string compile_to_assembly(const std::string& source, const Target& target);

// Everything besides source and target that determines an image: compiler version, flags, embedded headers. Hex.
// Equal in any two runs of one build.
const std::string& compiler_fingerprint();

}  // namespace causeway::codegen
