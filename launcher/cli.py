"""The command line: a table of commands, each imported when it is called, and the one error handler."""

import atexit
import errno
import gc
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import chain, repeat, takewhile
from typing import TYPE_CHECKING, TextIO

import click

from launcher.errors import BadInput, ConfirmationRequired, GpulaunchError, RunAborted
from launcher.exit_codes import ExitCode
from launcher.local.address_space import demand_address_space
from launcher.terminal.cell_width import StyledLine
from launcher.terminal.output import FULL_ERRNOS, codes_printed, echo, echo_json, echo_lines
from launcher.text import one_line

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_ENVIRONMENT_FIXES = {
    **dict.fromkeys(
        (errno.EACCES, errno.EPERM), "name a file that you may read or write; ls -ld shows whose it is"
    ),
    errno.EROFS: "name a place on another file system, or cd to one (fetch: --to DIRECTORY)",
    errno.ENOTDIR: "a directory of this path is a file: correct it",
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "ulimit -n 4096, then try again"),
}
_MEDIUM_ERRNOS = frozenset({errno.EIO, errno.ESTALE})  # of a read or write, which names no file
COLUMNS = 80
_SHOWN_NAME = 60
_LONGEST_LINE = 4000  # of an error, which repeats what was typed
GROUPS: dict[str, dict[str, str]] = {
    "Get started": {"init": "Find the hosts' Python environments; write the first files."},
    "Check and launch": {
        "preflight": "Check hosts before a launch; change nothing on them.",
        "run": "Check, launch on all hosts, follow to the end.",
        "submit": "Submit a run to Slurm as one batch job.",
        "bench": "Measure every free GPU and the links between hosts.",
        "clean-zombies": "End what dead runs left: ranks, ports, GPU memory.",
    },
    "Prove a script before a long run": {
        "lint": "Find precision and placement faults by reading it.",
        "rehearse": "Take a few real steps; leave nothing behind.",
    },
    "Live runs and GPUs": {
        "top": "Show all GPUs of all hosts live: use, memory, who holds them.",
        "ps": "List runs: state, step and loss, GPUs, who, since when.",
        "logs": "Print what the ranks of a run have printed, or follow it.",
        "attach": "Follow a live run again, from this machine or another one.",
        "stacks": "Show what every rank of a run is executing; the run continues.",
        "forward": "Forward a port of a run's host to this machine: TensorBoard.",
        "stop": "Stop a run on all of its hosts.",
    },
    "Finished runs": {
        "diagnose": "Find what killed a run, from its log.",
        "report": "Report how a run went: text, HTML with plots, JSON.",
        "fetch": "Copy a run's logs and output to this machine.",
        "rm": "Delete a run's logs and records from its hosts.",
        "prune": "Delete those of all runs that ended long ago.",
    },
    "Look things up": {
        "explain": "Say what a finding's code means and what to do.",
        "checks": "List every check of a preflight.",
        "record": "Save a host's facts, to be judged again anywhere.",
        "ssh-config": "Print hosts.yaml for ssh, scp, rsync and editors to Include.",
        "schema": "Print the JSON Schema of hosts.yaml or of run configs.",
    },
}
"""The commands in the order of --help, each with its line in it."""
COMMANDS: dict[str, str] = {name: line for lines in GROUPS.values() for name, line in lines.items()}


def find_module(name: str) -> str:
    """Return the module whose `command` a command is."""
    return f"launcher.commands.{name.replace('-', '_')}"


class LazyGroup(click.Group):
    """Lists commands from the table, so that --help and completion import none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the table's order."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        from launcher.commands._examples import render_examples  # noqa: PLC0415 - the list of commands has none

        command = import_module(find_module(cmd_name)).command
        gc.freeze()  # the modules stay: to look through them at each collection costs many hosts 3 % of CPU
        if not isinstance(command, click.Command):
            raise TypeError(f"{find_module(cmd_name)}.command is not a click command")
        command.epilog = render_examples(cmd_name)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse; without any word, print the help as a mistake: nothing was done."""
        if not args and not ctx.resilient_parsing:
            for line in self.get_help(ctx).splitlines():
                echo(line, err=True)
            ctx.exit(ExitCode.USAGE)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or name the nearest one."""
        name = args[0]
        if name not in COMMANDS and not ctx.resilient_parsing and not name.startswith("-"):
            from launcher.commands._usage_errors import explain_unknown_command  # noqa: PLC0415 - only for a mistake

            raise explain_unknown_command(name, COMMANDS, ctx, args[1:])
        found = super().resolve_command(ctx, args)
        if (
            found[1] is not None
            and not ctx.resilient_parsing
            and any(not word or word[-1] == "=" for word in args)
        ):
            from launcher.commands._usage_errors import refuse_empty_words  # noqa: PLC0415 - only for a mistake

            refuse_empty_words(found[1], found[2], ctx)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table, its groups as columns of one width."""
        del ctx
        width = max(map(len, COMMANDS))
        for group, lines in GROUPS.items():
            with formatter.section(group):
                formatter.write_dl([(name.ljust(width), line) for name, line in lines.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Complete command names from the table, and the group's own options."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only while a person types

        rows = [
            CompletionItem(name, help=line) for name, line in COMMANDS.items() if name.startswith(incomplete)
        ]
        return [*rows, *click.Command.shell_complete(self, ctx, incomplete)]


def _print_version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's signature
    if value and not ctx.resilient_parsing:
        from launcher.version import read_version  # noqa: PLC0415 - as below

        echo(f"gpulaunch {read_version()}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version.",
)
def cli() -> None:
    """Check GPU hosts, launch training on them over SSH, and leave nothing behind."""


def main() -> None:
    """Run the command line and exit."""
    # Python 3.12 warns of "\d" in a script that is read, libraries of what they will change: no user of the
    # command can act on it, and PYTHONWARNINGS=error is meant for trainings. `python -X dev` shows all.
    if not sys.flags.dev_mode:
        warnings.simplefilter("ignore")
    # Few of our objects are in circles; looking for them cost 5 % of a preflight.
    gc.set_threshold(50_000, 20, 20)
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a name of arbitrary bytes must not end in an encoding error
            stream.reconfigure(errors="backslashreplace")
    atexit.register(_handle_ends, signal.SIG_IGN)  # the last of all: the interpreter forgets handlers next
    try:
        code = run_command_line(sys.argv[1:])
    except KeyboardInterrupt:  # one more, while the first was reported
        code = ExitCode.INTERRUPTED
    # All is said: one more Ctrl-C, which does not come with the last one, ends the process with this code.
    ended = time.monotonic()
    _handle_ends(lambda *_: os._exit(code) if time.monotonic() - ended >= 0.25 else None)
    _flush_streams()
    gc.freeze()  # the interpreter would look through all modules for circles before it exits: 25 ms
    sys.exit(code)


def _handle_ends(handle: Callable[..., object] | signal.Handlers) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        with suppress(ValueError):  # not the main thread
            signal.signal(number, handle)


def _flush_streams() -> None:
    """Write out what is buffered, or drop it: an interpreter that fails to do so exits with 120 instead."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            _drop(stream)


def _open_streams() -> None:
    """Give a standard stream that is closed a place to go, before a connection gets its number."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


class _InternalError(GpulaunchError, exit_code=ExitCode.BUG, code="bug"):
    """Whatever no class foresees; its traceback is kept for the report."""


class _Interrupted(GpulaunchError, exit_code=ExitCode.INTERRUPTED, code="interrupted"):
    """A person ended the command; only --json has anything to say about it."""


class _TerminalClosed(GpulaunchError, exit_code=ExitCode.TERMINAL_CLOSED, code="terminal-closed"):
    """What was to be shown has no reader any more; --json in a file has this."""


class _Usage(BadInput, code="usage"):
    """The command line is wrong."""


def run_command_line(argv: Sequence[str], group: click.Command = cli) -> int:
    """Run one command line; return its exit code. Every error a user can meet is reported by this
    function alone.
    """
    codes_printed.clear()
    try:
        demand_address_space()
        code = _invoke(argv, group)
        sys.stdout.flush()
    except BrokenPipeError:
        _drop(sys.stdout)
        return ExitCode.BROKEN_PIPE
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - what no class foresees is kept as a bug
        if isinstance(error, GpulaunchError) and error.fix:
            error.fix = _typed_again(error.fix, argv)
        failure = _failure(error, argv)
        if codes_printed:
            return codes_printed[-1] if isinstance(failure, _Interrupted) else failure.exit_code
        if not {"--json", "--jsonl"}.isdisjoint(takewhile(lambda word: word != "--", argv)):
            _print_document(failure, indent=None if "--jsonl" in argv else 1)
        return failure.exit_code
    else:
        return code


def _typed_again(fix: str, argv: Sequence[str]) -> str:
    from launcher.config.host_access_args import (  # noqa: PLC0415 - only for a mistake
        complete_commands,
        complete_run_commands,
        read_access_words,
        read_run_words,
    )

    if words := read_run_words(argv):
        return complete_run_commands(fix, words)
    return complete_commands(fix, read_access_words(argv))


def _help_width() -> int:
    """Return how wide click lays --help out; it would import shutil for it, a tenth of all the time.

    Source: click.formatting.HelpFormatter and shutil.get_terminal_size.
    """
    given = os.environ.get("COLUMNS", "")
    try:
        columns = int(given) if given.isdigit() and int(given) else os.get_terminal_size(1).columns
    except OSError:
        columns = COLUMNS
    return max(min(columns or COLUMNS, COLUMNS) - 2, 50)


def _failure(error: BaseException, argv: Sequence[str]) -> GpulaunchError:
    """Report an error on stderr; return it as one of ours."""
    is_end = isinstance(error.__context__, EOFError)  # click raises Abort from None, which hides no context
    if isinstance(error, KeyboardInterrupt) or (isinstance(error, click.exceptions.Abort) and not is_end):
        return _Interrupted("interrupted", "type the command again")
    if isinstance(error, click.exceptions.Abort):
        with suppress(OSError):
            echo(err=True)  # the question is on this line
        return _report(ConfirmationRequired())
    if isinstance(error, click.ClickException):
        from launcher.commands._usage_errors import describe_usage_error  # noqa: PLC0415 - only for a mistake

        command = f"gpulaunch {argv[0]}" if argv and argv[0] in COMMANDS else "gpulaunch"
        return _report(_Usage(*describe_usage_error(error, command)))
    if isinstance(error, GpulaunchError):
        return _report(error)
    from launcher.terminal.hangup import drop_terminal, is_terminal_closed  # noqa: PLC0415 - only for an error

    if is_terminal_closed(error):
        drop_terminal()
        return _TerminalClosed("the terminal was closed", "type the command again")
    return _report(_of_system(error) if isinstance(error, OSError) else _bug(error))


def _print_document(error: GpulaunchError, *, indent: int | None) -> None:
    """Print the error as the one document of --json, with what the command had to say before it failed."""
    fix = error.fix or "put right what the message names, then type the command again"
    about = {"code": error.code, "message": error.message, "fix": fix, "hosts": list(error.hosts)}
    said = error.document if error.document is not None else {"schema": "gpulaunch.error/1"}
    with suppress(OSError):
        echo_json({**said, "exit_code": error.exit_code, "error": about}, indent=indent)


def _invoke(argv: Sequence[str], group: click.Command) -> int:
    streams = sys.stdout, sys.stderr
    try:
        result = group.main(
            list(argv), prog_name="gpulaunch", standalone_mode=False, terminal_width=_help_width()
        )
    except SystemExit as leaving:
        if sys.stdout is not streams[0]:  # click wraps the streams when a pipe broke, and makes it exit 1
            sys.stdout, sys.stderr = streams
            raise BrokenPipeError from None
        return leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    return result if isinstance(result, int) else 0


def _report(error: GpulaunchError) -> GpulaunchError:
    first, *more = (one_line(line, _LONGEST_LINE) for line in (error.summary or error.message).split("\n"))
    lines: list[StyledLine] = [[("1;31", "error:"), ("", f" {first}")], *(f"  {line}" for line in more)]
    if error.fix and not error.summary:
        indents = chain(["  fix: "], repeat(" " * 7))
        lines += [f"{indent}{line}" for indent, line in zip(indents, error.fix.split("\n"), strict=False)]
    with suppress(OSError):  # stderr may be gone too; the exit code still says it
        echo_lines(lines, err=True)
    return error


def _of_system(error: OSError) -> GpulaunchError:
    where = f": {error.filename}" if error.filename else ""
    if error.errno in FULL_ERRNOS:
        fix = "make room, then try again" if where else "make room where the output goes, then try again"
        return RunAborted(f"no space left{where}", fix)
    if error.errno in _MEDIUM_ERRNOS or (error.errno in _ENVIRONMENT_FIXES and where):
        return RunAborted(f"{error.strerror or error}{where}", _ENVIRONMENT_FIXES.get(error.errno or 0, ""))
    if error.errno == errno.ENAMETOOLONG:
        name = str(error.filename or "")[:_SHOWN_NAME]
        return BadInput(
            f"{name}...: {error.strerror}", "a text in place of a file comes from stdin (diagnose -)"
        )
    if error.errno == errno.ENOENT and not _has_directory():
        return BadInput("the current directory has been deleted", "cd to one that exists")
    return _bug(error)


def _has_directory() -> bool:
    try:
        os.getcwd()  # noqa: PTH109 - asked of the kernel; a Path says "." to all
    except OSError:
        return False
    return True


def _bug(error: BaseException) -> GpulaunchError:
    from launcher.crash_log import write_crash_log  # noqa: PLC0415 - only for a bug
    from launcher.version import read_version  # noqa: PLC0415

    kept = write_crash_log(error, read_version())
    text = f"gpulaunch itself failed ({type(error).__name__}); this is a bug"
    return _InternalError(text, f"please report it with {kept}" if kept else "please report it")


def _drop(stream: TextIO) -> None:
    """Point a stream to nowhere, so that the interpreter's last flush does not complain."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


if __name__ == "__main__":
    main()
