// Asynchronous copies and the barriers around them in PTX, on every path from the entry that what is known of a
// thread's integers (ptx_values.h) leaves open: addresses in shared memory are followed, with the stages of rings, so
// that copies left in flight on purpose are told from those that are read too early.
//
// cp.async (PTX ISA, "cp.async", "cp.async.wait_group"), of any thread of a block:
// - What a copy writes is read or written only after a wait that covers its group and, if another thread may have
//   copied it, a barrier of the block. What was read is copied over only after such a barrier.
// - What was not committed is covered by no wait_group.
// Bulk copies, mbarriers and the async proxy ("Asynchronous copy", "Async proxy"), of the first thread of each
// warpgroup and, as those that are not elected, of a neighbour:
// - An mbarrier is used after fence.mbarrier_init by who initialised it, and a barrier of the block.
// - A load is announced by mbarrier.arrive.expect_tx before, and not again before its room has been handed back: a wait
//   for the mbarrier that the loading thread waits for, or for a store that left from there.
// - What a load brings is read, by ld.shared, ldmatrix or wgmma, after a wait for its mbarrier, and not after the
//   thread has handed it back; and not handed back before a wait for the MMAs that read it.
// - What stores read, and what MMAs read in shared memory, is written before a fence.proxy.async that a barrier
//   follows; and not written again before a wait that covers the store or the MMA and, for stores, a barrier.
// - A thread does not end before the stores that it asked for have read shared memory.
//
// A barrier of the block has no number of threads (bar.sync 0; bar.red): bar.sync 1, 128 is one of some threads. It
// counts for stores and MMAs alone, before which those who share a place meet, as bar.warp.sync and a wait for an
// mbarrier do: who they are is not looked at.
//
// What is not looked at: parities of mbarriers, their counts, other threads' order, addresses that depend on memory.
// What reads or writes at a place that is not known is not looked at beside bulk copies, and beside cp.async counts as
// everywhere.
#pragma once

#include "causeway/codegen/checks/code_check.h"
#include "causeway/codegen/checks/ptx_text.h"

namespace causeway::codegen {

void check_ptx_copies(const PtxModule& module, const PtxFunction& function, FunctionCheck& check);

}  // namespace causeway::codegen
