// A run directory has one owner for as long as the run lives: a lock on the file run.lock, which also says who that is.
// The lock goes with the process that holds it, however that ends. Reading a run (generate, checkpoint) needs no lock.
//
// On a network file system the lock holds between machines as far as its server does locks (NFS does). Where a file
// system has no locks at all the file's text is all there is: an owner on this machine that has ended is no owner, and
// one on another machine is one until the file is deleted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "causeway/base/lock_file.h"
#include "causeway/namespaces.h"

namespace causeway::train {

constexpr char kRunLockName[] = "run.lock";

class RunLock {
 public:
  // Takes the run; the directory must exist. Throws Error(kResource) naming the owner's process, machine and start when
  // there is one, Error(kIo) when the file cannot be made.
  explicit RunLock(std::filesystem::path run_directory, LockFile::Lock lock = LockFile::lock_descriptor);
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;
  ~RunLock();

  // Before the run writes anything that counts. Where the directory was deleted or moved away meanwhile, makes it again
  // and takes it, with a warning. Throws as the constructor does when it has another owner by now.
  void renew();

 private:
  LockFile acquire() const;
  void write_owner(const LockFile& file) const;

  std::filesystem::path run_directory_;
  LockFile::Lock lock_;
  LockFile file_;
};

// The owner that the lock file of a run names; it may have ended since. Nothing where there is none.
struct RunOwner {
  int64_t process = 0;
  std::string host;
  std::string since;             // UTC
  uint64_t process_started = 0;  // by the machine's clock ticks since boot: tells processes of one number apart
  bool is_on_this_machine() const;
  bool is_alive() const;         // of an owner on this machine
  std::string describe() const;  // "process 4711 on node3, since 2026-11-22 08:54:01 UTC"
};
// Nothing where the file says nothing, or what no run writes: another number than a process can have.
std::optional<RunOwner> read_run_owner(const std::filesystem::path& run_directory);

}  // namespace causeway::train
