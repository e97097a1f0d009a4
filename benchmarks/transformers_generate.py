#!/usr/bin/env python3
"""Tokens a second of `causeway generate` beside Hugging Face transformers' generate, of one directory on one device.

    python benchmarks/transformers_generate.py build/causeway DIRECTORY --sequences 1,16

Greedy, in f32 as both read the directory, from prompts of --prompt tokens. A rate is the difference of two numbers of
tokens over the difference of their times, so that starting, reading and the prompt do not count; the programs take
turns, and the medians of --rounds are printed with the least and the most. In its turn each runs once before it is
timed: a virtual machine may have given memory back to its host that has not been used for some seconds, and then a
program that starts has it anew, in smaller pages, for all of its run.

`--peer-only bf16` is for figures beside those of `causeway bench generate`, whose weights are random and which computes in
bf16 on GPUs: transformers alone, in bf16, the way `--cache` says (static ones are compiled). The program's name is not
looked at then.
"""

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

SHORT, LONG = 32, 160


def causeway_seconds(program, directory, device, sequences, prompt, tokens):
    # Bytes are tokens: what is measured does not depend on what the tokens mean.
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "prompts.txt"
        file.write_text("".join("a" * prompt + "\n" for _ in range(sequences)))
        started = time.perf_counter()
        said = subprocess.run(
            [program, "generate", directory, "--tokenizer", "bytes", "--prompts", file, "--tokens", str(tokens)]
            + ["--temperature", "0", "--batch-size", str(sequences), "--device", device],
            check=True, capture_output=True, text=True,
        ).stdout
        seconds = time.perf_counter() - started
    assert all(len(json.loads(line)["tokens"]) == tokens for line in said.splitlines())
    return seconds


def peer_seconds(model, sequences, prompt, tokens, cache):
    ids = torch.full((sequences, prompt), ord("a"), device=model.device)
    started = time.perf_counter()
    result = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, min_new_tokens=tokens,
                            do_sample=False, pad_token_id=0, cache_implementation=cache)
    assert result.shape[1] == prompt + tokens
    if model.device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("directory")
    parser.add_argument("--sequences", default="1,16")
    parser.add_argument("--prompt", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--peer-only", choices=["f32", "bf16"])
    parser.add_argument("--cache", default="dynamic", choices=["dynamic", "static"])
    arguments = parser.parse_args()
    dtype = torch.bfloat16 if arguments.peer_only == "bf16" else torch.float32
    cache = "static" if arguments.cache == "static" else None
    model = AutoModelForCausalLM.from_pretrained(arguments.directory, dtype=dtype).to(arguments.device).eval()
    print(f"transformers on torch {torch.__version__}, {torch.get_num_threads()} threads")
    for sequences in (int(text) for text in arguments.sequences.split(",")):
        ways = {
            "causeway": lambda tokens, n=sequences: causeway_seconds(
                arguments.program, arguments.directory, arguments.device, n, arguments.prompt, tokens),
            "transformers": lambda tokens, n=sequences: peer_seconds(model, n, arguments.prompt, tokens, cache),
        }
        if arguments.peer_only:
            del ways["causeway"]
        for seconds in ways.values():  # kernels are compiled and kept
            for tokens in (SHORT, LONG):
                seconds(tokens)
        rates = {name: [] for name in ways}
        for _ in range(arguments.rounds):
            for name, seconds in ways.items():
                seconds(SHORT)
                rates[name].append(sequences * (LONG - SHORT) / (seconds(LONG) - seconds(SHORT)))
        for name, all_rates in rates.items():
            print(f"{sequences:3} sequences  {name:12} {statistics.median(all_rates):8.1f} tokens/s "
                  f"({min(all_rates):.1f} to {max(all_rates):.1f})")
        if arguments.peer_only:
            continue
        ratio = statistics.median(rates["causeway"]) / statistics.median(rates["transformers"])
        print(f"{sequences:3} sequences  ratio        {ratio:8.2f}")


if __name__ == "__main__":
    main()
