// The asynchronous units of one cluster of thread blocks that are running.
#pragma once

#include "causeway/device/emulator/async_copy.h"
#include "causeway/device/emulator/async_host.h"
#include "causeway/device/emulator/mbarrier.h"
#include "causeway/device/emulator/warpgroup_unit.h"

namespace causeway::device {

struct AsyncUnits {
  explicit AsyncUnits(AsyncHost& host)
      : view(host),
        barriers(host),
        copies(host, view),
        tensors(host, effects, barriers, view),
        warpgroups(host, effects, view) {}

  // The running thread has returned from the kernel: fails when hardware could still be working for it.
  void thread_ended() {
    tensors.thread_ended();
    warpgroups.thread_ended();
  }

  DelayedEffects effects;  // when the last thread has ended, all that remain are applied
  AsyncView view;
  Mbarriers barriers;
  ThreadCopies copies;
  TensorCopies tensors;
  WarpgroupUnit warpgroups;
};

}  // namespace causeway::device
