#!/usr/bin/env python3
"""Check tests/fixtures/parity against an independent forward pass, written here in numpy and float64.

Logits and loss are compared directly; gradients through the directional derivative of the loss, by central
differences, along random directions in each parameter; the recorded training run through its first update.

    python tools/check_parity_fixtures.py [DIRECTORY]

Needs numpy only.
"""

import json
import math
import sys
from pathlib import Path

import numpy as np

DTYPES = {"F32": np.float32, "I64": np.int64}


def read_safetensors(path):
    data = path.read_bytes()
    header_size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + header_size])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + header_size + offset for offset in entry["data_offsets"])
        tensors[name] = np.frombuffer(data[begin:end], DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(x, weight, bias, eps):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps) * weight + bias


def rms_norm(x, weight, eps):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * weight


def split_heads(x, heads):
    batch, sequence, width = x.shape
    return x.reshape(batch, sequence, heads, width // heads).transpose(0, 2, 1, 3)


def capped(x, cap):
    return x if cap is None else cap * np.tanh(x / cap)


def attention(q, k, v, bias=0.0, window=None, scale=None, cap=None):
    """q, k, v: (batch, head, sequence, head width). A query sees itself and, with a window, the window - 1 before."""
    sequence = q.shape[2]
    i, j = np.arange(sequence)[:, None], np.arange(sequence)[None, :]
    visible = (j <= i) if window is None else (j <= i) & (i - j < window)
    scores = q @ k.transpose(0, 1, 3, 2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale) + bias
    scores = capped(scores, cap)
    out = softmax(np.where(visible, scores, -np.inf)) @ v
    return out.transpose(0, 2, 1, 3).reshape(q.shape[0], sequence, -1)


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu_exact(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def gpt2(c, p, ids):
    eps = c["layer_norm_epsilon"]
    x = p["transformer.wte.weight"][ids] + p["transformer.wpe.weight"][: ids.shape[1]]
    for n in range(c["n_layer"]):
        w = {k: p[f"transformer.h.{n}.{k}"] for k in GPT2_LAYER}
        h = layer_norm(x, w["ln_1.weight"], w["ln_1.bias"], eps) @ w["attn.c_attn.weight"] + w["attn.c_attn.bias"]
        q, k, v = (split_heads(part, c["n_head"]) for part in np.split(h, 3, axis=-1))
        x = x + attention(q, k, v) @ w["attn.c_proj.weight"] + w["attn.c_proj.bias"]
        h = layer_norm(x, w["ln_2.weight"], w["ln_2.bias"], eps) @ w["mlp.c_fc.weight"] + w["mlp.c_fc.bias"]
        x = x + gelu_tanh(h) @ w["mlp.c_proj.weight"] + w["mlp.c_proj.bias"]
    x = layer_norm(x, p["transformer.ln_f.weight"], p["transformer.ln_f.bias"], eps)
    return x @ p["transformer.wte.weight"].T


GPT2_LAYER = [
    f"{module}.{kind}"
    for module in ("ln_1", "ln_2", "attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")
    for kind in ("weight", "bias")
]


def frequencies(c, half):
    """Angles per position. Llama 3 multiplies long wavelengths by a factor: all beyond one bound, none below another,
    and between them in proportion to how often a wave fits into the original length."""
    rope = c.get("rope_parameters") or {}
    plain = rope.get("rope_theta", c.get("rope_theta")) ** (-np.arange(half) / half)
    if rope.get("rope_type", "default") == "default":
        return plain
    assert rope["rope_type"] == "llama3"
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    waves = rope["original_max_position_embeddings"] / (2 * math.pi / plain)
    kept = np.clip((waves - low) / (high - low), 0, 1)
    assert len({0.0, 1.0} & set(kept)) == 2 and len(set(kept)) > 2, "a case of the three is missing"
    return plain * (kept + (1 - kept) / rope["factor"])


def rotate(x, c):
    """Rotary embedding, halves paired: channel d turns with channel d + width / 2."""
    half = x.shape[-1] // 2
    angles = np.arange(x.shape[2])[:, None] * frequencies(c, half)[None, :]
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * np.cos(angles) - b * np.sin(angles), b * np.cos(angles) + a * np.sin(angles)], -1)


def by_expert(parameters):
    """With a tensor for each expert where all are in one."""
    split = {}
    for name, value in parameters.items():
        if name.endswith("experts.gate_up_proj"):
            parts = {"gate_proj": value[:, : value.shape[1] // 2], "up_proj": value[:, value.shape[1] // 2 :]}
        elif name.endswith("experts.down_proj"):
            parts = {"down_proj": value}
        else:
            split[name] = value
            continue
        for part, of_experts in parts.items():
            for n, weight in enumerate(of_experts):
                split[f"{name.rpartition('.')[0]}.{n}.{part}.weight"] = weight
    return split


def swiglu(p, h, gate, up, down):
    g = h @ p[gate].T
    return (g / (1 + np.exp(-g)) * (h @ p[up].T)) @ p[down].T


def experts(c, p, h, block):
    """A token at a time through its experts."""
    names = ("w1", "w3", "w2") if "block_sparse_moe" in block else ("gate_proj", "up_proj", "down_proj")
    probabilities = softmax(h @ p[f"{block}.gate.weight"].T)
    out = np.zeros_like(h)
    for at in np.ndindex(h.shape[:-1]):
        chosen = np.argsort(-probabilities[at], kind="stable")[: c["num_experts_per_tok"]]
        weights = probabilities[at][chosen]
        if c.get("norm_topk_prob", c["model_type"] == "mixtral"):
            weights = weights / weights.sum()
        for n, weight in zip(chosen, weights):
            out[at] += weight * swiglu(p, h[at], *(f"{block}.experts.{n}.{name}.weight" for name in names))
    if f"{block}.shared_expert_gate.weight" in p:
        shared = swiglu(p, h, *(f"{block}.shared_expert.{name}.weight" for name in names))
        out += shared / (1 + np.exp(-h @ p[f"{block}.shared_expert_gate.weight"].T))
    return out


def llama(c, p, ids):
    heads, kv_heads, eps = c["num_attention_heads"], c["num_key_value_heads"], c["rms_norm_eps"]
    x = p["model.embed_tokens.weight"][ids]
    for n in range(c["num_hidden_layers"]):

        def linear(h, name):
            return h @ p[f"model.layers.{n}.{name}.weight"].T + p.get(f"model.layers.{n}.{name}.bias", 0.0)

        def head_norm(h, name):  # of Qwen 3
            weight = p.get(f"model.layers.{n}.{name}.weight")
            return h if weight is None else rms_norm(h, weight, eps)

        h = rms_norm(x, p[f"model.layers.{n}.input_layernorm.weight"], eps)
        def normed_heads(name, count):
            projected = linear(h, f"self_attn.{name}_proj")
            if c["model_type"] == "olmoe":  # all heads together
                return split_heads(head_norm(projected, f"self_attn.{name}_norm"), count)
            return head_norm(split_heads(projected, count), f"self_attn.{name}_norm")

        q, k = rotate(normed_heads("q", heads), c), rotate(normed_heads("k", kv_heads), c)
        v = split_heads(linear(h, "self_attn.v_proj"), kv_heads)
        k, v = (np.repeat(t, heads // kv_heads, axis=1) for t in (k, v))
        x = x + linear(attention(q, k, v, window=c.get("sliding_window") or None), "self_attn.o_proj")
        h = rms_norm(x, p[f"model.layers.{n}.post_attention_layernorm.weight"], eps)
        block = next((b for b in ("mlp", "block_sparse_moe") if f"model.layers.{n}.{b}.gate.weight" in p), None)
        if block is not None:
            x = x + experts(c, p, h, f"model.layers.{n}.{block}")
            continue
        gate = linear(h, "mlp.gate_proj")
        x = x + linear(gate / (1 + np.exp(-gate)) * linear(h, "mlp.up_proj"), "mlp.down_proj")
    x = rms_norm(x, p["model.norm.weight"], eps)
    return x @ p["model.embed_tokens.weight" if c["tie_word_embeddings"] else "lm_head.weight"].T


def olmo2(c, p, ids):
    heads, kv_heads, eps = c["num_attention_heads"], c["num_key_value_heads"], c["rms_norm_eps"]
    x = p["model.embed_tokens.weight"][ids]
    for n in range(c["num_hidden_layers"]):

        def linear(h, name):
            return h @ p[f"model.layers.{n}.{name}.weight"].T

        def norm(h, name):
            return rms_norm(h, p[f"model.layers.{n}.{name}.weight"], eps)

        q = rotate(split_heads(norm(linear(x, "self_attn.q_proj"), "self_attn.q_norm"), heads), c)
        k = rotate(split_heads(norm(linear(x, "self_attn.k_proj"), "self_attn.k_norm"), kv_heads), c)
        v = split_heads(linear(x, "self_attn.v_proj"), kv_heads)
        k, v = (np.repeat(t, heads // kv_heads, axis=1) for t in (k, v))
        x = x + norm(linear(attention(q, k, v), "self_attn.o_proj"), "post_attention_layernorm")
        gate = linear(x, "mlp.gate_proj")
        h = linear(gate / (1 + np.exp(-gate)) * linear(x, "mlp.up_proj"), "mlp.down_proj")
        x = x + norm(h, "post_feedforward_layernorm")
    return rms_norm(x, p["model.norm.weight"], eps) @ p["lm_head.weight"].T


def gemma2(c, p, ids):
    heads, kv_heads, eps = c["num_attention_heads"], c["num_key_value_heads"], c["rms_norm_eps"]
    scale, cap = 1 / math.sqrt(c["query_pre_attn_scalar"]), c["attn_logit_softcapping"]
    x = p["model.embed_tokens.weight"][ids] * math.sqrt(c["hidden_size"])
    for n in range(c["num_hidden_layers"]):

        def linear(h, name):
            return h @ p[f"model.layers.{n}.{name}.weight"].T

        def norm(h, name):
            return rms_norm(h, 1 + p[f"model.layers.{n}.{name}.weight"], eps)

        h = norm(x, "input_layernorm")
        q = rotate(split_heads(linear(h, "self_attn.q_proj"), heads), c)
        k = rotate(split_heads(linear(h, "self_attn.k_proj"), kv_heads), c)
        v = split_heads(linear(h, "self_attn.v_proj"), kv_heads)
        k, v = (np.repeat(t, heads // kv_heads, axis=1) for t in (k, v))
        window = c["sliding_window"] if n % 2 == 0 else None
        h = linear(attention(q, k, v, window=window, scale=scale, cap=cap), "self_attn.o_proj")
        x = x + norm(h, "post_attention_layernorm")
        h = norm(x, "pre_feedforward_layernorm")
        h = linear(gelu_tanh(linear(h, "mlp.gate_proj")) * linear(h, "mlp.up_proj"), "mlp.down_proj")
        x = x + norm(h, "post_feedforward_layernorm")
    logits = rms_norm(x, 1 + p["model.norm.weight"], eps) @ p["model.embed_tokens.weight"].T
    return capped(logits, c["final_logit_softcapping"])


def alibi_slopes(heads):
    """2^(-8 k / n), k = 1..n, for n a power of two. Else, from those of the next power: every second, then the rest."""
    power = 2 ** math.ceil(math.log2(heads))
    slopes = 2.0 ** (-8.0 * np.arange(1, power + 1) / power)
    return slopes if power == heads else np.concatenate([slopes[1::2], slopes[::2]])[:heads]


def mpt(c, p, ids):
    eps, heads, sequence = c["layer_norm_epsilon"], c["n_heads"], ids.shape[1]
    # The distance alone: -slope * (i - j). Hugging Face adds a constant to each row, which softmax removes.
    distance = np.arange(sequence)[None, :] - np.arange(sequence)[:, None]
    bias = alibi_slopes(heads)[:, None, None] * distance
    x = p["transformer.wte.weight"][ids]
    for n in range(c["n_layers"]):
        w = f"transformer.blocks.{n}."
        h = layer_norm(x, p[w + "norm_1.weight"], 0.0, eps) @ p[w + "attn.Wqkv.weight"].T
        q, k, v = (split_heads(part, heads) for part in np.split(h, 3, axis=-1))
        x = x + attention(q, k, v, bias) @ p[w + "attn.out_proj.weight"].T
        h = layer_norm(x, p[w + "norm_2.weight"], 0.0, eps) @ p[w + "ffn.up_proj.weight"].T
        x = x + gelu_exact(h) @ p[w + "ffn.down_proj.weight"].T
    return layer_norm(x, p["transformer.norm_f.weight"], 0.0, eps) @ p["transformer.wte.weight"].T


FORWARD = {
    "gemma2": gemma2,
    "gpt2": gpt2,
    "llama": llama,
    "mistral": llama,
    "mixtral": llama,
    "mpt": mpt,
    "olmo2": olmo2,
    "olmoe": llama,
    "qwen2": llama,
    "qwen2_moe": llama,
    "qwen3": llama,
    "qwen3_moe": llama,
}


def mean_loss(logits, labels):
    valid = labels != -100
    logits, labels = logits[valid], labels[valid]
    largest = logits.max(-1)
    log_sum = largest + np.log(np.exp(logits - largest[:, None]).sum(-1))
    return (log_sum - logits[np.arange(len(labels)), labels]).mean()


def check_first_update(parameters, expected, loss_at):
    """The loss after one AdamW step from the recorded gradients is the second loss of the recorded run."""
    norm = math.sqrt(sum((expected[f"grad.{k}"].astype(np.float64) ** 2).sum() for k in parameters))
    scale = min(1.0, 1.0 / (norm + 1e-6))
    updated = {}
    for name, value in parameters.items():
        gradient = expected[f"grad.{name}"].astype(np.float64) * scale
        decay = 0.1 if value.ndim >= 2 else 0.0
        # After one step the bias-corrected moments are the gradient and its square.
        updated[name] = value * (1 - 1e-3 * decay) - 1e-3 * gradient / (np.abs(gradient) + 1e-6)
    return {
        "norm": abs(norm - expected["train.grad_norms"][0]) / norm,
        "update": abs(loss_at(updated) - expected["train.losses"][1]),
        "final": abs(
            loss_at({k: expected[f"train.param.{k}"].astype(np.float64) for k in parameters})
            - expected["train.final_loss"]
        ),
    }


def check(directory):
    config = json.loads((directory / "config.json").read_text())
    parameters = {k: v.astype(np.float64) for k, v in read_safetensors(directory / "model.safetensors").items()}
    parameters = by_expert(parameters)
    expected = read_safetensors(directory / "expected.safetensors")
    ids, labels = expected["input_ids"], expected["labels"]
    forward = FORWARD[config["model_type"]]

    def loss_at(values):
        return mean_loss(forward(config, values, ids), labels)

    assert {f"grad.{name}" for name in parameters} == {name for name in expected if name.startswith("grad.")}
    errors = {
        "logits": np.abs(forward(config, parameters, ids) - expected["logits"]).max(),
        "loss": abs(loss_at(parameters) - expected["loss"]),
        "gradient": 0.0,
    }
    random = np.random.default_rng(1)
    for name, value in parameters.items():
        gradient = expected[f"grad.{name}"].astype(np.float64)
        direction = random.standard_normal(value.shape)
        slopes = [loss_at(parameters | {name: value + step * direction}) for step in (1e-5, -1e-5)]
        found = (slopes[0] - slopes[1]) / 2e-5
        error = abs(found - (gradient * direction).sum()) / np.linalg.norm(gradient)
        errors["gradient"] = max(errors["gradient"], error)
    if "train.losses" in expected:
        errors |= check_first_update(parameters, expected, loss_at)
    print(f"{directory.name:12}" + "".join(f"  {name} {error:.1e}" for name, error in errors.items()))
    return max(errors.values()) < 1e-5


def main():
    default = Path(__file__).resolve().parent.parent / "tests/fixtures/parity"
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    results = [check(config.parent) for config in sorted(root.glob("*/config.json"))]
    if not results or not all(results):
        sys.exit(f"{root}: no fixtures, or an error above 1e-5")


if __name__ == "__main__":
    main()
