#include "causeway/data/input_stream.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "causeway/base/content_hasher.h"
#include "causeway/base/error.h"

namespace causeway::data {
namespace {

constexpr size_t kStoredBytesAtOnce = size_t{1} << 18;
// How long a FIFO is waited for before it is asked whether to stop.
constexpr int kWaitMilliseconds = 200;

[[noreturn]] void fail_io(const std::string& name, const char* action, int code) {
  throw Error(code == ENOENT ? ErrorKind::kNotFound : ErrorKind::kIo,
              fmt::format("cannot {} the text: {}", action, std::strerror(code)), name,
              "Check the path and its permissions.");
}

[[noreturn]] void fail_damaged(const std::string& name, std::string_view format, std::string_view what) {
  throw Error(ErrorKind::kCorrupt, fmt::format("the {} data is {}", format, what), name,
              "Fetch the file again from its source.");
}

}  // namespace

// Turns stored bytes into bytes of text.
struct InputStream::Decoder {
  virtual ~Decoder() = default;
  // Takes from the front of `stored` and puts to the front of `text`; both become what is left of them.
  virtual void decode(std::span<const char>& stored, std::span<char>& text) = 0;
  // Whether the stored bytes may end here.
  virtual bool is_complete() const = 0;
  virtual std::string_view format() const = 0;

  ContentHasher hasher;
};

namespace {

struct PlainDecoder final : InputStream::Decoder {
  void decode(std::span<const char>& stored, std::span<char>& text) override {
    const size_t count = std::min(stored.size(), text.size());
    std::copy_n(stored.begin(), count, text.begin());
    stored = stored.subspan(count);
    text = text.subspan(count);
  }
  bool is_complete() const override { return true; }
  std::string_view format() const override { return "plain"; }
};

struct GzipDecoder final : InputStream::Decoder {
  explicit GzipDecoder(const std::string& input) : name(input) {
    // 16: with gzip's header.
    if (inflateInit2(&stream, 15 + 16) != Z_OK) throw Error(ErrorKind::kResource, "cannot start to decompress", name);
  }
  ~GzipDecoder() override { inflateEnd(&stream); }

  void decode(std::span<const char>& stored, std::span<char>& text) override {
    if (at_end) {
      // What was on tapes and in archives is filled up with zeros, which begin no gzip stream.
      while (!stored.empty() && stored.front() == 0) stored = stored.subspan(1);
      if (stored.empty()) return;
      // A file may be several gzip streams one after the other.
      inflateReset(&stream);
      at_end = false;
    }
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(stored.data()));
    stream.avail_in = static_cast<uInt>(stored.size());
    stream.next_out = reinterpret_cast<Bytef*>(text.data());
    stream.avail_out = static_cast<uInt>(std::min<size_t>(text.size(), size_t{1} << 30));
    const uInt room = stream.avail_out;
    const int status = inflate(&stream, Z_NO_FLUSH);
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
      fail_damaged(name, format(), stream.msg != nullptr ? fmt::format("damaged ({})", stream.msg) : "damaged");
    at_end = status == Z_STREAM_END;
    stored = stored.subspan(stored.size() - stream.avail_in);
    text = text.subspan(room - stream.avail_out);
  }
  bool is_complete() const override { return at_end; }
  std::string_view format() const override { return "gzip"; }

  std::string name;
  z_stream stream{};
  bool at_end = false;
};

struct ZstdDecoder final : InputStream::Decoder {
  explicit ZstdDecoder(const std::string& input) : name(input), context(ZSTD_createDCtx()) {
    if (context == nullptr) throw Error(ErrorKind::kResource, "cannot start to decompress", name);
    // What "zstd --long=31" writes. The window is memory that fills with what is decompressed, as far as that goes.
    ZSTD_DCtx_setParameter(context, ZSTD_d_windowLogMax, kMostWindowLog);
  }
  ~ZstdDecoder() override { ZSTD_freeDCtx(context); }

  void decode(std::span<const char>& stored, std::span<char>& text) override {
    if (at_end && stored.empty()) return;
    ZSTD_inBuffer in{stored.data(), stored.size(), 0};
    ZSTD_outBuffer out{text.data(), text.size(), 0};
    const size_t status = ZSTD_decompressStream(context, &out, &in);
    if (ZSTD_isError(status) != 0) fail_with(status);
    at_end = status == 0;
    stored = stored.subspan(in.pos);
    text = text.subspan(out.pos);
  }
  bool is_complete() const override { return at_end; }
  std::string_view format() const override { return "zstd"; }

  [[noreturn]] void fail_with(size_t status) const {
    const ZSTD_ErrorCode code = ZSTD_getErrorCode(status);
    if (code == ZSTD_error_memory_allocation) {
      throw Error(
          ErrorKind::kResource, "there is no memory for the window that the zstd data was compressed with", name,
          "Give the process up to 2 GiB more, or compress the file again without --long: zstd -dc --long=31 FILE "
          "| zstd -o NEW.");
    }
    if (code == ZSTD_error_frameParameter_windowTooLarge) {
      throw Error(ErrorKind::kUnsupported,
                  fmt::format("the zstd data was compressed with a window of more than {} GiB, the most that is read",
                              (uint64_t{1} << kMostWindowLog) >> 30),
                  name, "Compress it again with a smaller window.");
    }
    fail_damaged(name, format(), fmt::format("damaged ({})", ZSTD_getErrorName(status)));
  }

  static constexpr int kMostWindowLog = 31;
  std::string name;
  ZSTD_DCtx* context;
  bool at_end = false;
};

}  // namespace

InputStream::InputStream(const std::filesystem::path& path, std::stop_token stop, Decompress decompress)
    : name_(path == kStandardInput ? "standard input" : path.string()), stop_(std::move(stop)) {
  if (path == kStandardInput) {
    descriptor_ = ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
  } else {
    do {
      // A FIFO is opened without waiting for its writer; fill() waits, and can be stopped.
      descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    } while (descriptor_ < 0 && errno == EINTR);
  }
  if (descriptor_ < 0) fail_io(name_, "open", errno);
  struct stat status{};
  may_wait_ = ::fstat(descriptor_, &status) == 0 && !S_ISREG(status.st_mode);
  stored_.reserve(kStoredBytesAtOnce);
  try {
    fill();
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
  if (decompress == Decompress::kAsNeeded) compression_ = compression_of(stored_);
  if (compression_ == Compression::kGzip) decoder_ = std::make_unique<GzipDecoder>(name_);
  if (compression_ == Compression::kZstd) decoder_ = std::make_unique<ZstdDecoder>(name_);
  if (compression_ == Compression::kNone) decoder_ = std::make_unique<PlainDecoder>();
  decoder_->hasher.add(std::as_bytes(std::span(stored_)));
}

InputStream::~InputStream() { ::close(descriptor_); }

Hash128 InputStream::stored_hash() const { return decoder_->hasher.hash(); }

// Reads the next stored bytes, after those at hand are used up.
void InputStream::fill() {
  stored_.resize(kStoredBytesAtOnce);
  position_ = 0;
  size_t size = 0;
  // A pipe gives little at a time; the first bytes are asked what they are, and should be enough.
  while (size < stored_.size() && !ended_ && !stop_.stop_requested()) {
    if (may_wait_) {
      pollfd waited{descriptor_, POLLIN, 0};
      const int ready = ::poll(&waited, 1, kWaitMilliseconds);
      if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    }
    const ssize_t count = ::read(descriptor_, stored_.data() + size, stored_.size() - size);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count < 0) fail_io(name_, "read", errno);
    if (count == 0) ended_ = true;
    size += static_cast<size_t>(count);
  }
  stored_.resize(size);
  stored_bytes_ += size;
  if (decoder_) decoder_->hasher.add(std::as_bytes(std::span(stored_)));
}

size_t InputStream::read(std::span<char> buffer) {
  std::span<char> left = buffer;
  while (!left.empty() && !stop_.stop_requested()) {
    if (position_ == stored_.size() && !ended_) fill();
    std::span<const char> stored = std::span(stored_).subspan(position_);
    const size_t left_before = left.size();
    // What is decoded may still be to come out when all that is stored went in.
    decoder_->decode(stored, left);
    position_ = stored_.size() - stored.size();
    if (ended_ && position_ == stored_.size() && left.size() == left_before) {
      if (!decoder_->is_complete() && !stop_.stop_requested()) fail_damaged(name_, decoder_->format(), "cut short");
      break;
    }
  }
  return buffer.size() - left.size();
}

}  // namespace causeway::data
