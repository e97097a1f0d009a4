// AMD's code objects, which are ELF files of 64 bits in this machine's byte order. What is outside the file is
// Error(kCorrupt).
#pragma once

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/namespaces.h"

namespace causeway::codegen {

[[noreturn]] inline void throw_damaged_code_object() {
  throw Error(ErrorKind::kCorrupt, "the AMD code object is damaged", "", "Compile the kernel again.");
}

// The bytes stay the caller's.
class ElfReader {
 public:
  explicit ElfReader(const std::string& bytes) : bytes_(bytes), header_(read<Elf64_Ehdr>(0)) {
    if (std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0 || header_.e_ident[EI_CLASS] != ELFCLASS64)
      throw_damaged_code_object();
  }

  template <class T>
  T read(uint64_t offset) const {
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T)) throw_damaged_code_object();
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof value);
    return value;
  }

  std::string_view view(uint64_t offset, uint64_t size) const {
    if (offset > bytes_.size() || bytes_.size() - offset < size) throw_damaged_code_object();
    return std::string_view(bytes_).substr(offset, size);
  }

  Elf64_Shdr section(uint64_t index) const {
    if (index >= header_.e_shnum) throw_damaged_code_object();
    return read<Elf64_Shdr>(header_.e_shoff + index * sizeof(Elf64_Shdr));
  }

  std::vector<Elf64_Shdr> sections(uint32_t type) const {
    std::vector<Elf64_Shdr> found;
    for (uint64_t index = 0; index < header_.e_shnum; ++index)
      if (section(index).sh_type == type) found.push_back(section(index));
    return found;
  }

  // Names in .dynsym: what a runtime finds.
  std::vector<std::string> exported_symbols() const {
    std::vector<std::string> names;
    for (const Elf64_Shdr& table : sections(SHT_DYNSYM)) {
      const Elf64_Shdr strings = section(table.sh_link);
      const std::string_view text = view(strings.sh_offset, strings.sh_size);
      for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table.sh_size; at += sizeof(Elf64_Sym)) {
        const auto symbol = read<Elf64_Sym>(table.sh_offset + at);
        if (symbol.st_name >= text.size()) throw_damaged_code_object();
        names.emplace_back(text.substr(symbol.st_name, text.find('\0', symbol.st_name) - symbol.st_name));
      }
    }
    return names;
  }

  struct Function {
    std::string name;
    std::string_view code;
  };
  // Functions in .dynsym, which of a code object are its kernels.
  std::vector<Function> exported_functions() const {
    std::vector<Function> functions;
    for (const Elf64_Shdr& table : sections(SHT_DYNSYM)) {
      const std::string_view text = view(section(table.sh_link).sh_offset, section(table.sh_link).sh_size);
      for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table.sh_size; at += sizeof(Elf64_Sym)) {
        const auto symbol = read<Elf64_Sym>(table.sh_offset + at);
        if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF) continue;
        const Elf64_Shdr code = section(symbol.st_shndx);
        if (symbol.st_name >= text.size() || symbol.st_value < code.sh_addr) throw_damaged_code_object();
        functions.push_back({std::string(text.substr(symbol.st_name, text.find('\0', symbol.st_name) - symbol.st_name)),
                             view(code.sh_offset + symbol.st_value - code.sh_addr, symbol.st_size)});
      }
    }
    return functions;
  }

  // The content of the first note of this owner and type; empty when there is none.
  std::string_view note(std::string_view owner, uint32_t type) const {
    const auto padded = [](uint64_t size) { return (size + 3) / 4 * 4; };
    for (const Elf64_Shdr& table : sections(SHT_NOTE)) {
      for (uint64_t at = table.sh_offset; at + sizeof(Elf64_Nhdr) <= table.sh_offset + table.sh_size;) {
        const auto head = read<Elf64_Nhdr>(at);
        const uint64_t name_at = at + sizeof head;
        const uint64_t content_at = name_at + padded(head.n_namesz);
        if (head.n_type == type && head.n_namesz == owner.size() + 1 && view(name_at, owner.size()) == owner)
          return view(content_at, head.n_descsz);
        at = content_at + padded(head.n_descsz);
      }
    }
    return {};
  }

 private:
  const std::string& bytes_;
  Elf64_Ehdr header_;
};

}  // namespace causeway::codegen
