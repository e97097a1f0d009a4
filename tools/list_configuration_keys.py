#!/usr/bin/env python3
"""Writes the keys of the families' configuration classes as the installed transformers has them: their defaults, and of
version 5, which checks them, the kinds of value that they take.

    tools/list_configuration_keys.py tests/fixtures/configuration_keys

tests/model/configuration_keys_test.cpp says how each is treated. PyTorch is not needed.
"""
import dataclasses
import json
import pathlib
import sys
import types
import typing

import transformers
from transformers import AutoConfig

FAMILIES = ["gemma2", "gpt2", "llama", "mistral", "mixtral", "mpt", "olmo2", "olmoe", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe"]
KINDS = {int: "integer", float: "float", bool: "boolean", str: "string", type(None): "null", list: "list", dict: "object"}


def kinds(annotation):
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return sorted({kind for part in typing.get_args(annotation) for kind in kinds(part)})
    if typing.get_origin(annotation) is typing.Literal:
        return ["string"]
    plain = typing.get_origin(annotation) or annotation
    return [KINDS[plain]] if plain in KINDS else []


def entries(config):
    defaults = {key: value for key, value in config.to_dict().items() if key != "transformers_version"}
    taken = {}
    if dataclasses.is_dataclass(config):
        # An annotation that is text names a type of PyTorch's.
        taken = {field.name: kinds(field.type) for field in dataclasses.fields(config) if not isinstance(field.type, str)}
    # The object is listed key by key.
    inner = defaults.get("attn_config")
    if inner is not None:
        inner_defaults, inner_taken = entries(config.attn_config)
        del defaults["attn_config"]
        defaults.update({f"attn_config.{key}": value for key, value in inner_defaults.items()})
        taken.update({f"attn_config.{key}": value for key, value in inner_taken.items()})
    return defaults, taken


def main():
    version = transformers.__version__
    path = pathlib.Path(sys.argv[1]) / f"transformers_{version.split('.')[0]}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        file.write(f'{{\n"version": "{version}"')
        for family in FAMILIES:
            defaults, taken = entries(AutoConfig.for_model(family))
            rows = [f'{json.dumps(key)}: {json.dumps([value, taken.get(key, [])])}' for key, value in sorted(defaults.items())]
            file.write(f',\n"{family}": {{\n' + ",\n".join(rows) + "\n}")
        file.write("\n}\n")
    print(path)


if __name__ == "__main__":
    main()
