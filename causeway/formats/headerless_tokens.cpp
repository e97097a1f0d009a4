#include "causeway/formats/headerless_tokens.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/formats/file_format.h"

namespace causeway::formats {
namespace {

constexpr uint64_t kWindows = 64;
constexpr uint64_t kWindowBytes = 4096;
// The upper half of a 32-bit id: vocabularies have fewer than 2^20 tokens.
constexpr uint16_t kLargestUpperHalf = 15;
// Fewer show nothing.
constexpr uint64_t kFewestValues = 4;
constexpr uint64_t kFewestTextBytes = 64;

// The 16-bit values at even places, or those at odd ones.
struct Half {
  uint64_t small = 0;
  uint64_t small_swapped = 0;  // with the high byte first
  uint64_t zero = 0;

  void look_at(uint16_t value) {
    small += value <= kLargestUpperHalf;
    small_swapped += static_cast<uint16_t>(value << 8 | value >> 8) <= kLargestUpperHalf;
    zero += value == 0;
  }
};

// What the sampled bytes are, as 64-bit words of four 16-bit values each.
struct Appearance {
  uint64_t words = 0;
  uint64_t upper_halves_zero = 0;  // of a word: its values 2 and 3
  Half even;
  Half odd;
  uint64_t bytes = 0;
  uint64_t printable_bytes = 0;
};

void look_at(std::span<const std::byte> window, Appearance& seen) {
  for (const std::byte byte : window) {
    const auto value = static_cast<unsigned char>(byte);
    seen.printable_bytes += (value >= ' ' && value < 0x7F) || value == '\n' || value == '\r' || value == '\t';
  }
  seen.bytes += window.size();
  for (size_t i = 0; i + 8 <= window.size(); i += 8) {
    uint16_t values[4];
    std::memcpy(values, window.data() + i, sizeof values);
    ++seen.words;
    seen.upper_halves_zero += values[2] == 0 && values[3] == 0;
    for (int k = 0; k < 4; ++k) (k % 2 == 0 ? seen.even : seen.odd).look_at(values[k]);
  }
}

Appearance sample(uint64_t bytes, const ReadAt& read_at) {
  Appearance seen;
  std::vector<std::byte> window;
  const uint64_t windows = bytes <= kWindows * kWindowBytes ? 1 : kWindows;
  for (uint64_t i = 0; i < windows; ++i) {
    const uint64_t offset = windows == 1 ? 0 : (bytes - kWindowBytes) / (windows - 1) * i / 8 * 8;
    window.resize(windows == 1 ? bytes : kWindowBytes);
    read_at(offset, window);
    look_at(window, seen);
  }
  return seen;
}

// Whether of `count` values each, those at one kind of place are upper halves and those at the other are not: all zero
// and the others not, or all but one in a hundred small and more than one in ten of the others not.
bool are_upper_halves(uint64_t zero, uint64_t other_zero, uint64_t small, uint64_t other_small, uint64_t count) {
  if (zero == count) return other_zero * 10 < count * 9;
  return small * 100 >= count * 99 && other_small * 10 < count * 9;
}

[[noreturn]] void refuse(const std::string& what, const std::filesystem::path& path, const std::string& hint) {
  throw Error(ErrorKind::kInvalidArgument, what, path.string(), hint);
}

}  // namespace

void require_16_bit_ids(const std::filesystem::path& path, uint64_t bytes, const ReadAt& read_at) {
  std::string head(std::min<uint64_t>(bytes, kFormatHeadBytes), '\0');
  read_at(0, std::as_writable_bytes(std::span(head)));
  if (const std::string_view format = binary_format(head, bytes); !format.empty()) {
    throw Error(ErrorKind::kUnsupported, fmt::format("the file is {}, not a stream of token ids", format),
                path.string(), "Give a dataset that \"causeway data prepare\" wrote, or a .bin of token ids.");
  }
  if (compression_of(head) != Compression::kNone) {
    throw Error(ErrorKind::kUnsupported, "the token file is compressed", path.string(), "Decompress it first.");
  }
  const Appearance seen = sample(bytes, read_at);
  if (seen.bytes >= kFewestTextBytes && seen.printable_bytes * 20 >= seen.bytes * 19) {
    throw Error(ErrorKind::kUnsupported, "the file is text, not a stream of token ids", path.string(),
                "Tokenize it with \"causeway data prepare\" first (rename it to .txt).");
  }
  const uint64_t count = 2 * seen.words;
  if (count < kFewestValues) return;
  const Half& even = seen.even;
  const Half& odd = seen.odd;
  if (even.zero == count && odd.zero == count) {
    refuse("all token ids are zero", path,
           "Was the file ever written to its end? If it is meant to be so, set data.token_bytes to 2.");
  }
  if (bytes % 8 == 0 && seen.upper_halves_zero == seen.words && even.zero < count) {
    refuse("the token ids are 64 bits wide by all appearance: three of four 16-bit values are zero", path,
           "Write them again as 16-bit or 32-bit ids (numpy: ids.astype(numpy.uint16), or numpy.uint32).");
  }
  if (bytes % 4 == 0 && are_upper_halves(odd.zero, even.zero, odd.small, even.small, count)) {
    refuse(fmt::format("the token ids are 32 bits wide by all appearance: read as 16-bit ids, every second one would "
                       "be {}",
                       odd.zero == count ? "0" : fmt::format("{} or less", kLargestUpperHalf)),
           path, "Set data.token_bytes to 4 if they are, or to 2 if they are not.");
  }
  if (are_upper_halves(even.zero, odd.zero, even.small, odd.small, count) ||
      are_upper_halves(even.zero, odd.zero, even.small_swapped, odd.small_swapped, count)) {
    refuse("the file does not look like 16-bit token ids: every second one is zero or nearly so", path,
           "It may hold 32-bit ids, high byte first, or begin with a header that is not known here. Write the ids "
           "again, low byte first and without a header; or set data.token_bytes to 2 if they are right as they are.");
  }
}

}  // namespace causeway::formats
