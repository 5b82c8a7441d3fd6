"""The client that a host gets is whole: what it imports travels with it, in functions too.

A restart by the host would else end at such an import, long after its client has gone.
"""

import base64
import json
import sys
import zlib

import pytest

from launcher.engines.base import ENGINES
from launcher.remote.client_pack import pack_client
from preflight.checks import runner
from tests.launcher.layers import MODULES
from tests.launcher.sources import OURS, imports, is_on_host, reached, shown, top

ENTRIES = (
    "launcher.restart.on_host",
    # Imported by names that are put together.
    *(f"launcher.engines.{engine.traits.name}" for engine in ENGINES.values()),
    *(f"preflight.checks.{name}" for name in runner.MODULES),
)
NOT_INSTALLED = {
    "ClusterShell": "ranges of hosts: the hosts of a run have names",
    "cryptography": "SSH to other hosts, which needs the user's own client",
    "paramiko": "the same",
    "rich": "tables in a terminal",
}
"""What the client imports when it needs it, and why a restart on a host does not."""


@pytest.fixture(scope="module")
def packed() -> dict[str, str]:
    """Return the texts by the names of the modules that they hold."""
    files = json.loads(zlib.decompress(base64.b64decode(pack_client())))
    return {name[:-3].replace("/", ".").removesuffix(".__init__"): text for name, text in files.items()}


def foreign(module: str, *, later: bool) -> set[str]:
    """Return the packages of others that a module imports."""
    path = MODULES[module]
    if is_on_host(path):  # test_imports.py has what these need, in Python 3.9 as well
        return set()
    return {top(name) for name in imports(path, later=later)} - OURS - sys.stdlib_module_names


def test_a_module_of_the_client_imports_only_what_travels_with_it(packed: dict[str, str]) -> None:
    ours = packed.keys() & MODULES.keys()
    left_out = {
        f"{shown(MODULES[module])} imports {other}"
        for module in ours
        for other in reached(MODULES[module], set(MODULES)) - ours
    }
    assert left_out == set()


def test_a_restart_starts_with_the_standard_library_and_what_travels_with_it(packed: dict[str, str]) -> None:
    seen: set[str] = set()
    pending = list(ENTRIES)
    while pending:
        module = pending.pop()
        if module and module not in seen:
            seen.add(module)
            pending += (module.rpartition(".")[0], *reached(MODULES[module], set(MODULES), later=False))
    assert len(seen) > len(ENTRIES)
    lacking = {(module, name) for module in seen for name in foreign(module, later=False) - packed.keys()}
    assert lacking == set()


def test_what_is_not_installed_on_a_host_is_imported_for_a_declared_reason(packed: dict[str, str]) -> None:
    needed = {name for module in packed.keys() & MODULES.keys() for name in foreign(module, later=True)}
    assert needed - packed.keys() == set(NOT_INSTALLED)
