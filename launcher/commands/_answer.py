"""What a command says: lines for people, or with --json one document and the lines on stderr."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from launcher.config.host_access_args import complete_commands, complete_run_commands
from launcher.errors import ConfirmationRequired, GpulaunchError
from launcher.local.atomic_write import write_atomic
from launcher.terminal.cell_width import StyledLine
from launcher.terminal.output import echo, echo_json, echo_text
from launcher.text import sanitize

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


class Answer:
    """The answer of one command; `finish` ends it."""

    def __init__(self, schema: str, *, as_json: bool) -> None:
        self._schema = schema
        self._as_json = as_json
        self.needs_output = not as_json  # where it fails, the command ends
        self.words: tuple[str, ...] = ()  # by which another command about the run finds its hosts

    def say(self, line: StyledLine = "", *, err: bool = False) -> None:
        """Say one line to a person."""
        with suppress(*(OSError,) * (not self.needs_output)):
            echo(
                complete_run_commands(line, self.words) if isinstance(line, str) else line,
                err=err or self._as_json,
            )

    def confirm(self, question: str, fix: str = "use --yes in scripts") -> bool:
        """Ask the user; with --json on stderr. Raises ConfirmationRequired without a terminal."""
        try:
            return confirm(question, err=self._as_json)
        except click.Abort as error:
            if not isinstance(error.__context__, EOFError):  # Ctrl-C
                raise
            self.say(err=True)  # the question is on this line
            raise ConfirmationRequired(fix) from None

    def finish(self, exit_code: int, **keys: Any) -> int:
        """Print the document with --json; return the exit code."""
        if self._as_json:
            echo_json({"schema": self._schema, "exit_code": int(exit_code), **keys})
        return exit_code


def encode_error(error: GpulaunchError | None, words: Sequence[str] = ()) -> dict[str, Any] | None:
    """Return the error of one host as a document holds it; None where there is none.

    `words`: see `complete_run_commands`.
    """
    if error is None:
        return None
    return {"code": error.code, "message": error.detail, "fix": complete_run_commands(error.fix, words)}


def encode_unreachable(errors: Mapping[str, GpulaunchError], words: Sequence[str] = ()) -> dict[str, Any]:
    """Return why hosts were not asked and what to do, by name; see `complete_commands` for `words`."""
    fixes = {name: complete_commands(error.fix, words) for name, error in errors.items() if error.fix}
    details = {name: sanitize(error.detail, keep_lines=False) for name, error in errors.items()}
    return {"unreachable": details, "unreachable_fixes": fixes}


def confirm(question: str, *, err: bool = False) -> bool:
    """Ask the person; no is the answer of who only presses Enter. `err` asks on stderr."""
    return click.confirm(sanitize(question, keep_lines=False), err=err)


def leave_page(page: str, target: Path) -> None:
    """Print an HTML page where the target is -, else write it and say how large it is."""
    if str(target) == "-":
        echo_text(page)
        return
    write_atomic(target, page)
    echo(f"{target}: {len(page.encode()) / 1024:.0f} KiB", err=True)
