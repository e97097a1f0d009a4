#!/usr/bin/env python3
"""What Python's str makes of texts, for `causeway evaluate`, which makes the same (causeway/evaluation/python_text.h).

    python3 tools/make_python_text.py case > causeway/evaluation/python_case.inc
    python3 tools/make_python_text.py digests > tests/evaluation/python_text_digests.inc

Run with Python 3.11, whose letters are those of Unicode 14.0. `case` needs Debian's libutf8proc2: what it says already
is left out. `digests` is of a million texts, which tests/evaluation/python_text_test.cpp draws in the same way.
"""
import ctypes
import re
import sys
import unicodedata
import zlib

assert unicodedata.unidata_version == "14.0.0"
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
CASED, IGNORED = {"Lu", "Ll", "Lt"}, {"Mn", "Me", "Cf", "Lm", "Sk"}


def show(kind, name, items, comment):
    print(f"\n// {comment}\nconstexpr {kind} {name}[] = {{")
    line = "   "
    for item in items:
        if len(line) + len(item) + 2 > 120:
            print(line)
            line = "   "
        line += f" {item},"
    print(line + "\n};")


def sigma_context(character):
    if (character + "\u03a3").lower().endswith("\u03c2"):
        return "kCased"
    return "kIgnored" if ("A" + character + "\u03a3").lower().endswith("\u03c2") else "kNone"


def case_tables():
    library = ctypes.CDLL("libutf8proc.so.2")
    library.utf8proc_category_string.restype = ctypes.c_char_p
    for c in CODE_POINTS:
        assert c in (0x130, 0x3A3) or chr(c).lower() == chr(library.utf8proc_tolower(c))
    titles, contexts = [], []
    for c in CODE_POINTS:
        title = chr(c).capitalize()
        if title != chr(library.utf8proc_totitle(c)):
            titles.append(f'{{0x{c:X}, "{title}"}}')
        category = library.utf8proc_category_string(c).decode()
        known = "kCased" if category in CASED else "kIgnored" if category in IGNORED else "kNone"
        context = sigma_context(chr(c))
        if context == known:
            continue
        if contexts and contexts[-1][1] == c - 1 and contexts[-1][2] == context:
            contexts[-1][1] = c
        else:
            contexts.append([c, c, context])
    print("// Written by tools/make_python_text.py from Python 3.11 and utf8proc 2.8.0.")
    show("TitleCase", "kTitleCases", titles, "Letters that become several at the beginning of a text.")
    ranges = [f"{{0x{first:X}, 0x{last:X}, SigmaContext::{context}}}" for first, last, context in contexts]
    show("SigmaContextRange", "kSigmaContexts", ranges, "What is not as the general category says.")


# Texts are drawn from letters that something is special about, from all there are, and from pieces that tasks look for.
PIECES = ["  ", " ", "\t", "\n", "[", "]", "[title]", " [title]", ".", ",", "'s", "_", "A", "The", "He ", "their", "because",
          "\u00df", "\u0130", "\u0131", "\u03a3", "\u03a3", "\u03c3", "\u03c2", "\u01c4", "\u01c5", "\u01c6", "\u0149", "\ufb03", "\u1f80", "\u1fb3", "\u0345", "\u00ad", "\u0301",
          "\u0307", "\u00a0", "\u3000", "\x1c", "\x1f", "\x85", "\u2028", "\u200b", "\u180e", "\ufeff", "\u3002", "\u201d", "\u2019", "\u00b7", "a", "e", "n",
          "\u00e9", "E", "\u00c9", "\u0414", "\u0434", "\u0587", "\u10d0", "\u1c90", "\u13a0", "\uab70", "\u24b6", "\u2160", "\U0001f170", "\U00010400", "\U0001f600", "\u4e2d"]
TEXTS = 1_000_000
BLOCK = 100_000


class Draws:
    """SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators)."""

    def __init__(self, seed):
        self.state = seed

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
        return z ^ (z >> 31)

    def text(self):
        parts = []
        head = self.next()
        for _ in range(head % 8):
            drawn = self.next()
            if drawn % 8 == 0:
                c = (drawn >> 8) % (0x110000 if drawn & 128 else 0x3000)
                parts.append("?" if 0xD800 <= c < 0xE000 else chr(c))
            else:
                parts.append(PIECES[(drawn >> 8) % len(PIECES)])
        return "".join(parts)


def word(text):
    words = text.split()
    return words[0] if words else ""


OPERATIONS = {
    "strip": lambda text: text.strip(),
    "rstrip": lambda text: text.rstrip(),
    "without_last": lambda text: text[:-1],
    "first_word": word,
    "lower": lambda text: text.lower(),
    "capitalize": lambda text: text.capitalize(),
    "with_lower_first": lambda text: text[:1].lower() + text[1:],
    "replace": lambda text: text.replace(" [title]", ". ").replace("  ", " "),
    "without_brackets": lambda text: re.sub("\\[.*?\\]", "", text),
    "half": lambda text: text[: len(text) // 2],
}


def digests():
    print("// Written by tools/make_python_text.py: CRC-32 of what Python makes of texts, one for each operation and block of")
    print(f"// {BLOCK} texts.")
    print("const std::vector<std::string> kPieces = {" + ", ".join(
        '"' + "".join(f"\\x{byte:02x}" if byte >= 0x80 or byte < 0x20 else chr(byte) for byte in piece.encode()) + '"'
        for piece in PIECES) + "};")
    print(f"constexpr size_t kBlock = {BLOCK};")
    print("const std::map<std::string, std::vector<uint32_t>> kDigests = {")
    values = {name: [] for name in ("text", *OPERATIONS)}
    draws = Draws(62)
    for _ in range(TEXTS // BLOCK):
        texts = [draws.text() for _ in range(BLOCK)]
        for name, operation in (("text", str), *OPERATIONS.items()):
            values[name].append(zlib.crc32("".join(operation(text) + "\0" for text in texts).encode()))
    for name, of_name in values.items():
        print(f'    {{"{name}", {{{", ".join(f"0x{value:08x}" for value in of_name)}}}}},')
    print("};")


if __name__ == "__main__":
    {"case": case_tables, "digests": digests}[sys.argv[1]]()
