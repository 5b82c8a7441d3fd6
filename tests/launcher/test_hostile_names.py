"""A host's or a user's name, wherever it comes from, is never more than a name to a shell."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launcher.config.host_names import is_host, is_plain_host, is_user
from launcher.config.inventory import HostEntry, Inventory, check_entry
from launcher.config.inventory_reader import load_inventory
from launcher.errors import BadInput, ConfigError, HostError
from launcher.planning.run_record import read_record
from launcher.transports.base import OpenOptions
from launcher.transports.ssh.config_values import Tokens
from launcher.transports.ssh.endpoint import build_endpoint, build_opener
from tests.launcher.run_plans import RUN_ID

ATTACKS = (
    "`touch PWNED`",
    "$(touch${IFS}PWNED)",
    "$(touch$IFS./PWNED)",
    "x;touch$IFS./PWNED",
    "x&touch$IFS./PWNED",
    "x|touch$IFS./PWNED",
    "x\ntouch PWNED",
    "x touch PWNED",
    "'x';touch PWNED;'",
    '"x";touch PWNED;"',
    "-oProxyCommand=touch PWNED",
    "-x",
    "$IFS-oProxyCommand=touch",
    "x>PWNED",
    "x<PWNED",
    "x{a,b}",
    "*",
    "?",
    "x\\",
    "x\t-y",
    "x\x07",
    "x\x00y",
    "x\u2028touch",
    "x\u202ey",
    "b\u00fccher",
    "\uff40id\uff40",
    "~root",
    "!x",
    "#x",
)


def hosts_yaml(folder: Path, name: str, **keys: Any) -> Inventory:
    """Return the inventory of a hosts.yaml of one host; JSON is YAML, whatever the text holds."""
    path = folder / "hosts.yaml"
    path.write_text(json.dumps({"hosts": {name: keys}}))
    return load_inventory(path)


def record(**way: Any) -> HostEntry:
    node = {"host": way.pop("host", "gpu-01"), "node_rank": 0, "first_rank": 0, "python": "python3"}
    data = {
        "run_id": RUN_ID,
        "job": "j",
        "world_size": 1,
        "main_address": "",
        "main_port": 1,
        "started_by": "a",
        "at": 1,
    }
    slots: dict[str, Any] = {"slots": [[0, None, None, ""]], "masked": False, "way": way}
    return read_record({**data, "mixed_precision": "no", "nodes": [node | slots]}).entries[0]


ORIGINS: dict[str, Callable[[Path, str], tuple[Inventory, HostEntry]]] = {}


def origin(function: Callable[[Path, str], HostEntry | tuple[Inventory, HostEntry]]) -> None:
    def made(folder: Path, text: str) -> tuple[Inventory, HostEntry]:
        got = function(folder, text)
        return got if isinstance(got, tuple) else (Inventory(), got)

    ORIGINS[function.__name__] = made


@origin
def address_in_hosts_yaml(folder: Path, text: str) -> tuple[Inventory, HostEntry]:
    inventory = hosts_yaml(folder, "gpu-01", address=text)
    return inventory, inventory.hosts["gpu-01"]


@origin
def user_in_hosts_yaml(folder: Path, text: str) -> tuple[Inventory, HostEntry]:
    inventory = hosts_yaml(folder, "gpu-01", user=text)
    return inventory, inventory.hosts["gpu-01"]


@origin
def name_in_hosts_yaml(folder: Path, text: str) -> tuple[Inventory, HostEntry]:
    inventory = hosts_yaml(folder, text)
    return inventory, next(iter(inventory.hosts.values()))


@origin
def jump_in_hosts_yaml(folder: Path, text: str) -> tuple[Inventory, HostEntry]:
    inventory = hosts_yaml(folder, "gpu-01", jump=[text])
    return inventory, inventory.hosts["gpu-01"]


@origin
def user_of_a_jump_in_hosts_yaml(folder: Path, text: str) -> tuple[Inventory, HostEntry]:
    inventory = hosts_yaml(folder, "gpu-01", jump=[f"{text}@gate"])
    return inventory, inventory.hosts["gpu-01"]


@origin
def command_line(_folder: Path, text: str) -> HostEntry:
    return Inventory().resolve([text])[0]


@origin
def user_on_the_command_line(_folder: Path, text: str) -> HostEntry:
    return Inventory().resolve([f"{text}@gpu-01"])[0]


@origin
def group_in_hosts_yaml(folder: Path, text: str) -> tuple[Inventory, HostEntry]:
    path = folder / "hosts.yaml"
    path.write_text(json.dumps({"hosts": {"gpu-01": None}, "groups": {"g": [text]}}))
    inventory = load_inventory(path)
    return inventory, inventory.resolve(["g"])[0]


for door in ("host", "address", "user", "alias"):

    def _way(_folder: Path, text: str, door: str = door) -> HostEntry:
        return record(**{door: text})

    _way.__name__ = f"{door}_in_a_record"
    origin(_way)


@origin
def jump_in_a_record(_folder: Path, text: str) -> HostEntry:
    return record(jump=[text])


def open_from(made: Callable[[Path, str], tuple[Inventory, HostEntry]], folder: Path, text: str) -> None:
    inventory, entry = made(folder, text)
    build_opener(inventory, OpenOptions(), folder / "config")(entry)


@pytest.mark.parametrize("name", ORIGINS)
def test_no_name_of_a_host_or_user_reaches_a_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "config"
    config.write_text(
        f"Host *\n ProxyCommand touch {tmp_path}/RAN; : %h %n %r %k %p; exit 1\n"
        f'Match exec "touch {tmp_path}/RAN; : %h %n %r %k"\n Port 1\n'
    )
    for text in ATTACKS:
        with pytest.raises(BadInput):
            open_from(ORIGINS[name], tmp_path, text)
        assert not (tmp_path / "RAN").exists(), text
        assert not (tmp_path / "PWNED").exists(), text


@pytest.mark.slow
def test_what_is_refused_would_have_run(tmp_path: Path) -> None:
    """The attack above is one: unchecked, the shell of ProxyCommand obeys it."""
    config = tmp_path / "config"
    config.write_text(f"Host *\n ProxyCommand touch {tmp_path}/RAN; exit 1\n")
    with pytest.raises(HostError):
        build_opener(Inventory(), OpenOptions(), config)(HostEntry("gpu-01"))
    assert (tmp_path / "RAN").exists()


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("User `id`\nProxyCommand nc -l %r %h\n", r"config:2: %r is \"`id`\""),
        ('User a$IFS-b\nMatch exec "id %r"\n Port 1\n', r"config:2: %r is"),
        ("HostKeyAlias $(id)\nProxyCommand nc %k\n", r"config:2: %k is"),
        ("HostName $(id)\n", r"config:1: hostname: \"\$\(id\)\" is not a host"),
        ('HostName $(id)\nMatch exec "id %h"\n Port 1\n', r"config:2: %h is"),
        ('Port `id`\nMatch exec "id %p"\n Port 1\n', r"config:2: %p is"),
        ("ProxyJump `id`\n", "jump host '`id`'"),
    ],
)
def test_values_of_ssh_config_are_names_too_where_a_shell_gets_them(
    tmp_path: Path, text: str, word: str
) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(ConfigError, match=word):
        build_endpoint(HostEntry("titan"), Inventory(), tmp_path / "config")


@pytest.mark.parametrize("words", [["preflight", "gpu-01"], ["preflight", "`touch PWNED`"], ["ps", "gpu-01"]])
def test_the_commands_refuse_before_anything_runs(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/config").write_text(f"Host *\n ProxyCommand cd {tmp_path} && : %h %n\n")
    (tmp_path / "hosts.yaml").write_text('hosts: {gpu-01: {address: "`touch PWNED`"}}\n')
    here = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-m", "launcher.cli", *words],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path), "PYTHONPATH": here},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert "hosts.yaml:1: hosts.gpu-01.address: expected a name or IP address" in done.stderr
    assert not (tmp_path / "PWNED").exists()


def test_names_that_ssh_takes_are_taken() -> None:
    for host in ("titan", "l40s-01.example.org", "a_b", "10.0.0.7", "::1", "fe80::1%eth0", "gpu+1", "1"):
        assert is_host(host), host
    for user in ("ada", "ada.l", "CORP\\ada", "ada@corp.example", "ada#1", "_svc", "a-b", "1000"):
        assert is_user(user), user


def test_a_record_names_hosts_by_addresses_and_dns_names_only() -> None:
    for host in ("titan", "l40s-01.example.org.", "a_b", "10.0.0.7", "fd00::7"):
        assert is_plain_host(host), host
    for host in ("127.1", "2130706433", "0x7f000001", "a..b", ".a", "a+b", "x" * 64, "a." * 130 + "a", ""):
        assert not is_plain_host(host), host
    wrong: tuple[dict[str, Any], ...]
    wrong = {"address": "127.1"}, {"jump": ["ada@gate:22", "2130706433"]}, {"port": 65536}
    for way in wrong:
        with pytest.raises(BadInput, match="cannot be right"):
            record(**way)
    assert not check_entry(record(address="10.0.0.7", user="ada", jump=["ada@gate:22"]), sent=True)


def test_a_users_name_with_a_domain_goes_with_its_host() -> None:
    entry = Inventory().lookup("ada@corp.example@titan:2222")
    assert (entry.user, entry.alias, entry.port) == ("ada@corp.example", "titan", 2222)


def test_every_token_of_a_command_is_checked() -> None:
    assert Tokens("a", "b", "22", "c").expand_command("x %n %h %p %r %%", "f:1") == "x a b 22 c %"
