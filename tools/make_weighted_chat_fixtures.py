#!/usr/bin/env python3
"""Makes tests/fixtures/chat/weighted.json and weighted_expected.json: conversations, as one list, whose turns weigh
something else than 1, by the tokenizer and the model of make_chat_fixtures.py; and what transformers and PyTorch make of
them: ids, what each weighs, and the losses of training, the weighted sum over all targets divided by the sum of their
weights."""

import json
import pathlib
import sys

import torch
import transformers

OUT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "tests/fixtures/chat")
STEPS, RATE, DECAY, CLIP = 30, 1e-3, 0.1, 1.0

CHATS = [
    {"messages": [{"role": "user", "content": "Name a colour."},
                  {"role": "assistant", "content": "Blue.", "weight": 0.25}, {"role": "user", "content": "And another?"},
                  {"role": "assistant", "content": "Red, I think; a warm red.", "weight": 2}]},
    {"messages": [{"role": "user", "content": "What is two and two?"}, {"role": "assistant", "content": "Four."}]},
    {"messages": [{"role": "user", "content": "Say it wrong."}, {"role": "assistant", "content": "wrong", "weight": 0},
                  {"role": "user", "content": "Say it right."},
                  {"role": "assistant", "content": "right, and once more", "weight": 0.1}]},
    {"messages": [{"role": "user", "content": "Count."}, {"role": "assistant", "content": "1, 2, 3", "weight": 7.5}]},
]


def sample_of(tokenizer, chat):
    """Ids, and what each weighs."""
    encoded = tokenizer.apply_chat_template(chat["messages"], return_dict=True, return_assistant_tokens_mask=True)
    turns = [m for m in chat["messages"] if m["role"] == "assistant"]
    weights, turn, inside = [], -1, False
    for one in encoded["assistant_masks"]:
        turn += int(one and not inside)
        inside = bool(one)
        weights.append(float(turns[turn].get("weight", 1)) if one else 0.0)
    assert turn + 1 == len(turns)
    return list(encoded["input_ids"]), weights


def train(model, samples):
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}],
                                  lr=RATE, betas=(0.9, 0.95), eps=1e-8)
    sum_of_weights = sum(sum(weights[1:]) for _, weights in samples)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        total = torch.zeros(())
        for ids, weights in samples:
            logits = model(torch.tensor([ids[:-1]])).logits[0]
            every = torch.nn.functional.cross_entropy(logits, torch.tensor(ids[1:]), reduction="none")
            total = total + (every * torch.tensor(weights[1:])).sum()
        loss = total / sum_of_weights
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    torch.set_num_threads(1)
    tokenizer = transformers.AutoTokenizer.from_pretrained(OUT)
    model = transformers.AutoModelForCausalLM.from_pretrained(OUT, attn_implementation="eager").float().eval()
    (OUT / "weighted.json").write_text(json.dumps(CHATS, indent=1) + "\n")
    samples = [sample_of(tokenizer, chat) for chat in CHATS]
    expected = {"versions": {"transformers": transformers.__version__, "torch": torch.__version__},
                "samples": [{"ids": ids, "weights": weights} for ids, weights in samples],
                "losses": train(model, samples)}
    (OUT / "weighted_expected.json").write_text(json.dumps(expected) + "\n")
    print(expected["losses"][0], expected["losses"][-1], [(len(ids), sum(w[1:])) for ids, w in samples])


main()
