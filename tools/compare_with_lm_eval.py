#!/usr/bin/env python3
"""`causeway evaluate` against EleutherAI's lm-evaluation-harness on the same models and documents.

    python tools/compare_with_lm_eval.py build/causeway --text TEXT --data DIRECTORY [--limit 200] [--shots 0 2]
        [--families llama gpt2 qwen2] [--steps 100] [--tokenizer DIRECTORY] [--sums float64]
        [--text-bytes 20000] [--keep DIRECTORY]

For each family a tiny model is made with Causeway, random (a step that changes nothing) and after --steps steps on
TEXT, and exported. Causeway judges the run's checkpoint, the harness the exported directory through transformers. Two
random models more are written by transformers, a Llama and a Mistral with a window, whose tokenizers put a token before
every text (those of tests/fixtures/tokenizer_json); both judge the same directory. All is in float32 on the processor.
Judged are the tasks in DIRECTORY (arc_easy, piqa, winograd_wsc, in the fields of LLM Foundry), the few made-up
documents of other tasks in tests/fixtures/evaluation (in the fields of the data sets that the harness reads), and the
perplexity of TEXT's first --text-bytes.

The harness runs its own tasks: the YAML files and functions that it is installed with, of which nothing changes but
where the documents come from. So that it can read LLM Foundry's fields, they are turned into those of the data sets.

Last, the texts of the tasks that have examples in a split of their own are compared, with those.

Compared are, document by document, the texts of all requests, which must be equal, and their log-likelihoods; and
acc, acc_norm and their standard errors. Exits with 1 where a text differs, or a log-likelihood by more than 1e-4 and
more than 1e-6 of its size, or an accuracy by anything. The harness adds up a continuation's tokens in float32, in which
a sum beyond 1024 is known to 1e-4 at best; with --sums float64 it takes softmax and sums in double precision
(softmax_dtype), and all of what is left is the logits'. Needs lm_eval, torch, transformers, datasets and accelerate; asks
nothing of a network.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.update(HF_DATASETS_OFFLINE="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import lm_eval
import torch
from lm_eval.api.task import ConfigurableTask
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks._yaml_loader import load_yaml
from lm_eval.utils import setup_logging
from transformers import AutoModelForCausalLM, LlamaConfig, MistralConfig

FIXTURES = Path(__file__).parent.parent / "tests" / "fixtures" / "evaluation"
TOKENIZERS = FIXTURES.parent / "tokenizer_json"
# By the tokenizer's directory: configuration, tokens that begin and end a text, and what else the model has.
WRITTEN_BY_TRANSFORMERS = {
    "llama3": (LlamaConfig, "<|begin_of_text|>", "<|end_of_text|>", {}),
    "mistral": (MistralConfig, "<s>", "</s>", {"sliding_window": 64}),
}
LARGEST_DIFFERENCE = 1e-4
LARGEST_SHARE = 1e-6
SEED = 1234
INSTALLED_TASKS = {
    "arc_easy": "arc/arc_easy.yaml",
    "arc_challenge": "arc/arc_challenge.yaml",
    "piqa": "piqa/piqa.yaml",
    "winograd_wsc": "wsc273/default.yaml",
    "wsc273": "wsc273/default.yaml",
    "hellaswag": "hellaswag/hellaswag.yaml",
    "winogrande": "winogrande/default.yaml",
    "boolq": "super_glue/boolq/default.yaml",
    "copa": "super_glue/copa/default.yaml",
    "lambada_openai": "lambada/lambada_openai.yaml",
}
ONE_SPLIT = ("winograd_wsc", "wsc273", "lambada_openai")
OWN_FIELDS = {}


def own_fields(name):
    def remember(function):
        OWN_FIELDS[name] = function
        return function

    return remember


@own_fields("arc_easy")
def arc_easy(document):
    letters = [chr(ord("A") + i) for i in range(len(document["choices"]))]
    return {
        "question": document["query"].removeprefix("Question: "),
        "choices": {"text": document["choices"], "label": letters},
        "answerKey": letters[document["gold"]],
    }


@own_fields("piqa")
def piqa(document):
    goal = document["query"].removeprefix("Question: ").removesuffix("\n")
    return {"goal": goal, "sol1": document["choices"][0], "sol2": document["choices"][1], "label": document["gold"]}


@own_fields("winograd_wsc")
def winograd_wsc(document):
    before = os.path.commonprefix(document["context_options"])
    before = before[: before.rfind(" ") + 1]  # whole words are options
    rest = document["continuation"]
    text = before + "it" + ("" if re.match(r"[.,;:!?']", rest) else " ") + rest
    return {
        "text": text,
        "pronoun": "it",
        "pronoun_loc": len(before),
        "options": [option[len(before) :] for option in document["context_options"]],
        "label": document["gold"],
    }


def write_documents(path, documents):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(document) + "\n" for document in documents))
    return str(path)


def installed_task(name, folder, shots, files, **changes):
    """The harness's own task, over documents in files by split."""
    config = load_yaml(Path(lm_eval.__file__).parent / "tasks" / INSTALLED_TASKS[name])
    for key in ("tag", "dataset_name"):
        config.pop(key, None)
    config.update(
        task=name,
        dataset_path="json",
        dataset_kwargs={"data_files": files, "cache_dir": str(folder / "cache")},
        num_fewshot=shots,
        **changes,
    )
    return ConfigurableTask(config=config)


def harness_task(name, documents, folder, shots):
    """Of one file, whose documents are the examples too."""
    files = {"test": write_documents(folder / f"{name}.jsonl", documents)}
    splits = dict(training_split=None, validation_split=None, test_split="test", fewshot_split="test")
    return installed_task(name, folder, shots, files, **splits)


def compare_examples_of_another_split(models, run, comparison, name, documents, examples, folder, shots):
    """Texts alone, of a task with the splits that it is installed with."""
    judged, drawn_from = folder / "judged", folder / "examples"
    files = {"validation": write_documents(judged / f"{name}.jsonl", documents)}
    files["test"] = files["validation"]
    files["train"] = write_documents(drawn_from / f"{name}.jsonl", examples)
    task = installed_task(name, folder, shots, files)
    task.set_fewshot_seed(SEED)
    task.build_all_requests(rank=0, world_size=1)
    _, log = models.evaluate(run, judged, [name], shots, 0, examples=drawn_from)
    ours = [(request["context"], request["continuation"]) for document in log for request in document["requests"]]
    if ours != [tuple(instance.args) for instance in task.instances]:
        comparison.fail(f"{name}: other texts, with examples of another split")
    print(f"{'examples of another split':<32}{name:<16}{len(documents):>5} documents{len(ours):>6} texts", flush=True)


class Comparison:
    def __init__(self):
        self.failures = 0

    def fail(self, text):
        self.failures += 1
        print("    DIFFERENT:", text, flush=True)

    def tasks(self, label, results, documents, samples, found):
        """Causeway's results and documents by task, the harness's samples and results."""
        for task in results["tasks"]:
            name = task["task"]
            ours = [document for document in documents if document["task"] == name]
            theirs = sorted(samples[name], key=lambda sample: sample["doc_id"])
            if len(ours) != len(theirs):
                self.fail(f"{name}: {len(ours)} documents and {len(theirs)}")
            largest = share = greedy = count = 0
            size = 0.0
            for our, their in zip(ours, theirs):
                if len(our["requests"]) != len(their["arguments"]):
                    self.fail(f"{name}, document {our['document']}: other numbers of requests")
                for request, arguments, response in zip(our["requests"], their["arguments"], their["resps"]):
                    if (request["context"], request["continuation"]) != tuple(arguments):
                        self.fail(f"{name}: {request['context']!r} {request['continuation']!r} and {arguments!r}")
                    expected, is_greedy = response[0]
                    difference = abs(request["log_likelihood"] - expected)
                    count += 1
                    largest = max(largest, difference)
                    size = max(size, abs(expected))
                    share = max(share, difference / max(1.0, abs(expected)))
                    greedy += request["greedy"] != is_greedy
                    if difference > LARGEST_DIFFERENCE and difference > LARGEST_SHARE * abs(expected):
                        self.fail(f"{name}: {request['log_likelihood']} and {expected}")
            if greedy:
                self.fail(f"{name}: {greedy} requests are greedy for one alone")
            scores = []
            for metric in ("acc", "acc_norm", "perplexity"):
                expected = found[name].get(f"{metric},none")
                if metric not in task or expected is None:
                    if (metric in task) != (expected is not None):
                        self.fail(f"{name}: {metric} is there for one alone")
                    continue
                bound = 1e-9 if metric != "perplexity" else LARGEST_DIFFERENCE * expected
                if abs(task[metric] - expected) > bound:
                    self.fail(f"{name}: {metric} {task[metric]} and {expected}")
                error = found[name].get(f"{metric}_stderr,none")
                if isinstance(error, float) and abs(task[f"{metric}_stderr"] - error) > 1e-9:
                    self.fail(f"{name}: standard error of {metric} {task[f'{metric}_stderr']} and {error}")
                scores.append(f"{metric} {task[metric]:.4f}")
            print(
                f"{label:<32}{name:<16}{len(ours):>5} documents{count:>6} requests  largest difference "
                f"{largest:.1e} of {size:.0f}, relative {share:.1e}  {', '.join(scores)}",
                flush=True,
            )

    def text(self, label, result, expected):
        difference = abs(result["log_likelihood"] - expected)
        print(
            f"{label:<32}{'text':<16}{result['tokens']:>5} tokens{result['windows']:>9} windows   difference "
            f"{difference:.1e} of {abs(expected):.0f}, relative {difference / abs(expected):.1e}  "
            f"bits per byte {result['bits_per_byte']:.4f}",
            flush=True,
        )
        if difference > LARGEST_DIFFERENCE and difference > LARGEST_SHARE * abs(expected):
            self.fail(f"text: {result['log_likelihood']} and {expected}")


class Models:
    def __init__(self, program, folder, text, steps, tokenizer):
        self.program, self.folder, self.steps = program, folder, steps
        if not (folder / "data").exists():
            if tokenizer is None:
                tokenizer = folder / "tokenizer"
                self.causeway("tokenizer", "train", text, "--vocabulary", 2000, "--output", tokenizer)
            self.causeway("data", "prepare", text, "--tokenizer", tokenizer, "--output", "data")
        description = json.loads((folder / "data" / "dataset.json").read_text())
        self.vocabulary = description["tokenizer"]["vocabulary_size"]

    def causeway(self, *arguments):
        words = [self.program, *map(str, arguments)]
        run = subprocess.run(words, cwd=self.folder, capture_output=True, text=True)
        if run.returncode != 0:
            sys.exit(f"{' '.join(words)}\n{run.stderr}")
        return run.stdout

    def make(self, family, trained):
        """A run's directory and its export."""
        name = f"{family}-{'trained' if trained else 'random'}"
        optimizer = "{learning_rate: 3e-3}" if trained else "{learning_rate: 1e-30, weight_decay: 0}"
        (self.folder / f"{name}.yaml").write_text(
            f"name: {name}\n"
            f"model: {{family: {family}, vocabulary_size: {self.vocabulary}, layers: 2, width: 64, heads: 4, "
            f"max_sequence_length: 512{'' if trained else ', initializer_range: 0.2'}}}\n"
            "data: {path: data, sequence_length: 128}\n"
            f"optimizer: {optimizer}\n"
            f"train: {{steps: {self.steps if trained else 1}, batch_size: 8, precision: f32}}\n"
        )
        if not (self.folder / "runs" / name).exists():
            self.causeway("train", f"{name}.yaml", "device=cpu", "--quiet")
        self.causeway("export", f"runs/{name}", "--output", f"{name}-hf", "--device", "cpu", "--overwrite")
        return self.folder / "runs" / name, self.folder / f"{name}-hf"

    def make_with_transformers(self, name):
        """A directory, twice: what Causeway and what the harness judges."""
        configuration, begin, end, own = WRITTEN_BY_TRANSFORMERS[name]
        directory = self.folder / f"{name}-transformers"
        torch.manual_seed(1)
        tokenizer = TOKENIZERS / name / "tokenizer.json"
        vocabulary = len(json.loads(tokenizer.read_text())["model"]["vocab"]) + 16
        model = AutoModelForCausalLM.from_config(
            configuration(
                vocab_size=vocabulary,
                hidden_size=64,
                intermediate_size=160,
                num_hidden_layers=2,
                num_attention_heads=4,
                num_key_value_heads=2,
                max_position_embeddings=512,
                initializer_range=0.2,
                **own,
            )
        )
        model.save_pretrained(directory)
        shutil.copy(tokenizer, directory)
        settings = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": begin, "eos_token": end}
        (directory / "tokenizer_config.json").write_text(json.dumps(settings))
        return directory, directory

    def evaluate(self, run, data, tasks, shots, limit, text=None, examples=None):
        words = ["evaluate", run, "--data", data, "--shots", shots, "--seed", SEED, "--limit", limit, "--device", "cpu"]
        words += ["--documents", "documents.jsonl", "--json"]
        words += ["--tasks", ",".join(tasks)] if tasks else []
        words += ["--text", text] if text else []
        words += ["--examples", examples] if examples else []
        result = json.loads(self.causeway(*words))
        lines = (self.folder / "documents.jsonl").read_text().splitlines()
        return result, [json.loads(line) for line in lines]


def read_documents(path):
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--text", required=True, type=Path)
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("--shots", type=int, nargs="*", default=[0, 2])
    parser.add_argument("--families", nargs="*", default=["llama", "gpt2"])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--text-bytes", type=int, default=20000)
    parser.add_argument("--tokenizer", type=Path, help="of the families; default: one of 2,000 tokens, trained on TEXT")
    parser.add_argument("--sums", choices=["float32", "float64"], default="float32")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    setup_logging("ERROR")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.keep or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        tokenizer = options.tokenizer and options.tokenizer.resolve()
        program = os.path.abspath(options.program)
        models = Models(program, folder, options.text.resolve(), options.steps, tokenizer)
        text = options.text.read_text()[: options.text_bytes]
        (folder / "judged.txt").write_text(text)
        comparison = Comparison()
        at_hand = {name: [fields(document) for document in read_documents(options.data / f"{name}.jsonl")]
                   for name, fields in OWN_FIELDS.items()}
        made_up = {path.stem: read_documents(path) for path in sorted(FIXTURES.glob("*.jsonl"))}
        judged = [models.make(family, trained) for family in options.families for trained in (False, True)]
        judged += [models.make_with_transformers(name) for name in WRITTEN_BY_TRANSFORMERS]
        for run, exported in judged:
            harness = HFLM(
                pretrained=str(exported),
                device="cpu",
                dtype="float32",
                softmax_dtype=options.sums,
                batch_size=32,
            )
            for shots in options.shots:
                label = f"{run.name}, {shots} shots"
                for data, sets in ((options.data.resolve(), at_hand), (FIXTURES.resolve(), made_up)):
                    results, documents = models.evaluate(run, data, sets, shots, options.limit)
                    tasks = [harness_task(name, of_task, folder, shots) for name, of_task in sets.items()]
                    found = lm_eval.simple_evaluate(
                        model=harness,
                        tasks=tasks,
                        num_fewshot=shots,
                        fewshot_random_seed=SEED,
                        limit=options.limit or None,
                        bootstrap_iters=0,
                        log_samples=True,
                        verbosity="ERROR",
                    )
                    comparison.tasks(label, results, documents, found["samples"], found["results"])
            results, _ = models.evaluate(run, FIXTURES, [], 0, 0, "judged.txt")
            request = type("Request", (), {"args": (text,)})
            expected = harness.loglikelihood_rolling([request], disable_tqdm=True)[0]
            comparison.text(run.name, results["texts"][0], expected)
        for name, documents in {**at_hand, **made_up}.items():
            if name not in ONE_SPLIT:
                half = min(100, len(documents) // 2)
                arguments = (documents[:half], documents[half:], folder, min(3, half - 1))
                compare_examples_of_another_split(models, judged[0][0], comparison, name, *arguments)
        print(f"{comparison.failures} differences")
        sys.exit(1 if comparison.failures else 0)


if __name__ == "__main__":
    main()
