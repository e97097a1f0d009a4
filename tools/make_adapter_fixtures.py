"""Makes tests/fixtures/adapters: adapters as PEFT saves them, and what PEFT and PyTorch make of them.

    pip install torch transformers==5.24 peft==0.21 safetensors
    python tools/make_adapter_fixtures.py

The models are those of tests/fixtures/parity. Every adapter has random values of all its parts, so that each has a
gradient. Beside it stand, for the first row of the parity fixture's tokens, the logits in f64 and the gradients of the
mean loss in f64, and the losses of 50 steps in f32 with AdamW (clipped to a norm of 1, weight decay 0.1 for matrices),
which are those in f64 up to 2e-5.
"""

import argparse
import warnings
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

ROOT = Path(__file__).resolve().parent.parent
PARITY = ROOT / "tests/fixtures/parity"
STEPS, ROWS, LENGTH = 50, 2, 16

RATES = {"qwen2_lora": 1e-3}  # at higher ones rounding alone decides where its steps lead
RATE = 5e-3

ADAPTERS = {
    "llama_lora": ("llama", dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"])),
    "llama_rslora": ("llama", dict(r=4, lora_alpha=8, target_modules=["k_proj", "down_proj"], use_rslora=True)),
    "llama_dora": ("llama", dict(r=2, lora_alpha=4, target_modules=["q_proj", "o_proj", "up_proj"], use_dora=True)),
    "qwen2_lora": ("qwen2", dict(r=2, lora_alpha=6, target_modules="all-linear")),
    "gpt2_lora": ("gpt2", dict(r=2, lora_alpha=4, target_modules=["c_attn", "mlp.c_proj"], fan_in_fan_out=True)),
    "gpt2_dora": ("gpt2", dict(r=2, lora_alpha=4, target_modules=["c_attn"], fan_in_fan_out=True, use_dora=True)),
}


def base_of(name, dtype):
    return AutoModelForCausalLM.from_pretrained(PARITY / name, dtype=dtype, attn_implementation="eager")


def randomise(model, generator):
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not parameter.requires_grad:
                continue
            noise = torch.randn(parameter.shape, generator=generator)
            if "magnitude" in name:
                parameter.mul_(1 + 0.2 * noise)
            else:
                parameter.copy_(noise * (0.1 if "lora_B" in name else 0.3))


def loss_of(model, ids, labels):
    logits = model(input_ids=ids).logits
    return logits, torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)


def batch_of(step, vocabulary):
    """Tokens of a step: a walk over the vocabulary that a model can learn."""
    ids = torch.empty(ROWS, LENGTH + 1, dtype=torch.int64)
    for row in range(ROWS):
        for place in range(LENGTH + 1):
            ids[row, place] = (step % 4 * 5 + row * 11 + place * place * 3) % vocabulary
    return ids[:, :-1], ids[:, 1:]


def train(model, vocabulary, rate):
    matrices = [p for p in model.parameters() if p.requires_grad and p.dim() > 1]
    vectors = [p for p in model.parameters() if p.requires_grad and p.dim() == 1]
    groups = [dict(params=matrices, weight_decay=0.1), dict(params=vectors, weight_decay=0.0)]
    optimizer = torch.optim.AdamW([g for g in groups if g["params"]], lr=rate, betas=(0.9, 0.95), eps=1e-8)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        _, loss = loss_of(model, *batch_of(step, vocabulary))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(matrices + vectors, 1.0)
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses, dtype=torch.float64)


def make(name, output):
    base, settings = ADAPTERS[name]
    generator = torch.Generator().manual_seed(sum(map(ord, name)))
    model = get_peft_model(base_of(base, torch.float32), LoraConfig(task_type="CAUSAL_LM", **settings))
    randomise(model, generator)
    # PEFT caches nothing while a model is trained.
    model.train()
    model.save_pretrained(output / name)
    (output / name / "README.md").unlink(missing_ok=True)
    configuration = output / name / "adapter_config.json"
    text = configuration.read_text().replace(f"{PARITY}/", "tests/fixtures/parity/")
    configuration.write_text(text + "\n")
    trained = {n: p.detach().clone() for n, p in model.named_parameters() if p.requires_grad}
    fixture = load_file(PARITY / base / "expected.safetensors")
    ids, labels = fixture["input_ids"][:1].long(), fixture["labels"][:1].long()
    wide = get_peft_model(base_of(base, torch.float64), LoraConfig(task_type="CAUSAL_LM", **settings)).double()
    with torch.no_grad():
        for n, p in wide.named_parameters():
            if p.requires_grad:
                p.copy_(trained[n].double())
    wide.train()
    logits, loss = loss_of(wide, ids, labels)
    loss.backward()
    expected = {"logits": logits.detach().float(), "loss": loss.detach().float().reshape(())}
    for n, p in wide.named_parameters():
        if p.requires_grad:
            short = n.removeprefix("base_model.model.").replace(".default", "")
            short = short.replace(".lora_magnitude_vector.weight", ".lora_magnitude_vector")
            expected["grad." + short] = p.grad.float().contiguous()
    rate = RATES.get(name, RATE)
    exact, losses = (train(each, model.config.vocab_size, rate) for each in (wide, model))
    assert (exact - losses).abs().max() < 2e-5, f"{name}: the steps follow from their rounding"
    expected["train.losses"], expected["train.rate"] = losses.float(), torch.tensor(rate)
    save_file(expected, output / name / "expected.safetensors")
    for file in (output / name).iterdir():
        file.chmod(0o644)
    print(f"{name}: loss {loss.item():.6f}, {losses[0]:.4f} to {losses[-1]:.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "tests/fixtures/adapters")
    output = parser.parse_args().output
    warnings.filterwarnings("ignore")
    torch.manual_seed(0)
    for name in ADAPTERS:
        make(name, output)


if __name__ == "__main__":
    main()
