#include "causeway/train/checkpoint/shared_run_directory.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <thread>

#include "causeway/base/error.h"
#include "causeway/base/host_name.h"

namespace causeway::train {
namespace {

namespace fs = std::filesystem;

constexpr auto kLook = std::chrono::milliseconds(50);
constexpr size_t kMostNamed = 8;
constexpr std::string_view kMarker = ".seen-by-all-";

// Those of starts that ended meanwhile. One that cannot be removed is left.
void remove_markers(const fs::path& run_directory) {
  std::error_code ignored;
  std::vector<fs::path> markers;
  for (fs::directory_iterator at(run_directory, ignored), end; !ignored && at != end; at.increment(ignored))
    if (at->path().filename().string().starts_with(kMarker)) markers.push_back(at->path());
  for (const fs::path& marker : markers) ::unlink(marker.c_str());
}

void write_marker(const fs::path& marker) {
  const int file = ::open(marker.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (file < 0 || ::close(file) != 0)
    throw Error(ErrorKind::kIo, fmt::format("cannot write: {}", std::strerror(errno)), marker.string(),
                "Check the permissions and the free space of the run directory, or give another run_directory.");
}

bool is_seen(const fs::path& marker, std::chrono::milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (::access(marker.c_str(), F_OK) != 0) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(kLook);
  }
  return true;
}

}  // namespace

void require_shared_run_directory(const Ranks& ranks, const fs::path& run_directory,
                                  std::chrono::milliseconds patience) {
  if (ranks.count() == 1) return;
  // A name that nobody has looked for, so that no cache knows of its absence.
  std::random_device random;
  const std::string name = ranks.of_first(fmt::format("{}{:08x}{:08x}", kMarker, random(), random()));
  const fs::path marker = run_directory / name;
  ranks.on_first([&] {
    remove_markers(run_directory);
    write_marker(marker);
  });
  const std::vector<std::string> seen = ranks.gather(is_seen(marker, patience) ? "" : host_name());
  if (ranks.is_first()) ::unlink(marker.c_str());
  std::string others;
  size_t count = 0;
  for (size_t rank = 0; rank < seen.size(); ++rank)
    if (!seen[rank].empty() && ++count <= kMostNamed)
      others += fmt::format("{}rank {} (on {})", others.empty() ? "" : ", ", rank, seen[rank]);
  if (count == 0) return;
  if (count > kMostNamed) others += fmt::format(" and {} more", count - kMostNamed);
  throw ErrorOfAllRanks(Error(
      ErrorKind::kInvalidArgument,
      fmt::format("{} {} not see the run directory of rank 0 (on {}): under this path there is another one, or none",
                  others, count == 1 ? "does" : "do", ranks.of_first(host_name())),
      run_directory.string(),
      "All ranks write each checkpoint together: give a run_directory that every machine of the run shares."));
}

}  // namespace causeway::train
