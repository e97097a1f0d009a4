#!/usr/bin/env python3
"""Measure in PyTorch what a run of `causeway bench` measured, on the same device, for the same report.

    causeway bench
    causeway bench export latest -o run.json
    python benchmarks/pytorch_figures.py run.json -o with_pytorch.json
    causeway bench import with_pytorch.json

Takes the run's matrix products, attention and training, measures each by the same method and adds the figures to the
run, named after PyTorch's version. Kernels: ten rounds of ten samples, each between two events of the device, the cache
filled before each, 0.9 s of warm-up in the same pattern. Training: whole steps of benchmarks/pytorch_peer.py, compiled,
by the clock of the host; the micro-batch is halved until it fits. Products and the output of attention are compared
with sums in double.

Products: torch.nn.functional.linear, torch._scaled_mm without fast accumulation for 8-bit types. Attention:
scaled_dot_product_attention where there is no mask but the causal one, otherwise flex_attention, compiled, with its
block mask. What PyTorch cannot do is left out, with a sentence.

Needs torch; training needs what benchmarks/pytorch_peer.py needs.
"""

import argparse
import json
import math
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

PEER = Path(__file__).resolve().parent / "pytorch_peer.py"
DTYPES = {
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "f32": torch.float32,
    "tf32": torch.float32,
    "f8e4m3": torch.float8_e4m3fn,
    "f8e5m2": torch.float8_e5m2,
}
ERROR_ALLOWED = {"bf16": 2e-2, "f16": 4e-3, "f32": 1e-5, "tf32": 4e-3, "f8e4m3": 2e-2, "f8e5m2": 2e-2}
NOT_PYTORCHS = ("rounds", "clock_mhz", "distrust", "details", "check", "correct")  # of the figure beside it
# Warmed up as long as three providers of `causeway bench gemm` together: under a power limit clocks fall for a while.
ROUNDS, SAMPLES, WARM_UP_SECONDS, FLUSH_BYTES = 10, 10, 0.9, 256 << 20
# pytorch_peer.py's arguments for the groups of `causeway bench train`.
LLAMA_3 = "llama --vocabulary 128256 --rope-theta 500000 --norm-eps 1e-5 --kv-heads 8"
MODELS = {
    "Shakespeare Llama": "llama --layers 6 --width 256 --heads 8 --kv-heads 8 --ffn 704",
    "GPT-2 124M": "gpt2 --random-vocabulary 50257",
    "GPT 1.5B": "gpt2 --layers 48 --width 1600 --heads 25 --random-vocabulary 50257",
    "Llama 70B, 4 layers": f"{LLAMA_3} --layers 4 --width 8192 --heads 64 --ffn 28672",
    "Llama 3 8B": f"{LLAMA_3} --layers 32 --width 4096 --heads 32 --ffn 14336",
    "Mistral 7B": "llama --vocabulary 32000 --layers 32 --width 4096 --heads 32 --kv-heads 8 --ffn 14336 --window 1024",
}
DOCUMENT_SIXTEENTHS = (5, 3, 4, 1, 2, 1)
SCORE_CAP = 2


class Stopwatch:
    def __init__(self, device):
        self.cuda = device == "cuda"
        self.cache = torch.empty(FLUSH_BYTES, dtype=torch.int8, device=device)

    def wait(self):
        if self.cuda:
            torch.cuda.synchronize()

    def mark(self):
        if not self.cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, begin, end):
        return begin.elapsed_time(end) / 1e3 if self.cuda else end - begin

    def rounds(self, work, limit):
        """Seconds of each sample, by rounds; fewer samples where they would take longer than `limit`."""
        work()
        self.wait()
        start, executions = time.perf_counter(), 0
        while time.perf_counter() - start < WARM_UP_SECONDS or executions == 0:
            for _ in range(min(64, 1 + executions)):
                self.cache.zero_()
                work()
                executions += 1
            self.wait()
        each = (time.perf_counter() - start) / executions
        samples = max(1, min(SAMPLES, int(limit / each / ROUNDS)))
        result = []
        for _ in range(ROUNDS):
            marks = []
            for _ in range(samples):
                self.cache.zero_()
                begin = self.mark()
                work()
                marks.append((begin, self.mark()))
            self.wait()
            result.append([self.seconds(*pair) for pair in marks])
        return result


def largest_error(actual, expected):
    return ((actual.double() - expected).abs().max() / expected.abs().max()).item()


def prepare_gemm(device, workload, dtype):
    """The work, and the error of its result on some rows."""
    m, n, k = (int(size) for size in workload.split("x"))
    a, b = (torch.randn(lines, k, device=device).to(DTYPES[dtype]) for lines in (m, n))
    if dtype.startswith("f8"):
        one = torch.ones((), device=device)

        def work():
            return torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    else:
        torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"

        def work():
            return F.linear(a, b)

    def error():
        rows = torch.arange(0, m, max(1, m // 8), device=device)[:8]
        expected = a.float()[rows].double() @ b.float()[: min(n, 256)].double().t()
        return largest_error(work()[rows, : min(n, 256)], expected)

    return work, error


ATTENTION = re.compile(r"(\w+)(?: (\d+))? (\d+)x(\d+), (\d+)/(\d+) heads of (\d+), (forward|both)")


def prepare_attention(device, workload, dtype):
    pattern, window, batch, length, heads, key_heads, head_dim, direction = ATTENTION.fullmatch(workload).groups()
    batch, length, heads, key_heads, head_dim = map(int, (batch, length, heads, key_heads, head_dim))
    shapes = ((heads,), (key_heads,), (key_heads,))
    q, k, v = (
        torch.randn(batch, *h, length, head_dim, device=device).to(DTYPES[dtype]).requires_grad_(direction == "both")
        for h in shapes
    )
    dout = torch.randn_like(q)
    sixteenths = torch.tensor([n for n, count in enumerate(DOCUMENT_SIXTEENTHS) for _ in range(count)], device=device)
    documents = sixteenths[torch.arange(length, device=device) * 16 // length]
    slopes = torch.exp2(-8.0 * torch.arange(1, heads + 1, device=device) / heads)

    def sees(b, h, query, key):
        causal = query >= key
        if pattern == "window":
            return causal & (query - key < int(window))
        if pattern == "document":
            return causal & (documents[query] == documents[key])
        return causal

    def add_slope(score, b, h, query, key):
        return score + slopes[h] * (key - query)

    def cap_score(score, b, h, query, key):
        return SCORE_CAP * torch.tanh(score / SCORE_CAP)

    if pattern in ("causal", "full"):

        def forward():
            return F.scaled_dot_product_attention(q, k, v, is_causal=pattern == "causal", enable_gqa=heads != key_heads)
    else:
        mask = create_block_mask(sees, None, None, length, length, device=device)
        score = {"ALiBi": add_slope, "softcap": cap_score}.get(pattern)
        torch.compiler.reset()  # past a number of variants it would give up compiling, silently
        compiled = torch.compile(flex_attention)

        def forward():
            return compiled(q, k, v, score_mod=score, block_mask=mask, enable_gqa=heads != key_heads)

    def work():
        out = forward()
        if direction == "both":
            return torch.autograd.grad(out, (q, k, v), dout)
        return out

    def error():
        with torch.no_grad():
            rows = torch.arange(0, length, max(1, length // 8), device=device)[:8]
            keys = torch.arange(length, device=device)
            head = heads - 1
            scores = q[0, head][rows].double() @ k[0, key_heads - 1].double().t() / math.sqrt(head_dim)
            if pattern == "ALiBi":
                scores = scores + slopes[head].double() * (keys[None] - rows[:, None])
            if pattern == "softcap":
                scores = cap_score(scores, 0, head, None, None)
            if pattern != "full":
                scores = scores.masked_fill(~sees(0, head, rows[:, None], keys[None]), -math.inf)
            expected = scores.softmax(-1) @ v[0, key_heads - 1].double()
            return largest_error(forward()[0, head][rows], expected)

    return work, error


def train(workload, group, device, steps):
    """Seconds of each step, tokens of a step, and the peer's summary."""
    batch, length = (int(size) for size in re.fullmatch(r"(\d+) x (\d+) tokens", workload).groups())
    while batch > 0:
        arguments = f"{MODELS[group]} --batch {batch} --sequence {length} --device {device} --steps {steps} --skip 4"
        child = subprocess.run([sys.executable, str(PEER), *arguments.split()], capture_output=True, text=True)
        lines = [json.loads(line) for line in child.stdout.splitlines() if line.startswith("{")]
        if child.returncode == 0:
            return [line["seconds"] for line in lines if "seconds" in line][4:], batch, length, lines[-1]
        if "out of memory" not in child.stderr.lower():
            raise RuntimeError(child.stderr.strip().splitlines()[-1])
        batch //= 2
    raise RuntimeError("out of memory with one sequence")


def write(exported, path):
    """All or nothing."""
    Path(f"{path}.tmp").write_text(json.dumps(exported))
    os.replace(f"{path}.tmp", path)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("run", help="one run, exported as JSON")
    p.add_argument("-o", "--output", required=True, help="the run with PyTorch's figures")
    p.add_argument("--only", choices=["gemm", "attention", "train"], nargs="+", default=["gemm", "attention", "train"])
    p.add_argument("--device", choices=["cuda", "cpu"], default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument("--seconds", type=float, default=4, help="at most, of the samples of one figure")
    p.add_argument("--steps", type=int, default=14, help="of training, the first four of which do not count")
    a = p.parse_args()
    exported = json.loads(Path(a.run).read_text())
    if len(exported["runs"]) != 1:
        sys.exit(f"{a.run} has {len(exported['runs'])} runs; export one")
    measurements = exported["runs"][0]["measurements"]
    name = f"PyTorch {torch.__version__.split('+')[0]}"
    stopwatch, seen, added, left_out = Stopwatch(a.device), set(), [], []

    def what(figure):  # the micro-batch of PyTorch's training may be a smaller one
        parts = ["benchmark", "group", "dtype"] + (["workload"] if figure["benchmark"] != "train" else [])
        return tuple(figure[part] for part in parts)

    seen.update(what(figure) for figure in measurements if figure["provider"].startswith("PyTorch"))
    for ours in list(measurements):
        key = what(ours)
        if ours["benchmark"] not in a.only or key in seen:
            continue
        seen.add(key)
        inputs = ours["details"].get("inputs", "normal")
        if not inputs.startswith("normal"):
            left_out.append(f"{ours['workload']} {ours['dtype']}: its inputs are not normal")
            continue
        figure = {part: ours[part] for part in ours if part not in NOT_PYTORCHS}
        figure |= {"provider": name, "statistic": "median", "distrust": [], "details": {}}
        try:
            if ours["benchmark"] == "train":
                if ours["dtype"] != "bf16":
                    raise RuntimeError("the peer trains in bf16")
                seconds, batch, length, summary = train(ours["workload"], ours["group"], a.device, a.steps)
                figure |= {"provider": f"{name} compiled", "workload": f"{batch} x {length} tokens"}
                figure |= {"rounds": [seconds], "work": batch * length}
                correct = math.isfinite(summary["last_loss"])
                check = f"losses: {summary['first_loss']:.4f} at first, {summary['last_loss']:.4f} at last"
                figure["details"]["parameters"] = str(summary["parameters"])
                if summary["peak_device_bytes"]:
                    figure["details"]["memory"] = f"{summary['peak_device_bytes'] / 2**30:.1f} GiB"
            else:
                prepare = prepare_gemm if ours["benchmark"] == "gemm" else prepare_attention
                work, error_of = prepare(a.device, ours["workload"], ours["dtype"])
                error = error_of()
                figure["rounds"] = stopwatch.rounds(work, a.seconds)
                correct = error <= ERROR_ALLOWED[ours["dtype"]]
                check = f"rows against sums in double: error {error:.2g} of the largest element"
                figure["details"]["inputs"] = "normal, mean 0, variance 1"
            figure |= {"correct": correct, "check": check}
        except Exception as failure:  # whatever PyTorch throws: the others are still to be measured
            why = (str(failure).strip() or repr(failure)).splitlines()[0][:200]
            left_out.append(f"{ours['workload']} {ours['dtype']}: {why}")
            continue
        finally:
            work = error_of = None
            if a.device == "cuda":
                torch.cuda.empty_cache()
        added.append(figure)
        measurements.append(figure)
        write(exported, a.output)  # a run that is stopped has what it measured
        seconds = sorted(sample for one in figure["rounds"] for sample in one)
        rate = figure["work"] / seconds[len(seconds) // 2]
        print(f"{figure['workload']:50} {figure['dtype']:7} {rate:12.4g}/s {'' if correct else 'WRONG'}", flush=True)
    write(exported, a.output)
    print(f"{len(added)} figures of {name} added to {a.output}")
    for sentence in left_out:
        print(f"left out: {sentence}")
    if not all(figure["correct"] for figure in added):
        sys.exit("a result of PyTorch's is wrong by more than its type explains")


if __name__ == "__main__":
    main()
