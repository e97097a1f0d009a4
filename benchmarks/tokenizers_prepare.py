#!/usr/bin/env python3
"""Text a second of `causeway data prepare` beside a script with the package tokenizers, from one .jsonl.zst.

    python benchmarks/tokenizers_prepare.py build/causeway TOKENIZER TEXT... --gib 1 --threads 2

TOKENIZER is a directory with encoder.json and vocab.bpe (GPT-2's). The documents are made from the sentences of the
texts in random order, one word in twenty made up, so that neither side can live on words that it has seen. Both read
the same file through zstd and write 16-bit ids, each document ended by <|endoftext|>; the ids must be equal. The script
encodes batches of documents with the package's own threads. They take turns; each is measured as a process: its seconds,
and the most memory that it held.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DOCUMENTS_AT_ONCE = 1000


def write_corpus(path, texts, size, seed=1):
    generator = random.Random(seed)
    words = [sentence.split() for text in texts for sentence in Path(text).read_text().split("\n") if sentence.strip()]
    with subprocess.Popen(["zstd", "-q", "-f", "-", "-o", path], stdin=subprocess.PIPE) as packer:
        written = 0
        while written < size:
            document = []
            for _ in range(generator.randrange(2, 40)):
                sentence = list(generator.choice(words))
                for _ in range(len(sentence) // 20 + (generator.random() < len(sentence) % 20 / 20)):
                    sentence[generator.randrange(len(sentence))] = f"{generator.getrandbits(32):x}"
                document.append(" ".join(sentence))
            line = json.dumps({"text": "\n".join(document)}, ensure_ascii=False).encode() + b"\n"
            packer.stdin.write(line)
            written += len(line)
        packer.stdin.close()
    return written


def encode(tokenizer_directory, corpus, output):
    """What a user would write; a process of its own."""
    import numpy
    from tokenizers import ByteLevelBPETokenizer

    directory = Path(tokenizer_directory)
    tokenizer = ByteLevelBPETokenizer(str(directory / "encoder.json"), str(directory / "vocab.bpe"))
    end = [tokenizer.token_to_id("<|endoftext|>")]
    with subprocess.Popen(["zstd", "-dqc", corpus], stdout=subprocess.PIPE) as unpacker, open(output, "wb") as file:
        texts = []

        def flush():
            for encoding in tokenizer.encode_batch(texts):
                file.write(numpy.array(encoding.ids + end, dtype=numpy.uint16).tobytes())
            texts.clear()

        for line in unpacker.stdout:
            texts.append(json.loads(line)["text"])
            if len(texts) == DOCUMENTS_AT_ONCE:
                flush()
        flush()


def run(command, environment=None):
    started = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, **(environment or {})})
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit(f"{command[0]} failed")
    return time.perf_counter() - started, usage.ru_maxrss / 1024


def tokens_of(path):
    import numpy

    if path.is_file():
        return numpy.fromfile(path, dtype=numpy.uint16)
    parts = []
    for shard in sorted(path.glob("train-*.tokens")):
        count = int(numpy.fromfile(shard, dtype=numpy.uint64, count=1, offset=16)[0])
        parts.append(numpy.fromfile(shard, dtype=numpy.uint16, count=count, offset=128))
    return numpy.concatenate(parts)


def main():
    if sys.argv[1:2] == ["--encode"]:
        return encode(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("tokenizer")
    parser.add_argument("texts", nargs="+")
    parser.add_argument("--gib", type=float, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--place", help="a directory for what is written, else a temporary one")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.place) as place:
        corpus, ids, dataset = Path(place) / "corpus.jsonl.zst", Path(place) / "ids.bin", Path(place) / "dataset"
        size = write_corpus(corpus, arguments.texts, int(arguments.gib * 2**30))
        print(f"{size / 2**30:.2f} GiB of JSON Lines, {corpus.stat().st_size / 2**20:.0f} MiB in zstd", flush=True)
        sides = {
            "causeway": [arguments.program, "data", "prepare", corpus, "--output", dataset, "--overwrite"]
            + ["--tokenizer", arguments.tokenizer, "--threads", str(arguments.threads), "--json"],
            "tokenizers": [sys.executable, __file__, "--encode", arguments.tokenizer, corpus, ids],
        }
        results = {name: [] for name in sides}
        for _ in range(arguments.rounds):
            for name, command in sides.items():
                results[name].append(run(list(map(str, command)), {"RAYON_NUM_THREADS": str(arguments.threads)}))
        for name, measured in results.items():
            seconds = sorted(seconds for seconds, _ in measured)
            print(f"{name:<12}{size / 1e6 / statistics.median(seconds):7.1f} MB/s  ({seconds[0]:.1f} to "
                  f"{seconds[-1]:.1f} s), {max(memory for _, memory in measured):.0f} MiB", flush=True)
        same = tokens_of(dataset), tokens_of(ids)
        print(f"{len(same[0])} ids, {'equal' if (same[0] == same[1]).all() else 'DIFFERENT'}"
              if len(same[0]) == len(same[1]) else f"{len(same[0])} and {len(same[1])} ids: DIFFERENT")
    return 0


if __name__ == "__main__":
    sys.exit(main())
