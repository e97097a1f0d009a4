#!/usr/bin/env python3
"""Train the same model with Causeway and with PyTorch, alternately, and compare tokens per second and peak memory.

    python benchmarks/compare_training.py build/causeway recipes/gpt2_124m.yaml --runs 3 --skip 1 \\
        --causeway-arguments "run_directory={run} data.path=DATASET train.steps=5 schedule.warmup_steps=1 log.interval=1 \\
            train.batch_size=4 train.micro_batch_size=4 evaluation.interval=0 evaluation.sequences=4" \\
        --pytorch-python VENV/bin/python \\
        --pytorch-arguments "gpt2 --batch 4 --sequence 1024 --steps 5 --random-vocabulary 50257"

Each round runs `causeway train RECIPE`, then benchmarks/pytorch_peer.py compiled, then the same without torch.compile
(--pytorch-modes names others); ratios are against the faster of PyTorch's modes. The recipe and the PyTorch arguments
must describe one model, batch and sequence: the script prints the steps' losses of both, but cannot check the rest.

Causeway must write metrics.jsonl, one line a step with step, loss, tokens_per_second, in the run directory: {run} in
--causeway-arguments stands for a fresh one in each round; --metrics names the file when the recipe fixes its place.

Tokens per second: of each run the median over its steps after the first --skip; of the runs the median, with the least
and the greatest in brackets. Peak memory: ru_maxrss of the child process, which wait4 reports; compilers that
torch.compile starts are processes of their own and not counted unless larger than the training process.

Needs Python only; PyTorch's side runs in --pytorch-python.
"""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

PEER = Path(__file__).resolve().parent / "pytorch_peer.py"
MODES = {"compiled": [], "eager": ["--no-compile"]}


def run_child(command, log):
    """Run to the end with output in the file `log`; gives the peak resident bytes."""
    with open(log, "wb") as output:
        child = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        tail = "\n".join(Path(log).read_text(errors="replace").splitlines()[-20:])
        sys.exit(f"{shlex.join(command)}\nended with status {child.returncode}:\n{tail}")
    return usage.ru_maxrss * 1024


def json_lines(path):
    for line in Path(path).read_text(errors="replace").splitlines():
        if line.startswith("{"):
            yield json.loads(line)


def summarise(steps, skip, peak, where):
    """steps: (loss, tokens per second) in order."""
    if len(steps) <= skip:
        sys.exit(f"{where}: {len(steps)} steps, none left after --skip {skip}")
    return {
        "rate": statistics.median(rate for _, rate in steps[skip:]),
        "peak": peak,
        "first_loss": steps[0][0],
        "last_loss": steps[-1][0],
        "steps": len(steps),
    }


def run_causeway(a, directory):
    run = directory / "run"
    extra = [argument.replace("{run}", str(run)) for argument in shlex.split(a.causeway_arguments)]
    metrics = Path(a.metrics) if a.metrics else run / "metrics.jsonl"
    if a.metrics:
        metrics.unlink(missing_ok=True)
    peak = run_child([a.causeway, "train", a.recipe, *extra], directory / "log")
    if not metrics.exists():
        sys.exit(f"{metrics}: not written; give {{run}} in --causeway-arguments, or --metrics")
    lines = [line for line in json_lines(metrics) if "tokens_per_second" in line]
    return summarise([(line["loss"], line["tokens_per_second"]) for line in lines], a.skip, peak, metrics)


def run_pytorch(a, mode, directory):
    log = directory / "log"
    command = [a.pytorch_python, str(PEER), *shlex.split(a.pytorch_arguments), *MODES[mode], "--skip", "0"]
    peak = run_child(command, log)
    steps = [line for line in json_lines(log) if "seconds" in line]
    return summarise([(line["loss"], line["tokens"] / line["seconds"]) for line in steps], a.skip, peak, log)


def spread(values, scale, digits):
    median, least, most = (f(values) / scale for f in (statistics.median, min, max))
    return f"{median:,.{digits}f} [{least:,.{digits}f}-{most:,.{digits}f}]"


def print_table(results):
    medians = {
        name: {key: statistics.median(run[key] for run in runs) for key in ("rate", "peak")}
        for name, runs in results.items()
    }
    peers = [name for name in results if name != "causeway"]
    best = max(peers, key=lambda name: medians[name]["rate"])
    rows = [("", "tokens/s", "peak MiB", "speed", "memory", "first loss", "last loss")]
    for name, runs in results.items():
        rows.append(
            (
                name + (" *" if name == best else ""),
                spread([run["rate"] for run in runs], 1, 0),
                spread([run["peak"] for run in runs], 2**20, 0),
                f"{medians[name]['rate'] / medians[best]['rate']:.3f}",
                f"{medians[name]['peak'] / medians[best]['peak']:.3f}",
                f"{statistics.median(run['first_loss'] for run in runs):.4f}",
                f"{statistics.median(run['last_loss'] for run in runs):.4f}",
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    print(f"speed and memory: ratios to {best} (*), the faster PyTorch mode; medians [least-greatest] of the runs")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("causeway", help="the binary")
    p.add_argument("recipe")
    p.add_argument("--runs", type=int, default=3, help="rounds")
    p.add_argument("--skip", type=int, default=2, help="first steps of each run left out")
    p.add_argument("--causeway-arguments", default="", help="{run}: a fresh directory")
    p.add_argument("--metrics", help="where metrics.jsonl appears, when not in {run}")
    p.add_argument("--pytorch-python", default=sys.executable)
    p.add_argument("--pytorch-arguments", required=True, help="of pytorch_peer.py")
    p.add_argument("--pytorch-modes", nargs="+", choices=MODES, default=list(MODES))
    p.add_argument("--json", help="also write every run's figures there")
    a = p.parse_args()

    results = {"causeway": [], **{f"pytorch {mode}": [] for mode in a.pytorch_modes}}
    for number in range(1, a.runs + 1):
        for name, runs in results.items():
            with tempfile.TemporaryDirectory() as directory:
                if name == "causeway":
                    result = run_causeway(a, Path(directory))
                else:
                    result = run_pytorch(a, name.removeprefix("pytorch "), Path(directory))
            runs.append(result)
            rate, peak = result["rate"], result["peak"] / 2**20
            print(f"round {number}: {name}: {rate:,.0f} tokens/s, peak {peak:,.0f} MiB", file=sys.stderr)
    print_table(results)
    if a.json:
        Path(a.json).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
