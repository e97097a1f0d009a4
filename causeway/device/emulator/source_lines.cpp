#include "causeway/device/emulator/source_lines.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace causeway::device {
namespace {

struct Damaged {};

// Reads little-endian values one after the other.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  bool empty() const { return bytes_.empty(); }
  std::string_view take(size_t count) {
    if (count > bytes_.size()) throw Damaged();
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  template <class T>
  T number() {
    T value{};
    const std::string_view bytes = take(sizeof(T));
    std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }
  std::string_view text() {
    const size_t end = bytes_.find('\0');
    if (end == std::string_view::npos) throw Damaged();
    const std::string_view text = bytes_.substr(0, end);
    bytes_.remove_prefix(end + 1);
    return text;
  }
  uint64_t unsigned_leb() {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = number<uint8_t>();
      if (shift < 64) value |= uint64_t{byte & 0x7fu} << shift;
      if ((byte & 0x80) == 0) return value;
    }
  }
  int64_t signed_leb() {
    uint64_t value = 0;
    for (int shift = 0;;) {
      const auto byte = number<uint8_t>();
      if (shift < 64) value |= uint64_t{byte & 0x7fu} << shift;
      shift += 7;
      if ((byte & 0x80) != 0) continue;
      if ((byte & 0x40) != 0 && shift < 64) value |= ~uint64_t{0} << shift;
      return static_cast<int64_t>(value);
    }
  }

 private:
  std::string_view bytes_;
};

std::string_view elf_section(std::string_view image, std::string_view name) {
  const auto at = [&](uint64_t offset) {
    if (offset > image.size()) throw Damaged();
    return Reader(image.substr(offset));
  };
  const auto header = at(0).number<Elf64_Ehdr>();
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) throw Damaged();
  const auto section = [&](uint64_t index) {
    return at(header.e_shoff + index * sizeof(Elf64_Shdr)).number<Elf64_Shdr>();
  };
  const Elf64_Shdr names = section(header.e_shstrndx);
  for (uint64_t index = 0; index < header.e_shnum; ++index) {
    const Elf64_Shdr candidate = section(index);
    if (at(names.sh_offset + candidate.sh_name).text() == name) {
      return at(candidate.sh_offset).take(candidate.sh_size);
    }
  }
  return {};
}

}  // namespace

SourceLines::SourceLines(std::string_view image) {
  try {
    read_units(elf_section(image, ".debug_line"));
  } catch (const Damaged&) {
    rows_.clear();
  }
  std::sort(rows_.begin(), rows_.end(), [](const Row& a, const Row& b) {
    return a.address != b.address ? a.address < b.address : a.order < b.order;
  });
}

namespace {

// A unit's directories and files, appended to those of other units.
void read_files(Reader& header, std::vector<std::string>& files) {
  std::vector<std::string_view> directories = {""};
  for (std::string_view name = header.text(); !name.empty(); name = header.text()) directories.push_back(name);
  files.emplace_back();  // files count from 1
  for (std::string_view name = header.text(); !name.empty(); name = header.text()) {
    const uint64_t directory = header.unsigned_leb();
    header.unsigned_leb();  // time
    header.unsigned_leb();  // size
    if (directory >= directories.size()) throw Damaged();
    const std::string_view folder = directories[directory];
    // A reader of messages knows the text's own files by their path from causeway/, and the kernel by its name.
    const size_t own = folder.find("causeway/");
    files.push_back(own == std::string_view::npos || name.starts_with('/')
                        ? std::string(name.substr(name.rfind('/') + 1))
                        : fmt::format("{}/{}", folder.substr(own), name));
  }
}

}  // namespace

void SourceLines::read_units(std::string_view section) {
  Reader units(section);
  while (!units.empty()) {
    Reader unit(units.take(units.number<uint32_t>()));
    if (unit.number<uint16_t>() != 4) throw Damaged();
    Reader header(unit.take(unit.number<uint32_t>()));
    const auto instruction_bytes = header.number<uint8_t>();
    header.take(2);  // operations per instruction, is_stmt
    const auto line_base = header.number<int8_t>();
    const auto line_range = header.number<uint8_t>();
    const auto opcode_base = header.number<uint8_t>();
    if (line_range == 0 || opcode_base == 0) throw Damaged();
    const std::string_view operand_counts = header.take(opcode_base - 1u);
    const auto first_file = static_cast<uint32_t>(files_.size());
    read_files(header, files_);

    uint64_t address = 0, file = 1;
    int64_t line = 1;
    const auto emit = [&](bool ends) {
      const uint64_t index = first_file + file;
      if (index >= files_.size()) throw Damaged();
      rows_.push_back({address, static_cast<uint32_t>(index), ends ? 0 : static_cast<uint32_t>(line), rows_.size()});
    };
    while (!unit.empty()) {
      const auto opcode = unit.number<uint8_t>();
      if (opcode >= opcode_base) {
        const int adjusted = opcode - opcode_base;
        address += static_cast<uint64_t>(adjusted / line_range) * instruction_bytes;
        line += line_base + adjusted % line_range;
        emit(false);
      } else if (opcode == 0) {
        Reader extended(unit.take(unit.unsigned_leb()));
        switch (extended.number<uint8_t>()) {
          case 1:  // DW_LNE_end_sequence
            emit(true);
            address = 0;
            file = 1;
            line = 1;
            break;
          case 2:  // DW_LNE_set_address
            address = extended.number<uint64_t>();
            break;
          default:
            break;
        }
      } else {
        switch (opcode) {
          case 1:  // DW_LNS_copy
            emit(false);
            break;
          case 2:  // DW_LNS_advance_pc
            address += unit.unsigned_leb() * instruction_bytes;
            break;
          case 3:  // DW_LNS_advance_line
            line += unit.signed_leb();
            break;
          case 4:  // DW_LNS_set_file
            file = unit.unsigned_leb();
            break;
          case 8:  // DW_LNS_const_add_pc
            address += static_cast<uint64_t>((255 - opcode_base) / line_range) * instruction_bytes;
            break;
          case 9:  // DW_LNS_fixed_advance_pc
            address += unit.number<uint16_t>();
            break;
          default:
            for (int i = 0; i < operand_counts[opcode - 1u]; ++i) unit.unsigned_leb();
            break;
        }
      }
    }
  }
}

std::string SourceLines::find(uint64_t offset) const {
  const auto after = std::upper_bound(rows_.begin(), rows_.end(), offset,
                                      [](uint64_t value, const Row& row) { return value < row.address; });
  if (after == rows_.begin() || std::prev(after)->line == 0) return {};
  return fmt::format("{}:{}", files_[std::prev(after)->file], std::prev(after)->line);
}

}  // namespace causeway::device
