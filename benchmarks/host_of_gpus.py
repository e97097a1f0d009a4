#!/usr/bin/env python3
"""What a host of several GPUs makes of training steps, mesh by mesh, beside PyTorch and `causeway plan`.

    python3 benchmarks/host_of_gpus.py steps  --gpus 8           # five training steps, beside PyTorch's
    python3 benchmarks/host_of_gpus.py weak   --gpus 8           # the same work for each GPU, on 1, 2, 4, ... of them
    python3 benchmarks/host_of_gpus.py strong --gpus 8           # the same work for all of them
    python3 benchmarks/host_of_gpus.py meshes --gpus 8           # losses of 50 steps and waiting, mesh by mesh
    python3 benchmarks/host_of_gpus.py collectives --gpus 8      # beside PyTorch's NCCL
    python3 benchmarks/host_of_gpus.py kill   --gpus 8           # one rank by kill -9, five times; then on half of them
    python3 benchmarks/host_of_gpus.py predictions --gpus 8      # what `causeway plan` says of them; needs no GPU

Every part is one table on standard output, a line as soon as it is known, so that one that is cut short has said what
it measured. `--only "NAME;NAME"` takes some lines of a part. Rates are medians over the steps after the first four,
memory is what a GPU's process had allocated at most; "planned" is what `causeway plan` says. `--rehearse` runs the same
with small models on processes of the processor, to see that everything works.

Needs nothing but the program; steps and collectives also torchrun and what benchmarks/pytorch_peer.py needs.
"""

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
FIRST_STEPS = 4  # not measured

def cut(axis, rows, *more):
    """Overrides for n GPUs, each with so many sequences in one micro-batch."""
    return lambda n: [f"mesh.{axis}={n}", f"train.batch_size={rows * n}", f"train.micro_batch_size={rows * n}", *more]


def peer(model, rows, parallel):
    return lambda n: f"{model} --batch {rows * n} --parallel {parallel}"


LONG = "data.sequence_length=8192"
SELECTIVE = "train.recompute=selective"  # auto would use all the memory there is
LLAMA = "llama --rope-theta 500000 --vocabulary 128256 --kv-heads 8 --sequence 8192"
# name: recipe, overrides for n GPUs, the peer's arguments
STEPS = {
    "Llama 3 8B": ("llama3_8b", cut("fsdp", 2, LONG, SELECTIVE),
                   peer(f"{LLAMA} --layers 32 --width 4096 --heads 32 --ffn 14336", 2, "fsdp2")),
    "Llama 70B, 4 layers": ("llama3_70b_4layers", cut("fsdp", 4, LONG, SELECTIVE),
                            peer(f"{LLAMA} --layers 4 --width 8192 --heads 64 --ffn 28672", 4, "fsdp2")),
    "Mistral 7B": ("mistral_7b", cut("fsdp", 2, LONG, SELECTIVE, "model.sliding_window=4096"),
                   peer("llama --layers 32 --width 4096 --heads 32 --kv-heads 8 --ffn 14336 --vocabulary 32000 "
                        "--window 4096 --sequence 8192", 2, "fsdp2")),
    "GPT 1.5B": ("gpt2_1.5b", cut("dp", 28, SELECTIVE),
                 peer("gpt2 --layers 48 --width 1600 --heads 25 --sequence 1024 --random-vocabulary 50257", 28, "ddp")),
    "GPT-2 124M": ("gpt2_124m", cut("dp", 64), peer("gpt2 --sequence 1024 --random-vocabulary 50257", 64, "ddp")),
}

def meshes(gpus):
    """Of Llama 3 8B with eight layers. Name: axes, sequence length."""
    cases = {}
    for size in (2, 4, 8):
        if size > gpus:
            break
        rest = {"fsdp": gpus // size} if size < gpus else {}
        cases[f"tp {size}"] = ({"tp": size, **rest}, 8192)
        if size <= 4:
            cases[f"pp {size}"] = ({"pp": size, **rest}, 8192)
        for length in (65536, 131072):
            cases[f"cp {size}, {length // 1024}k"] = ({"cp": size, **rest}, length)
    if gpus >= 8:
        cases["fsdp 2 x dp 4"] = ({"fsdp": 2, "dp": 4}, 8192)
        cases["tp 2 x pp 2 x dp 2"] = ({"tp": 2, "pp": 2, "dp": 2}, 8192)
    return cases


class Host:
    def __init__(self, a):
        self.a = a
        self.causeway = str(Path(a.causeway).resolve())
        self.folder = Path(tempfile.mkdtemp(prefix="host_of_gpus_"))
        self.device = "cpu" if a.rehearse else "cuda"
        text = self.folder / "text.txt"
        letters = random.Random(1)
        text.write_text("".join(letters.choice("abcdefghijklmnopqrstuvwxyz     \n") for _ in range(1 << 19)))
        self.data = self.folder / "data"
        self.check([self.causeway, "data", "prepare", str(text), "--output", str(self.data)])

    def check(self, command):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
        return done.stdout

    def overrides(self, recipe, overrides):
        """A small model in the place of the recipe's, where it is rehearsed."""
        if not self.a.rehearse:
            return recipe, overrides
        kept = [o for o in overrides if o.startswith(("mesh.", "train.pipeline"))]
        ranks = 1
        for o in kept:
            if o.startswith("mesh."):
                ranks *= int(o.split("=")[1])
        small = ["model.layers=4", "model.kv_heads=8", "model.width=32", "model.heads=8", "model.ffn_width=64"]
        small += ["data.sequence_length=64", "model.max_sequence_length=64", "train.precision=f32"]
        small += [f"train.batch_size={4 * ranks}"]
        small += [f"train.micro_batch_size={ranks if any(o.startswith('mesh.pp') for o in kept) else 4 * ranks}"]
        return "shakespeare", kept + small

    def command(self, recipe, overrides, ranks, directory, more=()):
        recipe, overrides = self.overrides(recipe, overrides)
        launch = ["launch", "-n", str(ranks), "--"] if ranks > 1 else []
        fixed = [f"run_directory={directory}", f"data.path={self.data}", f"device={self.device}",
                 "schedule.warmup_steps=1", "log.interval=1", "evaluation.interval=0", "sampling.interval=0",
                 "log.tensorboard=false"]
        return [self.causeway, *launch, "train", recipe, *fixed, *overrides, *more, "--quiet"]

    def train(self, name, recipe, overrides, ranks, steps, more=("checkpoint.interval=0", "train.steps=1000")):
        """The records of the first `steps` steps, or what the run said instead."""
        directory = self.folder / f"run_{len(list(self.folder.glob('run_*')))}"
        log = open(self.folder / "log", "w+")
        process = subprocess.Popen(self.command(recipe, overrides, ranks, directory, more), stdout=log,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        begun = time.time()
        while process.poll() is None and len(records(directory)) < steps and time.time() - begun < self.a.limit:
            time.sleep(0.2)
        end(process)
        found = records(directory)[:steps]
        shutil.rmtree(directory, ignore_errors=True)
        if len(found) > FIRST_STEPS:
            return found
        log.seek(0)
        print(f"| {name} | not run: {' '.join(log.read().split())[-600:]} |", flush=True)
        return None

    def predict(self, recipe, overrides):
        """Tokens/s of all GPUs and bytes of one, by `causeway plan`; nothing where it refuses."""
        if self.a.rehearse:
            return None
        done = subprocess.run([self.causeway, "plan", recipe, *overrides, "--hardware", self.a.hardware, "--json"],
                              capture_output=True, text=True)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def chosen(self, cases):
        return {name: case for name, case in cases.items() if not self.a.only or name in self.a.only}


def records(directory):
    """Of steps that are written whole."""
    file = directory / "metrics.jsonl"
    if not file.exists():
        return []
    lines = [json.loads(line) for line in file.read_text().splitlines() if line.endswith("}")]
    return [record for record in lines if "loss" in record and "tokens_per_second" in record]


def end(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
    # Launchers give their processes groups of their own.
    for pid, words in processes_with(str(process.args[process.args.index("train") + 2])):
        os.kill(pid, signal.SIGKILL)


def processes_with(word):
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = file.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if any(word in one for one in words):
            yield int(file.parent.name), words


def head(*cells):
    print("| " + " | ".join(cells) + " |\n" + "|---" * len(cells) + "|", flush=True)


def rate(found):
    return statistics.median(record["tokens_per_second"] for record in found[FIRST_STEPS:])


def gib(found):
    return max(record.get("memory_bytes", 0) for record in found) / 2**30


def waiting(found):
    """Seconds in which no kernel ran beside communication, of the rank with the most, and of a measured step."""
    for record in found:
        exposed = record.get("ranks", {}).get("exposed_communication_seconds")
        if exposed:
            return exposed["max"], record["step_seconds"]
    return None


def steps(host):
    n = host.a.gpus
    head("Step", "GPUs", "Causeway, tokens/s", "PyTorch", "Ratio", "Memory, GiB", "PyTorch", "Ratio")
    for name, (recipe, overrides, theirs_with) in host.chosen(STEPS).items():
        found = host.train(name, recipe, overrides(n), n, host.a.steps)
        if found is None:
            continue
        cells = [name, str(n), f"{rate(found):.0f}"]
        theirs = None if host.a.rehearse else run_peer(host, theirs_with(n))
        if theirs:
            memory = theirs["peak_device_bytes"] / 2**30
            cells += [f"{theirs['tokens_per_second']:.0f}", f"{rate(found) / theirs['tokens_per_second']:.3f}",
                      f"{gib(found):.1f}", f"{memory:.1f}", f"{gib(found) / memory:.2f}"]
        else:
            cells += ["", "", f"{gib(found):.1f}", "", ""]
        print("| " + " | ".join(cells) + " |", flush=True)


def run_peer(host, arguments):
    command = ["torchrun", "--standalone", "--nproc-per-node", str(host.a.gpus), str(FOLDER / "pytorch_peer.py"),
               *arguments.split(), "--device", "cuda", "--steps", "12", "--skip", str(FIRST_STEPS)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=host.a.limit)
    except subprocess.TimeoutExpired:
        print(f"PyTorch did not end within {host.a.limit:.0f} s", flush=True)
        return None
    lines = [line for line in done.stdout.splitlines() if '"summary"' in line]
    if not lines:
        # The launcher's own account of it comes last, and what the ranks said before.
        reasons = [line for line in done.stderr.splitlines() if "Error" in line][:3]
        print("PyTorch did not run: " + "; ".join(reasons or [done.stderr[-600:]]), flush=True)
    return json.loads(lines[-1]) if lines else None


def scaling(host, cases):
    head("Work", "GPUs", "tokens/s", "of as many times one", "memory, GiB", "planned tokens/s")
    for name, (recipe, overrides) in host.chosen(cases).items():
        one = None
        n = 1
        while n <= host.a.gpus:
            found = host.train(name, recipe, overrides(n), n, host.a.steps)
            if found:
                one = one or rate(found)
                plan = host.predict(recipe, overrides(n))
                planned = f"{plan['tokens_per_second']:.0f}" if plan else ""
                share = f"{rate(found) / one / n:.3f}"
                print(f"| {name} | {n} | {rate(found):.0f} | {share} | {gib(found):.1f} | {planned} |", flush=True)
            n *= 2


def weak_cases():
    return {name: STEPS[name][:2] for name in ("GPT 1.5B", "Llama 70B, 4 layers")}


def strong_cases():
    def overrides(n):
        rows = min(512, 16 * n)
        return [f"mesh.dp={n}", "train.batch_size=512", f"train.micro_batch_size={rows}"]

    return {"GPT 1.5B, 512 x 1,024": ("gpt2_1.5b", overrides)}


def mesh_cases(gpus):
    """Those with the same sequences in a step are compared with the first of them."""
    cases, kinds = {}, set()

    def add(name, axes, length, batch, micro_batch):
        overrides = [f"mesh.{axis}={size}" for axis, size in axes.items()]
        overrides += ["model.layers=8", f"model.max_sequence_length={max(8192, length)}"]
        overrides += [f"data.sequence_length={length}", f"train.batch_size={batch}"]
        overrides += [f"train.micro_batch_size={micro_batch}"]
        if "pp" in axes:
            overrides.append("train.pipeline_schedule=zero_bubble")
        cases[name] = ("llama3_8b", overrides, (length, batch))
        kinds.add((length, batch))

    for name, (axes, length) in meshes(gpus).items():
        rows = axes.get("dp", 1) * axes.get("fsdp", 1)
        batch = gpus if length <= 8192 else max(1, gpus // 2)
        batch = max(batch, rows * 2 * axes["pp"] if "pp" in axes else rows)
        if (length, batch) not in kinds and "cp" not in axes:
            add(f"fsdp {gpus}, {batch} sequences", {"fsdp": gpus}, length, batch, gpus)
        add(name, axes, length, batch, rows if "pp" in axes else batch)
    return cases


def compare_meshes(host):
    head("Mesh", "tokens/s", "waiting, s of a step", "memory, GiB", "planned tokens/s", "steps",
         "largest difference of a loss from", "last loss")
    losses = {}  # by length and batch, of the first mesh that ran
    for name, (recipe, overrides, kind) in host.chosen(mesh_cases(host.a.gpus)).items():
        found = host.train(name, recipe, overrides, host.a.gpus, host.a.steps)
        if found is None:
            continue
        own = [record["loss"] for record in found]
        reference, theirs = losses.setdefault(kind, (name, own))
        difference = max(abs(a - b) for a, b in zip(own, theirs))
        waits = waiting(found)
        plan = host.predict(recipe, overrides)
        print(f"| {name} | {rate(found):.0f} | {'%.3f of %.3f' % waits if waits else ''} | {gib(found):.1f} | "
              f"{'%.0f' % plan['tokens_per_second'] if plan else ''} | {len(own)} | "
              f"{'' if reference == name else f'{difference:.4f} ({reference})'} | {own[-1]:.4f} |", flush=True)


def collectives(host):
    sizes = "64KiB,1MiB" if host.a.rehearse else "16MiB,64MiB,256MiB"
    device = [] if host.a.rehearse else ["--device", "cuda"]
    launch = [host.causeway, "launch", "-n", str(host.a.gpus), "--"]
    print(host.check([*launch, "bench", "collectives", *device, "--size", sizes]))
    if host.a.rehearse:
        return
    done = subprocess.run(["torchrun", "--standalone", "--nproc-per-node", str(host.a.gpus),
                           str(FOLDER / "pytorch_collectives.py"), "--size", "16,64,256"],
                          capture_output=True, text=True)
    print(done.stdout if done.returncode == 0 else done.stderr[-600:])


def kill(host):
    """A rank is ended in the middle of a step; the others are to end by themselves within ten seconds."""
    n = host.a.gpus
    recipe, overrides = "gpt2_124m", [f"mesh.dp={n}", f"train.batch_size={16 * n}", f"train.micro_batch_size={16 * n}"]
    directory = host.folder / "killed"
    head("Kill", "after, s", "the others ended, s later", "checkpoints", "what was said")
    dice = random.Random(host.a.gpus)
    for number in range(5):
        more = ["train.steps=100000", "checkpoint.interval=10", "checkpoint.keep=2"]
        log = open(host.folder / "log", "w+")
        command = [*host.command(recipe, overrides, n, directory, more), "--resume", "auto"]
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        before, begun = len(records(directory)), time.time()
        while process.poll() is None and len(records(directory)) < before + 25 and time.time() - begun < host.a.limit:
            time.sleep(0.05)
        time.sleep(dice.random() * 0.5)
        ranks = [pid for pid, words in processes_with(str(directory)) if words[1] == "train"]
        if len(ranks) != n:
            log.seek(0)
            sys.exit(f"{len(ranks)} ranks of {n} are there: {log.read()[-800:]}")
        os.kill(dice.choice(sorted(ranks)), signal.SIGKILL)
        killed = time.time()
        while any(True for _ in processes_with(str(directory))) and time.time() - killed < 60:
            time.sleep(0.05)
        seconds = time.time() - killed
        end(process)
        log.seek(0)
        said = " ".join(line for line in log.read().splitlines() if line.startswith("error:"))[:300]
        whole = subprocess.run([host.causeway, "checkpoint", "verify", str(directory)], capture_output=True, text=True)
        count = len(list((directory / "checkpoints").glob("step-*")))
        verdict = f"{count}, {'whole' if whole.returncode == 0 else whole.stderr.strip()[:200]}"
        print(f"| {number + 1} | {killed - begun:.1f} | {seconds:.1f} | {verdict} | {said} |", flush=True)
    half = max(1, n // 2)
    fewer = [f"mesh.dp={half}", *overrides[1:]]
    last = max((record["step"] for record in records(directory)), default=0)
    more = [f"train.steps={last + 20}", "checkpoint.interval=0"]
    command = [*host.command(recipe, fewer, half, directory, more), "--resume", "auto"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=host.a.limit)
    went_on = max((record["step"] for record in records(directory)), default=0)
    print(f"on {half}: ended with {done.returncode}, at step {went_on} of {last + 20}", done.stderr[-300:])


def predictions(host):
    n = host.a.gpus
    head("Work", "GPUs", "tokens/s", "memory of a GPU, GiB", "step, s")
    rows = [(name, n, recipe, overrides(n)) for name, (recipe, overrides, _) in STEPS.items()]
    for cases in (weak_cases(), strong_cases()):
        size = 1
        while size <= n:
            rows += [(f"{name}, scaling", size, recipe, overrides(size)) for name, (recipe, overrides) in cases.items()]
            size *= 2
    rows += [(f"8 layers of Llama 3 8B, {name}", n, *case[:2]) for name, case in mesh_cases(n).items()]
    for name, size, recipe, overrides in rows:
        if host.a.only and name not in host.a.only:
            continue
        plan = host.predict(recipe, overrides)
        if plan is None:
            print(f"| {name} | {size} | refused | | |", flush=True)
            continue
        memory, seconds = plan["total_bytes"] / 2**30, plan["step_seconds"]
        print(f"| {name} | {size} | {plan['tokens_per_second']:.0f} | {memory:.1f} | {seconds:.3f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = {"steps": steps, "weak": lambda host: scaling(host, weak_cases()),
             "strong": lambda host: scaling(host, strong_cases()), "meshes": compare_meshes,
             "collectives": collectives, "kill": kill, "predictions": predictions}
    parser.add_argument("part", choices=parts)
    parser.add_argument("--gpus", type=int, required=True, help="how many the host has, or are to be used")
    parser.add_argument("--causeway", default="build/causeway", help="the program")
    parser.add_argument("--steps", type=int, help="of a run: 16, for meshes 50")
    parser.add_argument("--only", help="names of lines, separated by ';'", type=lambda text: text.split(";"))
    parser.add_argument("--limit", type=float, default=150, help="seconds of one run")
    parser.add_argument("--hardware", default="h200", help="for causeway plan")
    parser.add_argument("--rehearse", action="store_true", help="small models on processes of the processor")
    a = parser.parse_args()
    a.steps = a.steps or (50 if a.part == "meshes" else 16)
    host = Host(a)
    try:
        parts[a.part](host)
    finally:
        shutil.rmtree(host.folder, ignore_errors=True)


if __name__ == "__main__":
    main()
