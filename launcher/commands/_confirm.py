"""A question that is answered with y or n."""

import click

from launcher.text import sanitize


def confirm(question: str, *, err: bool = False) -> bool:
    """Ask the person; no is the answer of who only presses Enter. `err` asks on stderr."""
    return click.confirm(sanitize(question, keep_lines=False), err=err)
