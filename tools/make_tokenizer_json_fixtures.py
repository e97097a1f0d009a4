#!/usr/bin/env python3
"""Writes tests/fixtures/tokenizer_json/: small tokenizers in the styles that models come with, made by the package
`tokenizers`, and for each of them texts with their ids and what these decode to.

    python3 tools/make_tokenizer_json_fixtures.py CORPUS.txt... tests/fixtures/tokenizer_json

STYLE/tokenizer.json is the tokenizer; STYLE/cases.jsonl has a line for each case: `text`, `ids` (special tokens taken as
text, nothing around it), `special` (special tokens read and the template applied), `decoded` (of `special`, special
tokens included).
"""
import json
import pathlib
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from tokenizer_texts import CHOSEN, TEN_SCRIPTS, random_texts

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN = LLAMA3.replace("{1,3}", "")
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]

SPECIAL = ["<|endoftext|>", "a<|endoftext|>b", "<s>a</s> b <s>", "x <|im_start|> y<|im_end|>\n", " <tool>  z", "<tool><tool>",
           "le <mask>  mot", "le<mask>mot", "<unk> <pad>", "WORD word words aword", "<0x41><0xE2>", "ÉCOLE École e\u0301cole"]


def byte_level(pattern, size, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    if pattern is None:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer, trainers.BpeTrainer(vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                          show_progress=False)


def gpt2(corpus):
    tokenizer, trainer = byte_level(None, 1000)
    tokenizer.train_from_iterator(corpus, trainer)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return tokenizer


def llama3(corpus):
    tokenizer, trainer = byte_level(LLAMA3, 1200, ignore_merges=True)
    tokenizer.train_from_iterator(corpus, trainer)
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>"])
    begin = tokenizer.token_to_id("<|begin_of_text|>")
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=True),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|> $B:1",
                                      special_tokens=[("<|begin_of_text|>", begin)])])
    return tokenizer


def qwen(corpus):
    tokenizer, trainer = byte_level(QWEN, 1100)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.train_from_iterator(corpus, trainer)
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.add_tokens([AddedToken("<tool>", normalized=False), AddedToken("E\u0301", normalized=True)])
    return tokenizer


def mistral(corpus):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    trainer = trainers.BpeTrainer(vocab_size=1200, special_tokens=["<unk>", "<s>", "</s>"] + BYTES, show_progress=False,
                                  limit_alphabet=90)
    tokenizer.train_from_iterator(corpus, trainer)
    saved = json.loads(tokenizer.to_str())
    saved["pre_tokenizer"] = None
    saved["added_tokens"] = saved["added_tokens"][:3]
    tokenizer = Tokenizer.from_str(json.dumps(saved))
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B:1",
                                                             special_tokens=[("<s>", 1)])
    return tokenizer


def metaspace(corpus):
    """As newer conversions of SentencePiece write it: the first piece is marked, and nothing is split."""
    saved = json.loads(mistral(corpus).to_str())
    saved["normalizer"] = None
    tokenizer = Tokenizer.from_str(json.dumps(saved))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.add_tokens([AddedToken("<tool>", normalized=False), AddedToken("word", single_word=True)])
    return tokenizer


def unigram(corpus):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.train_from_iterator(corpus, trainers.UnigramTrainer(
        vocab_size=1000, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>",
                                                             special_tokens=[("</s>", 1)])
    tokenizer.add_tokens([AddedToken("<mask>", lstrip=True, special=True, normalized=True)])
    return tokenizer


def unigram_bytes(corpus):
    saved = json.loads(unigram(corpus[:1]).to_str())
    saved["model"]["vocab"] = saved["model"]["vocab"][:700] + [[token, -20.0] for token in BYTES]
    saved["model"]["byte_fallback"] = True
    saved["added_tokens"] = saved["added_tokens"][:3]
    tokenizer = Tokenizer.from_str(json.dumps(saved))
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
    return tokenizer


def mixed(corpus):
    """As many kinds of parts as one file can have."""
    tokenizer, trainer = byte_level(None, 900)
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents(),
                                                 normalizers.Strip()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=True),
        pre_tokenizers.Digits(False), pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated")])
    tokenizer.train_from_iterator(corpus, trainer)
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, rstrip=True), "<s>"])
    tokenizer.add_tokens([AddedToken("École", normalized=True), AddedToken("word", single_word=True, normalized=False),
                          AddedToken("  ", normalized=False), AddedToken("<tool>", rstrip=True, normalized=False)])
    tokenizer.post_processor = processors.RobertaProcessing(("<s>", tokenizer.token_to_id("<s>")),
                                                            ("<mask>", tokenizer.token_to_id("<mask>")))
    return tokenizer


def words(corpus):
    """Pieces without spaces, with a prefix for what continues a word and a suffix for what ends it."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="##", end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits(True)])
    tokenizer.decoder = decoders.BPEDecoder("</w>")
    tokenizer.train_from_iterator(corpus, trainers.BpeTrainer(
        vocab_size=900, special_tokens=["<unk>"], continuing_subword_prefix="##", end_of_word_suffix="</w>",
        limit_alphabet=80, show_progress=False))
    return tokenizer


STYLES = [gpt2, llama3, qwen, mistral, metaspace, unigram, unigram_bytes, mixed, words]


def case(tokenizer, text):
    tokenizer.encode_special_tokens = True
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    tokenizer.encode_special_tokens = False
    special = tokenizer.encode(text).ids
    return {"text": text, "ids": ids, "special": special,
            "decoded": tokenizer.decode(special, skip_special_tokens=False)}


def main():
    *corpora, output = sys.argv[1:]
    corpus = []
    for path in corpora:
        text = pathlib.Path(path).read_text(encoding="utf-8")
        corpus += text[:300_000].split("\n\n")
    corpus += TEN_SCRIPTS * 20
    for style in STYLES:
        folder = pathlib.Path(output) / style.__name__
        folder.mkdir(parents=True, exist_ok=True)
        tokenizer = style(corpus if style is not unigram_bytes else ["\n".join(corpus)])
        (folder / "tokenizer.json").write_text(tokenizer.to_str(), encoding="utf-8")
        texts = CHOSEN[:70] + TEN_SCRIPTS + SPECIAL + list(random_texts(80))
        with open(folder / "cases.jsonl", "w", encoding="utf-8") as file:
            for text in texts:
                if len(text) <= 160:
                    file.write(json.dumps(case(tokenizer, text)) + "\n")


main()
