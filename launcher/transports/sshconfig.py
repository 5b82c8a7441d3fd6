"""From a host of the inventory to an Endpoint: hosts.yaml wins, then ssh_config, then ssh's defaults."""

import getpass
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from launcher.errors import BadInput, ConfigError, NameNotResolved
from launcher.inventory import HostEntry, Inventory
from launcher.transports import open_endpoint
from launcher.transports.base import Connection, Endpoint, NewHostKeys, OpenOptions
from launcher.transports.ssh_config_file import Line, expand, lookup

DEFAULT_CONNECT_TIMEOUT_S = 10.0

_DEEPEST_JUMP = 8
_STRICT: dict[str, NewHostKeys] = {
    **dict.fromkeys(("yes", "true", "ask"), "refuse"),
    "accept-new": "accept",
    **dict.fromkeys(("no", "false", "off"), "unchecked"),
}
_Values: TypeAlias = dict[str, list[Line]]


def opener_for(
    inventory: Inventory, options: OpenOptions, ssh_config: Path | None = None
) -> Callable[[HostEntry], Connection]:
    """Return what opens hosts of this inventory: `endpoint_for`, then `open_endpoint`."""

    def opener(entry: HostEntry) -> Connection:
        try:
            return open_endpoint(endpoint_for(entry, inventory, ssh_config), options)
        except NameNotResolved as error:
            near = "" if entry.listed else inventory.nearest(entry.alias)
            if not near:
                raise
            raise NameNotResolved(entry.name, error.detail, f'did you mean "{near}" of hosts.yaml?') from None

    return opener


def endpoint_for(entry: HostEntry, inventory: Inventory, ssh_config: Path | None = None) -> Endpoint:
    """Merge what hosts.yaml and ssh_config say about a host. Raises ConfigError.

    `ssh_config` None means the user's and the system's own files.
    """
    if entry.is_local:
        return Endpoint(entry.name, "local", "")
    return _endpoint(entry, inventory, ssh_config, ())


def _endpoint(
    entry: HostEntry, inventory: Inventory, ssh_config: Path | None, behind: tuple[str, ...]
) -> Endpoint:
    alias = entry.alias or entry.name
    values = lookup(ssh_config, alias, entry.user)
    port = entry.port or _number(values, "port", 22, 65535)
    user = entry.user or _text(values, "user") or getpass.getuser()
    host = _text(values, "hostname")
    address = entry.address or (expand(host, alias, alias, str(port), user) if host else alias)

    def expanded(text: str) -> str:
        return expand(text, alias, address, str(port), user)

    jump = entry.jump or _jump(values)
    return Endpoint(
        name=entry.name,
        transport="ssh",
        address=address,
        port=port,
        user=user,
        identity_files=_identity_files(entry, values, expanded),
        certificate_files=tuple(
            expanded(line.text) for line in values.get("certificatefile", ()) if line.text.lower() != "none"
        ),
        jumps=_jumps(jump, entry, inventory, ssh_config, (*behind, entry.name)),
        proxy_command="" if jump else _proxy_command(values, expanded),
        known_hosts_files=_paths(values, "userknownhostsfile", expanded),
        identity_agent=expanded(_text(values, "identityagent")),
        identities_only=_text(values, "identitiesonly").lower() in ("yes", "true"),
        new_host_keys=_new_host_keys(values),
        host_key_alias=expanded(_text(values, "hostkeyalias")),
        connect_timeout_s=float(_number(values, "connecttimeout", int(DEFAULT_CONNECT_TIMEOUT_S), 3600)),
    )


def _identity_files(entry: HostEntry, values: _Values, expanded: Callable[[str], str]) -> tuple[str, ...]:
    named = (entry.identity_file,) if entry.identity_file else ()
    rest = tuple(
        expanded(line.text) for line in values.get("identityfile", ()) if line.text.lower() != "none"
    )
    return tuple(dict.fromkeys(named + rest))


def _new_host_keys(values: _Values) -> NewHostKeys:
    lines = values.get("stricthostkeychecking")
    word = lines[0].text.lower() if lines else "ask"
    if word not in _STRICT:
        where = lines[0].where if lines else ""
        raise ConfigError(
            f"{where}: stricthostkeychecking: expected yes, ask, accept-new or no, got {word!r}"
        )
    return _STRICT[word]


def _jumps(
    jump: tuple[str, ...],
    entry: HostEntry,
    inventory: Inventory,
    ssh_config: Path | None,
    behind: tuple[str, ...],
) -> tuple[Endpoint, ...]:
    """Resolve each hop as a host of its own; the first hop's own jumps, if it has any, come before it."""
    if not jump or jump[0].lower() == "none":
        return ()
    if len(behind) > _DEEPEST_JUMP:
        raise ConfigError(f"{entry.name}: its jump hosts go round in a circle: {' -> '.join(behind)}")
    hops: list[Endpoint] = []
    for word in jump:
        try:
            hop_entry = inventory.entry(word.removeprefix("ssh://"))
        except BadInput as failure:
            raise ConfigError(f"{entry.name}: jump host {word!r}: {failure.message}") from None
        if hop_entry.name in behind:
            continue  # `Host * / ProxyJump bastion` names the bastion for itself too; ssh passes over that
        hop = _endpoint(hop_entry, inventory, ssh_config, behind)
        hops += (*(hop.jumps if not hops else ()), replace(hop, jumps=()))
    return tuple(hops)


def _jump(values: _Values) -> tuple[str, ...]:
    text = _text(values, "proxyjump")
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _proxy_command(values: _Values, expanded: Callable[[str], str]) -> str:
    text = _text(values, "proxycommand")
    return "" if text.lower() == "none" else expanded(text)


def _paths(values: _Values, key: str, expanded: Callable[[str], str]) -> tuple[str, ...]:
    lines = values.get(key)
    return tuple(str(Path(expanded(word)).expanduser()) for word in lines[0].words) if lines else ()


def _text(values: _Values, key: str) -> str:
    lines = values.get(key)
    return lines[0].text if lines else ""


def _number(values: _Values, key: str, default: int, largest: int) -> int:
    lines = values.get(key)
    if not lines or lines[0].text.lower() == "none":
        return default
    text = lines[0].text
    if not text.isdecimal() or not 0 < int(text) <= largest:
        raise ConfigError(f"{lines[0].where}: {key}: expected a number from 1 to {largest}, got {text!r}")
    return int(text)
