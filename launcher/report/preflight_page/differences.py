"""What differs between the hosts of a preflight: versions, models and sizes, the majority first."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeVar

from launcher.host_checks.result import PreflightResult
from launcher.report.html.escape import escape
from launcher.report.preflight_page.host_names import render_hosts
from launcher.text import count_alike, count_noun, group_alike
from preflight.facts.gpu import Gpu
from preflight.facts.host import HostFacts, Network, PythonEnv
from preflight.facts.missing import Missing

T = TypeVar("T")
_NOT_READ = "not read"
_MOST_VALUES = 40


Values = Sequence[tuple[str, tuple[str, ...]]]
"""Of a property: (value, its hosts), the most common first."""


def render_differences(result: PreflightResult) -> Iterator[str]:
    """Yield the section; nothing where fewer than two hosts have answered."""
    if len(result.facts) < 2:
        return
    yield "<h2>What differs between the hosts</h2>"
    found = find_differences(result.facts)
    if found:
        rows = (
            f'<tr><th scope="row">{escape(name)}</th><td><ul>{_values(values)}</ul></td></tr>'
            for name, values in found.items()
        )
        yield f'<table class="differences"><tbody>{"".join(rows)}</tbody></table>'
    else:
        yield "<p>Nothing.</p>"
    yield from _rest(result.facts, found)


def _rest(facts: Mapping[str, HostFacts], differing: Collection[str]) -> Iterator[str]:
    """Yield what is equal, and what no host has said: that is not known to be equal."""
    first = next(iter(facts.values()))
    rest = {name: read(first) for name, read in PROPERTIES.items() if name not in differing}
    for words, names in (
        ("Equal on all", [name for name, value in rest.items() if value != _NOT_READ]),
        ("Not read on any", [name for name, value in rest.items() if value == _NOT_READ]),
    ):
        if names:
            yield f'<p class="soft">{words}: {", ".join(map(escape, names))}.</p>'


def find_differences(facts: Mapping[str, HostFacts]) -> dict[str, Values]:
    """Return the properties of which hosts have different values; what was not read is a value of its own."""
    found: dict[str, Values] = {}
    for name, read in PROPERTIES.items():
        groups = group_alike((read(known), host) for host, known in facts.items())
        if len(groups) > 1:
            found[name] = sorted(groups.items(), key=lambda group: -len(group[1]))
    return found


def _values(values: Values) -> str:
    lines = []
    for place, (value, hosts) in enumerate(values[:_MOST_VALUES]):
        kind = "soft" if place == 0 and len(hosts) > len(values[1][1]) else "other"
        shown = "<i>not read</i>" if value == _NOT_READ else escape(value)
        count = f' <span class="soft">({count_noun(len(hosts), "host")})</span>' if len(hosts) > 1 else ""
        lines.append(f'<li class="{kind}"><b>{shown}</b> on {render_hosts(hosts)}{count}</li>')
    if len(values) > _MOST_VALUES:
        lines.append(f'<li class="soft">and {len(values) - _MOST_VALUES} more values</li>')
    return "".join(lines)


def _of(
    section: Callable[[HostFacts], T | Missing], read: Callable[[T], object]
) -> Callable[[HostFacts], str]:
    """Return what reads a property of a part of the facts, which a host may not have sent."""

    def shown(facts: HostFacts) -> str:
        part = section(facts)
        value = None if isinstance(part, Missing) else read(part)
        return _NOT_READ if value in (None, "") or isinstance(value, Missing) else str(value)

    return shown


def _of_python(read: Callable[[PythonEnv], object]) -> Callable[[HostFacts], str]:
    return _of(lambda facts: facts.python, read)


def _package(name: str) -> Callable[[HostFacts], str]:
    return _of_python(lambda python: python.packages.get(name, "not installed"))


def _models(gpus: tuple[Gpu, ...]) -> str:
    return count_alike([_NOT_READ if isinstance(gpu.name, Missing) else gpu.name for gpu in gpus]) or "none"


def _mtu(network: Network) -> int | None:
    return next((each.mtu for each in network.interfaces if each.name == network.default_interface), None)


PROPERTIES: Mapping[str, Callable[[HostFacts], str]] = {
    "GPUs": _of(lambda facts: facts.gpus, _models),
    "driver": _of(lambda facts: facts.driver, lambda driver: driver.version),
    "torch": _package("torch"),
    "CUDA of torch": _of_python(lambda python: python.torch_cuda),
    "NCCL": _of_python(lambda python: python.nccl),
    "accelerate": _package("accelerate"),
    "transformers": _package("transformers"),
    "Python": _of_python(lambda python: python.version),
    "kernel": _of(lambda facts: facts.identity, lambda identity: identity.kernel),
    "machine": _of(lambda facts: facts.identity, lambda identity: identity.machine),
    "CPUs": _of(lambda facts: facts.limits, lambda limits: limits.cpus),
    "memory": _of(lambda facts: facts.limits, lambda limits: f"{limits.memory_total_mib / 1024:.0f} GiB"),
    "MTU of the default interface": _of(lambda facts: facts.network, _mtu),
    "script (SHA-256)": _of(lambda facts: facts.script, lambda script: script.sha256[:12]),
}
