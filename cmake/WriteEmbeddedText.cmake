# cmake -DROOT=<repository> -DOUTPUT=<file.cpp> -DHEADER=<declares FUNCTION> -DFUNCTION=<name> -DFILES=<a|b|c>
#   -P WriteEmbeddedText.cmake
# Writes the files as byte arrays: string literals have a length limit. Each ends with a zero byte, which clang's file
# buffers require.

string(REPLACE "|" ";" files "${FILES}")
set(arrays "")
set(entries "")
set(index 0)
foreach(file ${files})
  file(READ ${ROOT}/${file} bytes HEX)
  string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(APPEND arrays "const unsigned char kText${index}[] = {\n${bytes}0x00};\n")
  string(APPEND entries
    "    {\"${file}\", {reinterpret_cast<const char*>(kText${index}), sizeof kText${index} - 1}},\n")
  math(EXPR index "${index} + 1")
endforeach()
string(REGEX REPLACE "^causeway/([^/]+)/.*" "\\1" folder ${HEADER})
file(WRITE ${OUTPUT} "#include \"${HEADER}\"

namespace causeway::${folder} {
namespace {

${arrays}
const EmbeddedText kFiles[] = {
${entries}};

}  // namespace

std::span<const EmbeddedText> ${FUNCTION}() { return kFiles; }

}  // namespace causeway::${folder}
")
