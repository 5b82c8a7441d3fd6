"""The client that a host gets: what it may import, in functions too, or send travels with it, and no more.

A restart by the host would else end at such an import, long after its client has gone.
"""

import base64
import json
import subprocess
import sys
import zlib
from collections.abc import Iterable
from pathlib import Path

import pytest

from launcher.engines.base import ENGINES
from launcher.onhost.supervisor.daemon.restart_keeper import unpack_files
from launcher.remote import program_source
from launcher.remote.client_pack import pack_client
from launcher.remote.program_source import read_agent_source, read_program_source
from preflight.checks import runner
from preflight.script.rules import all_rules
from tests.launcher.layers import MODULES
from tests.launcher.sources import OURS, ROOT, imports, is_on_host, reached, read, top

ENTRIES = (
    "launcher.restart.on_host",
    # Imported by names that are put together.
    *(f"launcher.engines.{engine.traits.name}" for engine in ENGINES.values()),
    *(f"preflight.checks.{name}" for name in runner.MODULES),
    *(rules.__name__ for rules in all_rules.MODULES),
)
ON_HOST = ROOT / "launcher" / "onhost"
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


def list_reached(*, later: bool) -> set[str]:
    """Return the modules that a restart imports at once, or `later` too."""
    seen: set[str] = set()
    pending = list(ENTRIES)
    while pending:
        module = pending.pop()
        if module and module not in seen:
            seen.add(module)
            pending += (module.rpartition(".")[0], *reached(MODULES[module], set(MODULES), later=later))
    return seen


def find_programs(modules: Iterable[str]) -> set[str]:
    """Return the programs of hosts that these modules name where they send any."""
    senders = {"launcher.remote.program_source", "launcher.remote.rpc"}
    named = {
        text
        for module in modules
        if module in senders or senders & reached(MODULES[module], set(MODULES))
        for text in read(MODULES[module]).texts
    }
    return {path.stem for path in ON_HOST.iterdir() if path.stem in named} - set(program_source._SHARED)


def test_the_pack_has_what_a_restart_may_import_and_no_other_module_of_the_client(
    packed: dict[str, str],
) -> None:
    ours = {name for name in packed.keys() & MODULES.keys() if not is_on_host(MODULES[name])}
    assert ours == {name for name in list_reached(later=True) if not is_on_host(MODULES[name])}
    assert "preflight.script.rules.models" in ours


def test_a_module_lacks_nothing_but_docstrings_in_the_pack(packed: dict[str, str]) -> None:
    bare = 0
    for name in packed.keys() & MODULES.keys():
        text = MODULES[name].read_text()
        if packed[name] != text:
            lines = enumerate(zip(packed[name].splitlines(), text.splitlines(), strict=True), 1)
            changed = {number for number, (sent, line) in lines if sent != line}
            assert changed <= read(MODULES[name]).docstring_lines, name
            bare += 1
    assert bare > 400


def test_the_client_sends_from_the_pack_what_every_client_sends(tmp_path: Path) -> None:
    sent = sorted(find_programs(list_reached(later=True)))
    assert {"supervisor", "rank", "guard", "gauge", "find_checkpoints"} <= {*sent}
    (tmp_path / "pack").write_text(pack_client())
    unpack_files(str(tmp_path / "pack"), str(tmp_path / "code"))
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from launcher.remote import program_source as source; "
        "texts = [source.read_agent_source(), *map(source.read_program_source, sys.argv[2:])]; "
        "print(*map(source.zlib.crc32, texts))"
    )
    argv = [sys.executable, "-I", "-S", "-B", "-c", code, str(tmp_path / "code"), *sent]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    ours = [read_agent_source(), *map(read_program_source, sent)]
    assert done.stdout.split() == [str(zlib.crc32(text)) for text in ours]


def test_a_restart_starts_with_the_standard_library_and_what_travels_with_it(packed: dict[str, str]) -> None:
    seen = list_reached(later=False)
    assert len(seen) > len(ENTRIES)
    lacking = {(module, name) for module in seen for name in foreign(module, later=False) - packed.keys()}
    assert lacking == set()


def test_what_is_not_installed_on_a_host_is_imported_for_a_declared_reason(packed: dict[str, str]) -> None:
    needed = {name for module in packed.keys() & MODULES.keys() for name in foreign(module, later=True)}
    assert needed - packed.keys() == set(NOT_INSTALLED)
