"""The layers of the packages, as a table and as imports."""

import functools
from collections.abc import Iterator, Mapping

from tests.launcher.sources import SOURCES, reached, shown

# From top to bottom; those of one layer do not import each other. Root modules have a place too.
LAYERS = {
    "launcher": (
        ("__main__",),
        ("cli",),
        ("commands", "crash_log"),
        ("restart", "top"),
        ("deep", "rehearsal", "runs"),
        ("launch",),
        ("report",),
        ("sync",),
        ("cleanup", "host_checks", "scaffold"),
        ("slurm", "terminal"),
        ("follow",),
        ("remote",),
        ("planning", "transports"),
        ("config", "lint", "rundir"),
        ("engines", "error_codes", "local"),
        ("errors",),
        ("durations", "exit_codes", "onhost", "safe_json", "text", "version"),
    ),
    "preflight": (
        ("checks", "diagnosis", "smi_reports"),
        ("decide", "deep", "leftovers", "script"),
        ("facts", "probes"),
        ("errors", "job"),
        ("frozen", "regex"),
    ),
}
MOST_MODULES = {"launcher": 10, "preflight": 4}  # beside the packages
MOST_LINES_OF_MODULE, MOST_LINES_OF_FUNCTION = 400, 60
CIRCLES = {
    "preflight.script.interpreter": "a call changes arguments, makes objects and wraps functions: these call"
}
"""Packages whose own modules may import each other in a circle, and why."""
MODULES = {
    shown(path).removesuffix(".py").replace("/", ".").removesuffix(".__init__"): path for path in SOURCES
}


@functools.cache
def edges() -> dict[str, set[str]]:
    """Return what imports what, blocks for type checkers included."""
    return {name: reached(path, set(MODULES), types=True) - {name} for name, path in MODULES.items()}


def unit(module: str) -> str:
    """Return the package of a wing that a module belongs to, or the module's own name."""
    return ".".join(module.split(".")[:2])


def circles(graph: Mapping[str, set[str]]) -> Iterator[list[str]]:
    """Yield every set of names that reach each other (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []

    def visit(name: str) -> Iterator[list[str]]:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(graph.get(name, ())):
            if other not in index:
                yield from visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            at = stack.index(name)
            group = sorted(stack[at:])
            del stack[at:]
            if len(group) > 1:
                yield group

    for name in sorted(graph):
        if name not in index:
            yield from visit(name)
