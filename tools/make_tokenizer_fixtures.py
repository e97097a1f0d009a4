#!/usr/bin/env python3
"""Writes tests/data/gpt2_tokens.jsonl: texts and their GPT-2 token ids by an independent implementation (tiktoken).

    python3 tools/make_tokenizer_fixtures.py tests/fixtures/gpt2_tokenizer > tests/data/gpt2_tokens.jsonl
"""
import json
import sys

import tiktoken
from tiktoken.load import data_gym_to_mergeable_bpe_ranks

from tokenizer_texts import CHOSEN, random_texts

PATTERN = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""

def main():
    folder = sys.argv[1]
    ranks = data_gym_to_mergeable_bpe_ranks(folder + "/vocab.bpe", folder + "/encoder.json")
    encoding = tiktoken.Encoding("gpt2", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 50256})
    for text in CHOSEN + list(random_texts(400)):
        print(json.dumps({"text": text, "ids": encoding.encode_ordinary(text)}))


main()
