#!/usr/bin/env python3
"""Makes tests/fixtures/reward: what TRL's RewardTrainer makes of the preference pairs of tests/fixtures/preference with the
tokenizer and the small Llama of tests/fixtures/chat, to which a score is added: ids, the score's first weights, 50 losses
with margins and accuracies, and 10 losses with a coefficient that centres rewards; scores of both sides by
LlamaForSequenceClassification at the beginning."""

import json
import pathlib
import sys
import tempfile

import datasets
import torch
import transformers
import trl

CHAT = pathlib.Path("tests/fixtures/chat")
OUT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "tests/fixtures/reward")
STEPS, FEW_STEPS, RATE, DECAY, CLIP, CENTER = 50, 10, 5e-4, 0.1, 1.0, 0.05


def records():
    """The pairs of the preference fixtures, with explicit prompts."""
    text = pathlib.Path("tools/make_preference_fixtures.py").read_text()
    scope = {}
    begin, end = text.index("def user("), text.index("TEXTS = [")
    exec(text[begin:end], scope)  # pylint: disable=exec-used
    return [{"prompt": prompt, "chosen": chosen, "rejected": rejected} for prompt, chosen, rejected in scope["PAIRS"]]


def load_model(tokenizer):
    torch.manual_seed(11)
    model = transformers.LlamaForSequenceClassification.from_pretrained(
        CHAT, num_labels=1, dtype=torch.float32, attn_implementation="eager")
    with torch.no_grad():
        model.score.weight.normal_(0, 0.2)
    model.config.pad_token_id = tokenizer.pad_token_id
    return model


class RecordingTrainer(trl.RewardTrainer):
    losses = None

    def compute_loss(self, model, inputs, *args, **kwargs):
        result = super().compute_loss(model, inputs, *args, **kwargs)
        loss = result[0] if isinstance(result, tuple) else result
        if self.losses is not None and model.training:
            self.losses.append(loss.item())
        return result


def train_with_trl(tokenizer, center, steps):
    model = load_model(tokenizer)
    with tempfile.TemporaryDirectory() as directory:
        config = trl.RewardConfig(
            output_dir=directory, per_device_train_batch_size=6, max_steps=steps, learning_rate=RATE,
            lr_scheduler_type="constant", warmup_steps=0, center_rewards_coefficient=center, max_length=None,
            logging_steps=1, report_to=[], use_cpu=True, bf16=False, fp16=False, gradient_checkpointing=False,
            max_grad_norm=CLIP, weight_decay=DECAY, adam_beta1=0.9, adam_beta2=0.95, adam_epsilon=1e-8,
            optim="adamw_torch", save_strategy="no", seed=1, pad_token=tokenizer.pad_token)
        trainer = RecordingTrainer(model=model, args=config, train_dataset=datasets.Dataset.from_list(records()),
                                   processing_class=tokenizer)
        ids = [{side: row[side + "_ids"] for side in ("chosen", "rejected")} for row in trainer.train_dataset]
        trainer.losses = []
        trainer.train()
    logged = [entry for entry in trainer.state.log_history if "margin" in entry]
    return ids, {"losses": trainer.losses, "margins": [entry["margin"] for entry in logged],
                 "accuracies": [entry["accuracy"] for entry in logged],
                 "grad_norms": [entry["grad_norm"] for entry in logged]}


def main():
    torch.set_num_threads(1)
    OUT.mkdir(parents=True, exist_ok=True)
    tokenizer = transformers.AutoTokenizer.from_pretrained(CHAT)
    # A token that no text has: with that of the end of a text transformers would score the token before it.
    tokenizer.pad_token = tokenizer.convert_ids_to_tokens(0)
    ids, plain = train_with_trl(tokenizer, None, STEPS)
    assert all(0 not in pair[side] for pair in ids for side in pair)
    _, centered = train_with_trl(tokenizer, CENTER, FEW_STEPS)
    model = load_model(tokenizer).eval()
    with torch.no_grad():
        scores = [{side: model(torch.tensor([pair[side]])).logits.item() for side in pair} for pair in ids]
    expected = {"versions": {name: module.__version__ for name, module in
                             (("trl", trl), ("transformers", transformers), ("torch", torch))},
                "pairs": ids, "score": model.score.weight[0].tolist(), "scores": scores, "reward": plain,
                "center": CENTER, "centered": {"losses": centered["losses"]}}
    (OUT / "expected.json").write_text(json.dumps(expected) + "\n")
    print(plain["losses"][0], plain["losses"][-1], plain["margins"][-1], centered["losses"][-1], scores[0])
    print([len(pair[side]) for pair in ids for side in pair])


main()
