// What the data tests share: a directory of their own, compressed text, and the catching of an Error.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/base/file.h"

namespace causeway {

// A fresh directory, removed with all that is in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    static std::atomic<int> counter{0};
    path_ = std::filesystem::path(::testing::TempDir()) /
            fmt::format("causeway-data-{}-{}", ::getpid(), counter.fetch_add(1));
    std::filesystem::create_directories(path_);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code code;
    std::filesystem::remove_all(path_, code);
  }

  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(std::string_view name, std::string_view text) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    // Some file systems flush a file that is truncated and rewritten; a new one they do not.
    std::filesystem::remove(path_ / name);
    std::ofstream(path_ / name, std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

// The Error that `action` throws; a test failure when it throws none.
template <typename Action>
Error caught(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no Error was thrown";
  return Error(ErrorKind::kInvalidArgument, "");
}

inline bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

template <typename T>
std::string_view as_text(std::span<T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

inline std::string gzip(std::string_view text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string compressed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(compressed.data());
  stream.avail_out = static_cast<uInt>(compressed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  compressed.resize(stream.total_out);
  deflateEnd(&stream);
  return compressed;
}

inline std::string zstd(std::string_view text) {
  std::string compressed(ZSTD_compressBound(text.size()), '\0');
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);  // as the program of that name does
  const size_t size = ZSTD_compress2(context, compressed.data(), compressed.size(), text.data(), text.size());
  ZSTD_freeCCtx(context);
  EXPECT_EQ(ZSTD_isError(size), 0u);
  compressed.resize(size);
  return compressed;
}

inline std::vector<std::string> names_in(const std::filesystem::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

inline std::filesystem::path gpt2_directory() {
  return std::filesystem::path(CAUSEWAY_SOURCE_DIR) / "tests/fixtures/gpt2_tokenizer";
}

}  // namespace causeway
