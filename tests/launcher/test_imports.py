"""Who may import what: one wing never the other, and each dangerous library has one door."""

import ast
import sys

import pytest

from tests.launcher.sources import ON_HOST, OURS, SOURCES, imports, is_on_host, shown, top

ROOMS_ON_HOST = ("preflight.probes", "launcher.onhost")

# Where each may be imported; a trailing / is a folder.
DOORS = {
    "paramiko": ("launcher/transports/ssh/",),
    "cryptography": ("launcher/transports/ssh/",),
    "click": ("launcher/cli.py", "launcher/commands/"),
    "psutil": ("preflight/probes/processes/process_fields.py",),
    "pynvml": (),  # its source is handed to the agent
    "subprocess": ("launcher/transports/", "launcher/remote/shards/client.py", *ON_HOST),
    "socket": ("launcher/transports/", *ON_HOST),
    "torch": ("launcher/onhost/",),
    "yaml": (
        "launcher/config/yaml_reader.py",
        "launcher/config/yaml_bounds.py",
        "launcher/deep/save_expect.py",
        "preflight/script/interpreter/config_files.py",
    ),
    "rich": ("launcher/text.py", "launcher/host_checks/live_table.py", "launcher/top/table.py"),
}


PREFLIGHT = [path for path in SOURCES if shown(path).startswith("preflight/")]
TRAVELS = [path for path in SOURCES if is_on_host(path)]


def test_preflight_never_imports_launcher() -> None:
    assert len(PREFLIGHT) > 100
    found = {shown(path): {top(module) for module in imports(path)} for path in PREFLIGHT}
    assert {name: tops for name, tops in found.items() if tops & (OURS - {"preflight"})} == {}


def test_what_travels_to_a_host_needs_only_the_standard_library_and_what_travels_with_it() -> None:
    assert len(TRAVELS) > 100
    lacking = {}
    for path in TRAVELS:
        allowed = set(sys.stdlib_module_names)
        if shown(path).startswith("preflight/"):
            allowed |= {"psutil", "pynvml"}
        if shown(path).startswith("launcher/onhost/deep/"):
            allowed |= {"torch"}  # its ranks measure with the torch of the host
        elsewhere = {module for module in imports(path) if not module.startswith(ROOMS_ON_HOST)}
        lacking[shown(path)] = {top(module) for module in elsewhere} - allowed
    assert {name: modules for name, modules in lacking.items() if modules} == {}


def test_what_travels_to_a_host_parses_as_python_3_9() -> None:
    for path in TRAVELS:
        ast.parse(path.read_text(), shown(path), feature_version=(3, 9))  # an error names the file


@pytest.mark.parametrize("library", DOORS)
def test_a_library_has_its_door(library: str) -> None:
    users = {shown(path) for path in SOURCES if library in {top(module) for module in imports(path)}}
    assert {user for user in users if not user.startswith(DOORS[library])} == set()


def test_patterns_of_the_client_are_compiled_when_first_asked() -> None:
    """Nor is asked which pattern has matched by identity: a match has the library's own."""
    client = {shown(path): path.read_text() for path in SOURCES if not is_on_host(path)}
    eager = [name for name, text in client.items() if "\nimport re\n" in text and "re.compile(" in text]
    assert not eager, "from preflight import regex as re"
    assert not [name for name, text in client.items() if ".re is " in text]
