"""Names of hosts in a preflight page: a folded range, and all of it where the range is cut."""

from collections.abc import Iterable

from launcher.config.node_sets import fold_hosts, format_host_range
from launcher.report.html.escape import escape
from launcher.text import count_noun


def render_hosts(hosts: Iterable[str]) -> str:
    """Return hosts as markup: a range; one that is longer than a line opens to the whole."""
    names = tuple(hosts)
    short, whole = fold_hosts(names), format_host_range(names)
    if short == whole:
        return escape(short)
    return f"<details><summary>{escape(short)}</summary>{escape(whole)}</details>"


def render_counted_hosts(hosts: tuple[str, ...]) -> str:
    """Return hosts as markup, with their number where they are several."""
    many = f' <span class="soft">{count_noun(len(hosts), "host")}</span>' if len(hosts) > 1 else ""
    return render_hosts(hosts) + many


def render_row_head(hosts: tuple[str, ...]) -> str:
    """Return the head of a table's row."""
    return f'<th scope="row">{render_counted_hosts(hosts)}</th>'
