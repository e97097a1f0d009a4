#!/usr/bin/env python3
"""Make the parity fixtures in tests/fixtures/parity.

Each fixture is a tiny model with random weights, built and run by Hugging Face transformers and PyTorch in float32 on
the CPU: a configuration and weights as Hugging Face saves them, and the logits, loss and gradients to be matched.

    python tools/make_parity_fixtures.py [--output tests/fixtures/parity] [NAME ...]

Needs torch, transformers, safetensors. tools/check_parity_fixtures.py checks the result without either library.
"""

import argparse
import copy
import shutil
import tempfile
import zlib
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    MptConfig,
    MptForCausalLM,
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

BATCH = 2
SEQUENCE = 24
IGNORED = -100
TRAINING_STEPS = 10
LARGEST_DIRECTORY = 1_000_000

LLAMA = dict(
    hidden_size=64,
    intermediate_size=96,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=64,
    attn_implementation="eager",
)

SMALL = LLAMA | dict(hidden_size=32, intermediate_size=48, num_attention_heads=2, num_key_value_heads=1)

EXPERTS = SMALL | dict(intermediate_size=24, num_experts_per_tok=2, experts_implementation="eager")
# Whose experts are saved as transformers 5 holds them, all in one tensor.
FUSED = {"olmoe", "qwen3_moe"}

# name -> (model class, configuration, whether a short training run is recorded too)
FIXTURES = {
    "gpt2": (
        GPT2LMHeadModel,
        GPT2Config(
            vocab_size=97,
            n_positions=32,
            n_embd=64,
            n_layer=2,
            n_head=4,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=0,
            eos_token_id=0,
            attn_implementation="eager",
        ),
        False,
    ),
    "llama": (LlamaForCausalLM, LlamaConfig(vocab_size=96, rms_norm_eps=1e-5, **LLAMA), True),
    "llama_tied": (
        LlamaForCausalLM,
        LlamaConfig(vocab_size=101, rms_norm_eps=1e-6, rope_theta=500000.0, tie_word_embeddings=True, **LLAMA),
        False,
    ),
    # Of the eight wavelengths some are kept, some stretched, and some are between.
    "llama3": (
        LlamaForCausalLM,
        LlamaConfig(
            vocab_size=64,
            rms_norm_eps=1e-5,
            rope_scaling={
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 32,
            },
            **SMALL,
        ),
        False,
    ),
    "mistral": (MistralForCausalLM, MistralConfig(vocab_size=112, rms_norm_eps=1e-5, sliding_window=8, **LLAMA), False),
    "mpt": (
        MptForCausalLM,
        MptConfig(vocab_size=96, d_model=64, n_heads=4, n_layers=2, max_seq_len=32, attn_implementation="eager"),
        False,
    ),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config(vocab_size=64, rope_theta=1e6, tie_word_embeddings=True, **SMALL), False),
    # Heads that do not make the width.
    "qwen3": (Qwen3ForCausalLM, Qwen3Config(vocab_size=64, head_dim=24, rope_theta=1e6, **SMALL), False),
    # Row 0 of a padding token would get no gradient from where it is looked up.
    "olmo2": (Olmo2ForCausalLM, Olmo2Config(vocab_size=64, rope_theta=5e5, pad_token_id=None, **SMALL), False),
    # Caps that bend what these weights give, a scale that is not that of the heads, and a window in one layer.
    "gemma2": (
        Gemma2ForCausalLM,
        Gemma2Config(
            vocab_size=64,
            head_dim=24,
            query_pre_attn_scalar=9,
            attn_logit_softcapping=0.5,
            final_logit_softcapping=1.5,
            sliding_window=8,
            pad_token_id=None,
            **(SMALL | dict(num_hidden_layers=3)),
        ),
        False,
    ),
    "mixtral": (MixtralForCausalLM, MixtralConfig(vocab_size=64, num_local_experts=4, **EXPERTS), False),
    # Probabilities as they are, and norms of all queries and all keys.
    "olmoe": (OlmoeForCausalLM, OlmoeConfig(vocab_size=64, num_experts=5, pad_token_id=None, **EXPERTS), False),
    # The first layer is dense; the second one has a shared expert, and weights that do not add up to 1.
    "qwen2_moe": (
        Qwen2MoeForCausalLM,
        Qwen2MoeConfig(
            vocab_size=64,
            num_experts=5,
            moe_intermediate_size=20,
            shared_expert_intermediate_size=28,
            decoder_sparse_step=2,
            **EXPERTS,
        ),
        False,
    ),
    "qwen3_moe": (
        Qwen3MoeForCausalLM,
        Qwen3MoeConfig(
            vocab_size=64, num_experts=8, moe_intermediate_size=12, head_dim=24, norm_topk_prob=True, **EXPERTS
        ),
        False,
    ),
    "mpt_heads6": (
        MptForCausalLM,
        MptConfig(vocab_size=97, d_model=48, n_heads=6, n_layers=2, max_seq_len=32, attn_implementation="eager"),
        False,
    ),
}


def randomise(model, generator):
    """Give every parameter, norms and biases included, values far from the defaults that would hide a mistake."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            is_norm_weight = parameter.dim() == 1 and name.endswith("weight")
            # Where norms begin: at weights of 1, or, in Gemma, of 0.
            begin = parameter[0].item() if is_norm_weight else 0.0
            parameter.copy_(begin + (0.1 if parameter.dim() > 1 else 0.2) * noise)


def mean_loss(model, input_ids, labels):
    logits = model(input_ids=input_ids, use_cache=False).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED)
    return logits, loss


def train(model, input_ids, labels):
    """TRAINING_STEPS of AdamW on one batch in float64; decay on matrices only, gradients clipped to a norm of 1.

    The first step moves a weight by rate * g / (|g| + eps): with an eps of 1e-8, a gradient of that size moves it by
    what rounding made of g, in any float32.
    """
    model = copy.deepcopy(model).double()
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": 0.1},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-6, foreach=False, fused=False)
    losses, norms = [], []
    for _ in range(TRAINING_STEPS):
        optimizer.zero_grad()
        loss = mean_loss(model, input_ids, labels)[1]
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(parameters, 1.0).detach())
        losses.append(loss.detach())
        optimizer.step()
    with torch.no_grad():
        final_loss = mean_loss(model, input_ids, labels)[1]
    recorded = {"train.losses": torch.stack(losses).float(), "train.grad_norms": torch.stack(norms).float()}
    recorded["train.final_loss"] = final_loss.float()
    for name, parameter in model.named_parameters():
        recorded[f"train.param.{name}"] = parameter.detach().float()
    return recorded


def as_saved(model, values):
    """Values of the parameters by the names of files: of experts a tensor each."""
    model = copy.deepcopy(model)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(values[name])
    with tempfile.TemporaryDirectory() as saved:
        model.save_pretrained(saved)
        return load_file(Path(saved) / "model.safetensors")


def balance(model, input_ids):
    """The load-balancing loss of the routers, and its gradient for their weights."""
    model = copy.deepcopy(model)
    model.zero_grad()
    loss = model(input_ids=input_ids, use_cache=False, output_router_logits=True).aux_loss
    loss.backward()
    recorded = {"balance.loss": loss.detach()}
    for name, parameter in model.named_parameters():
        if name.endswith("mlp.gate.weight"):
            recorded[f"balance.grad.{name}"] = parameter.grad
    return recorded


def make(name, output):
    model_class, config, with_training = FIXTURES[name]
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    model = model_class(config).float().eval()
    randomise(model, generator)
    # Tying keeps one tensor under two names; the copy above must not have parted them.
    if config.tie_word_embeddings:
        assert model.get_output_embeddings().weight is model.get_input_embeddings().weight

    directory = output / name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as saved:
        model.save_pretrained(saved, **({"save_original_format": False} if name in FUSED else {}))
        for file in ("config.json", "model.safetensors"):
            shutil.copyfile(Path(saved) / file, directory / file)

    tokens = torch.randint(config.vocab_size, (BATCH, SEQUENCE + 1), generator=generator)
    input_ids, labels = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    labels[0, :3] = IGNORED
    labels[1, 10] = IGNORED
    labels[1, -1] = IGNORED

    logits, loss = mean_loss(model, input_ids, labels)
    loss.backward()
    expected = {"input_ids": input_ids, "labels": labels, "logits": logits.detach(), "loss": loss.detach()}
    gradients = {parameter_name: parameter.grad for parameter_name, parameter in model.named_parameters()}
    has_experts = hasattr(config, "num_experts_per_tok")
    if has_experts:
        gradients = as_saved(model, gradients)
        expected |= balance(model, input_ids)
    for parameter_name, gradient in gradients.items():
        expected[f"grad.{parameter_name}"] = gradient.clone()
    if with_training:
        expected |= train(model, input_ids, labels)
    expected = {key: value.contiguous() for key, value in expected.items()}
    save_file(expected, directory / "expected.safetensors")

    for file in directory.iterdir():
        file.chmod(0o644)
    size = sum(file.stat().st_size for file in directory.iterdir())
    assert size < LARGEST_DIRECTORY, f"{name}: {size} bytes"
    weights = load_file(directory / "model.safetensors")
    count = sum(tensor.numel() for tensor in weights.values())
    print(f"{name:12} {count:7} parameters  {size / 1000:6.0f} kB  loss {loss:.4f}  logit std {logits.std():.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default_output = Path(__file__).resolve().parent.parent / "tests/fixtures/parity"
    parser.add_argument("--output", type=Path, default=default_output)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(FIXTURES)} (default: all)")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - set(FIXTURES))
    if unknown:
        parser.error(f"no fixture named {', '.join(unknown)}; there are {', '.join(FIXTURES)}")
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    print(f"torch {torch.__version__}, transformers {transformers.__version__}")
    for name in arguments.names or FIXTURES:
        make(name, arguments.output)


if __name__ == "__main__":
    main()
