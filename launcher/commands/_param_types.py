"""What several commands take: a run config, GPUs, durations, precisions, the directory of local logs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from launcher.commands._completion import complete_configs, complete_findings, complete_hosts, complete_words
from launcher.config.precision_names import PRECISION_ALIASES, PRECISIONS
from launcher.durations import EXPECTED, format_duration, parse_duration
from launcher.errors import BadInput
from launcher.local.home import expand_home
from launcher.local.project import RUNS, local_runs_dir
from launcher.local.safe_paths import find_nearest_existing
from launcher.rundir.run_id import RUN_NAME_RULE, is_run_name

Function = TypeVar("Function", bound=Callable[..., Any])


def flag(*words: str) -> Callable[[Function], Function]:
    """Return an option without a value: its spellings, and last its help."""
    *names, text = words
    return click.option(*names, is_flag=True, help=text)


set_option = click.option(
    "--set", "sets", multiple=True, metavar="KEY=VALUE", help="Override a key of the run config; repeatable."
)
gpus_option = click.option(
    "--gpus",
    default="",
    metavar="WHICH",
    shell_complete=complete_words("gpus"),
    help="all, none, auto, a count per host, or indices (0-3,6) or UUIDs.",
)
ignore_option = click.option(
    "--ignore",
    multiple=True,
    metavar="CODES",
    shell_complete=complete_findings,
    help="Codes of findings that stop nothing, and are still shown; repeatable.",
)
plain_option = flag("--plain", "Whole lines only, as into a pipe; nothing is redrawn.")
all_ranks_option = flag(
    "--all-ranks", "Every line of every rank: repeated ones on a terminal, and those of more than 512 ranks."
)


def hosts_option(text: str, name: str = "hosts") -> Callable[[Function], Function]:
    """Return the option --hosts, which may be given several times; `text` is its help."""
    return click.option(
        "--hosts",
        name,
        multiple=True,
        metavar="WORDS",
        shell_complete=complete_hosts,
        help=f"{text}; repeatable.",
    )


def key_option(option: str, key: str, metavar: str, text: str) -> Callable[[Function], Function]:
    """Return an option whose text is the value of a key of the run config; `text` is its help.

    All that are typed come to the command as `keys`, see `Overrides`.
    """

    def keep(ctx: click.Context, _param: click.Parameter, value: str) -> None:
        keys = ctx.params.setdefault("keys", {})
        if value:
            keys[key] = (option, value)

    return click.option(
        option,
        default="",
        metavar=metavar,
        shell_complete=complete_words(key),
        callback=keep,
        expose_value=False,
        help=text,
    )


def host_option(text: str, option: str = "--host") -> Callable[[Function], Function]:
    """Return an option that names one host; `text` is its help."""
    return click.option(option, default="", metavar="HOST", shell_complete=complete_hosts, help=text)


def config_option(text: str) -> Callable[[Function], Function]:
    """Return the option --config; `text` is its help."""
    return click.option("-c", "--config", metavar="NAME", shell_complete=complete_configs, help=text)


launch_option = click.option(
    "--launch",
    type=click.IntRange(1),
    metavar="N",
    help="Which command of a COMMAND that is a text of several; without it they are listed.",
)


def logs_option(text: str, name: str = "logs") -> Callable[[Function], Function]:
    """Return the option --logs, which is given to the command as `name`; `text` is its help."""
    text = f"{text}  [default: {RUNS}]"  # click would put words of ours in parentheses
    return click.option(
        "--logs", name, type=LogDirectoryParam(), default=local_runs_dir, show_default=False, help=text
    )


class LocalPathParam(click.Path):
    """A local path. A `~` that no shell has replaced (`--option=~/x`, quotes) is the home."""

    def __init__(self, **kind: bool) -> None:
        """`kind`: what click.Path takes."""
        super().__init__(path_type=Path, **kind)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path. Raises BadInput for a home that does not exist, and what click.Path raises."""
        return super().convert(str(expand_home(value)) if str(value).startswith("~") else value, param, ctx)


class WrittenFileParam(LocalPathParam):
    """A local file to write, over one of its own kind only: no script or hosts.yaml in its place is lost."""

    def __init__(self, kind: str, start: bytes) -> None:
        """`start`: the first bytes of each file of the kind, in lower case."""
        super().__init__(dir_okay=False)
        self._kind, self._start = kind, start

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path. Raises BadInput where a file of another kind has that name."""
        path = Path(super().convert(value, param, ctx))
        if path.is_file():
            with path.open("rb") as file:
                start = file.read(len(self._start)).lower()
            if start and start != self._start:
                option = param.opts[0] if param else path
                raise BadInput(
                    f"{option} would write over {path}, which is not {self._kind}",
                    "give it the name of a new file",
                )
        return path


page_param = WrittenFileParam("a page", b"<!doctype html>")


class LogDirectoryParam(LocalPathParam):
    """A local directory that exists or can be made: a launch finds out before it asks a host."""

    def __init__(self) -> None:
        super().__init__(file_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path. Fails where it, or what it is to lie in, is a file."""
        path = Path(super().convert(value, param, ctx))
        nearest = find_nearest_existing(path)
        if not nearest.is_dir():
            self.fail(f"Directory '{path}' cannot be made: '{nearest}' is not a directory.", param, ctx)
        return path


class DurationParam(click.FloatRange):
    """Seconds within bounds, written as `90`, `30s`, `10m`, `2h` or `30d`."""

    name = "duration"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """Return what --help shows."""
        del param, ctx
        return "DURATION"

    def _describe_range(self) -> str:
        """Return what --help shows beside the default."""
        bounds = (("at least", self.min), ("at most", self.max))
        return ", ".join(f"{word} {format_duration(bound)}" for word, bound in bounds if bound)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds. Raises click.BadParameter."""
        seconds = parse_duration(str(value))
        if seconds is None:
            self.fail(f'expected {EXPECTED}, got "{value}"', param, ctx)
        if not (self.min or 0) <= seconds <= (self.max or seconds):
            self.fail(f"expected {self._describe_range()}, got {value}", param, ctx)
        return seconds


class RunNameParam(click.ParamType):  # type: ignore[type-arg] # generic from click 8.2 on only
    """The name of a run as its id and directory have it; "" where none is given."""

    name = "run name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name. Raises click.BadParameter."""
        if value and not is_run_name(str(value)):
            self.fail(f'expected {RUN_NAME_RULE}, got "{value}"', param, ctx)
        return str(value)


class PrecisionParam(click.Choice):  # type: ignore[type-arg] # generic from click 8.2 on only
    """A mixed precision in accelerate's words; `fp32` and torch's names are understood."""

    def __init__(self, words: tuple[str, ...] = PRECISIONS) -> None:
        super().__init__(words)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return accelerate's word. Raises click.BadParameter."""
        return str(super().convert(PRECISION_ALIASES.get(str(value), value), param, ctx))
