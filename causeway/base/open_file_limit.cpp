#include "causeway/base/open_file_limit.h"

#include <sys/resource.h>

#include <cerrno>

namespace causeway {

bool raise_limit_of_open_files() {
  rlimit limit{};
  const bool can_be_raised = ::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max;
  limit.rlim_cur = limit.rlim_max;
  if (can_be_raised && ::setrlimit(RLIMIT_NOFILE, &limit) == 0) return true;
  errno = EMFILE;
  return false;
}

}  // namespace causeway
