#!/usr/bin/env python3
"""Writes causeway/formats/tokenizer/unicode_ranges.inc: the code points of the Unicode general categories L and N.

Run with a Python whose character database is the version wanted; `unicodedata2` is preferred where it is installed:
    python3 tools/make_unicode_classes.py > causeway/formats/tokenizer/unicode_ranges.inc
"""
try:
    import unicodedata2 as unicodedata
except ImportError:
    import unicodedata


def ranges(category):
    found = []
    for code_point in range(0x110000):
        if unicodedata.category(chr(code_point))[0] != category:
            continue
        if found and found[-1][1] == code_point - 1:
            found[-1][1] = code_point
        else:
            found.append([code_point, code_point])
    return found


def show(name, category):
    print(f"\nconstexpr CodePointRange {name}[] = {{")
    line = "   "
    for first, last in ranges(category):
        item = f" {{0x{first:X}, 0x{last:X}}},"
        if len(line) + len(item) > 120:
            print(line)
            line = "   "
        line += item
    print(line + "\n};")


print(f"// Written by tools/make_unicode_classes.py from the Unicode character database, version "
      f"{unicodedata.unidata_version}.")
show("kLetterRanges", "L")
show("kNumberRanges", "N")
