"""What a lab leaves for its users: keys, hosts.yaml, ssh_config, known_hosts."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.lab.layout import HostSpec, LabSpec

SSH_HOST = """\
Host {name}
    HostName {address}
    Port 22
    User root
    IdentityFile {out}/id_ed25519
    IdentitiesOnly yes
    UserKnownHostsFile {out}/known_hosts
    GlobalKnownHostsFile /dev/null
    StrictHostKeyChecking yes
    HostKeyAlias {name}
    BatchMode yes
"""


def new_key() -> tuple[str, str]:
    """Return a fresh Ed25519 key as (private in OpenSSH format, public line)."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    return private.decode(), public_line(private.decode())


def public_line(private: str) -> str:
    """Return `ssh-ed25519 AAAA...` of a private key."""
    key = serialization.load_ssh_private_key(private.encode(), None).public_key()
    return key.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()


def known_hosts_line(host: HostSpec) -> str:
    """Return the known_hosts line of a host, under its name and both addresses."""
    return f"{host.name},{host.address},{host.address6} {public_line(host.host_key)}"


def host_entry(spec: LabSpec, host: HostSpec, jumps: Sequence[str] = ()) -> dict[str, Any]:
    """Return what hosts.yaml says of one host."""
    entry: dict[str, Any] = {
        "address": host.address,
        "port": 22,
        "user": "root",
        "identity_file": f"{spec.out}/id_ed25519",
        "python": sys.executable,
    }
    if jumps:
        entry["jump"] = list(jumps)
    return entry


def chain(jumps: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Return the hosts in front of a host, outermost first."""
    hops: list[str] = []
    while name in jumps:
        name = jumps[name]
        hops.insert(0, name)
    return tuple(hops)


def write_all(spec: LabSpec, jumps: Mapping[str, str]) -> None:
    """Write hosts.yaml, ssh_config and known_hosts. `jumps` names the host in front of a host."""
    out = Path(spec.out)
    entries = {host.name: host_entry(spec, host, chain(jumps, host.name)) for host in spec.hosts}
    (out / "hosts.yaml").write_text(yaml.safe_dump({"hosts": entries}, sort_keys=False))
    (out / "known_hosts").write_text("".join(known_hosts_line(host) + "\n" for host in spec.hosts))
    (out / "ssh_config").write_text("\n".join(_ssh_block(spec, host, jumps) for host in spec.hosts))


def _ssh_block(spec: LabSpec, host: HostSpec, jumps: Mapping[str, str]) -> str:
    block = SSH_HOST.format(name=host.name, address=host.address, out=spec.out)
    return block + (f"    ProxyJump {','.join(hops)}\n" if (hops := chain(jumps, host.name)) else "")


def write_identity(out: Path) -> str:
    """Write the key that opens every account of every host; return its public line."""
    private, public = new_key()
    path = out / "id_ed25519"
    path.touch(mode=0o600)
    path.write_text(private)
    (out / "id_ed25519.pub").write_text(public + "\n")
    return public


def remove_all(out: Path, names: Sequence[str] = ("hosts.yaml", "ssh_config", "known_hosts")) -> None:
    """Remove what this module wrote."""
    for name in (*names, "id_ed25519", "id_ed25519.pub"):
        (out / name).unlink(missing_ok=True)
