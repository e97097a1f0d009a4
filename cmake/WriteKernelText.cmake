# cmake -DROOT=<repository> -DOUTPUT=<file.cpp> -P WriteKernelText.cmake
# Writes the kernel headers as byte arrays: string literals have a length limit. Each ends with a zero byte, which
# clang's file buffers require.

file(GLOB_RECURSE headers RELATIVE ${ROOT} ${ROOT}/causeway/kernels/*.h)
list(SORT headers)
set(arrays "")
set(entries "")
set(index 0)
foreach(header ${headers})
  file(READ ${ROOT}/${header} bytes HEX)
  string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(APPEND arrays "const unsigned char kText${index}[] = {\n${bytes}0x00};\n")
  string(APPEND entries
    "    {\"${header}\", {reinterpret_cast<const char*>(kText${index}), sizeof kText${index} - 1}},\n")
  math(EXPR index "${index} + 1")
endforeach()
file(WRITE ${OUTPUT} "#include \"causeway/codegen/kernel_text.h\"

namespace causeway {
namespace {

${arrays}
const KernelTextFile kFiles[] = {
${entries}};

}  // namespace

std::span<const KernelTextFile> kernel_text_files() { return kFiles; }

}  // namespace causeway
")
