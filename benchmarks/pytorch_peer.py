#!/usr/bin/env python3
"""The PyTorch peer: train GPT-2, Llama or MPT as fast as PyTorch does it, on the CPU or a GPU, to be compared with Causeway.

What makes it strong: torch.compile, bfloat16 autocast, F.scaled_dot_product_attention, fused AdamW, query-key-value and
gate-up projections in one matmul each, a tied head where the model has one, every core in use, and an allocator that
keeps large blocks instead of returning them to the kernel after each operation.

    # GPT-2 124M, random tokens
    python benchmarks/pytorch_peer.py gpt2 --steps 6 --batch 4 --sequence 1024

    # the same on a GPU
    python benchmarks/pytorch_peer.py gpt2 --device cuda --steps 20 --batch 32 --sequence 1024

    # a byte Llama on text, with evaluation on the last tenth of the file
    python benchmarks/pytorch_peer.py llama --layers 6 --width 256 --heads 8 --kv-heads 8 --ffn 704 \\
        --data tinyshakespeare.txt --steps 1000 --batch 16 --sequence 256 --warmup 100 --eval-every 250

    # on two GPUs of one machine: --batch is that of all of them together
    torchrun --standalone --nproc-per-node 2 benchmarks/pytorch_peer.py llama --device cuda --parallel fsdp2 ...

Data parallelism: `ddp` is DistributedDataParallel, compiled around; `fsdp2` is fully_shard of every block and of the
model, weights gathered in bfloat16 and gradients reduced in float32, blocks compiled one by one as torchtitan does.
The first rank writes; each draws tokens of its own.

Writes JSON lines: one a step (step from 1, loss in nats a token before the update, gradient norm before clipping,
learning rate, tokens, seconds, processor seconds of all threads together), one an evaluation, and a summary. Seconds
cover a whole step: sampling, forward, backward, clipping, update. Where processor seconds fall short of seconds times
threads, the machine was busy with something else or the threads waited for each other. The summary leaves out the
first --skip steps (compilation, first touch of memory).

The learning rate rises linearly, lr * step / warmup for step = 1..warmup, then follows a cosine that would reach min-lr
one step after the last: min-lr + (lr - min-lr) * (1 + cos(pi * (step - 1 - warmup) / (steps - warmup))) / 2.

Needs torch, numpy, safetensors, and g++ for torch.compile; for --float8 torchao.
"""

import argparse
import ctypes
import json
import math
import os
import statistics
import sys
import time
from contextlib import nullcontext

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

INITIAL_STD = 0.02


class Gpt2Block(nn.Module):
    def __init__(self, a):
        super().__init__()
        width, self.heads = a.width, a.heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width, eps=a.norm_eps), nn.LayerNorm(width, eps=a.norm_eps)
        self.qkv, self.attention_out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, sequence, width = x.shape
        q, k, v = self.qkv(self.ln_1(x)).split(width, dim=2)
        q, k, v = (t.view(batch, sequence, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        h = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attention_out(h.transpose(1, 2).reshape(batch, sequence, width))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(a.vocabulary, a.width), nn.Embedding(a.sequence, a.width)
        self.blocks = nn.ModuleList(Gpt2Block(a) for _ in range(a.layers))
        self.norm = nn.LayerNorm(a.width, eps=a.norm_eps)
        initialise(self, [m for b in self.blocks for m in (b.attention_out, b.down)])

    def forward(self, ids, labels):
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())

    def hugging_face(self):
        """name -> the view of our parameter that holds it, in Hugging Face's layout."""
        views = {"transformer.wte.weight": self.tokens.weight, "transformer.wpe.weight": self.positions.weight}
        modules = {"ln_1": "ln_1", "ln_2": "ln_2", "attn.c_attn": "qkv", "attn.c_proj": "attention_out"}
        modules |= {"mlp.c_fc": "up", "mlp.c_proj": "down"}
        for n, block in enumerate(self.blocks):
            for name, ours in modules.items():
                module = getattr(block, ours)
                # .T: Hugging Face keeps GPT-2's linear weights (in, out); for a norm's vector it changes nothing.
                weight = module.weight.T if isinstance(module, nn.Linear) else module.weight
                views[f"transformer.h.{n}.{name}.weight"] = weight
                views[f"transformer.h.{n}.{name}.bias"] = module.bias
        return views | {"transformer.ln_f.weight": self.norm.weight, "transformer.ln_f.bias": self.norm.bias}


class MptBlock(nn.Module):
    def __init__(self, a):
        super().__init__()
        width, self.heads = a.width, a.heads
        self.norm_1, self.norm_2 = (nn.LayerNorm(width, eps=a.norm_eps, bias=False) for _ in range(2))
        self.qkv, self.attention_out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x, slopes, causal):
        batch, sequence, width = x.shape
        q, k, v = self.qkv(self.norm_1(x)).split(width, dim=2)
        q, k, v = (t.view(batch, sequence, self.heads, -1).transpose(1, 2) for t in (q, k, v))

        def with_bias(score, batch, head, query, key):
            return score - slopes[head] * (query - key)

        h = flex_attention(q, k, v, score_mod=with_bias, block_mask=causal)
        x = x + self.attention_out(h.transpose(1, 2).reshape(batch, sequence, width))
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


class Mpt(nn.Module):
    """Its weights begin as they are drawn: they have no Hugging Face names here."""

    def __init__(self, a):
        super().__init__()
        self.tokens = nn.Embedding(a.vocabulary, a.width)
        self.blocks = nn.ModuleList(MptBlock(a) for _ in range(a.layers))
        self.norm = nn.LayerNorm(a.width, eps=a.norm_eps, bias=False)
        slopes = 2.0 ** (-a.alibi_bias_max * torch.arange(1, a.heads + 1) / a.heads)  # of a power of two of heads
        self.register_buffer("slopes", slopes, persistent=False)

        def sees(batch, head, query, key):
            return query >= key

        self.causal = create_block_mask(sees, None, None, a.sequence, a.sequence, device=a.device)
        initialise(self, [m for b in self.blocks for m in (b.attention_out, b.down)])

    def forward(self, ids, labels):
        x = self.tokens(ids)
        for block in self.blocks:
            x = block(x, self.slopes, self.causal)
        return F.cross_entropy(F.linear(self.norm(x), self.tokens.weight).flatten(0, 1), labels.flatten())


class LlamaBlock(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.heads, self.kv_heads, self.head_width = a.heads, a.kv_heads, a.width // a.heads
        self.ffn = a.ffn
        self.norm_1, self.norm_2 = nn.RMSNorm(a.width, eps=a.norm_eps), nn.RMSNorm(a.width, eps=a.norm_eps)
        self.qkv = nn.Linear(a.width, (a.heads + 2 * a.kv_heads) * self.head_width, bias=False)
        self.attention_out = nn.Linear(a.width, a.width, bias=False)
        self.gate_up = nn.Linear(a.width, 2 * a.ffn, bias=False)
        self.down = nn.Linear(a.ffn, a.width, bias=False)

    def qkv_rows(self):
        return [self.heads * self.head_width, self.kv_heads * self.head_width, self.kv_heads * self.head_width]

    def forward(self, x, cosine, sine, window_mask):
        batch, sequence, width = x.shape
        q, k, v = self.qkv(self.norm_1(x)).split(self.qkv_rows(), dim=2)
        q, k, v = (t.view(batch, sequence, -1, self.head_width).transpose(1, 2) for t in (q, k, v))
        q, k = rotate(q, cosine, sine), rotate(k, cosine, sine)
        grouped = self.kv_heads != self.heads
        if grouped and not x.is_cuda:
            k, v = (t.repeat_interleave(self.heads // self.kv_heads, dim=1) for t in (k, v))
        grouped = grouped and x.is_cuda
        if window_mask is None:
            h = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)
        else:
            h = flex_attention(q, k, v, block_mask=window_mask, enable_gqa=grouped)
        x = x + self.attention_out(h.transpose(1, 2).reshape(batch, sequence, width))
        gate, up = self.gate_up(self.norm_2(x)).split(self.ffn, dim=2)
        return x + self.down(F.silu(gate) * up)


def rotate(x, cosine, sine):
    a, b = x.float().chunk(2, dim=-1)
    return torch.cat([a * cosine - b * sine, b * cosine + a * sine], dim=-1).to(x.dtype)


class Llama(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.tokens = nn.Embedding(a.vocabulary, a.width)
        self.blocks = nn.ModuleList(LlamaBlock(a) for _ in range(a.layers))
        self.norm = nn.RMSNorm(a.width, eps=a.norm_eps)
        self.head = None if a.tied else nn.Linear(a.width, a.vocabulary, bias=False)
        half = a.width // a.heads // 2
        angles = torch.arange(a.sequence)[:, None] * a.rope_theta ** (-torch.arange(half) / half)
        self.register_buffer("cosine", angles.cos(), persistent=False)
        self.register_buffer("sine", angles.sin(), persistent=False)
        self.window_mask = None
        if 0 < a.window < a.sequence:

            def sees(batch, head, query, key):
                return (query >= key) & (query - key < a.window)

            self.window_mask = create_block_mask(sees, None, None, a.sequence, a.sequence, device=a.device)
        initialise(self, [m for b in self.blocks for m in (b.attention_out, b.down)])

    def forward(self, ids, labels):
        x = self.tokens(ids)
        cosine, sine = self.cosine[: ids.shape[1]], self.sine[: ids.shape[1]]
        for block in self.blocks:
            x = block(x, cosine, sine, self.window_mask)
        head = self.tokens.weight if self.head is None else self.head.weight
        return F.cross_entropy(F.linear(self.norm(x), head).flatten(0, 1), labels.flatten())

    def hugging_face(self):
        """name -> the view of our parameter that holds it, in Hugging Face's layout."""
        views = {"model.embed_tokens.weight": self.tokens.weight, "model.norm.weight": self.norm.weight}
        if self.head is not None:
            views["lm_head.weight"] = self.head.weight
        for n, block in enumerate(self.blocks):
            q, k, v = block.qkv.weight.split(block.qkv_rows())
            gate, up = block.gate_up.weight.split(block.ffn)
            parts = {"self_attn.q_proj": q, "self_attn.k_proj": k, "self_attn.v_proj": v}
            parts |= {"self_attn.o_proj": block.attention_out.weight, "mlp.down_proj": block.down.weight}
            parts |= {"mlp.gate_proj": gate, "mlp.up_proj": up}
            parts |= {"input_layernorm": block.norm_1.weight, "post_attention_layernorm": block.norm_2.weight}
            views |= {f"model.layers.{n}.{name}.weight": view for name, view in parts.items()}
        return views


def initialise(model, residual_outputs):
    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=INITIAL_STD)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
    for module in residual_outputs:
        nn.init.normal_(module.weight, std=INITIAL_STD / math.sqrt(len(residual_outputs)))


def load_initial(model, path):
    """Copy weights of Hugging Face names in. A vocabulary smaller than ours fills the first rows."""
    given, views = load_file(path), model.hugging_face()
    given.pop("lm_head.weight", None) if "lm_head.weight" not in views else None
    if set(given) != set(views):
        sys.exit(f"{path}: missing {sorted(set(views) - set(given))}, unexpected {sorted(set(given) - set(views))}")
    with torch.no_grad():
        for name, view in views.items():
            tensor = given[name]
            if tensor.shape != view.shape and not (name.endswith(("wte.weight", "wpe.weight", "embed_tokens.weight"))):
                sys.exit(f"{path}: {name} is {tuple(tensor.shape)}, the model needs {tuple(view.shape)}")
            view[: tensor.shape[0]].copy_(tensor[: view.shape[0]])


class Windows:
    """Token windows of a file, or random tokens. Training draws from all but the held-out end of the file."""

    def __init__(self, a):
        self.sequence, self.random = a.sequence, np.random.default_rng(a.seed)
        self.vocabulary, self.held_out = a.random_vocabulary or a.vocabulary, None
        self.given, self.next = None, 0
        if a.windows is not None:
            self.given = np.fromfile(a.windows, dtype="<u2").reshape(-1, a.sequence + 1)
        if a.data is None:
            self.tokens = None
            return
        self.tokens = np.memmap(a.data, dtype=np.uint8 if a.data_type == "bytes" else np.dtype("<u2"), mode="r")
        if a.eval_data is not None:
            self.held_out = np.memmap(a.eval_data, dtype=self.tokens.dtype, mode="r")
        else:
            cut = int(len(self.tokens) * (1 - a.eval_fraction))
            self.tokens, self.held_out = self.tokens[:cut], self.tokens[cut:]
        if len(self.tokens) <= self.sequence:
            sys.exit(f"{a.data}: {len(self.tokens)} tokens to train on, fewer than one window of {self.sequence + 1}")
        largest = int(max(self.tokens.max(), self.held_out.max() if len(self.held_out) else 0))
        if largest >= a.vocabulary:
            sys.exit(f"{a.data}: token {largest} is outside the vocabulary of {a.vocabulary}")

    def draw(self, batch):
        if self.given is not None:
            self.next += batch
            return pair(self.given[self.next - batch : self.next])
        if self.tokens is None:
            return pair(self.random.integers(self.vocabulary, size=(batch, self.sequence + 1)))
        starts = self.random.integers(len(self.tokens) - self.sequence, size=batch)
        return pair(np.stack([self.tokens[s : s + self.sequence + 1] for s in starts]))

    def evaluation(self, batch, limit):
        """Whole batches of non-overlapping held-out windows, from the first on, at most `limit` windows."""
        count = min(limit, (len(self.held_out) - 1) // self.sequence) // batch * batch
        if count == 0:
            sys.exit(f"the held-out part has {len(self.held_out)} tokens, fewer than {batch} windows")
        for first in range(0, count, batch):
            starts = [n * self.sequence for n in range(first, first + batch)]
            yield pair(np.stack([self.held_out[s : s + self.sequence + 1] for s in starts]))


def pair(windows):
    windows = torch.from_numpy(windows.astype(np.int64))
    return windows[:, :-1].contiguous(), windows[:, 1:].contiguous()


def learning_rate(a, step):
    if step <= a.warmup:
        return a.lr * step / a.warmup
    if a.schedule == "constant":
        return a.lr
    progress = (step - 1 - a.warmup) / (a.steps - a.warmup)
    return a.min_lr + (a.lr - a.min_lr) * (1 + math.cos(math.pi * progress)) / 2


def make_optimizer(a, model):
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": a.weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=a.lr, betas=(a.beta1, a.beta2), eps=a.eps, fused=True)


def parallelise(a, model):
    """The model as it is called, and what autocasts: weights that FSDP gathers are bfloat16 already."""
    autocast = torch.autocast(a.device, dtype=torch.bfloat16) if a.dtype == "bfloat16" else nullcontext()
    if a.parallel == "ddp":
        wrapped = nn.parallel.DistributedDataParallel(
            model, device_ids=[a.rank] if a.device == "cuda" else None, gradient_as_bucket_view=True
        )
        return (wrapped if a.no_compile else torch.compile(wrapped)), autocast
    if a.parallel == "fsdp2":
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for block in model.blocks:
            if not a.no_compile:
                block.compile()
            fully_shard(block, mp_policy=policy)
        fully_shard(model, mp_policy=policy)
        return model, nullcontext()
    return (model if a.no_compile else torch.compile(model)), autocast


def keep_large_blocks():
    """glibc otherwise maps and unmaps every large tensor, and the kernel clears its pages anew each time."""
    libc, trim_threshold, mmap_threshold = ctypes.CDLL(None), -1, -3
    libc.mallopt(mmap_threshold, 1 << 30)
    libc.mallopt(trim_threshold, (1 << 31) - 1)


def peak_resident_bytes():
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def say(**fields):
    if int(os.environ.get("RANK", 0)) == 0:
        print(json.dumps(fields), flush=True)


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", choices=["gpt2", "llama", "mpt"])
    p.add_argument("--layers", type=int, help="default 12 (gpt2, mpt), 6 (llama)")
    p.add_argument("--width", type=int, help="default 768 (gpt2, mpt), 256 (llama)")
    p.add_argument("--heads", type=int, help="default 12 (gpt2, mpt), 8 (llama)")
    p.add_argument("--kv-heads", type=int, help="llama; default: as many as heads")
    p.add_argument("--ffn", type=int, default=704, help="llama; others have 4 x width")
    p.add_argument("--rope-theta", type=float, default=10000.0, help="llama")
    p.add_argument("--window", type=int, default=0, help="llama: keys that a query sees; 0: all before it")
    p.add_argument("--alibi-bias-max", type=float, default=8.0, help="mpt")
    p.add_argument("--norm-eps", type=float, default=1e-5)
    p.add_argument("--tied", action="store_true", help="llama: tie the head (gpt2's always is)")
    p.add_argument("--vocabulary", type=int, help="default 50304 (gpt2, its 50257 padded; mpt), 256 (llama)")
    p.add_argument("--sequence", type=int, help="default 1024 (gpt2, mpt), 256 (llama)")
    p.add_argument("--batch", type=int, help="sequences a step; default 4 (gpt2, mpt), 16 (llama)")
    p.add_argument("--micro-batch", type=int, help="sequences a forward pass; default: the batch")
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--lr", type=float, default=6e-4)
    p.add_argument("--min-lr", type=float, default=6e-5)
    p.add_argument("--warmup", type=int, default=0)
    p.add_argument("--schedule", choices=["cosine", "constant"], default="cosine")
    p.add_argument("--beta1", type=float, default=0.9)
    p.add_argument("--beta2", type=float, default=0.95)
    p.add_argument("--eps", type=float, default=1e-8)
    p.add_argument("--weight-decay", type=float, default=0.1, help="on tensors of two dimensions")
    p.add_argument("--clip", type=float, default=1.0, help="largest gradient norm; 0: no clipping")
    p.add_argument("--dtype", choices=["bfloat16", "float32", "tf32"], default="bfloat16",
                   help="of autocast; tf32: float32, whose products may round to it")
    p.add_argument("--float8", choices=["tensorwise", "rowwise"], help="of the blocks' products, by torchao's recipe")
    p.add_argument("--no-compile", action="store_true")
    p.add_argument("--no-keep-blocks", action="store_true", help="leave the allocator as glibc sets it")
    p.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    p.add_argument("--parallel", choices=["none", "ddp", "fsdp2"], default="none", help="under torchrun")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--data", help="file of tokens; without it, random tokens")
    p.add_argument("--data-type", choices=["bytes", "uint16"], default="bytes")
    p.add_argument("--random-vocabulary", type=int, help="draw random tokens below this (50257 of a padded 50304)")
    p.add_argument("--windows", help="file of windows of sequence + 1 uint16 tokens, to be trained on in this order")
    p.add_argument("--eval-data", help="held-out file; without it, the end of --data")
    p.add_argument("--eval-fraction", type=float, default=0.1)
    p.add_argument("--eval-every", type=int, default=0, help="steps; the end is always evaluated when there is data")
    p.add_argument("--eval-windows", type=int, default=1 << 30, help="at most so many")
    p.add_argument("--skip", type=int, default=2, help="first steps left out of the summary")
    p.add_argument("--init", help="safetensors file, Hugging Face names, to start from")
    p.add_argument("--dump-init", help="write the initial weights there")
    a = p.parse_args()
    gpt2 = a.model != "llama"
    defaults = {"layers": (12, 6), "width": (768, 256), "heads": (12, 8), "vocabulary": (50304, 256)}
    defaults |= {"sequence": (1024, 256), "batch": (4, 16)}
    for name, (of_gpt2, of_llama) in defaults.items():
        if getattr(a, name) is None:
            setattr(a, name, of_gpt2 if gpt2 else of_llama)
    a.kv_heads = a.kv_heads or a.heads
    a.rank, a.ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if (a.ranks > 1) != (a.parallel != "none"):
        p.error(f"--parallel {a.parallel} in {a.ranks} processes")
    if a.batch % a.ranks:
        p.error(f"batch {a.batch} must divide by {a.ranks} processes")
    a.batch //= a.ranks
    a.seed += a.rank
    a.micro_batch = min(a.micro_batch or a.batch, a.batch)
    if a.model == "mpt" and (a.init or a.dump_init or a.device == "cpu"):
        p.error("mpt has no weights by Hugging Face's names here, and FlexAttention no gradient on a CPU")
    if a.width % a.heads or a.heads % a.kv_heads:
        p.error(f"width {a.width} must divide by heads {a.heads}, and heads by key-value heads {a.kv_heads}")
    if a.batch % a.micro_batch:
        p.error(f"batch {a.batch} must divide by micro-batch {a.micro_batch}")
    if a.steps <= a.skip:
        p.error(f"--steps {a.steps} leaves nothing after --skip {a.skip}")
    return a


def main():
    a = parse_arguments()
    if not a.no_keep_blocks:
        keep_large_blocks()
    torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed - a.rank)
    if a.dtype == "tf32":
        torch.set_float32_matmul_precision("high")
    if a.parallel != "none":
        if a.device == "cuda":
            torch.cuda.set_device(a.rank)
        dist.init_process_group("nccl" if a.device == "cuda" else "gloo")
    with torch.device(a.device):
        model = {"gpt2": Gpt2, "llama": Llama, "mpt": Mpt}[a.model](a)
    if a.init:
        load_initial(model, a.init)
    if a.dump_init:
        weights = {name: view.detach().contiguous().clone() for name, view in model.hugging_face().items()}
        save_file(weights, a.dump_init, metadata={"format": "pt"})
    if a.float8:
        from torchao.float8 import Float8LinearConfig, convert_to_float8_training

        convert_to_float8_training(model.blocks, config=Float8LinearConfig.from_recipe_name(a.float8))
    loss_of, autocast = parallelise(a, model)
    optimizer = make_optimizer(a, model)
    windows, micro_steps = Windows(a), a.batch // a.micro_batch

    def evaluate(step):
        with torch.no_grad(), autocast:
            losses = [loss_of(*(t.to(a.device) for t in batch)).item() for batch in windows.evaluation(a.micro_batch, a.eval_windows)]
        evaluated = {"eval_loss": statistics.fmean(losses), "eval_windows": len(losses) * a.micro_batch}
        say(step=step, **evaluated)
        return evaluated

    losses, seconds, evaluated = [], [], {}
    for step in range(1, a.steps + 1):
        start, cpu_start = time.perf_counter(), time.process_time()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(a, step)
        loss_sum = 0.0
        for _ in range(micro_steps):
            batch = [tokens.to(a.device, non_blocking=True) for tokens in windows.draw(a.micro_batch)]
            with autocast:
                loss = loss_of(*batch)
            (loss / micro_steps).backward()
            loss_sum += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), a.clip or math.inf)
        norm = (norm.full_tensor() if a.parallel == "fsdp2" else norm).item()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.perf_counter() - start)
        losses.append(loss_sum / micro_steps)
        cpu_seconds = time.process_time() - cpu_start
        timing = {"tokens": a.batch * a.ranks * a.sequence, "seconds": seconds[-1], "cpu_seconds": cpu_seconds}
        say(step=step, loss=losses[-1], grad_norm=norm, learning_rate=learning_rate(a, step), **timing)
        if windows.held_out is not None and (step == a.steps or (a.eval_every and step % a.eval_every == 0)):
            evaluated = evaluate(step)

    rates = [a.batch * a.ranks * a.sequence / s for s in seconds[a.skip :]]
    say(
        summary=True,
        model=a.model,
        parameters=sum(p.numel() for p in model.parameters()),
        compiled=not a.no_compile,
        dtype=a.dtype,
        float8=a.float8,
        parallel=a.parallel,
        processes=a.ranks,
        threads=a.threads,
        device=torch.cuda.get_device_name() if a.device == "cuda" else "cpu",
        torch=torch.__version__,
        tokens_per_second=statistics.median(rates),
        tokens_per_second_min=min(rates),
        tokens_per_second_max=max(rates),
        steps_measured=len(rates),
        first_step_seconds=seconds[0],
        peak_resident_bytes=peak_resident_bytes(),
        peak_device_bytes=torch.cuda.max_memory_allocated() if a.device == "cuda" else None,
        first_loss=losses[0],
        last_loss=losses[-1],
        **evaluated,
    )
    if a.parallel != "none":
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
