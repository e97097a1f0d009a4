#!/usr/bin/env python3
"""Writes tests/fixtures/mds/: small datasets of MosaicML's streaming format, made by its own package, and what it reads
in them.

    pip install mosaicml-streaming
    python3 tools/make_mds_fixtures.py tests/fixtures/mds

NAME/ is a dataset; NAME.jsonl has a line for each sample, as the package decodes it: the text, and the tokens as a list.
"""
import json
import pathlib
import shutil
import sys

import numpy as np
from streaming import LocalDataset, MDSWriter

WORDS = ["the", "river", "naïve", "你好", "walked", "\n\n", "\"quoted\"", "🎈", "1984"]


def text(generator, sample):
    return " ".join(generator.choice(WORDS) for _ in range(sample % 17)) + f" {sample}."


def tokens(generator, sample, dtype):
    return generator.integers(0, 250, size=1 + sample % 7).astype(dtype)


DATASETS = {
    # name: (columns, compression, hashes)
    "text": ({"text": "str", "id": "int", "score": "float32"}, None, ["sha1", "xxh64"]),
    "zstd": ({"text": "str", "length": "uint16"}, "zstd:7", ["xxh128", "xxh32", "xxh3_64"]),
    "json": ({"text": "json", "tokens": "ndarray"}, None, ["md5"]),
    "mixed": ({"blob": "pkl", "meta": "json", "text": "bytes", "tokens": "ndarray:int32", "u8": "uint8"}, None, None),
    "tokens": ({"tokens": "ndarray:uint16"}, None, ["xxh64"]),
    "blocks": ({"tokens": "ndarray:int32:8"}, None, ["xxh64"]),
}


def sample_of(columns, generator, number):
    own = text(generator, number)
    values = {
        "id": number - 3, "score": number / 3, "length": len(own), "blob": {"number": number}, "u8": number % 256,
        "meta": {"source": ["a", None, number]},
        "text": own.encode() if columns.get("text") == "bytes" else own,
    }
    parts = columns.get("tokens", "ndarray:int64").split(":")
    dtype = parts[1] if len(parts) > 1 else "int64"
    values["tokens"] = generator.integers(0, 250, size=8).astype(dtype) if len(parts) > 2 else tokens(
        generator, number, dtype)
    return {name: values[name] for name in columns}


def main():
    out = pathlib.Path(sys.argv[1])
    for seed, (name, (columns, compression, hashes)) in enumerate(DATASETS.items()):
        generator = np.random.default_rng(seed)
        directory = out / name
        shutil.rmtree(directory, ignore_errors=True)
        with MDSWriter(out=str(directory), columns=columns, compression=compression, hashes=hashes,
                       size_limit=2000) as writer:
            for number in range(40):
                writer.write(sample_of(columns, generator, number))
        if compression:
            copy = out / (name + ".reading")
            shutil.copytree(directory, copy)
            # What it reads, it decompresses beside the shards.
            from streaming.base.compression import decompress
            for shard in copy.glob("*.mds.*"):
                shard.with_suffix("").write_bytes(decompress(compression, shard.read_bytes()))
        read = LocalDataset(local=str(copy if compression else directory))
        with open(out / f"{name}.jsonl", "w") as lines:
            for number in range(len(read)):
                sample = read[number]
                line = {}
                if "text" in sample:
                    line["text"] = sample["text"].decode() if isinstance(sample["text"], bytes) else sample["text"]
                if "tokens" in sample:
                    line["tokens"] = sample["tokens"].tolist()
                lines.write(json.dumps(line, ensure_ascii=False) + "\n")
        if compression:
            shutil.rmtree(copy)


if __name__ == "__main__":
    main()
