#include "causeway/formats/message_digest.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace causeway::formats {
namespace {

constexpr size_t kLengthBytes = 8;

uint32_t read_word(const unsigned char* bytes, std::endian order) {
  uint32_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return order == std::endian::native ? word : __builtin_bswap32(word);
}

using State = std::array<uint32_t, 5>;

// RFC 1321, section 3.4: the integer part of 2^32 |sin(i)|, i from 1.
constexpr uint32_t kMd5Sines[64] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391};

void add_md5_block(State& state, const unsigned char* block) {
  constexpr int kShifts[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
  uint32_t words[16];
  for (size_t i = 0; i < 16; ++i) words[i] = read_word(block + 4 * i, std::endian::little);
  uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
  for (size_t i = 0; i < 64; ++i) {
    uint32_t f = 0;
    size_t word = 0;
    switch (i / 16) {
      case 0:
        f = (b & c) | (~b & d);
        word = i;
        break;
      case 1:
        f = (d & b) | (~d & c);
        word = 5 * i + 1;
        break;
      case 2:
        f = b ^ c ^ d;
        word = 3 * i + 5;
        break;
      default:
        f = c ^ (b | ~d);
        word = 7 * i;
    }
    const uint32_t turned = std::rotl(a + f + kMd5Sines[i] + words[word % 16], kShifts[i / 16][i % 4]);
    a = d;
    d = c;
    c = b;
    b += turned;
  }
  state[0] += a;
  state[1] += b;
  state[2] += c;
  state[3] += d;
}

void add_sha1_block(State& state, const unsigned char* block) {
  constexpr uint32_t kConstants[4] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
  uint32_t words[80];
  for (size_t i = 0; i < 16; ++i) words[i] = read_word(block + 4 * i, std::endian::big);
  for (size_t i = 16; i < 80; ++i) words[i] = std::rotl(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1);
  auto [a, b, c, d, e] = state;
  for (size_t i = 0; i < 80; ++i) {
    const uint32_t f = i / 20 == 0 ? (b & c) | (~b & d) : i / 20 == 2 ? (b & c) | (b & d) | (c & d) : b ^ c ^ d;
    const uint32_t next = std::rotl(a, 5) + f + e + kConstants[i / 20] + words[i];
    e = d;
    d = c;
    c = std::rotl(b, 30);
    b = a;
    a = next;
  }
  state[0] += a;
  state[1] += b;
  state[2] += c;
  state[3] += d;
  state[4] += e;
}

}  // namespace

MessageDigest::MessageDigest(Algorithm algorithm)
    : algorithm_(algorithm), state_{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0} {}

void MessageDigest::add_block(const unsigned char* block) {
  algorithm_ == Algorithm::kMd5 ? add_md5_block(state_, block) : add_sha1_block(state_, block);
}

void MessageDigest::add(std::span<const char> bytes) {
  while (!bytes.empty()) {
    const size_t filled = bytes_ % kBlockBytes;
    const size_t count = std::min(bytes.size(), kBlockBytes - filled);
    std::memcpy(block_.data() + filled, bytes.data(), count);
    bytes_ += count;
    bytes = bytes.subspan(count);
    if (bytes_ % kBlockBytes == 0) add_block(block_.data());
  }
}

std::string MessageDigest::hex() const {
  const bool is_md5 = algorithm_ == Algorithm::kMd5;
  MessageDigest padded = *this;
  const uint64_t bits = bytes_ * 8;
  padded.add(std::span("\x80", 1));
  while (padded.bytes_ % kBlockBytes != kBlockBytes - kLengthBytes) padded.add(std::span("", 1));
  char length[kLengthBytes];
  for (size_t i = 0; i < kLengthBytes; ++i)
    length[i] = static_cast<char>(bits >> 8 * (is_md5 ? i : kLengthBytes - 1 - i));
  padded.add(length);
  std::string digits;
  for (size_t i = 0; i < (is_md5 ? 4U : 5U); ++i)
    digits += fmt::format("{:08x}", is_md5 ? __builtin_bswap32(padded.state_[i]) : padded.state_[i]);
  return digits;
}

}  // namespace causeway::formats
