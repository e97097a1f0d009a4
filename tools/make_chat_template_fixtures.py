#!/usr/bin/env python3
"""Writes what transformers makes of the chat templates under tests/fixtures/chat_template/ (transformers 5, jinja2 3.1).

    python3 tools/make_chat_template_fixtures.py tests/fixtures/chat_template

language.txt holds templates of one or a few constructs each, between lines of "====="; all are rendered with
language_input.json, and language.jsonl gets `text` or `error` for each, in their order. styles/NAME.jinja are templates as
models have them, and styles/NAME.marked.jinja the same with {% generation %} around what the assistant says; chats.jsonl
gets a line for each style and conversation: `style`, `input`, `text` or `error`, and `targets`, the marked characters.
"""
import datetime
import json
import pathlib
import random
import sys

from transformers.utils import chat_template_utils

DATE = "2024-07-26 10:11:12"
TEXTS = ["Hello there", "", "  padded  ", "line\nbreak\n", "<|turn|>assistant\nfake", "日本語 é 🎉", "</think>\n\nseen",
         "{\"a\": \"<b>&'\\\"\"}", "assistant", "<end>\n", "42", " [/ASK] x", "[ASSISTANT] ", "tab\tquote\"back\\slash"]
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "Of a \"city\" é", "parameters": {
             "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}},
         {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}]
ARGUMENTS = [{"city": "Paris", "days": 2}, {"b": 2.5, "a": [1, None, True]}, {}, {"s": "é \"q\" <>&'", "x": 1e20}]


class FixedTime(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromisoformat(DATE)


def render(template, given, with_marks=False):
    """(text, marks), or (None, message) where the template fails."""
    try:
        chat = chat_template_utils._normalize_chat_messages(given["messages"])
        texts, marks = chat_template_utils.render_jinja_template(
            [chat], tools=given.get("tools"), documents=given.get("documents"), chat_template=template,
            add_generation_prompt=given.get("add_generation_prompt", False), return_assistant_tokens_mask=with_marks,
            **given.get("variables", {}))
        return texts[0], marks[0] if with_marks else []
    except Exception as error:
        return None, str(error)


def conversation(style, seed):
    draw = random.Random(f"{style} {seed}")
    text = lambda: draw.choice(TEXTS)
    content = lambda: ([{"type": "text", "text": text()}, {"type": "image"}] if style == "parts" and draw.random() < 0.3
                       else text())
    messages = [{"role": "system", "content": content()}] if draw.random() < 0.5 else []
    for turn in range(draw.choice([1, 2, 3])):
        messages.append({"role": "user", "content": content()})
        answer = {"role": "assistant", "content": content()}
        if draw.random() < 0.3:
            answer[draw.choice(["reasoning_content", "thinking", "reasoning"])] = text()
        messages.append(answer)
        if style in ("turns", "answered_in_the_turn") and draw.random() < 0.5:
            count = draw.choice([1, 2])
            answer["tool_calls"] = [{"type": "function", "function": {
                "name": draw.choice(["weather", "add"]), "arguments": draw.choice(ARGUMENTS)}} for _ in range(count)]
            answer["content"] = draw.choice([None, "", text()])
            messages += [{"role": "tool", "content": text()} for _ in range(draw.choice([0, count]))]
            messages.append({"role": "assistant", "content": text()})
        elif draw.random() < 0.1:
            messages.append({"role": "assistant", "content": content()})
    if draw.random() < 0.2:
        messages.append({"role": "user", "content": content()})
    given = {"messages": messages, "variables": {"bos_token": "<s>", "eos_token": "</s>"}}
    if draw.random() < 0.3:
        given["tools"] = TOOLS[:draw.choice([1, 2])]
    if draw.random() < 0.2:
        given["variables"]["enable_thinking"] = draw.random() < 0.5
    return given


def write_lines(path, lines):
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")


def main():
    directory = pathlib.Path(sys.argv[1])
    chat_template_utils.datetime = FixedTime
    given = json.loads((directory / "language_input.json").read_text(encoding="utf-8"))
    lines = []
    for template in (directory / "language.txt").read_text(encoding="utf-8").split("\n=====\n"):
        text, error = render(template, given)
        lines.append({"text": text} if text is not None else {"error": error})
    write_lines(directory / "language.jsonl", lines)

    chats = []
    for path in sorted((directory / "styles").glob("*.marked.jinja")):
        style = path.name.removesuffix(".marked.jinja")
        marked, plain = path.read_text(encoding="utf-8"), path.with_name(style + ".jinja").read_text(encoding="utf-8")
        for seed in range(14):
            chat = conversation(style, seed)
            text, marks = render(marked, chat, with_marks=True)
            if text is None:
                chats.append({"style": style, "input": chat, "error": marks})
                continue
            assert render(plain, chat)[0] == text, (style, seed)
            chats.append({"style": style, "input": chat, "text": text, "targets": marks})
            prompted = dict(chat, add_generation_prompt=True)
            chats.append({"style": style, "input": prompted, "text": render(plain, prompted)[0]})
    write_lines(directory / "chats.jsonl", chats)


if __name__ == "__main__":
    main()
