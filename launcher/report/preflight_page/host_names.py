"""Names of hosts in a preflight page: a folded range, and all of it where the range is cut."""

from collections.abc import Iterable

from launcher.config.host_sets import host_range, short_host_range
from launcher.report.html.escape import text
from launcher.text import counted


def host_list(hosts: Iterable[str]) -> str:
    """Return hosts as markup: a range; one that is longer than a line opens to the whole."""
    names = tuple(hosts)
    short, whole = short_host_range(names), host_range(names)
    if short == whole:
        return text(short)
    return f"<details><summary>{text(short)}</summary>{text(whole)}</details>"


def row_head(hosts: tuple[str, ...]) -> str:
    """Return the head of a table's row."""
    many = f' <span class="soft">{counted(len(hosts), "host")}</span>' if len(hosts) > 1 else ""
    return f'<th scope="row">{host_list(hosts)}{many}</th>'
