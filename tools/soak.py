#!/usr/bin/env python3
"""Soak: one small training run that is killed, starved of disk, lied to about the time and attacked by second writers.

    tools/soak.py build/causeway --kills 1000 --jobs 4

A run with a checkpoint after every step is started again and again with --resume auto and ended by SIGKILL at random
instants: while it starts, restores, trains or saves. Some starts have a fault besides:
  full     the disk is full (a tmpfs of a few MiB where this may mount one, else a limit on the size of files)
  clock    the wall clock jumps by days to and fro with every look at it (a preloaded library, compiled here)
  writer   a second `train --resume auto` on the same run directory: it must be refused, by a sentence with the owner
  signal   SIGTERM, SIGHUP or SIGINT instead of SIGKILL: it must save and end with status 4
After every end: no step that was seen committed is lost (the newest checkpoint is at least as new), and every byte of
the newest checkpoint agrees with its hashes. At the end the run is compared with one of as many steps that nothing
disturbed: the tensors must be equal, bit for bit. Exits with 1 at the first violation, and leaves the directory.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

RECIPE = """\
name: soak
model: {family: llama, vocabulary_size: 256, layers: 2, width: 32, heads: 2, ffn_width: 64, max_sequence_length: 32}
data: {path: data, sequence_length: 32}
schedule: {kind: constant}
train: {steps: 100000000, batch_size: 2}
checkpoint: {interval: 1, keep: 3}
log: {tensorboard: false}
"""

CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>
static long jump(void) {
  static unsigned looks = 0;
  const unsigned n = __atomic_fetch_add(&looks, 1, __ATOMIC_RELAXED);
  return n % 2 ? -86400L * (long)(n % 40) : 86400L * (long)(n % 40);
}
int clock_gettime(clockid_t id, struct timespec* t) {
  static int (*real)(clockid_t, struct timespec*);
  if (!real) real = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  const int result = real(id, t);
  if (id == CLOCK_REALTIME) t->tv_sec += jump();
  return result;
}
int gettimeofday(struct timeval* t, void* zone) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  t->tv_sec = now.tv_sec;
  t->tv_usec = now.tv_nsec / 1000;
  return 0;
}
time_t time(time_t* t) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (t) *t = now.tv_sec;
  return now.tv_sec;
}
"""

DISK_BYTES = 8 << 20


class Violation(Exception):
    pass


def require(condition, what):
    if not condition:
        raise Violation(what)


class Soak:
    def __init__(self, program, directory, seed, on_tmpfs, synchronous):
        self.program = str(pathlib.Path(program).resolve())
        self.directory = directory
        self.run_directory = directory / "disk" / "soak"
        self.random = random.Random(seed)
        self.on_tmpfs = on_tmpfs
        self.synchronous = synchronous
        self.counts = collections.Counter()
        self.seen = 0  # the newest step seen committed
        self.start_seconds = 1.0  # until the first commit of a start, by and by
        self.environment = dict(os.environ, XDG_CACHE_HOME=str(directory / "cache"))
        self.processor = self.random.choice(sorted(os.sched_getaffinity(0)))
        self.clock = self.make_clock()

    def make_clock(self):
        source, library = self.directory / "clock.c", self.directory / "clock.so"
        source.write_text(CLOCK)
        for compiler in ("cc", "clang", "clang-22", "gcc"):
            if shutil.which(compiler):
                subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
                return library
        return None

    def call(self, *arguments):
        return subprocess.run([self.program, *arguments], cwd=self.directory, env=self.environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def prepare(self):
        (self.directory / "soak.yaml").write_text(RECIPE + f"run_directory: {self.run_directory}\n")
        text = "".join(self.random.choice(["the ", "river ", "runs ", "under ", "a ", "bridge.\n"]) for _ in range(5000))
        (self.directory / "text.txt").write_text(text)
        outcome = self.call("data", "prepare", "text.txt", "--output", "data")
        require(outcome.returncode == 0, outcome.stderr)
        # Kernels are compiled before the first kill.
        outcome = self.call("train", "soak.yaml", f"run_directory={self.directory / 'warm'}", "train.steps=1", "--quiet")
        require(outcome.returncode == 0, outcome.stderr)

    def train(self, *more, fault=None):
        environment = dict(self.environment)
        limit = None
        if fault == "clock" and self.clock:
            environment["LD_PRELOAD"] = str(self.clock)
        if fault == "full" and not self.on_tmpfs:
            limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))

        def before():
            os.sched_setaffinity(0, {self.processor})
            for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            if limit:
                limit()

        errors = open(self.directory / "stderr", "w")
        return subprocess.Popen([self.program, "train", "soak.yaml", "--resume", "auto", "--quiet",
                                 f"checkpoint.asynchronous={'false' if self.synchronous else 'true'}", *more],
                                cwd=self.directory, env=environment, stdout=subprocess.DEVNULL, stderr=errors,
                                preexec_fn=before)

    def committed(self):
        try:
            names = os.listdir(self.run_directory / "checkpoints")
        except FileNotFoundError:
            return 0
        return max([int(name[5:]) for name in names if name.startswith("step-")], default=0)

    # Until `count` more commits were seen, or the process ended, or it took too long.
    def watch(self, process, count, seconds=60):
        before, deadline = self.committed(), time.monotonic() + seconds
        while time.monotonic() < deadline and process.poll() is None:
            now = self.committed()
            self.seen = max(self.seen, now)
            if now >= before + count:
                return True
            time.sleep(0.001)
        return False

    def fill_disk(self):
        ballast = self.directory / "disk" / "ballast"
        room = self.random.randrange(0, 3_000_000)
        free = os.statvfs(ballast.parent)
        size = max(0, free.f_bavail * free.f_frsize - room)
        with open(ballast, "wb") as file:
            try:
                file.write(b"x" * size)
            except OSError:
                pass
        return ballast

    def round(self):
        fault = self.random.choices(["none", "full", "clock", "writer", "signal"], [60, 12, 10, 10, 8])[0]
        ballast = self.fill_disk() if fault == "full" and self.on_tmpfs else None
        started = time.monotonic()
        process = self.train(fault=fault)
        ending = signal.SIGKILL
        if fault == "signal":
            ending = self.random.choice([signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
            self.watch(process, 1)
        elif fault == "writer":
            if self.watch(process, 1):
                self.second_writer(process)
        elif fault != "full" and self.random.random() < 0.6:
            if self.watch(process, 1):
                self.start_seconds = 0.9 * self.start_seconds + 0.1 * (time.monotonic() - started)
            self.watch(process, self.random.randrange(0, 6))
            time.sleep(self.random.uniform(0, 0.02))
        else:
            time.sleep(self.random.uniform(0, 1.3 * self.start_seconds))
        self.seen = max(self.seen, self.committed())
        alive = process.poll() is None
        if alive:
            process.send_signal(ending)
        status = process.wait(timeout=120)
        if ballast:
            ballast.unlink()
        errors = (self.directory / "stderr").read_text()
        if ending != signal.SIGKILL:
            require(not alive or status == 4, f"status {status} after {ending.name}: {errors}")
            self.seen = max(self.seen, self.committed())
        elif fault == "full":
            self.counts["saves refused by a full disk"] += errors.count("was not saved")
            # A start may not even be able to write recipe.yaml; it must say so, and not die otherwise.
            require(status in (-signal.SIGKILL, 1), f"status {status} on a full disk: {errors}")
        else:
            require(alive and status == -signal.SIGKILL, f"the run ended by itself with {status}: {errors}")
        if ending == signal.SIGKILL and alive:
            self.counts["kills"] += 1
        self.counts[fault if fault != "signal" else ending.name] += 1
        self.check(fault)

    def second_writer(self, owner):
        other = self.call("train", "soak.yaml", "--resume", "auto", "--quiet")
        require(other.returncode == 1 and f"another run owns this run directory: process {owner.pid} on" in other.stderr,
                f"a second writer ended with {other.returncode}: {other.stderr}")
        require(owner.poll() is None, "the owner ended when a second writer came")

    def check(self, fault):
        newest = self.committed()
        require(newest >= self.seen, f"step {self.seen} was committed, and the newest is {newest} ({fault})")
        self.seen = newest
        if newest == 0:
            return
        directory = self.run_directory / "checkpoints" / f"step-{newest:08}"
        verified = self.call("checkpoint", "verify", str(directory))
        require(verified.returncode == 0, f"{directory} is damaged after {fault}: {verified.stdout}{verified.stderr}")

    def compare(self):
        steps = self.seen + 5
        process = self.train(f"train.steps={steps}")
        require(process.wait(timeout=600) == 0, (self.directory / "stderr").read_text())
        reference = self.directory / "reference"
        outcome = self.call("train", "soak.yaml", f"run_directory={reference}", "checkpoint.interval=0",
                            f"train.steps={steps}", "--quiet")
        require(outcome.returncode == 0, outcome.stderr)
        name = f"checkpoints/step-{steps:08}"
        files = sorted(path.name for path in (reference / name).glob("*.safetensors"))
        require(files, "the reference has no tensors")
        for file in files:
            require((reference / name / file).read_bytes() == (self.run_directory / name / file).read_bytes(),
                    f"{file} of step {steps} differs from the undisturbed run's")
        losses = [{record["step"]: record["loss"] for record in map(json.loads, open(path / "metrics.jsonl"))
                   if "loss" in record} for path in (reference, self.run_directory)]
        require(losses[1].keys() <= losses[0].keys(), "metrics.jsonl has steps that were never taken")
        require(all(losses[0][step] == loss for step, loss in losses[1].items()),
                "losses in metrics.jsonl differ from the undisturbed run's")
        # A full disk may have cost records, and nothing else may.
        missing = len(losses[0]) - len(losses[1])
        require(missing == 0 or self.counts["full"] > 0, f"metrics.jsonl lacks {missing} steps")
        self.counts["records lost to a full disk"] = missing
        return steps


def options_of_command_line():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the built causeway")
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=1, help="runs beside each other, which share the kills")
    parser.add_argument("--minutes", type=float, default=0, help="stop after so long, 0: never")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--synchronous", action="store_true", help="checkpoints that training waits for")
    parser.add_argument("--directory", help=argparse.SUPPRESS)  # of one job
    return parser.parse_args()


# One run in a directory of its own; prints what it counted as JSON.
def soak_one(options):
    directory = pathlib.Path(options.directory)
    (directory / "disk").mkdir(parents=True)
    on_tmpfs = os.geteuid() == 0 and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "causeway-soak", directory / "disk"]).returncode == 0
    soak = Soak(options.program, directory, options.seed, on_tmpfs, options.synchronous)
    started = time.monotonic()
    try:
        soak.prepare()
        while soak.counts["kills"] < options.kills:
            if options.minutes and time.monotonic() - started > 60 * options.minutes:
                break
            soak.round()
        soak.counts["steps"] = soak.compare()
    except Violation as violation:
        print(f"violation after {dict(soak.counts)}: {violation}\nThe directory is {directory}", file=sys.stderr)
        return 1
    print(json.dumps(soak.counts))
    return 0


def main():
    options = options_of_command_line()
    if options.directory:
        return soak_one(options)
    directory = pathlib.Path(tempfile.mkdtemp(prefix="causeway-soak-"))
    started = time.monotonic()
    jobs = []
    for i in range(options.jobs):
        command = [sys.executable, __file__, options.program, "--directory", str(directory / f"job{i}"), "--kills",
                   str(-(-options.kills // options.jobs)), "--minutes", str(options.minutes), "--seed",
                   str(options.seed + i), *(["--synchronous"] if options.synchronous else [])]
        # A mount namespace of its own, so that a job's small disk goes with it.
        if os.geteuid() == 0 and shutil.which("unshare"):
            command = ["unshare", "-m", *command]
        jobs.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    counts = collections.Counter()
    failed = False
    for job in jobs:
        output = job.communicate()[0]
        failed |= job.returncode != 0
        if job.returncode == 0:
            counts.update(json.loads(output))
    print(f"{counts['kills']} kills in {(time.monotonic() - started) / 60:.0f} minutes, {options.jobs} runs")
    for name, count in sorted(counts.items()):
        print(f"  {name:<32}{count:>7}")
    if failed:
        return 1
    print("nothing committed was lost; weights, moments and losses equal the undisturbed runs', bit for bit")
    shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
