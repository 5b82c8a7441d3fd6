"""A question that is answered with y or n."""

import click

from launcher.report.text import clean


def confirm(question: str) -> bool:
    """Ask the person; no is the answer of who only presses Enter."""
    return click.confirm(clean(question, keep_lines=False))
