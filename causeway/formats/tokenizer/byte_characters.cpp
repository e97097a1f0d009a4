#include "causeway/formats/tokenizer/byte_characters.h"

#include <array>
#include <vector>

#include "causeway/base/utf8.h"

namespace causeway::formats {
namespace {

constexpr size_t kCharacters = 512;

std::array<uint32_t, 256> make_code_points() {
  std::array<uint32_t, 256> code_points{};
  uint32_t next = 256;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool visible = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    code_points[byte] = visible ? byte : next++;
  }
  return code_points;
}

const std::array<std::string, 256>& byte_characters() {
  static const std::array<std::string, 256> characters = [] {
    std::array<std::string, 256> made;
    const std::array<uint32_t, 256> code_points = make_code_points();
    for (size_t byte = 0; byte < 256; ++byte) append_utf8(made[byte], code_points[byte]);
    return made;
  }();
  return characters;
}

}  // namespace

std::string_view byte_character(unsigned char byte) { return byte_characters()[byte]; }

void append_byte_characters(std::string& text, std::string_view bytes) {
  const std::array<std::string, 256>& characters = byte_characters();
  for (const char byte : bytes) text += characters[static_cast<unsigned char>(byte)];
}

std::optional<std::string> bytes_of_characters(std::string_view written) {
  static const std::vector<int> byte_of_character = [] {
    const std::array<uint32_t, 256> code_points = make_code_points();
    std::vector<int> bytes(kCharacters, -1);
    for (uint32_t byte = 0; byte < 256; ++byte) bytes[code_points[byte]] = static_cast<int>(byte);
    return bytes;
  }();
  std::string bytes;
  for (size_t position = 0; position < written.size();) {
    const Utf8Character character = decode_utf8(written, position);
    if (character.code_point >= kCharacters || byte_of_character[character.code_point] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(byte_of_character[character.code_point]));
    position += character.size;
  }
  return bytes;
}

}  // namespace causeway::formats
