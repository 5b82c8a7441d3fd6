"""gpulaunch diagnose: what killed a run, from its log."""

import json
import sys
from pathlib import Path
from typing import BinaryIO

import click

from launcher.errors import BadInput
from launcher.report.diagnosis import document, lines
from preflight.diagnosis.diagnose import diagnose

# A log is read whole up to this; of a longer one the beginning and the end, where causes stand.
HEAD_BYTES = 16 << 20
TAIL_BYTES = 48 << 20


@click.command()
@click.argument("logs", nargs=-1, required=True, metavar="FILE|-...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(logs: tuple[str, ...], *, as_json: bool) -> None:
    """Say what killed a run, how sure that is, the lines that prove it, and what to do.

    FILE is any log or terminal paste, of one rank or many; several files are read as one run; - is stdin.
    """
    found = diagnose("\n".join(read(log) for log in logs))
    if as_json:
        click.echo(json.dumps(document(found, logs), indent=1))
        return
    click.echo("\n".join(lines(found)))


def read(log: str) -> str:
    """Return a log's text, bytes that are no UTF-8 replaced. Raises BadInput when it cannot be read."""
    if log == "-":
        return _ends(sys.stdin.buffer.read())
    try:
        with Path(log).open("rb") as file:
            return _ends_of(file)
    except OSError as error:
        raise BadInput(f"{log}: {error.strerror}", "name a log file, or - for stdin") from None


def _ends_of(file: BinaryIO) -> str:
    head = file.read(HEAD_BYTES + TAIL_BYTES + 1)
    if len(head) <= HEAD_BYTES + TAIL_BYTES:
        return _text(head)
    file.seek(-TAIL_BYTES, 2)
    return _text(head[:HEAD_BYTES] + b"\n" + file.read())


def _ends(data: bytes) -> str:
    if len(data) <= HEAD_BYTES + TAIL_BYTES:
        return _text(data)
    return _text(data[:HEAD_BYTES] + b"\n" + data[-TAIL_BYTES:])


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace").replace("\x00", "")
