"""gpulaunch lint SCRIPT: precision, placement and version faults, found by reading."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import click

from launcher.commands._answer import confirm, json_option
from launcher.commands._option_rules import forbid_together, require_another
from launcher.commands._param_types import PrecisionParam, config_option, flag
from launcher.config.precision_names import PRECISIONS
from launcher.errors import BadInput
from launcher.exit_codes import ExitCode
from launcher.lint.formats import lint_json, lint_lines, render_sarif
from launcher.local.installed_version import read_installed_version
from launcher.local.source_files import find_decoding_error, read_source
from launcher.terminal.output import echo, echo_json, echo_lines, echo_text
from launcher.text import one_line
from preflight.facts.gpu import Capability
from preflight.facts.script import CodeLocation
from preflight.frozen import dataclass
from preflight.job import Job
from preflight.job import Precision as MixedPrecision
from preflight.script.lint import LintResult, judge_syntax_error, lint_for
from preflight.script.rules.registry import Level
from preflight.script.target import ASSUMED_CAPABILITIES, RankTarget

_PACKAGES = ("torch", "transformers", "accelerate", "peft", "trl")


@dataclass(frozen=True, slots=True)
class LintOptions:
    """The values of what `lint` takes."""

    processes: int | None
    capability: tuple[str, ...]
    cpu: bool
    precision: MixedPrecision | None
    script_args: str
    versions: tuple[str, ...]
    quiet: bool
    fix: bool
    yes: bool
    as_json: bool
    as_sarif: bool


@click.command()
@click.argument("scripts", nargs=-1, metavar="SCRIPT...", type=click.Path(dir_okay=False, path_type=Path))
@config_option("Run config: its script, arguments and precision.")
@click.option("--processes", type=click.IntRange(1), metavar="N", help="World size to judge for.")
@click.option(
    "--capability", multiple=True, metavar="X.Y", help="Compute capability of the GPUs; repeatable."
)
@flag("--cpu", "Judge for CPU ranks.")
@click.option(
    "--precision", type=PrecisionParam(PRECISIONS[1:]), help="Mixed precision that the launch gives."
)
@click.option("--args", "script_args", default="", metavar="WORDS", help="The script's own arguments.")
@click.option(
    "--version", "versions", multiple=True, metavar="PACKAGE=X.Y", help="What is installed on the host."
)
@flag("--quiet", "Leave out what is only worth knowing.")
@flag("--fix", "Show mechanical fixes as a diff, and write them after a yes.")
@flag("-y", "--yes", "With --fix: write without asking.")
@json_option
@flag("--sarif", "as_sarif", "Print SARIF 2.1.0.")
@forbid_together("--fix", "--json --sarif", "shows a diff, which is not part of the document")
@forbid_together("--json", "--sarif", "prints one document")
@forbid_together("--cpu", "--capability", "judges for ranks without a GPU")
@require_another("--yes", "--fix")
def command(scripts: tuple[Path, ...], config: str | None, **given: Any) -> int:
    """Read training scripts, and the modules of their own that they import, without executing them."""
    options = LintOptions(**given)
    job = None
    if config:
        from launcher.config.config_overrides import Overrides  # noqa: PLC0415 - a third of the start
        from launcher.config.run_config import load_run_config  # noqa: PLC0415 - a third of the start

        job = load_run_config(config, Overrides())
    paths = list(scripts)
    _refuse_arguments(paths)
    if job is not None and not paths:
        paths = [job.local_script or Path(job.job.script_in_tree)]
    if not paths:
        raise BadInput("no script is named", "gpulaunch lint train.py")
    targets = _targets(job.job if job else Job(), options)
    certain = bool(options.capability) or bool(options.cpu)
    results = [_lint(path, targets, certain=certain) for path in paths]
    bad = any(result.errors or result.problems for result in results)
    code = ExitCode.NEGATIVE if bad else ExitCode.OK
    shown = [_without_info(result) for result in results] if options.quiet else results
    if options.as_json:
        echo_json({**lint_json(shown), "exit_code": int(code)})
    elif options.as_sarif:
        echo_json(render_sarif(shown))
    else:
        echo_lines(lint_lines(shown, _lines))
    if options.fix:
        for path, result in zip(paths, results, strict=True):
            _fix_all(path, result, targets, certain=certain, sure=options.yes)
    return code


def _refuse_arguments(paths: Sequence[Path]) -> None:
    """Raise BadInput for arguments of the script behind its name and `--`, where `run` has them."""
    first = next((n for n, path in enumerate(paths) if str(path).startswith("-") and not path.exists()), None)
    if first:
        words = list(map(str, paths))
        line = one_line(f"{shlex.join(words[:first])} --args {shlex.quote(shlex.join(words[first:]))}", 400)
        raise BadInput(
            f"{one_line(words[first], 100)} is an argument of the script", f"gpulaunch lint {line}"
        )


def _without_info(result: LintResult) -> LintResult:
    return replace(result, findings=tuple(f for f in result.findings if f.level is not Level.INFO))


def _fix_all(
    path: Path, result: LintResult, targets: Sequence[RankTarget], *, certain: bool, sure: bool
) -> None:
    """Show what would change in the script and in its own modules; write it only after a yes."""
    from launcher.lint.fix import UnfixedFinding, diff, fix_script  # noqa: PLC0415 - only with --fix

    change: dict[str, str] = {}
    left: list[UnfixedFinding] = []
    for name in result.files:
        try:
            before = Path(name).read_bytes().decode("utf-8")
        except ValueError:
            left.append(
                UnfixedFinding(CodeLocation(name, 1), "P100", "the file is not UTF-8, and stays as it is")
            )
            continue
        fixing = fix_script(before, name, result.findings)
        left += fixing.unfixed
        if fixing.text != before:
            change[name] = fixing.text
            echo_text(diff(before, fixing.text, name))
    for item in left:
        echo(f"{item.place}: {item.code} is left to you: {item.reason}")
    if not change:
        echo(f"{path}: nothing that can be fixed mechanically")
        return
    after = lint_for(change.get(str(path), _text(str(path)) or ""), str(path), targets, certain=certain,
                     find=lambda name: change.get(name) or _text(name))  # fmt: skip
    new = {item.code for item in after.findings if item.level is Level.ERROR}
    new -= {item.code for item in result.findings}
    if new:
        echo(f"{path}: not written: the change would bring {', '.join(sorted(new))}")
        return
    echo(f"errors: {result.errors} before, {after.errors} after this change")
    if sure or confirm(f"write {', '.join(change)}?"):
        for name, text in change.items():
            Path(name).write_bytes(text.encode("utf-8"))


def _lint(path: Path, targets: Sequence[RankTarget], *, certain: bool) -> LintResult:
    text = _text(str(path))
    if text is None:
        from launcher.config.config_search import is_config_name  # noqa: PLC0415 - only for a mistake

        fix = f"gpulaunch lint --config {path}" if is_config_name(str(path)) else "name a Python file"
        raise BadInput(f"{path}: no such file, or it cannot be read", fix)
    if "\N{REPLACEMENT CHARACTER}" in text and (error := find_decoding_error(str(path))):
        return judge_syntax_error(str(path), error)
    return lint_for(text, str(path), targets, certain=certain, find=_text)


_text = cache(read_source)


@cache
def _lines(path: str) -> Sequence[str]:
    return (_text(path) or "").splitlines()


def _targets(job: Job, options: LintOptions) -> list[RankTarget]:
    args = _words(options.script_args) or job.args or None
    launch = options.precision or (None if job.precision == "auto" else job.precision)
    cpu = RankTarget(None, options.processes, launch, args, _installed() | _given_versions(options.versions))
    if options.cpu or (job.gpus == "none" and not options.capability):
        return [cpu]
    capabilities = tuple(_capability(word) for word in options.capability)
    return [replace(cpu, capability=item) for item in capabilities or ASSUMED_CAPABILITIES]


def _words(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise BadInput(f"--args {text}: {error}", "close the quotation") from None


def _capability(word: str) -> Capability:
    match = re.fullmatch(r"(\d+)\.(\d+)", word)
    if match is None:
        raise BadInput(f"--capability {word}: expected two numbers such as 7.5", "--capability 8.9")
    return int(match[1]), int(match[2])


def _given_versions(words: Sequence[str]) -> dict[str, str]:
    pairs = [word.partition("=") for word in words]
    for name, _, value in pairs:
        if not name or not value:
            raise BadInput(f"--version {name}: expected PACKAGE=X.Y", "--version transformers=4.57")
    return {name.lower(): value for name, _, value in pairs}


def _installed() -> dict[str, str]:
    """Return the versions installed beside gpulaunch; a package that is absent stays unknown."""
    found = {name: read_installed_version(name) for name in _PACKAGES}
    return {name: version for name, version in found.items() if version}
