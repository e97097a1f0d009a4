#!/usr/bin/env python3
"""Measure PyTorch's collectives over NCCL, for a comparison with `causeway bench collectives`.

    torchrun --standalone --nproc-per-node 2 benchmarks/pytorch_collectives.py --size 16,64,256

Out of place, f32. A sample is ten calls between two events of the device; of a collective and a size there are --samples
of them behind five that do not count. Writes a JSON line for each: bytes as nccl-tests counts them (of the larger of a
rank's two buffers), the median seconds of a call on the slowest rank, and bus bandwidth in GB/s by nccl-tests' factors.
"""

import argparse
import json
import os
import statistics

import torch
import torch.distributed as dist

CALLS = 10


def call_of(kind, ranks, elements):
    """A function that does one collective whose larger buffer has that many f32 of a rank, and its bus factor."""
    part = elements // ranks
    large = torch.randn(elements, device="cuda")
    if kind == "all_reduce":
        return lambda: dist.all_reduce(large), 2 * (ranks - 1) / ranks
    small = torch.randn(part, device="cuda")
    if kind == "all_gather":
        return lambda: dist.all_gather_into_tensor(large, small), (ranks - 1) / ranks
    if kind == "reduce_scatter":
        return lambda: dist.reduce_scatter_tensor(small, large), (ranks - 1) / ranks
    result = torch.empty_like(large)
    return lambda: dist.all_to_all_single(result, large), (ranks - 1) / ranks


def seconds_of(call, samples):
    figures = []
    for sample in range(samples + 5):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        dist.barrier()
        torch.cuda.synchronize()
        start.record()
        for _ in range(CALLS):
            call()
        end.record()
        torch.cuda.synchronize()
        if sample >= 5:
            figures.append(start.elapsed_time(end) / 1000 / CALLS)
    return statistics.median(figures)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--size", default="16,64,256", help="MiB, several by commas")
    p.add_argument("--samples", type=int, default=30)
    p.add_argument("--collective", default="all_reduce,all_gather,reduce_scatter,all_to_all")
    a = p.parse_args()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    ranks = dist.get_world_size()
    for kind in a.collective.split(","):
        for mib in a.size.split(","):
            elements = int(mib) * (1 << 20) // 4
            call, factor = call_of(kind, ranks, elements)
            slowest = torch.tensor([seconds_of(call, a.samples)], device="cuda")
            dist.all_reduce(slowest, dist.ReduceOp.MAX)
            if dist.get_rank() == 0:
                seconds = slowest.item()
                print(json.dumps({"collective": kind, "bytes": elements * 4, "ranks": ranks, "seconds": seconds,
                                  "bus_gb_per_second": elements * 4 / seconds * factor / 1e9}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
