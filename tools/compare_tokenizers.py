#!/usr/bin/env python3
"""Compares Causeway's tokenizers with the package `tokenizers`: ids and speed.

    python3 tools/compare_tokenizers.py build/causeway tests/fixtures/tokenizer_json [--strings 100000] [--speed TEXT]

Every tokenizer.json below the directory encodes the same seeded random strings (all of Unicode and structured
mixtures) and texts in ten scripts with both; the strings that differ are counted, and the first ones shown. With
--speed, both encode TEXT on one core each, one after the other, five times; the best times are compared.
"""
import argparse
import json
import os
import pathlib
import random
import subprocess
import tempfile
import time

from tokenizer_texts import CHOSEN, TEN_SCRIPTS, random_texts


def strings(count):
    yield from CHOSEN + TEN_SCRIPTS
    yield from random_texts(count // 2)
    generator = random.Random(7)
    assigned = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    for _ in range(count - count // 2 - count // 8):
        kind = generator.randrange(3)
        text = ""
        for _ in range(generator.randrange(1, 24)):
            if kind == 0:
                text += chr(generator.choice(assigned))
            elif kind == 1:
                text += chr(generator.choice(assigned[:0x3000]))
            else:
                script = generator.choice(TEN_SCRIPTS)
                text += generator.choice([generator.choice(script), " ", generator.choice(script) + "\u0301", "\n", "'ll"])
        yield text


def encode(program, folder, texts):
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    run = subprocess.run([*program, "tokenizer", "encode", str(folder), "--format", "jsonl", "--json"], input=lines,
                         capture_output=True, text=True, check=True)
    return [json.loads(line)["ids"] for line in run.stdout.splitlines()]


def compare(program, folder, texts):
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.encode_special_tokens = True
    expected = [one.ids for one in tokenizer.encode_batch(texts, add_special_tokens=False)]
    found = encode(program, folder, texts)
    different = [i for i in range(len(texts)) if i >= len(found) or found[i] != expected[i]]
    print(f"{folder.name:<16}{len(texts)} strings, {sum(map(len, expected))} tokens, {len(different)} different",
          flush=True)
    for i in different[:5]:
        print(f"    {texts[i]!r}\n      {expected[i]}\n      {found[i] if i < len(found) else None}")


def speed(program, folder, path):
    from tokenizers import Tokenizer
    text = pathlib.Path(path).read_text(encoding="utf-8")
    parts = [text[i:i + 10000] for i in range(0, len(text), 10000)]
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    theirs = ours = float("inf")
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as empty, tempfile.NamedTemporaryFile("w") as full:
        empty.write("")
        full.write("".join(json.dumps({"text": part}) + "\n" for part in parts * 10))
        full.flush()

        def seconds(file):
            start = time.perf_counter()
            with open(file.name) as lines:
                subprocess.run([*program, "tokenizer", "encode", str(folder), "--format", "jsonl"], stdin=lines,
                               stdout=subprocess.DEVNULL, check=True)
            return time.perf_counter() - start

        for _ in range(5):
            start = time.perf_counter()
            tokens = sum(len(tokenizer.encode(part, add_special_tokens=False).ids) for part in parts)
            theirs = min(theirs, time.perf_counter() - start)
            ours = min(ours, (seconds(full) - seconds(empty)) / 10)
    print(f"{folder.name:<16}{tokens / ours / 1e6:.2f} million tokens/s, tokenizers {tokens / theirs / 1e6:.2f}: "
          f"{theirs / ours:.2f} times as fast", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--strings", type=int, default=100_000)
    parser.add_argument("--speed")
    arguments = parser.parse_args()
    program = arguments.program.split()
    folders = sorted(path.parent for path in arguments.folder.glob("*/tokenizer.json"))
    if arguments.speed:
        os.environ["RAYON_NUM_THREADS"] = "1"
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[0]})
        for folder in folders:
            speed(program, folder, arguments.speed)
        return
    texts = list(strings(arguments.strings))
    for folder in folders:
        compare(program, folder, texts)


main()
