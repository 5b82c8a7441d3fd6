"""What reading a script computes is what Python computes: each snippet is read, and run."""

import pytest

from preflight.script.analyze import analyze_script
from preflight.script.values import Const, Map, OneOf, Seq
from preflight.script.values.constants import UNKNOWN
from tests.preflight.script_cases import HERE
from tests.preflight.transcripts import WRITES_ANEW, changed_transcripts


def snippets(name: str) -> list[str]:
    """Return the snippets of a file: each is a line, in which `\\n` stands for a new one."""
    lines = (HERE / name).read_text(encoding="utf-8").splitlines()
    return [line.replace("\\n", "\n") for line in lines]


def run(snippet: str) -> object:
    names: dict[str, object] = {}
    exec(snippet, names)
    return names["p"]


def read(snippet: str) -> str:
    text = f"from accelerate import Accelerator\n{snippet}\nAccelerator(mixed_precision=p)\n"
    reading = analyze_script(text, "train.py")
    assert not reading.problem, reading.problem
    (site,) = reading.precision
    return site.value


@pytest.mark.parametrize("snippet", snippets("values_known.txt"))
def test_a_value_is_what_python_makes_of_it(snippet: str) -> None:
    assert read(snippet) == run(snippet)


@pytest.mark.parametrize("snippet", snippets("values_unknown.txt"))
def test_a_value_that_reading_does_not_compute_is_unknown_and_never_another_one(snippet: str) -> None:
    assert read(snippet) in ("", run(snippet))


def test_options_that_deepspeed_adds_leave_the_parser_as_it_was() -> None:
    added = "import deepspeed; q = deepspeed.add_config_arguments(q)"
    made = "import argparse; q = argparse.ArgumentParser(); q.add_argument('--p', default='bf16')"
    assert read(f"{made}\n{added}\np = q.parse_args().p") == "bf16"


@pytest.mark.parametrize(("depth", "known"), [(1, "bf16"), (11, "bf16"), (12, "bf16"), (13, ""), (20, "")])
def test_calls_are_followed_twelve_deep(depth: int, known: str) -> None:
    calls = "\n".join(f"def f{n}():\n    return f{n + 1}()" for n in range(1, depth))
    assert read(f"{calls}\ndef f{depth}():\n    return 'bf16'\np = f1()") == known
    assert read(f"{calls}\ndef f{depth}():\n    return 'bf16'\nf1()\np = 'no'") == "no"


def test_a_class_of_a_known_library_is_true_and_a_setting_of_another_may_be_false() -> None:
    assert read("p = 'bf16' if Accelerator else 'no'") == "bf16"
    assert read("from company import settings\np = 'bf16' if settings.Half else 'no'") == ""


def test_a_value_is_shown_by_what_it_holds() -> None:
    one, held = Const(1), "Const(value=1, place=None)"
    assert repr(Seq((one,))) == f"Seq(items=({held},), open=False)"
    assert repr(Map((("a", one),))) == f"Map(items=(('a', {held}),), open=False, places={{}})"
    assert repr(OneOf((one, UNKNOWN))) == f"OneOf(values=({held}, {UNKNOWN!r}))"


def test_what_reading_knows_at_the_end_of_a_script_is_the_whole_transcript() -> None:
    assert changed_transcripts("readings") == {}, WRITES_ANEW
