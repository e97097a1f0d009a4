"""Makes tests/fixtures/adapters/llama_second, an adapter as PEFT saves it, and llama_combined: what PEFT makes of it and
llama_lora by add_weighted_adapter().

    pip install torch transformers==5.24 peft==0.21 safetensors
    python tools/make_adapter_combination_fixtures.py

The model is that of tests/fixtures/parity/llama. Of each way to combine two adapters stand the logits of the first row
of its tokens, in f64.
"""

import warnings
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

ROOT = Path(__file__).resolve().parent.parent
PARITY, ADAPTERS = ROOT / "tests/fixtures/parity/llama", ROOT / "tests/fixtures/adapters"
WEIGHTS = [0.75, -0.5]


def base_of(dtype):
    return AutoModelForCausalLM.from_pretrained(PARITY, dtype=dtype, attn_implementation="eager")


def make_second():
    generator = torch.Generator().manual_seed(11)
    # Of one matrix that llama_lora has, too, and one that it has not.
    settings = LoraConfig(task_type="CAUSAL_LM", r=4, lora_alpha=12, target_modules=["q_proj", "up_proj"])
    model = get_peft_model(base_of(torch.float32), settings)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * (0.1 if "lora_B" in name else 0.3))
    output = ADAPTERS / "llama_second"
    model.save_pretrained(output)
    (output / "README.md").unlink(missing_ok=True)
    configuration = output / "adapter_config.json"
    text = configuration.read_text().replace(f"{PARITY.parent}/", "tests/fixtures/parity/")
    configuration.write_text(text + "\n")
    for file in output.iterdir():
        file.chmod(0o644)


def main():
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    make_second()
    ids = load_file(PARITY / "expected.safetensors")["input_ids"][:1].long()
    expected = {"weights": torch.tensor(WEIGHTS)}
    for combination in ("cat", "linear"):
        model = PeftModel.from_pretrained(base_of(torch.float64), ADAPTERS / "llama_lora", adapter_name="a").double()
        model.load_adapter(ADAPTERS / "llama_second", adapter_name="b")
        model = model.double()
        model.add_weighted_adapter(["a", "b"], WEIGHTS, "both", combination_type=combination)
        model.set_adapter("both")
        with torch.no_grad():
            expected[combination] = model.double().eval()(input_ids=ids).logits.float().contiguous()
    # Adding up what adapters add and adding up their factors are two things.
    assert (expected["cat"] - expected["linear"]).abs().max() > 1e-2
    (ADAPTERS / "llama_combined").mkdir(exist_ok=True)
    save_file(expected, ADAPTERS / "llama_combined/expected.safetensors")
    (ADAPTERS / "llama_combined/expected.safetensors").chmod(0o644)
    print({name: value.flatten()[:3].tolist() for name, value in expected.items()})


if __name__ == "__main__":
    main()
