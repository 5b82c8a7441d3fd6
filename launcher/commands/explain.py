"""gpulaunch explain CODE."""

import os
import sys
from collections.abc import Iterable, Iterator

import click

from launcher.commands._answer import json_option
from launcher.commands._completion import complete_codes
from launcher.commands._usage_errors import WrongUsage
from launcher.errors import BadInput
from launcher.exit_codes import ExitCode
from launcher.terminal.output import echo_json, echo_lines
from launcher.text import one_line
from preflight import regex as re
from preflight.checks.check_docs import find_check_text
from preflight.checks.explain import render_explanation

_NARROWEST = 20
_TITLED = 8  # codes named for a word of their titles
_PARAGRAPHS = ("Fix: ", "Source: ", "(", " ", "- ", "|")
"""What a line starts with that does not continue the one before it."""


@click.command()
@click.argument("codes", nargs=-1, metavar="CODE...", shell_complete=complete_codes)
@json_option
def command(codes: tuple[str, ...], *, as_json: bool) -> None:
    """Say what the CODE of a finding or a cause means, why it matters, how to fix it, and its source.

    A class of causes that `gpulaunch diagnose` names, such as cuda-oom, stands for its codes.
    """
    words = " ".join(codes).replace(",", " ").split()
    if not words:
        raise WrongUsage("gpulaunch explain needs CODE", "gpulaunch checks lists the codes")
    explanations = [(code, *explain(code)) for word in words for code in find_codes(word)]
    if as_json:
        rows = [{"code": code, "kind": kind, "text": text} for code, kind, text in explanations]
        echo_json({"schema": "gpulaunch.explain/1", "exit_code": int(ExitCode.OK), "codes": rows})
        return
    lines = "\n".join(text for _, _, text in explanations).removesuffix("\n").split("\n")
    echo_lines(wrap_paragraphs(lines, os.get_terminal_size(1).columns) if sys.stdout.isatty() else lines)


def wrap_paragraphs(lines: Iterable[str], width: int) -> Iterator[str]:
    """Yield lines anew where some are wider than `width`: a terminal would break them within words."""
    lines = list(lines)
    if width < _NARROWEST or max(map(len, lines), default=0) <= width:
        yield from lines
        return
    from textwrap import wrap  # noqa: PLC0415 - only a narrow terminal pays for it

    paragraph: list[str] = []
    for number, line in enumerate([*lines, ""]):
        if not line or line.startswith(_PARAGRAPHS):
            yield from wrap(" ".join(paragraph), width, break_long_words=False, break_on_hyphens=False)
            paragraph = []
        if line:
            paragraph.append(line)
        elif number < len(lines):
            yield ""


def find_codes(word: str) -> tuple[str, ...]:
    """Return the codes that a word means: itself, or those of a class of causes, such as `cuda-oom`."""
    if word.isalnum() and any(map(str.isdigit, word)):  # no class is so
        return (word.upper(),)
    from preflight.diagnosis.explain import list_codes_of_class  # noqa: PLC0415 - most words are codes

    return list_codes_of_class(word.lower()) or (word.upper(),)


def explain(code: str) -> tuple[str, str]:
    """Return what a code is of, and its text. Raises BadInput for an unknown one, with the nearest."""
    check = find_check_text(code)
    if check is not None:
        return "check", render_explanation(check)
    from launcher.error_codes import explain_host, list_host_codes  # noqa: PLC0415 - each kind is loaded when it is asked
    from launcher.follow.guard_codes import GUARD_CODES, explain_guard  # noqa: PLC0415

    hosts = list_host_codes()
    if code in hosts:
        return "host", explain_host(code, hosts[code])
    if code in GUARD_CODES:
        return "guard", explain_guard(code)
    from preflight.diagnosis.explain import explain_signature  # noqa: PLC0415

    explained = explain_signature(code)
    if explained is not None:
        return "signature", explained
    from preflight.script.rules.all_rules import explain_rule, list_rule_codes  # noqa: PLC0415

    if code in list_rule_codes():
        return "rule", explain_rule(code)
    raise _unknown(code)


def _unknown(code: str) -> BadInput:
    if not code.replace("-", "").replace("_", "").isalnum():
        what = f"no finding {one_line(code, 40)}: expected a code, such as PROC001 or cuda-oom"
        return BadInput(what, "the text of an error: gpulaunch diagnose - reads it")
    from difflib import get_close_matches  # noqa: PLC0415

    from launcher.commands._completion import list_codes  # noqa: PLC0415

    codes, letters = sorted(list_codes()), code.rstrip("0123456789")
    alike = [each for each in codes if each.rstrip("0123456789") == letters]
    number = code.removeprefix(letters).lstrip("0")
    near = [each for each in alike if number in ("", each.removeprefix(letters).lstrip("0"))]
    near = near or get_close_matches(code, codes, n=3, cutoff=0.6)
    if near:
        return BadInput(f"no finding {code}", f"did you mean {', '.join(near)}?")
    word = re.compile(rf"\b{code}", re.IGNORECASE)
    titled = [each for each in codes if len(code) > 2 and word.search(explain(each)[1].partition("\n")[0])]
    return BadInput(
        f"no finding {code}",
        f"codes with this word in the title ({len(titled)}): gpulaunch explain {' '.join(titled[:_TITLED])}"
        if titled
        else "gpulaunch checks lists those of preflight; gpulaunch lint, diagnose and the guard name theirs",
    )
