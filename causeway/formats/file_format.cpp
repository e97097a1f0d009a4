#include "causeway/formats/file_format.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace causeway::formats {
namespace {

using namespace std::string_view_literals;

struct Signature {
  size_t offset;
  std::string_view bytes;
  std::string_view name;
};

// Long enough that neither text nor token ids begin so by chance; a shorter mark counts where more can be checked.
constexpr Signature kSignatures[] = {
    {0, "PAR1"sv, "a Parquet table"},
    {0, "ARROW1\0\0"sv, "an Arrow file"},
    {0, "\xFF\xFF\xFF\xFF\x10"sv, "an Arrow stream"},
    {0, "FEA1"sv, "a Feather table"},
    {0, "Obj\x01"sv, "an Avro file"},
    {0,
     "\xFD"
     "7zXZ\0"sv,
     "an xz archive"},
    {0, "BZh91AY&SY"sv, "a bzip2 archive"},
    {0, "\x04\x22\x4D\x18"sv, "an lz4 archive"},
    {0, "PK\x03\x04"sv, "a zip archive (or a checkpoint or document that is one)"},
    {0, "PK\x05\x06"sv, "an empty zip archive"},
    {0, "7z\xBC\xAF\x27\x1C"sv, "a 7z archive"},
    {0, "Rar!\x1A\x07"sv, "a rar archive"},
    {257, "ustar"sv, "a tar archive"},
    {0, "\x89PNG\r\n\x1A\n"sv, "a PNG image"},
    {0, "\xFF\xD8\xFF"sv, "a JPEG image"},
    {0, "GIF87a"sv, "a GIF image"},
    {0, "GIF89a"sv, "a GIF image"},
    {0, "II*\0"sv, "a TIFF image"},
    {0, "MM\0*"sv, "a TIFF image"},
    {8, "WEBP"sv, "a WebP image"},
    {0, "\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1"sv, "an old Office document"},
    {0, "OggS\0"sv, "an Ogg file"},
    {0, "fLaC"sv, "a FLAC file"},
    {4, "ftyp"sv, "an MP4 file"},
    {0,
     "\x7F"
     "ELF"sv,
     "a program (ELF)"},
    {0, "\xCF\xFA\xED\xFE"sv, "a program (Mach-O)"},
    {0, "\0asm"sv, "a WebAssembly module"},
    {0, "SQLite format 3\0"sv, "an SQLite database"},
    {0, "\x89HDF\r\n\x1A\n"sv, "an HDF5 file"},
    {0, "\x93NUMPY"sv, "a NumPy array (.npy)"},
    {0, "GGUF"sv, "a GGUF model"},
    {0, "CAUSETOK"sv, "a Causeway token shard"},
    {0, "MMIDIDX\0\0"sv, "Megatron's index of a token file"},
    {0, "TNTIDX\0\0"sv, "Megatron's index of a token file, in its old form"},
    {0, "\x48\x04\x35\x01\x01\0\0\0"sv, "an llm.c token file"},
    {0, "\xC1\x08\x35\x01\x07\0\0\0"sv, "an llm.c token file"},
    {0, "\x4A\x04\x35\x01"sv, "an llm.c evaluation set"},
};

// Text may begin with a format's name; no file of these formats is without control characters.
bool has_control_characters(std::string_view head) {
  return std::any_of(head.begin(), head.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < '\t' || (byte > '\r' && byte < ' ') || byte == 0x7F;
  });
}

template <typename T>
T number_at(std::string_view head, size_t offset) {
  T value;
  std::memcpy(&value, head.data() + offset, sizeof value);
  return value;
}

// u64 size of the JSON that follows, within the first 100 MB.
bool is_safetensors(std::string_view head, uint64_t file_bytes) {
  if (head.size() < 10 || head[8] != '{' || (head[9] != '"' && head[9] != '}')) return false;
  const auto json_bytes = number_at<uint64_t>(head, 0);
  return json_bytes >= 2 && json_bytes <= 100'000'000 && (file_bytes == 0 || 8 + json_bytes <= file_bytes);
}

// MosaicML's streaming shards: u32 samples, u32 offsets[samples + 1] from the file's start, the columns as JSON, then
// the samples, the first of them where the first offset says.
bool is_mds(std::string_view head, uint64_t file_bytes) {
  if (head.size() < 16) return false;
  const uint64_t samples = number_at<uint32_t>(head, 0);
  const uint64_t table_end = 4 * (samples + 2);
  uint64_t before = number_at<uint32_t>(head, 4);
  if (samples == 0 || before < table_end + 2 || (file_bytes != 0 && before > file_bytes)) return false;
  if (table_end < head.size() && head[table_end] != '{') return false;
  for (size_t i = 8; i + 4 <= head.size() && i < table_end; i += 4) {
    const uint64_t offset = number_at<uint32_t>(head, i);
    if (offset < before || (file_bytes != 0 && offset > file_bytes)) return false;
    before = offset;
  }
  return true;
}

// Protocols 2 to 5: PROTO, the version, and FRAME or a first object.
bool is_pickle(std::string_view head) {
  return head.size() >= 4 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5 &&
         (head[2] == '\x95' || head[2] == '}' || head[2] == ']' || head[2] == 'c' || head[2] == '(' ||
          head[2] == '\x8A');
}

}  // namespace

std::string_view binary_format(std::string_view head, uint64_t file_bytes) {
  if (head.starts_with("%PDF-"sv)) return "a PDF document";
  if (!has_control_characters(head)) return {};
  for (const Signature& signature : kSignatures)
    if (head.size() >= signature.offset && head.substr(signature.offset).starts_with(signature.bytes))
      return signature.name;
  if (is_safetensors(head, file_bytes)) return "a safetensors file";
  if (is_mds(head, file_bytes)) return "an MDS shard (MosaicML's streaming format)";
  if (is_pickle(head)) return "a Python pickle";
  return {};
}

Compression compression_of(std::string_view head) {
  if (head.starts_with("\x1F\x8B\x08"sv)) return Compression::kGzip;
  if (head.starts_with("\x28\xB5\x2F\xFD"sv)) return Compression::kZstd;
  // A frame of other content that zstd's readers pass over.
  if (head.size() >= 4 && (head[0] & '\xF0') == '\x50' && head.substr(1, 3) == "\x2A\x4D\x18"sv)
    return Compression::kZstd;
  return Compression::kNone;
}

std::string_view wide_text_encoding(std::string_view head) {
  if (head.starts_with("\xFF\xFE\0\0"sv) || head.starts_with("\0\0\xFE\xFF"sv)) return "UTF-32";
  if (head.starts_with("\xFF\xFE"sv) || head.starts_with("\xFE\xFF"sv)) return "UTF-16";
  return {};
}

}  // namespace causeway::formats
