"""`gpulaunch ssh-config`: what it prints is read by the real `ssh -G`."""

import json
import subprocess
from pathlib import Path

import pytest

from launcher.cli import run_command_line
from launcher.config.inventory import Inventory
from launcher.config.inventory_reader import load_inventory
from launcher.transports.ssh.config_export import export_config
from tests.launcher.sshd import require_ssh

HOSTS = """
defaults:
  user: ana
  jump: bastion
hosts:
  bastion: {address: gate.example.org, port: 2222, user: "CORP\\\\ana", jump: []}
  "l40s-[01-02]": {address: "10.0.0.[1-2]", identity_file: "keys/a b#c%h.pem"}
  v6: {address: "fe80::1%eth0", jump: [bastion, "root@[::1]:41022"]}
  plain: {user: "x#1=,@y", jump: "b2@hop:7"}
"""


def inventory(folder: Path, text: str) -> Inventory:
    (folder / "hosts.yaml").write_text(text)
    return load_inventory(folder / "hosts.yaml")


def exported(found: Inventory) -> tuple[str, dict[str, str]]:
    lines, left_out = export_config(found, tuple(found.hosts.values()))
    return "\n".join(lines) + "\n", left_out


def as_ssh_reads(config: Path, host: str) -> dict[str, str]:
    require_ssh()
    done = subprocess.run(["ssh", "-G", "-F", config, host], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(line.split(" ", 1) for line in reversed(done.stdout.splitlines()) if " " in line)


def test_ssh_reads_what_hosts_yaml_says(tmp_path: Path) -> None:
    text, left_out = exported(inventory(tmp_path, HOSTS))
    assert left_out == {}
    config = tmp_path / "config"
    config.write_text(text + "Host *\n    Port 99\n    User late\n")
    bastion = as_ssh_reads(config, "bastion")
    assert [bastion[key] for key in ("hostname", "port", "user")] == ["gate.example.org", "2222", "CORP\\ana"]
    assert bastion.get("proxyjump", "none") == "none"
    first = as_ssh_reads(config, "l40s-01")
    assert [first[key] for key in ("hostname", "port", "user")] == ["10.0.0.1", "99", "ana"]
    assert first["proxyjump"] == "bastion"
    assert first["identityfile"].replace("%%", "%") == str(tmp_path / "keys" / "a b#c%h.pem")
    v6 = as_ssh_reads(config, "v6")
    assert (v6["hostname"], v6["proxyjump"]) == ("fe80::1%eth0", "bastion,root@[::1]:41022")
    plain = as_ssh_reads(config, "plain")
    assert (plain["hostname"], plain["user"], plain["proxyjump"]) == ("plain", "x#1=,@y", "b2@hop:7")


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("{identity_file: '/k\"\\n  ProxyCommand touch /x'}", "a quote or a control character"),
        ("{identity_file: '/k/\\x'}", None),
        ("{identity_file: '/k/\\\\x'}", "a backslash"),
        ("{identity_file: '/k/x\\'}", "a backslash"),
        ("{identity_file: '/${HOME}/x'}", "would look up the variable"),
        ("{user: 'a%b'}", "a percent sign"),
        ("{via: {docker: box}, address: 10.0.0.1}", "ssh knows no such way"),
        ("{jump: 'me@hop', identity_file: /k}", None),
    ],
)
def test_what_openssh_would_read_as_something_else_is_left_out(
    tmp_path: Path, host: str, why: str | None
) -> None:
    text, left_out = exported(inventory(tmp_path, f"hosts:\n  odd: {host}\n  fine: {{address: 10.0.0.2}}\n"))
    assert "Host fine\n    HostName 10.0.0.2" in text
    assert ("Host odd" in text) is (why is None)
    assert why is None or why in left_out["odd"]
    assert not any(line.strip().startswith("ProxyCommand") for line in text.splitlines())


def test_jump_hosts_come_along_and_circles_are_left_out(tmp_path: Path) -> None:
    found = inventory(
        tmp_path,
        "hosts:\n  gate: {address: 10.0.0.9}\n  inner: {jump: gate}\n  a: {jump: b}\n  b: {jump: a}\n",
    )
    lines, _ = export_config(found, found.resolve(["inner"]))
    assert [line for line in lines if line.startswith("Host ")] == ["Host inner", "Host gate"]
    assert "circle" in export_config(found, found.resolve(["a"]))[1]["a"]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "hosts.yaml").write_text("hosts:\n  a: {address: 10.0.0.1}\n  box: {via: {docker: box}}\n")
    where = ["-i", str(tmp_path / "hosts.yaml")]
    assert run_command_line(["ssh-config", *where]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines()[1:3] == ["Host a", "    HostName 10.0.0.1"]
    assert "box is left out" in printed.err
    assert run_command_line(["ssh-config", *where, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["config"]) == ("gpulaunch.ssh-config/1", printed.out)
    assert list(document["left_out"]) == ["box"]
    assert run_command_line(["ssh-config", *where, "stranger"]) == 2
    told = capsys.readouterr().err
    assert "stranger: not in hosts.yaml" in told
    assert "--hosts stranger shows what to add" in told
