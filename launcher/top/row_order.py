"""Which lines the screen has and in which order: sorted, filtered, idle hosts folded. Pure."""

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, get_args

from launcher.top.views import FleetView, GpuView, HostView
from preflight.frozen import dataclass

SortKey = Literal["host", "use", "memory", "user"]
Filter = Literal["all", "free", "mine"]
SORT_KEYS: tuple[SortKey, ...] = get_args(SortKey)


@dataclass(frozen=True, slots=True)
class RowOptions:
    """What a person has chosen. Idle hosts are folded, with `by_host` all; the two sets are exceptions."""

    sort: SortKey = "host"
    only: Filter = "all"
    by_host: bool = False
    folded: frozenset[str] = frozenset()
    unfolded: frozenset[str] = frozenset()

    def folds(self, host: HostView) -> bool:
        """Return whether a host is one line."""
        if not host.gpus or host.name in self.unfolded:
            return False
        return host.name in self.folded or (host.idle and self.only != "mine") or self.by_host


@dataclass(frozen=True, slots=True)
class Row:
    """One line: a GPU, or (`gpu` None) a host as a whole. `leads`: it names its host."""

    host: HostView
    gpu: GpuView | None
    leads: bool = True

    @property
    def key(self) -> tuple[str, int]:
        """What stays the same from one refresh to the next."""
        return self.host.name, -1 if self.gpu is None else self.gpu.index


def build_rows(view: FleetView, options: RowOptions) -> tuple[Row, ...]:
    """Return the lines from the top. Hosts without current numbers come last where a value sorts."""
    rows = [row for host in view.hosts for row in _host_rows(host, options)]
    if options.sort == "host":
        return tuple(rows)
    order = _ORDERS[options.sort]
    rows.sort(key=lambda row: (row.gpu is None, not row.host.current, *order(row)))
    return tuple(Row(row.host, row.gpu) for row in rows)


def _host_rows(host: HostView, options: RowOptions) -> Iterator[Row]:
    shown = [gpu for gpu in host.gpus if _is_wanted(host, gpu, options.only)]
    if not host.gpus:
        if options.only == "all":
            yield Row(host, None)
        return
    if options.folds(host):
        if shown:
            yield Row(host, None)
        return
    introduced = bool(host.note) or not host.current
    if shown and introduced:
        yield Row(host, None)
    for at, gpu in enumerate(shown):
        yield Row(host, gpu, leads=at == 0 and not introduced)


def _is_wanted(host: HostView, gpu: GpuView, only: Filter) -> bool:
    if only == "free":
        return host.current and gpu.free
    return gpu.mine if only == "mine" else True


def _gpus(row: Row) -> tuple[GpuView, ...]:
    return row.host.gpus if row.gpu is None else (row.gpu,)


def _most(values: Iterable[float | None]) -> tuple[object, ...]:
    """Return what sorts the largest mean first, and last where no value is known."""
    known = [value for value in values if value is not None]
    return not known, -sum(known) / max(1, len(known))


def _by_user(row: Row) -> tuple[object, ...]:
    users = sorted({holder.user for gpu in _gpus(row) for holder in gpu.holders if holder.user})
    return not users, users


_ORDERS: dict[SortKey, Callable[[Row], tuple[object, ...]]] = {
    "use": lambda row: _most(gpu.busy_percent for gpu in _gpus(row)),
    "memory": lambda row: _most(gpu.used_mib for gpu in _gpus(row)),
    "user": _by_user,
}


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts over all hosts. GPUs of hosts without current numbers are unknown, not free."""

    hosts: int
    lost: int
    gpus: int
    held: int
    free: int
    unknown: int
    used_mib: float
    total_mib: float


def count_totals(hosts: Iterable[HostView]) -> Totals:
    """Return the counts of the headline."""
    hosts = tuple(hosts)
    gpus = [(host, gpu) for host in hosts for gpu in host.gpus]
    current = [gpu for host, gpu in gpus if host.current]
    free = sum(gpu.free for gpu in current)
    held = sum(gpu.held is True or (gpu.held is False and gpu.claimed_by is not None) for gpu in current)
    return Totals(
        len(hosts),
        sum(host.phase in ("lost", "silent") for host in hosts),
        len(gpus),
        held,
        free,
        len(gpus) - held - free,
        sum(gpu.used_mib or 0.0 for gpu in current),
        sum(gpu.total_mib or 0.0 for gpu in current if gpu.used_mib is not None),
    )
