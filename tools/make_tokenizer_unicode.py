#!/usr/bin/env python3
"""Writes causeway/formats/tokenizer/tokenizer_unicode.inc: where the package `tokenizers` and Causeway's libraries know
different versions of Unicode.

    python3 tools/make_tokenizer_unicode.py > causeway/formats/tokenizer/tokenizer_unicode.inc

Run with Python 3.11, whose own database is 14.0 as that of Debian 12's PCRE2 is, with the packages `tokenizers` and
unicodedata2 of 16.0, which is the version of the regular expressions of `tokenizers`. Its other parts have tables of
their own, which are asked here one character at a time.
"""
import unicodedata

import unicodedata2
from tokenizers import __version__, normalizers, pre_tokenizers

assert unicodedata.unidata_version == "14.0.0" and unicodedata2.unidata_version == "16.0.0"
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def runs(rows):
    """Rows [code point, rest...] as [first, last, rest...], where neighbours have the same rest."""
    found = []
    for code_point, *rest in rows:
        if found and found[-1][1] == code_point - 1 and found[-1][2:] == rest:
            found[-1][1] = code_point
        else:
            found.append([code_point, code_point, *rest])
    return found


def show(kind, name, rows, comment):
    print(f"\n// {comment}\nconstexpr {kind} {name}[] = {{")
    line = "   "
    for first, last, *rest in runs(rows):
        item = f" {{0x{first:X}, 0x{last:X}" + "".join(f", {one}" for one in rest) + "},"
        if len(line) + len(item) > 120:
            print(line)
            line = "   "
        line += item
    print(line + "\n};")


def is_known_to_normalizers(character):
    if unicodedata2.normalize("NFKD", character) != normalizers.NFKD().normalize_str(character):
        return False
    if unicodedata2.normalize("NFC", unicodedata2.normalize("NFD", character)) != \
            normalizers.NFC().normalize_str(unicodedata2.normalize("NFD", character)):
        return False
    combining = unicodedata2.combining(character)
    if combining == 0:
        return True
    text = "a" + (character + "\u0334" if combining > 1 else "\u0301" + character)
    return normalizers.NFD().normalize_str(text) == unicodedata2.normalize("NFD", text)


def is_punctuation(character):
    return pre_tokenizers.Punctuation("removed").pre_tokenize_str(character) == []


def main():
    print("// Written by tools/make_tokenizer_unicode.py from Unicode 16.0, Unicode 14.0 and "
          f"tokenizers {__version__}.")
    rows = []
    for c in CODE_POINTS:
        old, new = unicodedata.category(chr(c)), unicodedata2.category(chr(c))
        if old != new:
            rows.append([c, f"UTF8PROC_CATEGORY_{old.upper()}", f"UTF8PROC_CATEGORY_{new.upper()}"])
    show("CategoryChange", "kCategoryChanges", rows, "General categories of 16.0 that were others in 14.0.")
    # A starter that only newer compositions have (U+11930) composes with nothing.
    unknown = {c for c in CODE_POINTS if not is_known_to_normalizers(chr(c))}
    for c in sorted(unknown):
        decomposed = unicodedata2.normalize("NFD", chr(c))
        unknown |= {ord(part) for part in decomposed[1:] if ord(part) > 0xFFFF}
    show("CodePoints", "kUnknownToNormalForms", [[c] for c in sorted(unknown)],
         "To the normal forms these are characters that neither decompose, combine nor compose.")
    rows = [[c, "true" if is_punctuation(chr(c)) else "false"] for c in CODE_POINTS[128:]
            if is_punctuation(chr(c)) != (unicodedata2.category(chr(c))[0] == "P")]
    show("CodePointsThatAre", "kPunctuationChanges", rows, "Whether Punctuation takes these, against their category.")
    strip = normalizers.StripAccents()
    rows = [[c, "true" if strip.normalize_str(chr(c)) == "" else "false"] for c in CODE_POINTS
            if (strip.normalize_str(chr(c)) == "") != (unicodedata2.category(chr(c))[0] == "M")]
    show("CodePointsThatAre", "kMarkChanges", rows, "Whether StripAccents takes these, against their category.")
    lower = normalizers.Lowercase()
    rows = []
    for c in CODE_POINTS:
        made = lower.normalize_str(chr(c))
        if made != chr(c).lower():
            rows.append([c, ord(made) - c])
    show("LowerCase", "kLowerCaseChanges", rows, "Lower cases that 15.0 does not know: how far up they are.")


main()
