"""Names as a reader of the code meets them: classes and modules are nouns, functions verbs."""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.launcher.sources import ROOT, read

# Suffixes of gerunds, participles and adverbs, and adverbs and adjectives without one.
NO_NOUN = re.compile(r"\w*(?:ing|ed|ly|here|there|elsewhere|early|together|alike|aside)")
NOUNS = {
    "assembly": "a noun that ends as an adverb does",
    "deepspeed": "a product",
    "distributed": "torch.distributed",
    "finding": "a term of docs/glossary.md",
    "housekeeping": "a noun of its own",
    "lightning": "a product",
    "missing": "a term of docs/glossary.md: the value in place of a fact",
    "quoting": "the field's word, as in shlex",
    "recording": "a term of docs/glossary.md",
    "staging": "the field's word: files beside their place until all are complete",
}


def sources(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def test_one_public_class_name_stands_for_one_class() -> None:
    places = defaultdict(list)
    for path in sources("launcher", "preflight"):
        for name in re.findall(r"^ *class ([^\W_]\w*)[(:\[]", path.read_text(), re.MULTILINE):
            places[name].append(path.relative_to(ROOT).as_posix())
    assert len(places) > 300
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_no_module_is_named_by_a_gerund_a_participle_or_an_adverb() -> None:
    modules = list(
        sources("launcher", "preflight", "tests/launcher", "tests/preflight", "tests/lab", "bench")
    )
    assert len(modules) > 400
    found = {
        path.relative_to(ROOT).as_posix(): last
        for path in modules
        if "scripts" not in path.parts  # as users write them
        and NO_NOUN.fullmatch(last := path.stem.split("_")[-1])
    }
    assert {path: word for path, word in found.items() if word not in NOUNS} == {}
    assert set(NOUNS) == set(found.values())


# What no name of a function starts with: gerunds, participles and adverbs by their suffixes, and these words.
NO_VERB = re.compile(
    r"\w*(?:ing|ed|ly)|about|above|after|again|all|apart|around|at|before|behind|below|beside|best|between|both|by|"
    r"drawn|each|early|either|every|first|for|from|given|half|held|here|in|into|just|kept|last|latest|least|less|"
    r"like|lost|made|many|more|most|much|near|nearest|neither|new|no|none|not|now|of|off|on|once|one|only|opposite|"
    r"other|out|over|own|plain|same|several|shown|some|such|taken|the|there|to|together|under|unlike|until|upon|"
    r"usual|what|where|which|who|whole|whose|why|written"
)
VERBS = {
    "apply": "a verb that ends as an adverb does",
    "embed": "a verb that ends as a participle does",
    "multiply": "a verb that ends as an adverb does",
}
IDIOMS = {
    "each": "the notation of the tables of options",
    "emulated_bf16": "a check of the guard: its name is what it reports",
    "missing": "the value in place of a fact, made as a type is",
    "missing_gradients": "a check of the guard: its name is what it reports",
    "mismatched_dtypes": "a check of the guard: its name is what it reports",
    "mismatched_peers": "a check of the guard: its name is what it reports",
    "one_line": "a conversion, and the function that most modules use",
}
BARE_VERBS = re.compile(
    r"ask|assign|begin|call|carry|choose|decide|define|deliver|fill|find|hear|invoke|judge|keep|leave|look|lookup|"
    r"obey|patch|put|read|refuse|say|see|settle|take|tell"
)


def public_functions() -> Iterator[tuple[str, str]]:
    """Yield (path, name), without what a decorator registers: checks and rules are named by their faults."""
    for path in sources("launcher", "preflight"):
        for name in read(path).public_functions:
            yield path.relative_to(ROOT).as_posix(), name


def test_a_public_function_is_named_by_a_verb_with_its_object() -> None:
    functions = list(public_functions())
    assert len(functions) > 2000
    starts = {name: name.partition("_")[0] for _, name in functions}
    odd = {name: start for name, start in starts.items() if NO_VERB.fullmatch(start)}
    assert {name for name, start in odd.items() if start not in VERBS} == set(IDIOMS)
    assert set(odd.values()) >= set(VERBS)
    assert [(path, name) for path, name in functions if BARE_VERBS.fullmatch(name)] == []


@pytest.mark.parametrize(
    "name", ["asked", "parsed", "parsing", "at_home", "of_ranks", "both", "nearest_word"]
)
def test_what_is_not_a_verb_is_known_as_such(name: str) -> None:
    assert NO_VERB.fullmatch(name.partition("_")[0])
