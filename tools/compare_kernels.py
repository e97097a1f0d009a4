#!/usr/bin/env python3
"""Records the machine code of kernels that the program writes, and compares two records, kernel by kernel.

  compare_kernels.py record PROGRAM DIRECTORY [--recipe NAME ...] [--device NAME ...] [--override KEY=VALUE ...] [--images DIRECTORY]
  compare_kernels.py compare BEFORE AFTER [--show N]

`record` asks `PROGRAM explain RECIPE device=DEVICE --assembly` for every recipe that the program brings along and every
architecture that it compiles for, and keeps each kernel's PTX or GCN after comments are cut and names that are no
instructions' (functions, variables, parameters) are numbered in the order in which they come. With --images it also
takes PTX files and AMD code objects that another program wrote, as tests/codegen/listing/benchmark_kernels.cpp does.
`compare` lists kernels that differ and ends with 1 if there are any.
"""
import argparse
import difflib
import hashlib
import json
import pathlib
import re
import struct
import subprocess
import sys

DEVICES = ["cuda:sm_80", "cuda:sm_90a", "hip:gfx90a", "hip:gfx942"]
NAME = re.compile(r"_Z\w+|\bkernel\w*|\bcauseway_\w+|\b__const\w+|\b\w*\.str[.\w]*|\b__cuda_local_\w+")


def normalized(text):
    """Assembly without comments, its names numbered."""
    numbers = {}
    lines = []
    for line in text.splitlines():
        line = re.sub(r"\s*(//|;).*", "", line) if not line.lstrip().startswith(".ascii") else line
        if re.match(r"\s*\.(ident|file|loc|name:|addrsig|symbol:)", line) or re.match(r"\s*-?\s*\.(name|symbol):", line):
            continue
        line = NAME.sub(lambda name: numbers.setdefault(name.group(), f"name{len(numbers)}"), line)
        line = " ".join(line.split())
        if line:
            lines.append(line)
    return "\n".join(lines) + "\n"


def sections(image):
    """.text and .rodata of an AMD code object: machine code and kernel descriptors, as hexadecimal lines."""
    offset, = struct.unpack_from("<Q", image, 40)
    size, count, names = struct.unpack_from("<HHH", image, 58)
    headers = [struct.unpack_from("<IIQQQQ", image, offset + i * size) for i in range(count)]
    strings = headers[names][4]
    result = ""
    for name, _, _, _, begin, length in headers:
        label = image[strings + name:image.index(b"\0", strings + name)].decode()
        if label in (".text", ".rodata"):
            data = image[begin:begin + length]
            result += "\n".join(data[i:i + 8].hex() for i in range(0, len(data), 8)) + "\n"
    return result


class Record:
    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        (self.directory / "kernels").mkdir(parents=True, exist_ok=True)
        self.cases = {}

    def add(self, case, text):
        key = hashlib.sha256(text.encode()).hexdigest()[:20]
        (self.directory / "kernels" / key).write_text(text)
        self.cases.setdefault(case, []).append(key)

    def write(self):
        (self.directory / "cases.json").write_text(json.dumps(self.cases, indent=1))


def record(options):
    result = Record(options.directory)
    recipes = options.recipe or [path.stem for path in sorted((pathlib.Path(__file__).parent.parent / "recipes").glob("*.yaml"))]
    for recipe in recipes:
        for device in options.device or DEVICES:
            case = f"{recipe} {device}"
            run = subprocess.run([options.program, "explain", recipe, f"device={device}", *(options.override or []), "--assembly"],
                                 capture_output=True, text=True, check=False)
            if run.returncode != 0:
                sys.exit(f"{case}: {run.stderr.strip()}")
            parts = re.split(r"^--- kernel \d+ ---$", run.stdout, flags=re.M)[1:]
            if not parts:
                sys.exit(f"{case}: `explain` printed no kernel")
            parts[-1] = parts[-1].split("\nmemory, to the byte")[0]
            for part in parts:
                result.add(case, normalized(part))
            print(f"{case}: {len(parts)} kernels", flush=True)
    if options.images:
        for path in sorted(pathlib.Path(options.images).rglob("*.image")):
            image = path.read_bytes()
            text = sections(image) if image.startswith(b"\x7fELF") else normalized(image.decode())
            result.add(str(path.relative_to(options.images).parent), text)
    result.write()


def compare(options):
    before, after = (pathlib.Path(path) for path in (options.before, options.after))
    old, new = (json.loads((path / "cases.json").read_text()) for path in (before, after))
    equal = different = 0
    shown = set()
    for case in sorted(set(old) | set(new)):
        if case not in old or case not in new:
            if not options.common:
                print(f"{case}: only in {options.after if case in new else options.before}")
                different += 1
            continue
        # The order of a program's distinct kernels may differ: what counts is which there are.
        gone, come = list(old[case]), []
        for key in new[case]:
            if key in gone:
                gone.remove(key)
                equal += 1
            else:
                come.append(key)
        if not gone and not come:
            continue
        different += max(len(gone), len(come))
        print(f"{case}: {len(gone)} of {len(old[case])} kernels went, {len(come)} came: {' '.join(gone)} -> {' '.join(come)}")
        for one, other in zip(gone, come):
            if len(shown) < options.show and (one, other) not in shown:
                shown.add((one, other))
                lines = difflib.unified_diff((before / "kernels" / one).read_text().splitlines(),
                                             (after / "kernels" / other).read_text().splitlines(), one, other, "", "", 1, "")
                print("\n".join("    " + line for _, line in zip(range(60), lines)))
    print(f"{equal} kernels are equal, {different} are not")
    return 1 if different or not equal else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    recording = commands.add_parser("record")
    recording.add_argument("program")
    recording.add_argument("directory")
    recording.add_argument("--recipe", action="append")
    recording.add_argument("--device", action="append")
    recording.add_argument("--override", action="append", help="a recipe's key, as model.layers=2; may be given again")
    recording.add_argument("--images")
    recording.set_defaults(run=record)
    comparing = commands.add_parser("compare")
    comparing.add_argument("before")
    comparing.add_argument("after")
    comparing.add_argument("--show", type=int, default=0)
    comparing.add_argument("--common", action="store_true", help="leave out cases that one record has alone")
    comparing.set_defaults(run=compare)
    options = parser.parse_args()
    sys.exit(options.run(options))


if __name__ == "__main__":
    main()
