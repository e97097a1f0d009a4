#!/usr/bin/env python3
"""Makes tests/fixtures/preference: preference pairs, and what TRL makes of them with the tokenizer and the small Llama of
tests/fixtures/chat: ids, which of them are the completion's, 50 losses of direct preference optimization with the
figures beside them, and some losses of IPO; and losses of SimPO and ORPO by a few lines of PyTorch."""

import json
import pathlib
import sys
import tempfile

import datasets
import torch
import transformers
import trl

CHAT = pathlib.Path("tests/fixtures/chat")
OUT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "tests/fixtures/preference")
STEPS, FEW_STEPS, RATE, DECAY, CLIP = 50, 10, 5e-4, 0.1, 1.0


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


# Prompt, chosen, rejected.
PAIRS = [
    ([user("What is two and two?")], [assistant("Four.")], [assistant("Two and two is twenty-two, I think.")]),
    ([{"role": "system", "content": "You are terse."}, user("Name a colour.")], [assistant("Blue.")],
     [assistant("There are many colours, and one of them is blue.")]),
    ([user("Say it right."), assistant("wrong"), user("Once more.")], [assistant("It is right.")],
     [assistant("It is wrong.")]),
    ([user("Cafe\u0301 or te\u0301?")], [assistant("Un cafe\u0301, s\u2019il vous pla\u00eet \U0001F600")],
     [assistant("No.")]),
    ([user("Count.")], [assistant("1, 2, 3")], [assistant("3, 2, 1, 0, and so on")]),
    ([user("Hello there")], [assistant("Hello! How are you?")], [assistant("Go away.")]),
]
TEXTS = [
    {"prompt": "The capital of France is", "chosen": " Paris.", "rejected": " Rome, as far as I know."},
    {"prompt": "Two and two is", "chosen": " four", "rejected": " five"},
]


def lines_of_pairs():
    """In each form that a prompt may stand in."""
    for i, (prompt, chosen, rejected) in enumerate(PAIRS):
        if i % 3 == 0:
            yield {"prompt": prompt, "chosen": chosen, "rejected": rejected}
        elif i % 3 == 1:
            yield {"chosen": prompt + chosen, "rejected": prompt + rejected, "score_chosen": 9.0}
        else:
            yield {"prompt": prompt[-1]["content"], "chosen": prompt + chosen, "rejected": prompt + rejected}


def load_model():
    return transformers.LlamaForCausalLM.from_pretrained(CHAT, dtype=torch.float32, attn_implementation="eager")


class RecordingTrainer(trl.DPOTrainer):
    losses = None

    def compute_loss(self, model, inputs, *args, **kwargs):
        result = super().compute_loss(model, inputs, *args, **kwargs)
        loss = result[0] if isinstance(result, tuple) else result
        if self.losses is not None and model.training:
            self.losses.append(loss.item())
        return result


def make_trainer(tokenizer, records, loss, steps):
    model = load_model()
    with tempfile.TemporaryDirectory() as directory:
        config = trl.DPOConfig(
            output_dir=directory, per_device_train_batch_size=len(records), max_steps=steps, learning_rate=RATE,
            lr_scheduler_type="constant", warmup_steps=0, beta=0.1, loss_type=[loss], max_length=None, logging_steps=1,
            report_to=[], use_cpu=True, bf16=False, fp16=False, gradient_checkpointing=False, max_grad_norm=CLIP,
            weight_decay=DECAY, adam_beta1=0.9, adam_beta2=0.95, adam_epsilon=1e-8, optim="adamw_torch",
            save_strategy="no", seed=1)
        trainer = RecordingTrainer(model=model, args=config, train_dataset=datasets.Dataset.from_list(records),
                                   processing_class=tokenizer)
        return trainer


def ids_of(trainer):
    return [{side: {"ids": row["prompt_ids"] + row[side + "_ids"],
                    "targets": [0] * len(row["prompt_ids"]) + [1] * len(row[side + "_ids"])}
             for side in ("chosen", "rejected")} for row in trainer.train_dataset]


def train_with_trl(tokenizer, records, loss, steps):
    trainer = make_trainer(tokenizer, records, loss, steps)
    trainer.losses = []
    trainer.train()
    logged = [entry for entry in trainer.state.log_history if "rewards/margins" in entry]
    return trainer, {"losses": trainer.losses,
                     "margins": [entry["rewards/margins"] for entry in logged],
                     "accuracies": [entry["rewards/accuracies"] for entry in logged],
                     "chosen_rewards": [entry["rewards/chosen"] for entry in logged],
                     "rejected_rewards": [entry["rewards/rejected"] for entry in logged]}


def log_probability(model, side):
    ids, targets = torch.tensor(side["ids"]), torch.tensor(side["targets"], dtype=torch.float32)
    log_softmax = torch.log_softmax(model(ids[None, :-1]).logits[0], -1)
    return (log_softmax.gather(-1, ids[1:, None])[:, 0] * targets[1:]).sum()


def train_plainly(samples, loss_of):
    """Full batches; `loss_of` is given log p and the number of targets of both sides of every pair."""
    model = load_model()
    optimizer = torch.optim.AdamW(
        [{"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": DECAY},
         {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}],
        lr=RATE, betas=(0.9, 0.95), eps=1e-8)
    losses = []
    for _ in range(FEW_STEPS):
        optimizer.zero_grad()
        chosen = torch.stack([log_probability(model, pair["chosen"]) for pair in samples])
        rejected = torch.stack([log_probability(model, pair["rejected"]) for pair in samples])
        counts = [torch.tensor([float(sum(pair[side]["targets"])) for pair in samples])
                  for side in ("chosen", "rejected")]
        loss = loss_of(chosen, rejected, *counts)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        losses.append(loss.item())
    return losses


def simpo(chosen, rejected, chosen_count, rejected_count, beta=2.0, margin=0.5):
    ahead = beta * (chosen / chosen_count - rejected / rejected_count) - margin
    return -torch.nn.functional.logsigmoid(ahead).mean()


def orpo(chosen, rejected, chosen_count, rejected_count, beta=0.1):
    a, b = chosen / chosen_count, rejected / rejected_count
    odds = (a - torch.log1p(-torch.exp(a))) - (b - torch.log1p(-torch.exp(b)))
    return -chosen.sum() / chosen_count.sum() - beta * torch.nn.functional.logsigmoid(odds).mean()


def main():
    torch.manual_seed(7)
    torch.set_num_threads(1)
    OUT.mkdir(parents=True, exist_ok=True)
    tokenizer = transformers.AutoTokenizer.from_pretrained(CHAT)
    records = [{"prompt": prompt, "chosen": chosen, "rejected": rejected} for prompt, chosen, rejected in PAIRS]
    (OUT / "pairs.jsonl").write_text("".join(json.dumps(record) + "\n" for record in lines_of_pairs()))
    (OUT / "texts.jsonl").write_text("".join(json.dumps(record) + "\n" for record in TEXTS))
    trainer, dpo = train_with_trl(tokenizer, records, "sigmoid", STEPS)
    samples = ids_of(trainer)
    _, ipo = train_with_trl(tokenizer, records, "ipo", FEW_STEPS)
    texts = make_trainer(tokenizer, TEXTS, "sigmoid", 1)
    expected = {"versions": {name: module.__version__ for name, module in
                             (("trl", trl), ("transformers", transformers), ("torch", torch))},
                "pairs": samples, "texts": ids_of(texts), "dpo": dpo, "ipo": ipo,
                "simpo": train_plainly(samples, simpo), "orpo": train_plainly(samples, orpo)}
    (OUT / "expected.json").write_text(json.dumps(expected) + "\n")
    for name in ("dpo", "ipo"):
        print(name, expected[name]["losses"][0], expected[name]["losses"][-1], expected[name]["margins"][-1])
    for name in ("simpo", "orpo"):
        print(name, expected[name][0], expected[name][-1])
    print([len(pair[side]["ids"]) for pair in samples for side in ("chosen", "rejected")])


main()
