#!/usr/bin/env python3
"""Hugging Face directories in and out, against transformers and PyTorch on the same machine.

    python tools/compare_with_transformers.py build/causeway [--steps 50] [--keep DIRECTORY] [NAME ...]

For a tiny random GPT-2, Gemma 2, OLMo 2, Qwen 2, Qwen 3, Mixtral, OLMoE, Qwen 2 MoE, Qwen 3 MoE and Llama, the latter
saved whole, in shards, in bfloat16, with tied embeddings and with Llama 3's stretched wavelengths: transformers writes the directory (save_pretrained); `causeway
train` with model.from and PyTorch fine-tune it, both in float32 on the processor, on the same windows (a step takes all
there are, so that their order does not matter) with AdamW, decay on matrices alone and gradients clipped to 1;
`causeway export` writes the result, and transformers loads it. Compared are

  losses      of every step, by their largest difference
  probe       the logits of causeway_probe.json, computed by Causeway, with those of transformers on the exported files
  trained     all logits of the exported model with those of the model that PyTorch trained
  bf16        the weights of a bfloat16 export with those of the float32 export rounded by PyTorch: how many differ

AdamW divides by the root of the second moment, which makes as large a step of a gradient that is rounding and nothing
else; its epsilon is 1e-6 here, so that such gradients stay small, and `trained` tells what they come to all the same.

Exits with 1 where losses or the probe differ by more than 1e-4, or a weight in bfloat16 does. Needs torch, numpy,
transformers, safetensors.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    Olmo2Config,
    Olmo2ForCausalLM,
    OlmoeConfig,
    OlmoeForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen2MoeConfig,
    Qwen2MoeForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

SEQUENCE = 64
WINDOWS = 8  # below 16 an epoch is cut where the text begins
VOCABULARY = 256
LEARNING_RATE = 1e-3
EPSILON = 1e-6
LARGEST_DIFFERENCE = 1e-4
# PyTorch's fused attention has no cap of the scores.
EAGER = dict(attn_implementation="eager")

LLAMA = dict(
    vocab_size=VOCABULARY,
    hidden_size=64,
    intermediate_size=160,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=128,
)

# The row of a padding token would get no gradient from where it is looked up.
OLMOE = dict(num_experts=8, num_experts_per_tok=3, pad_token_id=None, eos_token_id=0, **LLAMA)
QWEN_MOE = dict(moe_intermediate_size=40, **LLAMA)

# name -> (model class, configuration, how it is saved, type of the saved weights)
MODELS = {
    "gpt2": (
        GPT2LMHeadModel,
        lambda: GPT2Config(
            vocab_size=VOCABULARY,
            n_positions=128,
            n_embd=64,
            n_layer=3,
            n_head=4,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=0,
            eos_token_id=0,
        ),
        {},
        torch.float32,
    ),
    "llama": (LlamaForCausalLM, lambda: LlamaConfig(**LLAMA), {}, torch.float32),
    "llama-shards": (LlamaForCausalLM, lambda: LlamaConfig(**LLAMA), {"max_shard_size": "100KB"}, torch.float32),
    "llama-bf16": (LlamaForCausalLM, lambda: LlamaConfig(**LLAMA), {}, torch.bfloat16),
    "llama-tied": (
        LlamaForCausalLM,
        lambda: LlamaConfig(tie_word_embeddings=True, rope_theta=500000.0, **LLAMA),
        {},
        torch.float32,
    ),
    "llama3": (
        LlamaForCausalLM,
        lambda: LlamaConfig(
            rope_theta=500000.0,
            rope_scaling={
                "rope_type": "llama3",
                "factor": 32.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            },
            **LLAMA,
        ),
        {},
        torch.float32,
    ),
    "gemma2": (
        Gemma2ForCausalLM,
        lambda: Gemma2Config(
            head_dim=32,
            query_pre_attn_scalar=24,
            sliding_window=16,
            pad_token_id=None,
            bos_token_id=0,
            eos_token_id=0,
            **LLAMA,
        ),
        {},
        torch.float32,
    ),
    "olmo2": (
        Olmo2ForCausalLM,
        lambda: Olmo2Config(rope_theta=5e5, pad_token_id=None, eos_token_id=0, **LLAMA),
        {},
        torch.float32,
    ),
    "qwen2": (Qwen2ForCausalLM, lambda: Qwen2Config(rope_theta=1e6, **LLAMA), {}, torch.float32),
    "qwen3": (Qwen3ForCausalLM, lambda: Qwen3Config(rope_theta=1e6, head_dim=32, **LLAMA), {}, torch.float32),
    # Saved with a tensor for each expert, and as transformers 5 has them in memory.
    "mixtral": (MixtralForCausalLM, lambda: MixtralConfig(num_local_experts=4, **LLAMA), {}, torch.float32),
    "olmoe": (OlmoeForCausalLM, lambda: OlmoeConfig(**OLMOE), {}, torch.float32),
    "olmoe-fused": (OlmoeForCausalLM, lambda: OlmoeConfig(**OLMOE), {"save_original_format": False}, torch.float32),
    "qwen2_moe": (
        Qwen2MoeForCausalLM,
        lambda: Qwen2MoeConfig(
            num_experts=4, num_experts_per_tok=2, shared_expert_intermediate_size=48, mlp_only_layers=[0], **QWEN_MOE
        ),
        {},
        torch.float32,
    ),
    "qwen3_moe": (
        Qwen3MoeForCausalLM,
        lambda: Qwen3MoeConfig(num_experts=8, num_experts_per_tok=2, norm_topk_prob=True, head_dim=32, **QWEN_MOE),
        {},
        torch.float32,
    ),
}


def write_tokens(path):
    """Tokens with order enough to be learnt, as nanoGPT keeps them; gives them."""
    generator = np.random.default_rng(1)
    tokens = np.zeros(WINDOWS * SEQUENCE + 1, dtype=np.uint16)
    for i in range(1, len(tokens)):
        tokens[i] = (tokens[i - 1] * 3 + generator.integers(4)) % VOCABULARY
    tokens.tofile(path)
    return torch.from_numpy(tokens.astype(np.int64))


def logits_of(model, tokens):
    with torch.no_grad():
        return model(input_ids=tokens, use_cache=False).logits.float()


def train_with_pytorch(directory, tokens, steps):
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, **EAGER).train()
    inputs = torch.stack([tokens[i * SEQUENCE : (i + 1) * SEQUENCE] for i in range(WINDOWS)])
    targets = torch.stack([tokens[i * SEQUENCE + 1 : (i + 1) * SEQUENCE + 1] for i in range(WINDOWS)])
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": 0.1},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=LEARNING_RATE, betas=(0.9, 0.95), eps=EPSILON)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        logits = model(input_ids=inputs, use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        losses.append(loss.item())
    return model.eval(), losses


def run(command):
    outcome = subprocess.run(command, capture_output=True, text=True)
    if outcome.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nended with status {outcome.returncode}:\n{outcome.stderr}")
    return outcome.stdout


def train_with_causeway(causeway, work, name, steps):
    (work / "recipe.yaml").write_text(
        f"name: {name}\nrun_directory: {work / 'run'}\ndevice: cpu\nmodel: {{from: {work / 'saved'}}}\n"
        f"data: {{path: {work / 'tokens.bin'}, token_bytes: 2, sequence_length: {SEQUENCE}}}\n"
        f"optimizer: {{learning_rate: {LEARNING_RATE}, epsilon: {EPSILON}}}\n"
        "schedule: {kind: constant, warmup_steps: 0}\n"
        f"train: {{steps: {steps}, batch_size: {WINDOWS}, precision: f32}}\nlog: {{tensorboard: false}}\n"
    )
    run([causeway, "train", work / "recipe.yaml", "--quiet"])
    records = [json.loads(line) for line in (work / "run/metrics.jsonl").read_text().splitlines()]
    return [record["loss"] for record in records if "loss" in record]


def compare(causeway, work, name, steps):
    model_class, config, saving, dtype = MODELS[name]
    torch.manual_seed(3)
    model = model_class(config())
    with torch.no_grad():  # the defaults, zeros and ones, would hide a mistake
        for parameter in model.parameters():
            if parameter.dim() < 2:
                parameter.add_(0.1 * torch.randn(parameter.shape))
    model.to(dtype).save_pretrained(work / "saved", **saving)
    tokens = write_tokens(work / "tokens.bin")
    ours = train_with_causeway(causeway, work, name, steps)
    trained, theirs = train_with_pytorch(work / "saved", tokens, steps)
    assert len(ours) == len(theirs) == steps
    difference = {"losses": max(abs(a - b) for a, b in zip(ours, theirs))}

    run([causeway, "export", work / "run", "--output", work / "f32", "--device", "cpu"])
    run([causeway, "export", work / "run", "--output", work / "bf16", "--device", "cpu", "--dtype", "bf16"])
    exported = AutoModelForCausalLM.from_pretrained(work / "f32", dtype="auto", **EAGER).eval()
    assert exported.dtype == torch.float32
    probe = json.loads((work / "f32/causeway_probe.json").read_text())
    last = logits_of(exported, torch.tensor([probe["tokens"]]))[0, -1]
    difference["probe"] = max(abs(last[e["token"]].item() - e["logit"]) for e in probe["likeliest_next"])
    assert int(last.argmax()) == probe["likeliest_next"][0]["token"]

    sample = tokens[None, :SEQUENCE]
    difference["trained"] = (logits_of(exported, sample) - logits_of(trained, sample)).abs().max().item()
    narrow = AutoModelForCausalLM.from_pretrained(work / "bf16", dtype="auto", **EAGER).eval()
    assert narrow.dtype == torch.bfloat16
    wide = exported.state_dict()
    difference["bf16"] = sum(
        int((weight != wide[key].to(torch.bfloat16)).sum()) for key, weight in narrow.state_dict().items()
    )
    return ours, difference


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("causeway", type=Path)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--keep", type=Path, help="a new directory for what is written; default: a temporary one")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MODELS)} (default: all)")
    arguments = parser.parse_intermixed_args()
    unknown = sorted(set(arguments.names) - set(MODELS))
    if unknown:
        parser.error(f"no model named {', '.join(unknown)}; there are {', '.join(MODELS)}")
    print(f"{'model':14}{'first loss':>12}{'last loss':>12}{'losses':>12}{'probe':>12}{'trained':>12}{'bf16':>12}")
    within = True
    with tempfile.TemporaryDirectory() as temporary:
        for name in arguments.names or MODELS:
            work = (arguments.keep or Path(temporary)) / name
            work.mkdir(parents=True)
            losses, difference = compare(arguments.causeway, work, name, arguments.steps)
            figures = "".join(f"{difference[key]:12.2e}" for key in ("losses", "probe", "trained"))
            figures += f"{difference['bf16']:12}"
            print(f"{name:14}{losses[0]:12.4f}{losses[-1]:12.4f}{figures}", flush=True)
            within = within and max(difference["losses"], difference["probe"]) <= LARGEST_DIFFERENCE
            within = within and difference["bf16"] == 0
    sys.exit(0 if within else 1)


if __name__ == "__main__":
    main()
