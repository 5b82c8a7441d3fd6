"""Names as a reader of the code meets them: one class name for one class, modules named by nouns."""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
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
