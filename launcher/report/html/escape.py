"""Pieces of the HTML report: all that comes in is text, never markup."""

import html
import time
from collections.abc import Iterable, Sequence

from launcher.text import sanitize

_SHORT = 24


def escape(value: object) -> str:
    """Return anything as text that is only text in HTML, without what steers terminals and bidi readers."""
    return html.escape(sanitize(str(value)))


def format_clock(at: float) -> str:
    """Return a moment in local time."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
    except (OverflowError, ValueError, OSError):
        return "?"


def render_pairs(rows: Iterable[tuple[object, object]]) -> str:
    """Return names and values below each other."""
    cells = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in rows)
    return f"<dl>{cells}</dl>"


def render_reasons(rows: Iterable[tuple[object, object]]) -> str:
    """Return sentences as a list, each with its source behind it."""
    items = (f'<li>{escape(what)} <span class="soft">{escape(source)}</span></li>' for what, source in rows)
    return f"<ul>{''.join(items)}</ul>"


def render_tiles(rows: Iterable[tuple[object, object]]) -> str:
    """Return names and values side by side."""
    cells = "".join(f"<div><span>{escape(name)}</span><b>{escape(value)}</b></div>" for name, value in rows)
    return f'<div class="tiles">{cells}</div>'


def render_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table, which scrolls on its own where the window is narrow."""
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(value: object) -> str:
    """Return a cell; what is short, such as a code, a time or a size, stays on one line."""
    kind = ' class="short"' if len(str(value)) <= _SHORT else ""
    return f"<td{kind}>{escape(value)}</td>"
