"""The command line of a launch: misplaced options of the script and of other launchers are reported."""

import os
import posixpath
import shlex
from collections.abc import Iterable, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

import click

from launcher.commands._usage_errors import HOST_OPTIONS, LAUNCHERS, OTHER_OPTIONS, WrongUsage
from launcher.local.project import SUFFIXES
from launcher.text import is_line, one_line
from preflight import regex as re

_RANKS = "ranks of each host: --gpus N, on CPUs --gpus none --set processes_per_host=N"
_CHECKS = "findings that shall not stop the launch: --ignore CODES"
_OF_GPULAUNCH: dict[tuple[str, ...], str] = {
    ("--env",): "a variable of the ranks: --set env.NAME=VALUE",
    ("--ranks", "--np", "-np", "--nprocs", "--world-size", "--world_size"): _RANKS,
    ("-n",): f"the plan alone: run --dry-run; {_RANKS}",
    ("--bf16", "--fp16", "--fp8"): "mixed precision of all ranks: --precision bf16, fp16 or fp8",
    ("--use_cpu", "--use-cpu", "--no-cuda", "--no_cuda"): "on the CPU: --gpus none",
    ("--background", "--bg", "--daemon"): "without this terminal: --detach",
    ("--force", "--no-preflight", "--skip-preflight", "--no-check", "--skip-checks"): _CHECKS,
    ("--ssh-key", "--key", "--identity"): "a private key: --identity-file FILE",
    ("--log-dir", "--log_dir", "--logdir"): "the logs of ranks: --logs DIRECTORY",
    ("--python",): "the interpreter of a host: python: PATH in hosts.yaml",
}
_HINTS = {name: hint for names, hint in _OF_GPULAUNCH.items() for name in names} | HOST_OPTIONS
"""What says so in gpulaunch, for options that a script may have, too."""
_OWN_OPTIONS = ("--hosts", "--sync", "--dry-run", "--detach", "--wait", "--identity-file", "--accept-new")
_CLOSE = 0.8  # how alike a misspelt option is to the right one; `--epochs` and `--detach` are less
_VERY_CLOSE = 0.85  # how alike an option is to a key of a run config; `--mode` and `module` are less
_SHORT = len("-x")
_NO_HOST = re.compile(r"[+-]?\d*\.?\d+(e[+-]?\d+)?|[^:]*[=/].*", re.IGNORECASE)  # a number, a path, a setting
_SCRIPT_PATH = re.compile(r"[\w./~][\w./~ -]*\.py")
TYPED = "gpulaunch.typed"  # where click's context keeps the words of the command


def is_text(word: str) -> bool:
    """Return whether a word is a command as one text (`"torchrun train.py"`), not a script or a name."""
    return is_line(word) and not os.path.isfile(word) and not _is_script_path(word)  # noqa: PTH113 - of any length


def _is_script_path(text: str) -> bool:
    """Return whether a text is a script's path with a blank, behind which no program is named."""
    if not _SCRIPT_PATH.fullmatch(text):
        return False
    import shutil  # noqa: PLC0415 - only for such a text, and so is the next

    from launcher.engines.command_line.parse import names_program  # noqa: PLC0415

    first = text.split(maxsplit=1)[0]
    return shutil.which(first) is None and not names_program(first)


class LaunchCommand(click.Command):
    """A command that starts a script: an option that it does not have is mostly the script's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse; say where an unknown option belongs. Raises click.UsageError."""
        given = list(args)
        try:
            left = super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name == "-p" and "-np" not in given:  # the same for all commands
                raise
            raise WrongUsage(*_place(error, given, ctx), ctx) from None
        ctx.params["pasted"] = _is_command(given, ctx.params)
        if not ctx.params["pasted"]:
            _refuse_loose_word(given, ctx)
        ctx.meta[TYPED] = (*ctx.command_path.split(), *given)
        return left


def _refuse_loose_word(given: list[str], ctx: click.Context) -> None:
    """Raise WrongUsage for a word before `--` beside the script: a host, an argument, a second script."""
    words, config = ctx.params.get("extra") or (), ctx.params.get("config")
    loose = words[: len(words) - len(given[given.index("--") + 1 :])] if "--" in given else words
    start = ["-c", config] if config is not None else list(words[:1])
    if config is None:
        is_script = bool(loose) and (loose[0].endswith(".py") or Path(loose[0]).is_file())
        words, loose = words[1:], loose[1:] if is_script else ()
    if not loose:
        return
    word, place = one_line(loose[0], 100), given.index(loose[0])
    argument = one_line(shlex.join([*start, "--", *words]))
    if config is not None and word.endswith(".py"):
        raise WrongUsage(
            f"a script and a run config: {word} and {one_line(config, 100)}",
            f"leave one out; an argument of the config's script goes after --: {argument}",
            ctx,
        )
    option, value = ("", *given)[max(place - 1, 0)], given[place - 1]
    from launcher.config.value_remedies import as_duration  # noqa: PLC0415 - only for a mistake

    durations = {name for each in ctx.command.params if each.type.name == "duration" for name in each.opts}
    if option in durations and (hint := as_duration(f"{value} {word}")):
        raise WrongUsage(f"{option}: expected one word, got {value} {word}", hint.strip(" ()"), ctx)
    before = one_line(value, 100) if option == "--hosts" else ""
    host = f"--hosts {before},{word} names both; " if before else f"a host: --hosts {word}; "
    host = "" if _NO_HOST.fullmatch(word) else host
    name, _, given_value = word.replace(":", "=", 1).partition("=")
    if any(f"--{name}" in each.opts for each in ctx.command.params):  # `hosts=titan`, as in a run config
        host = f"an option: --{name} {given_value or next(iter(loose[1:]), '')}".strip() + "; "
    raise WrongUsage(
        f"{word}{before and f' after --hosts {before}'} would be an argument of the script",
        f"{host}an argument of the script goes last, after --: {argument}",
        ctx,
    )


def _is_command(given: list[str], params: Mapping[str, Any]) -> bool:
    """Return whether the words are a command that starts ranks today: after `--`, or by its first word."""
    words = params.get("extra") or ()
    if params.get("config") is not None or not words:
        return False
    if is_text(words[0]):
        return True
    if words[0].endswith((".py", *SUFFIXES)):
        return False
    if posixpath.basename(words[0]) in LAUNCHERS and ("/" in words[0] or not Path(words[0]).is_file()):
        return True
    first = given.index("--") if "--" in given else len(given)
    return len(given) - first - 1 == len(words)


def _place(error: click.NoSuchOption, given: list[str], ctx: click.Context) -> tuple[str, str]:
    """Return what is wrong with an option that gpulaunch does not have, and where it belongs."""
    command = ctx.command_path
    option, at = _typed(error.option_name, given)
    name = one_line(option, 100)
    wrong = f"{command} has no option {name}"
    before_script = list(takewhile(lambda word: not word.endswith(".py"), given))  # behind it they are values
    has_command = "--" in before_script[at:]
    first = next((n for n, word in enumerate(before_script) if posixpath.basename(word) in LAUNCHERS), None)
    if first is not None and not has_command:
        own, theirs = _split_own(given[first:], ctx.command.params)
        line = one_line(f"{shlex.join((*given[:first], *own))} -- {shlex.join(theirs)}".strip())
        return wrong, f"a command goes after --: {command} {line}"
    from launcher.engines.command_line.option_equivalents import find_own_option  # noqa: PLC0415 - only for a mistake

    ours = find_own_option(name)
    if ours:
        return f"{name} is an option of another launcher", f"in gpulaunch: {ours}"
    if meant := OTHER_OPTIONS.get((str(ctx.info_name), name)):
        return wrong, meant
    from difflib import get_close_matches  # noqa: PLC0415 - only for a mistake

    close = get_close_matches(name, error.possibilities or (), n=1, cutoff=_CLOSE)
    if close:
        return wrong, f"did you mean {close[0]}?"
    known = {spelling: param for param in ctx.command.params for spelling in param.opts}
    fix = f"options of the script go last, after --: {command} {_split_line(given, at, known)}"
    fix = f"{command} --help lists its options" if has_command else fix
    root = ctx.find_root().command
    run = root.get_command(ctx, "run") if isinstance(root, click.Group) and ctx.info_name != "run" else None
    if run is not None and any(name in param.opts for param in run.params):
        return wrong, f"gpulaunch run has it; {fix}"
    if hint := _HINTS.get(name):
        return wrong, f"{hint}; {fix}"
    value = given[at].partition("=")[2] if at < len(given) else ""
    setting = _setting(name, value)
    return wrong, f"{fix}; for the run config: --set {setting}" if setting else fix


def _split_own(words: list[str], params: Iterable[click.Parameter]) -> tuple[list[str], list[str]]:
    """Return the options in a command that no launcher and hardly a script has, and the rest of it."""
    flags = {name: each for each in params if isinstance(each, click.Option) for name in each.opts}
    own, theirs, rest = list[str](), list[str](), iter(words)
    for word in rest:
        param = flags.get(word.partition("=")[0]) if word.startswith(_OWN_OPTIONS) else None
        (own if param else theirs).append(word)
        if param and not param.is_flag and "=" not in word:
            own += [value for value in (next(rest, ""),) if value]
    return own, theirs


def _typed(option: str, given: list[str]) -> tuple[str, int]:
    """Return an option as it was typed, and its place: click reads `-lr` as `-l -r`."""
    for place, word in enumerate(given):
        name = word.partition("=")[0]
        if name == option or (len(option) == _SHORT and name[:1] == "-" != name[1:2] and option[1] in name):
            return name, place
    return option, len(given)


def _split_line(given: list[str], at: int, known: Mapping[str, click.Parameter]) -> str:
    """Return the words with `--` before the options of the script, the first of which is at `at`."""
    ours, theirs = given[:at], list[str]()
    into = theirs
    for place, word in enumerate(given[at:], at + 1):
        if word == "--":
            theirs += given[place:]
            break
        param = known.get(word.partition("=")[0])
        into = (ours if param else theirs) if word.startswith("-") else into
        into.append(word)
        into = theirs if isinstance(param, click.Option) and param.is_flag else into
    script = next((word for word in given if word.endswith(".py")), "")
    if script in theirs and not {"-c", "--config"}.intersection(ours):
        theirs.remove(script)
        ours.insert(0, script)
    return one_line(f"{shlex.join(ours) or '...'} -- {shlex.join(theirs)}")


def _setting(option: str, value: str) -> str:
    """Return `KEY=VALUE` for the key of a run config, holding one value, that an option is named like.

    Without a value that was typed with it: an example.
    """
    from difflib import get_close_matches  # noqa: PLC0415 - only for a mistake

    from launcher.config.schema import CONFIG_KEYS  # noqa: PLC0415 - only for a mistake
    from launcher.config.value_types import ListOf, MapOf  # noqa: PLC0415 - only for a mistake

    fields = [field for field in CONFIG_KEYS if not isinstance(field.kind, (ListOf, MapOf))]
    names = {field.name.partition("_")[0]: field for field in fields if "_" in field.name}
    names |= {field.name: field for field in fields}
    close = get_close_matches(option.lstrip("-").replace("-", "_"), names, n=1, cutoff=_VERY_CLOSE)
    if not close:
        return ""
    field = names[close[0]]
    example = "VALUE" if field.example.startswith("{") else field.example
    return f"{field.name}={shlex.quote(value) if value else example}"
