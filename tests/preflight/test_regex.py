"""Patterns of the client are compiled when something asks them, and all of them compile."""

import copy
import importlib
import pickle
import pkgutil
import re
from pathlib import Path
from types import ModuleType
from unittest.mock import Mock

import pytest

import launcher
import preflight
from preflight import regex

_TRAVELS = ("preflight.probes", "launcher.onhost")
"""What runs on hosts, where little but the library is."""


def test_a_pattern_answers_as_that_of_the_library() -> None:
    late, plain = regex.compile(r"(\w)(?P<rest>\w*)", regex.ASCII), re.compile(r"(\w)(?P<rest>\w*)", re.ASCII)
    assert late.findall("ab c") == plain.findall("ab c") == [("a", "b"), ("c", "")]
    assert late.sub(r"\2\1", "ab") == "ba"
    assert (late.pattern, late.flags, late.groups) == (plain.pattern, plain.flags, plain.groups)
    assert regex.compile(b"a+").fullmatch(b"aa")


def test_a_pattern_is_compiled_when_first_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = Mock(wraps=re.compile)
    monkeypatch.setattr(regex, "_compiled", compiled)
    late = regex.compile("a|b")
    compiled.assert_not_called()
    assert late.search("b")
    assert late.search("a")
    compiled.assert_called_once_with("a|b", 0)


def test_a_module_of_others_gets_patterns_that_are_compiled_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "with_patterns.py").write_text(
        "import re\nWORDS = re.compile('[ab]+', re.I)\nassert WORDS.match('A')\n"
    )
    (tmp_path / "that_fails.py").write_text("import re\nre.compile('(')\nraise ImportError\n")
    monkeypatch.syspath_prepend(tmp_path)
    library = re.compile
    module = regex.import_late("with_patterns")
    assert not isinstance(module.WORDS, re.Pattern)
    assert module.WORDS.findall("abcB") == ["ab", "B"]
    with pytest.raises(ImportError):
        regex.import_late("that_fails")
    assert re.compile is library


def test_a_wrong_pattern_says_so_at_its_use() -> None:
    late = regex.compile("(")
    with pytest.raises(regex.error, match="missing"):
        late.search("text")


def test_a_pattern_is_copied_and_pickled_as_one_of_the_library_is() -> None:
    for late in (regex.compile("a+", regex.ASCII), regex.compile(b"a+")):
        for same in (copy.copy(late), copy.deepcopy(late), pickle.loads(pickle.dumps(late))):
            assert (same.pattern, same.flags) == (late.pattern, late.flags)


def _late_patterns(module: ModuleType) -> list[re.Pattern[str]]:
    return [value for value in vars(module).values() if type(value).__name__ == "_LatePattern"]


def test_all_patterns_of_the_client_compile() -> None:
    names = [
        found.name
        for wing in (launcher, preflight)
        for found in pkgutil.walk_packages(wing.__path__, f"{wing.__name__}.")
        if not found.name.startswith(_TRAVELS) and "__main__" not in found.name
    ]
    late = [each for name in names for each in _late_patterns(importlib.import_module(name))]
    assert len(late) > 1000
    assert all(isinstance(each.pattern, str | bytes) for each in late)
