#!/usr/bin/env python3
"""Makes tests/fixtures/grpo: completions and rewards that are drawn at random, and what TRL's GRPOTrainer makes of them with
the small Llama of tests/fixtures/chat: advantages as it computes them, and losses, gradient norms, divergences and shares
of clipped tokens of some optimizer steps for each kind of loss. Nothing is sampled: its loss is given the completions."""

import json
import pathlib
import sys
import tempfile

import datasets
import torch
import transformers
import trl
from trl.trainer.utils import nanstd

CHAT = pathlib.Path("tests/fixtures/chat")
OUT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "tests/fixtures/grpo")
GROUP, PROMPTS, ROLLOUTS, LONGEST, END = 3, 2, 6, 9, 2
DECAY, CLIP = 0.1, 1.0

CASES = {
    "grpo": {"loss_type": "grpo", "rate": 5e-4, "iterations": 1, "beta": 0.0, "epsilon": 0.2, "epsilon_high": 0.2,
             "temperature": 1.0, "scale": "group", "mask_truncated": False},
    "dapo": {"loss_type": "dapo", "rate": 4e-3, "iterations": 3, "beta": 0.04, "epsilon": 0.2, "epsilon_high": 0.28,
             "temperature": 0.8, "scale": "batch", "mask_truncated": False},
    "dr_grpo": {"loss_type": "dr_grpo", "rate": 2e-3, "iterations": 2, "beta": 0.1, "epsilon": 0.1,
                "epsilon_high": 0.1, "temperature": 1.3, "scale": "none", "mask_truncated": True},
}


def draw_rollouts():
    generator = torch.Generator().manual_seed(5)

    def integers(low, high, count):
        return torch.randint(low, high, (count,), generator=generator).tolist()

    rollouts = []
    for number in range(ROLLOUTS):
        rows = []
        for _ in range(PROMPTS):
            prompt = integers(3, 300, integers(2, 9, 1)[0])
            rewards = [round(value, 3) for value in torch.rand(GROUP, generator=generator).tolist()]
            if number == 2 and not rows:
                rewards = [1.0] * GROUP  # teaches nothing
            for reward in rewards:
                tokens = integers(3, 300, integers(1, LONGEST + 1, 1)[0])
                is_truncated = len(tokens) == LONGEST
                if not is_truncated:
                    tokens.append(END)
                rows.append({"prompt": prompt, "tokens": tokens, "truncated": is_truncated, "reward": reward})
        rollouts.append(rows)
    return rollouts


def advantages_of(rows, scale):
    rewards = torch.tensor([row["reward"] for row in rows])
    grouped = rewards.view(-1, GROUP)
    advantages = rewards - grouped.mean(dim=1).repeat_interleave(GROUP)
    if scale == "group":
        advantages = advantages / (nanstd(grouped, dim=1).repeat_interleave(GROUP) + 1e-4)
    elif scale == "batch":
        advantages = advantages / (nanstd(rewards) + 1e-4)
    return advantages


def padded(lists, on_left):
    width = max(len(one) for one in lists)
    ids, mask = [], []
    for one in lists:
        fill = [0] * (width - len(one))
        ids.append(fill + one if on_left else one + fill)
        mask.append([0] * len(fill) + [1] * len(one) if on_left else [1] * len(one) + [0] * len(fill))
    return torch.tensor(ids), torch.tensor(mask)


def load_model():
    return transformers.LlamaForCausalLM.from_pretrained(CHAT, dtype=torch.float32, attn_implementation="eager")


def make_trainer(tokenizer, case):
    with tempfile.TemporaryDirectory() as directory:
        config = trl.GRPOConfig(
            output_dir=directory, per_device_train_batch_size=GROUP * PROMPTS, num_generations=GROUP,
            max_completion_length=LONGEST, loss_type=case["loss_type"], num_iterations=case["iterations"],
            beta=case["beta"], epsilon=case["epsilon"], epsilon_high=case["epsilon_high"],
            temperature=case["temperature"], scale_rewards=case["scale"], report_to=[], use_cpu=True, bf16=False,
            fp16=False, gradient_checkpointing=False, mask_truncated_completions=case["mask_truncated"])
        return trl.GRPOTrainer(model=load_model(), args=config, processing_class=tokenizer,
                               reward_funcs=lambda completions, **_: [0.0] * len(completions),
                               train_dataset=datasets.Dataset.from_list([{"prompt": "x"}] * 2))


def inputs_of(rows, case):
    prompt_ids, prompt_mask = padded([row["prompt"] for row in rows], True)
    completion_ids, completion_mask = padded([row["tokens"] for row in rows], False)
    if case["mask_truncated"]:
        completion_mask = completion_mask * torch.tensor([[0 if row["truncated"] else 1] for row in rows])
    return {"prompt_ids": prompt_ids, "prompt_mask": prompt_mask, "completion_ids": completion_ids,
            "completion_mask": completion_mask, "advantages": advantages_of(rows, case["scale"]),
            "num_items_in_batch": completion_mask.sum()}


def log_probabilities(trainer, model, inputs, whole_mask):
    ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
    mask = torch.cat([inputs["prompt_mask"], whole_mask], dim=1)
    with torch.no_grad():
        return trainer._get_per_token_logps_and_entropies(model, ids, mask, inputs["completion_ids"].size(1))[0]


def train(tokenizer, rollouts, case):
    trainer = make_trainer(tokenizer, case)
    trainer.current_gradient_accumulation_steps = 1
    trainer.args.steps_per_generation = 1
    model = trainer.model.train()
    if case["beta"] > 0:
        reference = trainer.ref_model
    optimizer = torch.optim.AdamW(
        [{"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": DECAY},
         {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}],
        lr=case["rate"], betas=(0.9, 0.95), eps=1e-8)
    results = {"losses": [], "grad_norms": [], "kl": [], "clip_ratio_low": [], "clip_ratio_high": [], "advantages": []}
    for rows in rollouts:
        inputs = inputs_of(rows, case)
        results["advantages"].append(inputs["advantages"].tolist())
        if case["iterations"] > 1:
            inputs["old_per_token_logps"] = log_probabilities(trainer, model, inputs, inputs["completion_mask"])
        if case["beta"] > 0:
            inputs["ref_per_token_logps"] = log_probabilities(trainer, reference, inputs, inputs["completion_mask"])
        for _ in range(case["iterations"]):
            trainer._metrics["train"].clear()
            optimizer.zero_grad()
            loss = trainer._compute_loss(model, inputs)
            loss.backward()
            results["grad_norms"].append(torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP).item())
            optimizer.step()
            results["losses"].append(loss.item())
            logged = trainer._metrics["train"]
            results["clip_ratio_low"].append(logged["clip_ratio/low_mean"][0])
            results["clip_ratio_high"].append(logged["clip_ratio/high_mean"][0])
            if case["beta"] > 0:
                results["kl"].append(logged["kl"][0])
    return results


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    OUT.mkdir(parents=True, exist_ok=True)
    tokenizer = transformers.AutoTokenizer.from_pretrained(CHAT)
    rollouts = draw_rollouts()
    expected = {"versions": {name: module.__version__ for name, module in
                             (("trl", trl), ("transformers", transformers), ("torch", torch))},
                "group": GROUP, "longest": LONGEST, "rollouts": rollouts,
                "cases": {name: {"config": case, **train(tokenizer, rollouts, case)} for name, case in CASES.items()}}
    (OUT / "expected.json").write_text(json.dumps(expected) + "\n")
    for name, case in expected["cases"].items():
        print(name, case["losses"][:4], case["grad_norms"][:2], case["kl"][-2:], case["clip_ratio_low"],
              case["clip_ratio_high"])


main()
