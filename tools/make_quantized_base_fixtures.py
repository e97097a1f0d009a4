"""Makes tests/fixtures/quantized: matrices in NF4 as bitsandbytes lays them, and adapters trained on such bases.

    pip install torch transformers==5.24 peft==0.21 bitsandbytes==0.50 safetensors
    python tools/make_quantized_base_fixtures.py

nf4.safetensors has of each matrix the values that bitsandbytes was given, what it keeps of them (codes, absmax, nested_absmax,
offset) and what it makes of that in f32 and bf16; beside them its two tables.

training.safetensors has losses of 50 steps, as tools/make_adapter_fixtures.py trains, of the adapters of
tests/fixtures/adapters on the models of tests/fixtures/parity, of which the matrices of the layers are those of NF4 with double
quantization, or f8e4m3 with the largest magnitude of each output's row / 448 as its scale; everything else is in f32.
bitsandbytes' routines for processors look up scales in a table that is off by one near midpoints (of one scale in 300);
here the nearest are taken, as on GPUs.
"""

import argparse
import warnings
from pathlib import Path

import bitsandbytes.functional as bnb
import torch
from make_adapter_fixtures import ADAPTERS, RATE, RATES, ROOT, base_of, train
from peft import PeftModel
from safetensors.torch import save_file
from transformers.pytorch_utils import Conv1D

ADAPTER_FIXTURES = ROOT / "tests/fixtures/adapters"
TRAINED = [("llama_lora", "nf4"), ("llama_lora", "f8"), ("llama_dora", "nf4"), ("gpt2_lora", "nf4")]
MATRICES = {
    # Two blocks of scales, the second one not full, and a block of zeros.
    "two_blocks": ((72, 256), torch.bfloat16),
    "wide": ((24, 320), torch.float32),
    # Blocks go from one row to the next.
    "narrow": ((4, 96), torch.float32),
}


def quantize_nf4(weight):
    codes, state = bnb.quantize_4bit(weight.contiguous(), blocksize=64, quant_type="nf4", compress_statistics=True)
    scales = weight.float().reshape(-1, 64).abs().amax(1) - state.offset
    shares = [s / s.abs().max() for s in scales.split(256)]
    nearest = torch.cat([(s[:, None] - state.state2.code).abs().argmin(1) for s in shares])
    off = (nearest.int() - state.absmax.int()).abs()
    assert off.max() <= 1 and off.float().mean() < 0.02, "codes of scales are not the nearest ones"
    state.absmax = nearest.to(torch.uint8)
    return codes, state


def as_multiplied(weight, kind):
    if kind == "nf4":
        return bnb.dequantize_4bit(*quantize_nf4(weight)).float()
    scale = weight.abs().amax(1, keepdim=True) / 448
    return (weight / scale).to(torch.float8_e4m3fn).float() * scale


def make_matrices(path):
    tensors = {"nf4_values": bnb.get_4bit_type("nf4", device="cpu"), "signed_dynamic_values": bnb.create_dynamic_map()}
    for name, (shape, dtype) in MATRICES.items():
        generator = torch.Generator().manual_seed(sum(map(ord, name)))
        weight = (torch.randn(shape, generator=generator) * 0.02).to(dtype)
        if name == "two_blocks":
            weight[3, 64:128] = 0
        codes, state = bnb.quantize_4bit(weight, blocksize=64, quant_type="nf4", compress_statistics=True)
        tensors |= {f"{name}.values": weight, f"{name}.codes": codes.flatten(), f"{name}.absmax": state.absmax,
                    f"{name}.nested_absmax": state.state2.absmax, f"{name}.offset": state.offset.reshape(1)}
        for out in (torch.float32, torch.bfloat16):
            state.dtype = out
            tensors[f"{name}.{str(out).removeprefix('torch.')}"] = bnb.dequantize_4bit(codes, state)
    save_file(tensors, path)


def quantized_base(name, kind, dtype):
    base = base_of(name, torch.float32)
    with torch.no_grad():
        for path, module in base.named_modules():
            transposed = isinstance(module, Conv1D)
            if path == "lm_head" or not (transposed or isinstance(module, torch.nn.Linear)):
                continue
            weight = module.weight.T if transposed else module.weight
            made = as_multiplied(weight.contiguous(), kind)
            module.weight.copy_(made.T if transposed else made)
    return base.to(dtype)


def losses_of(adapter, kind):
    def model(dtype):
        found = PeftModel.from_pretrained(quantized_base(ADAPTERS[adapter][0], kind, dtype), ADAPTER_FIXTURES / adapter,
                                          is_trainable=True)
        return found.to(dtype).train()

    rate = RATES.get(adapter, RATE)
    exact, losses = (train(each, each.config.vocab_size, rate) for each in (model(torch.float64), model(torch.float32)))
    assert (exact - losses).abs().max() < 2e-5, f"{adapter}: the steps follow from their rounding"
    print(f"{adapter} on {kind}: {losses[0]:.4f} to {losses[-1]:.4f}")
    return losses.float()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "tests/fixtures/quantized")
    output = parser.parse_args().output
    warnings.filterwarnings("ignore")
    output.mkdir(exist_ok=True)
    make_matrices(output / "nf4.safetensors")
    save_file({f"{adapter}.{kind}": losses_of(adapter, kind) for adapter, kind in TRAINED},
              output / "training.safetensors")
    for file in output.iterdir():
        file.chmod(0o644)


if __name__ == "__main__":
    main()
