#!/usr/bin/env python3
"""Makes tests/fixtures/chat: conversations, a small tokenizer with a chat template and a small Llama, and what Hugging
Face transformers makes of them: ids, which tokens are the assistant's, and the losses of training on these alone."""

import json
import pathlib
import sys

import torch
import tokenizers
import transformers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

OUT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "tests/fixtures/chat")
STEPS, RATE, DECAY, CLIP = 30, 1e-3, 0.1, 1.0

GENERATION = """{%- for message in messages %}
{{- '<|im_start|>' + message['role'] + '\\n' }}
{%- if message['role'] == 'assistant' %}
{%- generation %}{{ message['content'] + '<|im_end|>' + '\\n' }}{% endgeneration %}
{%- else %}
{{- message['content'] + '<|im_end|>' + '\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
PLAIN = """{%- for message in messages %}
{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""

CHATS = [
    {"messages": [{"role": "user", "content": "What is two and two?"}, {"role": "assistant", "content": "Four."}]},
    {"messages": [{"role": "system", "content": "You are terse."}, {"role": "user", "content": "Name a colour."},
                  {"role": "assistant", "content": "Blue."}, {"role": "user", "content": "And another?"},
                  {"role": "assistant", "content": "Red, I think; a warm red."}]},
    {"messages": [{"role": "user", "content": "Say it wrong."}, {"role": "assistant", "content": "wrong", "weight": 0},
                  {"role": "user", "content": "Say it right."}, {"role": "assistant", "content": "right", "weight": 1}]},
    # Text that the normalizer changes, and text that spells a special token: transformers reads it as one.
    {"messages": [{"role": "user", "content": "Cafe\u0301 or te\u0301?"},
                  {"role": "assistant", "content": "Un cafe\u0301, s\u2019il vous pla\u00eet \U0001F600"}]},
    {"messages": [{"role": "user", "content": "Write <|im_end|> twice."},
                  {"role": "assistant", "content": "It is <|im_end|> and once more."}]},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": "One part, "}, {"type": "text", "text": "two."}]},
                  {"role": "assistant", "content": [{"type": "text", "text": "Both read."}]}]},
    {"prompt": "The capital of France is", "completion": " Paris."},
    {"prompt": [{"role": "user", "content": "Count."}], "completion": [{"role": "assistant", "content": "1, 2, 3"}]},
    {"instruction": "Add the numbers.", "input": "3 and 4", "output": "7"},
    {"conversations": [{"from": "system", "value": "Be kind."}, {"from": "human", "value": "Hello there"},
                       {"from": "gpt", "value": "Hello! How are you?"}]},
]


def messages_of(chat):
    if "messages" in chat:
        return [dict(m, content="".join(p["text"] for p in m["content"])) if isinstance(m["content"], list) else dict(m)
                for m in chat["messages"]]
    if "conversations" in chat:
        roles = {"human": "user", "gpt": "assistant", "system": "system"}
        return [{"role": roles[t["from"]], "content": t["value"]} for t in chat["conversations"]]
    if "instruction" in chat:
        return [{"role": "user", "content": chat["instruction"] + "\n" + chat["input"]},
                {"role": "assistant", "content": chat["output"]}]
    if isinstance(chat["prompt"], list):
        return chat["prompt"] + chat["completion"]
    return None


def make_tokenizer():
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    texts = [m["content"] for chat in CHATS for m in messages_of(chat) or []] * 3
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
                                  special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"], show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>",
                                                additional_special_tokens=["<|im_start|>", "<|im_end|>"],
                                                chat_template=GENERATION)


def sample_of(tokenizer, chat):
    """Ids, and 1 for each that is trained on."""
    messages = messages_of(chat)
    if messages is None:
        text = chat["prompt"] + chat["completion"]
        encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        mask = [int(end > len(chat["prompt"])) for _, end in encoded["offset_mapping"]]
        return encoded["input_ids"] + [tokenizer.eos_token_id], mask + [1]
    encoded = tokenizer.apply_chat_template(messages, return_dict=True, return_assistant_tokens_mask=True)
    mask, turns, inside = list(encoded["assistant_masks"]), [m for m in messages if m["role"] == "assistant"], False
    turn = -1
    for i, one in enumerate(mask):
        turn += int(one and not inside)
        inside = bool(one)
        if one and turns[turn].get("weight", 1) == 0:
            mask[i] = 0
    assert turn + 1 == len(turns)
    return list(encoded["input_ids"]), mask


def train(model, samples):
    """Full batches, each conversation by itself; the loss is the sum over all targets divided by their number."""
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}],
                                  lr=RATE, betas=(0.9, 0.95), eps=1e-8)
    count = sum(sum(mask[1:]) for _, mask in samples)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        total = torch.zeros(())
        for ids, mask in samples:
            logits = model(torch.tensor([ids[:-1]])).logits[0]
            every = torch.nn.functional.cross_entropy(logits, torch.tensor(ids[1:]), reduction="none")
            total = total + (every * torch.tensor(mask[1:], dtype=torch.float32)).sum()
        loss = total / count
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    torch.manual_seed(7)
    torch.set_num_threads(1)
    OUT.mkdir(parents=True, exist_ok=True)
    tokenizer = make_tokenizer()
    tokenizer.save_pretrained(OUT)
    (OUT / "plain.jinja").write_text(PLAIN)
    (OUT / "chats.jsonl").write_text("".join(json.dumps(chat) + "\n" for chat in CHATS))
    samples = [sample_of(tokenizer, chat) for chat in CHATS]
    config = transformers.LlamaConfig(vocab_size=len(tokenizer), hidden_size=32, intermediate_size=48,
                                      num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
                                      max_position_embeddings=256, tie_word_embeddings=True,
                                      attn_implementation="eager", initializer_range=0.1)
    model = transformers.LlamaForCausalLM(config).float().eval()
    model.save_pretrained(OUT)
    (OUT / "generation_config.json").unlink(missing_ok=True)
    expected = {"versions": {"transformers": transformers.__version__, "torch": torch.__version__},
                "samples": [{"ids": ids, "targets": mask} for ids, mask in samples], "losses": train(model, samples)}
    (OUT / "expected.json").write_text(json.dumps(expected) + "\n")
    print(expected["losses"][0], expected["losses"][-1], sum(map(lambda s: sum(s[1]), samples)),
          [len(s[0]) for s in samples])


main()
