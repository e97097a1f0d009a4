#!/usr/bin/env python3
"""Compares what `causeway data prepare --chat` makes of random conversations with Hugging Face transformers, id by id and
target by target, for every tokenizer of tests/fixtures/tokenizer_json; and 50 losses of `causeway train` on conversations
with TRL's SFTTrainer in f32.

    tools/compare_chat_data.py build/causeway
"""

import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

import numpy
import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHATS = 200
TEMPLATE = """{%- for m in messages %}{{ '<|' + m['role'] + '|>\\n' }}{% if m['role'] == 'assistant' %}{% generation %}\
{{ m['content'] }}{{ '<|end|>' }}{% endgeneration %}{% else %}{{ m['content'] + '<|end|>' }}{% endif %}{{ '\\n' }}\
{% endfor %}"""
WORDS = ["the", "quick", "Brown", "fox's", "12345", "cafe\u0301", "na\u00efve", "\u4f60\u597d", "\u4e16\u754c",
         "\U0001F600", "don't", "\u2581x", "\n\n", "  tab\t", "end.", "\u0130stanbul", "\u1e9e", "\ud55c\uae00",
         "\u1112\u1161\u11ab", "\u0e01\u0e33", "e\u0301\u0323", ""]


def documents_of(path):
    """Ids and targets of a shard (causeway/formats/token_shard.h)."""
    data = path.read_bytes()
    _, version, width, tokens, documents = struct.unpack_from("<8sIIQQ", data, 0)
    assert version == 2
    ids = numpy.frombuffer(data, {1: numpy.uint8, 2: numpy.uint16, 4: numpy.uint32}[width], tokens, 128)
    at = 128 + (tokens * width + 7) // 8 * 8
    targets = numpy.frombuffer(data, numpy.uint8, tokens, at)
    starts = numpy.frombuffer(data, numpy.uint64, documents, at + (tokens + 7) // 8 * 8).tolist() + [tokens]
    return [(ids[a:b].tolist(), targets[a:b].tolist()) for a, b in zip(starts, starts[1:])]


def run(*arguments):
    result = subprocess.run([str(a) for a in arguments], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(result.stderr)


def compare_tokens(causeway, work):
    rng = random.Random(3)
    text = lambda most: " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, most)))
    chats = [[m for _ in range(rng.randint(1, 3)) for m in
              ({"role": "user", "content": text(12)}, {"role": "assistant", "content": text(15)})] for _ in range(CHATS)]
    (work / "chats.jsonl").write_text("".join(json.dumps({"messages": chat}) + "\n" for chat in chats))
    (work / "template.jinja").write_text(TEMPLATE)
    for directory in sorted((ROOT / "tests/fixtures/tokenizer_json").iterdir()):
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(directory / "tokenizer.json"))
        run(causeway, "data", "prepare", work / "chats.jsonl", "--chat", "--chat-template", work / "template.jinja",
            "--tokenizer", directory, "-o", work / "data", "--overwrite")
        ids = masks = 0
        for chat, (own_ids, own_targets) in zip(chats, documents_of(work / "data/train-00000.tokens"), strict=True):
            want = tokenizer.apply_chat_template(chat, chat_template=TEMPLATE, return_dict=True,
                                                 return_assistant_tokens_mask=True)
            ids += own_ids != list(want["input_ids"])
            masks += own_targets != list(want["assistant_masks"])
        print(f"{directory.name:<16}{CHATS} conversations: {ids} with other ids, {masks} with other targets")


def compare_losses(causeway, work):
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    fixtures = ROOT / "tests/fixtures/chat"
    chats = [json.loads(line).get("messages") for line in (fixtures / "chats.jsonl").read_text().splitlines()]
    chats = [[{"role": m["role"], "content": m["content"] if isinstance(m["content"], str) else
               "".join(p["text"] for p in m["content"])} for m in chat]
             for chat in chats if chat and not any("weight" in m for m in chat)]
    (work / "sft.jsonl").write_text("".join(json.dumps({"messages": chat}) + "\n" for chat in chats))
    losses = []

    class Recorder(SFTTrainer):
        def compute_loss(self, *arguments, **named):
            result = super().compute_loss(*arguments, **named)
            losses.append((result[0] if isinstance(result, tuple) else result).item())
            return result

    tokenizer = transformers.AutoTokenizer.from_pretrained(fixtures)
    tokenizer.pad_token = "<|endoftext|>"
    model = transformers.AutoModelForCausalLM.from_pretrained(fixtures, dtype=torch.float32, attn_implementation="eager")
    Recorder(model=model, processing_class=tokenizer, train_dataset=Dataset.from_list([{"messages": c} for c in chats]),
             args=SFTConfig(output_dir=str(work / "trl"), max_steps=50, per_device_train_batch_size=len(chats),
                            learning_rate=1e-3, lr_scheduler_type="constant", weight_decay=0.1, adam_beta1=0.9,
                            adam_beta2=0.95, adam_epsilon=1e-8, max_grad_norm=1.0, assistant_only_loss=True,
                            report_to=[], save_strategy="no", bf16=False, fp16=False, gradient_checkpointing=False,
                            use_cpu=True, max_length=256, loss_type="nll")).train()
    run(causeway, "data", "prepare", work / "sft.jsonl", "--chat", "--tokenizer", fixtures, "-o", work / "sft")
    (work / "run.yaml").write_text(f"""
name: sft
run_directory: {work}/run
model: {{from: {fixtures}}}
data: {{path: {work}/sft, sequence_length: 128, packing: documents}}
optimizer: {{learning_rate: 1e-3, weight_decay: 0.1, beta1: 0.9, beta2: 0.95, epsilon: 1e-8, gradient_clip: 1.0}}
schedule: {{kind: constant, warmup_steps: 0}}
train: {{steps: 50, batch_size: 3, precision: f32}}
log: {{interval: 1}}
""")
    run(causeway, "train", work / "run.yaml")
    records = [json.loads(line) for line in (work / "run/metrics.jsonl").read_text().splitlines()]
    own = [record["loss"] for record in records if "loss" in record]
    difference = max(abs(a - b) for a, b in zip(own, losses, strict=True))
    print(f"{len(own)} losses, {own[0]:.4f} to {own[-1]:.4f}: at most {difference:.2g} from TRL's")


def main():
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    causeway = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as directory:
        compare_tokens(causeway, pathlib.Path(directory))
        compare_losses(causeway, pathlib.Path(directory))


main()
