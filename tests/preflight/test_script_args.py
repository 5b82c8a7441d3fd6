"""The script's own precision switches are set to agree with the launch."""

import itertools

import pytest

from preflight.decide.script_args import align_args, find_precision_in_args, get_option
from preflight.facts.script import CodeLocation, Option, PrecisionSite, ScriptAnalysis
from preflight.job import Job, Precision

TABLE: dict[str, tuple[str, ...]] = {"fp16": ("--fp16",), "bf16": ("--bf16",)}
VALUES: dict[str, tuple[str, ...]] = {
    "fp16": ("--mixed_precision", "fp16"),
    "bf16": ("--mixed_precision", "bf16"),
}
HERE = CodeLocation("train.py", 5)


def reading(*options: Option) -> ScriptAnalysis:
    sites = tuple(
        PrecisionSite(HERE, "TrainingArguments", "", binding=False, option=item.flag) for item in options
    )
    return ScriptAnalysis("train.py", "trainer", "", sites, options)


FP16 = Option("--fp16", "fp16", takes_value=False)
BF16 = Option("--bf16", "bf16", takes_value=False)
CHOICE = Option("--mixed_precision", "", takes_value=True, choices=("no", "fp16", "bf16"), default="")


@pytest.mark.parametrize(
    ("args", "chosen", "result"),
    [
        ((), "fp16", ("--fp16",)),
        (("--epochs", "3"), "bf16", ("--epochs", "3", "--bf16")),
        (("--bf16", "--epochs", "3"), "fp16", ("--epochs", "3", "--fp16")),
        (("--fp16",), "fp16", ("--fp16",)),
        (("--fp16",), "no", ()),
        ((), "no", ()),
        (("--fp16", "--bf16"), "bf16", ("--bf16",)),
    ],
)
def test_precision_args_follow_the_decision(
    args: tuple[str, ...], chosen: Precision, result: tuple[str, ...]
) -> None:
    edit = align_args(Job(args=args, precision_args=TABLE), chosen, None)
    assert edit.args == result
    assert bool(edit.edits) == (result != args)


def test_switches_of_two_words_are_found_in_both_spellings() -> None:
    for given in (("--mixed_precision", "bf16"), ("--mixed_precision=bf16",)):
        edit = align_args(Job(args=("a", *given, "b"), precision_args=VALUES), "fp16", None)
        assert edit.args == ("a", "b", "--mixed_precision", "fp16")
        assert edit.edits[0][:2] == (" ".join(given), "--mixed_precision fp16")


def test_an_option_that_feeds_the_scripts_precision_is_added() -> None:
    assert align_args(Job(), "fp16", reading(FP16, BF16)).args == ("--fp16",)


def test_an_option_that_feeds_nothing_known_is_never_added() -> None:
    loose = ScriptAnalysis("train.py", "torch", "", (), (FP16,))
    assert align_args(Job(), "fp16", loose).args == ()


def test_a_contrary_option_is_dropped_even_if_its_use_is_unknown() -> None:
    loose = ScriptAnalysis("train.py", "torch", "", (), (FP16,))
    edit = align_args(Job(args=("--fp16", "x")), "bf16", loose)
    assert edit.args == ("x",)
    assert edit.edits[0][:2] == ("--fp16", "")


def test_an_option_with_a_value_is_corrected_and_otherwise_left_alone() -> None:
    edit = align_args(Job(args=("--mixed_precision", "bf16")), "fp16", reading(CHOICE))
    assert edit.args == ("--mixed_precision", "fp16")
    assert align_args(Job(args=("--mixed_precision", "bf16")), "fp8", reading(CHOICE)).args == ()
    assert align_args(Job(args=("--mixed_precision", "fp16")), "fp16", reading(CHOICE)).edits == ()
    assert align_args(Job(), "fp16", reading(CHOICE)).edits == ()


def test_a_contrary_default_is_overridden() -> None:
    stubborn = Option("--mixed_precision", "", takes_value=True, default="bf16")
    assert align_args(Job(), "fp16", reading(stubborn)).args == ("--mixed_precision", "fp16")


def test_a_switch_turned_off_by_hand_is_left_alone() -> None:
    typed = Option("--fp16", "fp16", takes_value=True)
    assert align_args(Job(args=("--fp16", "False")), "bf16", reading(typed)).edits == ()
    assert align_args(Job(args=("--fp16", "True", "x")), "bf16", reading(typed)).args == ("x",)
    assert align_args(Job(args=("--fp16=true", "x")), "bf16", reading(typed)).args == ("x",)


def test_the_users_own_switch_is_read_as_a_request_when_it_is_one() -> None:
    assert find_precision_in_args(Job(args=("--fp16",), precision_args=TABLE), None) == "fp16"
    assert find_precision_in_args(Job(args=("--fp16", "--bf16"), precision_args=TABLE), None) is None
    assert find_precision_in_args(Job(args=("fp16",)), None) is None


MIXED = Option("--mp", "", takes_value=True, choices=("no", "fp16", "bf16"), default="no")
ANY = Option("--any", "", takes_value=True, default="bf16")
TYPED = Option("--half", "fp16", takes_value=True)


@pytest.mark.parametrize(
    ("args", "chosen", "options", "result"),
    [
        (("--mp=bf16", "x"), "fp16", (MIXED,), ("x", "--mp", "fp16")),
        (("x", "--mp", "bf16"), "fp16", (MIXED,), ("x", "--mp", "fp16")),
        (("--mp", "bf16", "--mp", "fp16"), "fp16", (MIXED,), ("--mp", "fp16")),
        (("--mp", "other"), "fp16", (MIXED,), ("--mp", "other", "--mp", "fp16")),
        (("--mp",), "fp16", (MIXED,), ("--mp", "--mp", "fp16")),
        (("--mp", "fp16"), "no", (MIXED,), ("--mp", "no")),
        ((), "no", (MIXED,), ()),
        ((), "fp8", (MIXED,), ()),
        (("--mp", "bf16"), "fp8", (MIXED,), ()),
        ((), "bf16", (ANY,), ()),
        ((), "fp8", (ANY,), ("--any", "fp8")),
        (("--any", "no"), "fp8", (ANY,), ("--any", "fp8")),
        (("--half",), "fp16", (TYPED,), ("--half",)),
        (("--half", "yes"), "bf16", (TYPED,), ()),
        (("--half", "OFF", "x"), "bf16", (TYPED,), ("--half", "OFF", "x")),
        (("--half=0", "x"), "bf16", (TYPED,), ("--half=0", "x")),
        (("--half", "x"), "bf16", (TYPED,), ("x",)),
        (("--fp16", "True"), "bf16", (FP16, BF16), ("True", "--bf16")),
        (("--fp16", "--mp", "fp16"), "bf16", (FP16, MIXED), ("--mp", "bf16")),
        (("--bf16", "--mp", "fp16"), "bf16", (BF16, MIXED), ("--bf16",)),
    ],
)
def test_options_that_the_script_has_agree_with_the_launch(
    args: tuple[str, ...], chosen: Precision, options: tuple[Option, ...], result: tuple[str, ...]
) -> None:
    edit = align_args(Job(args=args), chosen, reading(*options))
    assert edit.args == result
    assert bool(edit.edits) is (args != result)


PIECES = ("--fp16", "--bf16", "--mixed_precision fp16", "--mixed_precision=bf16", "bf16", "x")


@pytest.mark.parametrize("table", [TABLE, VALUES, {}])
@pytest.mark.parametrize("chosen", ["no", "fp16", "bf16"])
def test_after_an_edit_the_arguments_ask_for_nothing_else_and_keep_all_other_words(
    table: dict[str, tuple[str, ...]], chosen: Precision
) -> None:
    script = None if table else reading(FP16, BF16, CHOICE)
    for pieces in itertools.product(PIECES, repeat=3):
        args = tuple(" ".join(pieces).split())
        job = Job(args=args, precision_args=table)
        edit = align_args(job, chosen, script)
        after = Job(args=edit.args, precision_args=table)
        assert find_precision_in_args(after, script) in (None, chosen)
        assert [word for word in edit.args if word == "x"] == [word for word in args if word == "x"]
        if find_precision_in_args(job, script) == chosen:
            assert edit.args == args


@pytest.mark.parametrize(
    ("args", "value"),
    [
        (("--n", "4"), 4),
        (("--n=4",), 4),
        (("--n", "x", "--n", "5"), 5),
        (("--n",), None),
        (("--m", "4"), None),
        (("--n", "-1"), None),
        (("--n", "\u0664"), None),
    ],
)
def test_an_option_has_the_first_number_that_it_is_given(args: tuple[str, ...], value: int | None) -> None:
    assert get_option(args, "--n") == value
