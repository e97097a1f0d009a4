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
memory is what a GPU's process had allocated at most; "planned" is what `causeway plan` says. Work that takes fewer GPUs
than the host has runs on all of them at once, in groups, so that every GPU is measured alone and as warm as later: a
step of several GPUs ends when the slowest one's does. Tokens are random, of the whole vocabulary; `meshes`, which
compares losses, and `kill` read a text. `--rehearse` runs the same with small models on processes of the processor, to
see that everything works.

Needs nothing but the program; steps and collectives also torchrun and what benchmarks/pytorch_peer.py needs.
"""

import argparse
import array
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
# auto would use all the memory there is; of PyTorch's, with which nothing is recomputed, 0.85 are to suffice.
NONE, SELECTIVE = "train.recompute=none", "train.recompute=selective"
LLAMA = "llama --rope-theta 500000 --vocabulary 128256 --kv-heads 8 --sequence 8192"
# name: recipe, overrides for n GPUs, the peer's arguments
STEPS = {
    "Llama 3 8B": ("llama3_8b", cut("fsdp", 2, LONG, SELECTIVE),
                   peer(f"{LLAMA} --layers 32 --width 4096 --heads 32 --ffn 14336", 2, "fsdp2")),
    "Llama 70B, 4 layers": ("llama3_70b_4layers", cut("fsdp", 4, LONG, NONE),
                            peer(f"{LLAMA} --layers 4 --width 8192 --heads 64 --ffn 28672", 4, "fsdp2")),
    "Mistral 7B": ("mistral_7b", cut("fsdp", 2, LONG, SELECTIVE, "model.sliding_window=4096"),
                   peer("llama --layers 32 --width 4096 --heads 32 --kv-heads 8 --ffn 14336 --vocabulary 32000 "
                        "--window 4096 --sequence 8192", 2, "fsdp2")),
    "GPT 1.5B": ("gpt2_1.5b", cut("dp", 28, NONE),
                 peer("gpt2 --layers 48 --width 1600 --heads 25 --sequence 1024 --random-vocabulary 50257", 28, "ddp")),
    "GPT-2 124M": ("gpt2_124m", cut("dp", 64), peer("gpt2 --sequence 1024 --random-vocabulary 50257", 64, "ddp")),
}

VOCABULARIES = {"gpt2": 50257, "llama3": 128256, "mistral": 32000}  # by how recipes' names begin


def meshes(gpus):
    """Of Llama 3 8B. Name: axes, sequence length, layers."""
    cases = {}
    for size in (2, 4, 8):
        if size > gpus:
            break
        rest = {"fsdp": gpus // size} if size < gpus else {}
        cases[f"tp {size}"] = ({"tp": size, **rest}, 8192, 8)
        if size <= 4:
            cases[f"pp {size}"] = ({"pp": size, **rest}, 8192, 8)
        for length in (65536, 131072):
            cases[f"cp {size}, {length // 1024}k"] = ({"cp": size, **rest}, length, 8)
    if gpus >= 4:
        cases[f"fsdp 2 x dp {gpus // 2}"] = ({"fsdp": 2, "dp": gpus // 2}, 8192, 8)
        rest = {"dp": gpus // 4} if gpus > 4 else {}
        cases["tp 2 x pp 2" + (f" x dp {gpus // 4}" if rest else "")] = ({"tp": 2, "pp": 2, **rest}, 8192, 8)
    # Losses of long sequences, of few layers: tp, which leaves sequences whole, and the same by cp.
    for axis, size in [("tp", gpus)] + [("cp", size) for size in (2, 4, 8) if size <= gpus]:
        rest = {"fsdp": gpus // size} if size < gpus else {}
        cases[f"{axis} {size}, 64k, 2 layers"] = ({axis: size, **rest}, 65536, 2)
    return cases


class Host:
    def __init__(self, a):
        self.a = a
        self.causeway = str(Path(a.causeway).resolve())
        self.folder = Path(tempfile.mkdtemp(prefix="host_of_gpus_"))
        self.device = "cpu" if a.rehearse else "cuda"
        self.processes = []  # that are to be ended, whatever becomes of this one
        text = self.folder / "text.txt"
        letters = random.Random(1)
        text.write_text("".join(letters.choice("abcdefghijklmnopqrstuvwxyz     \n") for _ in range(1 << 19)))
        self.text = self.folder / "text"
        self.check([self.causeway, "data", "prepare", str(text), "--output", str(self.text)])

    def check(self, command):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
        return done.stdout

    def random_tokens(self, recipe):
        """Shards of tokens of the recipe's whole vocabulary, as llm.c writes them."""
        vocabulary = next(size for name, size in VOCABULARIES.items() if recipe.startswith(name))
        if self.a.rehearse:
            return self.text
        folder = self.folder / f"tokens_{vocabulary}"
        if not folder.exists():
            folder.mkdir()
            wide = vocabulary > 1 << 16
            for split, count in (("train", 1 << 22), ("val", 1 << 16)):
                tokens = random.Random(1).choices(range(vocabulary), k=count)
                header = array.array("i", [20240801, 7, count] if wide else [20240520, 1, count])
                header.extend([0] * (256 - len(header)))
                body = array.array("I" if wide else "H", tokens)
                (folder / f"random_{split}_000000.bin").write_bytes(header.tobytes() + body.tobytes())
        return folder

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

    def command(self, recipe, overrides, ranks, directory, more, data):
        recipe, overrides = self.overrides(recipe, overrides)
        launch = ["launch", "-n", str(ranks), "--"] if ranks > 1 else []
        fixed = [f"run_directory={directory}", f"data.path={data}", f"device={self.device}",
                 "schedule.warmup_steps=1", "log.interval=1", "evaluation.interval=0", "sampling.interval=0",
                 "log.tensorboard=false"]
        return [self.causeway, *launch, "train", recipe, *fixed, *overrides, *more, "--quiet"]

    def train(self, name, recipe, overrides, ranks, steps, data, groups=1):
        """Of each of so many groups of GPUs, which run at the same time, the records of the first `steps` steps; or
        nothing, when one of them did not run and what it said has been printed."""
        runs = []
        for group in range(groups):
            directory = self.folder / f"run_{len(runs)}_{time.monotonic_ns()}"
            log = open(self.folder / f"log_{group}", "w+")
            more = ["checkpoint.interval=0", "train.steps=1000", *self.a.set]
            if self.a.trace and group == 0:
                more += [f"log.trace_from={steps - 1}", "log.trace_steps=2"]
            devices = ",".join(str(group * ranks + rank) for rank in range(ranks))
            process = subprocess.Popen(self.command(recipe, overrides, ranks, directory, more, data), stdout=log,
                                       stderr=subprocess.STDOUT, start_new_session=True,
                                       env={**os.environ, "CUDA_VISIBLE_DEVICES": devices})
            self.processes.append(process)
            runs.append((process, directory, log))
        wanted, begun = steps + (3 if self.a.trace else 0), time.time()
        while time.time() - begun < self.a.limit and any(
                process.poll() is None and len(records(directory)) < wanted for process, directory, _ in runs):
            time.sleep(0.2)
        for process, _, _ in runs:
            end(process)
        found = [records(directory)[:steps] for _, directory, _ in runs]
        if self.a.trace:
            keep_trace(runs[0][1], Path(self.a.trace), f"{name}, {ranks}")
        for (_, directory, log), steps_of in zip(runs, found):
            shutil.rmtree(directory, ignore_errors=True)
            if len(steps_of) <= FIRST_STEPS:
                log.seek(0)
                print(f"| {name} | not run: {reason(log.read())} |", flush=True)
                return None
        return found

    def predict(self, recipe, overrides):
        """Tokens/s of all GPUs and bytes of one, by `causeway plan`; nothing where it refuses."""
        if self.a.rehearse or not self.a.hardware:
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


def reason(text):
    """What a run said of its end: the program's own error, or the last that was said at all."""
    place = text.find("error:")
    return " ".join(text[place:].split())[:600] if place >= 0 else " ".join(text.split())[-600:]


def keep_trace(directory, folder, name):
    if (directory / "trace.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(directory / "trace.json", folder / (name.replace(" ", "_").replace(",", "") + ".json"))


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
    """Of the GPU with the most."""
    return max(record["ranks"]["memory_bytes"]["max"] if "ranks" in record else record.get("memory_bytes", 0)
               for record in found) / 2**30


def waiting(found):
    """Seconds in which no kernel ran beside communication, of the rank with the most, and of a measured step."""
    for record in found:
        exposed = record.get("ranks", {}).get("exposed_communication_seconds")
        if exposed:
            return exposed["max"], record["step_seconds"]
    return None


def wait_text(found):
    waits = waiting(found)
    return "%.3f of %.3f" % waits if waits else ""


def steps(host):
    n = host.a.gpus
    head("Step", "GPUs", "Causeway, tokens/s", "PyTorch", "Ratio", "Memory, GiB", "PyTorch", "Ratio")
    for name, (recipe, overrides, theirs_with) in host.chosen(STEPS).items():
        groups = host.train(name, recipe, overrides(n), n, host.a.steps, host.random_tokens(recipe))
        if groups is None:
            continue
        found = groups[0]
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
    head("Work", "GPUs", "tokens/s, by groups of GPUs", "of as many times one", "of the slowest one",
         "waiting, s of a step", "memory, GiB", "planned tokens/s")
    for name, (recipe, overrides) in host.chosen(cases).items():
        mean = slowest = None
        n = 1
        while n <= host.a.gpus:
            found = host.train(name, recipe, overrides(n), n, host.a.steps, host.random_tokens(recipe),
                               host.a.gpus // n)
            if found:
                rates = [rate(one) for one in found]
                mean, slowest = mean or statistics.mean(rates), slowest or min(rates)
                plan = host.predict(recipe, overrides(n))
                cells = [name, str(n), "; ".join(f"{one:.0f}" for one in rates),
                         f"{statistics.mean(rates) / mean / n:.3f}", f"{statistics.mean(rates) / slowest / n:.3f}",
                         wait_text(found[0]), f"{max(gib(one) for one in found):.1f}",
                         f"{plan['tokens_per_second']:.0f}" if plan else ""]
                print("| " + " | ".join(cells) + " |", flush=True)
            n *= 2


def weak_cases():
    return {name: STEPS[name][:2] for name in ("GPT 1.5B", "Llama 70B, 4 layers")}


def strong_cases():
    def overrides(n):
        rows = min(512, 16 * n)
        return [f"mesh.dp={n}", "train.batch_size=512", f"train.micro_batch_size={rows}"]

    return {"GPT 1.5B, 512 x 1,024": ("gpt2_1.5b", overrides)}


def mesh_cases(gpus):
    """Those with the same layers and sequences in a step are compared with the first of them."""
    cases, kinds = {}, set()

    def add(name, axes, length, batch, micro_batch, layers):
        overrides = [f"mesh.{axis}={size}" for axis, size in axes.items()]
        overrides += [f"model.layers={layers}", f"model.max_sequence_length={max(8192, length)}"]
        overrides += [f"data.sequence_length={length}", f"train.batch_size={batch}"]
        overrides += [f"train.micro_batch_size={micro_batch}"]
        if "pp" in axes:
            overrides.append("train.pipeline_schedule=zero_bubble")
        kind = (length, batch, layers)
        cases[name] = ("llama3_8b", overrides, kind)
        kinds.add(kind)

    for name, (axes, length, layers) in meshes(gpus).items():
        rows = axes.get("dp", 1) * axes.get("fsdp", 1)
        batch = gpus if length <= 8192 else max(1, gpus // 2)
        batch = max(batch, rows * 2 * axes["pp"] if "pp" in axes else rows)
        if (length, batch, layers) not in kinds and length <= 8192:
            add(f"fsdp {gpus}, {batch} sequences", {"fsdp": gpus}, length, batch, gpus, layers)
            if batch > gpus:  # what another order of sums does
                add(f"fsdp {gpus}, {batch} sequences at once", {"fsdp": gpus}, length, batch, batch, layers)
        add(name, axes, length, batch, rows if "pp" in axes else batch, layers)
    return cases


def compare_meshes(host):
    head("Mesh", "tokens/s", "waiting, s of a step", "memory, GiB", "planned tokens/s", "steps",
         "largest difference of a loss from", "last loss")
    losses = {}  # by kind, of the first mesh that ran
    for name, (recipe, overrides, kind) in host.chosen(mesh_cases(host.a.gpus)).items():
        # Long sequences whose losses nobody compares are there for their rates.
        steps = min(host.a.steps, 7) if kind[0] > 8192 and kind[2] > 2 else host.a.steps
        groups = host.train(name, recipe, overrides, host.a.gpus, steps, host.text)
        if groups is None:
            continue
        found = groups[0]
        own = [record["loss"] for record in found]
        reference, theirs = losses.setdefault(kind, (name, own))
        difference = max(abs(a - b) for a, b in zip(own, theirs))
        plan = host.predict(recipe, overrides)
        print(f"| {name} | {rate(found):.0f} | {wait_text(found)} | {gib(found):.1f} | "
              f"{'%.0f' % plan['tokens_per_second'] if plan else ''} | {len(own)} | "
              f"{'' if reference == name else f'{difference:.4f} ({reference})'} | {own[-1]:.4f} |", flush=True)


def collectives(host):
    sizes = "64KiB,1MiB" if host.a.rehearse else "8MiB,16MiB,64MiB,256MiB"
    device = [] if host.a.rehearse else ["--device", "cuda"]
    launch = [host.causeway, "launch", "-n", str(host.a.gpus), "--"]
    print(host.check([*launch, "bench", "collectives", *device, "--size", sizes]))
    if host.a.rehearse:
        return
    done = subprocess.run(["torchrun", "--standalone", "--nproc-per-node", str(host.a.gpus),
                           str(FOLDER / "pytorch_collectives.py"), "--size", "8,16,64,256"],
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
        command = [*host.command(recipe, overrides, n, directory, more, host.text), "--resume", "auto"]
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        host.processes.append(process)
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
    command = [*host.command(recipe, fewer, half, directory, more, host.text), "--resume", "auto"]
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
    parser.add_argument("--set", help="overrides of every run, separated by ';'", default=[],
                        type=lambda text: text.split(";"))
    parser.add_argument("--trace", help="folder for traces of two late steps")
    parser.add_argument("--hardware", default="h200", help="for causeway plan; empty: without it")
    parser.add_argument("--rehearse", action="store_true", help="small models on processes of the processor")
    a = parser.parse_args()
    a.steps = a.steps or (50 if a.part == "meshes" else 16)
    host = Host(a)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    try:
        parts[a.part](host)
    finally:
        for process in host.processes:
            end(process)
        shutil.rmtree(host.folder, ignore_errors=True)


if __name__ == "__main__":
    main()
